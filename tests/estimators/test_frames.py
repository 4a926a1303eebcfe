"""Tables as users have them: frames with categories, text, bools and holes; arrays with text."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.estimators import DecentralizedClassifier, RiskCalibratedClassifier


def table(m=90, holes=0.0, seed=0):
    """A frame with a number, a whole number, a category, text and a bool; and labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(m) % 3
    frame = pd.DataFrame(
        {
            "age": rng.normal(50 + 8 * y, 5.0),
            "visits": rng.poisson(2 + 2 * y),
            "blood": pd.Categorical(
                np.array(["A", "B", "O"])[(y + (rng.random(m) < 0.4)) % 3], ["O", "A", "B", "AB"]
            ),
            "city": np.array(["Bilbao", "Irun", "Vitoria"])[(y + rng.integers(2, size=m)) % 3],
            "smokes": rng.random(m) < 0.2 + 0.3 * y,
        }
    )
    for name in frame.columns if holes else []:
        gone = rng.random(m) < holes
        kind = {"visits": "Int64", "smokes": "boolean"}.get(name, frame[name].dtype)
        frame[name] = frame[name].astype(kind).mask(gone)
    return frame, np.array(["ill", "well", "worse"])[y]


def small(**options):
    return RiskCalibratedClassifier(**{"max_iter": 8, **options})


def close(a, b, tolerance=1e-9):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# --- frames


@pytest.mark.parametrize("holes", [0.0, 0.15])
def test_a_frame_of_many_kinds_is_learnt_from(holes):
    X, y = table(holes=holes)
    model = small().fit(X, y)
    assert [f.kind for f in model.schema_.features] == ["numeric"] * 2 + ["categorical"] * 3
    assert model.schema_.missing == (holes > 0)
    assert model.feature_names_in_.tolist() == list(X.columns)
    assert model.score(X, y) > 0.75
    close(model.predict_proba(X).sum(1), 1)


def test_categories_are_the_declared_ones_and_those_found():
    X, y = table()
    blood, city, smokes = (f.categories for f in small().fit(X, y).schema_.features[2:])
    assert blood == ("O", "A", "B", "AB")  # declared, though nobody has AB
    assert city == ("Bilbao", "Irun", "Vitoria")
    assert smokes == ("False", "True")


def test_numbers_are_standardised_by_what_is_known():
    X, y = table(holes=0.15)
    model = small().fit(X, y)
    for name, feature in zip(["age", "visits"], model.schema_.features[:2], strict=True):
        known = X[name].dropna().to_numpy(float)
        close([feature.center, feature.scale], [known.mean(), known.std()])


@pytest.mark.parametrize("holes", [0.0, 0.15])
def test_the_order_of_categories_changes_nothing(holes):
    X, y = table(holes=holes)
    other = X.assign(blood=X["blood"].cat.reorder_categories(["AB", "B", "A", "O"]))
    assert (other["blood"].cat.codes != X["blood"].cat.codes).any()
    a, b = small().fit(X, y), small().fit(other, y)
    close(a.predict_proba(X), b.predict_proba(other))
    close(a.predict_proba(X), a.predict_proba(other))  # they go by name, not by code


def test_a_category_may_come_as_text_and_text_as_a_category():
    X, y = table(holes=0.15)
    model = small().fit(X, y)
    other = X.assign(blood=X["blood"].astype(object), city=X["city"].astype("category"))
    close(model.predict_proba(other), model.predict_proba(X))


def test_the_order_and_index_of_rows_change_nothing():
    X, y = table(holes=0.15)
    order = np.random.default_rng(1).permutation(len(y))
    a, b = small().fit(X, y), small().fit(X.iloc[order], pd.Series(y).iloc[order])
    close(a.predict_proba(X), b.predict_proba(X), 1e-7)


def test_a_declared_category_that_nobody_had_is_possible_and_says_little():
    X, y = table()
    model = small(max_iter=0).fit(X, y)
    row = X[:1].assign(blood=pd.Categorical(["AB"], X["blood"].cat.categories))
    hole = X[:1].assign(blood=pd.Categorical([None], X["blood"].cat.categories))
    # classes of equally many rows have seen it equally never
    close(model.predict_proba(row), model.predict_proba(hole))


