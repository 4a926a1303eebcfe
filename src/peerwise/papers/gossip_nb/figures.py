"""Figures of the Gossip-NB experiments, drawn like the paper's."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from peerwise.papers.figures import Line, Panel, curves
from peerwise.papers.gossip_nb.items import EPSILONS, NODES
from peerwise.papers.items import View
from peerwise.report.axes import labelled
from peerwise.report.figures import panels

SHADES = plt.get_cmap("viridis")


def accuracy(view: View) -> Figure:
    """Figure 2: accuracy against epsilon, a panel a data set."""
    shown = []
    for (name,), runs in view.by("dataset").items():
        lines, levels = [], []
        for fields, arrays in runs:
            variant = fields["variant"]
            place = NODES.index(int(variant)) / len(NODES) if variant.isdigit() else 0
            style = {"color": SHADES(place) if variant.isdigit() else "k",
                     "ls": "-" if variant.isdigit() else "--",
                     "label": view.title("variant", variant)}  # fmt: skip
            lines.append(Line(EPSILONS, arrays["accuracy"].T, style))
            if "vanilla" in arrays:
                levels.append((arrays["vanilla"][0], {"color": "0.5", "label": "no noise"}))
        shown.append(Panel(name, lines, {"xscale": "log", "xlabel": "ε", "ylabel": "accuracy"},
                           levels))  # fmt: skip
    return curves(shown, "Federated naive Bayes (ours): accuracy against privacy", 3.5, 2.9)


def sensitivity(view: View) -> Figure:
    """Figure 3: the distribution of local sensitivities."""
    figure, axes = panels(len(view.runs))
    for axis, (fields, arrays) in zip(axes, view.runs, strict=False):
        for i, (n, quantiles) in enumerate(arrays.items()):
            share, style = np.linspace(0, 1, len(quantiles)), {"color": SHADES(i / 2)}
            axis.plot(quantiles, share, label=f"N = {n[1:]}", **style)
        labelled(axis, fields["dataset"], grid="", xlabel="sensitivity of sums, relative to N = 1")
    axes[0].set_ylabel("share of (node, class, feature)")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    return figure


def sizes(view: View) -> Figure:
    """Figure 4: mean and standard deviation of accuracy for three laws of sizes."""
    mean, spread = [], []
    for i, (fields, arrays) in enumerate(view.runs):
        style = {"color": SHADES(i / 3), "label": fields["variant"]}
        mean.append(Line(EPSILONS, arrays["accuracy"].T, style))
        spread.append(Line(EPSILONS, arrays["accuracy"].std(1)[None], style))
    of = {"xscale": "log", "xlabel": "ε"}
    title = "Adult, 1000 nodes: sizes of nodes"
    shown = [Panel("mean", mean, {**of, "ylabel": "accuracy"}),
             Panel("standard deviation over trials", spread, of)]  # fmt: skip
    return curves(shown, title, 3.5, 2.9)


def threshold(view: View) -> Figure:
    """Figure 5: nodes by size and budget, accuracy against threshold and nodes kept."""
    figure, axes = panels(3 * len(view.runs))
    for i, (fields, arrays) in enumerate(view.runs):
        one, two, three = axes[3 * i : 3 * i + 3]
        real = ~np.isnan(arrays["sizes"])
        noise = np.log10(np.maximum(arrays["errors"][real], 1e-6))
        dots = one.scatter(
            arrays["sizes"][real], arrays["budgets"][real], c=noise, s=5, cmap="plasma"
        )
        figure.colorbar(dots, ax=one, label="log10 relative error")
        one.set(xscale="log", yscale="log", xlabel="rows of the node")
        one.set_ylabel(f"{fields['dataset']}: ε of the node")
        by = {"limits": (two, "largest error let in"), "kept": (three, "nodes kept")}
        for of, (axis, label) in by.items():
            axis.plot(arrays[of].ravel(), arrays["accuracy"].ravel(), ".", ms=3, alpha=0.35)
            axis.set(xscale="log", xlabel=label, ylabel="accuracy")
    figure.tight_layout()
    return figure


def _between(axis: Any, low: Any, middle: Any, high: Any, **style: Any) -> None:
    """A line by iterations, and a band around it."""
    rounds = np.arange(1, len(middle) + 1)
    axis.plot(rounds, middle, **style)
    axis.fill_between(rounds, low, high, color=style["color"], alpha=0.2, lw=0)


def gossip(view: View) -> Figure:
    """Figure 6: accuracy of the nodes against iterations."""
    figure, axis = plt.subplots(figsize=(6, 3.8))
    for i, (fields, arrays) in enumerate(view.runs):
        colour = SHADES(i / len(view.runs))
        low, median, high = np.percentile(arrays["accuracy"], [25, 50, 75], axis=1)
        _between(axis, low, median, high, color=colour, label=fields["counter"])
    federated = view.runs[0].arrays["federated"][0]
    axis.axhline(federated, color="k", ls=":", label="Federated")
    axis.set(xlabel="iteration", ylabel="accuracy: median and quartiles of nodes")
    axis.set_title("Gossip naive Bayes (ours), by what an estimate counts", fontsize=11)
    axis.legend(fontsize=8)
    return figure


def parameters(view: View) -> Figure:
    """Figure 7: parameters of the nodes against iterations, dotted where Federated has them.

    Means and standard deviations have many units and are shown relative to Federated's.
    """
    arrays = view.runs[0].arrays
    kinds = [k for k in ("prior", "category", "mean", "std") if k in arrays]
    figure, axes = panels(len(kinds), most=4)
    for axis, kind in zip(axes, kinds, strict=False):
        goal = arrays[f"federated_{kind}"]
        relative = kind in ("mean", "std")
        shown = np.flatnonzero(np.abs(goal) > 1e-3)[:6]
        for place, j in enumerate(shown):
            low, median, high = arrays[kind][:, :, j] / (goal[j] if relative else 1)
            _between(axis, low, median, high, color=SHADES(place / 6), lw=1)
            axis.axhline(1 if relative else goal[j], color="k", ls=":", lw=0.8)
        title = f"{kind}, relative to Federated" if relative else kind
        labelled(axis, title, size=9, grid="", xlabel="iteration")
        if relative:
            axis.set_ylim(-1, 3)
    figure.tight_layout()
    return figure
