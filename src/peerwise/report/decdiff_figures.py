"""Figures of the DecDiff experiments: the paper's, and what accuracy costs in rounds and bytes.

A method has one colour everywhere; a variant of ours has its method's colour and a broken line.
"""

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from peerwise import metrics
from peerwise.report.figures import panels

__all__ = ["DRAW", "NAMES", "SETS"]

Arrays = dict[str, np.ndarray]
Tasks = dict[str, Arrays]
SETS = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "emnist_letters": "EMNIST Letters"}

# The paper's names; what it has not is marked.
NAMES = {
    "centralised": "Centralised",
    "isolation": "ISOL",
    "fedavg": "FED",
    "dechetero": "DecHetero",
    "cfa": "CFA",
    "cfa-ge": "CFA-GE",
    "decdiff": "DecDiff",
    "decdiff+vt": "DecDiff+VT",
    "dechetero+vt": "DecHetero+VT (ours)",
    "decavg": "DecAvg common start (ours)",
    "cfa-1": "CFA ε=1 (ours)",
    "decdiff+vt .9": "DecDiff+VT β=.9 (ours)",
    "decdiff+vt .95": "DecDiff+VT β=.95 (ours)",
    "decdiff+linear": "DecDiff+linear (ours)",
}
COLOURS = {
    "centralised": "#111111",
    "isolation": "#8a8a8a",
    "fedavg": "#e69f00",
    "dechetero": "#0072b2",
    "cfa": "#009e73",
    "cfa-ge": "#8e44ad",
    "decdiff": "#ef8a7a",
    "decdiff+vt": "#c8102e",
    "dechetero+vt": "#0072b2",
    "decavg": "#56b4e9",
    "cfa-1": "#5fc9a5",
    "decdiff+vt .9": "#7a4b12",
    "decdiff+vt .95": "#b9770e",
    "decdiff+linear": "#d63384",
}


def _style(variant: str) -> dict[str, Any]:
    ours = "(ours)" in NAMES[variant]
    return {"color": COLOURS[variant], "ls": "--" if ours else "-", "label": NAMES[variant]}


def _by_set(tasks: Tasks) -> dict[str, dict[str, Arrays]]:
    """Runs by data set and variant."""
    found: dict[str, dict[str, Arrays]] = {}
    for name, arrays in tasks.items():
        dataset, _, variant = name.partition(" ")
        found.setdefault(dataset, {})[variant] = arrays
    return found


def _legend(figure: Figure) -> None:
    """One legend below all panels: each line once."""
    shown = {}
    for axis in figure.axes:
        handles, labels = axis.get_legend_handles_labels()
        shown |= dict(zip(labels, handles, strict=True))
    figure.legend(
        shown.values(), shown.keys(), loc="outside lower center", ncols=min(len(shown), 5),
        fontsize=9, frameon=False,
    )  # fmt: skip


def _band(axis: Any, at: np.ndarray, values: np.ndarray, **style: Any) -> None:
    """Mean over replicas [replicas, rounds], with its 95 % interval when there are several."""
    mean, half = metrics.confidence(values)
    axis.plot(at, mean, lw=1.7, **style)
    if len(values) > 1:
        axis.fill_between(at, mean - half, mean + half, color=style["color"], alpha=0.12, lw=0)


def _level(axis: Any, variant: str, found: Arrays) -> None:
    """Accuracy after the last round of what sends nothing, or has rounds of its own."""
    axis.axhline(found["accuracy"][:, -1].mean(), **{**_style(variant), "ls": ":"}, lw=1.6)


def _progress(tasks: Tasks) -> Figure:
    """Accuracy against rounds and bytes, and how far apart the nodes' models are."""
    sets = _by_set(tasks)
    figure, axes = panels(3 * len(sets), width=4.2, height=3.3, layout="constrained")
    for i, (name, runs) in enumerate(sets.items()):
        rounds, sent, apart = axes[3 * i : 3 * i + 3]
        for variant, found in runs.items():
            curve, at = found["accuracy"].mean(-1), found["rounds"]
            if variant == "centralised":
                _level(rounds, variant, found)
                _level(sent, variant, found)
                continue
            style = _style(variant)
            _band(rounds, at, curve, **style)
            if found["message_bytes"]:
                cost = metrics.traffic(at, int(found["message_bytes"]), int(found["messages"]))
                _band(sent, cost / 1e9, curve, **style)
            else:
                _level(sent, variant, found)
            if "consensus" in found:
                _band(apart, at, found["consensus"], **style)
        for axis in (rounds, sent):
            axis.set_ylabel("test accuracy, mean of the nodes")
            axis.set_ylim(0, 1)
        rounds.set_title(f"{SETS[name]}: accuracy by rounds", fontsize=10)
        sent.set_title(f"{SETS[name]}: accuracy by traffic", fontsize=10)
        apart.set_title(f"{SETS[name]}: how far apart the models are", fontsize=10)
        apart.set_ylabel("distance from their mean, relative")
        apart.set_yscale("log")
        for axis, label in (
            (rounds, "round"), (sent, "GB sent by the whole network"), (apart, "round")
        ):  # fmt: skip
            axis.set_xscale("log")
            axis.set_xlabel(label)
            axis.grid(alpha=0.25)
    _legend(figure)
    return figure


