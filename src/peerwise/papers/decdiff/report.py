"""Tables of the DecDiff experiments, ours beside the paper's; drawing is in `decdiff_figures`.

They are made of records, so that a folder whose cells are gone still shows its numbers.
"""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from peerwise.papers.decdiff.items import PAPER, SHARES, table_of
from peerwise.papers.decdiff.claims import PAPER_TABLES
from peerwise.study.results import Record
from peerwise.papers.decdiff.figures import DRAW, NAMES, SETS
from peerwise.report.figures import save
from peerwise.papers.task_items import Grid, arrays_of, half_width, heading

__all__ = ["markdown", "show"]

ACCURACIES = ("table-2", "table-3", "beta")
QUIET = ("centralised", "isolation")  # they aggregate nothing
DIGITS = {"accuracy": ".4f", "loss": ".3f", "gini": ".3f", "degree": ".3g"}
COST = 0.9  # the share at which table 4 also tells traffic
FEW = 4  # so many missing runs are named
PAGE = 1000  # characters: a page has room for every table

LEGEND = {
    **dict.fromkeys(
        ACCURACIES, "±: 95 % interval over replicas, none where one was run; blank: not run"
    ),
    "table-4": "ours: first recorded round; (k/n): k of n replicas reach it, the mean is theirs; "
    "-: none does; blank: not run",
}


def _interval(record: Record | None) -> str:
    """Mean ± 95 % interval over replicas, as `metrics.confidence` of their values has it."""
    if record is None or record.value is None:
        return ""
    text = f"{record.value:.4f}"
    half = half_width(record)
    return text if half is None else f"{text} ±{half:.4f}"


def _printed(item: str, dataset: str, variant: str, share: float | None = None) -> str:
    value = PAPER_TABLES.get((item, dataset, variant, share))
    return "" if value is None else f"{value:.4f}" if share is None else f"{value:.2f}"


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
        row, column = (NAMES[variant], f"{name}\n{kind}") if variant else (name, str(kind))
        columns[column] = None
        value = "" if r.value is None else f"{r.value:{DIGITS[r.metric]}}"
        rows.setdefault(row, {})[column] = value
    laid = [[row, *(cells.get(c, "") for c in columns)] for row, cells in rows.items()]
    return Grid("", [records[0].metric, *columns], laid)


def _grids(item: str, records: Sequence[Record], sets: Sequence[str], width: int) -> list[Grid]:
    """The tables of an item; one that is too wide in one for each data set."""
    if item == "table-4":
        return [_times(records, name) for name in sets]
    if item not in ACCURACIES:
        return [_numbers(records)] if records else []
    whole = _accuracies(item, records, sets)
    if whole.width <= width:
        return [whole]
    return [_accuracies(item, records, [name]) for name in sets]


def _missing(names: Sequence[str], of: int) -> str:
    if not names:
        return ""
    told = [
        f"{SETS.get(s, s)} {NAMES.get(v, v)}".strip()
        for s, _, v in (n.partition(" ") for n in names)
    ]
    few = f" ({', '.join(told)})" if len(told) <= FEW else ""
    return f"{len(names)} of {of} runs are missing{few}: the same command goes on where it stopped"


def show(folder: Path, records: Sequence[Record], console: Console) -> list[Path]:
    """Print each item as tables, with a note of what was not run, and draw its figure."""
    drawn = []
    held = arrays_of(folder, PAPER)
    for item, tasks in held.arrays.items():
        mine = [r for r in records if r.item == item]
        missing = held.missing[item]
        title = f"\n[bold]{heading(PAPER, item)}[/]: {PAPER.items[item].about}"
        console.print(title, highlight=False)
        for grid in _grids(item, mine, held.sets, console.width):
            console.print(grid.table())
        for note in (LEGEND.get(item), _missing(missing, len(missing) + len(tasks))):
            if note:
                console.print(note, style="dim", highlight=False)
        if item in DRAW and tasks:
            drawn.append(save(DRAW[item](tasks), folder / f"{item}.png"))
    return drawn


def markdown(item: str, records: Sequence[Record]) -> list[str]:
    """An item as lines of Markdown, of the data sets that were run."""
    sets = [name for name in SETS if any(r.dataset == name for r in records)]
    lines = [f"## {heading(PAPER, item)}", "", f"{PAPER.items[item].about}.", ""]
    if item in LEGEND:
        lines += [f"{LEGEND[item]}.", ""]
    return lines + [line for grid in _grids(item, records, sets, PAGE) for line in grid.lines()]
