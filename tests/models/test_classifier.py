"""Classifiers of statistics: holes, costs, reasons, draws; priors; files of models with options."""

import itertools
import json
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save as to_bytes
from scipy.stats import invgamma, invwishart, multivariate_normal, norm
from sklearn.naive_bayes import CategoricalNB

from peerwise.data import Table, decode, encode, standardise
from peerwise.data.schema import Feature, Schema
from peerwise.errors import BadData, BadFile, BadSetting, UnknownName
from peerwise.files import NoHash
from peerwise.models.algebra import Statistics

SCHEMA = Schema(
    (
        Feature("age", "numeric", center=40.0, scale=12.0),
        Feature("job", "categorical", ("a", "b", "c")),
        Feature("mass", "numeric", center=70.0, scale=10.0),
        Feature("sex", "categorical", ("f", "m")),
        Feature("home", "categorical", ("x", "y", "z")),
    ),
    ("no", "maybe", "yes"),
)
CLASSES = 3
PARENTS = (-1, -1, -1, 1, 3)  # job above sex above home
OPTIONS = {"naive_bayes": {}, "qda": {}, "lda": {}, "shared_naive_bayes": {}}
OPTIONS["tan"] = {"parents": PARENTS}
NAMED = (1, 3, 4)
LEVELS = SCHEMA.cardinalities


@cache
def rows(seed=0, m=180):
    """Encoded rows in which everything depends on the class and on its neighbour."""
    rng = np.random.default_rng(seed)
    y = np.arange(m) % CLASSES
    shared = rng.normal(size=m)
    job = (y + (rng.random(m) < 0.6) * rng.integers(3, size=m)) % 3
    sex = (job + y + (rng.random(m) < 0.4)) % 2
    home = (sex + (rng.random(m) < 0.6) * rng.integers(3, size=m)) % 3
    a, b = 0.8 * y - 1 + shared, 0.7 * shared - 0.4 * y + 0.6 * rng.normal(size=m)
    return np.column_stack([a, job, b, sex, home]).astype(float), y


@cache
def made(name="tan", schema=SCHEMA):
    return Statistics.of(*rows(), schema, name, **OPTIONS[name])


def close(a, b, tolerance=1e-10):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# --- missing values


def log_tables(told, z, c):
    """log p(categories | class c) of a row, by a sum over all completions."""
    gone = [i for i in NAMED if np.isnan(z[i])]
    total = 0.0
    for values in itertools.product(*(range(LEVELS[i]) for i in gone)):
        whole = z.copy()
        whole[gone] = values
        codes = whole[list(NAMED)].astype(int)
        at = dict(zip(NAMED, codes, strict=True))
        product = 1.0
        for i in NAMED:
            table = told["prob"][i][c]
            product *= table[at[i]] if table.ndim == 1 else table[at[i], at[PARENTS[i]]]
        total += product
    return np.log(total)


def log_numbers(told, z, c):
    """log p(numbers that are known | class c): the marginal of a multivariate normal."""
    numbers = z[[0, 2]]
    known = ~np.isnan(numbers)
    cov = (
        np.broadcast_to(told["cov"], (CLASSES, 2, 2))[c]
        if "cov" in told
        else np.diag(told["var"][c])
    )
    if not known.any():
        return 0.0
    part = multivariate_normal(told["mean"][c][known], cov[np.ix_(known, known)])
    return part.logpdf(numbers[known])


