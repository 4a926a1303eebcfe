"""Tables and figures of the relay experiments."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from peerwise.papers.crc.printed import COUNTS
from peerwise.papers.items import CLOSE
from peerwise.papers.relay.items import CLIPS, DEALT, EARLY, GRAPHS, LATE, METHODS, PAPER, gap_at
from peerwise.study.results import Record
from peerwise.report.axes import legend_below
from peerwise.report.figures import panels
from peerwise.papers.task_items import Grid, heading, show_items

__all__ = ["markdown", "show"]

NEAR = 0.05  # the paper's second count
NETWORKS = {"tree": "tree", "chain": "chain", "plus": "tree + 10 links"}
NAMES = {
    "crc": "CRC",
    "metropolis": "CRC, Metropolis weights",
    "tracking": "gradient tracking",
    "relay": "relay",
}
COLOURS = {"crc": "#e69f00", "metropolis": "#0072b2", "tracking": "#8e44ad", "relay": "#c8102e"}
# Where the CRC paper counts sets below .01 and below .05: table, column and way of dealing.
PRINTED = {("tree", "iid"): ("table-4", "tree"), ("plus", "iid"): ("table-4", "+10")}
GAP = (
    "test error less RC's (uniform start, lr .05, 64 rounds, the same rows); mean over nodes and "
    "repetitions; below 0: better than RC of 64 rounds"
)
LEGEND = {
    "gaps": f"CRC → relay; {GAP}. Counts: sets with a gap below .01 (below .05)",
    "rounds": GAP,
    "lossy": f"CRC → relay; {GAP}",
    "churn": f"CRC → relay; {GAP}; nodes that are down are measured too",
    "nodes-320": f"CRC → relay; {GAP}. Paper: CRC at its best round, table 9",
    "liar": f"{GAP}; the liar's own model is left out; relay without a warm start",
}


def _text(record: Record | None) -> str:
    if record is None or record.value is None:
        return "-"
    return _number(record.value)


def _number(value: float) -> str:
    return f"{round(value, 3) + 0.0:.3f}".replace("0.", ".", 1)


def _by(records: Sequence[Record]) -> dict[tuple[Any, ...], Record]:
    keys = ("graph", "dealt", "rounds", "method")
    return {(r.dataset, *(r.setting[k] for k in keys)): r for r in records}


def _tables(records: Sequence[Record], paper: bool = False) -> list[Grid]:
    """For each network and number of rounds: sets by way of dealing, CRC beside relay."""
    found = _by(records)
    sets, ways = (list(dict.fromkeys(k[i] for k in found)) for i in (0, 2))
    grids = []
    for graph in dict.fromkeys(k[1] for k in found):
        for rounds in (EARLY, LATE):
            head = [f"{NETWORKS[graph]}, {rounds} rounds", *ways, *(["paper"] if paper else [])]
            rows = []
            for name in sets:
                pairs = [[found.get((name, graph, w, rounds, m)) for m in ("crc", "relay")]
                         for w in ways]  # fmt: skip
                cells = [" → ".join(map(_text, pair)) for pair in pairs]
                printed = [r.paper_value for pair in pairs for r in pair if r is not None]
                told = next((f"{p:.2f}" for p in printed if p is not None), "")
                rows.append([name, *cells, *([told] if paper else [])])
            grids.append(Grid("", head, rows))
    return grids


def _counts(records: Sequence[Record]) -> Grid:
    """On how many sets the gap is small, beside the counts of the CRC paper."""
    found = _by(records)
    rows = []
    for graph in NETWORKS:
        for way in DEALT:
            cells = []
            for rounds, method in ((r, m) for m in ("crc", "relay") for r in (EARLY, LATE)):
                here = (graph, way, rounds, method)
                gaps = [r.value for k, r in found.items() if k[1:] == here and r.value is not None]
                close, near = (sum(g < limit for g in gaps) for limit in (CLOSE, NEAR))
                cells.append(f"{close} ({near}) of {len(gaps)}" if gaps else "-")
            table, column = PRINTED.get((graph, way), ("", ""))
            counted = COUNTS.get(table, {}).get(column)
            printed = f"{counted[0]} ({counted[1]}) of 16" if counted else ""
            rows.append([f"{NETWORKS[graph]}, {way}", printed, *cells])
    head = ["gap < .01 (< .05)", "CRC, paper", *(f"{NAMES[m]}\n{r} rounds"
            for m in ("crc", "relay") for r in (EARLY, LATE))]  # fmt: skip
    return Grid("", head, rows)


def _methods(records: Sequence[Record]) -> list[Grid]:
    """Means over the sets: methods by network and way of dealing."""
    found = _by(records)
    grids = []
    for rounds in (EARLY, LATE):
        rows = []
        for graph in GRAPHS:
            for way in DEALT:
                cells = []
                for method in METHODS:
                    here = (graph, way, rounds, method)
                    gaps = [r.value for k, r in found.items()
                            if k[1:] == here and r.value is not None]  # fmt: skip
                    cells.append(_number(float(np.mean(gaps))) if gaps else "-")
                rows.append([f"{NETWORKS[graph]}, {way}", *cells])
        head = [f"mean of the sets, {rounds} rounds", *(NAMES[m] for m in METHODS)]
        grids.append(Grid("", head, rows))
    return grids


def _liar(records: Sequence[Record]) -> Grid:
    found = {(r.dataset, r.setting["graph"], r.setting["dealt"], r.setting["rounds"]): r
             for r in records}  # fmt: skip
    head = ["data, clip", "honest\n64 rounds", "honest\n256 rounds", "one liar\n64 rounds",
            "one liar\n256 rounds"]  # fmt: skip
    pushes = sorted({k[2] for k in found}, key=float)
    rows = [
        [f"{name}, {'none' if clip is None else f'{clip:g}'}",
         *(_text(found.get((name, str(clip), p, r))) for p in pushes for r in (EARLY, LATE))]
        for name in dict.fromkeys(k[0] for k in found)
        for clip in CLIPS
        if any((name, str(clip), p, EARLY) in found for p in pushes)
    ]  # fmt: skip
    return Grid("", head[: 1 + 2 * len(pushes)], rows)


def _grids(item: str, records: Sequence[Record]) -> list[Grid]:
    if not records:
        return []
    if item == "gaps":
        return [*_tables(records), _counts(records)]
    if item == "rounds":
        return _methods(records)
    return [_liar(records)] if item == "liar" else _tables(records, item == "nodes-320")


def _curves(tasks: dict[str, Any]) -> Figure:
    """Gap against rounds: a row of panels for each network, a column for each way of dealing."""
    figure, axes = panels(len(GRAPHS) * len(DEALT), 2.7, 2.4, len(DEALT), sharex=True, sharey=True)
    places = [(graph, way) for graph in GRAPHS for way in DEALT]
    for axis, (graph, way) in zip(axes, places, strict=True):
        axis.axhline(0, color="0.4", lw=0.8)
        for method, name in NAMES.items():
            here = [k for k in tasks if k.split("|")[1:] == [graph, way, method]]
            if not here:
                continue
            rounds = tasks[here[0]]["rounds"]
            gaps = np.array([[gap_at(tasks, k, int(t)).mean() for t in rounds] for k in here])
            axis.plot(rounds, gaps.mean(0), color=COLOURS[method], label=name, lw=1.8)
            for line in gaps:
                axis.plot(rounds, line, color=COLOURS[method], lw=0.6, alpha=0.35)
        axis.set_title(f"{NETWORKS[graph]}, {way}", fontsize=9)
        axis.set_ylim(-0.06, 0.45)
        axis.grid(alpha=0.25)
    for axis in axes[-len(DEALT) :]:
        axis.set_xlabel("round")
    for axis in axes[:: len(DEALT)]:
        axis.set_ylabel("gap to RC")
    sets = ", ".join(dict.fromkeys(k.split("|")[0] for k in tasks))
    figure.suptitle(
        "Test error less RC's of 64 rounds; 50 nodes of 50 rows\n"
        f"thick: mean of the sets; thin: each of {sets}",
        fontsize=10,
    )
    legend_below(figure)
    return figure


def _draw(item: str, tasks: Any, records: Sequence[Record]) -> Figure | None:
    return _curves(tasks) if item == "rounds" and tasks else None


def show(folder: Path, records: Sequence[Record], console: Console) -> list[Path]:
    """Print each item as tables, with a note of what was not run, and draw its figure."""
    return show_items(PAPER, folder, records, console, _grids, LEGEND.__getitem__, _draw)


def markdown(item: str, records: Sequence[Record]) -> list[str]:
    """An item as lines of Markdown."""
    lines = [f"## {heading(PAPER, item)}", "", f"{PAPER.items[item].about}.", ""]
    lines += [f"{LEGEND[item]}.", ""]
    return lines + [line for grid in _grids(item, records) for line in grid.lines()]
