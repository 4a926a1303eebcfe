"""Tables for the terminal, ours beside the paper's."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from peerwise.experiments.results import Claim, Record

__all__ = ["claims_table", "item_table", "sweep_table"]

NEAR, CLOSE = 0.05, 0.01


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


def _cell(record: Record | None) -> Text:
    if record is None:
        return Text("")
    text = Text(_number(record.value, record.metric), style=_style(record))
    return text.append(f" {_printed(record.paper_value, record.metric)}", style="dim")


def _countable(records: Sequence[Record]) -> list[Record]:
    kinds = ("train_gap", "test_gap", "node_std")
    return [r for r in records if r.metric in kinds and r.value is not None]


def item_table(
    title: str,
    records: Sequence[Record],
    headers: dict[str, str],
    counts: dict[str, tuple[int, int]] | None = None,
    absent: Iterable[str] = (),
    notes: dict[str, str] | None = None,
) -> Table:
    """A table of the paper: a row a data set, each cell ours and then, dimmed, the paper's.

    Below: on how many sets the gap is < 0.01 (< 0.05), ours on the sets present, the paper's on
    those same sets as far as two printed decimals tell, and as its text states them for all 16.
    """
    rows = list(dict.fromkeys(r.dataset for r in records))
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.add_column("data set")
    for header in headers.values():
        table.add_column(header, justify="right")
    absent = set(absent)
    marks = {name: "*" * (i + 1) for i, name in enumerate((notes or {}).values())}
    by_cell = {(r.dataset, r.setting.get("column")): r for r in records}
    for row in rows:
        label = row + (f" {marks[notes[row]]}" if notes and row in notes else "")
        style = "dim" if row in absent else ""
        label += " (absent)" if row in absent else ""
        table.add_row(label, *(_cell(by_cell.get((row, c))) for c in headers), style=style)
    shown = {c: _countable([r for r in records if r.setting.get("column") == c]) for c in headers}
    shown = {c: [r for r in rs if r.paper_value is not None] or rs for c, rs in shown.items()}
    if any(shown.values()):
        table.add_section()
        table.add_row("< .01 (< .05), ours", *(_ours(shown[c]) for c in headers), style="bold")
        table.add_row("   of sets", *(str(len(shown[c]) or "") for c in headers), style="dim")
        table.add_row("paper, same sets", *(_theirs(shown[c]) for c in headers), style="dim")
        if counts:
            said = [f"{a} ({b})" if (pair := counts.get(c)) and (a := pair[0]) is not None and (b := pair[1]) is not None else "" for c in headers]
            table.add_row("paper's text, of 16", *said, style="dim")
    table.caption = "ours, then the paper's (dim); · = not printed, - = no number of ours"
    for note, mark in marks.items():
        table.caption += f"\n{mark} {note}"
    table.caption_justify = "left"
    return table


def _ours(records: list[Record]) -> str:
    values = [r.value for r in records if r.value is not None]
    if not values:
        return ""
    return f"{sum(v < CLOSE for v in values)} ({sum(v < NEAR for v in values)})"


def _theirs(records: list[Record]) -> str:
    """Two printed decimals leave open whether 0.01 was below 0.01: a range where they do."""
    values = [r.paper_value for r in records if r.paper_value is not None]
    if not values:
        return ""

    def between(limit: float) -> str:
        low, high = sum(v < limit for v in values), sum(v <= limit for v in values)
        return str(low) if low == high else f"{low}-{high}"

    return f"{between(CLOSE)} ({between(NEAR)})"


def claims_table(claims: Sequence[Claim]) -> Table:
    """The paper's claims, each held or not, with the numbers that say so."""
    table = Table(title="The paper's claims", box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.add_column("claim", max_width=44)
    table.add_column("held?")
    table.add_column("ours", max_width=46)
    table.add_column("paper", max_width=30)
    for claim in claims:
        verdict = Text("held", "bold green") if claim.held else Text("not held", "bold red")
        table.add_row(f"{claim.claim}\n[dim]{claim.rule}[/dim]", verdict, claim.ours, claim.paper)
        table.add_section()
    return table


def sweep_table(title: str, records: Sequence[Record], varied: Sequence[str]) -> Table:
    """A run of one's own: a row a setting, what varies first, then every metric as mean ± std."""
    metrics = list(dict.fromkeys(r.metric for r in records))
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for name in varied:
        table.add_column(name)
    for metric in metrics:
        table.add_column(metric.replace("_", " "), justify="right")
    rows: dict[str, list[Record]] = {}
    for record in records:
        rows.setdefault(repr([record.setting.get(v) for v in varied]), []).append(record)
    for cells in rows.values():
        found = {r.metric: r for r in cells}
        values = [_mean_std(found.get(m)) for m in metrics]
        table.add_row(*(str(cells[0].setting.get(v)) for v in varied), *values)
    return table


def _mean_std(record: Record | None) -> str:
    if record is None or record.value is None:
        return "-"
    text = _number(record.value, record.metric)
    return text if not record.std else f"{text} ± {record.std:.3f}"
