"""Figures of the Gossip-NB experiments, drawn like the paper's."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from peerwise.papers.gossip_nb.items import EPSILONS, NODES
from peerwise.papers.items import Arrays
from peerwise.report.axes import labelled
from peerwise.report.figures import panels

SHADES = plt.get_cmap("viridis")


def accuracy(tasks: dict[str, Arrays]) -> Figure:
    """Figure 2: accuracy against epsilon, a panel a data set."""
    sets = list(dict.fromkeys(name.partition(" ")[0] for name in tasks))
    figure, axes = panels(len(sets))
    for axis, name in zip(axes, sets, strict=False):
        for i, n in enumerate(NODES):
            arrays = tasks.get(f"{name} {n}")
            if arrays is not None:
                style = {"ms": 3, "color": SHADES(i / len(NODES)), "label": f"N = {n}"}
                axis.plot(EPSILONS, arrays["accuracy"].mean(1), "o-", **style)
        central = tasks.get(f"{name} central")
        if central is not None:
            axis.plot(EPSILONS, central["accuracy"].mean(1), "k--", lw=1.2, label="centralised DP")
            axis.axhline(central["vanilla"][0], color="0.5", ls=":", label="no noise")
        labelled(axis, name, grid="", xscale="log", xlabel="ε")
    axes[0].set_ylabel("accuracy")
    axes[0].legend(fontsize=7)
    figure.suptitle("Federated naive Bayes (ours): accuracy against privacy", fontsize=11)
    figure.tight_layout()
    return figure


def sensitivity(tasks: dict[str, Arrays]) -> Figure:
    """Figure 3: the distribution of local sensitivities."""
    figure, axes = panels(len(tasks))
    for axis, (name, arrays) in zip(axes, tasks.items(), strict=False):
        for i, (n, quantiles) in enumerate(arrays.items()):
            share, style = np.linspace(0, 1, len(quantiles)), {"color": SHADES(i / 2)}
            axis.plot(quantiles, share, label=f"N = {n[1:]}", **style)
        labelled(axis, name, grid="", xlabel="sensitivity of sums, relative to N = 1")
    axes[0].set_ylabel("share of (node, class, feature)")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    return figure


def sizes(tasks: dict[str, Arrays]) -> Figure:
    """Figure 4: mean and standard deviation of accuracy for three laws of sizes."""
    figure, axes = panels(2)
    for i, (name, arrays) in enumerate(tasks.items()):
        label = name.partition(" ")[2]
        of_trials = (arrays["accuracy"].mean(1), arrays["accuracy"].std(1))
        for axis, values in zip(axes, of_trials, strict=True):
            axis.plot(EPSILONS, values, "o-", ms=3, color=SHADES(i / 3), label=label)
    for axis, title in zip(axes, ("mean accuracy", "standard deviation over trials"), strict=True):
        labelled(axis, title, grid="", xscale="log", xlabel="ε")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    return figure


def threshold(tasks: dict[str, Arrays]) -> Figure:
    """Figure 5: nodes by size and budget, accuracy against threshold and nodes kept."""
    figure, axes = panels(3 * len(tasks))
    for i, (name, arrays) in enumerate(tasks.items()):
        one, two, three = axes[3 * i : 3 * i + 3]
        real = ~np.isnan(arrays["sizes"])
        noise = np.log10(np.maximum(arrays["errors"][real], 1e-6))
        dots = one.scatter(
            arrays["sizes"][real], arrays["budgets"][real], c=noise, s=5, cmap="plasma"
        )
        figure.colorbar(dots, ax=one, label="log10 relative error")
        one.set(xscale="log", yscale="log", xlabel="rows of the node")
        one.set_ylabel(f"{name}: ε of the node")
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


def gossip(tasks: dict[str, Arrays]) -> Figure:
    """Figure 6: accuracy of the nodes against iterations."""
    figure, axis = plt.subplots(figsize=(6, 3.8))
    for i, (name, arrays) in enumerate(tasks.items()):
        colour = SHADES(i / max(len(tasks), 1))
        low, median, high = np.percentile(arrays["accuracy"], [25, 50, 75], axis=1)
        _between(axis, low, median, high, color=colour, label=name.partition(" ")[2])
    axis.axhline(next(iter(tasks.values()))["federated"][0], color="k", ls=":", label="Federated")
    axis.set(xlabel="iteration", ylabel="accuracy: median and quartiles of nodes")
    axis.set_title("Gossip naive Bayes (ours), by what an estimate counts", fontsize=11)
    axis.legend(fontsize=8)
    return figure


def parameters(tasks: dict[str, Arrays]) -> Figure:
    """Figure 7: parameters of the nodes against iterations, dotted where Federated has them.

    Means and standard deviations have many units and are shown relative to Federated's.
    """
    arrays = next(iter(tasks.values()))
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
