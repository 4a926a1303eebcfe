"""Figures of the DecDiff experiments: the paper's, and what accuracy costs in rounds and bytes.

A method has one colour everywhere; a variant of ours has its method's colour and a broken line.
"""

from typing import Any

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from peerwise import metrics
from peerwise.papers.decdiff.items import VARIANTS
from peerwise.papers.figures import Line, Panel, curves
from peerwise.papers.items import Arrays, View
from peerwise.report.axes import accuracy_axis, finished, labelled, plain_numbers
from peerwise.report.figures import panels

MARKED = 10  # rounds of figure 1 in which aggregation is marked
DEALS = 3  # replicas of a set that figure 5 shows
COLOURS = {variant: of["colour"] for variant, of in VARIANTS.items()}


def _style(variant: str) -> dict[str, Any]:
    name = VARIANTS[variant]["label"]
    return {"color": COLOURS[variant], "ls": "--" if "(ours)" in name else "-", "label": name}


def _by_set(view: View) -> dict[str, dict[str, Arrays]]:
    """Runs by data set and variant."""
    return {name: {run.fields["variant"]: run.arrays for run in runs}
            for (name,), runs in view.by("dataset").items()}  # fmt: skip


def progress(view: View) -> Figure:
    """Accuracy against rounds and bytes, and how far apart the nodes' models are."""
    shown = []
    for name, runs in _by_set(view).items():
        count = max(len(arrays["accuracy"]) for arrays in runs.values())
        text = f"{view.title('dataset', name)} ({count} replica{'s' if count > 1 else ''})"
        rounds, sent, apart, levels, silent = [], [], [], [], []
        for variant, arrays in runs.items():
            curve, at, style = arrays["accuracy"].mean(-1), arrays["rounds"], _style(variant)
            level = curve[:, -1].mean(), {**style, "ls": ":"}  # it has rounds of its own, or none
            if variant == "centralised":
                levels.append(level)
                continue
            rounds.append(Line(at, curve, style))
            if arrays["message_bytes"]:
                cost = metrics.traffic(at, int(arrays["message_bytes"]), int(arrays["messages"]))
                sent.append(Line(cost / 1e9, curve, style))
            else:
                silent.append(level)
            if "consensus" in arrays:
                apart.append(Line(at, arrays["consensus"], style))
        of: dict[str, Any] = {"xscale": "log", "xlabel": "round"}
        accuracy = {**of, "ylabel": "test accuracy, mean of nodes"}
        traffic = {**accuracy, "xlabel": "GB sent by the whole network"}
        far = {**of, "ylabel": "distance from their mean / its norm", "yscale": "log"}
        shown += [
            Panel(f"{text}: accuracy by rounds", rounds, accuracy, levels, accurate=True),
            Panel(f"{text}: accuracy by traffic", sent, traffic, [*levels, *silent], accurate=True),
            Panel(f"{text}: spread of models", apart, far),
        ]
    return curves(
        shown,
        "After training in every round; line: mean over replicas; band: its 95 % interval "
        "(of two replicas: between them)",
        4.3, 3.7,
    )  # fmt: skip


