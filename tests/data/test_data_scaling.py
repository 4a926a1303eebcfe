"""Standardising: closed forms, gaps, precision."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from peerwise.data import Feature, Schema, standardise
from peerwise.errors import BadData


def numeric(d):
    return Schema(tuple(Feature(f"f{j}", "numeric") for j in range(d)), ("a", "b"))


def test_by_hand_with_a_gap_a_constant_and_a_category():
    columns = (
        Feature("n", "numeric"),
        Feature("c", "categorical", ("u", "v", "w")),
        Feature("k", "numeric"),
        Feature("gone", "numeric"),
    )
    nan = np.nan
    x = np.array([[1.0, 2, 0.1, nan], [3.0, 0, 0.1, nan], [nan, 1, 0.1, nan]])
    z, schema = standardise(x, Schema(columns, ("a",), missing=True))
    np.testing.assert_array_equal(z, [[-1, 2, 0, nan], [1, 0, 0, nan], [nan, 1, 0, nan]])
    units = [(f.center, f.scale) for f in schema.features]
    assert units == [(2, 1), (0, 1), (0.1, 1), (0, 1)]


def test_center_and_scale_come_from_the_rows_named():
    x = np.array([[0.0], [4.0], [100.0]])
    for rows in (np.array([0, 1]), np.array([True, True, False])):
        z, schema = standardise(x, numeric(1), rows)
        np.testing.assert_array_equal(z, [[-1], [1], [49]])
        assert schema.features[0].center == schema.features[0].scale == 2


def test_x_keeps_its_precision_and_is_not_changed():
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    before = x.copy()
    z, _ = standardise(x, numeric(3))
    assert z.dtype == np.float32
    np.testing.assert_array_equal(x, before)
    assert standardise(x.astype(np.float64), numeric(3))[0].dtype == np.float64
    assert standardise(x.astype(np.uint8), numeric(3))[0].dtype == np.float64


@settings(derandomize=True, deadline=None)
@given(
    arrays(
        np.float64,
        array_shapes(min_dims=2, max_dims=2, max_side=8),
        elements=st.floats(-1e6, 1e6).map(lambda v: round(v, 3)),
    )
)
def test_the_schema_undoes_and_twice_is_once(x):
    z, schema = standardise(x, numeric(x.shape[1]))
    center = np.array([f.center for f in schema.features])
    scale = np.array([f.scale for f in schema.features])
    np.testing.assert_allclose(z * scale + center, x, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-6)
    varies = x.max(0) > x.min(0)
    np.testing.assert_allclose(z.std(0)[varies], 1, rtol=1e-6)
    again, twice = standardise(z, schema)
    np.testing.assert_allclose(again, z, atol=1e-6)
    np.testing.assert_allclose([f.center for f in twice.features], center, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose([f.scale for f in twice.features], scale, rtol=1e-6)


def test_more_columns_than_a_block():
    x = np.random.default_rng(0).normal(5, 3, (50, 200))
    z, _ = standardise(x, numeric(200))
    np.testing.assert_allclose(z, (x - x.mean(0)) / x.std(0), atol=1e-12)


@pytest.mark.parametrize(
    ("x", "rows", "told"),
    [
        (np.zeros((3, 2)), None, "shape .3, 2. but the schema has 1 features"),
        (np.zeros((0, 1)), None, "no rows"),
        (np.zeros((3, 1)), np.array([], dtype=int), "no rows"),
        (np.array([[1e308], [-1e308]] * 5), None, "'f0' are too large"),
        (np.array([[np.inf], [1.0]]), None, "'f0' are too large"),
    ],
)
def test_what_cannot_be_standardised(x, rows, told):
    with pytest.raises(BadData, match=told):
        standardise(x, numeric(1), rows)
