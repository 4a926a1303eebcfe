"""Rows for releases with noise: no row decides how others are read."""

import datetime
import decimal
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise import data
from peerwise.data.discreet import discreet
from peerwise.data.each_row import read_each
from peerwise.data.loaders import Table
from peerwise.data.schema import Feature, Schema
from peerwise.errors import BadData

DAY = datetime.datetime(2020, 1, 1)
NOON = datetime.datetime(2020, 1, 1, 12)
LARGE = 900_000_000_000_207_009  # a code that is rounded in double precision
LARGE_TEXTS = (str(LARGE), str(LARGE + 2))


def read(path, cells, labels, categories, classes):
    if path.suffix == ".csv":
        pd.DataFrame({"a": cells, "y": labels}).to_csv(path, index=False)
    else:  # not by pandas, whose columns have no gaps among whole numbers
        pq.write_table(pa.table({"a": cells, "y": labels}), path)
    schema = Schema((Feature("a", "categorical", categories),), classes, "y")
    with discreet():
        table = data.load(path, target="y")
    return read_each(table, schema)


@pytest.mark.parametrize(
    ("kind", "cells", "labels", "categories", "classes"),
    [
        ("csv", ["1,5", "2", "7.5"], ["0", "1", "1"], ("1.5", "2"), ("0", "1")),
        ("csv", ["1", "2", "2"], ["0,5", "1,5", "7.5"], ("1", "2"), ("0.5", "1.5")),
        ("parquet", [DAY, DAY, NOON], ["0", "1", "1"], ("2020-01-01", "x"), ("0", "1")),
        ("parquet", [DAY, NOON, None], ["0", "1", "1"], ("2020-01-01 00:00:00", "x"), ("0", "1")),
        ("csv", ["1", "2", "2"], ["NaN", "1", "x"], ("1", "2"), ("NaN", "1")),
        ("csv", ["1", "2", "2"], ["Infinity", "0", "01"], ("1", "2"), ("Infinity", "0")),
        ("csv", ["1", "2", "2"], ["1", "1.0", "x"], ("1", "2"), ("1", "1.0")),
        ("parquet", [LARGE, LARGE + 2, None], ["0", "1", "1"], LARGE_TEXTS, ("0", "1")),
        ("parquet", [True, False, None], ["0", "1", "1"], ("True", "False"), ("0", "1")),
        ("parquet", [1, 2, 2], [LARGE, LARGE + 2, None], ("1", "2"), LARGE_TEXTS),
    ],
    ids=[
        "a category with a comma",
        "a class with a comma",
        "days",
        "days with a time",
        "classes that are numbers, and nan",
        "and infinite",
        "and spelt in two ways",
        "a gap beside large codes",
        "a gap beside booleans",
        "a gap beside large classes",
    ],
)
def test_the_last_row_changes_no_other(tmp_path, kind, cells, labels, categories, classes):
    path = tmp_path / f"rows.{kind}"
    whole = read(path, cells, labels, categories, classes)
    for rows in 1, 2:
        less = read(path, cells[:rows], labels[:rows], categories, classes)
        np.testing.assert_array_equal(less.x, whole.x[:rows])
        np.testing.assert_array_equal(less.y, whole.y[:rows])
    assert (whole.x[0, 0], whole.y[0]) == (0, 0)


@pytest.mark.parametrize("label", [["x"], {"x": 1}])
def test_a_label_that_is_no_single_value_refuses_no_other_rows(tmp_path, label):
    made = read(tmp_path / "rows.parquet", ["1", "2", "1"], [label, None, None], ("1", "2"), "xy")
    assert made.y.tolist() == [-1, -1, -1]


