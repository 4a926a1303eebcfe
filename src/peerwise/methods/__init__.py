"""The papers' algorithms, as compositions, and their centralised references."""

from peerwise.methods.crc import crc, isolated, ml, rc
from peerwise.methods.gossip_nb import federated_nb, gossip_nb
from peerwise.methods.private_crc import private_crc
from peerwise.methods.robust_nb import robust_nb

__all__ = [
    "crc",
    "federated_nb",
    "gossip_nb",
    "isolated",
    "ml",
    "private_crc",
    "rc",
    "robust_nb",
]
