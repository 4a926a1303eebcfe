"""RiskCalibratedClassifier: scikit-learn's checks, calibration, batches, odd data, decisions."""

import copy
import io
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.estimators import RiskCalibratedClassifier
from peerwise.models.algebra import Statistics

LOADERS = {"breast_cancer": load_breast_cancer, "digits": load_digits, "wine": load_wine}
WINE = load_wine(return_X_y=True)


def small(model="naive_bayes", **options):
    return RiskCalibratedClassifier(model, **{"max_iter": 12, **options})


def close(a, b, tolerance=1e-9):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def soft_error(model, X, y, weight=None):
    at = np.searchsorted(model.classes_, y)
    return np.average(1 - model.predict_proba(X)[np.arange(len(y)), at], weights=weight)


# --- a citizen of scikit-learn


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@parametrize_with_checks([RiskCalibratedClassifier()])
def test_scikit_learn_has_nothing_to_object_to(estimator, check):
    check(estimator)


def test_a_clone_has_the_same_parameters_and_no_fit():
    X, y = WINE
    model = small(lr=0.3, model_options={}).fit(X, y)
    other = clone(model)
    assert other.get_params() == model.get_params()
    assert not hasattr(other, "classes_")
    assert other.set_params(lr=0.5, model="lda").get_params()["lr"] == 0.5
    assert model.lr == 0.3
    with pytest.raises(ValueError, match="Invalid parameter 'rate'"):
        other.set_params(rate=1)


def test_a_fitted_estimator_survives_pickle_and_joblib():
    X, y = WINE
    fitted = small("lda").fit(X, y)
    file = io.BytesIO()
    joblib.dump(fitted, file)
    file.seek(0)
    for other in (pickle.loads(pickle.dumps(fitted)), joblib.load(file)):
        np.testing.assert_array_equal(other.predict_proba(X), fitted.predict_proba(X))
        assert other.statistics_ == fitted.statistics_
        other.partial_fit(X, y)  # and goes on learning


def test_it_sits_in_a_pipeline():
    """Standardising before changes nothing: the estimator standardises itself."""
    X, y = WINE
    piped = make_pipeline(StandardScaler(), small()).fit(X, y)
    close(piped.predict_proba(X), small().fit(X, y).predict_proba(X), 1e-7)


def test_it_is_searched_over_and_cross_validated():
    X, y = WINE
    grid = {"model": ["naive_bayes", "shared_naive_bayes"], "lr": [0.05, 0.5]}
    search = GridSearchCV(small(), grid, cv=2).fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.score(X, y) > 0.95
    assert cross_val_score(small(), X, y, cv=2).min() > 0.9


# --- calibration


@pytest.mark.some("wine-naive", "digits-lda")
@pytest.mark.parametrize("model", ["naive_bayes", "shared_naive_bayes", "qda", "lda"])
@pytest.mark.parametrize("data", LOADERS)
def test_calibration_lowers_the_soft_error_of_training(data, model):
    X, y = LOADERS[data](return_X_y=True)
    made = RiskCalibratedClassifier(model, max_iter=6).fit(X, y)
    plain = copy.copy(made)
    plain.calibrated_ = made.statistics_
    curve = made.loss_curve_
    assert len(curve) == made.n_iter_ + 1
    close(curve[0], soft_error(plain, X, y), 1e-7)  # from maximum likelihood
    close(curve.min(), soft_error(made, X, y), 1e-7)  # the best iterate is kept
    assert curve.min() < curve[0]


def test_without_iterations_it_is_gaussian_naive_bayes():
    X, y = WINE
    ours = small(max_iter=0, prior_rows=0).fit(X, y)
    theirs = GaussianNB(var_smoothing=0).fit(X, y)
    close(ours.predict_log_proba(X), theirs.predict_log_proba(X), 1e-7)
    assert (ours.n_iter_, len(ours.loss_curve_)) == (0, 1)
    close(ours.calibrated_.values, ours.statistics_.values * 10)  # worth m / lr rows


def test_from_the_uniform_start_all_classes_are_equally_probable():
    X, y = WINE
    model = small(start="uniform", max_iter=0).fit(X, y)
    close(model.predict_proba(X), 1 / 3)
    assert small(start="uniform", max_iter=90).fit(X, y).score(X, y) > 0.9


