"""What a network must agree upon before it learns: a first phase, from exactly summed counts."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import networkx as nx
import numpy as np

from peerwise.core import Array, Shard
from peerwise.errors import BadSetting
from peerwise.methods.total import server_total, total
from peerwise.models.tan import chow_liu, pair_counts
from peerwise.shards import Shards
from peerwise.simulate import simulate
from peerwise.topology import Topology, from_graph, graph_of

__all__ = ["summed", "tan_structure"]


def summed(count: Any, shards: Shards, topology: Topology, seed: int = 0) -> Any:
    """What every node holds [n, ...] of the sum of `count(shard)`, in double precision.

    Nodes talk to their neighbours in the graph of round 0 until all have it.
    """
    if topology.server:
        run = simulate(server_total(count), shards, topology, 1, precision="float64")
        return run.state.value["total"]
    graph = graph_of(topology)
    if graph.is_directed():
        raise BadSetting("nodes can add up exactly only over links that go both ways")
    if not nx.is_connected(graph):
        raise BadSetting(
            "the graph is in pieces, so its nodes cannot agree on what they need before learning; "
            "join them"
        )
    rounds = 3 * nx.diameter(graph) + 1
    still = from_graph(graph)
    run = simulate(total(count), shards, still, rounds, seed=seed, precision="float64")
    return run.state.value["total"]


@cache
def _count_pairs(cardinalities: tuple[int, ...], classes: int) -> Any:
    count = pair_counts(cardinalities, classes)

    def counted(shard: Shard) -> Array:
        return count(shard.x, shard.y, shard.weight)

    return counted


def tan_structure(
    shards: Shards,
    topology: Topology,
    cardinalities: Sequence[int],
    classes: int,
    seed: int = 0,
) -> np.ndarray:
    """The parents [d] of TAN's tree, which every node finds for itself from the exact sum."""
    cardinalities = tuple(int(r) for r in cardinalities)
    pairs = np.asarray(summed(_count_pairs(cardinalities, classes), shards, topology, seed))
    if (pairs != pairs[:1]).any():  # two nodes drew the same random name: once in a million runs
        raise BadSetting("the nodes did not agree on a sum; run again with another seed")
    return chow_liu(pairs[0], cardinalities)