def test_a_hole_at_prediction_only_is_integrated_out():
    X, y = table()
    model, never = small(max_iter=0), small(max_iter=0)
    model.fit(X, y)
    never.fit(X.drop(columns=["age", "city"]), y)
    holes = X.assign(age=np.nan, city=None)
    close(model.predict_proba(holes), never.predict_proba(X.drop(columns=["age", "city"])))


def test_a_frame_of_numbers_alone_is_what_its_array_is():
    X, y = table()
    numbers = X[["age", "visits"]]
    a, b = small().fit(numbers, y), small().fit(numbers.to_numpy(), y)
    close(a.predict_proba(numbers), b.predict_proba(numbers.to_numpy()))
    assert [f.name for f in b.schema_.features] == ["x0", "x1"]


def test_text_labels_come_back_as_they_were():
    X, y = table()
    said = small().fit(X, y).predict(X)
    assert set(said) == {"ill", "well", "worse"}


# --- frames that are not like the one that was fitted


def test_columns_that_are_not_those_of_training_are_refused():
    X, y = table()
    model = small().fit(X, y)
    with pytest.raises(ValueError, match="must be in the same order"):
        model.predict(X[X.columns[::-1]])
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time:\n- years\n.*missing:\n- age"):
        model.predict(X.rename(columns={"age": "years"}))
    with pytest.raises(ValueError, match=r"(?s)missing:\n- smokes"):
        model.predict(X.drop(columns="smokes"))


def test_a_wrong_number_of_features_is_refused():
    X, y = table()
    model = small().fit(X[["age", "visits"]].to_numpy(), y)
    with pytest.raises(ValueError, match=r"X has 1 features, but .* is expecting 2"):
        model.predict(X[["age"]].to_numpy())


def test_an_unknown_category_is_an_error_that_says_where():
    X, y = table()
    model = small().fit(X, y)
    other = X.assign(city=X["city"].where(X.index != 7, "Donostia"))
    with pytest.raises(BadData, match=r"column 'city' holds 'Donostia' in row 7.*Bilbao, Irun"):
        model.predict(other)


@pytest.mark.parametrize("holes", [0.0, 0.15])
def test_or_an_unknown_category_is_one_that_is_not_known(holes):
    X, y = table(holes=holes)
    model = small(handle_unknown="missing").fit(X, y)
    strange = X.assign(city=X["city"].where(X.index != 7, "Donostia"))
    hole = X.assign(city=X["city"].where(X.index != 7, None))
    close(model.predict_proba(strange), model.predict_proba(hole))


def test_another_way_of_unknown_categories_is_refused():
    X, y = table()
    with pytest.raises(UnknownName, match="handle_unknown 'mising'; did you mean 'missing'"):
        small(handle_unknown="mising").fit(X, y)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"age": np.inf}, "column 'age' contains infinity"),
        ({"when": pd.Timestamp("2024-01-01")}, "column 'when' holds dates"),
        ({"blood": pd.Categorical([None] * 90)}, "column 'blood' has no value at all"),
        ({"blood": pd.Categorical([1] * 90, [1, "1"])}, "two categories of column 'blood'"),
    ],
)
def test_a_column_that_cannot_be_learnt_from_is_refused_by_name(change, says):
    X, y = table()
    with pytest.raises(ValueError, match=says):
        small().fit(X.assign(**change), y)