def test_early_stopping_stops_and_without_it_all_iterations_are_made():
    X, y = WINE
    options = {"max_iter": 90, "tol": 1e-3, "n_iter_no_change": 3}
    early = small(**options).fit(X, y)
    late = small(**options, early_stopping=False).fit(X, y)
    assert 3 <= early.n_iter_ < 90
    assert late.n_iter_ == 90
    close(late.loss_curve_[: early.n_iter_ + 1], early.loss_curve_)


def test_a_validation_fraction_watches_other_rows_than_it_calibrates_on():
    X, y = WINE
    options = {"validation_fraction": 0.25, "random_state": 3}
    made = small(**options).fit(X, y)
    train, watch = train_test_split(np.arange(len(y)), test_size=0.25, random_state=3, stratify=y)
    close(made.loss_curve_[0], soft_error(small(max_iter=0).fit(X, y), X[watch], y[watch]), 1e-7)
    close(made.loss_curve_.min(), soft_error(made, X[watch], y[watch]), 1e-7)
    # labels of watched rows count in the sums, but move nothing in calibration
    again = small(**options).fit(X, y)
    np.testing.assert_array_equal(again.loss_curve_, made.loss_curve_)
    other = small(**options | {"random_state": 4}).fit(X, y)
    assert (other.loss_curve_[:1] != made.loss_curve_[:1]).all()
    assert len(train) > len(watch)


def test_too_few_rows_for_a_validation_fraction_are_refused():
    X, y = WINE
    with pytest.raises(BadData, match="too few rows for validation_fraction"):
        small(validation_fraction=0.01).fit(X[::20], y[::20])


def test_a_weight_counts_as_repetition():
    X, y = WINE
    times = np.random.default_rng(0).integers(0, 4, len(y))
    repeated = np.repeat(np.arange(len(y)), times)
    a = small().fit(X, y, sample_weight=times)
    b = small().fit(X[repeated], y[repeated])
    close(a.loss_curve_, b.loss_curve_, 1e-7)
    close(a.predict_proba(X), b.predict_proba(X), 1e-7)


def test_small_weights_leave_the_soft_error_a_mean():
    X, y = WINE
    share = np.full(len(y), 1e-4)
    a, b = small(prior_rows=0).fit(X, y, share), small(prior_rows=0).fit(X, y)
    close(a.loss_curve_, b.loss_curve_, 1e-7)


# --- batches


@pytest.mark.some("qda")
@pytest.mark.parametrize(
    ("model", "batches"),
    [("naive_bayes", 1), ("naive_bayes", 2), ("naive_bayes", 7), ("lda", 3), ("qda", 3)],
)
def test_batches_without_calibration_add_up_to_the_whole(model, batches):
    X, y = WINE
    order = np.random.default_rng(1).permutation(len(y))
    made = small(model, max_iter=0, model_options={"shrinkage": 0.1} if "da" in model else None)
    for part in np.array_split(order, batches):
        made.partial_fit(X[part], y[part], classes=[0, 1, 2])
    schema, options = made.schema_, made.statistics_.options
    center, scale = np.array([(f.center, f.scale) for f in schema.features]).T
    whole = Statistics.of((X - center) / scale, y, schema, model, **options)
    whole = whole + Statistics.prior(schema, model, rows=1.0, **options)
    got, want = made.statistics_.values, whole.values
    for a, b in zip(
        *(v.values() if isinstance(v, dict) else [v] for v in (got, want)), strict=True
    ):
        close(a, b, 1e-11)
    said = np.exp(whole.to_classifier().log_proba((X - center) / scale))
    close(made.predict_proba(X), said, 1e-8)


def test_batches_without_a_prior_are_fitting_all_rows():
    X, y = WINE
    order = np.random.default_rng(1).permutation(len(y))
    made = small(max_iter=0, prior_rows=0)
    for part in np.array_split(order, 4):
        made.partial_fit(X[part], y[part], classes=[0, 1, 2])
    close(made.predict_proba(X), small(max_iter=0, prior_rows=0).fit(X, y).predict_proba(X), 1e-7)


def test_one_batch_is_fitting():
    X, y = WINE
    a, b = small().partial_fit(X, y), small().fit(X, y)
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))