@pytest.mark.some("True")
@pytest.mark.parametrize(
    ("name", "missing"), [*((n, False) for n in OPTIONS), ("qda", True), ("tan", True)]
)
def test_what_is_missing_is_summed_and_integrated_out(name, missing):
    """Also where no row that was learnt from could lack anything."""
    ours = made(name, replace(SCHEMA, missing=missing)).to_classifier()
    told = ours.parameters
    x = rows(1)[0]
    holes = np.where(np.random.default_rng(2).random(x.shape) < 0.5, np.nan, x)[:32]
    holes[0], holes[1] = np.nan, x[1]
    assert np.isnan(holes[:, [1, 3, 4]]).all(1).sum() > 1  # all categories of a row, some, none
    expected = [
        [
            np.log(told["prior"][c]) + log_numbers(told, z, c) + log_tables(told, z, c)
            for c in range(3)
        ]
        for z in holes
    ]
    close(ours.log_joint(holes), expected)
    close(ours.log_proba(holes), expected - np.logaddexp.reduce(expected, 1)[:, None])
    best = np.array(SCHEMA.classes)[np.argmax(expected, 1)]
    assert ours.predict(holes)[1:].tolist() == best[1:].tolist()  # the first row is a draw


def test_a_row_of_which_nothing_is_known_leaves_the_prior():
    for name in OPTIONS:
        got = made(name).to_classifier().log_proba(np.full((1, 5), np.nan))
        close(np.exp(got[0]), [1 / 3] * 3)


def test_one_row_with_a_hole_does_not_change_the_others():
    """Rows with and without holes are told apart by an array, not by a row; they must agree."""
    for name in OPTIONS:
        ours = made(name).to_classifier()
        x = rows(1)[0][:32]
        mixed = x.copy()
        mixed[3, 1] = np.nan
        left = np.arange(32) != 3
        close(ours.log_joint(mixed)[left], ours.log_joint(x)[left])


# --- decisions


def test_the_decision_has_the_least_expected_cost():
    ours = made().to_classifier()
    x = rows(1)[0][:32]
    cost = np.array([[0, 1, 4], [2, 0, 1], [30, 5, 0.0]])
    proba = np.exp(ours.log_proba(x))
    expected = [
        min(range(3), key=lambda said: sum(p[true] * cost[true, said] for true in range(3)))
        for p in proba
    ]
    said = ours.decide(x, cost)
    assert said.tolist() == [SCHEMA.classes[k] for k in expected]
    assert (said != ours.predict(x)).any()  # costs matter
    assert ours.decide(x, 1 - np.eye(3)).tolist() == ours.predict(x).tolist()


@pytest.mark.parametrize(
    "cost", [[[0, 1], [1, 0]], np.zeros((3, 2)), [0, 1, 2], np.full((3, 3), np.nan), 1.0]
)
def test_costs_that_do_not_fit_the_classes_are_refused(cost):
    with pytest.raises(BadSetting, match=r"3 rows \(true class\)"):
        made().to_classifier().decide(rows()[0][:2], cost)


# --- reasons


@pytest.mark.parametrize("name", OPTIONS)
def test_reasons_add_up_to_the_log_odds(name):
    ours = made(name).to_classifier()
    for z in (rows(1)[0][5], np.array([np.nan, 1, 0.3, np.nan, 2]), np.full(5, np.nan)):
        joint = ours.log_joint(z[None])[0]
        first, second = np.argsort(-joint, kind="stable")[:2]
        told = ours.explain(z)
        assert list(told.columns) == ["feature", "value", "log_odds"]
        assert told.feature[0] == "(class)"
        assert sorted(told.feature[1:]) == sorted(f.name for f in SCHEMA.features)
        assert told.attrs["target"] == SCHEMA.classes[first]
        assert told.attrs["against"] == SCHEMA.classes[second]
        assert told.attrs["log_odds"] == pytest.approx(joint[first] - joint[second], abs=1e-10)
        assert told.log_odds.sum() == pytest.approx(joint[first] - joint[second], abs=1e-10)
        assert told.attrs["probability"] == pytest.approx(np.exp(ours.log_proba(z[None])[0, first]))
        said = told.log_odds[1:].abs().tolist()
        assert said == sorted(said, reverse=True)


