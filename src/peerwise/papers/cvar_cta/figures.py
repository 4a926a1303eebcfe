"""Figures of the CVaR-CTA experiments: figure 2 with worst nodes and classes, and our own."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from peerwise import metrics
from peerwise.papers.cvar_cta.items import ALPHA, SWEEP, stage_of
from peerwise.papers.items import Arrays, Done
from peerwise.report.axes import band, finished, labelled, plain_numbers
from peerwise.report.figures import panels

Place = tuple[str, str, float]  # data set, graph and arrival probability

# Data sets as people write them.
SETS = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "letter": "letter", "digits": "digits"}

# Graphs as people write them.
GRAPHS = {
    "line": "line of 5",
    "ring": "ring of 20",
    "erdos_renyi": "random graph",
    "tree": "random tree",
}

# The paper's names; what it has not is marked.
NAMES = {
    "cta": "CTA",
    "cta/a": "CTA, step/α (control)",
    "average-cvar": "Average-CVaR",
    "cvar-cvar": "CVaR-CVaR",
    "cta small": "CTA η=.0001 (control)",
    "cta/a small": "CTA η=.0001/α (control)",
    "cvar-cvar small": "CVaR-CVaR η=.0001",
    "cta atc": "CTA, ATC (ours)",
    "average-cvar atc": "Average-CVaR, ATC (ours)",
    "cvar-cvar atc": "CVaR-CVaR, ATC (ours)",
    "average-cvar hard": "Average-CVaR, hard (ours)",
    "cvar-cvar hard": "CVaR-CVaR, hard (ours)",
    "decdiff+vt": "DecDiff+VT",
    "crc equal": "CRC",
    "crc worst": "CRC, worst soft errors (ours)",
    "crc 64": "CRC, 64 rounds",
    "crc 256": "CRC, 256 rounds",
    **{f"cta/a {a}": f"CTA, step/{a:g} (control)" for a in SWEEP},
    **{f"average-cvar {a}": f"Average-CVaR α={a:g}" for a in SWEEP},
    **{f"cvar-cvar {a}": f"CVaR-CVaR α={a:g}" for a in SWEEP},
}
COLOURS = {"cta": "#0072b2", "average-cvar": "#e69f00", "cvar-cvar": "#c8102e",
           "decdiff+vt": "#8e44ad", "crc": "#009e73"}  # fmt: skip
HARD = (0, (6, 1.5, 1, 1.5, 1, 1.5))  # a line of its own beside the dots of ATC
# What a band says, by runs; with one there is none.
BANDS = {1: "one run: no band", 2: "band: between the two runs"}
BAND = "band: 95 % interval of the mean"


def _style(variant: str) -> dict[str, Any]:
    """A method has one colour; controls and what is ours are broken lines, each in its way."""
    method = variant.split()[0].removesuffix("/a")
    name = NAMES[variant]
    broken = "-." if "/a" in variant else "--" if "control" in name else "-"
    broken = ":" if "(ours)" in name else broken
    line: Any = HARD if variant.endswith(" hard") else broken
    return {"color": COLOURS[method], "ls": line, "label": name,
            "alpha": 0.55 if "small" in variant else 1.0}  # fmt: skip


def by_variant(tasks: Done) -> Iterator[tuple[Place, str, Arrays]]:
    """Place and variant of every run, with what it gave."""
    for name, arrays in tasks.items():
        where, _, variant = name.partition("|")
        dataset, graph, q = where.split()
        yield (dataset, graph, float(q)), variant, arrays


def _by_place(tasks: Done) -> dict[Place, dict[str, Arrays]]:
    """Runs by data set, graph and arrival probability, and variant."""
    places: dict[Place, dict[str, Arrays]] = {}
    for place, variant, arrays in by_variant(tasks):
        places.setdefault(place, {})[variant] = arrays
    return places


def _runs(many: int) -> str:
    return "1 run" if many == 1 else f"{many} runs"


def progress(tasks: Done) -> Figure:
    """Mean and worst node against rounds, accuracy by class in the end, and spread of models."""
    places = _by_place(tasks)
    most = max(len(arrays["accuracy"]) for arrays in tasks.values())
    figure, axes = panels(4 * len(places), width=4.0, height=3.4, most=4, layout="constrained")
    for i, ((dataset, graph, q), runs) in enumerate(places.items()):
        mean, worst, by_class, apart = axes[4 * i : 4 * i + 4]
        for variant, arrays in runs.items():
            stage, style = stage_of(variant), _style(variant)
            at, accuracy = arrays["rounds"], arrays[f"{stage}accuracy"]
            band(mean, at, accuracy.mean(-1), **style)
            band(worst, at, accuracy.min(-1), **style)
            classes = arrays[f"{stage}class_accuracy"][:, -1].mean(0)
            by_class.plot(np.arange(len(classes)), classes, marker=".", lw=1, **style)
            band(apart, at, arrays[f"{stage}consensus"], log=True, **style)
        many = max(len(arrays["accuracy"]) for arrays in runs.values())
        where = f"{SETS[dataset]}, {GRAPHS[graph]}, q = {q:g}"
        of_accuracy: dict[str, Any] = {"ylim": (0, 1), "ylabel": "test accuracy"}
        labelled(mean, f"{where} ({_runs(many)}): mean of nodes", xlabel="round", **of_accuracy)
        labelled(worst, "worst node", xlabel="round", **of_accuracy)
        labelled(by_class, "by class, after the last round", xlabel="class", **of_accuracy)
        by_class.set_xticks(np.arange(0, 10, 3))
        far = "distance from\ntheir mean / its norm"
        labelled(apart, "spread of models", xlabel="round", ylabel=far, yscale="log")
        plain_numbers(apart.yaxis)
    shown = BANDS[1] if most == 1 else f"line: mean of runs, {BANDS.get(most, BAND)}"
    return finished(figure, f"Rows sorted by class and cut; q: probability of arrival; {shown}")


def alphas(tasks: Done) -> Figure:
    """Accuracy after the last round against alpha."""
    places = _by_place(tasks)
    figure, axes = panels(len(places), width=4.6, height=3.6, layout="constrained", sharey=True)
    for axis, ((dataset, graph, q), runs) in zip(axes, places.items(), strict=False):
        for method in ("cta/a", "average-cvar", "cvar-cvar"):
            at, middle, half = [], [], []
            for alpha in sorted((*SWEEP, ALPHA)):
                arrays = runs.get(method if alpha == ALPHA else f"{method} {alpha}")
                if arrays is not None:
                    values = arrays["accuracy"][:, -1].mean(-1)
                    mean, more = metrics.confidence(values)
                    at.append(alpha)
                    middle.append(float(mean))
                    # an interval of two runs says nothing: half their distance
                    half.append(float(more) if len(values) > 2 else float(np.ptp(values)) / 2)
            style = _style(method)
            axis.errorbar(at, middle, half, marker="o", ms=4, capsize=3, **style)
        labelled(axis, f"{SETS[dataset]}, {GRAPHS[graph]}, q = {q:g}", xlim=(0, 1), ylim=(0, 1))
        axis.set(xlabel="α, the share of worst losses", ylabel="test accuracy, mean of nodes")
        axis.label_outer()
    return finished(figure)


def rare(tasks: Done) -> Figure:
    """Accuracy on the class that only the seldom heard node has, and on all."""
    graphs = list(dict.fromkeys(name.partition("|")[0] for name in tasks))
    figure, axes = panels(len(graphs), width=5.2, height=4.4, layout="constrained", sharey=True)
    for axis, graph in zip(axes, graphs, strict=False):
        runs = {n.partition("|")[2]: a for n, a in tasks.items() if n.startswith(f"{graph}|")}
        at = np.arange(len(runs))
        its_class = [a["class_accuracy_of_others"][:, -1, 0] for a in runs.values()]
        whole = [a["accuracy"][:, -1, 1:].mean(-1) for a in runs.values()]
        for shift, values, label, colour in (
            (-0.2, its_class, "the class that only node 0 holds", "#c8102e"),
            (0.2, whole, "all classes", "#9aa0a6"),
        ):
            axis.bar(at + shift, [v.mean() for v in values], 0.38, color=colour, label=label)
            for x, v in zip(at + shift, values, strict=True):
                axis.plot(np.full(len(v), x), v, ".", color="black", ms=3)
        axis.set_xticks(at, [NAMES[v] for v in runs], rotation=35, ha="right", fontsize=9)
        axis.set(ylabel="test accuracy of the other nodes", ylim=(0, 1))
        labelled(axis, GRAPHS[graph], grid="y")
        axis.label_outer()
    title = "MNIST: node 0 alone has a class and is heard with probability .05 (points: runs)"
    return finished(figure, title)


def losses(tasks: Done) -> Figure:
    """Gap of CRC and accuracy of DecDiff against the share of messages that is lost."""
    figure, (gaps, accuracies) = panels(2, width=5.0, height=3.7, layout="constrained")
    lines: dict[tuple[str, str, str], list[tuple[float, np.ndarray]]] = {}
    runs_of: dict[Any, int] = {}
    for (dataset, graph, q), runs in _by_place(tasks).items():
        for variant, arrays in runs.items():
            values = arrays["gap"] if "gap" in arrays else arrays["accuracy"][:, -1]
            lines.setdefault((dataset, graph, variant), []).append((1 - q, values.mean(-1)))
    for (dataset, graph, variant), points in lines.items():
        points.sort(key=lambda point: point[0])
        lost = np.array([p[0] for p in points])
        values = np.stack([p[1] for p in points], 1)  # [runs, losses]
        crc = variant.startswith("crc")
        colour = {"tree": "#7a4b12", "erdos_renyi": "#1f5fa8"}[graph]
        text = f"{SETS[dataset]}, {GRAPHS[graph]}" + (f", {NAMES[variant][5:]}" if crc else "")
        axis, broken = gaps if crc else accuracies, "--" if variant == "crc 64" else "-"
        band(axis, lost, values, color=colour, ls=broken, label=text)
        runs_of[axis] = len(values)
    for axis, title, y in (
        (gaps, "CRC, naive Bayes", "test error of CRC above RC"),
        (accuracies, "DecDiff+VT, a hidden layer of 64", "test accuracy of DecDiff+VT"),
    ):
        many = runs_of.get(axis)
        text = f" ({_runs(many)}; {BANDS.get(many, BAND)})" if many else ""
        labelled(axis, f"{title}{text}", xlabel="share of messages lost", ylabel=y)
        if axis.lines:
            axis.legend(fontsize=8, frameon=False)
        else:
            axis.text(0.5, 0.5, "not run yet", ha="center", transform=axis.transAxes)
    gaps.set_ylim(bottom=0)
    figure.suptitle("What loss does: 50 nodes, every link by itself, anew in every round")
    return figure
