"""Encoding: kinds, categories, gaps, schemas that are given."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.data import Feature, Schema, Table, encode, standardise
from peerwise.errors import BadData, BadSetting, UnknownName

nan = np.nan


def table(columns, labels=None, categorical=None, split=None):
    frame = columns if isinstance(columns, np.ndarray) else pd.DataFrame(columns)
    if labels is None:
        labels = ["a", "b"] * len(frame)
        labels = labels[: len(frame)]
    return Table("toy", frame, np.array(labels, dtype=object), "y", split, categorical)


def kinds(encoded):
    return [f.kind for f in encoded.schema.features]


def only(encoded):
    (feature,) = encoded.schema.features
    return feature, encoded.x[:, 0]


def test_by_hand():
    given = table(
        {"n": np.arange(11) / 2, "c": list("bacabbacabb"), "k": [7] * 11},
        labels=[10, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
        split=np.array(["train"] * 11),
    )
    out = encode(given)
    assert out.x.dtype == np.float64
    assert out.y.dtype == np.int32
    assert out.y.tolist() == [1] + [0] * 10
    assert out.schema == Schema(
        (Feature("n", "numeric"), Feature("c", "categorical", ("a", "b", "c"))), ("9", "10"), "y"
    )
    assert out.x[:3].tolist() == [[0, 1], [0.5, 0], [1, 2]]
    assert out.dropped == (("k", "constant: every value is 7"),)
    assert out.split is given.split


def test_ten_distinct_values_are_categorical_and_eleven_numeric():
    ten, eleven = [f"v{i % 10}" for i in range(22)], [f"v{i % 11:02}" for i in range(22)]
    out = encode(table({"ten": ten, "eleven": eleven, "n10": [i % 10 for i in range(22)]}))
    assert kinds(out) == ["categorical", "numeric", "categorical"]
    label_encoded = out.schema.features[1]
    assert label_encoded.categories == tuple(sorted(set(eleven)))
    assert out.x[:, 1].tolist() == [i % 11 for i in range(22)]
    assert out.schema.cardinalities == (10, 0, 10)


def test_a_missing_category_counts_among_the_ten():
    values = [*(f"v{i}" for i in range(10)), None]
    feature, x = only(encode(table({"c": values})))
    assert feature.kind == "numeric"
    assert feature.categories[-1] == "(missing)"
    assert x[-1] == 10
    assert only(encode(table({"c": values}), missing="missing"))[0].kind == "categorical"


def test_numbers_of_a_categorical_column_are_sorted_by_value_and_spelt_alike_with_a_gap():
    whole = only(encode(table({"c": [10, 9, -1]})))
    gap = only(encode(table({"c": [10, 9, -1, nan]})))
    assert whole[0].categories == ("-1", "9", "10")
    assert gap[0].categories == ("-1", "9", "10", "(missing)")
    assert gap[1].tolist() == [2, 1, 0, 3]
    assert only(encode(table({"c": ["10", "9", "2"]})))[0].categories == ("2", "9", "10")
    assert only(encode(table({"c": ["10", "9", "x"]})))[0].categories == ("10", "9", "x")
    assert only(encode(table({"c": [0.5, 2.0, 1.5]})))[0].categories == ("0.5", "1.5", "2")


@pytest.mark.parametrize(
    ("missing", "categories", "codes"),
    [
        ("category", ("?", "a", "b", "(missing)"), [1, 0, 2, 3, 3]),
        ("missing", ("a", "b"), [0, nan, 1, nan, nan]),
    ],
)
def test_gaps_of_a_nominal_column(missing, categories, codes):
    out = encode(table({"c": ["a", "?", "b", None, nan]}), missing=missing)
    feature, x = only(out)
    assert feature.categories == categories
    np.testing.assert_array_equal(x, codes)
    assert out.schema.missing == (missing == "missing")


def test_gaps_and_infinities_of_a_numeric_column():
    values = [*np.arange(12.0), nan, np.inf, -np.inf]
    for missing in ("category", "missing"):
        out = encode(table({"n": values}), missing=missing)
        assert out.schema.missing
        np.testing.assert_array_equal(out.x[:, 0], [*np.arange(12.0), nan, nan, nan])


@pytest.mark.parametrize("gap", [None, nan, pd.NA, "?"])
def test_error_names_column_count_and_first_row(gap):
    with pytest.raises(BadData, match="'c' has missing values in 2 rows, first in row 1"):
        encode(table({"c": ["a", gap, "b", gap]}), missing="error")
    with pytest.raises(BadData, match="'n' has missing values in 1 rows, first in row 2"):
        encode(table({"n": [1.0, 2.0, np.inf]}), missing="error")


def test_constant_columns_go_with_a_reason_and_something_must_stay():
    out = encode(table({"v": ["u", None, "u"], "e": [None, None, None], "n": [1, 2, 3]}))
    assert out.dropped == (
        ("v", "constant: every value is u"),
        ("e", "every value is missing"),
    )
    with pytest.raises(BadData, match=r"no feature of 'toy' is left .v: constant"):
        encode(table({"v": ["u", None, "u"]}))
    with pytest.raises(BadData, match="it has no columns"):
        encode(table(pd.DataFrame(index=range(3))))


def test_the_source_decides_under_manifest():
    columns = {
        "listed": [1, 2, 3],
        "number": [1, 2, 3],
        "text": ["x", "y", "z"],
        "flag": [True, False, True],
        "cat": pd.Categorical(["u", "v", "v"]),
    }
    told = encode(table(columns, categorical=("listed",)), typing="manifest")
    assert kinds(told) == ["categorical", "numeric", *["categorical"] * 3]
    assert told.schema.features[3].categories == ("False", "True")
    assert kinds(encode(table(columns), typing="manifest"))[0] == "numeric"


def test_a_mapping_overrides_the_source():
    columns = {"a": [1, 2, 3], "b": [1, 2, 3], "t": ["1.5", "?", "2"], "flag": [True, False, True]}
    typing = {"a": "numeric", "b": "categorical", "t": "numeric", "flag": "numeric"}
    out = encode(table(columns, categorical=("a",)), typing=typing)
    assert kinds(out) == ["numeric", "categorical", "numeric", "numeric"]
    np.testing.assert_array_equal(out.x[:, 2], [1.5, nan, 2])
    np.testing.assert_array_equal(out.x[:, 3], [1, 0, 1])


def test_objects_that_are_numbers_are_numbers():
    for values in ([Decimal("1.5"), Decimal(2), None], [1.5, 2, None], [1.5, 2, pd.NA]):
        column = pd.Series(values, dtype=object)
        out = encode(table({"n": column}), typing="manifest")
        assert kinds(out) == ["numeric"]
        np.testing.assert_array_equal(out.x[:, 0], [1.5, 2, nan])
    nullable = pd.Series([1, None, 3], dtype="Int64")
    assert kinds(encode(table({"n": nullable}), typing="manifest")) == ["numeric"]


@pytest.mark.parametrize(
    ("columns", "options", "error", "told"),
    [
        ({"a": [1, 2]}, {"typing": "distinkt"}, UnknownName, "did you mean 'distinct'"),
        ({"a": [1, 2]}, {"typing": {"aa": "numeric"}}, UnknownName, "column 'aa'"),
        ({"a": [1, 2]}, {"typing": {"a": "number"}}, BadSetting, "got 'number'"),
        ({"a": [1, 2]}, {"missing": "categories"}, UnknownName, "did you mean 'category'"),
        ({"age": [1, 2]}, {"drop": ["agee"]}, UnknownName, "did you mean 'age'"),
        ({"a": ["1", "x"]}, {"typing": {"a": "numeric"}}, BadData, "holds 'x', first in row 1"),
        ({"a": pd.to_timedelta([1, 2])}, {}, BadData, "'a' holds timedelta64"),
        ({"a": [1j, 2j]}, {}, BadData, "'a' holds complex"),
        ({"a": [[1], [2]]}, {}, BadData, "'a' holds more than single values"),
        ({"a": []}, {}, BadData, "no rows"),
    ],
)
def test_bad_input(columns, options, error, told):
    with pytest.raises(error, match=told):
        encode(table(columns), **options)


def test_columns_left_out_on_request():
    out = encode(table({"a": [1, 2], "b": [1, 2]}), drop=["a"])
    assert [f.name for f in out.schema.features] == ["b"]
    assert out.dropped == (("a", "left out on request"),)
    assert encode(table({"aa": [1, 2], "b": [1, 2]}), drop="aa").x.shape == (2, 1)


def test_column_names():
    assert encode(table({0: [1, 2], 1: [1, 2]})).schema.features[1].name == "1"
    twice = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
    with pytest.raises(BadData, match="same name"):
        encode(table(twice))


def test_labels():
    columns = {"n": [1, 2, 3]}
    with pytest.raises(BadData, match="every row of 'toy' is of class 'a'"):
        encode(table(columns, ["a", "a", "a"]))
    assert encode(table(columns, ["10", "9", "9"])).schema.classes == ("9", "10")
    assert encode(table(columns, ["?", "a", "b"])).y.tolist() == [0, 1, 2]
    with pytest.raises(BadData, match="'y' is missing in 2 rows, first in row 1"):
        encode(table(columns, ["a", None, nan]))
    with pytest.raises(BadData, match="'y' is missing in 1 rows"):
        encode(table(columns, ["?", "a", "b"]), missing="missing")
    with pytest.raises(BadData, match="3 rows, 2 labels"):
        encode(table(columns, ["a", "b"]))


# --- arrays


def test_images_are_flattened_scaled_and_numeric():
    pixels = np.zeros((3, 2, 2), np.uint8)
    pixels[:, 0, 1] = [0, 255, 51]
    out = encode(table(pixels))
    assert out.x.dtype == np.float32
    np.testing.assert_array_equal(out.x, np.float32([[0], [1], [0.2]]))
    assert out.schema.features == (Feature("f1", "numeric"),)
    assert [name for name, _ in out.dropped] == ["f0", "f2", "f3"]
    assert encode(table(pixels), drop=["f0"]).dropped[-1] == ("f0", "left out on request")


def test_embedded_features_keep_their_values_and_gaps():
    values = np.array([[1.0, 7.0, np.inf], [2.0, 7.0, 3.0], [nan, nan, 4.0]])
    out = encode(table(values))
    assert out.schema.missing
    assert [f.name for f in out.schema.features] == ["f0", "f2"]
    np.testing.assert_array_equal(out.x, [[1, nan], [2, 3], [nan, 4]])
    with pytest.raises(BadData, match="'f0' has missing values in 1 rows, first in row 2"):
        encode(table(values), missing="error")


def test_bad_arrays():
    with pytest.raises(BadData, match="must hold numbers"):
        encode(table(np.array([["a"], ["b"]])))
    with pytest.raises(BadSetting, match="cannot be categorical"):
        encode(table(np.eye(2)), typing={"f0": "categorical"})
    with pytest.raises(UnknownName, match="column 'f2'"):
        encode(table(np.eye(2)), drop=["f2"])
    with pytest.raises(BadData, match="no feature of 'toy' is left"):
        encode(table(np.ones((2, 2))))


# --- a schema that is given

SCHEMA = Schema(
    (
        Feature("n", "numeric", center=1.0, scale=2.0),
        Feature("c", "categorical", ("1", "2")),
        Feature("job", "numeric", ("baker", "smith"), center=0.5, scale=0.5),
    ),
    ("no", "yes"),
    "y",
)
GOOD = {"other": [0, 0], "job": ["smith", "baker"], "c": [2.0, 1.0], "n": ["5", "1"]}


def test_a_given_schema_finds_columns_by_name_and_standardises():
    out = encode(table(GOOD, ["yes", "yes"]), schema=SCHEMA)
    assert out.x.tolist() == [[2, 1, 1], [0, 0, -1]]
    assert out.y.tolist() == [1, 1]
    assert out.schema is SCHEMA
    assert out.dropped == ()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"n": ["5", "five"]}, "'n' should be numeric and holds 'five'"),
        ({"n": [5.0, nan]}, "'n' has missing values in 1 rows, first in row 1"),
        ({"n": ["5", "?"]}, "'n' has missing values in 1 rows, first in row 1"),
        ({"c": [1, 3]}, r"'c' holds '3' in row 1 \(counted from 0\), which is not one of: 1, 2"),
        ({"c": ["1", "?"]}, "'c' has missing values"),
        ({"job": ["smith", "cook"]}, "'job' holds 'cook'"),
    ],
)
def test_what_a_schema_cannot_hold(changes, told):
    given = table(GOOD | changes, ["yes", "no"])
    with pytest.raises(BadData, match=told):
        encode(given, schema=SCHEMA)
    allowing = replace(SCHEMA, missing=True)
    if "should be numeric" in told:  # a typing error, not a gap
        with pytest.raises(BadData, match=told):
            encode(given, schema=allowing)
    else:
        assert np.isnan(encode(given, schema=allowing).x).sum() == 1


def test_a_given_schema_refuses_other_columns_and_labels():
    lost = {k: v for k, v in GOOD.items() if k != "job"} | {"jobs": ["smith", "baker"]}
    with pytest.raises(BadData, match="no column 'job', which the schema needs; is it 'jobs'"):
        encode(table(lost, ["yes", "no"]), schema=SCHEMA)
    with pytest.raises(BadData, match="'maybe' is not one of the schema's classes: no, yes"):
        encode(table(GOOD, ["yes", "maybe"]), schema=SCHEMA)
    gap = table(GOOD | {"n": [1, nan]}, ["yes", "no"])
    with pytest.raises(BadData, match="'n' has missing values"):
        encode(gap, schema=replace(SCHEMA, missing=True), missing="error")


def test_the_missing_category_of_a_schema_takes_gaps():
    learnt = encode(table({"c": ["a", None, "?", "b"]})).schema
    out = encode(table({"c": [None, "?", "b"]}), schema=learnt)
    assert learnt.features[0].categories == ("?", "a", "b", "(missing)")
    assert out.x[:, 0].tolist() == [3, 0, 2]


def test_arrays_under_a_given_schema():
    pixels = np.random.default_rng(0).integers(0, 256, (9, 3, 3)).astype(np.uint8)
    pixels[:, 1, 1] = 4
    first = encode(table(pixels))
    z, schema = standardise(first.x, first.schema)
    again = encode(table(pixels), schema=schema)
    assert again.x.dtype == np.float32
    np.testing.assert_array_equal(again.x, z)
    with pytest.raises(BadData, match="no column 'f6'"):
        encode(table(pixels[:, :2]), schema=schema)
    categories = Schema((Feature("f0", "categorical", ("0",)),), ("a", "b"))
    with pytest.raises(BadData, match="has categories"):
        encode(table(pixels), schema=categories)


cells = st.one_of(st.none(), st.sampled_from(["a", "b", "?", "1", "10"]), st.integers(0, 3))
numbers = st.one_of(st.floats(-9, 9), st.just(nan), st.just(np.inf))


@settings(derandomize=True, deadline=None)
@given(
    st.integers(2, 14).flatmap(
        lambda m: st.tuples(
            st.lists(cells, min_size=m, max_size=m),
            st.lists(numbers, min_size=m, max_size=m),
            st.permutations(range(m)),
        )
    ),
    st.sampled_from(["distinct", "manifest"]),
    st.sampled_from(["category", "missing"]),
)
def test_the_learnt_schema_encodes_the_same_rows_to_the_same_numbers(data, typing, missing):
    text, number, order = data
    given = table({"t": pd.Series(text, dtype=object), "n": number, "k": range(len(text))})
    out = encode(given, typing=typing, missing=missing)
    again = encode(given, typing=typing, missing=missing, schema=out.schema)
    np.testing.assert_array_equal(again.x, out.x)
    np.testing.assert_array_equal(again.y, out.y)
    for j, r in enumerate(out.schema.cardinalities):
        codes = out.x[~np.isnan(out.x[:, j]), j]
        assert r == 0 or set(codes) == set(range(r))
    # neither the schema nor a row's numbers depend on the order of the rows
    shuffled = given._replace(frame=given.frame.iloc[list(order)], labels=given.labels[list(order)])
    other = encode(shuffled, typing=typing, missing=missing)
    assert other.schema == out.schema
    np.testing.assert_array_equal(other.x, out.x[list(order)])
