"""Naive Bayes: sums that add up, parameters as scikit-learn has them, guards, missing values."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.naive_bayes import CategoricalNB, GaussianNB

from helpers import compiled, in64
from peerwise.errors import BadSetting
from peerwise.models import log_joint, log_posterior, naive_bayes, statistics

MIXED = (0, 3, 0, 2)  # a Gaussian feature, one of 3 categories, another Gaussian, one of 2


def rows(seed, m, cardinalities=MIXED, classes=3, share_missing=0.0):
    """m rows whose features depend on the class, so that no two classes look the same."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=m)
    columns = [
        rng.normal(0.5 * y + i, 0.7 + 0.2 * y) if r == 0 else (y + rng.integers(r, size=m)) % r
        for i, r in enumerate(cardinalities)
    ]
    x = np.column_stack(columns).astype(float)
    return np.where(rng.random(x.shape) < share_missing, np.nan, x), y


def summed(model, x, y, weight=None):
    return in64(statistics, model, x, y, np.ones(len(y)) if weight is None else weight)


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# --- statistics


@pytest.mark.parametrize("missing", [False, True])
@given(seed=st.integers(0, 2**32 - 1), parts=st.integers(1, 8))
def test_statistics_of_any_split_add_up_to_those_of_the_whole(missing, seed, parts):
    model = naive_bayes(MIXED, 3, missing)
    x, y = rows(seed, 23, share_missing=0.2 * missing)
    owner = np.random.default_rng(seed).integers(parts, size=23)  # a part may hold no row
    total = sum(summed(model, x, y, (owner == v).astype(float)) for v in range(parts))
    close(total, summed(model, x, y))


@given(seed=st.integers(0, 2**32 - 1))
def test_a_weight_counts_as_repetition(seed):
    model = naive_bayes(MIXED, 3)
    x, y = rows(seed, 9)
    times = np.random.default_rng(seed).integers(0, 4, size=9)
    repeated = sum(summed(model, x, y, (times > i).astype(float)) for i in range(3))
    close(summed(model, x, y, times.astype(float)), repeated)


def test_statistics_are_the_sums_that_the_paper_names():
    """Appendix A: for each class its rows, sums of x and of x^2, and rows in each category."""
    model = naive_bayes((0, 3), 2)
    x = np.array([[1.0, 0], [2.0, 2], [-3.0, 2]])
    got = summed(model, x, np.array([0, 1, 1]))
    assert got.tolist() == [[1, 1, 1, 1, 0, 0], [2, -1, 13, 0, 0, 2]]


@pytest.mark.parametrize("kept", [0, 1, 7, 12])
def test_rows_of_weight_0_are_as_good_as_absent(kept):
    model = naive_bayes(MIXED, 3)
    x, y = rows(0, 12)
    weight = (np.arange(12) < kept).astype(float)
    close(summed(model, x, y, weight), summed(model, x[:kept], y[:kept]))


# --- maximum likelihood against scikit-learn


def test_gaussian_features_as_in_scikit_learn():
    x, y = rows(1, 200, (0, 0, 0, 0))
    model = naive_bayes((0, 0, 0, 0), 3)
    s = summed(model, x, y)
    fitted = GaussianNB(var_smoothing=0).fit(x, y)
    close(in64(log_joint, model, s, x), fitted.predict_joint_log_proba(x), 1e-8)
    close(in64(log_posterior, model, s, x), fitted.predict_log_proba(x), 1e-8)
    described = in64(model.describe, s)
    close(described["mean"], fitted.theta_, 1e-10)
    close(described["var"], fitted.var_, 1e-10)
    close(described["prior"], fitted.class_prior_, 1e-10)


def test_categorical_features_as_in_scikit_learn():
    cardinalities = (3, 2, 4)
    x, y = rows(2, 300, cardinalities)
    model = naive_bayes(cardinalities, 3)
    s = summed(model, x, y)
    assert (s > 0).all()  # every category of every class occurs: no guard, no smoothing
    fitted = CategoricalNB(alpha=0, force_alpha=True).fit(x.astype(int), y)
    close(in64(log_joint, model, s, x), fitted.predict_joint_log_proba(x.astype(int)), 1e-8)
    close(in64(log_posterior, model, s, x), fitted.predict_log_proba(x.astype(int)), 1e-8)
    for i, table in in64(model.describe, s)["prob"].items():
        close(np.log(table), fitted.feature_log_prob_[i], 1e-10)


