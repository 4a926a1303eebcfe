"""EM: the likelihood never falls, labels make it exact, mixtures are found, refusals."""

import jax
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from peerwise.errors import BadData, BadSetting
from peerwise.models import lda, log_joint, naive_bayes, qda, shared_naive_bayes, statistics
from peerwise.update import em

MIXED = (0, 3, 0, 2)
BOTH = pytest.mark.parametrize("made", [naive_bayes, shared_naive_bayes])


def rows(seed, m=60, classes=3, holes=0.0, unlabelled=0.5, apart=1.5):
    """Rows of a mixture, some without a label (-1) and some without values (NaN)."""
    rng = np.random.default_rng(seed)
    y = np.arange(m) % classes
    x = np.column_stack(
        [
            rng.normal(apart * y, 0.8 + 0.2 * y),
            (y + (rng.random(m) < 0.6) * rng.integers(3, size=m)) % 3,
            rng.normal(-apart * y, 1.0),
            (rng.random(m) < 0.2 + 0.25 * y).astype(float),
        ]
    )
    x = np.where(rng.random(x.shape) < holes, np.nan, x)
    told = y.copy()
    told[2 * classes :][rng.random(m - 2 * classes) < unlabelled] = -1  # two of each class stay
    return x, y, told


def summed(model, x, y, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    with jax.enable_x64(True):
        made = statistics(model, jax.numpy.asarray(x), jax.numpy.asarray(y), np.asarray(weight))
        return jax.tree.map(np.asarray, made)


def close(a, b, tolerance=1e-9):
    jax.tree.map(
        lambda u, v: np.testing.assert_allclose(u, v, rtol=tolerance, atol=tolerance), a, b
    )


def described(model, s):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, model.describe(s))


def guards(model, s):
    with jax.enable_x64(True):
        return int(model.theta(jax.tree.map(jax.numpy.asarray, s)).guards)


# --- the likelihood


@pytest.mark.some("0.0-naive_bayes", "0.2-shared_naive_bayes")
@BOTH
@pytest.mark.parametrize("holes", [0.0, 0.2])
@given(seed=st.integers(0, 2**32 - 1), unlabelled=st.sampled_from([0.2, 0.5, 0.8]))
@settings(max_examples=15)
def test_the_likelihood_never_falls(made, holes, seed, unlabelled):
    model = made(MIXED, 3, missing=holes > 0)
    x, _, y = rows(seed, m=150, holes=holes, unlabelled=unlabelled)
    # the start may be anything; pseudo-rows keep its variances away from the guards
    with jax.enable_x64(True):
        start = jax.tree.map(np.asarray, model.uniform(3.0, float))
    start = jax.tree.map(np.add, start, summed(model, x, y, (y >= 0).astype(float)))
    found = em(model, x, y, start=start)
    trace = found.log_likelihood
    assert len(trace) > 2
    assert np.isfinite(trace).all()
    assume(guards(model, found.statistics) == 0)
    assert (np.diff(trace) >= -1e-9 * np.abs(trace[:-1])).all()


@pytest.mark.full  # `make test`: test_the_likelihood_never_falls
@BOTH
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_with_a_prior_likelihood_times_prior_never_falls(made, seed):
    """The prior is two pseudo-rows of each class; its density is theirs, up to a constant."""
    model = made(MIXED, 3)
    x, _, y = rows(seed)
    with jax.enable_x64(True):
        prior = jax.tree.map(np.asarray, model.uniform(6.0, float))

        def density(s):
            """Of the prior's rows: sum_y weight_y . s_y + shared . s_shared."""
            theta = model.theta(jax.tree.map(jax.numpy.asarray, s))
            if model.common is None:
                return float((theta.weight * prior).sum())
            return float((theta.weight * prior["classes"]).sum() + theta.shared @ prior["shared"])

        known = summed(model, x, y, (y >= 0).astype(float))
        s = jax.tree.map(np.add, known, prior)
        objective = []
        for _ in range(8):
            step = em(model, x, y, prior=prior, start=s, iterations=1)
            objective.append(step.log_likelihood[0] + density(s))
            s = step.statistics
        objective = np.array(objective)
        assert guards(model, s) == 0
        assert (np.diff(objective) >= -1e-9 * np.abs(objective[:-1])).all()
        assert objective[-1] > objective[0]


