"""Tables for the terminal, ours beside the paper's."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table
from rich.text import Text

from peerwise.report.better import lower_is_better
from peerwise.report.grid import Shown, empty_table, titled, within
from peerwise.study.results import Claim, Record

NEAR, CLOSE = 0.05, 0.01
LABEL_WIDTH, CELL_WIDTH = 24, 13  # characters of the first column and of each other


def _number(value: float | None, metric: str) -> str:
    if value is None:
        return "-"
    if metric == "rounds_to_gap":
        return f"{value:.0f}"
    return f"{value:.3f}" if abs(value) < 10 and not float(value).is_integer() else f"{value:.0f}"


def _printed(value: float | None, metric: str) -> str:
    if value is None:
        return "·"
    whole = metric == "rounds_to_gap" or abs(value) >= 2
    return f"{value:.0f}" if whole else f"{value:.2f}"


def _style(record: Record) -> str:
    """As the paper does: strong below 0.01, weaker below 0.05."""
    if record.value is None or not (record.metric.endswith("gap") or record.metric == "node_std"):
        return ""
    if record.metric == "rounds_to_gap":
        return ""
    return "bold green" if record.value < CLOSE else "green" if record.value < NEAR else "yellow"


def cell(record: Record | None, beside: bool) -> Text:
    """Ours and, dim, what the paper printed."""
    if record is None:
        return Text("")
    text = Text(_number(record.value, record.metric), style=_style(record))
    if not beside:
        return text
    return text.append(f" {_printed(record.paper_value, record.metric)}", style="dim")


def _countable(records: Sequence[Record]) -> list[Record]:
    kinds = ("train_gap", "test_gap", "node_std")
    return [r for r in records if r.metric in kinds and r.value is not None]


def item_tables(
    title: str,
    records: Sequence[Record],
    headers: dict[str, str],
    *,
    width: int,
    counts: dict[str, tuple[int, int]] | None = None,
    absent: Iterable[str] = (),
    notes: dict[str, str] | None = None,
) -> list[Table]:
    """A table of the paper, in as many pieces as the width asks for.

    A row a data set, each cell ours and then, dimmed, the paper's. Below: on how many sets the gap
    is < 0.01 (< 0.05), ours on the sets present, the paper's on those same sets as far as two
    printed decimals tell, and as its text states them for all 16.
    """
    names = list(headers)
    fit = max((width - LABEL_WIDTH) // CELL_WIDTH, 1)
    pieces = [names[i : i + fit] for i in range(0, len(names), fit)]
    tables = [
        _piece(records, {c: headers[c] for c in piece}, counts or {}, set(absent), notes or {})
        for piece in pieces
    ]
    tables[0].title = title
    if printed(records):
        tables[-1].caption = "ours, then the paper's (dim); · = not printed, - = no number of ours"
    else:
        tables[-1].caption = "- = no number"
    for note, mark in _marks(notes or {}).items():
        tables[-1].caption += f"\n{mark} {note}"
    return tables


def printed(records: Sequence[Record]) -> bool:
    """Whether a paper printed any of these numbers."""
    return any(r.paper_value is not None for r in records)


def _marks(notes: dict[str, str]) -> dict[str, str]:
    return {note: "*" * (i + 1) for i, note in enumerate(dict.fromkeys(notes.values()))}


def _piece(
    records: Sequence[Record],
    headers: dict[str, str],
    counts: dict[str, tuple[int, int]],
    absent: set[str],
    notes: dict[str, str],
) -> Table:
    table = empty_table(head=["data set", *headers.values()])
    by_cell = {(r.dataset, r.setting.get("column")): r for r in records}
    marks = _marks(notes)
    beside = printed(records)
    for row in dict.fromkeys(r.dataset for r in records):
        label = row + (f" {marks[notes[row]]}" if row in notes else "")
        label += " (absent)" if row in absent else ""
        cells = (cell(by_cell.get((row, c)), beside) for c in headers)
        table.add_row(label, *cells, style="dim" if row in absent else "")
    small = small_gaps(records, headers, counts)
    if small:
        table.add_section()
    for label, texts in small.items():
        style = "dim" if label.startswith("paper") else "bold" if label == OURS else ""
        table.add_row(label if style else f"  {label}", *texts, style=style)
    return table


OURS = "<.01 (<.05), ours"  # what stands before counts of small gaps


def small_gaps(
    records: Sequence[Record], columns: Iterable[str], stated: Mapping[str, tuple[int, int]]
) -> dict[str, list[str]]:
    """Rows below a table: on how many sets each column is small, here and in the paper.

    Those count that the paper has too: a variant of ours has no counterpart in its counts; where
    it printed nothing, all count.
    """
    counted = []
    for column in columns:
        here = _countable([r for r in records if r.setting.get("column") == column])
        counted.append([r for r in here if r.paper_value is not None] or here)
    if not any(counted):
        return {}
    rows = {OURS: [*map(_ours, counted)], "of so many sets": [str(len(c) or "") for c in counted]}
    if printed(records):
        rows["paper, same sets"] = [*map(_theirs, counted)]
    text = ["{} ({})".format(*stated[c]) if c in stated else "" for c in columns]
    return {**rows, "paper's text, of 16": text} if any(text) else rows


def _ours(records: list[Record]) -> str:
    """On how many sets the gap is < 0.01 (< 0.05)."""
    values = [r.value for r in records if r.value is not None]
    if not values:
        return ""
    return f"{sum(v < CLOSE for v in values)} ({sum(v < NEAR for v in values)})"


def _theirs(records: list[Record]) -> str:
    """The same of the paper; two decimals leave open if 0.01 was below 0.01: a range where so."""
    values = [r.paper_value for r in records if r.paper_value is not None]
    if not values:
        return ""

    def between(limit: float) -> str:
        low, high = sum(v < limit for v in values), sum(v <= limit for v in values)
        return str(low) if low == high else f"{low}-{high}"

    return f"{between(CLOSE)} ({between(NEAR)})"


# Heads that leave room for numbers; "sk" is scikit-learn.
SHORT = {
    **{"naive_bayes": "NB", "shared_naive_bayes": "NB, shared var.", "qda": "QDA", "lda": "LDA"},
    **{"tan": "TAN", "gaussian_nb": "NB (sk)", "sklearn_qda": "QDA (sk)"},
    **{"sklearn_lda": "LDA (sk)", "logistic_regression": "log. reg. (sk)"},
}

# What a comparison shows, each a table.
BEFORE = {
    "test_error": "Test error",
    "test_log_loss": "Test log-loss",
    "train_soft_error": "Training soft error, which calibration lowers",
}


class Before(NamedTuple):
    """A cell of a comparison."""

    text: str
    best: bool  # the lowest of its row
    lower: bool | None  # calibration lowered it; None where there is no before


def before_cells(
    records: Sequence[Record], metric: str
) -> tuple[list[str], dict[str, list[Before]]]:
    """Columns (models, then others), and for each data set a cell of each: before → after."""
    values = {
        (r.dataset, r.setting.get("model"), r.setting["method"]): r.value
        for r in records
        if r.metric == metric
    }
    models = list(dict.fromkeys(m for _, m, _ in values if m))
    others = list(dict.fromkeys(k for _, m, k in values if not m))
    rows: dict[str, list[Before]] = {}
    for name in dict.fromkeys(d for d, _, _ in values):
        pairs = [(values.get((name, m, "ml")), values.get((name, m, "rc"))) for m in models]
        pairs += [(None, values.get((name, None, k))) for k in others]
        ends = [after for _, after in pairs if after is not None]
        least = min(ends, default=None)
        rows[name] = [
            Before(
                _short(after) if before is None else f"{_short(before)} → {_short(after)}",
                after is not None and after == least,
                None if before is None or after is None else after < before,
            )
            for before, after in pairs
        ]
    return [SHORT.get(c, c.replace("_", " ")) for c in (*models, *others)], rows


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}".removeprefix("0")


def before_tables(
    about: Sequence[str], records: Sequence[Record], notes: dict[str, str]
) -> list[Table]:
    """A comparison: each cell a model before → after calibration; bold is the best of a row."""
    tables = []
    for metric, title in BEFORE.items():
        columns, rows = before_cells(records, metric)
        table = empty_table(title, ["data set", *columns])
        colours = {True: "green", False: "yellow", None: ""}
        for name, cells in rows.items():
            styled = [Text(c.text, "bold " * c.best + colours[c.lower]) for c in cells]
            table.add_row(name + (" *" if name in notes else ""), *styled)
        tables.append(table)
    marked = [f"* {name}: {note}" for name, note in notes.items()]
    tables[-1].caption = "\n".join([*about, *marked])
    return tables


def claims_table(claims: Sequence[Claim]) -> Table:
    """The paper's claims, each held or not, with the numbers that say so."""
    table = empty_table("Claims")
    table.add_column("", no_wrap=True)
    table.add_column("claim", ratio=1)
    table.add_column("numbers", ratio=1)
    for claim in claims:
        verdict = Text("held", "bold green") if claim.held else Text("not held", "bold red")
        stated = Text(claim.claim).append(f"\nheld when: {claim.rule}", style="dim")
        numbers = Text(f"ours: {claim.ours}" if claim.paper else claim.ours)
        if claim.paper:
            numbers.append(f"\npaper: {claim.paper}", style="dim")
        table.add_row(verdict, stated, numbers)
        table.add_section()
    return table


