"""The graphs one by one: small cases by hand, distributions, and what they refuse."""

import time
from collections import Counter

import networkx as nx
import numpy as np
import pytest
from scipy.stats import chisquare

from peerwise import topology
from peerwise.errors import BadSetting, UnknownName


def edges(one, t=0):
    return sorted(topology.graph_of(one, t).edges)


def test_the_links_and_table_of_a_chain_of_three():
    one = topology.chain(3)
    src, dst, weight, age = (np.asarray(leaf).tolist() for leaf in one.links)
    assert src == [[1, 0, 2, 1]]
    assert dst == [[0, 1, 1, 2]]
    assert weight == [[1, 1, 1, 1]]
    assert age == [[0, 0, 0, 0]]
    ((nodes, table),) = one.table
    assert nodes.tolist() == [0, 1, 2]
    assert table.tolist() == [[[0, -1], [1, 2], [3, -1]]]
    assert (one.n, one.server, one.weights, one.slots) == (3, False, "equal", 2)
    assert one.links_per_round(0) == 4


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (topology.ring(1), []),
        (topology.ring(2), [(0, 1)]),
        (topology.ring(4), [(0, 1), (0, 3), (1, 2), (2, 3)]),
        (topology.star(4), [(0, 1), (0, 2), (0, 3)]),
        (topology.complete(3), [(0, 1), (0, 2), (1, 2)]),
        (topology.grid(6), [(0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5)]),
        (
            topology.grid(5),
            [(0, 1), (0, 3), (1, 2), (1, 4), (3, 4)],
        ),  # prime: the last row is short
        (topology.random_tree(1), []),
        (topology.random_tree(2), [(0, 1)]),
        (topology.regular(1, k=0), []),
        (topology.regular(2, k=1), [(0, 1)]),
        (topology.erdos_renyi(1), []),
        (topology.alone(3), []),
    ],
)
def test_small_graphs_by_hand(one, expected):
    assert edges(one) == expected


def test_a_lone_node_has_an_empty_slot_and_a_link_of_padding():
    one = topology.alone()
    ((nodes, table),) = one.table
    assert (nodes.tolist(), table.tolist()) == ([0], [[[-1]]])
    assert [leaf.tolist() for leaf in one.links] == [[[0]], [[0]], [[0.0]], [[0]]]
    assert one.links_per_round(0) == 0


def test_a_server_has_a_message_up_for_each_node():
    one = topology.server(4)
    assert [leaf.tolist() for leaf in one.links[:3]] == [[[0, 1, 2, 3]], [[4] * 4], [[1.0] * 4]]
    ((nodes, table),) = one.table
    assert nodes.tolist() == [0, 1, 2, 3]
    assert table.tolist() == [[[0], [1], [2], [3]]]
    assert one.server
    assert (one.slots, one.links_per_round(0)) == (4, 8)


def test_a_hub_is_put_in_a_bucket_of_its_own():
    one = topology.star(1000)
    (leaves, few), (hub, many) = one.table
    assert hub.tolist() == [0]
    assert leaves.tolist() == list(range(1, 1000))
    assert few.shape == (1, 999, 1)
    assert many.shape == (1, 1, 1024)
    dst = np.asarray(one.links.dst)[0]
    assert (dst[np.asarray(many)[0, 0, :999]] == 0).all()
    assert (np.asarray(many)[0, 0, 999:] == -1).all()
    assert (dst[np.asarray(few)[0, :, 0]] == np.arange(1, 1000)).all()
    assert one.slots == 1024


@pytest.mark.full
def test_labelled_trees_are_equally_likely():
    draws = 800
    drawn = Counter(tuple(edges(topology.random_tree(4, seed=seed))) for seed in range(draws))
    assert len(drawn) == 16  # 4^2 labelled trees
    assert chisquare(list(drawn.values())).pvalue > 0.01


