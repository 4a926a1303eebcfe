"""Neural classifiers: a net is a function from a key to an equinox module of one row."""

from peerwise.nets.dense import mlp
from peerwise.nets.net import Net, network_of

__all__ = ["Net", "mlp", "network_of"]
