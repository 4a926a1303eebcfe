"""Characteristic times, intervals, traffic and boxes: by hand, by SciPy, by matplotlib."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.cbook import boxplot_stats
from scipy import stats

from peerwise import metrics
from peerwise.errors import BadData, BadSetting
from peerwise.metrics import (
    Reached,
    box,
    characteristic_time,
    characteristic_times,
    confidence,
    traffic,
)

ROUNDS = (1, 10, 20, 40)
ACCURACY = np.array(
    [
        [0.1, 0.5, 0.8, 0.9],
        [0.1, 0.2, 0.8, 0.7],
        [0.5, 0.4, 0.6, 0.6],
    ]
)


def test_the_names_are_exported_in_order():
    assert metrics.__all__ == sorted(metrics.__all__)


# --- characteristic times


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        (0.0, (1, 3, 3)),
        (0.5, ((10 + 20 + 1) / 3, 3, 3)),  # falling back afterwards does not matter
        (0.8, (20, 2, 3)),  # equal is reached
        (0.85, (40, 1, 3)),
    ],
)
def test_the_first_round_at_the_goal_as_a_mean_over_the_runs_that_reach_it(goal, expected):
    assert characteristic_time(ACCURACY, ROUNDS, goal) == Reached(*expected)


def test_a_goal_that_no_run_reaches():
    mean, count, runs = characteristic_time(ACCURACY, ROUNDS, 0.95)
    assert np.isnan(mean)
    assert (count, runs) == (0, 3)


def test_nan_never_reaches_a_goal():
    curves = [[np.nan, 0.9], [np.nan, np.nan], [0.9, np.nan]]
    assert characteristic_time(curves, [3, 7], 0.5) == Reached(5, 2, 3)


def test_nothing_recorded_or_nothing_run():
    assert characteristic_time(np.empty((2, 0)), [], 0.5)[1:] == (0, 2)
    assert characteristic_time(np.empty((0, 4)), ROUNDS, 0.5)[1:] == (0, 0)


def test_single_precision_reaches_the_goal_that_it_rounds():
    assert np.float64(np.float32(0.9)) < 0.9
    for goal in (0.9, np.float64(0.9)):
        assert characteristic_time(np.float32([[0.9]]), [5], goal).count == 1


def test_times_to_shares_of_the_centralised_accuracy():
    times = characteristic_times(ACCURACY, ROUNDS, reference=1.0)
    assert list(times) == [0.5, 0.8, 0.9, 0.95]
    assert [t.count for t in times.values()] == [3, 2, 1, 0]
    assert times[0.9] == Reached(40, 1, 3)
    half = characteristic_times(ACCURACY, ROUNDS, 0.8, shares=[1])
    assert half == {1: characteristic_time(ACCURACY, ROUNDS, 0.8)}


def test_table_iv_of_decdiff_has_means_over_fewer_runs():
    """583.25 and 609.67 are means over four and three of the runs (notes on the paper)."""
    curves = np.eye(4)[[0, 1, 2, 3, 3]]
    curves[4] = 0  # the fifth run gets nowhere
    assert characteristic_time(curves, [580, 582, 584, 587], 1) == Reached(583.25, 4, 5)


@pytest.mark.parametrize(
    ("accuracy", "rounds", "told"),
    [
        (ACCURACY[0], ROUNDS, r"give a single run as accuracy\[None\]"),
        (ACCURACY, ROUNDS[:3], r"got \(3, 4\) for rounds of shape \(3,\)"),
        (ACCURACY, (1, 10, 10, 40), "rounds must increase"),
        (ACCURACY, (40, 20, 10, 1), "rounds must increase"),
    ],
)
def test_curves_that_do_not_fit(accuracy, rounds, told):
    with pytest.raises(BadData, match=told):
        characteristic_time(accuracy, rounds, 0.5)


def test_goals_that_make_no_sense():
    with pytest.raises(BadSetting, match="goal must be an accuracy"):
        characteristic_time(ACCURACY, ROUNDS, np.nan)
    for reference in (0, -0.5, 98.24, np.nan):
        with pytest.raises(BadSetting, match="reference must be an accuracy"):
            characteristic_times(ACCURACY, ROUNDS, reference)
    for share in (0, -1, np.nan):
        with pytest.raises(BadSetting, match="shares must be greater than 0"):
            characteristic_times(ACCURACY, ROUNDS, 0.9, shares=(0.5, share))


# --- confidence intervals


def test_two_replicas_by_hand():
    mean, half = confidence([1.0, 3.0])
    assert mean == 2
    # standard error 1; the 97.5 % quantile of t with one degree of freedom is tan(.475 pi)
    assert half == pytest.approx(np.tan(0.475 * np.pi))


@given(n=st.integers(2, 40), level=st.floats(0.5, 0.999), seed=st.integers(0, 99))
def test_intervals_as_in_scipy(n, level, seed):
    values = np.random.default_rng(seed).normal(5, 2, (n, 3, 2))
    mean, half = confidence(values, level)
    low, high = stats.t.interval(level, n - 1, loc=values.mean(0), scale=stats.sem(values))
    np.testing.assert_allclose(mean - half, low, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(mean + half, high, rtol=1e-9, atol=1e-9)


def test_one_replica_has_no_interval():
    mean, half = confidence([0.7])
    assert mean == 0.7
    assert np.isnan(half)
    mean, half = confidence([[0.7, 0.8]])
    np.testing.assert_array_equal(mean, [0.7, 0.8])
    np.testing.assert_array_equal(half, [np.nan, np.nan])


def test_intervals_of_nothing_or_of_no_level():
    for values in ([], np.empty((0, 3)), 0.5):
        with pytest.raises(BadData, match="no replicas"):
            confidence(values)
    for level in (0, 1, 95):
        with pytest.raises(BadSetting, match="level must lie between 0 and 1"):
            confidence([1, 2], level)


# --- traffic


def test_bytes_grow_with_the_rounds():
    np.testing.assert_array_equal(traffic(ROUNDS, 8, 5), [40, 400, 800, 1600])
    np.testing.assert_allclose(traffic([1, 2], 8, 2.5), [20, 40])  # on average, under loss


def test_bytes_beyond_32_bits():
    sent = traffic(np.int32([1, 1000]), 400_000, 500)
    assert sent.tolist() == [200_000_000, 200_000_000_000]


@pytest.mark.parametrize("wrong", [([-1], 8, 5), ([1], -8, 5), ([1], 8, -5)])
def test_traffic_is_never_negative(wrong):
    with pytest.raises(BadSetting, match="must be 0 or more"):
        traffic(*wrong)


# --- boxes


def test_a_box_by_hand():
    shown = box([9, 1, 2, 3, 4])
    expected = {"median": 3, "q1": 2, "q3": 4, "whisker_low": 1, "whisker_high": 4}
    expected |= {"lowest": 1, "highest": 9}
    assert {name: shown[name] for name in expected} == expected
    np.testing.assert_array_equal(shown["outliers"], [9, np.nan, np.nan, np.nan, np.nan])


def test_whiskers_end_at_values_and_never_inside_the_box():
    shown = box([0, 0, 0, 100])  # the upper quartile, 25, has no value up to its fence, 62.5
    assert (shown["q3"], shown["whisker_high"], shown["highest"]) == (25, 25, 100)
    even = box(np.arange(8))
    assert (even["whisker_low"], even["whisker_high"]) == (0, 7)


@given(
    values=st.lists(st.integers(-50, 50), min_size=1, max_size=30),
    far=st.lists(st.floats(-1e4, 1e4), max_size=3),
)
def test_boxes_as_in_matplotlib(values, far):
    values = np.array([*values, *far], float)
    shown, (told,) = box(values), boxplot_stats(values)
    names = {"median": "med", "q1": "q1", "q3": "q3"}
    names |= {"whisker_low": "whislo", "whisker_high": "whishi"}
    for ours, theirs in names.items():
        assert shown[ours] == told[theirs]
    out = shown["outliers"]
    np.testing.assert_array_equal(np.sort(out[~np.isnan(out)]), np.sort(told["fliers"]))
    assert (shown["lowest"], shown["highest"]) == (values.min(), values.max())


def test_boxes_over_the_last_axis():
    values = np.random.default_rng(0).standard_t(1, (2, 3, 20))
    shown = box(values)
    assert shown["outliers"].shape == (2, 3, 20)
    for at in np.ndindex(2, 3):
        for name, alone in box(values[at]).items():
            np.testing.assert_array_equal(shown[name][at], alone)


def test_boxes_of_nothing():
    for values in ([], 0.5, np.empty((3, 0))):
        with pytest.raises(BadData, match="a value for each node"):
            box(values)
    for junk in (np.nan, np.inf):
        with pytest.raises(BadData, match="must be finite"):
            box([1, junk])
