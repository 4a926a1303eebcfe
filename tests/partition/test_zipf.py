"""The allocation of the DecDiff paper: a truncated Zipf law for each class, and its Gini index."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from peerwise import partition
from peerwise.errors import BadData, BadSetting
from peerwise.partition import drawn

MNIST = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]  # training rows of each class


def rng(seed=0):
    return np.random.default_rng(seed)


def dealt(y, nodes, seed=0, rows=None, **options):
    """Counts of each class at each node."""
    sizes = partition.equal_sizes(nodes, rows or y.size)
    owned = partition.zipf(rng(seed), np.zeros((y.size, 1)), y, sizes, **options)
    used = np.concatenate(owned)
    assert used.size == np.unique(used).size == (rows or y.size)
    return partition.allocation(y, owned, int(y.max()) + 1)


@pytest.mark.parametrize("seed", range(3))
def test_50_nodes_of_mnist_are_as_unequal_as_the_paper_says(seed):
    """By class as in the paper, where its 50 nodes' totals are only near 0.4."""
    counts = dealt(np.repeat(np.arange(10), MNIST), 50, seed)
    np.testing.assert_array_equal(counts.sum(0), MNIST)
    assert counts.min() >= 1
    assert 0.7 <= partition.gini_by_class(counts).mean() <= 0.85
    assert 0.3 < partition.gini_of_totals(counts) < 0.5


def test_draws_follow_the_truncated_law():
    draws = drawn.truncated_zipf(rng(), (4, 5000), alpha=1.26, largest=6)
    assert draws.shape == (4, 5000)
    assert (draws.min(), draws.max()) == (1, 6)
    law = np.arange(1, 7) ** -1.26
    seen = np.bincount(draws.ravel(), minlength=7)[1:]
    assert chisquare(seen, law / law.sum() * 20_000).pvalue > 0.01


def test_draws_cut_off_at_1000_have_the_gini_index_of_the_notes():
    """Of 50 draws: .67 at 100, .81 at 1000, .87 at 6000."""
    for largest, index in ((100, 0.67), (1000, 0.81), (6000, 0.87)):
        draws = drawn.truncated_zipf(rng(), (400, 50), largest=largest)
        assert partition.gini(draws).mean() == pytest.approx(index, abs=0.015)


def test_the_first_draw_is_dealt_in_proportion_by_largest_remainder():
    y = np.repeat([0, 1], [10_000, 4000])
    counts = dealt(y, 20, gini=None, least=0)
    share = drawn.truncated_zipf(rng(), (2, 20))
    exact = share / share.sum(1, keepdims=True) * np.array([[10_000], [4000]])
    assert np.abs(counts.T - exact).max() < 1
    left = exact - np.floor(exact)
    for c in (0, 1):
        up = counts[:, c] > np.floor(exact[c])
        assert left[c][up].min() >= left[c][~up].max()


def test_the_least_is_taken_from_those_that_have_more_in_proportion():
    counts = dealt(np.zeros(2000, int), 40, gini=None, least=30)[:, 0]
    share = drawn.truncated_zipf(rng(), (1, 40))[0]
    above = counts > 30
    assert counts.min() == 30
    assert above.any()
    exact = share[above] / share[above].sum() * (2000 - 30 * np.count_nonzero(~above))
    np.testing.assert_allclose(counts[above], exact, atol=1)
    assert share[above].min() >= share[~above].max()


def test_classes_are_drawn_independently():
    """Shares of two classes at the nodes do not go together."""
    y = np.repeat([0, 1], 5000)
    ranks = [dealt(y, 100, seed, gini=None, least=0).argsort(0).argsort(0) for seed in range(20)]
    found = np.mean([np.corrcoef(r.T)[0, 1] for r in ranks])
    assert abs(found) < 4 / np.sqrt(20 * 100)


def test_a_larger_table_is_thinned_class_by_class():
    y = rng().permutation(np.repeat([0, 1, 2], [3000, 1500, 500]))
    counts = dealt(y, 10, rows=1000, gini=None)
    assert counts.sum(0).tolist() == [600, 300, 100]


@settings(derandomize=True, deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), nodes=st.integers(1, 30), least=st.integers(0, 5))
def test_every_node_has_the_least_of_every_class(seed, nodes, least):
    y = rng(seed).integers(0, 4, 900)
    assert dealt(y, nodes, seed, rows=800, gini=None, least=least).min() >= least


@pytest.mark.parametrize("low", [0.76, 0.78, 0.8, 0.83])
def test_redraws_until_the_index_is_in_range(low):
    counts = dealt(np.repeat(np.arange(4), 3000), 50, gini=(low, low + 0.02))
    assert low <= partition.gini_by_class(counts).mean() <= low + 0.02


def test_a_range_out_of_reach_says_how_far_it_is_and_what_to_change():
    y = np.repeat([0, 1], 500)
    with pytest.raises(BadSetting, match=r"out of reach: 3 nodes of 1 rows .* reach 0\.66 at most"):
        dealt(y, 3)
    with pytest.raises(BadSetting, match=r"0\.7 or more is out of reach: 50 nodes of 5 rows"):
        dealt(y, 50, least=5)
    with pytest.raises(BadSetting, match=r"0\.79 and 0\.8; they had .* few nodes seldom come near"):
        dealt(y, 5, gini=(0.79, 0.8), least=0)
    with pytest.raises(
        BadSetting, match=r"they had 0\.[78].* to 0\.[89].*; take a smaller `largest`"
    ):
        dealt(y, 50, gini=(0, 0.2), least=0)
    with pytest.raises(BadSetting, match="the range is narrow: widen it"):
        dealt(y, 50, gini=(np.pi / 4, np.pi / 4))  # no ratio of counts


def test_a_class_too_small_for_all_nodes_is_named():
    y = np.repeat([0, 7], [990, 10])
    with pytest.raises(BadData, match="class 7 has 10 of the 1000 rows dealt, and 20 nodes of 1"):
        dealt(y, 20)
    with pytest.raises(BadData, match=r"class 7 has 1 of the 100 .* need 5; deal more rows"):
        dealt(y, 5, rows=100)
    assert dealt(y, 20, least=0).sum() == 1000
    assert dealt(y, 20, rows=40, least=0)[:, 7].sum() == 0  # too rare to be dealt: no Gini index


def test_no_rows_at_all_are_dealt_as_such():
    y, none = np.array([0, 1]), np.zeros(3, int)
    assert [r.size for r in partition.zipf(rng(), np.zeros((2, 1)), y, none, least=0)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0}, "alpha must be greater than 0, got 0"),
        ({"alpha": float("nan")}, "alpha must be greater than 0"),
        ({"largest": 0}, "largest must be 1 or more, got 0"),
        ({"least": -1}, "least must be 0 or more, got -1"),
        ({"gini": (0.8, 0.7)}, r"gini must be .* between 0 and 1, got \(0\.8, 0\.7\)"),
        ({"gini": (0.1, 2)}, "gini must be"),
        ({"gini": 0.8}, "gini must have more entries, got"),
        ({"gini": (float("nan"), 1)}, "gini must be"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(options, message):
    with pytest.raises(BadSetting, match=message):
        dealt(np.repeat([0, 1], 500), 20, **options)
