"""Neural classifiers: a net is a function from a key to an equinox module of one row."""

from peerwise.nets.bayes import BayesianLinear, bayesian, divergence
from peerwise.nets.conv import cnn, lenet
from peerwise.nets.dense import mlp
from peerwise.nets.net import Net, network_of
from peerwise.nets.registry import bayesian_network, network
from peerwise.nets.vary import crop_and_flip

__all__ = [
    "BayesianLinear",
    "Net",
    "bayesian",
    "bayesian_network",
    "cnn",
    "crop_and_flip",
    "divergence",
    "lenet",
    "mlp",
    "network",
    "network_of",
]
