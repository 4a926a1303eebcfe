"""Peerwise: classifiers learnt between neighbours, with no server."""

__version__ = "0.6.0"