def test_a_reason_of_naive_bayes_is_a_ratio_of_likelihoods():
    ours = made("naive_bayes").to_classifier()
    told, z = ours.parameters, np.array([0.5, 2, -1.0, 0, 1])
    got = ours.explain(z, target="yes", against="no").set_index("feature").log_odds
    assert got["job"] == pytest.approx(np.log(told["prob"][1][2, 2] / told["prob"][1][0, 2]))
    mean, std = told["mean"][:, 1], np.sqrt(told["var"][:, 1])
    ratio = norm.logpdf(-1, mean[2], std[2]) - norm.logpdf(-1, mean[0], std[0])
    assert got["mass"] == pytest.approx(ratio)
    assert got["(class)"] == pytest.approx(0, abs=1e-12)


def test_values_in_reasons_are_in_the_units_of_the_data():
    value = made().to_classifier().explain(np.array([0.5, 2, -1.0, np.nan, 1]))
    value = value.set_index("feature").value
    assert (value["age"], value["job"], value["mass"], value["home"]) == (46.0, "c", 60.0, "y")
    assert value["sex"] is None


def test_a_missing_feature_says_nothing_but_for_its_children():
    """A leaf, a number or a root whose child is known: only the last speaks for its child."""
    z = np.array([np.nan, np.nan, 0.3, 1, np.nan])
    for name in OPTIONS:
        got = made(name).to_classifier().explain(z, "yes", "no").set_index("feature").log_odds
        assert got["age"] == 0
        assert got["home"] == pytest.approx(0, abs=1e-15 if name == "tan" else 0)  # summed to 1
        assert (got["job"] != 0) == (name == "tan")
    tree = made().to_classifier()
    got = tree.explain(z, "yes", "no").set_index("feature").log_odds
    assert got["sex"] == 0  # it is counted with its parent, which is missing
    told = tree.parameters["prob"]
    speaks = [np.log(told[1][c] @ told[3][c, 1]) for c in (2, 0)]
    assert got["job"] == pytest.approx(speaks[0] - speaks[1])


def test_the_classes_of_a_reason_can_be_named():
    ours = made().to_classifier()
    z = rows(1)[0][7]
    joint = ours.log_joint(z[None])[0]
    told = ours.explain(z, target="no", against="yes")
    assert (told.attrs["target"], told.attrs["against"]) == ("no", "yes")
    assert told.log_odds.sum() == pytest.approx(joint[0] - joint[2], abs=1e-10)
    for target in range(3):  # against the most probable of the others
        told = ours.explain(z, target=SCHEMA.classes[target])
        others = [c for c in range(3) if c != target]
        assert told.attrs["against"] == SCHEMA.classes[max(others, key=lambda c: joint[c])]


def test_reasons_that_cannot_be_given_are_refused():
    ours = made().to_classifier()
    for names in ({"target": "yess"}, {"against": "yess"}):
        with pytest.raises(UnknownName, match="did you mean 'yes'"):
            ours.explain(rows()[0][0], **names)
    with pytest.raises(BadData, match="5 features"):
        ours.explain(np.zeros(4))
    one = Schema((Feature("a", "numeric"),), ("only",))
    alone = Statistics.of(np.zeros((2, 1)), np.zeros(2, int), one).to_classifier()
    with pytest.raises(BadSetting, match="one class only"):
        alone.explain(np.zeros(1))


# --- draws


def test_draws_are_a_table_in_the_units_of_the_data():
    ours = made().to_classifier()
    x, y = ours.sample(500, seed=3, encoded=True)
    table = ours.sample(500, seed=3)
    pd.testing.assert_frame_equal(table, decode(x, SCHEMA, y))
    assert list(table.columns) == ["age", "job", "mass", "sex", "home", "class"]
    close(table.age, 40 + 12 * x[:, 0])
    assert set(table.job) == {"a", "b", "c"}
    assert set(table["class"]) == set(SCHEMA.classes)
    assert not table.equals(ours.sample(500, seed=4))


@pytest.mark.parametrize("count", [0, -1])
def test_no_draws_are_refused(count):
    with pytest.raises(BadSetting, match="rows must be 1 or more"):
        made().to_classifier().sample(count)


# --- priors


