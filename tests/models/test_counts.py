"""Naive Bayes of counts and of binary features: as scikit-learn has them, and what is refused."""

import numpy as np
import pytest
from scipy.stats import bernoulli as coin
from sklearn.naive_bayes import BernoulliNB, MultinomialNB

from helpers import in64
from peerwise.data.schema import Feature, Schema
from peerwise.errors import BadData, BadSetting
from peerwise.models import bernoulli, log_joint, log_posterior, multinomial, statistics
from peerwise.models.algebra import Statistics

WORDS = (0, 0, 0, 0)
CLASSES = 3
SCHEMA = Schema(tuple(Feature(f"w{i}", "numeric") for i in range(4)), ("a", "b", "c"))


def words(seed, m=90):
    """Rows of counts whose words depend on the class."""
    rng = np.random.default_rng(seed)
    y = np.arange(m) % CLASSES
    rate = np.array([[4, 1, 1, 2], [1, 4, 1, 2], [1, 2, 3, 2.0]])
    return rng.poisson(rate[y]).astype(float), y


def signs(seed, m=90, share_missing=0.0):
    """Rows of 0 and 1 that depend on the class."""
    rng = np.random.default_rng(seed)
    y = np.arange(m) % CLASSES
    chance = np.array([[0.8, 0.3, 0.5, 0.4], [0.3, 0.8, 0.4, 0.4], [0.4, 0.5, 0.7, 0.6]])
    x = (rng.random((m, 4)) < chance[y]).astype(float)
    return np.where(rng.random(x.shape) < share_missing, np.nan, x), y


def summed(model, x, y):
    return in64(statistics, model, x, y, np.ones(len(y)))


def close(a, b, tolerance=1e-10):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# --- counts


def test_counts_as_in_scikit_learn():
    x, y = words(0)
    fitted = MultinomialNB(alpha=0, force_alpha=True).fit(x, y)
    model = multinomial(WORDS, CLASSES)
    s = summed(model, x, y)
    assert in64(model.theta, s).guards == 0
    close(in64(log_joint, model, s, x), fitted.predict_joint_log_proba(x))
    close(in64(log_posterior, model, s, x), fitted.predict_log_proba(x))
    told = in64(model.describe, s)
    close(np.log(told["prob"]), fitted.feature_log_prob_)
    close(np.log(told["prior"]), fitted.class_log_prior_)


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_a_prior_on_words_is_the_smoothing_of_scikit_learn(alpha):
    x, y = words(1, 12)
    x[:, 2] = 0  # a word that nobody says
    fitted = MultinomialNB(alpha=alpha).fit(x, y)
    data = Statistics.of(x, y, SCHEMA, "multinomial", length=8.0)
    prior = Statistics.prior(SCHEMA, "multinomial", rows=0, categories=alpha, length=8.0)
    ours = (data + prior).to_classifier()
    close(np.log(ours.parameters["prob"]), fitted.feature_log_prob_)
    close(ours.log_proba(x), fitted.predict_log_proba(x))


def test_statistics_of_counts_are_sums_of_words():
    model = multinomial((0, 0), 2)
    x = np.array([[1.0, 2], [0, 3], [5, 0]])
    assert summed(model, x, np.array([0, 1, 1])).tolist() == [[1, 1, 2], [2, 5, 3]]


def test_the_uniform_start_counts_rows_of_the_given_length():
    model = multinomial(WORDS, 2, length=10.0)
    s = in64(lambda: model.uniform(6.0, np.float64))
    close(s, np.tile([3, 7.5, 7.5, 7.5, 7.5], (2, 1)))  # 3 rows of 10 words, spread over 4


def test_the_length_of_a_typical_row_comes_from_the_rows():
    x, y = words(2)
    data = Statistics.of(x, y, SCHEMA, "multinomial")
    assert data.options["length"] == pytest.approx(x.sum(1).mean())
    assert Statistics.of(x * 0, y, SCHEMA, "multinomial").options["length"] == 1.0


def test_a_longer_row_counts_more():
    x, y = words(3)
    model = multinomial(WORDS, CLASSES)
    s = summed(model, x, y)
    prior = np.log(in64(model.describe, s)["prior"])
    once, twice = (in64(log_joint, model, s, k * x) - prior for k in (1, 2))
    close(twice, 2 * once)


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        (((0, 3), 2), {}, "categorical column is none"),
        (((0, 0), 2, True), {}, "no missing counts"),
        (((0, 0), 2), {"length": 0}, "length must be greater than 0"),
        (((0, 0), 2), {"length": float("nan")}, "length must be greater than 0"),
        (((0, 0), 2), {"length": float("inf")}, "length must be"),
        (((0, 0), 0), {}, "classes"),
    ],
)
def test_counts_that_make_no_sense(arguments, options, says):
    with pytest.raises(BadSetting, match=says):
        multinomial(*arguments, **options)


