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
    """Figure 6: accuracy of the median node against iterations, over seeds."""
    budgets = view.by("epsilon")
    figure, axes = panels(len(budgets))
    for axis, ((epsilon,), runs) in zip(axes, budgets.items(), strict=False):
        for i, (fields, arrays) in enumerate(runs):
            quartiles = np.percentile(arrays["accuracy"][..., 1], [25, 50, 75], axis=0)
            _between(axis, *quartiles, color=SHADES(i / len(runs)), label=fields["counter"])
        low, median, high = np.percentile(runs[0].arrays["federated"], [25, 50, 75])
        axis.axhspan(low, high, color="0.5", alpha=0.15, lw=0)
        axis.axhline(median, color="k", ls=":", label="Federated")
        labelled(axis, f"ε = {epsilon}", grid="", xlabel="iteration")
    axes[0].set_ylabel("accuracy of the median node:\nmedian and quartiles over seeds")
    axes[-1].legend(fontsize=8)
    figure.tight_layout()
    return figure


def parameters(view: View) -> Figure:
    """Figure 7: parameters of the median node beside Federated's, against iterations."""
    kinds = [k for k in ("prior", "category", "mean", "std") if k in view.runs[0].arrays]
    figure, axes = panels(len(kinds) * len(view.runs), most=4)
    places = [(run, kind) for run in view.runs for kind in kinds]
    for axis, ((fields, arrays), kind) in zip(axes, places, strict=False):
        relative = kind in ("mean", "std")
        for j in range(min(6, arrays[kind].shape[2])):
            _between(axis, *arrays[kind][:, :, j], color=SHADES(j / 6), lw=1)
        axis.axhline(1 if relative else 0, color="k", ls=":", lw=0.8)
        title = f"{kind} {'over' if relative else 'minus'} Federated's, ε = {fields['epsilon']}"
        labelled(axis, title, size=9, grid="", xlabel="iteration")
        if relative:
            axis.set_ylim(-1, 3)
    figure.tight_layout()
    return figure