def test_no_rows_and_a_wrong_number_of_labels_are_refused():
    X, y = table()
    with pytest.raises(ValueError, match="no rows"):
        small().fit(X[:0], y[:0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        small().fit(X, y[:-1])


# --- which columns are categories


def coded(m=80, seed=1):
    rng = np.random.default_rng(seed)
    y = np.arange(m) % 2
    return np.column_stack([rng.normal(y), (y + rng.integers(2, size=m)) % 3 * 10]), y


def test_numeric_codes_declared_categorical_are_categories():
    """By number, by mask; the codes need not be 0, 1, 2."""
    X, y = coded()
    model = small(categorical_features=[1]).fit(X, y)
    assert model.schema_.features[1].categories == ("0", "10", "20")
    masked = small(categorical_features=[False, True]).fit(X, y)
    frame = pd.DataFrame(X, columns=["a", "b"])
    named = small(categorical_features=["b"]).fit(frame, y)
    typed = small().fit(frame.assign(b=frame["b"].astype(int).astype("category")), y)
    close(masked.predict_proba(X), model.predict_proba(X))
    close(named.predict_proba(frame), model.predict_proba(X))
    close(typed.predict_proba(frame), model.predict_proba(X))
    with pytest.raises(BadData, match="column 'x1' holds '5' in row 0"):
        model.predict(np.array([[0.0, 5.0]]))


def test_codes_that_are_not_declared_are_numbers():
    X, y = coded()
    for nothing in ("from_dtype", [], None):
        model = small(categorical_features=nothing).fit(X, y)
        assert model.schema_.cardinalities == (0, 0)


def texts(m=60, holes=False, seed=2):
    rng = np.random.default_rng(seed)
    y = np.arange(m) % 2
    X = np.empty((m, 3), object)
    X[:, 0] = np.array(["red", "blue", "green"])[(y + rng.integers(2, size=m)) % 3]
    X[:, 1] = rng.normal(y)
    X[:, 2] = np.array(["yes", "no"])[(y + (rng.random(m) < 0.3)) % 2]
    if holes:
        X[0, 0], X[1, 0], X[2, 1] = None, np.nan, np.nan
    return X, y


@pytest.mark.parametrize("holes", [False, True])
def test_text_in_an_array_is_categorical_by_number(holes):
    X, y = texts(holes=holes)
    model = small(categorical_features=[0, 2]).fit(X, y)
    assert model.schema_.features[0].categories == ("blue", "green", "red")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1].astype(float), "c": X[:, 2]})
    close(model.predict_proba(X), small().fit(frame, y).predict_proba(frame))


def test_an_array_of_text_alone_may_hold_numbers_as_text():
    X, y = texts()
    X[:, 1] = np.round(X[:, 1].astype(float), 3)
    model = small(categorical_features=[0, 2])
    spelt = model.fit(X.astype(str), y).predict_proba(X.astype(str))
    close(spelt, model.fit(X, y).predict_proba(X))


def test_text_that_is_not_declared_is_refused_by_name():
    X, y = texts()
    with pytest.raises(BadData, match="column 'x2' holds text; make it a category"):
        small(categorical_features=[0]).fit(X, y)
    with pytest.raises(ValueError, match="could not convert string to float"):
        small().fit(X, y)


def test_infinity_among_text_is_refused():
    X, y = texts()
    X[4, 1] = np.inf
    with pytest.raises(BadData, match="column 'x1' holds infinity in row 4"):
        small(categorical_features=[0, 2]).fit(X, y)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ([7], BadSetting, "column 7 of 2"),
        ([-1], BadSetting, "column -1 of 2"),
        ([True], BadSetting, "a mask of 1 for 2 features"),
        (["x9"], UnknownName, "unknown feature 'x9'"),
        ("by_type", UnknownName, "from_dtype"),
    ],
)
def test_columns_that_do_not_exist_cannot_be_categorical(given, error, says):
    X, y = coded()
    with pytest.raises(error, match=says):
        small(categorical_features=given).fit(X, y)


# --- before fitting


@pytest.mark.parametrize(
    "use",
    [
        lambda m, X: m.predict(X),
        lambda m, X: m.predict_proba(X),
        lambda m, X: m.predict_joint_log_proba(X),
        lambda m, X: m.explain(X[:1]),
        lambda m, X: m.sample(3),
        lambda m, X: m.classifier_,
    ],
)
def test_nothing_is_said_before_fitting(use):
    with pytest.raises(NotFittedError):
        use(RiskCalibratedClassifier(), coded()[0])


@pytest.mark.parametrize("node", [None, 0])
def test_no_node_says_anything_before_fitting(node):
    with pytest.raises(NotFittedError):
        DecentralizedClassifier().predict(coded()[0], node=node)


def test_a_failed_second_fit_leaves_no_half_of_two_fits():
    X, y = coded()
    for model in (small(), DecentralizedClassifier(rounds=2, groups=2)):
        model.fit(X, y).set_params(model="multinomial")
        with pytest.raises(ValueError, match="needs a count"):
            model.fit(X - 100, y)
        with pytest.raises(NotFittedError):
            model.predict(X)
