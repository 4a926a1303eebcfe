"""Tables of the DecDiff experiments, ours beside the paper's; drawing is in `decdiff_figures`.

They are made of records, so that a folder whose cells are gone still shows its numbers.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from scipy.special import stdtrit

from peerwise.experiments.decdiff import PAPER, SHARES, table_of
from peerwise.experiments.decdiff_claims import PAPER_TABLES
from peerwise.experiments.results import Record
from peerwise.report.decdiff_figures import DRAW, NAMES, SETS
from peerwise.report.figures import save
from peerwise.report.task_items import Grid, arrays_of, heading

__all__ = ["markdown", "show"]

ACCURACIES = ("table-2", "table-3", "beta")
QUIET = ("centralised", "isolation")  # they aggregate nothing
DIGITS = {"accuracy": ".4f", "loss": ".3f", "gini": ".3f", "degree": ".3g"}
COST = 0.9  # the share at which table 4 also tells traffic

LEGEND = {
    **dict.fromkeys(ACCURACIES, "± is the 95 % interval over replicas; blank: not run"),
    "table-4": "(k/n): k of n replicas reach it, the mean is theirs; -: none does; blank: not run",
}


def _interval(record: Record | None) -> str:
    """Mean ± 95 % interval over replicas, as `metrics.confidence` of their values has it."""
    if record is None or record.value is None:
        return ""
    text = f"{record.value:.4f}"
    if record.std is None or record.reps < 2:
        return text
    half = stdtrit(record.reps - 1, 0.975) * record.std / np.sqrt(record.reps)
    return f"{text} ±{half:.4f}"


def _printed(item: str, dataset: str, variant: str, share: float | None = None) -> str:
    value = PAPER_TABLES.get((item, dataset, variant, share))
    return "" if value is None else f"{value:.4f}" if share is None else f"{value:.1f}"


def _named(item: str, variant: str) -> str:
    return NAMES[variant] + (" β=.99" if item == "beta" and variant == "decdiff+vt" else "")


def _transposed(head: str, names: Sequence[str], columns: dict[str, list[str]]) -> Grid:
    rows = [[name, *(column[i] for column in columns.values())] for i, name in enumerate(names)]
    return Grid("", [head, *columns], rows)


def _accuracies(item: str, records: Sequence[Record], sets: Sequence[str]) -> Grid:
    """Variants by data sets: ours, the paper's, and ours between aggregation and training."""
    cells = {(r.dataset, r.setting["variant"], r.metric): r for r in records}
    variants = table_of(item)
    columns = {}
    for name in sets:
        ours = [_interval(cells.get((name, v, "accuracy"))) for v in variants]
        columns[f"{SETS[name]}\nours"] = ours
        theirs = [_printed(item, name, v) for v in variants]
        if any(theirs):
            columns[f"{SETS[name]}\npaper"] = theirs
        between = [
            "" if v in QUIET else _interval(cells.get((name, v, "aggregated_accuracy")))
            for v in variants
        ]
        if any(between):
            columns[f"{SETS[name]}\nafter aggregation"] = between
    return _transposed("method", [_named(item, v) for v in variants], columns)


def _times(records: Sequence[Record], dataset: str) -> Grid:
    """Rounds to shares of the centralised accuracy, ours and the paper's, on one data set."""
    cells = {
        (r.setting["variant"], r.setting["share"], r.metric): r
        for r in records
        if r.dataset == dataset
    }

    def ours(record: Record | None, digits: str = ".1f") -> str:
        if record is None:
            return ""
        if record.value is None:
            return "-"
        few = record.setting["reached"]
        reached, runs = few.split("/")
        return f"{record.value:{digits}}" + ("" if reached == runs else f" ({few})")

    variants = table_of("table-4")
    columns = {}
    for share in SHARES:
        columns[f"{share:.0%}\nours"] = [ours(cells.get((v, share, "rounds"))) for v in variants]
        theirs = [_printed("table-4", dataset, v, share) or "-" for v in variants]
        columns[f"{share:.0%}\npaper"] = theirs
    cost = [ours(cells.get((v, COST, "gigabytes")), ".0f") for v in variants]
    if any(cost):
        columns[f"GB sent to {COST:.0%}\nours"] = cost
    return _transposed(SETS[dataset], [NAMES[v] for v in variants], columns)


def _numbers(records: Sequence[Record]) -> Grid:
    """The numbers behind a figure: a row a variant, or a data set where methods play no part."""
    columns: dict[str, None] = {}
    rows: dict[str, dict[str, str]] = {}
    for r in records:
        variant, kind = r.setting.get("variant"), r.setting.get("at") or r.setting.get("of")
        name = SETS.get(r.dataset, r.dataset)
        row, column = (NAMES[variant], f"{name}\n{kind}") if variant else (name, f"{kind}")
        columns[column] = None
        rows.setdefault(row, {})[column] = "" if r.value is None else f"{r.value:{DIGITS[r.metric]}}"
    metric = records[0].metric if records else ""
    return Grid("", [metric, *columns], [[row, *map(rows[row].get, columns)] for row in rows])
    return Grid("", [], [])


def _grids(item: str, records: Sequence[Record], sets: Sequence[str]) -> list[Grid]:
    if item in ACCURACIES:
        return [_accuracies(item, records, sets)]
    if item == "table-4":
        return [_times(records, name) for name in sets]
    return [_numbers(records)] if records else []