def test_batches_with_calibration_make_fewer_mistakes_than_without():
    X, y = WINE
    order, error = np.random.default_rng(2).permutation(len(y)), {}
    for iterations in (0, 12):
        made = small(max_iter=iterations)
        for part in np.array_split(order, 2):
            made.partial_fit(X[part], y[part], classes=[0, 1, 2])
        error[iterations] = soft_error(made, X, y)
    assert error[12] < error[0]


def test_labels_and_classes_that_were_not_agreed_are_refused():
    X, y = WINE
    made = small(max_iter=0)
    with pytest.raises(BadData, match=r"label 2 is not among the classes: \[0, 1\]"):
        made.partial_fit(X, y, classes=[0, 1])
    made.partial_fit(X[:100], y[:100], classes=[2, 0, 1])  # nothing is left of the failure
    with pytest.raises(BadData, match=r"classes=\[0, 1\] is not what the first call"):
        made.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(BadData, match="label 3 is not among the classes"):
        made.partial_fit(X, y + 1)
    whole = small(max_iter=0).partial_fit(X[:100], y[:100], classes=[0, 1, 2])
    assert made.statistics_ == whole.statistics_  # a refused batch adds nothing


def test_fitting_again_forgets_the_batches():
    X, y = WINE
    made = small().partial_fit(X[::2], y[::2]).partial_fit(X, y).fit(X, y)
    np.testing.assert_array_equal(made.predict_proba(X), small().fit(X, y).predict_proba(X))


def test_a_value_that_is_missing_in_a_later_batch_only_is_refused():
    """Statistics of the first batch do not count who has a value; a NaN would spoil all sums."""
    X, y = WINE
    holes = X.copy()
    holes[3, 1] = np.nan
    made = small(max_iter=0).partial_fit(X, y)
    with pytest.raises(BadData, match="column 'x1' has no value in row 3"):
        made.partial_fit(holes, y)
    both = small(max_iter=0).partial_fit(holes, y).partial_fit(X, y).partial_fit(holes, y)
    assert np.isfinite(both.predict_proba(X)).all()


# --- other models


def test_counts_of_digits_as_multinomial():
    X, y = load_digits(return_X_y=True)
    made = small("multinomial", prior_rows=0, max_iter=0).fit(X, y)
    theirs = MultinomialNB(alpha=1e-9, force_alpha=True).fit(X, y)
    assert (made.predict(X) == theirs.predict(X)).mean() > 0.99
    assert small("multinomial", max_iter=12).fit(X, y).score(X, y) > made.score(X, y)


def test_digits_in_black_and_white_as_bernoulli():
    X, y = load_digits(return_X_y=True)
    X = (X > 7).astype(float)
    made = small("bernoulli", prior_rows=2, max_iter=0).fit(X, y)  # one of each value
    theirs = BernoulliNB(alpha=1, fit_prior=True).fit(X, y)
    # the prior adds two rows to every class as well, to which scikit-learn adds none
    counts = np.bincount(y)
    apart = np.log((counts + 2) / (len(y) + 20)) - np.log(counts / len(y))
    ours = made.predict_joint_log_proba(X) - apart
    close(ours, theirs.predict_joint_log_proba(X), 1e-6)
    assert small("bernoulli", max_iter=12).fit(X, y).score(X, y) > made.score(X, y)


@pytest.mark.parametrize(
    ("model", "spoil", "says"),
    [
        ("multinomial", -2.0, "needs a count, 0 or more in every column; 'x1' holds -2 in row 4"),
        ("bernoulli", 3.0, "needs 0 or 1 in every column; 'x1' holds 3 in row 4"),
    ],
)
def test_numbers_that_the_model_is_not_about_are_refused(model, spoil, says):
    X = np.tile([[0.0, 1.0], [1.0, 0.0]], (5, 1))
    X[4, 1] = spoil
    with pytest.raises(BadData, match=says):
        small(model).fit(X, np.arange(10) % 2)


