"""What reports of papers made of tasks share: what a run folder kept, and items as tables."""

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Table
from scipy.special import stdtrit

from peerwise.errors import BadFile
from peerwise.papers.items import TaskPaper
from peerwise.papers.reproduce import tasks_of
from peerwise.study.results import Record
from peerwise.study.tasks import kept
from peerwise.report.figures import save

__all__ = ["Grid", "Kept", "arrays_of", "half_width", "heading", "paper_of", "show_items"]

Arrays = dict[str, np.ndarray]


class Kept(NamedTuple):
    """What the tasks of a run gave, by item and name, and which of them were not run."""

    arrays: dict[str, dict[str, Arrays]]
    missing: dict[str, list[str]]  # item -> names of tasks
    sets: list[str]  # data sets that the command was to run


class Grid(NamedTuple):
    """A table of plain text, for the terminal or for a page."""

    title: str
    head: Sequence[str]  # lines of a head are parted by a line break, words by a hyphen before it
    rows: Sequence[Sequence[str]]

    @property
    def width(self) -> int:
        """Characters that a line of it takes in a terminal."""
        cells = zip(*(self.head, *self.rows), strict=True)
        return sum(3 + max(len(t) for c in column for t in c.split("\n")) for column in cells)

    def table(self) -> Table:
        """For the terminal; the first column names the row."""
        table = Table(
            title=self.title or None, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold"
        )
        table.add_column(self.head[0], no_wrap=True)
        for column in self.head[1:]:
            table.add_column(column, justify="right")
        for row in self.rows:
            table.add_row(*row)
        return table

    def lines(self) -> list[str]:
        """As lines of Markdown, without the title."""
        head = [column.replace("-\n", "").replace("\n", " ") for column in self.head]
        rule = "|---|" + "---:|" * (len(head) - 1)
        first, *rest = ("| " + " | ".join(cells) + " |" for cells in (head, *self.rows))
        return [first, rule, *rest, ""]


def heading(paper: TaskPaper, item: str) -> str:
    """What stands above an item."""
    return f"{item.replace('-', ' ').capitalize()}. {paper.items[item].title}"


def half_width(record: Record) -> float | None:
    """Half the 95 % interval of a record's mean over replicas, as `metrics.confidence` has it."""
    if record.std is None or record.reps < 2:
        return None
    return float(stdtrit(record.reps - 1, 0.975) * record.std / np.sqrt(record.reps))


def show_items(
    paper: TaskPaper,
    folder: Path,
    records: Sequence[Record],
    console: Console,
    grids: Callable[[str, Sequence[Record]], Sequence[Grid]],
    legend: Callable[[str], str],
    draw: Callable[[str, dict[str, Arrays], Sequence[Record]], Figure | None],
) -> list[Path]:
    """Print each item as tables, with a note of what was not run, and draw its figure."""
    drawn = []
    held = arrays_of(folder, paper)
    for item, tasks in held.arrays.items():
        mine = [r for r in records if r.item == item]
        title = f"\n[bold]{heading(paper, item)}[/]: {paper.items[item].about}"
        console.print(title, highlight=False)
        for grid in grids(item, mine):
            console.print(grid.table())
        missing = len(held.missing[item])
        told = f"{missing} of {missing + len(tasks)} runs are missing: the same command goes on "
        for note in (legend(item), f"{told}where it stopped" if missing else ""):
            if note:
                console.print(note, style="dim", highlight=False)
        figure = draw(item, tasks, mine)
        if figure is not None:
            drawn.append(save(figure, folder / f"{item}.png"))
    return drawn


class _Config(NamedTuple):
    """What a reproduction was asked for."""

    paper: str
    items: list[str]
    sets: list[str]
    quick: bool
    trials: int | None


def _config(folder: Path) -> _Config:
    try:
        told: dict[str, Any] = tomllib.loads((folder / "config.toml").read_text())
        names = [str(name).partition("/") for name in told["items"]]
        items = [item for _, _, item in names]
        return _Config(names[0][0], items, told["datasets"], told["quick"], told.get("trials"))
    except (OSError, LookupError, tomllib.TOMLDecodeError) as error:
        raise BadFile(f"{folder / 'config.toml'} is damaged: {error}; run it again") from None


def paper_of(folder: Path) -> str:
    """Which paper a run reproduces; told even where no number came of it yet."""
    return _config(folder).paper


def arrays_of(folder: Path, paper: TaskPaper) -> Kept:
    """What was run of a reproduction; a task that several items show is read once."""
    asked = _config(folder)
    if unknown := [item for item in asked.items if item not in paper.items]:
        raise BadFile(f"{folder / 'config.toml'} names {unknown[0]}, which {paper.name} has not")
    wanted = tasks_of(paper, asked.items, asked.sets, asked.quick, asked.trials)
    every = {task.key: task for tasks in wanted.values() for task in tasks.values()}
    read = {key: kept(folder / "cells", task) for key, task in every.items()}
    done: dict[str, dict[str, Arrays]] = {item: {} for item in wanted}
    missing: dict[str, list[str]] = {item: [] for item in wanted}
    for item, tasks in wanted.items():
        for name, task in tasks.items():
            arrays = read[task.key]
            if arrays is None:
                missing[item].append(name)
            else:
                done[item][name] = arrays
    return Kept(done, missing, asked.sets)
