"""Run a method on a whole network at once: every node is a row of an array.

Rounds are one compiled loop (`program`), in which what one node does is done for all (`nodes`,
`lanes`) and neighbours answer each other (`replies`).
"""

from peerwise.simulate.run import Run, simulate

__all__ = ["Run", "simulate"]