def test_missing_counts_are_refused_and_missing_binaries_are_not():
    X = np.tile([[0.0, 1.0], [1.0, 0.0]], (5, 1))
    X[4, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        small("multinomial").fit(X, np.arange(10) % 2)
    assert small("bernoulli").fit(X, np.arange(10) % 2).score(X, np.arange(10) % 2) == 1


# --- odd data


def test_a_singular_class_warns_and_still_has_probabilities():
    X, y = WINE
    part = np.r_[0:40, 60:100, 130:137]  # 7 rows of the last class for 13 numbers
    with pytest.warns(UserWarning, match="class 2 has 7 rows for 13 numbers") as caught:
        made = small("qda").fit(X[part], y[part])
    assert caught[0].filename == __file__  # it points to the caller
    assert np.isfinite(made.predict_log_proba(X)).all()
    close(made.predict_proba(X).sum(1), 1)
    small("qda", model_options={"shrinkage": 0.1}).fit(X[part], y[part])  # as the warning says


def test_a_class_with_one_row_is_learnt():
    X, y = WINE
    part = np.r_[0:100, 150]
    made = small().fit(X[part], y[part])
    assert np.isfinite(made.predict_log_proba(X)).all()
    assert made.predict(X)[150] == 2


def test_one_class_alone_is_certain():
    X, _ = WINE
    made = small().fit(X, np.full(len(X), "only"))
    assert set(made.predict(X)) == {"only"}
    close(made.predict_proba(X), 1)
    close(made.loss_curve_, 0)
    with pytest.raises(BadSetting, match="one class only"):
        made.explain(X[:1])


def test_a_constant_feature_says_nothing():
    """Not even with a prior, of which a small class would have a larger share."""
    X, y = WINE  # classes of 59, 71 and 48 rows
    wide = np.column_stack([X, np.full((178, 2), 1e6), np.zeros(178)])
    a, b = small().fit(wide, y), small().fit(X, y)
    close(a.predict_log_proba(wide), b.predict_log_proba(X), 1e-6)
    wide[:, 13:] = [-5e12, 0.1, 7.0]
    close(a.predict_log_proba(wide), b.predict_log_proba(X), 1e-6)


def test_a_feature_that_varies_in_a_later_batch_says_what_it_says():
    X, y = WINE
    wide = np.column_stack([X[:, :2], 5 + y])
    made = small(max_iter=0).partial_fit(wide * [1, 1, 0], y)
    assert (made.predict_proba(wide) == made.predict_proba(wide * [1, 1, 0])).all()
    made.partial_fit(wide, y)
    assert np.abs(made.predict_proba(wide) - made.predict_proba(wide * [1, 1, 0])).max() > 1e-3


@pytest.mark.parametrize("value", [1e200, -1e308])
def test_numbers_too_large_to_compute_with_are_refused(value):
    X, y = WINE
    large = X.copy()
    large[7, 3] = value
    with pytest.raises(BadData, match="values of column 'x3' are too large; rescale or drop it"):
        small().fit(large, y)
    made = small(max_iter=0).partial_fit(X, y)
    with pytest.raises(BadData, match=r"column 'x3' are too large \(.*in row 7\)"):
        made.partial_fit(large, y)
    with pytest.raises(BadData, match="numbers of row 7 are too large"):
        made.predict_proba(large)
    close(made.predict_proba(X), small(max_iter=0).fit(X, y).predict_proba(X))


@pytest.mark.parametrize("factor", [2, 0.001])
def test_a_weight_is_a_number_of_repetitions_of_words_too(factor):
    rng = np.random.default_rng(0)
    x, y, weight = rng.poisson(3.0, (30, 4)), np.arange(30) % 2, rng.integers(1, 4, 30)
    weighed = small("multinomial", prior_rows=factor, max_iter=0)
    weighed.fit(x, y, sample_weight=factor * weight)
    repeated = small("multinomial", max_iter=0).fit(x.repeat(weight, 0), y.repeat(weight))
    close(weighed.predict_proba(x), repeated.predict_proba(x), 1e-9)


def test_missing_values_at_prediction_only_are_integrated_out():
    X, y = WINE
    made = small("naive_bayes", max_iter=0).fit(X, y)
    holes = X.copy()
    holes[:, 3:] = np.nan
    close(
        made.predict_proba(holes), small(max_iter=0).fit(X[:, :3], y).predict_proba(X[:, :3]), 1e-7
    )
    nothing = np.full((1, 13), np.nan)
    close(made.predict_proba(nothing)[0], (np.bincount(y) + 1) / (len(y) + 3))  # the class prior


@pytest.mark.parametrize("model", ["naive_bayes", "qda"])
def test_missing_values_in_training_are_learnt_around(model):
    X, y = WINE
    holes = np.where(np.random.default_rng(2).random(X.shape) < 0.01, np.nan, X)
    made = small(model).fit(holes, y)
    assert made.score(holes, y) > 0.95
    assert made.loss_curve_.min() < made.loss_curve_[0]


# --- decisions, reasons, synthetic rows


def test_costs_decide_as_the_expected_cost_says():
    X, y = WINE
    cost = np.array([[0.0, 1, 50], [1, 0, 50], [900, 900, 0]])
    plain, careful = small().fit(X, y), small(cost=cost).fit(X, y)
    noisy = X + np.random.default_rng(3).normal(size=X.shape) * X.std(0) * 2
    prob = plain.predict_proba(noisy)
    brute = [min(range(3), key=lambda j: sum(p[i] * cost[i, j] for i in range(3))) for p in prob]
    assert careful.predict(noisy).tolist() == brute
    assert (careful.predict(noisy) != plain.predict(noisy)).any()
    np.testing.assert_array_equal(careful.predict_proba(noisy), prob)


def test_costs_of_a_wrong_shape_are_refused():
    X, y = WINE
    with pytest.raises(BadSetting, match=r"3 rows \(true class\) of 3"):
        small(cost=[[0, 1], [1, 0]]).fit(X, y).predict(X)


@pytest.mark.parametrize("model", ["naive_bayes", "lda"])
def test_reasons_add_up_to_the_log_odds(model):
    X, y = WINE
    made = small(model).fit(X, y)
    told = made.explain(X[:1], target=2, against=0)
    log_prob = made.predict_log_proba(X[:1])[0]
    close(told["log_odds"].sum(), log_prob[2] - log_prob[0], 1e-6)
    assert set(told["feature"]) == {"(class)", *(f"x{j}" for j in range(13))}
    assert made.explain(X[:1]).attrs["target"] == str(made.predict(X[:1])[0])
    with pytest.raises(BadData, match="explain takes one row, got 2"):
        made.explain(X[:2])
    with pytest.raises(UnknownName, match="unknown class '7'"):
        made.explain(X[:1], target=7)


def test_synthetic_rows_come_as_a_table_in_the_units_of_the_data():
    frame, y = load_wine(as_frame=True, return_X_y=True)
    made = small().fit(frame, y)
    drawn = made.sample(4000, seed=1)
    assert isinstance(drawn, pd.DataFrame)
    assert list(drawn.columns[:13]) == list(frame.columns)
    apart = (drawn[frame.columns].mean() - frame.mean()) / frame.std()
    assert apart.abs().max() < 0.15
    pd.testing.assert_frame_equal(drawn, made.sample(4000, seed=1))


# --- rows without a label


def mixture(m=600, seed=4):
    """Two classes, far apart in many small steps: 30 labels say little, the shape says a lot."""
    rng = np.random.default_rng(seed)
    y = np.arange(m) % 2
    return rng.normal(0.8 * y[:, None], 1.0, size=(m, 12)), y


@pytest.mark.parametrize(
    ("unlabelled", "dtype"), [(-1, int), (np.nan, float), (np.nan, object), ("?", object)]
)
def test_rows_without_a_label_help(unlabelled, dtype):
    """95 % have none, as -1, NaN, None (in a column of objects) or a word."""
    X, y = mixture()
    known = np.arange(len(y)) < 30
    told = y.astype(dtype)
    if dtype is object:
        told = np.where(y == 1, "b", "a").astype(object)
    told[~known] = unlabelled if dtype is not object or unlabelled == "?" else None
    few = small(max_iter=0).fit(X[known], told[known])
    made = small(max_iter=0, unlabelled=unlabelled).fit(X, told)
    assert made.classes_.tolist() == few.classes_.tolist()
    truth = few.classes_[y]
    rest = ~known
    assert 1 - made.score(X[rest], truth[rest]) < 1 - few.score(X[rest], truth[rest])
    close(made.statistics_.rows, len(y) + 2)


def test_calibration_after_them_is_on_labelled_rows():
    X, y = mixture()
    told = np.where(np.arange(len(y)) < 60, y, -1)
    made = small(unlabelled=-1).fit(X, told)
    close(made.loss_curve_.min(), soft_error(made, X[:60], y[:60]), 1e-7)


def test_a_batch_may_have_few_labels_or_none():
    """What its classes look like is known from batches before."""
    X, y = mixture()
    made = small(unlabelled=-1).partial_fit(X[:60], y[:60], classes=[0, 1])
    before = made.score(X, y)
    made.partial_fit(X[:300], np.where(np.arange(300) == 2, 0, -1))
    made.partial_fit(X[300:], np.full(300, -1))
    assert made.n_iter_ == 0  # there is nothing to calibrate on
    close(made.statistics_.rows, 662)
    assert made.score(X, y) >= before


def test_rows_without_labels_need_some_with():
    X, y = mixture()
    with pytest.raises(BadData, match="no row has a label"):
        small(unlabelled=-1).fit(X, np.full(len(y), -1))
    with pytest.raises(BadData, match="class 1 has no labelled row"):
        small(unlabelled=-1).partial_fit(X, np.where(y == 1, -1, y), classes=[0, 1])
    with pytest.raises(ValueError, match="y contains NaN: row 1 has no label"):
        small().fit(X, np.where(y == 1, None, "a"))


# --- refused


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"lr": 0}, "lr must be a finite number greater than 0, got 0"),
        ({"lr": -0.1}, "lr must be"),
        ({"lr": np.nan}, "lr must be"),
        ({"lr": np.inf}, "lr must be"),
        ({"lr": "fast"}, "lr must be"),
        ({"max_iter": -1}, "max_iter must be a whole number, 0 or more, got -1"),
        ({"max_iter": 2.5}, "max_iter must be"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must be a whole number, 1 or more"),
        ({"tol": np.nan}, "tol must be a finite number, 0 or more"),
        ({"prior_rows": -1}, "prior_rows must be a finite number, 0 or more"),
        ({"prior_rows": np.inf}, "prior_rows must be"),
        ({"start": "zero"}, "start must be 'ml' or 'uniform', got 'zero'"),
        ({"validation_fraction": 1.0}, "validation_fraction must be between 0 and 1, got 1.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, says):
    with pytest.raises(BadSetting, match=says):
        small(**options).fit(*WINE)
    with pytest.raises(BadSetting, match=says):
        small(**options).partial_fit(*WINE)


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(UnknownName, match="unknown model 'naive_bays'; did you mean 'naive_bayes'"):
        small("naive_bays").fit(*WINE)
    with pytest.raises(UnknownName, match=r"key in \[model\]: 'shrink'; did you mean"):
        small("qda", model_options={"shrink": 0.1}).fit(*WINE)
    with pytest.raises(BadSetting, match="shrinkage must be between 0 and 1, got 2"):
        small("qda", model_options={"shrinkage": 2}).fit(*WINE)


def test_negative_and_absent_weights_are_refused():
    X, y = WINE
    with pytest.raises(ValueError, match="Negative values"):
        small().fit(X, y, np.where(np.arange(len(y)) == 3, -1.0, 1.0))
    with pytest.raises(ValueError, match="zero"):
        small().fit(X, y, np.zeros(len(y)))


def test_a_covariance_of_no_complete_row_is_refused_and_of_few_is_told():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    none = x.copy()
    none[np.arange(40), np.arange(40) % 3] = np.nan
    with pytest.raises(BadData, match="every row lacks a number"):
        RiskCalibratedClassifier("lda").fit(none, y)
    few = none.copy()
    few[:8] = x[:8]
    with pytest.warns(UserWarning, match="only 8 of 40 rows"):
        RiskCalibratedClassifier("lda", max_iter=0).fit(few, y)
    RiskCalibratedClassifier("naive_bayes", max_iter=0).fit(none, y)


def test_one_row_is_explained_as_a_series_or_an_array():
    x, y = load_iris(return_X_y=True, as_frame=True)
    model = RiskCalibratedClassifier(max_iter=0).fit(x, y)
    told = model.explain(x.iloc[[3]])
    pd.testing.assert_frame_equal(model.explain(x.iloc[3]), told)
    arrays = RiskCalibratedClassifier(max_iter=0).fit(x.to_numpy(), y)
    assert arrays.explain(x.to_numpy()[3])["log_odds"].sum() == pytest.approx(
        told["log_odds"].sum()
    )
