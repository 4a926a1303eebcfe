"""How data are read: options of several commands, and what a run says about its columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from peerwise.cli.common import console, errors
from peerwise.errors import BadSetting, PeerwiseError

if TYPE_CHECKING:
    from peerwise.data import Reading
    from peerwise.learner import Cell

Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column", help="Read a column as NAME=number, NAME=category or NAME=drop; repeatable."
    ),
]
Target = Annotated[str | None, typer.Option(help="The column to predict, if the data are a file.")]
Typing = Annotated[
    str, typer.Option(help="How to find categories: distinct (few values) or manifest (declared).")
]
MissingWord = Annotated[
    list[str] | None, typer.Option(help="A word that means missing, such as NA; repeatable.")
]


def column_kinds(given: list[str] | None) -> dict[str, str]:
    """What single columns are, from NAME=KIND."""
    kinds = {}
    for text in given or ():
        name, sign, kind = text.rpartition("=")
        if not sign or not name:
            raise BadSetting(f"--column must be NAME=KIND, such as age=number, got '{text}'")
        kinds[name] = kind
    return kinds


def tell(cells: "Sequence[Cell]") -> dict[str, list[str]]:
    """Say on standard error how the data of a run are read; of several sets only what is odd.

    Returns all of it, by data set.
    """
    from peerwise.learner.world import described

    unique = {str(cell["data"]): cell for cell in cells}
    lines_by_text: dict[str, list[str]] = {}
    for cell in unique.values():
        try:
            lines = described(cell).lines()
        except PeerwiseError:
            if len(unique) == 1:
                raise
            continue  # the others can be run; this one fails there and says why
        odd = [line for line in lines[1:] if line.lstrip().startswith("warning")]
        shown = lines if len(unique) == 1 else [lines[0], *odd]
        learnt = _learnt_from(cell)
        lines_by_text[str(cell["data"]["source"])] = [*lines, *learnt]
        _tell([*shown, *learnt])
    return lines_by_text


def tell_reading(reading: "Reading") -> None:
    """Say on standard error how a table was read."""
    _tell(reading.lines())


def _tell(lines: "Sequence[str]") -> None:
    for line in lines:
        style = "yellow" if line.lstrip().startswith("warning") else "dim"
        errors.print(f"[{style}]{escape(line)}[/]", highlight=False)


def _learnt_from(cell: "Cell") -> list[str]:
    """Of a file whose categories are not public: that training rows decide, and what they lack."""
    import numpy as np

    from peerwise.learner.world import drawn, is_public, raw_rows

    if is_public(cell, raw_rows(cell).table):
        return []
    try:
        world = drawn(cell, 0)
    except PeerwiseError:  # the run itself says what is wrong
        return []
    lines = ["  kinds, categories and classes are those of each repetition's training rows"]
    if world.unseen:
        cells = sum(u.cells for u in world.unseen)
        names = ", ".join(u.column for u in world.unseen[:3])
        lines.append(f"  {cells} cells hold categories that no training row has ({names})")
    strange = int(np.sum(np.asarray(world.y_test) == len(world.schema.classes)))
    if strange:
        lines.append(
            f"  {strange} test rows have a class that no training row has: they count as errors"
        )
    return lines


def show_reading(reading: "Reading") -> None:
    """Every column of a table: how it was read, and what looks wrong."""
    console.print(escape(reading.lines()[0]), highlight=False)
    table = Table(title=f"{len(reading.columns)} columns", title_justify="left")
    for name in ("column", "read as", "values", "missing", "what"):
        table.add_column(name, justify="right" if name in ("values", "missing") else "left")
    for c in reading.columns:
        missing = f"{c.missing:.1%}" if c.missing else ""
        style = "dim" if c.kind == "left out" else None
        values = str(c.values or "")
        table.add_row(escape(c.name), c.kind, values, missing, escape(c.about), style=style)
    console.print(table)
    for text in reading.warnings:
        console.print(f"[yellow]warning[/]: {escape(text)}", highlight=False)
