"""Calibration that stops by itself: a trace of single steps, patience, the best iterate."""

from functools import cache

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.core import Shard
from peerwise.models import lda, naive_bayes, statistics
from peerwise.update import calibrate, soft_error
from peerwise.update.calibrate import calibrated

MODEL = naive_bayes((0, 3, 0), 3)


def shard(seed, m=40, spread=1.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=m)
    x = np.column_stack(
        [rng.normal(y, spread), (y + rng.integers(2, size=m)) % 3, rng.normal(-y, 2 * spread)]
    )
    return Shard(x, y.astype(np.int32), rng.integers(1, 4, size=m).astype(float))


def start_of(model, rows, lr):
    return jax.tree.map(lambda a: a / lr, statistics(model, *map(jax.numpy.asarray, rows)))


@cache
def one_step(model):
    return jax.jit(calibrate(model))


@cache
def soft_of(model):
    return jax.jit(lambda s, rows: soft_error(model, s, rows))


def by_hand(model, s, rows, watched, iterations, tolerance, patience):
    """The same loop in Python, one `calibrate` at a time."""
    trace, best, kept, since = [float(soft_of(model)(s, watched))], 0, s, 0
    for t in range(1, iterations + 1):
        if since >= patience:
            break
        s, _ = one_step(model)(s, rows)
        soft = float(soft_of(model)(s, watched))
        since = 0 if soft < min(trace) - tolerance else since + 1
        if soft < min(trace):
            best, kept = t, s
        trace.append(soft)
    return kept, trace, best


@pytest.mark.some("naive_bayes")
@pytest.mark.parametrize("made", [naive_bayes, lda])
@given(
    seed=st.integers(0, 2**32 - 1),
    lr=st.sampled_from([0.02, 0.3, 2.0]),
    tolerance=st.sampled_from([0.0, 1e-4, 1e-2]),
    patience=st.integers(1, 6),
)
@settings(max_examples=8)
def test_the_trace_is_that_of_calibrating_step_by_step(made, seed, lr, tolerance, patience):
    model, iterations = made((0, 3, 0), 3), 12
    rows, watched = shard(seed), shard(seed + 1)
    with jax.enable_x64(True):
        start = start_of(model, rows, lr)
        found = calibrated(model, iterations)(start, rows, watched, tolerance, patience)
        kept, trace, best = by_hand(model, start, rows, watched, iterations, tolerance, patience)
        made_so_far = int(found.iterations)
        assert made_so_far == len(trace) - 1
        np.testing.assert_allclose(found.soft_error[: made_so_far + 1], trace, rtol=1e-9)
        assert np.isinf(found.soft_error[made_so_far + 1 :]).all()
        assert int(found.best) == best
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9),
            found.statistics,
            kept,
        )


def run(iterations=60, lr=0.1, tolerance=0.0, patience=10**6, watched=None, seed=0):
    with jax.enable_x64(True):
        rows = shard(seed)
        start = start_of(MODEL, rows, lr)
        args = (rows, rows if watched is None else watched, tolerance, patience)
        return jax.tree.map(np.asarray, calibrated(MODEL, iterations)(start, *args))


def test_without_an_end_of_patience_all_iterations_are_made():
    found = run()
    assert found.iterations == 60
    assert np.isfinite(found.soft_error).all()


def test_the_kept_iterate_has_the_lowest_soft_error_of_the_trace():
    found = run(lr=3.0)  # steps so long that the soft error rises again
    assert found.best == found.soft_error.argmin()
    assert found.best < found.iterations
    with jax.enable_x64(True):
        again = float(soft_error(MODEL, found.statistics, shard(0)))
    np.testing.assert_allclose(again, found.soft_error.min(), rtol=1e-12)


@pytest.mark.parametrize("patience", [1, 3, 7])
def test_a_tolerance_that_nothing_reaches_stops_after_patience(patience):
    found = run(tolerance=1.0, patience=patience)
    assert found.iterations == patience
    assert found.best == patience  # each was better, though not by enough


def test_it_stops_patience_iterations_after_the_last_good_one():
    found = run(lr=0.3, tolerance=1e-3, patience=4)
    stopped = int(found.iterations)
    assert 4 < stopped < 60
    trace = found.soft_error[: stopped + 1]
    least = np.minimum.accumulate(trace)
    good = np.flatnonzero(trace[1:] < least[:-1] - 1e-3) + 1
    assert stopped == good[-1] + 4
    assert (np.diff(np.append(0, good)) <= 4).all()  # it had not to stop before


def test_no_iterations_leave_the_start():
    found = run(iterations=0)
    assert (found.iterations, found.best, found.soft_error.shape) == (0, 0, (1,))
    with jax.enable_x64(True):
        np.testing.assert_array_equal(found.statistics, start_of(MODEL, shard(0), 0.1))


def test_other_rows_are_watched_than_are_calibrated_on():
    other = shard(5)
    found, own = run(watched=other), run()
    with jax.enable_x64(True):
        first = float(soft_error(MODEL, start_of(MODEL, shard(0), 0.1), other))
    np.testing.assert_allclose(found.soft_error[0], first, rtol=1e-12)
    assert (found.soft_error[1:] != own.soft_error[1:]).all()


def test_the_soft_error_is_a_mean_also_of_weights_below_one():
    rows = shard(3)
    with jax.enable_x64(True):
        s = start_of(MODEL, rows, 1.0)
        small = rows._replace(weight=rows.weight * 1e-4)
        np.testing.assert_allclose(
            soft_error(MODEL, s, small), soft_error(MODEL, s, rows), rtol=1e-9
        )
        assert soft_error(MODEL, s, rows._replace(weight=rows.weight * 0)) == 1  # no rows: no NaN