def test_one_in_each_category_is_the_smoothing_of_scikit_learn():
    x, y = rows()
    few = x[:20, list(NAMED)].astype(int)
    features = tuple(SCHEMA.features[i] for i in NAMED)
    schema = replace(SCHEMA, features=features)
    fitted = CategoricalNB(alpha=1, min_categories=[3, 2, 3]).fit(few, y[:20])
    prior = Statistics.prior(schema, rows=0, categories=1)
    assert prior.rows == 0
    ours = (Statistics.of(few, y[:20], schema) + prior).to_classifier()
    for i, table in ours.parameters["prob"].items():
        close(np.log(table), fitted.feature_log_prob_[i])
    close(ours.log_proba(few), fitted.predict_log_proba(few))


def test_pseudo_rows_spread_evenly_over_categories():
    prior = Statistics.prior(SCHEMA, rows=6)
    told = prior.to_classifier().parameters
    assert prior.rows == 18  # 6 of every class
    close(prior.values[:, -8:], np.tile([2, 2, 2, 3, 3, 2, 2, 2], (3, 1)))
    close(told["prob"][3], 0.5)
    close(told["mean"], 0)
    close(told["var"], 1)


ONE = Schema((Feature("age", "numeric", center=40.0, scale=12.0),), ("no", "yes"))
AGES = np.array([31.0, 44, 50, 62, 38]), np.array([0, 0, 1, 1, 1])
KAPPA, MU0, STD = 7.0, 45.0, 8.0


def test_a_number_has_the_mode_of_its_normal_inverse_gamma_posterior():
    """kappa = rows, alpha = (rows - 3)/2, beta = rows std^2 / 2, all in the units of the data.

    The log density of mu and v = sigma^2 given the ages is
    -(n + kappa)/2 log v - [2 beta + kappa (mu - mu0)^2 + sum (x - mu)^2] / (2 v), largest at
    mu = (kappa mu0 + sum x) / (kappa + n), v = [...] / (n + 2 alpha + 3).
    """
    ages, y = AGES
    data = Statistics.of((ages[:, None] - 40) / 12, y, ONE)
    prior = Statistics.prior(ONE, rows=KAPPA, mean={"age": MU0}, std={"age": STD})
    told = (data + prior).to_classifier().parameters
    alpha, beta = (KAPPA - 3) / 2, KAPPA * STD**2 / 2

    def log_density(mu, v, x):
        return (
            norm.logpdf(x, mu, np.sqrt(v)).sum()
            + norm.logpdf(mu, MU0, np.sqrt(v / KAPPA))
            + invgamma.logpdf(v, alpha, scale=beta)
        )

    for c in (0, 1):
        x = ages[y == c]
        mu = (KAPPA * MU0 + x.sum()) / (KAPPA + len(x))
        squares = 2 * beta + KAPPA * (mu - MU0) ** 2 + ((x - mu) ** 2).sum()
        v = squares / (len(x) + 2 * alpha + 3)
        ours = 40 + 12 * told["mean"][c, 0], 144 * told["var"][c, 0]
        close(ours, (mu, v))
        for step in ((0.05, 0), (-0.05, 0), (0, 0.5), (0, -0.5)):  # and nothing near is likelier
            assert log_density(mu + step[0], v + step[1], x) < log_density(*ours, x)


