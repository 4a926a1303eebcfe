"""Figures of the DecDiff experiments: the paper's, and what accuracy costs in rounds and bytes.

A method has one colour everywhere; a variant of ours has its method's colour and a broken line.
"""

from typing import Any

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from peerwise import metrics
from peerwise.papers.items import Arrays, Done
from peerwise.report.axes import accuracy_axis, band, finished, labelled, plain_numbers
from peerwise.report.figures import panels

MARKED = 10  # rounds of figure 1 in which aggregation is marked
DEALS = 3  # replicas of a set that figure 5 shows

# The data sets as the paper writes them.
SETS = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "emnist_letters": "EMNIST Letters"}

# The paper's names and our colours; what it has not is marked.
_STYLES = {
    "centralised": ("Centralised", "#111111"),
    "isolation": ("ISOL", "#8a8a8a"),
    "fedavg": ("FED", "#e69f00"),
    "dechetero": ("DecHetero", "#0072b2"),
    "cfa": ("CFA", "#009e73"),
    "cfa-ge": ("CFA-GE", "#8e44ad"),
    "decdiff": ("DecDiff", "#ef8a7a"),
    "decdiff+vt": ("DecDiff+VT", "#c8102e"),
    "dechetero+vt": ("DecHetero+VT (ours)", "#0072b2"),
    "decavg": ("DecAvg common start (ours)", "#56b4e9"),
    "cfa-1": ("CFA ε=1 (ours)", "#5fc9a5"),
    "decdiff+vt .9": ("DecDiff+VT β=.9 (ours)", "#7a4b12"),
    "decdiff+vt .95": ("DecDiff+VT β=.95 (ours)", "#b9770e"),
    "decdiff+linear": ("DecDiff+linear (ours)", "#d63384"),
}
NAMES = {variant: name for variant, (name, _) in _STYLES.items()}
COLOURS = {variant: colour for variant, (_, colour) in _STYLES.items()}


def _style(variant: str) -> dict[str, Any]:
    ours = "(ours)" in NAMES[variant]
    return {"color": COLOURS[variant], "ls": "--" if ours else "-", "label": NAMES[variant]}


def by_variant(tasks: Done) -> list[tuple[str, str, Arrays]]:
    """Data set and variant of every run, with what it gave."""
    return [(*name.split(" ", 1), arrays) for name, arrays in tasks.items()]  # type: ignore[misc]


def _by_set(tasks: Done) -> dict[str, dict[str, Arrays]]:
    """Runs by data set and variant."""
    sets: dict[str, dict[str, Arrays]] = {}
    for dataset, variant, arrays in by_variant(tasks):
        sets.setdefault(dataset, {})[variant] = arrays
    return sets


def _level(axis: Any, variant: str, arrays: Arrays) -> None:
    """Accuracy after the last round of what sends nothing, or has rounds of its own."""
    axis.axhline(arrays["accuracy"][:, -1].mean(), **{**_style(variant), "ls": ":"}, lw=1.6)


def progress(tasks: Done) -> Figure:
    """Accuracy against rounds and bytes, and how far apart the nodes' models are."""
    sets = _by_set(tasks)
    figure, axes = panels(3 * len(sets), width=4.3, height=3.7, layout="constrained")
    for i, (name, runs) in enumerate(sets.items()):
        rounds, sent, apart = axes[3 * i : 3 * i + 3]
        for variant, arrays in runs.items():
            _follow(variant, arrays, rounds, sent, apart)
        count = max(len(arrays["accuracy"]) for arrays in runs.values())
        text = f"{SETS[name]} ({count} replica{'s' if count > 1 else ''})"
        for axis, what, label in (
            (rounds, "accuracy by rounds", "round"),
            (sent, "accuracy by traffic", "GB sent by the whole network"),
            (apart, "spread of models", "round"),
        ):
            labelled(axis, f"{text}: {what}", xscale="log", xlabel=label)
            plain_numbers(axis.xaxis)
        for axis in (rounds, sent):
            axis.set_ylabel("test accuracy, mean of nodes")
            accuracy_axis(axis)
        apart.set(ylabel="distance from their mean / its norm", yscale="log")
        plain_numbers(apart.yaxis)
    return finished(
        figure,
        "After training in every round; line: mean over replicas; band: its 95 % interval "
        "(of two replicas: between them)",
    )


