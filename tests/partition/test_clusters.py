"""Sample bias: every node holds rows that are alike."""

import numpy as np
import pytest

from peerwise import partition
from peerwise.errors import BadData


def rng(seed=0):
    return np.random.default_rng(seed)


def blobs(centres, each, seed=0):
    """Rows close to centres, shuffled, and the centre of each."""
    which = rng(seed).permutation(np.repeat(np.arange(len(centres)), each))
    x = np.asarray(centres, float)[which] + 0.05 * rng(seed + 1).normal(size=(len(which), 2))
    return x, which


CORNERS = [[0, 0], [0, 9], [9, 9], [9, 0]]


@pytest.mark.parametrize("seed", range(5))
def test_nodes_that_fit_the_clusters_hold_one_each(seed):
    x, which = blobs(CORNERS, 30)
    rows = partition.clusters(rng(seed), x, which % 2, np.full(4, 30))
    held = [np.unique(which[r]).tolist() for r in rows]
    assert sorted(held) == [[0], [1], [2], [3]]


def test_a_node_that_straddles_clusters_holds_near_ones():
    """Centres on a line: no node skips a cluster between two that it holds."""
    x, which = blobs([[0, 0], [1, 1], [2, 2], [3, 3]], 30)
    for seed in range(5):
        rows = partition.clusters(rng(seed), x, which % 2, np.array([45, 25, 35, 15]))
        assert [r.size for r in rows] == [45, 25, 35, 15]
        assert all((np.diff(np.unique(which[r])) == 1).all() for r in rows)
        assert any(np.unique(which[r]).size > 1 for r in rows)


def test_several_nodes_share_a_cluster_beyond_the_limit(monkeypatch):
    monkeypatch.setattr(partition.ways, "CLUSTERS", 4)
    x, which = blobs(CORNERS, 30)
    rows = partition.clusters(rng(), x, which, np.full(12, 10))
    assert all(np.unique(which[r]).size == 1 for r in rows)


def test_nodes_differ_more_than_by_chance_and_more_than_along_one_component():
    x, y = rng().normal(size=(2000, 3)), rng(1).integers(0, 2, 2000)

    def between(deal):
        rows = deal(rng(2), x, y, np.full(20, 100))
        return np.mean([x[r].mean(0) ** 2 for r in rows]) / np.mean(x**2)

    chance, drift = between(partition.iid), between(partition.feature_drift)
    assert chance < 0.02
    assert between(partition.clusters) > max(1.3 * drift, 0.4)


def test_which_node_gets_which_cluster_is_random():
    x, which = blobs(CORNERS, 10)
    first = {
        int(which[partition.clusters(rng(s), x, which, np.full(4, 10))[0][0]]) for s in range(40)
    }
    assert first == {0, 1, 2, 3}


def test_rows_that_are_all_alike_and_missing_values_are_dealt_too():
    y = np.zeros(12, int)
    for x in (np.zeros((12, 2)), np.full((12, 2), np.nan)):
        rows = partition.clusters(rng(), x, y, np.array([5, 0, 7]))
        assert np.sort(np.concatenate(rows)).tolist() == list(range(12))


def test_a_table_that_cannot_be_clustered_is_refused():
    with pytest.raises(BadData, match="rows and columns"):
        partition.clusters(rng(), np.zeros((3, 0)), np.zeros(3, int), np.array([3]))
    with pytest.raises(BadData, match="encode"):
        partition.clusters(rng(), np.array([["a"], ["b"]]), np.zeros(2, int), np.array([2]))
