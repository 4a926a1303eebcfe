"""Show a run of a user's own description."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console

from peerwise.report import curves, look, tables
from peerwise.study.results import read_folder, read_notes


def show(
    folder: Path,
    console: Console,
    *,
    formats: Sequence[str] = (),
    style: str | None = None,
    facet: str | None = None,
    nodes: str | None = None,
) -> list[Path]:
    """Print the table of a run folder and draw its figures; returns the figures' paths.

    `nodes` is a metric that is shown for every node, too.
    """
    records, _, history = read_folder(folder)
    for table in tables.sweep_tables(folder.name, records, console.width):
        console.print(table)
    for note in read_notes(folder):
        console.print(note, style="yellow" if note.startswith("Warning") else "dim", markup=False)
    if history is None:
        return []
    if nodes is not None:
        for table in tables.node_tables(history, nodes, console.width):
            console.print(table)
    factors, drawn = curves.factors_of(history), dict[str, Figure]()
    clocked = "seconds" in history and history["round"].nunique() > 1
    for name, across in [("curves", "round"), *([("seconds", "seconds")] if clocked else [])]:
        pictures = curves.pages(history, "", factors, facet=facet, style=style, across=across)
        names = [name, *(f"{name}-{n}" for n in range(2, len(pictures) + 1))]
        drawn |= dict(zip(names, pictures, strict=True))
        for stale in folder.glob(f"{name}-[0-9]*.*"):  # of a run that needed more of them
            if stale.stem not in names:
                stale.unlink()
    return [look.save(figure, folder / f"{name}.png", formats) for name, figure in drawn.items()]
