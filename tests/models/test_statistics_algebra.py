"""Statistics as things of their own: they add, scale, are saved and become classifiers."""

import json
import re
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save as to_bytes
from sklearn.naive_bayes import GaussianNB

from peerwise.data.schema import Feature, Schema
from peerwise.errors import BadData, BadFile, UnknownName
from peerwise.models.algebra import Statistics
from peerwise.models.registry import model_for

SCHEMA = Schema(
    (Feature("age", "numeric", center=40.0, scale=12.0), Feature("job", "categorical", ("a", "b"))),
    ("no", "yes"),
)


def rows(seed, m=20):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=m), rng.integers(2, size=m)])
    return x, rng.integers(2, size=m)


def made(seed=0, m=20, schema=SCHEMA):
    return Statistics.of(*rows(seed, m), schema)


# --- algebra


@given(seed=st.integers(0, 2**32 - 1), cut=st.integers(0, 20))
def test_parts_add_up_to_the_whole_and_can_be_taken_out_again(seed, cut):
    x, y = rows(seed)
    weight = (np.arange(20) < cut).astype(float)
    whole = Statistics.of(x, y, SCHEMA)
    here = Statistics.of(x, y, SCHEMA, weight=weight)
    there = Statistics.of(x, y, SCHEMA, weight=1 - weight)
    np.testing.assert_allclose((here + there).values, whole.values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose((whole - there).values, here.values, rtol=1e-12, atol=1e-12)
    assert (here.rows, whole.rows) == (cut, 20)


def test_they_form_a_vector_space():
    a, b = made(1), made(2)
    assert a + b == b + a
    assert (a + b) * 2 == a * 2 + b * 2
    assert a * 4 - a == a * 3
    assert 0.5 * a == a * 0.5 == a * np.float64(0.5) == np.float64(0.5) * a
    assert a - a == a * 0
    assert a * 1 == a


def test_operations_leave_their_terms_alone():
    a, b = made(1), made(2)
    before = a.values.copy(), b.values.copy()
    _ = a + b, a - b, a * 3
    np.testing.assert_array_equal(a.values, before[0])
    np.testing.assert_array_equal(b.values, before[1])


def test_equality_is_of_numbers_schema_and_model():
    a = made(1)
    assert a == made(1)
    assert a != made(2)
    assert a != Statistics(replace(SCHEMA, target="income"), a.values)
    assert a != "statistics"


def test_no_rows_are_the_zero():
    none = Statistics.of(np.zeros((0, 2)), np.zeros(0, int), SCHEMA)
    assert none.rows == 0
    assert made(1) + none == made(1)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (replace(SCHEMA, classes=("no", "perhaps")), "class 1"),
        (replace(SCHEMA, target="income"), "target"),
        (
            replace(SCHEMA, features=(replace(SCHEMA.features[0], scale=2.0), SCHEMA.features[1])),
            "scale of feature 'age'",
        ),
        (
            replace(
                SCHEMA, features=(replace(SCHEMA.features[0], name="years"), SCHEMA.features[1])
            ),
            "years",
        ),
        (
            replace(
                SCHEMA,
                features=(SCHEMA.features[0], Feature("job", "categorical", ("a", "c"))),
            ),
            "feature 'job'",
        ),
    ],
)
def test_different_schemas_do_not_add_up_and_the_error_says_why(other, says):
    theirs = Statistics(other, made().values)
    for operation in (Statistics.__add__, Statistics.__sub__):
        with pytest.raises(BadData, match=says):
            operation(made(), theirs)


def test_values_must_fit_the_schema():
    with pytest.raises(BadData, match=re.escape("(2, 5)")):
        Statistics(SCHEMA, np.zeros((2, 6)))


def test_an_unknown_model_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownName, match="did you mean 'naive_bayes'"):
        model_for(SCHEMA, "naive_bays")


def test_a_schema_that_may_have_holes_counts_known_values():
    x, y = rows(3)
    x[::3, 0] = np.nan
    holes = Statistics.of(x, y, replace(SCHEMA, missing=True))
    assert np.isfinite(holes.values).all()
    assert holes.values.shape == (2, 6)
    assert np.isfinite(holes.to_classifier().log_proba(x)).all()


# --- classifiers


def test_the_classifier_of_statistics_is_the_one_of_the_rows():
    schema = Schema((Feature("a", "numeric"), Feature("b", "numeric")), ("red", "blue"))
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=100)
    x = rng.normal(y[:, None], 1.0, size=(100, 2))
    fitted = GaussianNB(var_smoothing=0).fit(x, y)
    ours = Statistics.of(x, y, schema).to_classifier()
    np.testing.assert_allclose(ours.log_joint(x), fitted.predict_joint_log_proba(x), rtol=1e-8)
    np.testing.assert_allclose(ours.log_proba(x), fitted.predict_log_proba(x), rtol=1e-8, atol=1e-8)
    assert ours.predict(x).tolist() == np.array(["red", "blue"])[fitted.predict(x)].tolist()
    np.testing.assert_allclose(ours.parameters["mean"], fitted.theta_, rtol=1e-10)
    np.testing.assert_allclose(ours.parameters["prior"], fitted.class_prior_, rtol=1e-10)


