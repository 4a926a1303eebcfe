"""Numbers laid out as an item's tables say: fields in rows and columns, ours beside the paper's."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.text import Text

from peerwise.papers.items import CLOSE, NEAR, Paper, Table, title
from peerwise.report.grid import Cell, Grid, mean_text
from peerwise.study.results import Record

GAPS = ("train_gap", "test_gap", "node_std")  # metrics that are small where nodes are as good as RC


def _fields(record: Record, keys: Iterable[str]) -> tuple[Any, ...]:
    of = {**record.setting, "dataset": record.dataset, "metric": record.metric}
    return tuple(
        next((of[k] for k in key.split("|") if of.get(k) is not None), None) for key in keys
    )


def laid_out(paper: Paper, item: str, table: Table, records: Sequence[Record]) -> list[Grid]:
    """The tables of some records."""
    names = {**paper.names, **table.names}
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(_fields(record, table.by), []).append(record)
    grids = []
    for place, group in groups.items():
        titles = {k: title(names, k, v) for k, v in zip(table.by, place, strict=True)}
        head = table.head.format(**titles) or group[0].metric.replace("_", " ")
        counting = Counting(paper.counts.get(item, {}), paper.variants if table.shaded else ())
        grids.append(_grid(names, table, head, group, counting))
    return grids


def _grid(
    names: Mapping[str, Any], table: Table, head: str, records: Sequence[Record],
    counting: "Counting",
) -> Grid:  # fmt: skip
    cells: dict[tuple[Any, Any], list[Record]] = {}
    rows: dict[tuple[Any, ...], bool] = {}  # whether there is any number of ours
    columns: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        row, column = _fields(record, table.rows), _fields(record, table.columns)
        rows[row] = rows.get(row, False) or record.value is not None
        columns.setdefault(column, []).append(record)
        cells.setdefault((row, column), []).append(record)

    shown = _in_order([row for row in rows if rows[row]])

    def titles(keys: tuple[str, ...], values: tuple[Any, ...]) -> list[str]:
        pairs = zip(keys, values, strict=True)
        return [t for k, v in pairs if v is not None and (t := title(names, k.split("|")[0], v))]

    heads = [head]
    lines: list[list[Cell]] = [[table.between.join(titles(table.rows, row))] for row in shown]
    for column, of_column in columns.items():
        beside = bool(table.paper) and not table.inside and printed(of_column)
        heads += ["\n".join([*titles(table.columns, column), *(["ours"] if beside else [])])]
        heads += ["\n".join([*titles(table.columns, column), "paper"])] if beside else []
        joined = list(dict.fromkeys(_fields(r, (table.joined,)) for r in of_column))
        for line, row in zip(lines, shown, strict=True):
            here = cells.get((row, column), [])
            line.append(_cell(table, here, joined))
            line += [_theirs(table, here)] if beside else []
    if table.best:
        lines = [_marked(line) for line in lines]
    if table.shaded:
        lines += small_gaps(columns, counting)
    return Grid(heads, lines)


def _in_order(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows with the same first field together, values in the order in which they came."""
    ranks = [{v: i for i, v in enumerate(dict.fromkeys(of))} for of in zip(*rows, strict=True)]
    return sorted(rows, key=lambda row: [rank[v] for rank, v in zip(ranks, row, strict=True)])


def _cell(table: Table, here: Sequence[Record], joined: Sequence[tuple[Any, ...]]) -> Cell:
    """What stands in a cell."""
    if table.joined and here:
        by = {_fields(r, (table.joined,)): r for r in here}
        return " → ".join(_text(table, by.get(place)) or "-" for place in joined)
    if table.counted:
        return _counts([r.value for r in here if r.value is not None])
    values = [r.value for r in here if r.value is not None]
    if len(values) > 1:
        mean = here[0].model_copy(update={"value": sum(values) / len(values), "std": None})
        return _text(table, mean)
    text = _text(table, here[0] if here else None)
    if not table.inside or not here:
        return text
    return Text(text, _shade(here[0]) if table.shaded else "").append(
        f" {_theirs(table, here) or '·'}" if table.paper else "", style="dim"
    )


