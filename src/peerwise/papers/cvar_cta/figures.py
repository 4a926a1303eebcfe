"""Figures of the CVaR-CTA experiments: figure 2 with worst nodes and classes, and our own."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from peerwise.papers.cvar_cta.items import ALPHA, SETTINGS
from peerwise.papers.cvar_cta.report import stage_of
from peerwise.papers.figures import Line, Panel, curves, points
from peerwise.papers.items import View
from peerwise.report.axes import finished, labelled
from peerwise.report.figures import panels
from peerwise.study.results import Record

COLOURS = {"cta": "#0072b2", "average-cvar": "#e69f00", "cvar-cvar": "#c8102e",
           "decdiff+vt": "#8e44ad", "crc": "#009e73"}  # fmt: skip
HARD = (0, (6, 1.5, 1, 1.5, 1, 1.5))  # a line of its own beside the dots of ATC
# What a band says, by runs; with one there is none.
BANDS = {1: "one run: no band", 2: "band: between the two runs"}
BAND = "band: 95 % interval of the mean"
_PLACE = ("dataset", "graph", "q")


def _style(variant: str) -> dict[str, Any]:
    """A method has one colour; controls and what is ours are broken lines, each in its way."""
    method = variant.split()[0].removesuffix("/a")
    name = SETTINGS["variants"][variant]["label"]
    broken = "-." if "/a" in variant else "--" if "control" in name else "-"
    broken = ":" if "(ours)" in name else broken
    line: Any = HARD if variant.endswith(" hard") else broken
    return {"color": COLOURS[method], "ls": line, "label": name,
            "alpha": 0.55 if "small" in variant else 1.0}  # fmt: skip


def _where(view: View, place: tuple[Any, ...]) -> str:
    named = [view.title(key, value) for key, value in zip(_PLACE, place, strict=False)]
    return f"{named[0]}, {named[1]}, q = {named[2]}"


def _runs(many: int) -> str:
    return "1 run" if many == 1 else f"{many} runs"


def progress(view: View) -> Figure:
    """Mean and worst node against rounds, accuracy by class in the end, and spread of models."""
    shown, most = [], 1
    for place, runs in view.by(*_PLACE).items():
        lines: dict[str, list[Line]] = {name: [] for name in ("mean", "worst", "class", "apart")}
        for fields, arrays in runs:
            stage, style = stage_of(fields["variant"]), _style(fields["variant"])
            at, accuracy = arrays["rounds"], arrays[f"{stage}accuracy"]
            classes = arrays[f"{stage}class_accuracy"][:, -1]
            lines["mean"].append(Line(at, accuracy.mean(-1), style))
            lines["worst"].append(Line(at, accuracy.min(-1), style))
            lines["class"].append(Line(np.arange(classes.shape[1]), classes, style))
            lines["apart"].append(Line(at, arrays[f"{stage}consensus"], style))
        many = max(len(run.arrays["accuracy"]) for run in runs)
        most = max(many, most)
        of: dict[str, Any] = {"xlabel": "round", "ylim": (0, 1), "ylabel": "test accuracy"}
        by_class = {**of, "xlabel": "class", "xticks": range(0, 10, 3)}
        far = {"xlabel": "round", "ylabel": "distance from\ntheir mean / its norm"}
        shown += [
            Panel(f"{_where(view, place)} ({_runs(many)}): mean of nodes", lines["mean"], of),
            Panel("worst node", lines["worst"], of),
            Panel("by class, after the last round", lines["class"], by_class),
            Panel("spread of models", lines["apart"], {**far, "yscale": "log"}),
        ]
    band = BANDS[1] if most == 1 else f"line: mean of runs, {BANDS.get(most, BAND)}"
    title = f"Rows sorted by class and cut; q: probability of arrival; {band}"
    return curves(shown, title, 4.0, 3.4, 4)


def alphas(view: View) -> Figure:
    """Accuracy after the last round against alpha."""

    def split(record: Record) -> tuple[str, float]:
        method, _, alpha = record.setting["variant"].partition(" ")
        return method, float(alpha or ALPHA)

    accuracies = [r for r in view.records if r.metric == "accuracy"]
    places = dict.fromkeys((r.dataset, r.setting["graph"], r.setting["q"]) for r in accuracies)
    figure, axes = panels(len(places), 4.6, 3.6, layout="constrained", sharey=True)
    for axis, place in zip(axes, places, strict=False):
        here = [r for r in accuracies if (r.dataset, r.setting["graph"], r.setting["q"]) == place]
        points(axis, here, lambda r: split(r)[0], lambda r: split(r)[1], _style)
        labelled(axis, _where(view, place), xlim=(0, 1), ylim=(0, 1))
        axis.set(xlabel="α, the share of worst losses", ylabel="test accuracy, mean of nodes")
        axis.label_outer()
    return finished(figure)


def rare(view: View) -> Figure:
    """Accuracy on the class that only the seldom heard node has, and on all."""
    graphs = view.by("graph")
    figure, axes = panels(len(graphs), width=5.2, height=4.4, layout="constrained", sharey=True)
    for axis, ((graph,), runs) in zip(axes, graphs.items(), strict=False):
        at = np.arange(len(runs))
        its_class = [a["class_accuracy_of_others"][:, -1, 0] for _, a in runs]
        whole = [a["accuracy"][:, -1, 1:].mean(-1) for _, a in runs]
        for shift, values, label, colour in (
            (-0.2, its_class, "the class that only node 0 holds", "#c8102e"),
            (0.2, whole, "all classes", "#9aa0a6"),
        ):
            axis.bar(at + shift, [v.mean() for v in values], 0.38, color=colour, label=label)
            for x, v in zip(at + shift, values, strict=True):
                axis.plot(np.full(len(v), x), v, ".", color="black", ms=3)
        names = [view.title("variant", run.fields["variant"]) for run in runs]
        axis.set_xticks(at, names, rotation=35, ha="right", fontsize=9)
        axis.set(ylabel="test accuracy of the other nodes", ylim=(0, 1))
        labelled(axis, view.title("graph", graph), grid="y")
        axis.label_outer()
    title = "MNIST: node 0 alone has a class and is heard with probability .05 (points: runs)"
    return finished(figure, title)


def losses(view: View) -> Figure:
    """Gap of CRC and accuracy of DecDiff against the share of messages that is lost."""
    shown = []
    for crc, title, y in (
        (True, "CRC, naive Bayes", "test error of CRC above RC"),
        (False, "DecDiff+VT, a hidden layer of 64", "test accuracy of DecDiff+VT"),
    ):
        lines = []
        for (name, graph, variant), runs in view.by("dataset", "graph", "variant").items():
            if variant.startswith("crc") is not crc:
                continue
            runs.sort(key=lambda run: run.fields["lost"])
            read = [a["gap"] if crc else a["accuracy"][:, -1] for _, a in runs]
            text = f"{view.title('dataset', name)}, {view.title('graph', graph)}, "
            style = {"color": {"tree": "#7a4b12", "erdos_renyi": "#1f5fa8"}[graph],
                     "ls": "--" if variant == "crc 64" else "-",
                     "label": text + view.title("variant", variant)}  # fmt: skip
            lost = np.array([run.fields["lost"] for run in runs])
            lines.append(Line(lost, np.stack([v.mean(-1) for v in read], 1), style))
        if lines:
            many = len(lines[0].values)
            text = f"{title} ({_runs(many)}; {BANDS.get(many, BAND)})"
            of = {"xlabel": "share of messages lost", "ylabel": y}
            shown.append(Panel(text, lines, {**of, "ylim": (0, None)} if crc else of))
    title = "What loss does: 50 nodes, every link by itself, anew in every round"
    return curves(shown, title, 5.0, 3.9)
