"""Counts of classes at nodes and their Gini index."""

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from peerwise import partition
from peerwise.errors import BadData

several = settings(derandomize=True, deadline=None, max_examples=50)
numbers = st.lists(st.integers(0, 10**6), min_size=1, max_size=30).map(np.array)


@pytest.mark.parametrize(
    ("counts", "index"),
    [
        ([7], 0),
        ([0, 0, 0], 0),
        ([3, 3, 3], 0),
        ([0, 1], 1 / 2),
        ([0, 0, 0, 8], 3 / 4),
        ([1, 3], 1 / 4),  # |1 - 3| twice, over 2 x 4 pairs x mean 2
        ([1, 2, 3], 2 / 9),  # 2 (1 + 2 + 1) / (2 x 9 x 2)
        ([3, 1, 2], 2 / 9),
        ([0.1] * 7, 0),
    ],
)
def test_gini_by_hand(counts, index):
    assert partition.gini(np.array(counts)) == pytest.approx(index, abs=1e-15)


@several
@given(counts=numbers)
def test_gini_is_the_mean_absolute_difference_over_twice_the_mean(counts):
    assume(counts.any())
    mean = np.mean([abs(a - b) for a, b in product(counts.tolist(), repeat=2)])
    assert partition.gini(counts) == pytest.approx(mean / (2 * counts.mean()), abs=1e-12)


@several
@given(counts=numbers, scale=st.floats(1e-6, 1e6), seed=st.integers(0, 1000))
def test_gini_ignores_scale_and_order_and_lies_in_its_range(counts, scale, seed):
    index = float(partition.gini(counts))
    assert 0 <= index <= 1 - 1 / counts.size + 1e-12
    assert partition.gini(scale * counts) == pytest.approx(index, abs=1e-12)
    assert partition.gini(np.random.default_rng(seed).permutation(counts)) == index


@several
@given(counts=numbers, zeros=st.integers(1, 20), times=st.integers(2, 4))
def test_zeros_raise_gini_by_a_known_amount_and_copies_leave_it(counts, zeros, times):
    assume(counts.any())
    n, index = counts.size, float(partition.gini(counts))
    more = partition.gini(np.append(counts, np.zeros(zeros)))
    assert more == pytest.approx((n * index + zeros) / (n + zeros), abs=1e-12)
    assert partition.gini(np.tile(counts, times)) == pytest.approx(index, abs=1e-12)


def test_gini_is_along_the_last_axis():
    counts = np.random.default_rng(0).integers(0, 9, (2, 3, 5))
    each = [[float(partition.gini(row)) for row in table] for table in counts]
    np.testing.assert_array_equal(partition.gini(counts), each)


def test_allocation_and_its_indices_by_hand():
    y = np.array([0, 1, 1, 2, 2, 2])
    rows = [np.array([0, 3, 4]), np.array([], int), np.array([1, 2, 5])]
    counts = partition.allocation(y, rows, 4)
    assert counts.tolist() == [[1, 0, 2, 0], [0, 0, 0, 0], [0, 2, 1, 0]]
    np.testing.assert_allclose(partition.gini_by_class(counts), [2 / 3, 2 / 3, 4 / 9, 0])
    assert partition.gini_of_totals(counts) == pytest.approx(1 / 3)


def test_allocation_counts_what_was_dealt():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 200)
    sizes = rng.integers(0, 20, 9)
    counts = partition.allocation(y, partition.iid(rng, np.zeros((200, 1)), y, sizes), 5)
    np.testing.assert_array_equal(counts.sum(1), sizes)
    assert (counts.sum(0) <= np.bincount(y)).all()
    assert partition.gini_of_totals(counts) == partition.gini(sizes)


def test_what_cannot_be_counted_is_refused():
    for counts in (np.array(3.0), np.zeros((2, 0))):
        with pytest.raises(BadData, match="one number or more, got shape"):
            partition.gini(counts)
    for counts in ([1, -1], [1, np.nan], [1, np.inf]):
        with pytest.raises(BadData, match="finite and 0 or more"):
            partition.gini(np.array(counts))
    for measure in (partition.gini_by_class, partition.gini_of_totals):
        with pytest.raises(BadData, match=r"\[nodes, classes\], got shape \(3,\)"):
            measure(np.ones(3))
    for y in (np.array([0, 3]), np.array([-1, 0]), np.array([0.0, 1.0]), np.array(["a", "b"])):
        with pytest.raises(BadData, match="whole numbers from 0 to 2"):
            partition.allocation(y, [np.array([0])], 3)
