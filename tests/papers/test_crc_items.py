"""Items of the CRC paper: what they run and how numbers reach the table."""

import json

import numpy as np
import pytest

from peerwise.errors import UnknownName
from peerwise.learner import Outcome, cell
from peerwise.papers import records as measured
from peerwise.papers.crc import items as crc
from peerwise.papers.crc.items import SETS, TABLES
from peerwise.papers.crc.report import reach_of_trees
from peerwise.papers.items import Column, Scale
from peerwise.papers.layout import Counting, small_gaps
from peerwise.papers.reproduce import choose, list_items, reproduce
from peerwise.study.results import Record


@pytest.mark.parametrize("item", [i for i in crc.ITEMS if i in TABLES])
def test_every_column_that_the_paper_prints_is_there(item):
    ours = {c.name for c in crc.ITEMS[item].columns}
    assert ours >= set(TABLES[item]["skin"])


def test_starts_differ_in_the_start_alone():
    base = cell(crc.base(crc.datasets(["adult"])[0], Scale()))
    uniform, likely, shared, mixed = crc.ITEMS["start"].columns
    rc = measured.cell_of(uniform, base)
    assert measured.cell_of(likely, base) == rc.changed(method={"start": "ml"})
    # all are measured against the same RC, and the default run is table 3's
    assert measured.reference_of(mixed, base).key == rc.key
    (default,) = [c for c in crc.ITEMS["table-3"].columns if c.name == "crc_test_gap"]
    assert measured.cell_of(shared, base).key == measured.cell_of(default, base).key


def test_all_16_sets_are_rows_and_our_variants_beside(monkeypatch):
    monkeypatch.delenv("PEERWISE_DATA", raising=False)
    rows = crc.datasets()
    assert [r.name for r in rows if not r.variant] == [s.name for s in SETS]
    assert {r.name for r in rows if r.distinct == 20} > {"letter-20", "secondary-20"}
    assert [r.name for r in rows if r.drop] == ["smartgrid-12"]
    assert not any(r.present for r in rows)
    with pytest.raises(UnknownName, match="did you mean 'letter'"):
        crc.datasets(["leter"])


def test_a_set_that_is_typed_again_stands_beside_the_same_numbers_and_counts_nowhere():
    letter, again = crc.datasets(["letter", "letter-20"])
    assert crc.base(again, Scale())["data"]["distinct"] == 20
    assert "distinct" not in crc.base(letter, Scale())["data"]
    of = {"column": "160"}
    told = [crc.printed("table-2", {"dataset": d.name, **of}) for d in (letter, again)]
    assert told == [0.44, 0.44]
    told = {"paper": "crc", "item": "table-4", "setting": {}, "metric": "test_gap", "std": 0.0}
    records = [Record(**told, dataset=d.name, value=0.0, reps=5) for d in (letter, again)]
    rows = small_gaps({("tree",): records}, Counting({}, crc.PAPER.variants))
    assert rows[0][1:] == ["1 (1)"]


def test_the_default_run_is_shared_by_the_tables_that_show_it():
    default = cell(crc.base(crc.datasets(["adult"])[0], Scale()))
    shared = {
        measured.cell_of(column, default).key
        for item, name in (("table-3", "crc_test_gap"), ("table-4", "tree"), ("table-11", "1"))
        for column in crc.ITEMS[item].columns
        if column.name == name
    }
    assert len(shared) == 1


def _outcome(test):
    values = {"test_error": np.array(test, float), "train_error": np.array(test, float) / 2}
    return Outcome(np.arange(1, values["test_error"].shape[1] + 1), values, 8, 4)


def test_numbers_of_a_column_by_hand():
    # two repetitions, three rounds, two nodes; the reference has one node
    outcome = _outcome([[[0.5, 0.3], [0.2, 0.2], [0.3, 0.1]], [[0.4, 0.4], [0.3, 0.1], [0.4, 0.2]]])
    reference = _outcome([[[0.3], [0.1], [0.15]], [[0.3], [0.2], [0.25]]])

    def value(metric, **more):
        return measured.measure(Column("c", metric, **more), outcome, reference)

    np.testing.assert_allclose(value("test_gap"), [0.05, 0.05])
    np.testing.assert_allclose(value("train_gap"), [0.025, 0.025])
    np.testing.assert_allclose(value("test_gap", round="best"), [0.1, 0.0])
    np.testing.assert_allclose(value("test_error"), [0.2, 0.3])
    np.testing.assert_allclose(value("node_std"), [0.1, 0.1])
    # the first repetition never comes within .01; the mean curve .4, .2, .25 does, of .2
    np.testing.assert_allclose(value("rounds_to_gap"), [np.nan, 2])
    names = {"skin|1_t": outcome, "skin|1_t|reference": reference}
    records = crc.PAPER.records("table-11", names, crc.datasets(["skin"]))
    (first,) = [r for r in records if r.setting["column"] == "1_t"]
    assert (first.value, first.paper_value) == (2, 32)


def test_items_by_name():
    assert choose("crc/table-4") == (crc.PAPER, ["table-4"])
    assert choose("crc/all") == (crc.PAPER, list(crc.ITEMS))
    assert ("crc/figure-2", "Reach") in list_items()
    with pytest.raises(UnknownName, match="did you mean 'crc/table-4'"):
        choose("crc/tabel-4")


def test_reach_falls_with_the_size_of_the_tree():
    reaches = reach_of_trees(repetitions=3)
    at_five = [reaches[n][5] for n in (20, 50, 160, 320)]
    assert at_five == sorted(at_five, reverse=True)
    assert all(np.isclose(r[-1], 1) for r in reaches.values())


@pytest.mark.full  # `make test`: test_crc_claims.py, and figure 2 in test_gossip_items.py
def test_a_quick_table_beside_the_papers(data_folder, tmp_path):
    asked = {"chosen": ["skin", "bank"], "quick": True, "workers": 1}
    found = reproduce(crc.PAPER, ["table-1", "table-12"], tmp_path, **asked)
    assert not found.failures
    records = json.loads((tmp_path / "results.json").read_text())["records"]
    table = {(r["dataset"], r["setting"]["column"]): r for r in records if r["item"] == "table-12"}
    assert table["skin", "1"]["paper_value"] == TABLES["table-12"]["skin"]["1"]
    assert abs(table["skin", "1"]["value"]) < 0.05
    assert table["skin", "1"]["setting"]["redraw"] == 1
    assert table["bank", "1"]["value"] is None  # absent
    assert table["bank", "1"]["paper_value"] is not None
    counts = {
        r["setting"]["column"]: r["value"]
        for r in records
        if r["item"] == "table-1" and r["dataset"] == "skin"
    }
    assert (counts["features"], counts["classes"]) == (3, 2)
    assert [c.name for c in found.claims] == ["dynamic_helps"]