def test_numbers_together_have_the_mode_of_their_normal_inverse_wishart_posterior():
    """kappa = rows, nu = rows - d - 2, Psi = rows diag(std^2): the joint mode of mean and cov."""
    two = replace(ONE, features=(*ONE.features, Feature("mass", "numeric", center=70, scale=10)))
    rng = np.random.default_rng(0)
    z = rng.normal(size=(12, 2)) @ np.array([[9.0, 4], [0, 6]]) + np.array([45.0, 72])
    y = np.arange(12) % 2
    data = Statistics.of((z - [40, 70]) / [12, 10], y, two, "qda")
    kappa, mu0, std = 9.0, np.array([45.0, 70]), np.array([8.0, 10])
    prior = Statistics.prior(two, "qda", rows=kappa, mean={"age": 45.0}, std={"age": 8.0})
    told = (data + prior).to_classifier().parameters
    nu, psi = kappa - 2 - 2, kappa * np.diag(std**2)

    def log_density(mu, cov, x):
        return (
            multivariate_normal(mu, cov).logpdf(x).sum()
            + multivariate_normal(mu0, cov / kappa).logpdf(mu)
            + invwishart(nu, psi).logpdf(cov)
        )

    for c in (0, 1):
        x = z[y == c]
        mu = (kappa * mu0 + x.sum(0)) / (kappa + len(x))
        apart, off = x - mu, mu - mu0
        cov = (psi + kappa * np.outer(off, off) + apart.T @ apart) / (nu + 2 + 2 + len(x))
        scale = np.array([12.0, 10])
        ours = told["mean"][c] * scale + [40, 70], told["cov"][c] * np.outer(scale, scale)
        close(ours[0], mu)
        close(ours[1], cov)
        for i, j in ((0, 0), (0, 1), (1, 1)):
            for sign in (1, -1):
                near = cov.copy()
                near[i, j] = near[j, i] = cov[i, j] + sign
                assert log_density(mu, near, x) < log_density(*ours, x)
        assert log_density(mu + np.array([0.1, 0]), cov, x) < log_density(*ours, x)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_prior_is_in_the_units_of_the_data(name):
    prior = Statistics.prior(
        SCHEMA, name, rows=5, mean={"age": 52.0}, std={"mass": 20.0}, **OPTIONS[name]
    )
    told = prior.to_classifier().parameters
    close(told["mean"], np.tile([1.0, 0.0], (3, 1)))
    if "cov" in told:
        close(told["cov"], np.broadcast_to(np.diag([1.0, 4.0]), told["cov"].shape))
    else:
        close(told["var"], np.tile([1.0, 4.0], (3, 1)))
    assert (made(name) + prior).rows == 180 + 15


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"mean": {"agee": 1.0}}, UnknownName, "did you mean 'age'"),
        ({"std": {"masss": 1.0}}, UnknownName, "did you mean 'mass'"),
        ({"rows": -1}, BadSetting, "pseudo-rows must be 0 or more"),
        ({"rows": float("nan")}, BadSetting, "pseudo-rows must be 0 or more"),
        ({"categories": -1}, BadSetting, "pseudo-rows must be 0 or more"),
        ({"rows": float("inf")}, BadSetting, "pseudo-rows must be 0 or more"),
        ({"std": {"age": -1.0}}, BadSetting, "std of 'age' must be 0 or more"),
        ({"mean": {"age": float("nan")}}, BadSetting, "must be finite"),
    ],
)
def test_priors_that_make_no_sense(options, error, says):
    with pytest.raises(error, match=says):
        Statistics.prior(SCHEMA, **options)


# --- options of a model


def test_statistics_of_different_options_do_not_add_up_and_the_error_says_why():
    x, y = rows()
    a, b = (Statistics.of(x, y, SCHEMA, "tan", parents=p) for p in (PARENTS, (-1, -1, -1, 1, 1)))
    for operation in (Statistics.__add__, Statistics.__sub__):
        with pytest.raises(BadData, match=r"tan .*parents is \(-1, -1, -1, 1, 3\) here and"):
            operation(a, b)
    a, b = (Statistics.of(x, y, SCHEMA, "lda", shrinkage=s) for s in (0.1, 0.2))
    with pytest.raises(BadData, match=r"shrinkage is 0\.1 here and 0\.2 there"):
        _ = a + b
    assert a != b
    with pytest.raises(BadData, match="a lda and of a tan do not add up"):
        _ = a + made("tan")


def test_what_the_classes_share_adds_up_too():
    x, y = rows()
    half = (np.arange(180) < 70).astype(float)
    parts = [Statistics.of(x, y, SCHEMA, "lda", weight=w) for w in (half, 1 - half)]
    whole = made("lda")
    for got, expected in ((parts[0] + parts[1], whole), (whole - parts[1], parts[0])):
        for part in ("classes", "shared"):
            close(got.values[part], expected.values[part])
    scaled = (whole * 1e-3).to_classifier()
    close(scaled.log_proba(x[:32]), whole.to_classifier().log_proba(x[:32]), 1e-9)


