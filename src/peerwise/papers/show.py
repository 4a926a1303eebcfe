"""Show a reproduction: each item as a table beside the paper's, the claims, the figures."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console

from peerwise.papers.items import Item, Paper, TaskPaper
from peerwise.papers.kept import arrays_of, paper_of
from peerwise.papers.reproduce import PAPERS
from peerwise.report import figures, tables
from peerwise.study.results import Record, read_folder

FEW = 4  # so many missing runs are named


def heading(name: str, title: str) -> str:
    """What stands above an item: `table-4` is Table 4."""
    return f"{name.replace('-', ' ').capitalize()}. {title}"


def show(folder: Path, console: Console) -> list[Path]:
    """Print everything that a run folder holds and draw its figures; returns their paths."""
    records, claims, history = read_folder(folder)
    paper = PAPERS[(records[0].paper or "") if records else paper_of(folder)]
    if isinstance(paper, TaskPaper):
        drawn = _show_tasks(paper, folder, records, console)
    else:
        drawn = [
            path
            for name in dict.fromkeys(r.item for r in records)
            for path in _show_item(paper, name, folder, records, console)
        ]
    if history is not None:
        picture = figures.curves(history, "Test error against rounds")
        drawn.append(figures.save(picture, folder / "curves.png"))
    if claims:
        console.print(tables.claims_table(claims))
    return drawn


def _show_tasks(
    paper: TaskPaper, folder: Path, records: Sequence[Record], console: Console
) -> list[Path]:
    """Print each item as tables, with a note of what was not run, and draw its figure."""
    drawn = []
    held = arrays_of(folder, paper)
    for name, arrays in held.arrays.items():
        item, of_item = paper.items[name], [r for r in records if r.item == name]
        console.print(f"\n[bold]{heading(name, item.title)}[/]: {item.about}", highlight=False)
        for grid in paper.tables(name, of_item):
            for piece in grid.fitted(console.width):
                console.print(piece.table())
        for note in (item.legend, _missing(held.missing[name], len(arrays))):
            if note:
                console.print(note, style="dim", highlight=False)
        figure = paper.figure(name, arrays, of_item)
        if figure is not None:
            drawn.append(figures.save(figure, folder / f"{name}.png"))
    return drawn


def _missing(names: Sequence[str], done: int) -> str:
    if not names:
        return ""
    named = f" ({', '.join(names)})" if len(names) <= FEW else ""
    many = f"{len(names)} of {len(names) + done}"
    return f"{many} runs are missing{named}: the same command goes on where it stopped"


class _View(NamedTuple):
    """An item of columns, with all that its layout may show."""

    paper: Paper
    name: str
    records: list[Record]
    notes: dict[str, str]  # data set -> what is to be said of it
    folder: Path
    console: Console

    @property
    def item(self) -> Item:
        return self.paper.items[self.name]


def _show_item(
    paper: Paper, name: str, folder: Path, records: Sequence[Record], console: Console
) -> list[Path]:
    of_item = [r for r in records if r.item == name]
    shown = {r.dataset for r in of_item}
    notes = {d.name: d.note for d in paper.datasets(None, False) if d.note and d.name in shown}
    view = _View(paper, name, of_item, notes, folder, console)
    return LAYOUTS[view.item.layout](view)


def _beside(view: _View) -> list[Path]:
    """Numbers beside the paper's; gaps as a map, too."""
    item, title = view.item, heading(view.name, view.item.title)
    present = {r.dataset for r in view.records if r.value is not None}
    names = dict.fromkeys(r.dataset for r in view.records)
    for table in tables.item_tables(
        f"{title}: {item.about}",
        view.records,
        item.heads,
        width=view.console.width,
        counts=view.paper.counts.get(view.name),
        absent=[n for n in names if n not in present],
        notes=view.notes,
    ):
        view.console.print(table)
    gaps = {c.name: c.title for c in item.columns if c.metric == "test_gap"}
    if not gaps or not present:
        return []
    of_gaps = [r for r in view.records if r.setting.get("column") in gaps]
    picture = figures.gap_map(of_gaps, gaps, f"{title}: test gap to RC")
    return [figures.save(picture, view.folder / f"{view.name}.png")]


def _before_after(view: _View) -> list[Path]:
    """Models before and after calibration."""
    about = (view.item.about, *view.item.notes)
    for table in tables.before_tables(about, view.records, view.notes):
        view.console.print(table)
    return []


def _reach(view: _View) -> list[Path]:
    """The share of nodes within a distance, a line a size of tree."""
    shares: dict[int, list[float]] = {}
    for record in view.records:
        shares.setdefault(int(record.setting["nodes"]), []).append(record.value or 0.0)
    picture = figures.reach_curves({n: np.array(share) for n, share in shares.items()})
    return [figures.save(picture, view.folder / f"{view.name}.png")]


# How an item of columns can be shown.
LAYOUTS: dict[str, Callable[[_View], list[Path]]] = {
    "beside": _beside,
    "before_after": _before_after,
    "reach": _reach,
}
