"""Tables for the terminal: claims, and runs of one's own."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.table import Table
from rich.text import Text

from peerwise.errors import UnknownName
from peerwise.report.better import lower_is_better
from peerwise.report.grid import Shown, empty_table, titled, within
from peerwise.study.results import Claim, Record

COLOURS = {"held": "bold green", "not held": "bold red", "undecided": "bold yellow"}


def _number(value: float | None, metric: str) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if abs(value) < 10 and not float(value).is_integer() else f"{value:.0f}"


def claims_table(claims: Sequence[Claim]) -> Table:
    """The paper's claims: held, not held or undecided, with the numbers that say so."""
    table = empty_table("Claims")
    table.add_column("", no_wrap=True)
    table.add_column("claim", ratio=1)
    table.add_column("numbers", ratio=1)
    for claim in claims:
        verdict = Text(claim.verdict, COLOURS[claim.verdict])
        stated = Text(claim.claim).append(f"\nheld when: {claim.rule}", style="dim")
        numbers = Text(f"ours: {claim.ours}" if claim.paper else claim.ours)
        if claim.paper:
            numbers.append(f"\npaper: {claim.paper}", style="dim")
        if claim.reason:
            numbers.append(f"\n{claim.verdict}: {claim.reason}", style="dim")
        table.add_row(verdict, stated, numbers)
        table.add_section()
    return table


FIRST = ("test_error", "test_gap", "node_std", "test_log_loss")  # of the metrics in a table
LAST = ("train_error", "bytes_per_link", "bytes")
HIDDEN = ("train_gap", "train_soft_error", "test_soft_error", "train_log_loss")


def _ordered(values: Iterable[Any]) -> list[Any]:
    """Each value once: numbers by size, others as they come, none last."""
    unique = list(dict.fromkeys(v for v in values if v is not None))
    with suppress(TypeError, ValueError):
        unique.sort(key=float)
    return [*unique, None]


class _Row(NamedTuple):
    """A line of a sweep's table."""

    labels: tuple[str | None, ...]
    values: dict[str, Record]


def labelled_rows(records: Sequence[Record], columns: Sequence[str]) -> list[_Row]:
    """Lines sorted by their labels."""
    rows: dict[tuple[str | None, ...], dict[str, Record]] = {}
    for r in records:
        said = {"data set": r.dataset, **r.setting}
        labels = tuple(None if said.get(c) is None else str(said[c]) for c in columns)
        rows.setdefault(labels, {})[r.metric] = r
    places = [_ordered(labels[i] for labels in rows) for i in range(len(columns))]

    def place(labels: tuple[str | None, ...]) -> list[int]:
        return [values.index(label) for values, label in zip(places, labels, strict=True)]

    return [_Row(labels, rows[labels]) for labels in sorted(rows, key=place)]


def label_columns(records: Sequence[Record]) -> list[str]:
    """The columns that label lines: the data set, the factors, and the method last."""
    keys = dict.fromkeys(k for r in records for k in r.setting if k != "method")
    sets = [r.dataset for r in records]
    columns = ["data set"] if len(set(sets)) > 1 else []
    for key in keys:
        values = [str(r.setting.get(key)) for r in records]
        if len(set(values)) > 1 and values != sets:
            columns.append(key)
    several = len({r.setting["method"] for r in records}) > 1
    return [*columns, "method"] if several or not columns else columns


def _best(rows: Sequence[_Row], metric: str) -> float | None:
    """The best value of a metric among rows, where there is a better and a worse."""
    values = [r.values[metric].value for r in rows if metric in r.values]
    numbers = [v for v in values if v is not None and np.isfinite(v)]
    lower = lower_is_better(metric)
    if lower is None or len(numbers) < 2:
        return None
    return min(numbers) if lower else max(numbers)


def sweep_tables(title: str, records: Sequence[Record], width: int = 80) -> list[Shown]:
    """A run of one's own: a row a setting, grouped by what varies, metrics as mean ± std.

    The best of each group is bold. Metrics that the width has no room for stand in a table of
    their own below. Soft errors and the gap on training rows are left to results.json.
    """
    measured = dict.fromkeys(r.metric for r in records)
    first, last = ([m for m in some if m in measured] for some in (FIRST, LAST))
    others = [m for m in measured if m not in (*HIDDEN, *first, *last)]
    metrics = [*first, *others, *last] or list(measured)
    columns = label_columns(records)
    rows = labelled_rows(records, columns)
    # Methods are compared within a setting, settings of one method within a data set
    shared = len(columns) - 1 if columns[-1] == "method" else int(columns[0] == "data set")
    groups: dict[tuple[str | None, ...], list[_Row]] = {}
    for row in rows:
        groups.setdefault(row.labels[:shared], []).append(row)
    lines: list[list[str | Text]] = []
    ends = []
    for group in groups.values():
        best = {m: _best(group, m) for m in metrics}
        for number, row in enumerate(group):
            labels = ["any" if label is None else label for label in row.labels]
            again = ["" if number and i < shared else label for i, label in enumerate(labels)]
            cells = [_mean_std(row.values.get(m), best[m]) for m in metrics]
            lines.append([*again, *cells])
        ends.append(len(lines) - 1)
    sections = ends[:-1] if max(len(g) for g in groups.values()) > 1 else []
    head = [*columns, *(m.replace("_", "\n", 1).replace("_", " ") for m in metrics)]
    tables = within(head, lines, width, labels=len(columns), sections=sections)
    return titled(title, tables, _caption(records))


def node_tables(history: pd.DataFrame, metric: str, width: int = 80) -> list[Shown]:
    """A metric of every node after the last round: a row a node, a column a setting."""
    fixed = {"repetition", "round", "node"}
    known = [str(c) for c in history if pd.api.types.is_float_dtype(history[c])]
    if metric not in known:
        raise UnknownName("metric", metric, known)
    labels = [c for c in history if c not in {*fixed, *known}]
    labels = [c for c in labels if history[c].nunique() > 1] or ["method"]
    last = history[history["round"] == history.groupby("method")["round"].transform("max")]
    wide = last.groupby(["node", *labels], dropna=False, sort=False)[metric].mean()
    frame = wide.unstack(labels, sort=False)
    names = [c if isinstance(c, tuple) else (c,) for c in frame.columns]
    head = ["node", *("\n".join("any" if pd.isna(v) else str(v) for v in c) for c in names)]
    rows = [[str(node), *(f"{v:.3f}" for v in row)] for node, *row in frame.itertuples()]
    about = f"{metric.replace('_', ' ')} after the last round, mean over repetitions"
    return titled("nodes", within(head, rows, width, labels=1), about)


def _caption(records: Sequence[Record]) -> str:
    """What the numbers of a sweep's table are."""
    reps = sorted({r.reps for r in records})
    if reps == [1]:
        return "mean over nodes, one repetition; best bold"
    often = f"{reps[0]}" if len(reps) == 1 else f"{reps[0]} to {reps[-1]}"
    return f"mean over nodes and ± standard deviation over {often} repetitions; best bold"


def _mean_std(record: Record | None, best: float | None) -> Text:
    if record is None or record.value is None:
        return Text("-")
    text = _number(record.value, record.metric)
    if record.std:
        text += f" ±{record.std:.3f}".replace("±0.", "±.")
    return Text(text, "bold" if record.value == best else "")