@pytest.mark.parametrize("form", [tuple, list, np.array], ids=["tuple", "list", "array"])
def test_parents_can_be_given_in_any_form(form, tmp_path):
    """What `chow_liu` returns is an array; what is added, compared and saved is the same."""
    x, y = rows()
    ours = Statistics.of(x, y, SCHEMA, "tan", parents=form(PARENTS))
    assert ours == made("tan")
    assert (ours + made("tan")).rows == 360
    ours.save(tmp_path / "model")
    assert Statistics.load(tmp_path / "model") == made("tan")


def test_the_tree_comes_from_the_rows_where_none_is_given():
    got = Statistics.of(*rows(), SCHEMA, "tan")
    assert sorted(got.options) == ["parents"]
    assert got.options["parents"][1] == -1  # the first categorical column
    assert got.options["parents"].count(-1) == 3  # and two numbers


@pytest.mark.parametrize(
    ("model", "options", "error", "says"),
    [
        ("lda", {"shrinkag": 0.1}, UnknownName, "did you mean 'shrinkage'"),
        ("naive_bayes", {"shrinkage": 0.1}, BadSetting, "shrinkage is an option of lda, qda"),
        ("lda", {"shrinkage": 2}, BadSetting, "between 0 and 1"),
        ("tan", {"parents": (-1,)}, BadSetting, "5 entries"),
    ],
)
def test_options_that_a_model_does_not_have(model, options, error, says):
    with pytest.raises(error, match=says):
        Statistics.of(*rows(), SCHEMA, model, **options)


# --- files


@pytest.mark.parametrize("name", OPTIONS)
def test_what_is_saved_is_what_is_loaded(name, tmp_path):
    ours = made(name) * (1 / 3)
    ours.save(tmp_path / "model")
    back = Statistics.load(tmp_path / "model")
    assert back == ours
    assert back.model == name
    assert OPTIONS[name].items() <= back.options.items()  # and the defaults of the others
    assert isinstance(back.values, dict) == (name in ("lda", "shared_naive_bayes"))
    x = rows(1)[0][:32]
    np.testing.assert_array_equal(
        back.to_classifier().log_joint(x), ours.to_classifier().log_joint(x)
    )
    assert (back + ours).rows == pytest.approx(120)


def test_options_of_numbers_are_saved_as_they_are(tmp_path):
    ours = Statistics.of(*rows(), SCHEMA, "lda", shrinkage=0.1)
    ours.save(tmp_path / "model")
    assert Statistics.load(tmp_path / "model").options == {"shrinkage": 0.1}


def damaged(name, options=None, tensors=None, **header):
    s = made(name)
    known = {"kind": "peerwise statistics", "model": name, "schema": SCHEMA.to_json()}
    written = json.dumps(dict(s.options)) if options is None else options
    values = s.values if isinstance(s.values, dict) else {"values": s.values}
    return to_bytes(tensors or values, metadata={**known, "options": written, **header})