FIRST = ("test_error", "test_gap", "node_std", "test_log_loss")  # of the metrics in a table
HIDDEN = ("train_gap", "train_soft_error", "test_soft_error", "train_log_loss")


def over_seeds(records: Sequence[Record]) -> list[Record]:
    """The records with all seeds of a setting taken as repetitions of it."""
    alike: dict[str, list[Record]] = {}
    for r in records:
        setting = {k: v for k, v in r.setting.items() if k != "seed"}
        alike.setdefault(repr((r.item, r.dataset, setting, r.metric)), []).append(r)
    return [_pooled(held) for held in alike.values()]


def _pooled(records: Sequence[Record]) -> Record:
    first = records[0]
    setting = {k: v for k, v in first.setting.items() if k != "seed"}
    values = np.array([r.value for r in records if r.value is not None])
    if len(records) == 1 or not len(values):
        return first.model_copy(update={"setting": setting})
    within = np.array([r.std or 0.0 for r in records if r.value is not None])
    std = float(np.sqrt(values.var() + (within**2).mean()))
    reps = sum(r.reps for r in records)
    update = {"setting": setting, "value": float(values.mean()), "std": std, "reps": reps}
    return first.model_copy(update=update)


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


def _rows(records: Sequence[Record], columns: Sequence[str]) -> list[_Row]:
    """Lines sorted by what they are labelled with."""
    rows: dict[tuple[str | None, ...], dict[str, Record]] = {}
    for r in records:
        said = {"data set": r.dataset, **r.setting}
        labels = tuple(None if said.get(c) is None else str(said[c]) for c in columns)
        rows.setdefault(labels, {})[r.metric] = r
    places = [_ordered(labels[i] for labels in rows) for i in range(len(columns))]

    def place(labels: tuple[str | None, ...]) -> list[int]:
        return [values.index(label) for values, label in zip(places, labels, strict=True)]

    return [_Row(labels, rows[labels]) for labels in sorted(rows, key=place)]


def _label_columns(records: Sequence[Record]) -> list[str]:
    """What tells lines apart: the data set, what is varied, and the method last."""
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
    records = over_seeds(records)
    measured = dict.fromkeys(r.metric for r in records)
    first = [m for m in FIRST if m in measured]
    metrics = [*first, *(m for m in measured if m not in (*HIDDEN, *first))] or list(measured)
    columns = _label_columns(records)
    rows = _rows(records, columns)
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
