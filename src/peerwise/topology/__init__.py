"""Who hears whom: graphs, schedules of graphs, and what can be known of them before a run."""

from peerwise.topology.analysis import graph_of, mixing_matrix, reach, spectral_gap
from peerwise.topology.given import from_file, from_graph
from peerwise.topology.graphs import (
    alone,
    barabasi_albert,
    chain,
    complete,
    erdos_renyi,
    grid,
    named,
    random_tree,
    regular,
    ring,
    server,
    small_world,
    star,
    tree_plus,
)
from peerwise.topology.links import Topology, metropolis, pushes, redrawn, stack

__all__ = [
    "Topology",
    "alone",
    "barabasi_albert",
    "chain",
    "complete",
    "erdos_renyi",
    "from_file",
    "from_graph",
    "graph_of",
    "grid",
    "metropolis",
    "mixing_matrix",
    "named",
    "pushes",
    "random_tree",
    "reach",
    "redrawn",
    "regular",
    "ring",
    "server",
    "small_world",
    "spectral_gap",
    "stack",
    "star",
    "tree_plus",
]
