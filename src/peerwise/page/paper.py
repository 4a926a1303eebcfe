"""The items of a reproduction as a page shows them: the same tables as in the terminal."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from peerwise.papers.show import items_of
from peerwise.report.grid import Grid
from peerwise.study.results import Record


def items(folder: Path, records: Sequence[Record]) -> list[dict[str, Any]]:
    """Every item with its tables as texts."""
    shown = []
    for _, item in items_of(folder, records):
        shown.append(
            {
                "heading": item.heading,
                "about": item.about,
                "notes": item.notes,
                "missing": item.missing,
                "tables": [_grid(grid) for grid in item.grids],
            }
        )
    return shown


def _plain(cell: Any) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def _grid(grid: Grid) -> dict[str, Any]:
    return {
        "head": [_plain(c).replace("-\n", "").replace("\n", " ") for c in grid.head],
        "rows": [[_plain(c) for c in row] for row in grid.rows],
    }