def test_mixed_features_are_the_two_kinds_side_by_side():
    x, y = rows(3, 300)
    numbers, codes = x[:, [0, 2]], x[:, [1, 3]].astype(int)
    model = naive_bayes(MIXED, 3)
    gauss = GaussianNB(var_smoothing=0).fit(numbers, y)
    table = CategoricalNB(alpha=0, force_alpha=True).fit(codes, y)
    both = (
        gauss.predict_joint_log_proba(numbers)
        + table.predict_joint_log_proba(codes)
        - np.log(gauss.class_prior_)  # which both count
    )
    close(in64(log_joint, model, summed(model, x, y), x), both, 1e-8)


def test_single_precision_agrees_with_double():
    x, y = rows(4, 100)
    model = naive_bayes(MIXED, 3)
    rows32 = x.astype(np.float32)
    s = compiled(statistics, model)(rows32, y, np.ones(100, np.float32))
    single = np.asarray(compiled(log_posterior, model)(s, rows32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(
        single, in64(log_posterior, model, summed(model, x, y), x), rtol=1e-5, atol=2e-5
    )


# --- parameters


@pytest.mark.parametrize("missing", [False, True])
@given(seed=st.integers(0, 2**32 - 1), factor=st.floats(1e-6, 1e6))
def test_scaled_statistics_have_the_same_parameters(missing, seed, factor):
    model = naive_bayes(MIXED, 3, missing)
    s = summed(model, *rows(seed, 15, share_missing=0.2 * missing))
    ours, scaled = in64(model.theta, s), in64(model.theta, s * factor)
    close(scaled.weight, ours.weight, 1e-9)
    assert scaled.guards == ours.guards


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("classes", [2, 7])
def test_the_uniform_start_knows_nothing(missing, classes):
    model = naive_bayes(MIXED, classes, missing)
    s = in64(lambda: model.uniform(1000.0, np.float64))
    x, _ = rows(5, 20, share_missing=0.3 * missing)
    posterior = np.exp(in64(log_posterior, model, s, x))
    assert (posterior == posterior[0, 0]).all()  # exactly the same for all rows and classes
    close(posterior, 1 / classes)
    described = in64(model.describe, s)
    close(s[:, 0].sum(), 1000)
    close(described["mean"], 0)
    close(described["var"], 1)
    assert in64(model.theta, s).guards == 0


# --- guards


def test_a_class_without_rows_is_guarded_and_never_chosen():
    model = naive_bayes(MIXED, 4)  # class 3 never occurs
    x, y = rows(6, 200)
    s = summed(model, x, y)
    theta = in64(model.theta, s)
    assert np.isfinite(theta.weight).all()
    assert theta.guards == 1 + 2 + (3 + 2)  # its rows, its two variances, its five categories
    assert (in64(log_posterior, model, s, x).argmax(1) < 3).all()


def test_the_other_classes_do_not_feel_an_absent_one():
    x, y = rows(7, 200)
    alone, wider = naive_bayes(MIXED, 3), naive_bayes(MIXED, 4)
    ours = in64(log_joint, alone, summed(alone, x, y), x)
    theirs = in64(log_joint, wider, summed(wider, x, y), x)[:, :3]
    np.testing.assert_allclose(theirs, ours, atol=2e-6)  # the absent class takes 1e-6 of the prior


@pytest.mark.parametrize(
    ("spoil", "guards"),
    [
        ({(0, 0): -1.0}, 3),  # a negative count of rows, which breaks two variances as well
        ({(1, 3): 0.0}, 1),  # a second moment below the square of the mean
        ({(2, 5): -0.5}, 1),  # a negative count of a category
        ({(2, 5): 0.0, (1, 5): -3.0}, 2),
    ],
)
def test_guards_count_what_was_impossible_and_keep_parameters_finite(spoil, guards):
    model = naive_bayes(MIXED, 3)
    s = summed(model, *rows(8, 200))
    assert in64(model.theta, s).guards == 0
    for place, value in spoil.items():
        s[place] = value
    kept = s.copy()
    theta = in64(model.theta, s)
    assert np.isfinite(theta.weight).all()
    assert theta.guards == guards
    np.testing.assert_array_equal(s, kept)
    probabilities = in64(model.describe, s)["prob"]
    for table in probabilities.values():
        close(table.sum(1), 1)


def test_a_constant_feature_is_guarded_and_says_nothing():
    x, y = rows(9, 100, (0, 0))
    x[:, 1] = 2.0
    model, without = naive_bayes((0, 0), 3), naive_bayes((0,), 3)
    s = summed(model, x, y)
    assert in64(model.theta, s).guards == 3  # its variance, once for each class
    got = in64(log_posterior, model, s, x)
    close(got, in64(log_posterior, without, summed(without, x[:, :1], y), x[:, :1]), 1e-8)


def test_no_rows_at_all_give_finite_parameters():
    model = naive_bayes(MIXED, 3)
    s = np.zeros((3, model.size))
    x, _ = rows(10, 5)
    posterior = np.exp(in64(log_posterior, model, s, x))
    close(posterior, 1 / 3)


def test_one_class_is_certain():
    model = naive_bayes(MIXED, 1)
    x, _ = rows(11, 30)
    y = np.zeros(30, int)
    close(in64(log_posterior, model, summed(model, x, y), x), np.zeros((30, 1)))


# --- missing values


@given(seed=st.integers(0, 2**32 - 1))
def test_a_missing_value_adds_nothing_to_the_statistics(seed):
    model = naive_bayes(MIXED, 3, missing=True)
    x, y = rows(seed, 20, share_missing=0.3)
    described = in64(model.describe, summed(model, x, y))
    for place, i in enumerate([0, 2]):  # the Gaussian features
        for c in range(3):
            known = x[(y == c) & ~np.isnan(x[:, i]), i]
            if known.size and known.var() > 1e-2:
                close(described["mean"][c, place], known.mean(), 1e-9)
                close(described["var"][c, place], known.var(), 1e-9)
    s = summed(model, x, y)
    for i, r in [(1, 3), (3, 2)]:
        block = s[:, 7:10] if i == 1 else s[:, 10:12]
        counts = [[((y == c) & (x[:, i] == v)).sum() for v in range(r)] for c in range(3)]
        assert block.tolist() == counts


@pytest.mark.parametrize("gone", [[0], [1], [2, 3], [0, 1, 2]])
def test_a_missing_value_adds_nothing_to_the_likelihood(gone):
    """It is as if the model had never had the feature, for that row."""
    x, y = rows(12, 200)
    whole = naive_bayes(MIXED, 3, missing=True)
    s = summed(whole, x, y)
    left = [i for i in range(4) if i not in gone]
    smaller = naive_bayes([MIXED[i] for i in left], 3, missing=True)
    holes = x.copy()
    holes[:, gone] = np.nan
    got = in64(log_joint, whole, s, holes)
    close(got, in64(log_joint, smaller, summed(smaller, x[:, left], y), x[:, left]), 1e-9)


def test_a_row_of_which_nothing_is_known_leaves_the_prior():
    x, y = rows(13, 200)
    model = naive_bayes(MIXED, 3, missing=True)
    got = in64(log_posterior, model, summed(model, x, y), np.full((1, 4), np.nan))
    close(np.exp(got[0]), np.bincount(y) / 200, 1e-9)


def test_without_holes_both_kinds_of_model_agree():
    x, y = rows(14, 200)
    plain, open_ = naive_bayes(MIXED, 3), naive_bayes(MIXED, 3, missing=True)
    close(
        in64(log_joint, open_, summed(open_, x, y), x),
        in64(log_joint, plain, summed(plain, x, y), x),
        1e-10,
    )


def test_a_category_never_seen_says_as_little_as_a_missing_one():
    x, y = rows(15, 100)
    model = naive_bayes(MIXED, 3, missing=True)
    s = summed(model, x, y)
    unseen, holes = x.copy(), x.copy()
    unseen[:, 1], holes[:, 1] = 99, np.nan
    close(in64(log_joint, model, s, unseen), in64(log_joint, model, s, holes))


# --- both precisions, one process; refused arguments


def test_one_model_serves_both_precisions():
    """Constants of a model must not be bound to the precision that asked first."""
    model = naive_bayes((0, 5, 0), 2)
    x, y = rows(16, 30, (0, 5, 0), 2)
    run = jax.jit(lambda x, y, w: statistics(model, x, y, w))
    for _ in range(2):
        single = run(x.astype(np.float32), y, np.ones(30, np.float32))
        assert single.dtype == np.float32
        with jax.enable_x64(True):
            double = np.asarray(run(x, y, np.ones(30)))
        assert double.dtype == np.float64
        np.testing.assert_allclose(single, double, rtol=1e-5, atol=1e-5)


def test_the_same_arguments_give_the_same_model():
    assert naive_bayes([0, 3], 2) is naive_bayes((0, 3), 2)
    assert naive_bayes([0, 3], 2) != naive_bayes([0, 3], 2, missing=True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(((0, 3), 0), "classes"), (((), 2), "cardinalities"), (((0, -1), 2), "cardinalities")],
)
def test_a_model_of_nothing_is_refused(arguments, says):
    with pytest.raises(BadSetting, match=says):
        naive_bayes(*arguments)