def _follow(variant: str, arrays: Arrays, rounds: Any, sent: Any, apart: Any) -> None:
    """One run in the three panels of a data set."""
    curve, at, style = arrays["accuracy"].mean(-1), arrays["rounds"], _style(variant)
    if variant == "centralised":
        _level(rounds, variant, arrays)
        _level(sent, variant, arrays)
        return
    band(rounds, at, curve, **style)
    if arrays["message_bytes"]:
        cost = metrics.traffic(at, int(arrays["message_bytes"]), int(arrays["messages"]))
        band(sent, cost / 1e9, curve, **style)
    else:
        _level(sent, variant, arrays)
    if "consensus" in arrays:
        band(apart, at, arrays["consensus"], log=True, **style)


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


def drop(tasks: Done) -> Figure:
    """Figure 1: what the first aggregation does to every node."""
    ((name, runs),) = _by_set(tasks).items()
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
        text = NAMES[variant] + (" (common start)" if variant == "fedavg" else "")
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
    title = f"{SETS[name]}, i.i.d. rows: aggregating models that began differently "
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


def graph(tasks: Done) -> Figure:
    """Figure 3: the graph, nodes by degree."""
    (arrays,) = tasks.values()
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


def allocation(tasks: Done) -> Figure:
    """Figure 4: rows of each class at each node."""
    figure, axes = panels(len(tasks), width=5.2, height=3.4, layout="constrained")
    top = max(arrays["counts"].max() for arrays in tasks.values())
    for axis, (name, arrays) in zip(axes, tasks.items(), strict=False):
        counts = arrays["counts"]  # [nodes, classes]
        drawn = axis.imshow(
            np.maximum(counts, 0.5).T, norm=LogNorm(1, top), cmap="viridis", aspect="auto",
            interpolation="nearest",
        )  # fmt: skip
        if counts.shape[1] <= 12:
            axis.set_yticks(range(counts.shape[1]))
        text = f"{SETS[name]}: Gini {arrays['gini'].mean():.2f} within a class, "
        text += f"{float(arrays['gini_of_totals']):.2f} of node totals"
        labelled(axis, text, grid="", xlabel="node", ylabel="class")
    bar = figure.colorbar(drawn, ax=axes, label="rows (logarithmic)")
    plain_numbers(bar.ax.yaxis)
    figure.suptitle("Who holds what: most rows of a class lie on a few nodes", fontsize=11)
    return figure


def losses(tasks: Done) -> Figure:
    """Figure 5: test loss against rounds, a panel a deal of the rows."""
    deals = [
        (name, runs, r)
        for name, runs in _by_set(tasks).items()
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
        labelled(axis, f"{SETS[name]}, GI = {_gini(runs)[r]:.2f}")
    return finished(figure, "Test loss: a curve that rises again is overfitting")


def boxes(tasks: Done) -> Figure:
    """Figure 6: accuracy of single nodes after the last round."""
    sets = _by_set(tasks)
    figure, axes = panels(len(sets), width=4.4, height=3.6, layout="constrained")
    for axis, (name, runs) in zip(axes, sets.items(), strict=False):
        boxes = []
        for variant, arrays in runs.items():
            held = metrics.box(arrays["accuracy"][:, -1].reshape(-1))
            beyond = held["outliers"][~np.isnan(held["outliers"])]
            named = {"med": "median", "q1": "q1", "q3": "q3", "whislo": "whisker_low",
                     "whishi": "whisker_high"}  # fmt: skip
            box = {key: float(held[value]) for key, value in named.items()}
            boxes.append({**box, "fliers": beyond, "label": NAMES[variant]})
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
        labelled(axis, f"{SETS[name]}, GI = {_gini(runs).mean():.2f}", grid="y")
    figure.suptitle("Accuracy of single nodes after the last round", fontsize=11)
    return figure


def _gini(runs: dict[str, Arrays]) -> np.ndarray:
    """Gini index of every deal: all methods are given the same."""
    return next(iter(runs.values()))["gini"]