def test_scaling_does_not_change_the_classifier():
    x, _ = rows(5)
    a = made(1)
    scaled = (a * 1e-4).to_classifier().log_proba(x)
    np.testing.assert_allclose(scaled, a.to_classifier().log_proba(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 3)])
def test_rows_of_another_width_are_refused(shape):
    with pytest.raises(BadData, match="2 features"):
        made().to_classifier().log_proba(np.zeros(shape))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"y": np.zeros(4, int)}, "y must have one entry for each of the 3 rows"),
        ({"y": np.zeros((3, 1), int)}, r"y must .* got an array of shape \(3, 1\)"),
        ({"weight": np.ones(2)}, "weight must have one entry for each of the 3 rows"),
        ({"weight": np.array([1, np.inf, 1])}, "weight of row 1 is not finite"),
        ({"x": np.zeros(6)}, "rows must have 2 features"),
        ({"x": np.zeros((3, 3))}, "rows must have 2 features"),
        ({"x": np.array([[1, 0], [1e200, 0], [0, 0.0]])}, "'age' are too large .*in row 1"),
    ],
)
def test_rows_labels_and_weights_must_fit(change, says):
    given = {"x": np.zeros((3, 2)), "y": np.zeros(3, int)} | change
    with pytest.raises(BadData, match=says):
        Statistics.of(schema=SCHEMA, **given)


# --- files


def test_what_is_saved_is_what_is_loaded(tmp_path):
    a = made(1) * (1 / 3)
    a.save(tmp_path / "deep" / "a.safetensors")
    back = Statistics.load(tmp_path / "deep" / "a.safetensors")
    assert back == a
    assert back.values.dtype == np.float64
    assert back.schema == SCHEMA
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["a.safetensors"]  # no draft left


def test_saving_replaces_the_old_file(tmp_path):
    made(1).save(tmp_path / "a")
    made(2).save(tmp_path / "a")
    assert Statistics.load(tmp_path / "a") == made(2)


HEADER = {"kind": "peerwise statistics", "model": "naive_bayes", "schema": SCHEMA.to_json()}
VALUES = made().values


def written(header, tensors):
    return to_bytes(tensors, metadata=header)


def by_hand(dtype, size):
    """A well-formed file of another type of number."""
    values = {"dtype": dtype, "shape": VALUES.shape, "data_offsets": [0, VALUES.size * size]}
    header = json.dumps({"__metadata__": HEADER, "values": values}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(VALUES.size * size)


WITHOUT_CLASSES = {k: v for k, v in json.loads(SCHEMA.to_json()).items() if k != "classes"}
DAMAGED = {
    "empty": b"",
    "not safetensors": b"PK\x03\x04 this is something else entirely",
    "truncated": written(HEADER, {"values": VALUES})[:-8],
    "truncated in the header": written(HEADER, {"values": VALUES})[:40],
    "a huge header length": b"\xff" * 8 + b"{}",
    "no header": to_bytes({"values": VALUES}),
    "another kind": written({**HEADER, "kind": "a neural net"}, {"values": VALUES}),
    "no values": written(HEADER, {"weights": VALUES}),
    "too many tensors": written(HEADER, {"values": VALUES, "more": VALUES}),
    "not a number": written(HEADER, {"values": np.full_like(VALUES, np.nan)}),
    "infinite": written(HEADER, {"values": np.full_like(VALUES, np.inf)}),
    "whole numbers": written(HEADER, {"values": VALUES.astype(np.int64)}),
    "another shape": written(HEADER, {"values": VALUES[:, :-1].copy()}),
    "an unknown model": written({**HEADER, "model": "oracle"}, {"values": VALUES}),
    "no schema": written({k: v for k, v in HEADER.items() if k != "schema"}, {"values": VALUES}),
    "a broken schema": written({**HEADER, "schema": "{"}, {"values": VALUES}),
    "half a schema": written({**HEADER, "schema": json.dumps(WITHOUT_CLASSES)}, {"values": VALUES}),
    "16-bit numbers that NumPy does not have": by_hand("BF16", 2),
    "8-bit numbers that NumPy does not have": by_hand("F8_E4M3", 1),
    "truth values": by_hand("BOOL", 1),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_or_foreign_file_is_refused(damage, tmp_path):
    (tmp_path / "model").write_bytes(DAMAGED[damage])
    with pytest.raises(BadFile):
        Statistics.load(tmp_path / "model")


def test_every_truncation_is_noticed(tmp_path):
    whole = written(HEADER, {"values": VALUES})
    for length in range(0, len(whole), 7):
        (tmp_path / "model").write_bytes(whole[:length])
        with pytest.raises(BadFile):
            Statistics.load(tmp_path / "model")


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(BadFile, match="no model file"):
        Statistics.load(tmp_path / "nothing")
    with pytest.raises(BadFile):
        Statistics.load(tmp_path)
