"""A reproduction as a Markdown page: for the docs, or to send to somebody."""

from collections.abc import Callable
from pathlib import Path

from peerwise.papers.items import Paper, TaskPaper
from peerwise.papers.kept import arrays_of
from peerwise.papers.reproduce import PAPERS
from peerwise.papers.show import heading
from peerwise.report import tables
from peerwise.study.results import Claim, Record, read_folder


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _beside(paper: Paper, name: str, records: list[Record]) -> list[str]:
    """Ours beside the paper's, and counts of small gaps."""
    heads = paper.items[name].heads
    by_cell = {(r.dataset, r.setting.get("column")): r for r in records}
    beside = tables.printed(records)
    present = list(dict.fromkeys(r.dataset for r in records if r.value is not None))
    lines = [_row(["data set", *heads.values()]), _row(["---", *("---:" for _ in heads)])]
    for row in present:
        lines.append(_row([row, *(tables.cell(by_cell[row, c], beside).plain for c in heads)]))
    for label, texts in tables.small_gaps(records, heads, paper.counts.get(name, {})).items():
        lines.append(_row([f"**{label}**" if label == tables.OURS else label, *texts]))
    return [*lines, ""]


def _before_after(paper: Paper, name: str, records: list[Record]) -> list[str]:
    """Models before and after calibration, a table a metric."""
    lines = []
    for metric, title in tables.BEFORE.items():
        columns, rows = tables.before_cells(records, metric)
        lines += [f"### {title}", "", _row(["data set", *columns])]
        lines.append(_row(["---"] * (len(columns) + 1)))
        for row, cells in rows.items():
            lines.append(_row([row, *(f"**{c.text}**" if c.best else c.text for c in cells)]))
        lines.append("")
    return lines


# How an item of columns is written; what is drawn only has no lines.
LINES: dict[str, Callable[[Paper, str, list[Record]], list[str]]] = {
    "beside": _beside,
    "before_after": _before_after,
}


def item_lines(paper: Paper | TaskPaper, name: str, records: list[Record]) -> list[str]:
    """An item as lines of Markdown."""
    item = paper.items[name]
    lines = [f"## {heading(name, item.title)}", "", f"{item.about}.", ""]
    if isinstance(paper, TaskPaper):
        legend = paper.items[name].legend
        lines += [f"{legend}.", ""] if legend else []
        return lines + [line for grid in paper.tables(name, records) for line in grid.lines()]
    known = paper.items[name]
    if not known.columns or known.layout not in LINES:
        return []
    lines += LINES[known.layout](paper, name, records)
    return lines + [line for note in known.notes for line in (note, "")]


def _not_run(folder: Path, paper: TaskPaper) -> list[str]:
    """Which items of a paper of tasks lack runs, and how many."""
    held = arrays_of(folder, paper)
    lines = [
        f"- {heading(name, paper.items[name].title)}: {len(lacking)} of "
        f"{len(lacking) + len(held.arrays[name])} runs"
        for name, lacking in held.missing.items()
        if lacking
    ]
    return ["## Not run", "", *lines, ""] if lines else []


def _claims(claims: list[Claim]) -> list[str]:
    quoted = any(c.paper for c in claims)
    head = ["claim", "held when", "ours", *(["paper"] if quoted else []), ""]
    lines = ["## Claims", "", _row(head), _row(["---"] * len(head))]
    for c in claims:
        verdict = "**held**" if c.held else "**not held**"
        lines.append(_row([c.claim, c.rule, c.ours, *([c.paper] if quoted else []), verdict]))
    return lines


def page(folder: Path) -> str:
    """Every table of a run folder, each cell ours and then the paper's; gaps, and the claims."""
    records, claims, _ = read_folder(folder)
    lines: list[str] = []
    papers = {name: PAPERS[name] for name in dict.fromkeys(r.paper or "" for r in records)}
    of_columns = [r for r in records if isinstance(papers[r.paper or ""], Paper)]
    if tables.printed(of_columns):
        lines = [
            "Each cell: ours, then the paper's; `·` = not printed, `-` = no number of ours.",
            "",
        ]
    for name, item in dict.fromkeys((r.paper or "", r.item) for r in records):
        lines += item_lines(papers[name], item, [r for r in records if r.item == item])
    for paper in papers.values():
        lines += _not_run(folder, paper) if isinstance(paper, TaskPaper) else []
    return "\n".join([*lines, *(_claims(claims) if claims else [])]) + "\n"
