"""Neural classifiers: a net is a function from a key to an equinox module of one row."""

from peerwise.nets.conv import cnn, lenet
from peerwise.nets.dense import mlp
from peerwise.nets.net import Net, network_of
from peerwise.nets.registry import NETS, network

__all__ = ["NETS", "Net", "cnn", "lenet", "mlp", "network", "network_of"]
