"""Tables of plain text, for the terminal or for a page."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich import box
from rich.table import Table
from scipy.special import stdtrit

from peerwise.study.results import Record


class Grid(NamedTuple):
    """A table of plain text; the first column names the row."""

    head: Sequence[str]  # lines of a head are parted by a line break, words by a hyphen before it
    rows: Sequence[Sequence[str]]
    title: str = ""

    @property
    def width(self) -> int:
        """Characters that a line of it takes in a terminal."""
        cells = zip(*(self.head, *self.rows), strict=True)
        return sum(3 + max(len(t) for c in column for t in c.split("\n")) for column in cells)

    def fitted(self, width: int) -> "list[Grid]":
        """The table in pieces of at most this width; columns with one first line stay together."""
        groups: dict[str, list[int]] = {}
        for place, head in enumerate(self.head[1:], 1):
            groups.setdefault(head.partition("\n")[0] if "\n" in head else f"{place}", []).append(
                place
            )
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
        return Grid([self.head[i] for i in places], rows, self.title)

    def table(self) -> Table:
        """For the terminal."""
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


def half_width(record: Record) -> float | None:
    """Half the 95 % interval of a record's mean over replicas, as `metrics.confidence` has it."""
    if record.std is None or record.reps < 2:
        return None
    return float(stdtrit(record.reps - 1, 0.975) * record.std / np.sqrt(record.reps))
