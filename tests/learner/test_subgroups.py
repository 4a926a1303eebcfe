"""Metrics of test rows of one kind."""

import numpy as np
import pandas as pd
import pytest

from peerwise.errors import BadSetting, UnknownName
from peerwise.learner import cell, drawn, run
from peerwise.report.result import run as run_result


@pytest.fixture(scope="module")
def described(tmp_path_factory):
    """A description of rows with a column of two values, one of them rare and hard."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = np.where(x.sum(1) > 0, "p", "n")
    where = np.where(rng.random(300) < 0.2, "clinic", "ward")
    y = np.where((where == "clinic") & (rng.random(300) < 0.5), "p", y)
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "place": where, "id": range(300), "y": y})
    frame.to_csv(path, index=False)
    return {
        "data": {"source": str(path), "target": "y", "drop": ["place", "id"]},
        "split": {"nodes": 3, "rows": 30, "test_rows": 100},
        "network": "ring",
        "run": {"rounds": 2, "repetitions": 2, "metrics": ["auroc"], "by": ["place"]},
    }


@pytest.mark.full
def test_subgroups_are_the_test_rows_of_each_value_and_make_up_the_whole(described):
    one = cell(described)
    values = run(one).values
    for repetition in range(2):
        places = drawn(one, repetition).groups["place"]
        share = {name: (places == name).mean() for name in ("clinic", "ward")}
        parts = [values[f"test_error|place = {p}"][repetition, -1] * s for p, s in share.items()]
        np.testing.assert_allclose(sum(parts), values["test_error"][repetition, -1], atol=1e-6)
    errors = {p: values[f"test_error|place = {p}"].mean() for p in ("clinic", "ward")}
    assert errors["clinic"] > errors["ward"] + 0.1
    assert values["auroc|place = ward"].shape == (2, 1, 3)


@pytest.mark.full
def test_a_table_has_a_line_for_each_subgroup(described):
    table = run_result(described, method=["crc", "isolated"]).table
    assert set(table["subgroup"].dropna()) == {"place = clinic", "place = ward"}
    assert len(table) == 6
    assert table.loc[table["subgroup"].isna(), "test_gap"].notna().all()


@pytest.mark.parametrize(
    ("by", "error", "words"),
    [(["plase"], UnknownName, "did you mean 'place'"), (["id"], BadSetting, "has 300 values")],
)
def test_columns_that_are_absent_or_of_too_many_values_are_refused(described, by, error, words):
    with pytest.raises(error, match=words):
        drawn(cell({**described, "run": {"by": by}}), 0)


def test_rows_without_named_columns_have_no_subgroups():
    with pytest.raises(BadSetting, match="digits is an array, whose columns have no names"):
        drawn(cell({"data": "digits", "run": {"by": ["a"]}}), 0)
