"""QDA, LDA and shared variances: as scikit-learn and SciPy have them, guards, missing numbers."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.naive_bayes import CategoricalNB

from helpers import in64
from peerwise.errors import BadSetting
from peerwise.models import (
    lda,
    log_joint,
    log_posterior,
    naive_bayes,
    qda,
    shared_naive_bayes,
    statistics,
)

NUMBERS = (0, 0, 0)
MIXED = (0, 3, 0, 2)  # numbers in columns 0 and 2, categories in 1 and 3
CLASSES = 3
TOLD = {"qda": qda, "lda": lda}


def rows(seed, m=150, cardinalities=NUMBERS):
    """Numbers that depend on each other, differently in every class; categories that do not."""
    rng = np.random.default_rng(seed)
    y = np.arange(m) % CLASSES
    d = len(cardinalities)
    mix = np.eye(d) + 0.8 * rng.normal(size=(CLASSES, d, d))
    x = 0.6 * y[:, None] + np.einsum("mij,mj->mi", mix[y], rng.normal(size=(m, d)))
    for i, r in enumerate(cardinalities):
        if r:
            x[:, i] = (y + rng.integers(r, size=m)) % r
    return x, y


def summed(model, x, y, weight=None):
    return in64(statistics, model, x, y, np.ones(len(y)) if weight is None else weight)


def close(a, b, tolerance=1e-10):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


X, Y = rows(0)
SHARE = np.bincount(Y) / len(Y)
MEANS = np.array([X[c == Y].mean(0) for c in range(CLASSES)])
COVS = np.array([np.cov(X[c == Y].T, bias=True) for c in range(CLASSES)])
WITHIN = np.einsum("c,cij->ij", SHARE, COVS)


def shrunk(cov, a):
    return (1 - a) * cov + a * np.trace(cov) / len(cov) * np.eye(len(cov))


# --- against scikit-learn and SciPy


@pytest.mark.parametrize("shrinkage", [0, 0.3])
def test_qda_as_in_scikit_learn(shrinkage):
    fitted = QuadraticDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage or None).fit(X, Y)
    model = qda(NUMBERS, CLASSES, shrinkage=shrinkage)
    s = summed(model, X, Y)
    assert in64(model.theta, s).guards == 0
    close(in64(log_posterior, model, s, X), fitted.predict_log_proba(X), 1e-8)


@pytest.mark.parametrize("shrinkage", [0, 0.3])
def test_lda_as_in_scikit_learn(shrinkage):
    fitted = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage or None).fit(X, Y)
    model = lda(NUMBERS, CLASSES, shrinkage=shrinkage)
    s = summed(model, X, Y)
    assert in64(model.theta, s).guards == 0
    close(in64(log_posterior, model, s, X), fitted.predict_log_proba(X), 1e-8)


@pytest.mark.parametrize(("name", "shrinkage"), [("qda", 0), ("lda", 0.3)])
def test_densities_as_in_scipy(name, shrinkage):
    covs = COVS if name == "qda" else np.tile(WITHIN, (CLASSES, 1, 1))
    expected = np.column_stack(
        [
            np.log(SHARE[c]) + multivariate_normal(MEANS[c], shrunk(covs[c], shrinkage)).logpdf(X)
            for c in range(CLASSES)
        ]
    )
    model = TOLD[name](NUMBERS, CLASSES, shrinkage=shrinkage)
    close(in64(log_joint, model, summed(model, X, Y), X), expected)


def test_parameters_as_numpy_computes_them():
    for make, shrinkage, covs in (
        (qda, 0, COVS),
        (lda, 0.3, shrunk(WITHIN, 0.3)),
        (lda, 0, WITHIN),
    ):
        model = make(NUMBERS, CLASSES, shrinkage=shrinkage)
        told = in64(model.describe, summed(model, X, Y))
        close(told["prior"], SHARE)
        close(told["mean"], MEANS)
        close(told["cov"], covs)


def test_decisions_of_shared_parameters_are_linear_and_of_own_ones_are_not():
    """Log-odds on a line: second differences vanish for LDA and shared variances alone."""
    line = np.linspace(-3, 3, 7)[:, None] * np.array([[1.0, -0.5, 2.0]])
    for make, straight in ((lda, True), (shared_naive_bayes, True), (qda, False)):
        model = make(NUMBERS, CLASSES)
        joint = in64(log_posterior, model, summed(model, X, Y), line)
        bent = np.abs(np.diff(joint[:, 1] - joint[:, 0], 2)).max()
        assert (bent < 1e-9) == straight


def test_categories_beside_numbers_are_those_of_naive_bayes():
    x, y = rows(1, 150, MIXED)
    numbers, codes = x[:, [0, 2]], x[:, [1, 3]].astype(int)
    table = CategoricalNB(alpha=0, force_alpha=True).fit(codes, y)
    assert all((c > 0).all() for c in table.category_count_)  # nothing to guard
    for make in TOLD.values():
        model, of_numbers = make(MIXED, CLASSES), make((0, 0), CLASSES)
        both = (
            in64(log_joint, of_numbers, summed(of_numbers, numbers, y), numbers)
            + table.predict_joint_log_proba(codes)
            - np.log(np.bincount(y) / len(y))  # which both count
        )
        s = summed(model, x, y)
        close(in64(log_joint, model, s, x), both)
        told = in64(model.describe, s)["prob"]
        assert sorted(told) == [1, 3]
        close(told[1], np.exp(table.feature_log_prob_[0]))
        close(told[3], np.exp(table.feature_log_prob_[1]))


def test_without_numbers_discriminant_analysis_is_naive_bayes():
    x, y = rows(2, 150, (3, 2))
    plain = naive_bayes((3, 2), CLASSES)
    expected = in64(log_joint, plain, summed(plain, x, y), x)
    for make in (*TOLD.values(), shared_naive_bayes):
        model = make((3, 2), CLASSES)
        close(in64(log_joint, model, summed(model, x, y), x), expected)


def test_of_one_number_the_covariance_is_a_variance():
    one = X[:, :1]
    for full, diagonal in ((qda, naive_bayes), (lda, shared_naive_bayes)):
        a, b = full((0,), CLASSES), diagonal((0,), CLASSES)
        close(
            in64(log_joint, a, summed(a, one, Y), one), in64(log_joint, b, summed(b, one, Y), one)
        )


@pytest.mark.parametrize("missing", [False, True])
def test_shared_variances_are_pooled_within_the_classes(missing):
    """Mean squared distance of all rows from the mean of their own class; log p(x, y) of it."""
    x, y = rows(3, 150, MIXED)
    z = x[:, [0, 2]]
    mean = np.array([z[y == c].mean(0) for c in range(CLASSES)])
    var = ((z - mean[y]) ** 2).mean(0)
    prob = {
        i: np.array([[(x[y == c, i] == v).mean() for v in range(r)] for c in range(CLASSES)])
        for i, r in enumerate(MIXED)
        if r
    }
    expected = np.log(np.bincount(y) / len(y)) + np.zeros((len(y), 1))
    for c in range(CLASSES):
        expected[:, c] += norm.logpdf(z, mean[c], np.sqrt(var)).sum(1)
        for i, table in prob.items():
            expected[:, c] += np.log(table[c, x[:, i].astype(int)])
    model = shared_naive_bayes(MIXED, CLASSES, missing)
    s = summed(model, x, y)
    told = in64(model.describe, s)
    close(told["mean"], mean)
    close(told["var"], np.tile(var, (CLASSES, 1)))
    close(in64(log_joint, model, s, x), expected)


def test_shared_variances_of_numbers_with_holes_are_pooled_over_those_known():
    rng = np.random.default_rng(4)
    x = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    mean = np.array([np.nanmean(x[c == Y], 0) for c in range(CLASSES)])
    model = shared_naive_bayes(NUMBERS, CLASSES, missing=True)
    told = in64(model.describe, summed(model, x, Y))
    close(told["mean"], mean)
    close(told["var"], np.tile(np.nanmean((x - mean[Y]) ** 2, 0), (CLASSES, 1)))


# --- statistics


def test_products_are_stored_once():
    d, r = 3, 3 * 4 // 2
    for missing in (False, True):
        extra = int(missing)  # rows of a class that have all numbers
        own, common = qda(NUMBERS, 2, missing), lda(NUMBERS, 2, missing)
        assert (own.size, own.shared) == (1 + extra + d + r, 0)
        assert (common.size, common.shared) == (1 + extra + d, r)
        few = shared_naive_bayes(NUMBERS, 2, missing)
        assert (few.size, few.shared) == (1 + d + d * extra, d)
    assert (qda(MIXED, 2).size, lda(MIXED, 2).size) == (1 + 2 + 3 + 5, 1 + 2 + 5)
    assert (lda(MIXED, 2).shared, shared_naive_bayes(MIXED, 2).shared) == (3, 2)


def test_statistics_by_hand():
    x, y = np.array([[1.0, 2], [3, -1], [0, 4]]), np.array([0, 1, 1])
    got = summed(qda((0, 0), 2), x, y)  # rows, x1, x2, x1^2, x1 x2, x2^2
    assert got.tolist() == [[1, 1, 2, 1, 2, 4], [2, 3, 3, 9, -3, 17]]
    got = summed(lda((0, 0), 2), x, y)
    assert got["classes"].tolist() == [[1, 1, 2], [2, 3, 3]]
    assert got["shared"].tolist() == [10, -1, 21]
    got = summed(shared_naive_bayes((0, 0), 2), x, y)
    assert got["classes"].tolist() == [[1, 1, 2], [2, 3, 3]]
    assert got["shared"].tolist() == [10, 21]


# --- guards


def test_a_number_said_twice_is_guarded_and_finite():
    """Two equal columns: a covariance without full rank, in every class."""
    x = X.copy()
    x[:, 2] = x[:, 0]
    for make, guards in ((qda, CLASSES), (lda, 1)):
        model = make(NUMBERS, CLASSES)
        s = summed(model, x, Y)
        assert in64(model.theta, s).guards == guards
        assert np.isfinite(in64(log_posterior, model, s, x)).all()
        eigen = np.linalg.eigvalsh(in64(model.describe, s)["cov"]).reshape(-1, 3)
        close(eigen[:, 0], 1e-3, 1e-9)


def test_a_little_shrinkage_makes_a_guard_needless():
    x = X.copy()
    x[:, 2] = x[:, 0]
    model = qda(NUMBERS, CLASSES, shrinkage=0.3)
    assert in64(model.theta, summed(model, x, Y)).guards == 0


def test_full_shrinkage_leaves_spheres():
    for make, covs in ((qda, COVS), (lda, WITHIN[None])):
        model = make(NUMBERS, CLASSES, shrinkage=1)
        cov = in64(model.describe, summed(model, X, Y))["cov"].reshape(-1, 3, 3)
        close(cov, [np.trace(c) / 3 * np.eye(3) for c in covs])


@pytest.mark.parametrize("make", TOLD.values(), ids=TOLD)
@pytest.mark.parametrize("shrinkage", [-0.1, 1.1, float("nan")])
def test_shrinkage_is_a_share(make, shrinkage):
    with pytest.raises(BadSetting, match="shrinkage must be between 0 and 1"):
        make(NUMBERS, 2, shrinkage=shrinkage)


# --- missing numbers


@pytest.mark.parametrize("name", TOLD)
def test_missing_numbers_are_integrated_out(name):
    """What is left of a Gaussian is Gaussian with its part of the mean and the covariance."""
    x, y = rows(5, 150, MIXED)
    model = TOLD[name](MIXED, CLASSES, missing=True)
    s = summed(model, x, y)
    told = in64(model.describe, s)
    covs = np.broadcast_to(told["cov"], (CLASSES, 2, 2))
    rng = np.random.default_rng(6)
    holes = np.where(rng.random(x.shape) < 0.4, np.nan, x)
    holes[0] = np.nan
    got = in64(log_joint, model, s, holes)
    for row, z in enumerate(holes):
        known = ~np.isnan(z[[0, 2]])
        for c in range(CLASSES):
            expected = np.log(told["prior"][c])
            if known.any():
                part = multivariate_normal(told["mean"][c][known], covs[c][np.ix_(known, known)])
                expected += part.logpdf(z[[0, 2]][known])
            for i in (1, 3):
                if not np.isnan(z[i]):
                    expected += np.log(told["prob"][i][c, int(z[i])])
            assert got[row, c] == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("name", TOLD)
def test_a_row_with_a_hole_counts_in_no_sum_of_numbers(name):
    """Mean and covariance are those of rows with all numbers; categories count all of theirs."""
    x, y = rows(7, 150, MIXED)
    rng = np.random.default_rng(8)
    x = np.where(rng.random(x.shape) < 0.2, np.nan, x)
    whole = ~np.isnan(x[:, [0, 2]]).any(1)
    model, plain = TOLD[name](MIXED, CLASSES, missing=True), TOLD[name]((0, 0), CLASSES)
    told = in64(model.describe, summed(model, x, y))
    numbers = np.nan_to_num(x[:, [0, 2]])
    expected = in64(plain.describe, summed(plain, numbers, y, whole.astype(float)))
    close(told["mean"], expected["mean"])
    close(told["cov"], expected["cov"])
    close(told["prior"], np.bincount(y) / len(y))
    for i in (1, 3):
        for c in range(CLASSES):
            seen = x[(y == c) & ~np.isnan(x[:, i]), i]
            close(told["prob"][i][c], np.bincount(seen.astype(int), minlength=MIXED[i]) / len(seen))


@pytest.mark.parametrize("name", TOLD)
def test_without_holes_both_kinds_of_model_agree(name):
    plain, open_ = (TOLD[name](NUMBERS, CLASSES, missing) for missing in (False, True))
    close(
        in64(log_joint, open_, summed(open_, X, Y), X),
        in64(log_joint, plain, summed(plain, X, Y), X),
    )
