"""Show a run of one's own configuration."""

from pathlib import Path

from rich.console import Console

from peerwise.report import figures, tables
from peerwise.study.results import read_folder


def show(folder: Path, console: Console) -> list[Path]:
    """Print the table of a run folder and draw its curves; returns the figures' paths."""
    records, _, history = read_folder(folder)
    varied = [k for k in records[0].setting if k != "method"]
    methods = {r.setting["method"] for r in records}
    first = ["method"] if len(methods) > 1 or not varied else []
    title = f"{folder.name}: mean over nodes, mean ± std over {records[0].reps} repetitions"
    console.print(tables.sweep_table(title, records, [*first, *varied], console.width))
    if history is None or history.groupby("method")["round"].nunique().max() < 2:
        return []
    picture = figures.curves(history, folder.name, varied)
    return [figures.save(picture, folder / "curves.png")]