def test_the_likelihood_is_that_of_what_is_observed():
    """log p(x, y) of a row with a label, log of the sum over y of a row without."""
    model = naive_bayes(MIXED, 3, missing=True)
    x, _, y = rows(0, holes=0.2)
    weight = np.random.default_rng(1).random(len(y)) + 0.5
    s = summed(model, *rows(1)[:2])
    first = em(model, x, y, weight, start=s, iterations=1).log_likelihood
    with jax.enable_x64(True):
        joint = np.asarray(log_joint(model, jax.numpy.asarray(s), jax.numpy.asarray(x)))
    told = np.where(
        y >= 0,
        joint[np.arange(len(y)), np.maximum(y, 0)],
        np.log(np.exp(joint).sum(1)),
    )
    close(first, [(weight * told).sum()])


def test_it_goes_on_while_likelihood_times_prior_rises():
    """A prior may pull the likelihood down for a while: no reason to stop."""
    model = naive_bayes(MIXED, 3)
    x, _, y = rows(2, m=200, unlabelled=0.97, apart=0.7)
    with jax.enable_x64(True):
        prior = jax.tree.map(np.asarray, model.uniform(3.0, float))
    found = em(model, x, y, prior=prior, iterations=2000)
    assert (np.diff(found.log_likelihood)[:60] < 0).any()
    far = em(model, x, y, prior=prior, iterations=400, tolerance=-np.inf)  # never stops
    with jax.enable_x64(True):
        ours, theirs = (
            np.asarray(log_joint(model, e.statistics, jax.numpy.asarray(x))) for e in (found, far)
        )
    assert (ours.argmax(1) != theirs.argmax(1)).mean() < 0.01


# --- labels


@pytest.mark.some("qda")
@pytest.mark.parametrize("made", [naive_bayes, shared_naive_bayes, qda])
def test_where_every_row_has_a_label_it_is_plain_statistics(made):
    model = made(MIXED, 3)
    x, y, _ = rows(2)
    found = em(model, np.round(8 * x) / 8, y)  # eighths: their sums have no rounding
    expected = summed(model, np.round(8 * x) / 8, y)
    jax.tree.map(np.testing.assert_array_equal, found.statistics, expected)
    assert len(found.log_likelihood) == 2  # the second says that nothing changed
    assert found.log_likelihood[0] == found.log_likelihood[1]


def test_it_ends_where_another_step_changes_nothing():
    model = naive_bayes(MIXED, 3)
    x, _, y = rows(3, apart=3.0)
    found = em(model, x, y, iterations=1000, tolerance=1e-14)
    again = em(model, x, y, start=found.statistics, iterations=1)
    close(again.statistics, found.statistics, 1e-4)


def test_rows_labels_and_weights_are_as_many():
    model = naive_bayes(MIXED, 3)
    x, _, y = rows(3)
    with pytest.raises(BadData, match="60 rows have 59 labels"):
        em(model, x, y[:-1])


def test_a_row_without_a_label_is_worth_its_weight():
    model = naive_bayes(MIXED, 3)
    x, _, y = rows(4)
    weight = np.random.default_rng(0).random(len(y)) + 0.5
    found = em(model, x, y, weight)
    np.testing.assert_allclose(found.statistics[:, 0].sum(), weight.sum())
    assert (found.statistics[:, 0] > summed(model, x, y, weight)[:, 0]).all()


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=5)
def test_a_weight_counts_as_repetition(seed):
    model = shared_naive_bayes(MIXED, 3, missing=True)
    x, _, y = rows(seed, m=30, holes=0.1)
    times = np.random.default_rng(seed).integers(1, 4, size=30)
    pad = np.concatenate([np.repeat(np.arange(30), times), np.zeros(90 - times.sum(), int)])
    present = (np.arange(90) < times.sum()).astype(float)  # one shape: one program
    weighted = em(model, x, y, times.astype(float), iterations=20, tolerance=0)
    repeated = em(model, x[pad], y[pad], present, iterations=20, tolerance=0)
    close(weighted.statistics, repeated.statistics, 1e-6)
    k = min(len(weighted.log_likelihood), len(repeated.log_likelihood))
    close(weighted.log_likelihood[:k], repeated.log_likelihood[:k], 1e-7)


