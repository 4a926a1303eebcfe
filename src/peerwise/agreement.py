"""A first phase before learning: nodes agree on a model's options from summed counts."""

from typing import Any

import jax
import networkx as nx
import numpy as np

from peerwise.core import Method
from peerwise.errors import BadSetting
from peerwise.methods.sealed_total import total_of
from peerwise.methods.total import server_total, total
from peerwise.models.family import Phase
from peerwise.shards import Shards
from peerwise.simulate import simulate
from peerwise.topology import Topology, from_graph, graph_of


def summed(count: Any, shards: Shards, topology: Topology, seed: int = 0) -> Any:
    """The sum of `count(shard)` over all nodes, a copy of each node [n, ...], in double precision.

    Nodes send messages to their neighbours in the graph of round 0 until all have the sum.
    """
    if topology.server:
        run = simulate(server_total(count), shards, topology, 1, precision="float64")
        return run.state.value["total"]
    graph = graph_of(topology)
    if graph.is_directed():
        raise BadSetting("nodes can compute an exact sum only over links in both directions")
    if not nx.is_connected(graph):
        raise BadSetting(
            "the graph is not connected, so its nodes cannot agree on what they need before "
            "learning; connect it"
        )
    rounds = 3 * nx.diameter(graph) + 1
    still = from_graph(graph)
    run = simulate(total(count), shards, still, rounds, seed=seed, precision="float64")
    return run.state.value["total"]


def sealed_sum(method: Method, shards: Shards, topology: Topology, seed: int = 0) -> np.ndarray:
    """The total of a `sealed_total`, flat, as every node has it."""
    graph = graph_of(topology)
    if graph.is_directed() or not nx.is_connected(graph):
        raise BadSetting("nodes can compute a sum only over a connected, undirected graph")
    run = simulate(
        method, shards, from_graph(graph), sum_rounds(graph), seed=seed, precision="float64"
    )
    found = total_of(method, jax.tree.map(lambda a: a[0], run.state.value))
    assert found is not None
    return found


def sum_rounds(graph: nx.Graph) -> int:
    """Rounds after which a sealed sum is done, where no message is lost."""
    return 4 * int(nx.diameter(graph)) + 4


def phase_options(
    phase: Phase, shards: Shards, topology: Topology, seed: int = 0
) -> dict[str, Any]:
    """The model's options, which every node derives by itself from the exact sum over all nodes."""
    sums = np.asarray(summed(phase.count, shards, topology, seed))
    if (sums != sums[:1]).any():  # two nodes drew the same random name: once in a million runs
        raise BadSetting("the nodes did not agree on a sum; run again with another seed")
    return phase.options(sums[0])
