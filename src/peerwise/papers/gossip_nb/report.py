"""Tables and figures of the Gossip-NB experiments, drawn like the paper's with ours labelled."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from peerwise.papers.gossip_nb.claims import EPSILONS, NODES
from peerwise.papers.gossip_nb.items import PAPER
from peerwise.study.results import Record
from peerwise.report.figures import panels, save
from peerwise.papers.task_items import Grid, arrays_of, heading

__all__ = ["markdown", "show"]

Arrays = dict[str, np.ndarray]
SHADES = plt.get_cmap("viridis")
# Items as tables: what stands in a row and in a column.
LAYOUT = {
    "figure-2": (("dataset", "variant"), "epsilon"),
    "figure-3": (("dataset",), "nodes"),
    "figure-4": (("dataset", "variant"), "epsilon"),
    "figure-5": (("dataset",), "kept"),
    "figure-6": (("dataset", "method", "counter"), "round"),
    "figure-7": (("dataset", "parameter"), "round"),
    "clamping": (("dataset", "variant", "where"), "epsilon"),
    "skew": (("dataset", "method", "epsilon"), "partition"),
    "private-crc": (("dataset", "method"), "epsilon"),
    "attack": (("dataset", "epsilon", "kind", "share"), "rule"),
}


def _grid(item: str, records: Sequence[Record]) -> tuple[list[Any], dict[tuple[str, ...], Any]]:
    rows, column = LAYOUT[item]
    columns: dict[Any, None] = {}
    cells: dict[tuple[str, ...], Any] = {}
    for r in records:
        told = {"dataset": r.dataset, **r.setting}
        if told.get("variant") is not None:
            told["variant"] = _named(str(told["variant"]))
        label = tuple(str(told[k]) for k in rows if told.get(k) is not None)
        label += (r.metric,) if r.metric in ("bias",) else ()
        place = told.get(column, "")
        columns[place] = None
        cells.setdefault(label, {})[place] = r
    return list(columns), cells


def _named(variant: str) -> str:
    """A variant as the figure's legend has it."""
    known = {"vanilla": "no noise", "central": "centralised DP"}
    first = variant.split(" ")[0]
    return f"N = {variant}" if first.isdigit() else known.get(variant, variant)


def _head(column: Any) -> str:
    return f"{column:.3g}" if isinstance(column, float) else str(column)


def _short(record: Record | None) -> str:
    return "" if record is None or record.value is None else f"{record.value:.3f}"


def _cell(record: Record | None) -> str:
    return _short(record) + (f" ±{record.std:.3f}" if record is not None and record.std else "")


def _laid_out(
    item: str, title: str, records: Sequence[Record], cell: Callable[[Record | None], str]
) -> Grid:
    columns, cells = _grid(item, records)
    head = [f"{records[0].metric.replace('_', ' ')} by {LAYOUT[item][1]}", *map(_head, columns)]
    rows = [[" ".join(at), *(cell(row.get(c)) for c in columns)] for at, row in cells.items()]
    return Grid(title, head, rows)


def show(folder: Path, records: Sequence[Record], console: Console) -> list[Path]:
    """Print each item as a table and draw its figure; returns the paths."""
    drawn = []
    arrays = arrays_of(folder, PAPER).arrays
    for item in dict.fromkeys(r.item for r in records):
        mine = [r for r in records if r.item == item]
        title = f"{heading(PAPER, item)}: {PAPER.items[item].about}"
        console.print(_laid_out(item, title, mine, _short).table())
        draw = DRAW.get(item)
        if draw is not None and arrays.get(item):
            drawn.append(save(draw(arrays[item]), folder / f"{item}.png"))
    return drawn


def markdown(item: str, records: Sequence[Record]) -> list[str]:
    """An item as lines of Markdown: mean ± standard deviation over trials."""
    title = heading(PAPER, item)
    lines = _laid_out(item, title, records, _cell).lines()
    return [f"## {title}", "", f"{PAPER.items[item].about}.", "", *lines]


def _accuracy(tasks: dict[str, Arrays]) -> Figure:
    """Figure 2: accuracy against epsilon, a panel a data set."""
    sets = list(dict.fromkeys(name.partition(" ")[0] for name in tasks))
    figure, axes = panels(len(sets))
    for axis, name in zip(axes, sets, strict=False):
        for i, n in enumerate(NODES):
            found = tasks.get(f"{name} {n}")
            if found is not None:
                colour = SHADES(i / len(NODES))
                axis.plot(
                    EPSILONS, found["accuracy"].mean(1), "o-", ms=3, color=colour, label=f"N = {n}"
                )
        central = tasks.get(f"{name} central")
        if central is not None:
            axis.plot(EPSILONS, central["accuracy"].mean(1), "k--", lw=1.2, label="centralised DP")
            axis.axhline(central["vanilla"][0], color="0.5", ls=":", label="no noise")
        axis.set_xscale("log")
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("ε")
    axes[0].set_ylabel("accuracy")
    axes[0].legend(fontsize=7)
    figure.suptitle("Federated naive Bayes (ours): accuracy against privacy", fontsize=11)
    figure.tight_layout()
    return figure


