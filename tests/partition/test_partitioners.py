"""The ways to deal rows one by one: what each is named for."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from peerwise import partition
from peerwise.errors import BadData, BadSetting


def rng(seed=0):
    return np.random.default_rng(seed)


def test_first_component_is_that_of_scikit_learn():
    x = rng().normal(size=(200, 4)) @ rng(1).normal(size=(4, 4)) + 100
    theirs = PCA(1).fit_transform(StandardScaler().fit_transform(x))[:, 0]
    ours = partition.first_component(x)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), rtol=1e-8, atol=1e-10)
    assert abs(np.corrcoef(ours, theirs)[0, 1]) == pytest.approx(1)


def test_first_component_takes_nan_as_the_mean_and_constants_as_nothing():
    x = np.array([[1.0, 0.1], [np.nan, 0.1], [3.0, 0.1], [2.0, 0.1], [0.0, 0.1]])
    score = partition.first_component(x)
    assert score[1] == pytest.approx(0)  # the mean of 0, 1, 2, 3 is where it is put
    assert np.argsort(score[[0, 2, 3, 4]]).tolist() == [3, 0, 2, 1]
    np.testing.assert_array_equal(partition.first_component(np.full((4, 2), 0.1)), np.zeros(4))
    np.testing.assert_array_equal(partition.first_component(np.full((4, 2), np.nan)), np.zeros(4))


def test_first_component_leaves_its_argument_alone():
    x = np.array([[1.0, np.nan], [2.0, 5.0]])
    partition.first_component(x)
    np.testing.assert_array_equal(x, [[1.0, np.nan], [2.0, 5.0]])


@pytest.mark.parametrize("x", [np.zeros(3), np.zeros((3, 0)), np.zeros((0, 3))])
def test_first_component_needs_rows_and_columns(x):
    with pytest.raises(BadData, match="rows and columns, got shape"):
        partition.first_component(x)


def test_first_component_needs_numbers():
    with pytest.raises(BadData, match="encode"):
        partition.first_component(np.array([["a"], ["b"]]))


def test_feature_drift_gives_each_node_an_interval_of_the_component():
    x = rng().normal(size=(300, 3))
    y = rng(1).integers(0, 2, 300)
    rows = partition.feature_drift(rng(2), x, y, np.array([40, 20, 60, 30]))
    score = partition.first_component(x)
    spans = [(score[r].min(), score[r].max()) for r in rows]
    order = np.argsort([low for low, _ in spans])
    assert all(spans[a][1] <= spans[b][0] for a, b in pairwise(order))


def test_which_node_gets_which_chunk_is_random():
    x, y = np.arange(8.0)[:, None], np.zeros(8, int)
    sizes = np.array([2, 2, 2, 2])
    first = {int(partition.feature_drift(rng(s), x, y, sizes)[0].min()) for s in range(40)}
    assert first == {0, 2, 4, 6}


def test_label_sorted_chunks_straddle_at_most_where_classes_meet():
    y = rng().permutation(np.repeat([0, 1, 2], [10, 13, 7]))
    rows = partition.label_sorted(rng(1), np.zeros((30, 1)), y, np.full(6, 5))
    held = sorted(sorted(y[r].tolist()) for r in rows)
    assert held == [[0] * 5, [0] * 5, [1] * 5, [1] * 5, [1] * 3 + [2] * 2, [2] * 5]


def test_label_drift_gives_each_node_one_class_by_largest_remainder():
    y = np.repeat([0, 1, 2], [500, 330, 170])
    rows = partition.label_drift(rng(1), np.zeros((1000, 1)), y, np.full(10, 12))
    held = [np.unique(y[r]).tolist() for r in rows]
    assert sorted(held) == [[0]] * 5 + [[1]] * 3 + [[2]] * 2  # 5.0, 3.3, 1.7


def test_every_class_has_a_node_where_there_are_as_many():
    y = np.repeat([0, 1, 2, 3], [970, 10, 10, 10])
    rows = partition.label_drift(rng(1), np.zeros((1000, 1)), y, np.full(4, 5))
    assert sorted(int(y[r][0]) for r in rows) == [0, 1, 2, 3]
    rows = partition.label_drift(rng(1), np.zeros((1000, 1)), y, np.full(3, 5))
    assert {int(y[r][0]) for r in rows} == {0}  # too few nodes: the largest shares


def test_label_drift_keeps_sizes_of_any_kind():
    y = np.repeat([0, 1], 100)
    sizes = np.array([1, 30, 0, 12, 7, 3])
    rows = partition.label_drift(rng(3), np.zeros((200, 1)), y, sizes)
    assert [r.size for r in rows] == sizes.tolist()
    assert all(np.unique(y[r]).size <= 1 for r in rows)


def test_a_class_with_too_few_rows_is_named():
    y = np.repeat([0, 7], [90, 10])
    for deal in (partition.label_drift, partition.label_feature_drift):
        with pytest.raises(BadData, match="class 7 needs 20 rows for its 1 nodes and has 10"):
            deal(rng(), np.zeros((100, 1)), y, np.full(2, 20))


def test_label_feature_drift_cuts_each_class_along_the_component():
    x = rng().normal(size=(400, 3))
    y = rng(1).integers(0, 2, 400)
    rows = partition.label_feature_drift(rng(2), x, y, np.full(8, 25))
    score = partition.first_component(x)
    for c in (0, 1):
        spans = sorted((score[r].min(), score[r].max()) for r in rows if y[r[0]] == c)
        assert all((y[r] == y[r[0]]).all() for r in rows)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))


def shares(alpha, seed=0):
    y = np.repeat([0, 1, 2], [600, 300, 100])
    rows = partition.dirichlet(rng(seed), np.zeros((1000, 1)), y, np.full(20, 50), alpha)
    return np.array([np.bincount(y[r], minlength=3) / r.size for r in rows])


def test_a_large_alpha_is_the_mix_of_the_table_and_a_small_one_is_one_class():
    np.testing.assert_allclose(shares(1e6), np.tile([0.6, 0.3, 0.1], (20, 1)), atol=0.15)
    assert np.median(shares(1e-6).max(1)) == 1


@pytest.mark.parametrize("rows", [5_000, 20_000])
def test_at_a_large_alpha_no_node_is_left_with_what_others_did_not_take(rows):
    """The node served last was up to 13 standard deviations off where part of the rows is dealt."""
    for seed in range(4):
        y = rng(seed).integers(0, 4, rows)
        dealt = partition.dirichlet(rng(seed + 1), np.zeros((rows, 1)), y, np.full(50, 100), 1e6)
        counts = np.array([np.bincount(y[r], minlength=4) for r in dealt])
        assert np.abs(counts - counts.mean(0)).max() <= 3  # the standard deviation is 4.3


def test_class_mixes_are_as_concentrated_as_dirichlet_draws():
    """The mean of sum(share^2) is (alpha sum(p^2) + 1) / (alpha + 1); the last nodes blur it."""
    for alpha in (0.3, 1.0, 10.0):
        found = np.mean([(shares(alpha, seed) ** 2).sum(1).mean() for seed in range(20)])
        assert found == pytest.approx((alpha * 0.46 + 1) / (alpha + 1), abs=0.05)


@settings(derandomize=True, deadline=None, max_examples=10)
@given(alpha=st.floats(1e-300, 1e9), seed=st.integers(0, 1000))
def test_any_positive_alpha_fills_the_sizes(alpha, seed):
    y = rng(seed).integers(0, 4, 60)
    rows = partition.dirichlet(rng(seed), np.zeros((60, 1)), y, np.array([20, 0, 30, 10]), alpha)
    assert [r.size for r in rows] == [20, 0, 30, 10]
    assert np.unique(np.concatenate(rows)).size == 60


@pytest.mark.parametrize("alpha", [0, -1, float("nan"), float("inf")])
def test_alpha_is_positive_and_finite(alpha):
    with pytest.raises(BadSetting, match=f"alpha must be .* 0.*, got {alpha}"):
        partition.dirichlet(rng(), np.zeros((2, 1)), np.zeros(2, int), np.array([1, 1]), alpha)


def test_equal_sizes_differ_by_one_at_most():
    assert partition.equal_sizes(4, 10).tolist() == [3, 3, 2, 2]
    assert partition.equal_sizes(1, 3).tolist() == [3]
    with pytest.raises(BadSetting, match="5 nodes of 1 rows or more need 5 rows, got 4"):
        partition.equal_sizes(5, 4)


def test_sizes_are_in_proportion_to_their_draws():
    draws = rng(5).exponential(size=200)
    sizes = partition.exponential_sizes(rng(5), 200, 100_000, minimum=0)
    np.testing.assert_allclose(sizes, draws / draws.sum() * 100_000, atol=1)
    uniform = partition.uniform_sizes(rng(5), 2000, 1_000_000, minimum=0)
    assert 5 < uniform.max() / uniform.min() < 10.1
    log = np.log(partition.log_uniform_sizes(rng(5), 2000, 1_000_000))
    assert np.std(log) > 2 * np.std(np.log(uniform))


def test_the_minimum_is_taken_from_the_others_in_proportion():
    draws = rng(5).exponential(size=50)
    sizes = partition.exponential_sizes(rng(5), 50, 200, minimum=2)
    above = sizes > 2
    assert (draws[above].min() >= draws[~above].max()) or above.all()
    exact = draws[above] / draws[above].sum() * (200 - 2 * np.count_nonzero(~above))
    np.testing.assert_allclose(sizes[above], exact, atol=1)
    full = partition.exponential_sizes(rng(5), 50, 100, minimum=2)
    assert (full == 2).all()
