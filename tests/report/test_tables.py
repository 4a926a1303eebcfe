"""Tables fit the terminal, group what belongs together and never lose a name."""

import io

import pandas as pd
import pytest
from rich.console import Console
from rich.text import Text

from peerwise.errors import UnknownName
from peerwise.report import sites, tables
from peerwise.report.better import lower_is_better
from peerwise.report.grid import within
from peerwise.study.join import Joined
from peerwise.study.results import Record


def record(value, metric="test_error", std=0.01, reps=3, dataset="digits", **setting):
    return Record(
        paper=None, item="run", dataset=dataset, setting=setting, metric=metric, value=value,
        std=std, reps=reps,
    )  # fmt: skip


def printed(pieces, width=80):
    console = Console(width=width, record=True, file=io.StringIO())
    for piece in pieces:
        console.print(piece)
    return console.export_text()


def squeezed(text):
    return "".join(text.split())


def sweep():
    values = {("ring", "crc"): 0.3, ("ring", "relay"): 0.1, ("star", "crc"): 0.1,
              ("star", "relay"): 0.2}  # fmt: skip
    return [
        record(value, metric, method=method, topology=topology)
        for method in ("crc", "relay")
        for topology in ("ring", "star")
        for metric, value in [("test_error", values[topology, method]), ("auroc", 0.9)]
    ]


def test_rows_are_grouped_by_what_varies_with_the_best_of_each_group_bold():
    title, table, caption = tables.sweep_tables("mine", sweep())
    assert str(title) == "mine"
    assert "standard deviation over 3 repetitions" in str(caption)
    columns = {str(c.header): [str(cell) for cell in c.cells] for c in table.columns}
    assert columns["topology"] == ["ring", "", "star", ""]
    assert columns["method"] == ["crc", "relay", "crc", "relay"]
    errors = next(c for c in table.columns if str(c.header) == "test\nerror")
    assert [cell.style for cell in errors.cells] == ["", "bold", "bold", ""]
    assert str(next(iter(errors.cells))) == "0.300 ±.010"


def test_numbers_that_vary_are_sorted_and_a_single_method_is_not_named():
    records = [record(0.1, method="crc", alpha=a) for a in ("10.0", "0.1", "1.0")]
    _, table, _ = tables.sweep_tables("mine", records)
    assert str(table.columns[0].header) == "alpha"
    assert [str(c) for c in table.columns[0].cells] == ["0.1", "1.0", "10.0"]
    assert len(table.columns) == 2


def test_a_wide_table_is_split_and_nothing_is_lost():
    metrics = ["test_error", "test_log_loss", "auroc", "balanced_accuracy", "worst_error",
               "a_metric_of_ones_own", "bytes_per_link"]  # fmt: skip
    method = "a method with a name that is longer than half of a line and goes on"
    records = [
        record(0.123, m, method=name, topology=t)
        for m in metrics for name in ("crc", method) for t in ("ring", "random_tree")
    ]  # fmt: skip
    pieces = tables.sweep_tables("mine", records, 80)
    text = printed(pieces)
    assert max(map(len, text.splitlines())) <= 80
    assert len(pieces) > 3
    found = squeezed(text)
    for metric in metrics:
        for word in metric.split("_"):
            assert word in found
    assert text.count("0.123 ±.010") == len(records)
    columns = [c for p in pieces[1:-1] for c in p.columns if str(c.header) == "method"]
    assert all(method in [str(cell) for cell in c.cells] for c in columns)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_labels_are_folded_not_cut(width):
    name = "Universitaetsklinikum Hamburg-Eppendorf, Zentrum fuer Radiologie"
    pieces = within(["site", *("abcdefgh")], [[name, *["0.123"] * 8]], width)
    text = printed(pieces, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for piece in pieces:
        lines = printed([piece], width).splitlines()
        label = 1 + piece.columns[0].min_width
        assert squeezed(name) in squeezed("".join(line[:label] for line in lines))


@pytest.mark.parametrize("site", ["C", "St. Mary's [north]", "x" * 100])
def test_a_site_that_joins_keeps_its_name_in_eighty_columns(site):
    line = {"rows": 57, "local": 0.9, "network": 0.95, "gain": 0.05, "low": 0.01, "high": 0.09}
    line["rests_on"] = 20
    verdicts = pd.DataFrame([{**line, "verdict": "join"}], index=[site])
    names = [f"{m}{end}" for m in sites.SHOWN for end in ("", "_low", "_high")]
    report = pd.DataFrame(
        [{"rows": 57, "positives": 20, **dict.fromkeys(names, 0.5)}],
        index=pd.MultiIndex.from_tuples([("site", site)]),
    )
    confusion = pd.DataFrame([[50, 7], [3, 20]], index=["no", "yes"], columns=["no", "yes"])
    joined = Joined("auroc", verdicts, report, confusion, {site: 133}, None)
    pieces = sites.tables(joined, 80)
    text = printed(pieces)
    assert max(map(len, text.splitlines())) <= 80
    assert "Confusion: true class in rows, class said in columns" in text
    for piece in pieces:
        if not isinstance(piece, Text) and str(piece.columns[0].header) in ("site", "subgroup"):
            folded = squeezed("".join(row[:32] for row in printed([piece]).splitlines()))
            assert squeezed(site)[:30] in folded
    assert "+0.010 to +0.090" in text


@pytest.mark.parametrize(
    ("metric", "lower"),
    [("test_error", True), ("auroc", False), ("accuracy_std", True), ("guards", None),
     ("worst_node", True), ("worst_accuracy", False)],
)  # fmt: skip
def test_which_way_is_better(metric, lower):
    assert lower_is_better(metric) is lower


def test_a_metric_of_every_node():
    line = {"dataset": "wine", "round": 2, "repetition": 0, "node": [0, 1]}
    frames = [
        pd.DataFrame({**line, "method": method, "test_error": errors})
        for method, errors in (("crc", [0.1, 0.2]), ("isolated", [0.3, 0.5]))
    ]
    before = frames[0].assign(round=1, test_error=0.9)
    console = Console(width=80, file=io.StringIO())
    for table in tables.node_tables(pd.concat([before, *frames]), "test_error"):
        console.print(table)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    assert "0 0.100 0.300" in lines
    assert "1 0.200 0.500" in lines
    with pytest.raises(UnknownName, match="did you mean 'test_error'"):
        tables.node_tables(before, "test_eror")