def _sensitivity(tasks: dict[str, Arrays]) -> Figure:
    """Figure 3: the distribution of local sensitivities."""
    figure, axes = panels(len(tasks))
    for axis, (name, found) in zip(axes, tasks.items(), strict=False):
        for i, (n, quantiles) in enumerate(found.items()):
            axis.plot(
                quantiles,
                np.linspace(0, 1, len(quantiles)),
                color=SHADES(i / 2),
                label=f"N = {n[1:]}",
            )
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("sensitivity of sums, relative to N = 1")
    axes[0].set_ylabel("share of (node, class, feature)")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    return figure


def _sizes(tasks: dict[str, Arrays]) -> Figure:
    """Figure 4: mean and standard deviation of accuracy for three laws of sizes."""
    figure, axes = panels(2)
    for i, (name, found) in enumerate(tasks.items()):
        label = name.partition(" ")[2]
        for axis, values in zip(
            axes, (found["accuracy"].mean(1), found["accuracy"].std(1)), strict=True
        ):
            axis.plot(EPSILONS, values, "o-", ms=3, color=SHADES(i / 3), label=label)
            axis.set_xscale("log")
            axis.set_xlabel("ε")
    axes[0].set_title("mean accuracy", fontsize=10)
    axes[1].set_title("standard deviation over trials", fontsize=10)
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    return figure


def _threshold(tasks: dict[str, Arrays]) -> Figure:
    """Figure 5: nodes by size and budget, accuracy against threshold and nodes kept."""
    figure, axes = panels(3 * len(tasks))
    for i, (name, found) in enumerate(tasks.items()):
        one, two, three = axes[3 * i : 3 * i + 3]
        real = ~np.isnan(found["sizes"])
        noise = np.log10(np.maximum(found["errors"][real], 1e-6))
        dots = one.scatter(
            found["sizes"][real], found["budgets"][real], c=noise, s=5, cmap="plasma"
        )
        figure.colorbar(dots, ax=one, label="log10 relative error")
        one.set_xscale("log")
        one.set_yscale("log")
        one.set_xlabel("rows of the node")
        one.set_ylabel(f"{name}: ε of the node")
        for axis, by, label in (
            (two, "limits", "largest error let in"),
            (three, "kept", "nodes kept"),
        ):
            axis.plot(found[by].ravel(), found["accuracy"].ravel(), ".", ms=3, alpha=0.35)
            axis.set_xscale("log")
            axis.set_xlabel(label)
            axis.set_ylabel("accuracy")
    figure.tight_layout()
    return figure


def _gossip(tasks: dict[str, Arrays]) -> Figure:
    """Figure 6: accuracy of the nodes against iterations."""
    figure, axis = plt.subplots(figsize=(6, 3.8))
    for i, (name, found) in enumerate(tasks.items()):
        colour = SHADES(i / max(len(tasks), 1))
        low, median, high = np.percentile(found["accuracy"], [25, 50, 75], axis=1)
        rounds = np.arange(1, len(median) + 1)
        axis.plot(rounds, median, color=colour, label=name.partition(" ")[2])
        axis.fill_between(rounds, low, high, color=colour, alpha=0.2, lw=0)
    axis.axhline(next(iter(tasks.values()))["federated"][0], color="k", ls=":", label="Federated")
    axis.set_xlabel("iteration")
    axis.set_ylabel("accuracy: median and quartiles of nodes")
    axis.set_title("Gossip naive Bayes (ours), by what an estimate counts", fontsize=11)
    axis.legend(fontsize=8)
    return figure


def _parameters(tasks: dict[str, Arrays]) -> Figure:
    """Figure 7: parameters of the nodes against iterations, dotted where Federated has them.

    Means and standard deviations have many units and are shown relative to Federated's.
    """
    found = next(iter(tasks.values()))
    kinds = [k for k in ("prior", "category", "mean", "std") if k in found]
    figure, axes = panels(len(kinds), most=4)
    for axis, kind in zip(axes, kinds, strict=False):
        goal = found[f"federated_{kind}"]
        relative = kind in ("mean", "std")
        shown = np.flatnonzero(np.abs(goal) > 1e-3)[:6]
        rounds = np.arange(1, found[kind].shape[1] + 1)
        for place, j in enumerate(shown):
            low, median, high = found[kind][:, :, j] / (goal[j] if relative else 1)
            colour = SHADES(place / 6)
            axis.plot(rounds, median, color=colour, lw=1)
            axis.fill_between(rounds, low, high, color=colour, alpha=0.2, lw=0)
            axis.axhline(1 if relative else goal[j], color="k", ls=":", lw=0.8)
        axis.set_title(f"{kind}, relative to Federated" if relative else kind, fontsize=9)
        axis.set_xlabel("iteration")
        if relative:
            axis.set_ylim(-1, 3)
    figure.tight_layout()
    return figure


DRAW: dict[str, Callable[[dict[str, Arrays]], Figure]] = {
    "figure-2": _accuracy,
    "figure-3": _sensitivity,
    "figure-4": _sizes,
    "figure-5": _threshold,
    "figure-6": _gossip,
    "figure-7": _parameters,
}