@pytest.mark.full
def test_extra_edges_are_equally_likely_and_leave_the_tree():
    pairs, rank = edges(topology.complete(4)), Counter()
    for seed in range(450):
        tree = set(edges(topology.random_tree(4, seed=seed)))
        now = set(edges(topology.tree_plus(4, extra=1, seed=seed)))
        assert tree < now
        (more,) = now - tree
        rank[[pair for pair in pairs if pair not in tree].index(more)] += 1
    assert sorted(rank) == [0, 1, 2]
    assert chisquare(list(rank.values())).pvalue > 0.01
    assert edges(topology.tree_plus(6, extra=10, seed=2)) == edges(topology.complete(6))


def test_the_edges_of_an_erdos_renyi_graph_are_as_many_as_p_says():
    counts = [
        topology.erdos_renyi(40, p=0.3, seed=seed).links_per_round(0) / 2 for seed in range(20)
    ]
    pairs = 40 * 39 / 2
    std = np.sqrt(pairs * 0.3 * 0.7 / 20)
    assert abs(np.mean(counts) - pairs * 0.3) < 4 * std


def test_every_node_of_a_regular_graph_has_k_neighbours():
    graph = topology.graph_of(topology.regular(20, k=3, seed=4))
    assert {degree for _, degree in graph.degree} == {3}


def test_a_small_world_without_rewiring_is_a_ring_lattice():
    one = topology.small_world(10, k=4, p=0)
    assert edges(one) == sorted(nx.circulant_graph(10, [1, 2]).edges)


def test_ten_thousand_nodes_are_built_at_once():
    topology.chain(10)  # what the first arrays cost is not the graph's
    start = time.thread_time()  # of this thread alone: others may keep the machine busy
    assert topology.star(10_000).links_per_round(0) == 19_998
    assert topology.grid(10_000).links_per_round(0) == 39_600
    assert topology.random_tree(10_000).links_per_round(0) == 19_998
    assert topology.barabasi_albert(10_000).links_per_round(0) == 39_992
    assert sum(table.size for _, table in topology.star(10_000).table) < 30_000
    assert time.thread_time() - start < 5  # a tenth of it on an idle machine


def test_named_passes_the_seed_only_where_it_means_something():
    assert edges(topology.named("random_tree", 20, 7)) == edges(topology.random_tree(20, seed=7))
    assert edges(topology.named("ring", 5, 7)) == edges(topology.ring(5))
    assert topology.named("tree_plus", 20, 7, extra=3).links_per_round(0) == 2 * 22


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: topology.tree_plus(4, extra=4), "extra must be at most 3 .* got 4"),
        (lambda: topology.tree_plus(4, extra=-1), "extra must be 0 or more, got -1"),
        (lambda: topology.erdos_renyi(50, p=0.001), r"p = 0.001 .* log\(n\)/n = 0.0782"),
        (lambda: topology.erdos_renyi(50, p=1.5), "p must be between 0 and 1, got 1.5"),
        (lambda: topology.erdos_renyi(50, p=float("nan")), "p must be between 0 and 1, got nan"),
        (lambda: topology.barabasi_albert(3, m=3), "m must be below n = 3, got 3"),
        (lambda: topology.barabasi_albert(3, m=0), "m must be 1 or more, got 0"),
        (lambda: topology.regular(5, k=3), "n k even, got n = 5 and k = 3"),
        (lambda: topology.regular(4, k=4), "k must be below n"),
        (lambda: topology.regular(4, k=1), "k must be 2 or more to connect 4 nodes, got 1"),
        (lambda: topology.small_world(10, k=3), "k must be even and below n = 10, got 3"),
        (lambda: topology.small_world(4, k=4), "k must be even and below n = 4, got 4"),
        (lambda: topology.small_world(10, p=-0.1), "p must be between 0 and 1, got -0.1"),
        (lambda: topology.named("chain", 5, extra=1), "extra is an option of tree_plus, not of"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_was_given(make, message):
    with pytest.raises(BadSetting, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: topology.small_world(60, k=2, p=0.9, seed=2), "larger k or a smaller p"),
        (lambda: topology.regular(60, k=2, seed=1), "take k > 2"),
    ],
)
def test_a_graph_that_falls_apart_is_given_up(monkeypatch, make, message):
    monkeypatch.setattr(topology.graphs, "_TRIES", 1)
    with pytest.raises(BadSetting, match=message):
        make()


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="did you mean 'random_tree'"):
        topology.named("random_trees")
