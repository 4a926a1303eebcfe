"""A first phase before learning: nodes agree on a model's options from exactly summed counts."""

from typing import Any

import networkx as nx
import numpy as np

from peerwise.errors import BadSetting
from peerwise.methods.sealed import Trust
from peerwise.methods.sealed_total import sealed_total, shape_of, unflat
from peerwise.methods.total import server_total, total
from peerwise.models.family import Phase
from peerwise.privacy.budget import Budget
from peerwise.shards import Shards
from peerwise.simulate import simulate
from peerwise.topology import Topology, from_graph, graph_of

FIRST = 7919  # noise of a first phase is drawn apart from that of learning


def summed(count: Any, shards: Shards, topology: Topology, seed: int = 0) -> Any:
    """The sum of `count(shard)` over all nodes, a copy of each node [n, ...], in double precision.

    Nodes send messages to their neighbours in the graph of round 0 until all have the sum.
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


def sealed_options(
    phase: Phase, shards: Shards, topology: Topology, budget: Budget, trust: Trust, seed: int = 0
) -> dict[str, Any]:
    """As `phase_options`, from one sealed sum with noise; the first share of the budget pays.

    What lies within two deviations of 0 is taken as nothing.
    """
    if phase.reach is None:
        raise BadSetting("nobody knows how far a row moves what this model must agree on first")
    features = shards.groups[0].shard.x.shape[-1]
    like = shape_of(phase.count, features)
    method = sealed_total(phase.count, like, budget, phase.reach, topology.n, trust)
    graph = graph_of(topology)
    if graph.is_directed() or not nx.is_connected(graph):
        raise BadSetting("nodes can add up only over a connected graph of links both ways")
    rounds = 4 * nx.diameter(graph) + 4
    run = simulate(method, shards, from_graph(graph), rounds, seed=seed + FIRST)
    assert (np.asarray(run.state.value["sums"]["done"]) == 1).all()
    total = np.asarray(run.state.value["flat"][0], float)
    return phase.options(unflat(like, denoised_counts(method.adapt, total)))


def denoised_counts(sealed: Any, total: np.ndarray) -> np.ndarray:
    """Counts from a noisy total of a `Sealed` method: none is negative, and few are none."""
    noise = np.sqrt(sealed.grid.share * sealed.sums.nodes)
    return np.where(total < 2 * noise, 0.0, total)


def phase_options(
    phase: Phase, shards: Shards, topology: Topology, seed: int = 0
) -> dict[str, Any]:
    """The model's options, which every node derives by itself from the exact sum over all nodes."""
    sums = np.asarray(summed(phase.count, shards, topology, seed))
    if (sums != sums[:1]).any():  # two nodes drew the same random name: once in a million runs
        raise BadSetting("the nodes did not agree on a sum; run again with another seed")
    return phase.options(sums[0])