@pytest.mark.parametrize(("value", "shown"), [(-1.0, "-1"), (np.nan, "nan")])
def test_rows_that_are_no_counts_are_refused(value, shown):
    x, y = words(4, 9)
    x[5, 2] = value
    with pytest.raises(BadData, match=f"'w2' holds {shown} in row 5"):
        Statistics.of(x, y, SCHEMA, "multinomial")


def test_missing_counts_are_refused_in_prediction():
    x, y = words(5)
    ours = Statistics.of(x, y, SCHEMA, "multinomial").to_classifier()
    with pytest.raises(BadData, match="counts cannot be missing"):
        ours.log_proba(np.full((1, 4), np.nan))
    with pytest.raises(BadData, match="counts cannot be missing"):
        ours.explain(np.full(4, np.nan))


@pytest.mark.parametrize("model", ["multinomial", "bernoulli"])
def test_standardised_columns_are_refused(model):
    schema = Schema((Feature("w", "numeric", center=0.5), Feature("v", "numeric")), ("a", "b"))
    with pytest.raises(BadSetting, match="do not standardise"):
        Statistics.of(np.zeros((2, 2)), np.array([0, 1]), schema, model)


# --- binary features


def test_binary_features_as_in_scikit_learn():
    x, y = signs(0)
    fitted = BernoulliNB(alpha=0, force_alpha=True).fit(x, y)
    for missing in (False, True):
        model = bernoulli(WORDS, CLASSES, missing)
        s = summed(model, x, y)
        assert in64(model.theta, s).guards == 0
        close(in64(log_joint, model, s, x), fitted.predict_joint_log_proba(x))
        told = in64(model.describe, s)
        close(np.log(told["prob"]), fitted.feature_log_prob_)
        close(np.log(told["prior"]), fitted.class_log_prior_)


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_pseudo_rows_are_the_smoothing_of_scikit_learn(alpha):
    """alpha in each of the two values of a feature: 2 alpha rows of every class."""
    x, y = signs(1, 12)
    x[:, 2] = 0  # never there
    fitted = BernoulliNB(alpha=alpha).fit(x, y)
    prior = Statistics.prior(SCHEMA, "bernoulli", rows=2 * alpha)
    ours = (Statistics.of(x, y, SCHEMA, "bernoulli") + prior).to_classifier()
    close(np.log(ours.parameters["prob"]), fitted.feature_log_prob_)
    close(ours.log_proba(x), fitted.predict_log_proba(x))  # as many rows of each class


def test_two_categories_are_as_good_as_0_and_1():
    x, y = signs(2)
    assert bernoulli((2, 0, 2, 0), CLASSES).size == 1 + 4
    a, b = bernoulli((2, 0, 2, 0), CLASSES), bernoulli(WORDS, CLASSES)
    close(in64(log_joint, a, summed(a, x, y), x), in64(log_joint, b, summed(b, x, y), x))


def test_missing_signs_count_nowhere_and_say_nothing():
    x, y = signs(3, share_missing=0.3)
    model = bernoulli(WORDS, CLASSES, missing=True)
    assert model.size == 1 + 4 + 4
    s = summed(model, x, y)
    prob = np.array([np.nanmean(x[y == c], 0) for c in range(CLASSES)])
    told = in64(model.describe, s)
    close(told["prob"], prob)
    expected = np.log(np.bincount(y) / len(y)) + np.nansum(
        coin.logpmf(np.nan_to_num(x)[:, None], prob) * np.where(np.isnan(x), 0, 1)[:, None], -1
    )
    close(in64(log_joint, model, s, x), expected)


def test_a_third_value_is_refused():
    x, y = signs(4, 9)
    x[5, 2] = 2
    with pytest.raises(BadData, match="needs 0 or 1 in every column; 'w2' holds 2 in row 5"):
        Statistics.of(x, y, SCHEMA, "bernoulli")
    with pytest.raises(BadSetting, match="one of 3 categories"):
        bernoulli((2, 3), 2)


def test_binary_features_have_no_cells_of_their_own():
    with pytest.raises(BadSetting, match="give rows alone"):
        Statistics.prior(SCHEMA, "bernoulli", rows=0, categories=1)