TREE = json.dumps({"parents": PARENTS})
DAMAGED = {
    "not JSON": lambda: damaged("tan", "{"),
    "a list": lambda: damaged("tan", "[1]"),
    "a text": lambda: damaged("tan", '"parents"'),
    "no structure": lambda: damaged("tan", "{}"),
    "an unknown option": lambda: damaged("tan", '{"colour": 1}'),
    "a circle": lambda: damaged("tan", '{"parents": [-1, 4, -1, 1, 3]}'),
    "a shorter structure": lambda: damaged("tan", '{"parents": [-1, -1]}'),
    "another structure": lambda: damaged("tan", '{"parents": [-1, -1, -1, 1, -1]}'),
    "a number for a structure": lambda: damaged("tan", '{"parents": 3}'),
    "texts for a structure": lambda: damaged("tan", '{"parents": ["a", "b", "c", "d", "e"]}'),
    "lists for a structure": lambda: damaged("tan", '{"parents": [[1], [2], [3], [4], [5]]}'),
    "nothing for a structure": lambda: damaged("tan", '{"parents": [null, null, -1, 1, 3]}'),
    "an infinite structure": lambda: damaged("tan", '{"parents": [-1, -1, -1, 1, Infinity]}'),
    "endless nesting": lambda: damaged("tan", "[" * 100_000),
    "a text for a share": lambda: damaged("lda", '{"shrinkage": "much"}'),
    "a share above 1": lambda: damaged("lda", '{"shrinkage": 7}'),
    "no share": lambda: damaged("lda", '{"shrinkage": NaN}'),
    "an object for a share": lambda: damaged("lda", '{"shrinkage": {}}'),
    "an option of another model": lambda: damaged("lda", TREE),
    "no shared part": lambda: damaged("lda", tensors={"values": made("lda").values["classes"]}),
    "a shared part that is none": lambda: damaged("tan", tensors=made("lda").values),
    "half of it": lambda: damaged("lda", tensors={"classes": made("lda").values["classes"]}),
    "a longer shared part": lambda: damaged(
        "lda", tensors={**made("lda").values, "shared": np.zeros(9)}
    ),
    "not finite": lambda: damaged(
        "lda", tensors={**made("lda").values, "shared": np.full(3, np.inf)}
    ),
    "another model": lambda: damaged("lda", model="qda"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_refused(damage, tmp_path):
    (tmp_path / "model").write_bytes(DAMAGED[damage]())
    with pytest.raises(BadFile, match=re.escape(str(tmp_path))):
        Statistics.load(tmp_path / "model")


def test_a_file_without_options_is_of_a_model_that_has_none(tmp_path):
    """As files were before models had options."""
    header = {"kind": "peerwise statistics", "model": "naive_bayes", "schema": SCHEMA.to_json()}
    values = made("naive_bayes").values
    (tmp_path / "model").write_bytes(to_bytes({"values": values}, metadata=header))
    with pytest.warns(NoHash, match="model has no hash, being of an earlier version"):
        assert Statistics.load(tmp_path / "model") == made("naive_bayes")


# --- from numbers back to a table


def test_decoding_undoes_encoding():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 12, 30),
            "job": rng.choice(["x", "y", "z"], 30),
            "town": [f"town {i:02d}" for i in rng.permutation(30)],  # nominal, used as a number
        }
    )
    labels = rng.choice(["no", "yes"], 30)
    made = encode(Table("t", frame, labels, "ill"))
    x, schema = standardise(made.x, made.schema)
    assert [f.kind for f in schema.features] == ["numeric", "categorical", "numeric"]
    back = decode(x, schema, made.y)
    np.testing.assert_allclose(back.age, frame.age, rtol=1e-12)
    assert back.job.tolist() == frame.job.tolist()
    assert back.town.tolist() == frame.town.tolist()
    assert back["ill"].tolist() == labels.tolist()
    again = encode(
        Table("t", back.drop(columns="ill"), back["ill"].to_numpy(), "ill"), schema=schema
    )
    np.testing.assert_allclose(again.x, x, atol=1e-12)
    np.testing.assert_array_equal(again.y, made.y)
    assert list(decode(x, schema).columns) == ["age", "job", "town"]


def test_what_is_missing_stays_missing():
    x = np.array([[np.nan, np.nan, 1.0, 1, np.nan], [0.0, 2, np.nan, np.nan, 0]])
    back = decode(x, SCHEMA)
    assert back.isna().to_numpy().tolist() == np.isnan(x).tolist()
    assert (back.mass[0], back.sex[0], back.age[1], back.job[1]) == (80.0, "m", 40.0, "c")


def test_rows_of_another_width_are_refused():
    with pytest.raises(BadData, match="5 features"):
        decode(np.zeros((2, 4)), SCHEMA)
