"""Tables of the BA-BFL experiments; drawing is in `ba_bfl_figures`.

The numbers of the paper's table 1 are not in the text at hand: its claims are what is compared.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console

from peerwise.papers.ba_bfl.items import PAPER
from peerwise.study.results import Record
from peerwise.papers.ba_bfl.figures import DRAW, GRAPHS, NAMES, SETS, allocation
from peerwise.papers.task_items import Grid, half_width, heading, show_items

__all__ = ["markdown", "show"]

FEW = 3  # replicas: of two, an interval says nothing
# Heads of narrow columns.
SHORT = {
    "accuracy": "accu-\nracy",
    "ece": "ECE\n15",
    "ece_fine": "ECE\n100",
    "nll": "NLL",
    "brier": "Brier",
    "ood": "OOD\nAUROC",
    "seconds_a_round": "seconds\na round",
    "local_mean": "local\nmean",
    "local_worst": "local\nworst",
    "own_mean": "own rows\nmean",
    "own_worst": "own rows\nworst",
}
LEGEND = (
    "means of replicas, ± 95 % interval over three or more; ECE with 15 and with 100 bins; OOD: "
    "how well entropy tells another set's images"
)
PACE = (
    "median of three times, nothing measured on the way; only meant where nothing else ran on the "
    "device"
)


def _value(record: Record | None) -> str:
    if record is None or record.value is None:
        return ""
    digits = {"seconds_a_round": ".3g", "rows": ".0f"}.get(record.metric, ".3f")
    text = f"{record.value:{digits}}"
    half = half_width(record) if record.reps >= FEW else None
    return text if half is None else f"{text} ±{half:{digits}}"


def _toy(records: Sequence[Record]) -> list[Grid]:
    found = {(r.setting["rule"], r.metric): r for r in records}
    head = ["rule", "mean\nours", "mean\npaper", "variance\nours", "variance\npaper"]
    rows = []
    for rule in dict.fromkeys(rule for rule, _ in found):
        row = [NAMES[rule]]
        for metric in ("mean", "variance"):
            record = found[rule, metric]
            printed = "" if record.paper_value is None else f"{record.paper_value:g}"
            row += [f"{record.value:.6g}", printed]
        rows.append(row)
    return [Grid("", head, rows)]


def _splits(records: Sequence[Record]) -> list[Grid]:
    found = {(r.dataset, r.setting["of"]): r for r in records}
    rows = [
        [SETS[name], *(_value(found[name, of]) for of in ("least", "most"))]
        for name in dict.fromkeys(r.dataset for r in records)
    ]
    return [Grid("", ["set", "fewest rows\nof a node", "most"], rows)]


def _runs(records: Sequence[Record]) -> list[Grid]:
    """A table for each data set: a row for each number of layers and rule."""
    grids = []
    for name in dict.fromkeys(r.dataset for r in records):
        # not all sets have strange images of their shape beside them
        measures = list(dict.fromkeys(r.metric for r in records if r.dataset == name))
        cells: dict[tuple[int, str], dict[str, Record]] = {}
        for r in records:
            if r.dataset == name:
                place = r.setting["layers"], r.setting["rule"]
                cells.setdefault(place, {})[r.metric] = r
        head = [f"{SETS[name]}\nBayesian layers, rule", *(SHORT[m] for m in measures)]
        rows = [
            [f"{n} {_named(rule)}", *(_value(found.get(m)) for m in measures)]
            for (n, rule), found in sorted(cells.items())
        ]
        grids.append(Grid("", head, rows))
    return grids


def _named(rule: str) -> str:
    return NAMES.get(rule) or f"{NAMES[rule.split()[0]]}, the paper's start"


def _graphs(records: Sequence[Record]) -> list[Grid]:
    measures = list(dict.fromkeys(r.metric for r in records))
    cells: dict[tuple[str, float, str], dict[str, Record]] = {}
    for r in records:
        place = r.setting["graph"], r.setting["q"], r.setting["variant"]
        cells.setdefault(place, {})[r.metric] = r
    head = ["graph, q, method", *(SHORT[m] for m in measures)]
    rows = [
        [f"{GRAPHS[g]}, {q:g}, {NAMES[v]}", *(_value(found.get(m)) for m in measures)]
        for (g, q, v), found in cells.items()
    ]
    return [Grid("", head, rows)]


def _grids(item: str, records: Sequence[Record]) -> list[Grid]:
    if not records:
        return []
    known = {"figure-1": _toy, "figure-2": _splits, "graph": _graphs}
    return known.get(item, _runs)(records)


def _legend(item: str) -> str:
    if item == "figure-4":
        return PACE
    return "" if item in ("figure-1", "figure-2") else LEGEND


def _draw(item: str, tasks: Any, records: Sequence[Record]) -> Figure | None:
    if item == "figure-2":
        return allocation(tasks) if tasks else None
    return DRAW[item](records) if item in DRAW and records else None


def show(folder: Path, records: Sequence[Record], console: Console) -> list[Path]:
    """Print each item as tables, with a note of what was not run, and draw its figure."""
    return show_items(PAPER, folder, records, console, _grids, _legend, _draw)


def markdown(item: str, records: Sequence[Record]) -> list[str]:
    """An item as lines of Markdown."""
    lines = [f"## {heading(PAPER, item)}", "", f"{PAPER.items[item].about}.", ""]
    if _legend(item):
        lines += [f"{_legend(item)}.", ""]
    return lines + [line for grid in _grids(item, records) for line in grid.lines()]
