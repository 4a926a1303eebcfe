"""Tables of plain text, for the terminal or for a page."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text
from scipy.special import stdtrit

from peerwise.study.results import Record


def empty_table(title: str = "", head: Sequence[str] = ()) -> Table:
    """A table for the terminal without rows; the first column names a row, others hold numbers."""
    table = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left")
    table.title_style, table.caption_justify = "bold", "left"
    for place, column in enumerate(head):
        table.add_column(column, justify="right" if place else "left", no_wrap=not place)
    return table


Cell = str | Text  # what is bold in a terminal is bold on a page
Shown = Table | Text
GAP = 2  # characters between columns


def _width(cells: Sequence[Cell]) -> int:
    return max(cell_len(line) for cell in cells for line in str(cell).split("\n"))


def within(
    head: Sequence[Cell],
    rows: Sequence[Sequence[Cell]],
    width: int,
    *,
    labels: int = 1,
    sections: Sequence[int] = (),
) -> list[Table]:
    """Tables of at most this width that share the columns out and all begin with the labels.

    The first `labels` columns name a row. They are folded where they leave no room for a number,
    and never cut. A line is drawn below the rows whose places are in `sections`.
    """
    widths = [_width(column) for column in zip(head, *rows, strict=True)]
    gaps = GAP * len(head) + 1
    # labels that are too long give way to numbers, but keep a good part of the line
    room = max(width - gaps - sum(widths[labels:]), int(0.4 * width) - GAP * labels)
    widths[:labels] = _shared(widths[:labels], room)
    start = 1 + sum(w + GAP for w in widths[:labels])
    pieces: list[list[int]] = [[]]
    used = start
    for place in range(labels, len(head)):
        if used + widths[place] + GAP > width and pieces[-1]:
            pieces.append([])
            used = start
        pieces[-1].append(place)
        used += widths[place] + GAP
    return [_piece(head, rows, widths, labels, places, sections) for places in pieces]


def titled(title: str, tables: Sequence[Table], caption: str = "") -> list[Shown]:
    """The tables under a title and above a caption, which may be wider than a table is."""
    below = [Text(caption + "\n", "dim italic")] if caption else []
    return [Text(title, "bold"), *tables, *below]


def _shared(widths: Sequence[int], room: int) -> list[int]:
    """The widths, the largest cut until all of them fit into the room."""
    held = list(widths)
    while sum(held) > room and max(held) > 6:
        held[held.index(max(held))] -= 1
    return held


def _piece(
    head: Sequence[Cell],
    rows: Sequence[Sequence[Cell]],
    widths: Sequence[int],
    labels: int,
    places: Sequence[int],
    sections: Sequence[int],
) -> Table:
    table = empty_table()
    table.padding = (0, GAP - 1, 0, 0)
    places = [*range(labels), *places]
    for place in places:
        justify: Any = "left" if place < labels else "right"
        title = head[place] if isinstance(head[place], Text) else Text(str(head[place]))
        # Folded, not cut: a name must be whole, even over several lines
        table.add_column(
            title, justify=justify, overflow="fold", min_width=widths[place],
            max_width=widths[place] if place < labels else None,
        )  # fmt: skip
    for number, row in enumerate(rows):
        cells = (row[p] if isinstance(row[p], Text) else Text(str(row[p])) for p in places)
        table.add_row(*cells, end_section=number in sections)
    return table


class Grid(NamedTuple):
    """A table of text; the first column names the row."""

    head: Sequence[str]  # lines of a head are parted by a line break, words by a hyphen before it
    rows: Sequence[Sequence[Cell]]

    @property
    def width(self) -> int:
        """Characters that a line of it takes in a terminal."""
        cells = zip(*(self.head, *self.rows), strict=True)
        return sum(3 + max(len(t) for c in column for t in str(c).split("\n")) for column in cells)

    def fitted(self, width: int) -> "list[Grid]":
        """The table in pieces of at most this width; columns with one first line stay together."""
        groups: dict[str, list[int]] = {}
        for place, head in enumerate(self.head[1:], 1):
            first = head.partition("\n")[0] if "\n" in head else f"{place}"
            groups.setdefault(first, []).append(place)
        pieces: list[Grid] = []
        taken = [0]
        for group in groups.values():
            wider = self._columns([*taken, *group])
            if wider.width > width and len(taken) > 1:
                pieces.append(self._columns(taken))
                taken = [0]
            taken += group
        return [*pieces, self._columns(taken)]

    def _columns(self, places: Sequence[int]) -> "Grid":
        rows = [[row[i] for i in places] for row in self.rows]
        return Grid([self.head[i] for i in places], rows)

    def table(self) -> Table:
        """For the terminal."""
        table = empty_table(head=self.head)
        for row in self.rows:
            table.add_row(*row)
        return table

    def lines(self) -> list[str]:
        """As lines of Markdown."""
        head = [column.replace("-\n", "").replace("\n", " ") for column in self.head]
        rule = "|---|" + "---:|" * (len(head) - 1)
        first, *rest = (
            "| " + " | ".join(map(_page_text, row)) + " |" for row in (head, *self.rows)
        )
        return [first, rule, *rest, ""]


def _page_text(cell: Cell) -> str:
    text = str(cell)
    strong = isinstance(cell, Text) and "bold" in str(cell.style)
    if not strong:
        return text
    first, gap, rest = text.partition(" ") if "→" not in text else (text, "", "")
    return f"**{first}**{gap}{rest}"


def mean_text(record: Record | None, digits: str = ".3f", least: int = 2) -> str:
    """A mean ± half its 95 % interval over `least` replicas or more; 0: without interval."""
    if record is None or record.value is None:
        return ""
    text = f"{record.value:{digits}}"
    text = text if float(text) else text.removeprefix("-")  # 1 - 1 of many rows may be below 0
    half = half_width(record) if least and record.reps >= least else None
    return text if half is None else f"{text} ±{half:{digits}}"


def half_width(record: Record) -> float | None:
    """Half the 95 % interval of a record's mean over replicas, as `metrics.confidence` has it."""
    if record.std is None or record.reps < 2:
        return None
    return float(stdtrit(record.reps - 1, 0.975) * record.std / np.sqrt(record.reps))
