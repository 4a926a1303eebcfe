"""How fast nodes agree: measured, against the spectral gap of the network."""

from functools import cache

import numpy as np
import pytest

from peerwise import combine, metrics
from peerwise import topology as topologies
from peerwise.core import Message, Method, State
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.topology import metropolis, mixing_matrix, spectral_gap

GRAPHS = {
    "ring": topologies.ring(9),
    "star": topologies.star(8),
    "grid": topologies.grid(16),
    "tree": topologies.random_tree(12, seed=2),
    "regular": topologies.regular(12, k=4, seed=1),
}
COMPLETE = topologies.complete(7)


@cache
def talking(rule):
    """A method whose nodes start from a row of their own and only talk."""

    def init(key, shard):
        return State(shard.x[0], {})

    def message(key, state):
        return Message(state.value, {})

    return Method(init, message, rule, lambda key, state, shard: state, None)


def talk(rule, graph, until=None):
    """Where nodes start, and a run in which they only talk, for as long as they like."""
    start = 1 + np.random.default_rng(0).normal(size=(graph.n, 20))
    shards = pack(start, np.zeros(graph.n), np.arange(graph.n)[:, None])
    options = {"probe": metrics.consensus(), "at": range(1, 601), "precision": "float64"}
    return start, simulate(talking(rule), shards, graph, 600, until=until, **options)


def distances(rule, graph):
    """How far apart the nodes are after each round."""
    _, run = talk(rule, graph)
    return np.asarray(run.history["adapt"]["consensus_distance"])


def measured_rate(apart):
    """The factor per round, once the slowest mode is all that is left and before rounding is."""
    rounds = np.flatnonzero((apart < 1e-4 * apart[0]) & (apart > 1e-11))
    assert rounds.size >= 2
    slope = np.polyfit(rounds, np.log(apart[rounds]), 1)[0]
    return np.exp(slope)


WAYS = {
    "metropolis": (combine.metropolis(), metropolis),
    "equal with self": (combine.equal(include_self=True), lambda graph: graph),
}


@pytest.mark.some("ring", "star-metropolis", "tree-metropolis", "grid-equal", "regular-equal")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", GRAPHS)
def test_differences_shrink_by_one_minus_the_spectral_gap(name, way):
    rule, weighted = WAYS[way]
    graph = weighted(GRAPHS[name])
    predicted = 1 - spectral_gap(graph)
    assert 0.2 < predicted < 0.97
    measured = measured_rate(distances(rule, graph))
    assert np.log(measured) == pytest.approx(np.log(predicted), rel=0.05)


def test_on_a_complete_graph_all_agree_at_once():
    assert spectral_gap(COMPLETE) == pytest.approx(1, abs=1e-12)
    assert distances(combine.equal(include_self=True), COMPLETE)[0] < 1e-15


def test_on_a_tree_without_self_two_halves_never_agree():
    """The mixing matrix of a bipartite graph has the eigenvalue -1."""
    graph = GRAPHS["tree"]
    assert spectral_gap(graph, include_self=False) == pytest.approx(0, abs=1e-9)
    apart = distances(combine.equal(), graph)
    assert apart[-1] > 0.1 * apart[0]


@pytest.mark.parametrize("way", WAYS)
def test_rounds_multiply_by_the_mixing_matrix(way):
    rule, weighted = WAYS[way]
    graph = weighted(GRAPHS["tree"])
    start, run = talk(rule, graph, until=5)
    value = np.asarray(run.state.value)
    matrix = np.linalg.matrix_power(mixing_matrix(graph, include_self=True), 5)
    np.testing.assert_allclose(value, matrix @ start, rtol=1e-12, atol=1e-12)
    # only Metropolis weights leave the mean of the network as it is
    moved = np.abs(value.mean(0) - start.mean(0)).max()
    assert moved < 1e-12 if way == "metropolis" else moved > 1e-3
