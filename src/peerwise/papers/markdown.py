"""A reproduction as a Markdown page: for the docs, or to send to somebody."""

from pathlib import Path

from peerwise.papers.items import Paper, TaskPaper
from peerwise.papers.reproduce import PAPERS
from peerwise.study.results import Record, read_folder
from peerwise.report import tables
from peerwise.papers.show import OF_TASKS
from peerwise.papers.task_items import arrays_of, heading

__all__ = ["page"]


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _table(item: str, paper: Paper, records: list[Record]) -> list[str]:
    columns = paper.items[item].columns
    by_cell = {(r.dataset, r.setting.get("column")): r for r in records}
    beside = tables.printed(records)
    present = list(dict.fromkeys(r.dataset for r in records if r.value is not None))
    lines = [
        _row(["data set", *(c.title for c in columns)]),
        _row(["---", *("---:" for _ in columns)]),
    ]
    for name in present:
        found = [by_cell[name, c.name] for c in columns]
        lines.append(_row([name, *(tables.plain_cell(r, beside) for r in found)]))
    counted = tables.counted(records, [c.name for c in columns])
    if any(counted.values()):
        lines.append(_row(["**<.01 (<.05), ours**", *(tables.ours(r) for r in counted.values())]))
        lines.append(_row(["of so many sets", *(str(len(r) or "") for r in counted.values())]))
        if beside:
            lines.append(_row(["paper, same sets", *(tables.theirs(r) for r in counted.values())]))
        said = paper.counts.get(item, {})
        cells = ["{} ({})".format(*said[c]) if c in said else "" for c in counted]
        if any(cells):
            lines.append(_row(["paper's text, of 16", *cells]))
    return lines


def _before(records: list[Record]) -> list[str]:
    lines = []
    for metric, title in tables.BEFORE.items():
        columns, rows = tables.before_cells(records, metric)
        lines += [
            f"### {title}",
            "",
            _row(["data set", *columns]),
            _row(["---"] * (len(columns) + 1)),
        ]
        for name, cells in rows.items():
            lines.append(_row([name, *(f"**{c.text}**" if c.best else c.text for c in cells)]))
        lines.append("")
    return lines


def _not_run(folder: Path, records: list[Record]) -> list[str]:
    """Which items of a paper of tasks lack runs, and how many."""
    paper = PAPERS.get((records[0].paper or "") if records else "")
    if not isinstance(paper, TaskPaper):
        return []
    found = arrays_of(folder, paper)
    lines = [
        f"- {heading(paper, item)}: {len(names)} of {len(names) + len(found.arrays[item])} runs"
        for item, names in found.missing.items()
        if names
    ]
    return ["## Not run", "", *lines, ""] if lines else []


def page(folder: Path) -> str:
    """Every table of a run folder, each cell ours and then the paper's; gaps, and the claims."""
    records, claims, _ = read_folder(folder)
    lines = []
    if tables.printed([r for r in records if r.paper not in OF_TASKS]):
        lines += [
            "Each cell: ours, then the paper's; `·` = not printed, `-` = no number of ours.",
            "",
        ]
    for name, item in dict.fromkeys((r.paper, r.item) for r in records):
        mine = [r for r in records if r.item == item]
        if name in OF_TASKS:
            lines += OF_TASKS[name].markdown(item, mine)
            continue
        paper = PAPERS[name or ""]
        assert isinstance(paper, Paper)
        found = paper.items[item]
        if not found.columns:
            continue
        number = item.partition("-")[2]
        title = f"Table {number}. {found.title}" if number else found.title
        lines += [f"## {title}", "", f"{found.about}.", ""]
        if found.layout == "before":
            lines += _before(mine)
        else:
            lines += [*_table(item, paper, mine), ""]
        lines += [line for note in found.notes for line in (note, "")]
    lines += _not_run(folder, records)
    if claims:
        quoted = any(c.paper for c in claims)
        head = ["claim", "held when", "ours", *(["paper"] if quoted else []), ""]
        lines += ["## Claims", "", _row(head), _row(["---"] * len(head))]
        for c in claims:
            verdict = "**held**" if c.held else "**not held**"
            lines.append(_row([c.claim, c.rule, c.ours, *([c.paper] if quoted else []), verdict]))
    return "\n".join(lines) + "\n"
