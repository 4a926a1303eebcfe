"""Rows packed by node: every row where it belongs, and padding that follows the total."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerwise.chunks import Chunks
from peerwise.errors import BadData
from peerwise.shards import GROWTH, pack, pooled

sizes_of_nodes = st.lists(st.integers(0, 60), min_size=1, max_size=30).filter(any)


def dealt(sizes, seed=0):
    """As many rows as needed, each recognisable, dealt in random order."""
    m = sum(sizes)
    x = np.arange(2.0 * m).reshape(m, 2)
    y = np.arange(m) % 7
    order = np.random.default_rng(seed).permutation(m)
    return x, y, np.split(order, np.cumsum(sizes)[:-1])


@given(sizes=sizes_of_nodes, seed=st.integers(0, 100))
def test_every_node_holds_its_rows_in_their_order(sizes, seed):
    x, y, rows = dealt(sizes, seed)
    shards = pack(x, y, rows)
    assert shards.n == len(sizes)
    assert shards.rows == sum(sizes)
    assert shards.sizes.tolist() == sizes
    for node, mine in enumerate(rows):
        shard = shards.of(node)
        real = shard.weight > 0
        assert real.sum() == len(mine)
        assert (shard.weight[real] == 1).all()
        np.testing.assert_array_equal(shard.x[real], x[mine])
        np.testing.assert_array_equal(shard.y[real], y[mine])


@given(sizes=sizes_of_nodes)
def test_every_node_is_in_exactly_one_group(sizes):
    shards = pack(*dealt(sizes))
    nodes = np.concatenate([group.nodes for group in shards.groups])
    assert sorted(nodes.tolist()) == list(range(len(sizes)))
    for group in shards.groups:
        assert group.nodes.dtype == np.int32
        assert (np.diff(group.nodes) > 0).all()
        assert group.shard.x.shape[:2] == group.shard.y.shape == group.shard.weight.shape


@given(sizes=sizes_of_nodes)
def test_cost_follows_the_total_and_not_nodes_times_the_largest(sizes):
    shards = pack(*dealt(sizes))
    padded = sum(group.shard.weight.size for group in shards.groups)
    assert padded <= GROWTH * sum(sizes) + len(sizes)


@given(sizes=sizes_of_nodes)
def test_the_number_of_groups_is_logarithmic_in_the_largest(sizes):
    """Each group is smaller than the one before by more than the factor that one may pad."""
    shards = pack(*dealt(sizes))
    assert len(shards.groups) <= math.log(max(sizes), GROWTH) + 2
    lengths = [group.shard.y.shape[1] for group in shards.groups]
    for larger, smaller in pairwise(lengths):
        assert smaller * GROWTH <= larger


def test_a_thousand_very_different_nodes():
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(np.log(5), np.log(5000), 1000)).astype(int)
    m = sizes.sum()
    rows = np.split(np.arange(m), np.cumsum(sizes)[:-1])
    shards = pack(np.zeros((m, 1), np.float32), np.zeros(m), rows)
    padded = sum(group.shard.weight.size for group in shards.groups)
    assert padded < 1.3 * m  # log-uniform sizes pad by a fifth; the largest for all by 600 %
    assert len(shards.groups) <= 19


def test_equal_shards_are_one_group_without_padding():
    shards = pack(*dealt([8] * 5))
    assert len(shards.groups) == 1
    assert shards.groups[0].shard.weight.all()


def test_nodes_without_rows_have_a_place():
    x, y, rows = dealt([0, 3, 0, 1])
    shards = pack(x, y, rows)
    assert shards.sizes.tolist() == [0, 3, 0, 1]
    assert shards.of(0).weight.sum() == 0
    assert len(shards.of(0).y) == 1  # one row of padding: arrays of no rows would not stack


def test_a_row_may_be_held_twice():
    x, y, _ = dealt([4])
    shards = pack(x, y, [[0, 0, 1], [1, 3]])
    np.testing.assert_array_equal(shards.of(0).x, x[[0, 0, 1]])
    assert shards.rows == 5


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_weights_are_of_the_type_of_the_rows(kind):
    x, y, rows = dealt([2, 3])
    shards = pack(x.astype(kind), y, rows)
    for group in shards.groups:
        assert group.shard.x.dtype == group.shard.weight.dtype == kind
        assert group.shard.y.dtype == np.int32


def test_whole_numbers_have_single_precision_weights():
    x, y, rows = dealt([2, 3])
    assert pack(x.astype(np.uint8), y, rows).of(0).weight.dtype == np.float32


def test_pooled_is_everything_on_one_node():
    x, y, rows = dealt([3, 0, 5])
    one = pooled(x, y, rows)
    assert (one.n, one.rows) == (1, 8)
    np.testing.assert_array_equal(one.of(0).x, x[np.concatenate(rows)])
    np.testing.assert_array_equal(one.of(0).y, y[np.concatenate(rows)])


@pytest.mark.parametrize("rows", [[], [[]], [[], [], []]])
def test_no_rows_at_all_are_refused(rows):
    x, y, _ = dealt([4])
    with pytest.raises(BadData, match="no node holds any row"):
        pack(x, y, rows)


@pytest.mark.parametrize("node", [2, -1, 100])
def test_a_node_that_is_not_there(node):
    with pytest.raises(BadData, match="nodes 0 to 1"):
        pack(*dealt([2, 3])).of(node)


def test_rows_that_lie_node_by_node_are_not_copied():
    x, y = np.arange(24.0, dtype=np.float32).reshape(12, 2), np.arange(12, dtype=np.int32)
    shards = pack(x, y, Chunks(np.arange(12), np.full(4, 3)))
    assert np.shares_memory(shards.groups[0].shard.x, x)
    np.testing.assert_array_equal(shards.groups[0].shard.x, x.reshape(4, 3, 2))
    moved = pack(x, y, Chunks(np.arange(12)[::-1].copy(), np.full(4, 3)))
    assert not np.shares_memory(moved.groups[0].shard.x, x)
    np.testing.assert_array_equal(moved.groups[0].shard.y, y[::-1].reshape(4, 3))


def test_chunks_pack_as_a_list_of_their_arrays_does(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)), rng.integers(4, size=60)
    sizes = np.array([7, 0, 11, 3, 3, 20, 1])
    chunks = Chunks(rng.permutation(60)[: sizes.sum()], sizes)
    whole = pack(x, y, list(chunks))
    monkeypatch.setattr("peerwise.shards.BLOCK", 8)  # several blocks of nodes
    for ours, theirs in zip(pack(x, y, chunks).groups, whole.groups, strict=True):
        for a, b in zip((ours.nodes, *ours.shard), (theirs.nodes, *theirs.shard), strict=True):
            np.testing.assert_array_equal(a, b)
            assert a.dtype == b.dtype


@pytest.mark.parametrize("row", [-1, 5])
def test_a_row_that_is_not_there_is_refused(row):
    with pytest.raises(BadData, match=f"there is no row {row}: the table has rows 0 to 4"):
        pack(np.zeros((5, 2)), np.zeros(5), [np.array([0, row])])
