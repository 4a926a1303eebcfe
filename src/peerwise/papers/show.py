"""Show a reproduction: each item as tables beside the paper's, the claims, the figures.

The same parts go to the terminal and, as Markdown, to a page for the docs or to send to somebody.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from peerwise.papers.items import Done, Paper, as_run_on
from peerwise.papers.kept import arrays_of, paper_of
from peerwise.papers.layout import printed
from peerwise.papers.reproduce import PAPERS
from peerwise.report import figures, tables
from peerwise.report.grid import Grid
from peerwise.study.results import Claim, Record, read_folder
from peerwise.study.store import Store

FEW = 4  # so many missing runs are named
BESIDE = "ours, then the paper's; · = not printed, - = no number of ours"


class Shown(NamedTuple):
    """An item as it is shown."""

    name: str
    heading: str
    about: str
    grids: list[Grid]
    notes: list[str]
    missing: str
    records: list[Record]
    done: Done


def heading(name: str, title: str) -> str:
    """What stands above an item: `table-4` is Table 4."""
    return f"{name.replace('-', ' ').capitalize()}. {title}"


def shown(paper: Paper, name: str, records: Sequence[Record], done: Done | None = None,
          missing: Sequence[str] = (), quick: bool = False) -> Shown:  # fmt: skip
    """An item with its tables and what is to be said below them."""
    item = paper.items[name]
    notes = [item.legend] if item.legend else []
    notes += [item.quick_note] if quick and item.quick_note else []
    if item.columns or any(table.inside for table in item.tables):
        notes += [BESIDE] if printed(records) else []
        sets = dict.fromkeys(r.dataset for r in records)
        present = {r.dataset for r in records if r.value is not None}
        absent = [s for s in sets if s not in present]
        notes += [f"no numbers of ours: {', '.join(absent)}"] if absent else []
        named: dict[str, list[str]] = {}
        for d in paper.datasets(None, False):
            if d.note and d.name in present:
                named.setdefault(d.note, []).append(d.name)
        notes += [f"{', '.join(names)}: {note}" for note, names in named.items()]
    grids = paper.tables(name, records)
    lacking = _missing(missing, len(done or {}))
    above = heading(name, item.title)
    return Shown(name, above, item.about, grids, notes, lacking, list(records), done or {})


def _missing(names: Sequence[str], done: int) -> str:
    if not names:
        return ""
    named = f" ({', '.join(names)})" if len(names) <= FEW else ""
    return f"{len(names)} of {len(names) + done} runs are missing{named}"


def items_of(folder: Path, records: Sequence[Record]) -> Iterator[tuple[Paper, Shown]]:
    """Every item that a folder was run for."""
    paper = PAPERS[(records[0].paper or "") if records else paper_of(folder)]
    with as_run_on(Store(folder).asked().get("at_hand")):
        kept = arrays_of(folder, paper)
        items = [
            shown(paper, name, [r for r in records if r.item == name], done, kept.missing[name],
                  kept.quick)
            for name, done in kept.arrays.items()
        ]  # fmt: skip
    yield from ((paper, item) for item in items)


def show(folder: Path, console: Console) -> list[Path]:
    """Print everything that a run folder holds and draw its figures; returns their paths."""
    records, claims, history = read_folder(folder)
    drawn = []
    for paper, item in items_of(folder, records):
        console.print(f"\n[bold]{item.heading}[/]: {item.about}", highlight=False)
        for grid in item.grids:
            for piece in grid.fitted(console.width):
                console.print(piece.table())
        lacking = f"{item.missing}: run the same command to resume"
        for note in [*item.notes, *([lacking] if item.missing else [])]:
            console.print(note, style="dim", highlight=False)
        figure = paper.figure(item.name, item.done, item.records)
        if figure is not None:
            drawn.append(figures.save(figure, folder / f"{item.name}.png"))
    if history is not None:
        picture = figures.curves(history, "Test error against rounds")
        drawn.append(figures.save(picture, folder / "curves.png"))
    if claims:
        console.print(tables.claims_table(claims))
    return drawn


def item_lines(item: Shown) -> list[str]:
    """An item as lines of Markdown."""
    lines = [f"## {item.heading}", "", f"{item.about}.", ""]
    lines += [line for note in item.notes for line in (f"{note.removesuffix('.')}.", "")]
    return lines + [line for grid in item.grids for line in grid.lines()]


def _claim_lines(claims: Sequence[Claim]) -> list[str]:
    quoted = any(c.paper for c in claims)
    head = ["claim", "held when", "ours", *(["paper"] if quoted else []), "verdict"]
    rows = []
    for c in claims:
        verdict = f"**{c.verdict}**" + (f": {c.reason}" if c.reason else "")
        rows.append([c.claim, c.rule, c.ours, *([c.paper] if quoted else []), verdict])
    lines = Grid(head, rows).lines()
    return ["## Claims", "", lines[0], lines[1].replace("---:", "---"), *lines[2:-1]]


def page(folder: Path) -> str:
    """Every table of a run folder and the claims, as Markdown."""
    records, claims, _ = read_folder(folder)
    items = [item for _, item in items_of(folder, records)]
    lines = [line for item in items if item.grids for line in item_lines(item)]
    open_ = [f"- {i.heading}: {i.missing.partition(' are')[0]}" for i in items if i.missing]
    lines += ["## Not run", "", *open_, ""] if open_ else []
    return "\n".join([*lines, *(_claim_lines(claims) if claims else [])]) + "\n"
