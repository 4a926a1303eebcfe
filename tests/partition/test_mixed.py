"""The split of CLIMB: a part of the rows at random, the rest sorted by class and cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise import partition
from peerwise.errors import BadSetting


def rng(seed=0):
    return np.random.default_rng(seed)


def counts(y, rows):
    return partition.allocation(y, rows, int(y.max()) + 1)


def test_ratio_0_is_sorted_and_cut_with_the_first_chunk_at_node_0():
    """Fashion-MNIST on the CVaR-CTA paper's 20 nodes, a tenth as many rows: two nodes a class."""
    y = rng().permutation(np.repeat(np.arange(10), 600))
    held = counts(y, partition.mixed(rng(1), np.zeros((6000, 1)), y, np.full(20, 300)))
    np.testing.assert_array_equal(held, 300 * np.repeat(np.eye(10, dtype=int), 2, axis=0))


def test_chunks_straddle_where_classes_meet_and_sizes_are_as_asked():
    y = rng().permutation(np.repeat([0, 1, 2], [5, 9, 6]))
    held = counts(y, partition.mixed(rng(1), np.zeros((20, 1)), y, np.array([3, 0, 7, 10])))
    assert held.tolist() == [[3, 0, 0], [0, 0, 0], [2, 5, 0], [0, 4, 6]]


def test_a_ratio_between_deals_that_part_at_random():
    y = np.repeat([0, 1], 500)
    held = counts(y, partition.mixed(rng(1), np.zeros((1000, 1)), y, np.full(2, 500), 0.6))
    # 300 rows at random, about half of each class, and 200 of one class, within sampling noise
    np.testing.assert_allclose(held, [[350, 150], [150, 350]], atol=40)


def test_the_random_part_is_rounded_down_as_in_climb():
    """Nodes of 100 rows of one class at ratio r have 100 - floor(100 r) sorted ones."""
    y = np.repeat(np.arange(50), 100)
    for ratio, alike in ((0.29, 29), (0.299, 29), (0.005, 0)):  # 0.29 * 100 < 29 in floats
        rows = partition.mixed(rng(), np.zeros((5000, 1)), y, np.full(50, 100), ratio)
        tails = [y[r[alike:]] for r in rows]
        assert (np.diff(np.concatenate(tails)) >= 0).all()
        heads = np.concatenate([y[r[:alike]] for r in rows])
        assert alike == 0 or (np.diff(heads) < 0).any()


def test_shuffled_at_ratio_0_is_label_sorted_and_ratio_1_is_iid():
    y, sizes = rng().integers(0, 3, 40), np.array([5, 0, 12, 8])
    x = np.zeros((40, 1))
    pairs = [
        (partition.mixed(rng(3), x, y, sizes, shuffled=True), partition.label_sorted),
        (partition.mixed(rng(3), x, y, sizes, 1.0), partition.iid),
    ]
    for rows, same in pairs:
        for a, b in zip(rows, same(rng(3), x, y, sizes), strict=True):
            np.testing.assert_array_equal(a, b)


@settings(derandomize=True, deadline=None, max_examples=10)
@given(ratio=st.floats(0, 1), shuffled=st.booleans(), seed=st.integers(0, 1000))
def test_any_ratio_fills_the_sizes(ratio, shuffled, seed):
    y, sizes = rng(seed).integers(0, 4, 60), np.array([20, 0, 29, 10, 1])
    rows = partition.mixed(rng(seed), np.zeros((60, 1)), y, sizes, ratio, shuffled)
    assert [r.size for r in rows] == sizes.tolist()
    assert np.unique(np.concatenate(rows)).size == 60


@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan")])
def test_the_ratio_is_between_0_and_1(ratio):
    with pytest.raises(BadSetting, match=f"homo_ratio must be between 0 and 1, got {ratio}"):
        partition.mixed(rng(), np.zeros((2, 1)), np.zeros(2, int), np.array([1, 1]), ratio)
