"""What a coalition learns: the sum over each part of the honest members that it does not cut.

The coalition is given more than any has: every sealed term by itself, and all secrets of pairs in
which it is. What is left of the honest terms x is y = x + B m modulo 2^64, where column e of B has
1 and -1 in the rows of two honest partners and m are their streams, uniform and unknown.
"""

import networkx as nx
import numpy as np
import pytest

from peerwise.errors import BadSetting
from peerwise.privacy.sealing import expected_parts, mask_graph, partners_wanted
from peerwise.privacy.sealing.graph import ALL_PAIRS, CHANCE
from peerwise.privacy.shares import honest_members

NAMES = [f"n{i:02}" for i in range(50)]


def honest_graph(k, colluders, draw, names=NAMES):
    """The mask graph of one draw without so many colluders, drawn too."""
    rng = np.random.default_rng(draw)
    graph = nx.Graph((a, b) for a, to in mask_graph(names, b"%d" % draw, k).items() for b in to)
    bad = rng.choice(names, colluders, replace=False)
    return nx.Graph(graph.subgraph(set(names) - set(bad)))


def incidence(graph):
    """B, with its rows in the order of the nodes."""
    return nx.incidence_matrix(graph, oriented=True).toarray().astype(int)


def rank_of_two(matrix):
    """The rank modulo 2, by elimination.

    If it is that over the integers, all elementary divisors are odd, hence invertible modulo 2^64:
    what the streams can move is all of a free module of that rank.
    """
    rows, rank = [int("".join(map(str, row)), 2) for row in np.abs(matrix) % 2], 0
    while rows:
        pivot = rows.pop()
        if pivot:
            rank += 1
            low = pivot & -pivot
            rows = [row ^ pivot if row & low else row for row in rows]
    return rank


@pytest.mark.parametrize("k", [6, 12])
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_the_view_determines_the_sums_of_connected_honest_members_and_nothing_else(share, k):
    for draw in range(10):
        graph = honest_graph(k, round(share * 50), draw)
        matrix, parts = incidence(graph), list(nx.connected_components(graph))
        rank = rank_of_two(matrix)
        assert rank == np.linalg.matrix_rank(matrix) == len(graph) - len(parts)
        # the functionals that no stream moves: so many as parts, and the sum over each is one
        order = {name: i for i, name in enumerate(graph)}
        for part in parts:
            sums = np.zeros(len(graph), int)
            sums[[order[name] for name in part]] = 1
            assert not (sums @ matrix).any()


def test_any_terms_with_the_same_sum_explain_the_view():
    """Streams that turn other honest terms into the very same view, found along a spanning tree."""
    rng = np.random.default_rng(0)
    graph = honest_graph(6, 5, 0)
    assert nx.is_connected(graph)
    words = {"size": len(graph), "dtype": np.uint64}
    terms, others = rng.integers(0, 2**64, **words), rng.integers(0, 2**64, **words)
    others[-1] += terms.sum(dtype=np.uint64) - others.sum(dtype=np.uint64)
    matrix = incidence(graph).astype(np.uint64)
    streams = rng.integers(0, 2**64, matrix.shape[1], np.uint64)
    view = terms + matrix @ streams
    edges = {frozenset(edge): e for e, edge in enumerate(graph.edges)}
    order = {name: i for i, name in enumerate(graph)}
    found = streams.copy()
    root = next(iter(graph))
    parent = nx.dfs_predecessors(graph, root)
    for name in nx.dfs_postorder_nodes(graph, root):
        if name in parent:  # what a member lacks, its pair with its parent makes up for
            e, i = edges[frozenset((name, parent[name]))], order[name]
            lacks = (view - others - matrix @ found)[i : i + 1]
            found[e : e + 1] += lacks * matrix[i, e]  # 1 or -1, its own inverse
    np.testing.assert_array_equal(others + matrix @ found, view)


def connected(k, colluders, draws):
    return np.mean([nx.is_connected(honest_graph(k, colluders, d)) for d in range(draws)])


def test_honest_members_hang_together_as_often_as_the_formula_says():
    assert connected(6, 5, 40) == connected(12, 5, 40) == connected(12, 15, 40) == 1
    draws = 150
    expected = expected_parts(50, 15, 6)
    assert 0.012 < expected < 0.015
    assert abs(1 - connected(6, 15, draws) - expected) < 4 * np.sqrt(expected / draws)
    assert expected_parts(50, 5, 6) < 1e-8
    assert expected_parts(50, 15, 12) < 1e-6


@pytest.mark.full
def test_the_formula_over_many_draws():
    for k, colluders in ((4, 10), (4, 15), (6, 15), (6, 20)):
        draws = 4000
        expected, seen = expected_parts(50, colluders, k), 1 - connected(k, colluders, draws)
        assert seen <= expected * 1.1 + 4 * np.sqrt(expected / draws)


def test_with_all_pairs_all_but_two_may_collude():
    names = NAMES[:12]
    for draw in range(5):
        graph = honest_graph(len(names) - 1, len(names) - 2, draw, names)
        assert len(graph) == 2
        assert nx.is_connected(graph)
        assert rank_of_two(incidence(graph)) == 1
    assert expected_parts(12, 10, 11) == 0


def test_partners_by_default():
    assert partners_wanted(8, 6) == 7
    assert partners_wanted(ALL_PAIRS, 20) == ALL_PAIRS - 1
    for n, colluders in ((100, 33), (300, 30), (1000, 333)):
        k = partners_wanted(n, colluders)
        assert expected_parts(n, colluders, k) <= CHANCE < expected_parts(n, colluders, k - 2)
    with pytest.raises(BadSetting, match="from 0 to 6 may collude"):
        partners_wanted(8, 7)


@pytest.mark.parametrize("n", [65, 66, 78, 84, 85, 89, 120, 200])
def test_the_graph_of_any_share_of_honest_members_can_be_drawn(n):
    """Where nearly all pairs are partners pairing at random finds no graph."""
    for honest in (0.05, 0.1, 0.2, 0.3, 0.5, 2 / 3, 1.0):
        k = partners_wanted(n, min(n - honest_members(n, honest, n), n - 2))
        k = min(k + n * k % 2, n - 1)
        assert {len(to) for to in mask_graph([f"n{i}" for i in range(n)], b"", k).values()} == {k}


@pytest.mark.parametrize(("n", "k"), [(2, 1), (7, 4), (50, 6), (50, 12), (9, 8), (6, 4)])
def test_a_mask_graph_is_regular_and_the_same_for_all(n, k):
    names = NAMES[:n]
    graph = mask_graph(names, b"seed", k)
    assert graph == mask_graph(names[::-1], b"seed", k)
    assert all(len(set(to)) == k and name not in to for name, to in graph.items())
    assert all(a in graph[b] for a, to in graph.items() for b in to)
    if k < n - 1:
        assert graph != mask_graph(names, b"another", k)


def test_graphs_that_are_none_are_refused():
    for n, k, why in ((1, 1, "2 members or more"), (4, 4, "from 1 to 3"), (5, 3, "give 4")):
        with pytest.raises(BadSetting, match=why):
            mask_graph(NAMES[:n], b"", k)
    with pytest.raises(BadSetting, match="comes twice"):
        mask_graph(["a", "a", "b"], b"", 2)
