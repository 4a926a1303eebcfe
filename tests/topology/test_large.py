"""Large random graphs by arrays: the same kind of graph as networkx draws, in seconds."""

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from peerwise.topology import graphs, large
from peerwise.topology.large import LARGE, distinct, pairing, preferential, prufer_tree


def simple(u, v):
    """Whether no edge joins a node to itself or is there twice."""
    low, high = np.minimum(u, v), np.maximum(u, v)
    return bool((low < high).all()) and len(
        set(zip(low.tolist(), high.tolist(), strict=True))
    ) == len(u)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 12, 300])
def test_a_pruefer_sequence_is_the_tree_that_networkx_makes_of_it(n):
    for seed in range(20):
        sequence = np.random.default_rng(seed).integers(n, size=n - 2)
        ours = {frozenset(edge) for edge in prufer_tree(sequence).tolist()}
        assert ours == set(map(frozenset, nx.from_prufer_sequence(sequence.tolist()).edges))


@pytest.mark.parametrize("k", [3, 4, 7])
def test_every_node_of_a_paired_graph_has_k_neighbours(k):
    u, v = pairing(np.random.default_rng(0), 1000, k)
    assert simple(u, v)
    assert (np.bincount(np.append(u, v), minlength=1000) == k).all()


@pytest.mark.parametrize("m", [1, 2, 5])
def test_preferential_attachment_has_the_degrees_that_networkx_draws(m):
    n, ours, theirs = 2000, [], []
    for seed in range(20):
        u, v = preferential(np.random.default_rng(seed), n, m)
        assert simple(u, v)
        ours.append(np.bincount(np.append(u, v), minlength=n))
        theirs.append([d for _, d in nx.barabasi_albert_graph(n, m, seed=seed).degree])
    assert np.sum(ours[0]) == np.sum(theirs[0])
    for least in (m + 1, 2 * m, 4 * m, 16 * m):
        shares = [(np.array(drawn) >= least).mean(1) for drawn in (ours, theirs)]
        error = np.hypot(*(share.std(ddof=1) / np.sqrt(20) for share in shares))
        assert abs(shares[0].mean() - shares[1].mean()) < 4 * error + 1e-3


def test_distinct_numbers_are_distinct_and_uniform():
    drawn = distinct(np.random.default_rng(0), 100_000, 20_000)
    assert drawn.size == np.unique(drawn).size == 20_000
    assert (drawn >= 0).all()
    assert (drawn < 100_000).all()
    assert abs(drawn.mean() - 50_000) < 4 * 100_000 / np.sqrt(12 * 20_000)


@pytest.mark.parametrize(
    ("name", "options", "links"),
    [
        ("random_tree", {}, 2 * (LARGE - 1)),
        ("regular", {"k": 4}, 4 * LARGE),
        ("barabasi_albert", {"m": 2}, 2 * (2 + 2 * (LARGE - 3))),
        ("erdos_renyi", {"p": 1e-3}, None),
    ],
)
def test_a_large_graph_is_connected_and_its_seed_is_the_graph(name, options, links):
    one, same, other = (graphs.named(name, LARGE, seed, **options) for seed in (0, 0, 1))
    src, dst = np.asarray(one.links.src)[0], np.asarray(one.links.dst)[0]
    assert simple(src[src < dst], dst[src < dst])
    assert connected_components(coo_array((np.ones(src.size), (src, dst)), (LARGE, LARGE)))[0] == 1
    if links is not None:
        assert src.size == links
    np.testing.assert_array_equal(src, same.links.src[0])
    assert not np.array_equal(src, other.links.src[0])


@pytest.mark.parametrize("seed", range(20))
def test_links_both_ways_are_sorted_by_receiver_then_sender(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    code = rng.choice(n * (n - 1) // 2, rng.integers(n * (n - 1) // 2 + 1), replace=False)
    u, v = np.triu_indices(n, 1)
    flip = rng.random(code.size) < 0.5
    ends = np.where(flip, v[code], u[code]), np.where(flip, u[code], v[code])
    src, dst = large.both_ways(n, *ends)
    pairs = {(int(a), int(b)) for a, b in zip(*ends, strict=True)}
    wanted = sorted([(b, a) for a, b in pairs] + [(a, b) for a, b in pairs])
    assert list(zip(dst.tolist(), src.tolist(), strict=True)) == wanted
    joined = connected_components(coo_array((np.ones(src.size), (src, dst)), (n, n)))[0] == 1
    assert large.is_connected(n, src, dst) == joined


def test_one_long_path_is_connected_and_two_are_not():
    path = np.arange(5000)
    src, dst = large.both_ways(5001, path, path + 1)
    assert large.is_connected(5001, src, dst)
    src, dst = large.both_ways(5001, np.delete(path, 2500), np.delete(path + 1, 2500))
    assert not large.is_connected(5001, src, dst)


def test_numbers_seen_before_are_found_where_they_come_again():
    codes = np.array([5, 3, 5, 7, 3, 3, 9])
    assert sorted(large._seen_before(codes).tolist()) == [2, 4, 5]
    assert not large._seen_before(np.array([4, 2, 9])).size