def _text(table: Table, record: Record | None) -> str:
    if record is None or record.value is None:
        return "" if record is None else "-"
    digits = table.digits.get(record.metric, ".3f")
    wanted = not table.intervals or record.metric in table.intervals
    text = mean_text(record, digits.removesuffix("z"), table.least if wanted else 0)
    if digits.endswith("z"):  # without the zero before the point
        text = text.replace("0.", ".", 1)
    reached = str(record.setting.get("reached", "1/1"))
    return text if len(set(reached.split("/"))) == 1 else f"{text} ({reached})"


def _theirs(table: Table, here: Sequence[Record]) -> str:
    values = [r.paper_value for r in here if r.paper_value is not None]
    if not values:
        return ""
    whole = table.inside and values[0] >= 2  # rows and rounds
    return f"{values[0]:.0f}" if whole else f"{values[0]:{table.paper}}"


def printed(records: Sequence[Record]) -> bool:
    """Whether a paper printed any of these numbers."""
    return any(r.paper_value is not None for r in records)


def _shade(record: Record) -> str:
    """As the CRC paper does: strong below 0.01, weaker below 0.05."""
    if record.value is None or record.metric not in GAPS:
        return ""
    return "bold green" if record.value < CLOSE else "green" if record.value < NEAR else "yellow"


def _marked(line: list[Cell]) -> list[Cell]:
    """A line whose lowest number is bold."""
    ends = {i: str(c).rpartition(" ")[2] for i, c in enumerate(line) if i}
    numbers = {i: float(end) for i, end in ends.items() if end not in ("", "-")}
    least = min(numbers.values(), default=None)
    return [Text(str(c), "bold") if i in numbers and numbers[i] == least else c
            for i, c in enumerate(line)]  # fmt: skip


def _counts(values: Sequence[float], of: bool = True) -> str:
    """On how many sets the gap is < 0.01 (< 0.05)."""
    if not values:
        return "-" if of else ""
    close, near = (sum(v < limit for v in values) for limit in (CLOSE, NEAR))
    return f"{close} ({near})" + (f" of {len(values)}" if of else "")


class Counting(NamedTuple):
    """What is needed to count the sets with small gaps."""

    stated: Mapping[str, tuple[int, int]] = {}  # by column, what the paper's text counts
    variants: Collection[str] = ()  # sets of ours that the paper has otherwise or not at all


def small_gaps(
    columns: Mapping[tuple[Any, ...], Sequence[Record]], counting: Counting
) -> list[list[Cell]]:
    """Rows below a table: on how many of the paper's sets each column is small, here and there."""
    counted = [
        [r for r in records if r.metric in GAPS and r.value is not None
         and r.dataset not in counting.variants]
        for records in columns.values()
    ]  # fmt: skip
    if not any(counted):
        return []
    ours = [_counts([r.value for r in c if r.value is not None], of=False) for c in counted]
    rows: list[list[Cell]] = [
        ["<.01 (<.05), ours", *ours],
        ["of so many sets", *(str(len(c) or "") for c in counted)],
    ]
    if any(printed(c) for c in counted):
        rows.append(["paper, same sets", *map(_their_counts, counted)])
    stated = counting.stated
    text = ["{} ({})".format(*stated[c]) if c in stated else "" for (c,) in columns]
    return [*rows, ["paper's text, of 16", *text]] if any(text) else rows


def _their_counts(records: Sequence[Record]) -> str:
    """The same of the paper; two decimals leave open if 0.01 was below 0.01: a range where so."""
    values = [r.paper_value for r in records if r.paper_value is not None]
    if not values or len(values) < len(records):  # of some sets nothing is printed
        return ""

    def between(limit: float) -> str:
        low, high = sum(v < limit for v in values), sum(v <= limit for v in values)
        return str(low) if low == high else f"{low}-{high}"

    return f"{between(CLOSE)} ({between(NEAR)})"
