"""Run a method on a whole network at once: every node is a row of an array.

Rounds are one compiled loop (`program`), in which a node's functions run for all nodes
(`nodes`, `lanes`) and neighbours reply to each other (`replies`). Several devices share a network
(`sharded`) in parts that few links cross (`parts`, `tables`) and bring each other messages
(`exchange`).
"""

from peerwise.runtime import Run
from peerwise.simulate.devices import make_devices, mesh_of, start_processes
from peerwise.simulate.run import simulate

__all__ = ["Run", "make_devices", "mesh_of", "simulate", "start_processes"]
