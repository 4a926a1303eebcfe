"""Tables of the CVaR-CTA experiments; drawing is in `cvar_figures`.

The paper prints no numbers, so that there is no column of its own: its claims are what is compared.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console

from peerwise.papers.cvar_cta.items import PAPER
from peerwise.study.results import Record
from peerwise.papers.cvar_cta.figures import DRAW, GRAPHS, NAMES, SETS
from peerwise.papers.task_items import Grid, half_width, heading, show_items

__all__ = ["markdown", "show"]

FEW = 3  # runs: of two, an interval says nothing
COLUMNS = {
    "accuracy": "accuracy",
    "worst_node": "worst\nnode",
    "worst_class": "worst\nclass",
    "other_stage": "other\nstage",
    "consensus": "spread",
}
LEGEND = {
    **dict.fromkeys(
        ("figure-2a", "figure-2b", "figure-2c", "figure-2d", "alpha", "order"),
        "accuracy: mean of all nodes after the last local steps, ± 95 % interval over three runs "
        "or more; other stage: after combining and before training (for ATC the other way round); "
        "spread: distance of the models from their mean / its norm; steps η = .001 unless said, "
        "ten times as long in a quick run",
    ),
    "rare": "accuracy of the 19 other nodes on the digit 0, and on all digits",
    "loss": "CRC: error above that of RC on letter (quick: digits); DecDiff+VT: accuracy on MNIST",
}


def _value(record: Record | None, interval: bool = False) -> str:
    if record is None or record.value is None:
        return ""
    if record.metric == "consensus":
        return f"{record.value:.2g}"
    text = f"{round(record.value, 3) + 0.0:.3f}"  # 1 - 1 of many rows may be just below 0
    half = half_width(record) if interval and record.reps >= FEW else None
    return text if half is None else f"{text} ±{half:.3f}"


def _networks(records: Sequence[Record]) -> list[Grid]:
    """A table for each data set, graph and arrival probability."""
    places: dict[tuple[str, str, float], dict[str, dict[str, Record]]] = {}
    for r in records:
        place = r.dataset, r.setting["graph"], r.setting["q"]
        places.setdefault(place, {}).setdefault(r.setting["variant"], {})[r.metric] = r
    grids = []
    for (dataset, graph, q), variants in places.items():
        head = [f"{SETS[dataset]}, {GRAPHS[graph]}, q = {q:g}", *COLUMNS.values()]
        rows = [
            [NAMES[v], *(_value(found.get(m), m == "accuracy") for m in COLUMNS)]
            for v, found in variants.items()
        ]
        grids.append(Grid("", head, rows))
    return grids


def _rare(records: Sequence[Record]) -> Grid:
    found = {(r.setting["variant"], r.setting["graph"], r.metric): r for r in records}
    variants, graphs = (dict.fromkeys(key[i] for key in found) for i in (0, 1))
    head = ["method"]
    for graph in graphs:
        head += [f"{GRAPHS[graph]}\nits class", f"{GRAPHS[graph]}\nall"]
    places = [(g, m) for g in graphs for m in ("rare_class", "accuracy")]
    rows = [[NAMES[v], *(_value(found.get((v, *p)), True) for p in places)] for v in variants]
    return Grid("", head, rows)


def _losses(records: Sequence[Record]) -> Grid:
    found = {(r.setting["graph"], r.setting["variant"], r.setting["q"]): r for r in records}
    columns = list(dict.fromkeys(key[:2] for key in found))
    head = ["lost", *(f"{GRAPHS[graph]}\n{NAMES[v]}" for graph, v in columns)]
    lost = sorted({key[2] for key in found}, reverse=True)
    rows = [[f"{1 - q:.0%}", *(_value(found.get((*c, q)), True) for c in columns)] for q in lost]
    return Grid("", head, rows)


def _grids(item: str, records: Sequence[Record]) -> list[Grid]:
    if not records:
        return []
    if item == "rare":
        return [_rare(records)]
    return [_losses(records)] if item == "loss" else _networks(records)


def _draw(item: str, tasks: Any, records: Sequence[Record]) -> Figure | None:
    return DRAW[item](tasks) if tasks else None


def show(folder: Path, records: Sequence[Record], console: Console) -> list[Path]:
    """Print each item as tables, with a note of what was not run, and draw its figure."""
    return show_items(PAPER, folder, records, console, _grids, LEGEND.__getitem__, _draw)


def markdown(item: str, records: Sequence[Record]) -> list[str]:
    """An item as lines of Markdown."""
    lines = [f"## {heading(PAPER, item)}", "", f"{PAPER.items[item].about}.", ""]
    lines += [f"{LEGEND[item]}.", ""]
    return lines + [line for grid in _grids(item, records) for line in grid.lines()]