def test_rows_of_weight_0_are_as_good_as_absent():
    model = naive_bayes(MIXED, 3)
    x, _, y = rows(5)
    weight = (np.arange(len(y)) < 40).astype(float)
    close(em(model, x, y, weight).statistics, em(model, x[:40], y[:40]).statistics)


# --- what it finds


@pytest.mark.full
@pytest.mark.parametrize(("made", "holes"), [(naive_bayes, 0.15), (shared_naive_bayes, 0.0)])
def test_it_finds_the_parameters_of_a_well_separated_mixture(made, holes):
    rng = np.random.default_rng(6)
    m, share = 4000, np.array([0.2, 0.5, 0.3])
    true = rng.choice(3, size=m, p=share)
    mean = np.array([[-4.0, 0.0], [0.0, 4.0], [4.0, -1.0]])
    std = np.ones((3, 2)) if made is shared_naive_bayes else np.array([[0.5, 1], [1, 0.7], [1, 1]])
    table = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.3, 0.6]])
    x = np.column_stack(
        [
            mean[true] + std[true] * rng.normal(size=(m, 2)),
            [rng.choice(3, p=table[c]) for c in true],
        ]
    )
    x = np.where(rng.random(x.shape) < holes, np.nan, x)
    y = np.where(np.arange(m) < 30, true, -1)  # 30 labels among 4000 rows
    model = made((0, 0, 3), 3, missing=holes > 0)
    found = described(model, em(model, x, y).statistics)
    few = described(model, summed(model, x[:30], y[:30]))
    np.testing.assert_allclose(found["prior"], share, atol=0.03)
    np.testing.assert_allclose(found["mean"], mean, atol=0.12)
    np.testing.assert_allclose(found["var"], std**2, atol=0.15)
    np.testing.assert_allclose(found["prob"][2], table, atol=0.06)
    assert np.abs(found["mean"] - mean).max() < np.abs(few["mean"] - mean).max()


def test_a_start_makes_labels_unnecessary():
    model = naive_bayes(MIXED, 3)
    x, true, _ = rows(7, m=150, apart=4.0)
    start = summed(model, x[:60], true[:60])
    found = em(model, x, np.full(150, -1), start=start).statistics
    np.testing.assert_allclose(found[:, 0], np.bincount(true), atol=7)


def test_a_prior_is_added_to_the_statistics():
    model = naive_bayes(MIXED, 3)
    x, y, _ = rows(8)
    with jax.enable_x64(True):
        prior = jax.tree.map(np.asarray, model.uniform(9.0, float))
    close(em(model, x, y, prior=prior).statistics, summed(model, x, y) + prior)


def test_a_heavy_prior_keeps_the_parameters_near_it():
    model = naive_bayes(MIXED, 3)
    x, _, y = rows(9)
    with jax.enable_x64(True):
        prior = jax.tree.map(np.asarray, model.uniform(3e9, float))
    found = described(model, em(model, x, y, prior=prior).statistics)
    np.testing.assert_allclose(found["mean"], 0, atol=1e-6)
    np.testing.assert_allclose(found["prior"], 1 / 3, atol=1e-6)


# --- refused


def test_a_class_without_a_labelled_row_is_refused():
    model = naive_bayes(MIXED, 3)
    x, y, _ = rows(10)
    with pytest.raises(BadData, match="class 1 has no labelled row"):
        em(model, x, np.where(y == 1, -1, y))
    with pytest.raises(BadData, match="class 2 has no labelled row"):
        em(model, x, y, (y != 2).astype(float))  # its rows weigh nothing


@pytest.mark.parametrize("made", [qda, lda])
def test_models_whose_missing_numbers_depend_on_others_are_refused(made):
    x, _, y = rows(11, holes=0.1)
    with pytest.raises(BadSetting, match=f"naive Bayes, not for {made.__name__}"):
        em(made(MIXED, 3, missing=True), x, y)


def test_no_iterations_are_refused():
    x, _, y = rows(12)
    with pytest.raises(BadSetting, match="iterations must be 1 or more, got 0"):
        em(naive_bayes(MIXED, 3), x, y, iterations=0)
