"""Tables for the terminal: claims, and runs of one's own."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from peerwise.report.grid import empty_table
from peerwise.study.results import Claim, Record

CELL_WIDTH = 13  # characters of a column
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


def sweep_table(
    title: str, records: Sequence[Record], varied: Sequence[str], width: int = 120
) -> Table:
    """A run of one's own: a row a setting, what varies first, then metrics as mean ± std.

    Soft errors and the gap on training rows are left to results.json, and so is what the width
    has no room for: a table is to be looked at.
    """
    measured = dict.fromkeys(r.metric for r in records)
    first = [m for m in ("test_error", "test_gap", "node_std", "test_log_loss") if m in measured]
    hidden = ("train_gap", "train_soft_error", "test_soft_error", "train_log_loss", *first)
    metrics = [*first, *(m for m in measured if m not in hidden)]
    room = width - sum(max(len(v), *(len(str(r.setting.get(v))) for r in records)) for v in varied)
    metrics = metrics[: max((room - 3 * len(varied)) // (CELL_WIDTH + 2), 2)]
    table = empty_table(title)
    for name in varied:
        table.add_column(name, no_wrap=True)
    for metric in metrics:
        header = metric.replace("_", "\n", 1).replace("_", " ")
        table.add_column(header, justify="right", no_wrap=True)
    rows: dict[str, list[Record]] = {}
    for record in records:
        rows.setdefault(repr([record.setting.get(v) for v in varied]), []).append(record)
    for cells in rows.values():
        by_metric = {r.metric: r for r in cells}
        values = [_mean_std(by_metric.get(m)) for m in metrics]
        table.add_row(*(str(cells[0].setting.get(v)) for v in varied), *values)
    return table


def _mean_std(record: Record | None) -> str:
    if record is None or record.value is None:
        return "-"
    text = _number(record.value, record.metric)
    return text if not record.std else f"{text} ±{record.std:.3f}".replace("±0.", "±.")
