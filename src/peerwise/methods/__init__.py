"""The papers' algorithms, as compositions, and their centralised references."""

from peerwise.methods.baselines import (
    gaussian_nb,
    logistic_regression,
    sklearn_lda,
    sklearn_qda,
)
from peerwise.methods.bayesian import ba_bfl
from peerwise.methods.crc import crc, isolated, isolated_ml, ml, rc
from peerwise.methods.diffusion import average_cvar, cta, cvar_cvar
from peerwise.methods.gossip_nb import federated_nb, gossip_nb
from peerwise.methods.neural import (
    cfa,
    cfa_ge,
    decavg,
    decdiff,
    fedavg,
    isolated_net,
    pooled_net,
)
from peerwise.methods.private_crc import private_crc
from peerwise.methods.relay import relay
from peerwise.methods.relay_gd import relay_gd
from peerwise.methods.robust_nb import robust_nb
from peerwise.methods.sealed import sealed_crc, sealed_nb
from peerwise.methods.tracking import gradient_tracking

__all__ = [
    "average_cvar",
    "ba_bfl",
    "cfa",
    "cfa_ge",
    "crc",
    "cta",
    "cvar_cvar",
    "decavg",
    "decdiff",
    "fedavg",
    "federated_nb",
    "gaussian_nb",
    "gossip_nb",
    "gradient_tracking",
    "isolated",
    "isolated_ml",
    "isolated_net",
    "logistic_regression",
    "ml",
    "pooled_net",
    "private_crc",
    "rc",
    "relay",
    "relay_gd",
    "robust_nb",
    "sealed_crc",
    "sealed_nb",
    "sklearn_lda",
    "sklearn_qda",
]
