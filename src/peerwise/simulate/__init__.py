"""Run a method on a whole network at once: every node is a row of an array.

Rounds are one compiled loop (`program`), in which a node's functions run for all nodes
(`nodes`, `lanes`) and neighbours reply to each other (`replies`).
"""

from peerwise.runtime import Run
from peerwise.simulate.run import simulate

__all__ = ["Run", "simulate"]
