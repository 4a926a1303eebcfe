"""A class that node 0 alone holds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerwise import partition
from peerwise.errors import BadData, BadSetting

Y = np.repeat(np.arange(4), 50)
X = np.zeros((200, 1))
SIZES = np.array([20, 30, 0, 25])


def rng(seed=0):
    return np.random.default_rng(seed)


def counts(rows, y=Y):
    return partition.allocation(y, rows, int(y.max()) + 1)


@given(seed=st.integers(0, 1000), label=st.integers(0, 3), share=st.floats(0.01, 1))
def test_node_0_alone_has_the_class_and_sizes_are_kept(seed, label, share):
    rows = partition.sole_holder(rng(seed), X, Y, SIZES, label, share)
    held = counts(rows)
    assert held[0, label] == max(1, int(share * 20))
    assert not held[1:, label].any()
    assert held.sum(1).tolist() == SIZES.tolist()
    used = np.concatenate(rows)
    assert np.unique(used).size == used.size


def test_half_of_node_0_is_class_0_unless_said():
    assert counts(partition.sole_holder(rng(), X, Y, SIZES))[0, 0] == 10


def test_with_share_1_node_0_has_nothing_else():
    held = counts(partition.sole_holder(rng(), X, Y, SIZES, label=2, share=1.0))
    assert held[0].tolist() == [0, 0, 20, 0]


def test_the_other_classes_are_dealt_evenly():
    """Three classes at nodes of 300 rows: a third of each, within 4 deviations."""
    y = np.repeat(np.arange(4), 1000)
    dealt = partition.sole_holder(rng(), np.zeros((4000, 1)), y, np.full(5, 300))
    held = counts(dealt, y)[1:, 1:]
    np.testing.assert_allclose(held, 100, atol=4 * np.sqrt(300 * (1 / 3) * (2 / 3)))


@pytest.mark.parametrize("share", [0, -0.1, 1.1, float("nan")])
def test_a_share_is_above_0_and_at_most_1(share):
    with pytest.raises(BadSetting, match=f"greater than 0 and at most 1, got {share}"):
        partition.sole_holder(rng(), X, Y, SIZES, share=share)


def test_too_few_rows_are_told():
    few = "needs 60 rows of class 1 and there are 50.*take fewer rows for each node"
    with pytest.raises(BadData, match=few):
        partition.sole_holder(rng(), X, Y, np.array([60, 60]), label=1, share=1.0)
    with pytest.raises(BadData, match="155 of the other classes and there are 150"):
        partition.sole_holder(rng(), X, Y, np.array([10, 150]))
    with pytest.raises(BadData, match="rows of class 7 and there are 0"):
        partition.sole_holder(rng(), X, Y, SIZES, label=7)


def test_a_node_0_without_rows_is_refused():
    with pytest.raises(BadSetting, match="node 0 is to hold a class and has no rows"):
        partition.sole_holder(rng(), X, Y, np.array([0, 10]))