def _zigzag(arrays: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy of the first replica's nodes [steps, nodes]: begun, aggregated, trained, and on."""
    trained, rounds = arrays["accuracy"][0], arrays["rounds"].astype(float)
    at, values = rounds, trained
    if "aggregated_accuracy" in arrays:
        at = np.stack([rounds - 0.5, rounds], 1).ravel()
        both = np.stack([arrays["aggregated_accuracy"][0], trained], 1)
        values = both.reshape(-1, both.shape[-1])
    if "begun_accuracy" in arrays:
        at, values = np.r_[0, at], np.r_[arrays["begun_accuracy"][:1], values]
    return at, values


def drop(view: View) -> Figure:
    """Figure 1: what the first aggregation does to every node."""
    ((name, runs),) = _by_set(view).items()
    central = runs.pop("centralised", None)
    shown = {v: _zigzag(arrays) for v, arrays in runs.items()}
    figure, axes = panels(
        max(len(shown), 1), width=4.8, height=3.5, most=2, layout="constrained", sharey=True
    )
    for axis, (variant, (at, values)) in zip(axes, shown.items(), strict=False):
        mean, mixed = values.mean(1), (at % 1 > 0) & (at < MARKED)
        axis.plot(at, values, color=COLOURS[variant], lw=0.4, alpha=0.3)
        axis.plot(at, mean, color=COLOURS[variant], lw=2.2)
        axis.plot(at[mixed], mean[mixed], "v", color=COLOURS[variant], mfc="white", ms=4)
        text = VARIANTS[variant]["label"] + (" (common start)" if variant == "fedavg" else "")
        if at[0] == 0 and mixed.any():
            text += f": {mean[0]:.2f} → {mean[1]:.2f} at the first aggregation"
        axis.set_title(text, fontsize=10)
    for axis in axes[: max(len(shown), 1)]:
        if central is not None:
            at, values = _zigzag(central)
            axis.plot(at, values.mean(1), color=COLOURS["centralised"], ls=":")
        axis.set_xscale("function", functions=(_root, np.square))  # room for the first rounds
        axis.set_xticks([t for t in (0, 1, 2, 3, 5, 10, 15, 20, 30, 50) if t <= at[-1]])
        labelled(axis, ylim=(0, 1), xlabel="round", ylabel="test accuracy")
        axis.label_outer()
    title = (
        f"{view.title('dataset', name)}, i.i.d. rows: aggregating models that began differently "
    )
    title += "(round 0: each has trained alone)"
    return finished(figure, title, _marks(central is not None))


def _root(x: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(x, 0))


def _marks(central: bool) -> dict[str, Any]:
    """What lines and marks of figure 1 mean, in any method's colour."""
    grey: dict[str, Any] = {"color": "#555555"}
    mixed = Line2D([], [], lw=0, marker="v", mfc="white", **grey)
    marks = {
        "single node": Line2D([], [], lw=0.6, **grey),
        "mean of nodes": Line2D([], [], lw=2.2, **grey),
        "mean after aggregation, before training": mixed,
    }
    if central:
        marks["Centralised"] = Line2D([], [], color=COLOURS["centralised"], ls=":")
    return marks


def graph(view: View) -> Figure:
    """Figure 3: the graph, nodes by degree."""
    (arrays,) = (run.arrays for run in view.runs)
    graph = nx.Graph()
    graph.add_nodes_from(range(int(arrays["nodes"])))
    graph.add_edges_from(zip(arrays["src"].tolist(), arrays["dst"].tolist(), strict=True))
    degree = np.array([d for _, d in graph.degree()])
    figure, axis = plt.subplots(figsize=(6.4, 5.4))
    place = nx.spring_layout(graph, seed=1, k=1.6 / np.sqrt(len(degree)))
    nx.draw_networkx_edges(graph, place, ax=axis, edge_color="#bbbbbb", width=0.6)
    drawn = nx.draw_networkx_nodes(
        graph, place, ax=axis, node_color=degree, cmap="autumn", edgecolors="#555555",
        linewidths=0.6, node_size=40 + 22 * degree,
    )  # fmt: skip
    figure.colorbar(drawn, ax=axis, shrink=0.8, pad=0.02, label="neighbours of the node")
    axis.set_title(
        f"The Erdős-Rényi graph of all runs: {len(degree)} nodes, {graph.number_of_edges()} links\n"
        f"neighbours: {degree.min()} to {degree.max()}, {degree.mean():.1f} on average",
        fontsize=11,
    )
    axis.axis("off")
    return figure


def losses(view: View) -> Figure:
    """Figure 5: test loss against rounds, a panel a deal of the rows."""
    deals = [
        (name, runs, r)
        for name, runs in _by_set(view).items()
        for r in range(min(DEALS, *(len(arrays["loss"]) for arrays in runs.values())))
    ]
    figure, axes = panels(len(deals), width=4.3, height=3.8, layout="constrained")
    for axis, (name, runs, r) in zip(axes, deals, strict=False):
        for variant, arrays in runs.items():
            axis.plot(arrays["rounds"], arrays["loss"][r].mean(-1), lw=1.7, **_style(variant))
        axis.set(xlabel="round", ylabel="test loss, mean of nodes", yscale="log")
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
        axis.minorticks_off()
        plain_numbers(axis.yaxis)
        labelled(axis, f"{view.title('dataset', name)}, GI = {_gini(runs)[r]:.2f}")
    return finished(figure, "Test loss: a curve that rises again is overfitting")


def boxes(view: View) -> Figure:
    """Figure 6: accuracy of single nodes after the last round."""
    sets = _by_set(view)
    figure, axes = panels(len(sets), width=4.4, height=3.6, layout="constrained")
    for axis, (name, runs) in zip(axes, sets.items(), strict=False):
        boxes = []
        for variant, arrays in runs.items():
            held = metrics.box(arrays["accuracy"][:, -1].reshape(-1))
            beyond = held["outliers"][~np.isnan(held["outliers"])]
            named = {"med": "median", "q1": "q1", "q3": "q3", "whislo": "whisker_low",
                     "whishi": "whisker_high"}  # fmt: skip
            box = {key: float(held[value]) for key, value in named.items()}
            boxes.append({**box, "fliers": beyond, "label": VARIANTS[variant]["label"]})
        drawn = axis.bxp(
            boxes, patch_artist=True, widths=0.6, medianprops={"color": "black"},
            flierprops={"marker": ".", "ms": 4, "mec": "#555555"},
        )  # fmt: skip
        for patch, variant in zip(drawn["boxes"], runs, strict=True):
            patch.set_facecolor(COLOURS[variant])
        axis.tick_params(axis="x", rotation=40)
        plt.setp(axis.get_xticklabels(), ha="right", rotation_mode="anchor")
        axis.set_ylabel("test accuracy of a node")
        lowest = min(arrays["accuracy"][:, -1].min() for arrays in runs.values())
        accuracy_axis(axis, max(lowest - 0.05, 0))
        labelled(axis, f"{view.title('dataset', name)}, GI = {_gini(runs).mean():.2f}", grid="y")
    figure.suptitle("Accuracy of single nodes after the last round", fontsize=11)
    return figure


def _gini(runs: dict[str, Arrays]) -> np.ndarray:
    """Gini index of every deal: all methods are given the same."""
    return next(iter(runs.values()))["gini"]
