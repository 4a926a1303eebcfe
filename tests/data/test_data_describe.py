"""What is said of how a table was read."""

import numpy as np
import pandas as pd

from peerwise.data import Table, describe, load

ROWS = 60


def toy(**columns):
    rng = np.random.default_rng(0)
    labels = np.array(["a", "b"] * (ROWS // 2), dtype=object)
    return Table("toy", pd.DataFrame({"n": rng.normal(size=ROWS), **columns}), labels, "y")


def warned(column, name="c"):
    return [c.warning for c in describe(toy(**{name: column})).columns if c.warning]


def test_kinds_sizes_gaps_and_what_was_left_out():
    table = toy(c=["u", None, "v"] * 20, job=[f"j{i % 15:02}" for i in range(ROWS)], k=["x"] * ROWS)
    reading = describe(table, drop=["job"])
    assert [(c.name, c.kind, c.values) for c in reading.columns] == [
        ("n", "number", ROWS),
        ("c", "category", 2),
        ("job", "left out", 0),
        ("k", "left out", 0),
    ]
    assert reading.lines() == [
        "toy: 60 rows, target y of 2 classes (a 30, b 30)",
        "  1 number: n",
        "  1 category: c 2",
        "  2 left out: k (constant: every value is x), job (left out on request)",
        "  missing: c 33.3%",
    ]
    assert describe(table).lines()[3] == "  1 list of names used as numbers: job 15"


def test_many_like_columns_are_one_line(monkeypatch):
    monkeypatch.delenv("PEERWISE_DATA", raising=False)
    lines = describe(load("digits")).lines()
    assert lines[1] == "  61 numbers: f1..f63"
    assert len(lines) == 3


def test_at_most_twelve_lines():
    ids = {f"id{c}": [f"{c}{i}" for i in range(ROWS)] for c in "abcdefghijklmnop"}
    lines = describe(toy(**ids)).lines()
    assert len(lines) == 12
    assert lines[-1] == "  and 8 more: see `peerwise data show`"


def test_dates_identifiers_and_free_text():
    days = pd.date_range("2020-01-01", periods=ROWS)
    for column in (days, days.strftime("%d.%m.%Y"), days.strftime("%Y-%m-%dT%H:%M:%S")):
        assert "holds dates" in warned(column)[0]
    assert "identifier" in warned([f"P-{i}" for i in range(ROWS)])[0]
    assert "identifier" in warned(np.random.default_rng(0).permutation(ROWS))[0]
    assert "identifier" in warned(np.arange(ROWS) * 977, "patient_id")[0]
    assert not warned(np.arange(ROWS) * 977, "income")
    assert not warned(np.arange(ROWS) / 7)
    assert "free text" in warned([f"came in with pain {i}" for i in range(ROWS)])[0]


def test_what_gives_the_target_away():
    y = np.array([0, 1] * (ROWS // 2))
    assert "tells the target" in warned(np.where(y, "yes", "no"))[0]
    assert "tells the target" in warned([f"{v}{i % 3}" for i, v in enumerate(y)])[0]
    assert "tells the target" in warned(y + np.random.default_rng(0).random(ROWS) / 2)[0]
    almost = np.where(y, "yes", "no")
    almost[0] = "yes"
    assert not warned(almost)
    # by accident: every value once, or in a handful of rows
    assert not warned(np.random.default_rng(1).normal(size=ROWS))


def test_a_name_that_two_columns_have(tmp_path):
    (tmp_path / "t.csv").write_text("a,a,y\n1,2,u\n2,1,v\n")
    reading = describe(load(tmp_path / "t.csv", target="y"))
    assert reading.warnings == ("more than one column is called 'a'; later ones are 'a.1'",)