def _zigzag(found: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy of the first replica's nodes [steps, nodes]: begun, aggregated, trained, and on."""
    trained, rounds = found["accuracy"][0], found["rounds"].astype(float)
    at, values = rounds, trained
    if "aggregated_accuracy" in found:
        at = np.stack([rounds - 0.5, rounds], 1).ravel()
        both = np.stack([found["aggregated_accuracy"][0], trained], 1)
        values = both.reshape(-1, both.shape[-1])
    if "begun_accuracy" in found:
        at, values = np.r_[0, at], np.r_[found["begun_accuracy"][:1], values]
    return at, values


def _drop(tasks: Tasks) -> Figure:
    """Figure 1: what the first aggregation does to every node."""
    ((name, runs),) = _by_set(tasks).items()
    central = runs.pop("centralised", None)
    figure, axes = panels(
        max(len(runs), 1), width=4.4, height=3.4, most=2, layout="constrained", sharey=True
    )
    for axis, (variant, found) in zip(axes, runs.items(), strict=False):
        at, values = _zigzag(found)
        colour = COLOURS[variant]
        axis.plot(at, values, color=colour, lw=0.4, alpha=0.25)
        axis.plot(at, values.mean(1), color=colour, lw=2.2, label=f"{NAMES[variant]}: mean")
        told = NAMES[variant]
        if "aggregated_accuracy" in found and "begun_accuracy" in found:
            told += f": {values[0].mean():.2f} → {values[1].mean():.2f} at the first aggregation"
        axis.set_title(told, fontsize=10)
    for axis in axes[: max(len(runs), 1)]:
        if central is not None:
            at, values = _zigzag(central)
            axis.plot(at, values.mean(1), label="Centralised", color=COLOURS["centralised"])
        axis.set_ylim(0, 1)
        axis.set_xlabel("round (whole: after training, half: after aggregation)")
        axis.set_ylabel("test accuracy")
        axis.grid(alpha=0.25)
    _legend(figure)
    figure.suptitle(
        f"{SETS[name]}, i.i.d. rows: averaging models that began differently\n"
        "thin lines: single nodes; thick: their mean",
        fontsize=11,
    )
    return figure


def _graph(tasks: Tasks) -> Figure:
    """Figure 3: the graph, nodes by degree."""
    (found,) = tasks.values()
    graph = nx.Graph()
    graph.add_nodes_from(range(int(found["nodes"])))
    graph.add_edges_from(zip(found["src"].tolist(), found["dst"].tolist(), strict=True))
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
        f"The Erdős–Rényi graph of all runs: {len(degree)} nodes, {graph.number_of_edges()} links\n"
        f"neighbours: {degree.min()} to {degree.max()}, {degree.mean():.1f} on average",
        fontsize=11,
    )
    axis.axis("off")
    return figure


def _allocation(tasks: Tasks) -> Figure:
    """Figure 4: rows of each class at each node."""
    figure, axes = panels(len(tasks), width=5.2, height=3.4, layout="constrained")
    top = max(found["counts"].max() for found in tasks.values())
    for axis, (name, found) in zip(axes, tasks.items(), strict=False):
        counts = found["counts"]  # [nodes, classes]
        drawn = axis.imshow(
            np.maximum(counts, 0.5).T, norm=LogNorm(1, top), cmap="viridis", aspect="auto",
            interpolation="nearest",
        )  # fmt: skip
        if counts.shape[1] <= 12:
            axis.set_yticks(range(counts.shape[1]))
        axis.set_xlabel("node")
        axis.set_ylabel("class")
        axis.set_title(
            f"{SETS[name]}: Gini {found['gini'].mean():.2f} (classes), "
            f"{float(found['gini_of_totals']):.2f} (rows of a node)",
            fontsize=10,
        )
    figure.colorbar(drawn, ax=axes, label="rows (logarithmic)")
    figure.suptitle("Who holds what: most rows of a class lie on a few nodes", fontsize=11)
    return figure


def _losses(tasks: Tasks) -> Figure:
    """Figure 5: test loss against rounds, a panel a deal of the rows."""
    deals = [
        (name, runs, r)
        for name, runs in _by_set(tasks).items()
        for r in range(min(3, *(len(found["loss"]) for found in runs.values()), 3))
    ]
    figure, axes = panels(len(deals), width=4.2, height=3.4, layout="constrained")
    for axis, (name, runs, r) in zip(axes, deals, strict=False):
        for variant, found in runs.items():
            axis.plot(found["rounds"], found["loss"][r].mean(-1), lw=1.7, **_style(variant))
        gini = next(iter(runs.values()))["gini"][r]
        axis.set_title(f"{SETS[name]}, GI = {gini:.2f}", fontsize=10)
        axis.set_xlabel("round")
        axis.set_ylabel("test loss, mean of the nodes")
        axis.set_yscale("log")
        axis.grid(alpha=0.25, which="both")
    _legend(figure)
    figure.suptitle("Test loss: a curve that rises again is overfitting", fontsize=11)
    return figure


def _boxes(tasks: Tasks) -> Figure:
    """Figure 6: accuracy of single nodes after the last round."""
    sets = _by_set(tasks)
    figure, axes = panels(len(sets), width=4.4, height=3.6, layout="constrained")
    for axis, (name, runs) in zip(axes, sets.items(), strict=False):
        boxes = []
        for variant, found in runs.items():
            held = metrics.box(found["accuracy"][:, -1].reshape(-1))
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
        axis.set_title(f"{SETS[name]}, GI = {_gini(runs):.2f}", fontsize=10)
        axis.grid(alpha=0.25, axis="y")
    figure.suptitle("Accuracy of single nodes after the last round", fontsize=11)
    return figure


def _gini(runs: dict[str, Arrays]) -> float:
    return float(next(iter(runs.values()))["gini"].mean())


# How each item is drawn.
DRAW: dict[str, Callable[[Tasks], Figure]] = {
    "table-2": _progress,
    "table-3": _progress,
    "beta": _progress,
    "figure-1": _drop,
    "figure-3": _graph,
    "figure-4": _allocation,
    "figure-5": _losses,
    "figure-6": _boxes,
}