# whatever Python puts into a frame; `object` columns hold several kinds
CELLS = [
    1, 1.0, 2.5, "1", "1,0", "x", True, False, "True", None, np.nan, pd.NaT, np.inf, -0.0, b"1",
    np.float32(0.1), 0.1, np.int64(1), np.bool_(True), 2**70, 1e300, "", "1_0", [1], (1, 2), {},
    decimal.Decimal("2.50"), decimal.Decimal("2.5"), DAY, NOON, datetime.date(2020, 1, 1),
    pd.Timestamp(DAY, tz="UTC"), pd.Timestamp(DAY, tz="UTC").tz_convert("Asia/Tokyo"),
    2j, 1 + 0j, np.complex64(2.5), datetime.timedelta(1), pd.Timedelta(1, "s"), pd.NA,
]  # fmt: skip
TEXTS = ("1", "0", "True", "2.5", "x", "2020-01-01", "0.1", "10", "2020-01-02")


def of_objects(cells, kind):
    labels = np.empty(len(cells), object)
    labels[:] = cells
    column = pd.Series(cells, dtype=kind)
    features = Feature("n", "numeric"), Feature("c", "categorical", TEXTS)
    schema = Schema(features, TEXTS, "y", missing=True)
    made = read_each(Table("r", pd.DataFrame({"n": column, "c": column}), labels, "y"), schema)
    return made.x, made.y


@settings(max_examples=60, deadline=None)
@given(
    cells=st.lists(st.sampled_from(CELLS), min_size=2, max_size=6),
    kind=st.sampled_from([object, None]),
)
def test_no_cell_of_a_frame_says_how_another_is_read(cells, kind):
    x, y = of_objects(cells, kind)
    for i, cell in enumerate(cells):
        alone = of_objects([cell], object)
        np.testing.assert_array_equal(x[i], alone[0][0])
        assert y[i] == alone[1][0]


def test_equal_values_that_are_spelt_differently_are_each_read_by_themselves():
    """Before, all were spelt as the first of them, which one row could choose."""
    moment = pd.Timestamp("2020-01-01 20:00", tz="UTC").to_pydatetime()
    there = moment.astimezone(datetime.timezone(datetime.timedelta(hours=4)))  # the next day
    for first, other in (moment, there), (decimal.Decimal("1E+1"), decimal.Decimal("10")):
        assert first == other
        x, y = of_objects([first, *[other] * 3], object)
        alone = of_objects([other], object)
        np.testing.assert_array_equal(x[1:], np.repeat(alone[0], 3, 0))
        np.testing.assert_array_equal(y[1:], np.repeat(alone[1], 3))


@pytest.mark.parametrize(
    ("cells", "numbers", "places"),
    [
        ([1, 2.5, 2j], [1, 2.5, np.nan], [0, 3, np.nan]),
        ([datetime.timedelta(1), None], [np.nan, np.nan], [np.nan, np.nan]),
        ([1, 10**5000], [1, np.nan], [0, np.nan]),
    ],
    ids=["a complex cell", "durations", "more digits than Python spells"],
)
def test_one_cell_refuses_no_others(cells, numbers, places):
    """Before, each was refused, in a frame in memory: that tells of one row."""
    x, _ = of_objects(cells, None)
    np.testing.assert_array_equal(x, np.transpose([numbers, places]))


def test_a_column_that_is_spelt_otherwise_is_hinted_at():
    schema = Schema((Feature("CRP", "numeric"),), ("0", "1"), "y")
    for name, hint in {"crp": "; is it 'crp'?", "crp1": ""}.items():  # may be a cell
        table = Table("r", pd.DataFrame({name: [1.0]}), np.array(["0"]), "y")
        says = re.escape(f"no column 'CRP', which the schema needs{hint}") + "$"
        with pytest.raises(BadData, match=says), discreet():
            read_each(table, schema)


def test_a_column_that_is_there_twice_is_refused_in_words():
    frame = pd.DataFrame([[1, 2]], columns=["n", "n"])
    schema = Schema((Feature("n", "numeric"),), ("0", "1"), "y")
    with pytest.raises(BadData, match="two columns 'n'"):
        read_each(Table("r", frame, np.array(["0"]), "y"), schema)
