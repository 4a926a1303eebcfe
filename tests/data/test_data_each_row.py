"""Rows for releases with noise: no row decides how others are read."""

import datetime

import numpy as np
import pandas as pd
import pytest

from peerwise import data
from peerwise.data.each_row import read_each
from peerwise.data.schema import Feature, Schema

DAY = datetime.datetime(2020, 1, 1)
NOON = datetime.datetime(2020, 1, 1, 12)


def read(path, cells, labels, categories, classes):
    frame = pd.DataFrame({"a": cells, "y": labels})
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    schema = Schema((Feature("a", "categorical", categories),), classes, "y")
    return read_each(data.load(path, target="y"), schema)


@pytest.mark.parametrize(
    ("kind", "cells", "labels", "categories", "classes"),
    [
        ("csv", ["1,5", "2", "7.5"], ["0", "1", "1"], ("1.5", "2"), ("0", "1")),
        ("csv", ["1", "2", "2"], ["0,5", "1,5", "7.5"], ("1", "2"), ("0.5", "1.5")),
        ("parquet", [DAY, DAY, NOON], ["0", "1", "1"], ("2020-01-01", "x"), ("0", "1")),
        ("parquet", [DAY, NOON, None], ["0", "1", "1"], ("2020-01-01 00:00:00", "x"), ("0", "1")),
    ],
    ids=["a category with a comma", "a class with a comma", "days", "days with a time"],
)
def test_the_last_row_changes_no_other(tmp_path, kind, cells, labels, categories, classes):
    path = tmp_path / f"rows.{kind}"
    whole = read(path, cells, labels, categories, classes)
    for rows in 1, 2:
        less = read(path, cells[:rows], labels[:rows], categories, classes)
        np.testing.assert_array_equal(less.x, whole.x[:rows])
        np.testing.assert_array_equal(less.y, whole.y[:rows])
    assert (whole.x[0, 0], whole.y[0]) == (0, 0)
