"""Figures of the BA-BFL experiments: the paper's, and barycenters over graphs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm

from peerwise.papers.ba_bfl.items import TOY
from peerwise.papers.items import Arrays
from peerwise.report.axes import finished, labelled
from peerwise.report.figures import panels
from peerwise.report.grid import half_width
from peerwise.study.results import Record

# Data sets as people write them.
SETS = {
    "fashion_mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "svhn_derived_20k": "SVHN (a subset)",
    "toy": "two Gaussians",
}

# Rules by the paper's names and our colours; what it has not is marked.
_STYLES = {
    "fedavg": ("FedAvg", "#111111"),
    "aalv": ("AALV", "#8a8a8a"),
    "eaa": ("EAA", "#009e73"),
    "gaa": ("GAA", "#e69f00"),
    "rkl": ("RKLB", "#c8102e"),
    "w2": ("WB", "#0072b2"),
    "kl": ("forward KL (ours)", "#8e44ad"),
    "gaa_normalised": ("GAA normalised (ours)", "#b9770e"),
    "rkl 2": ("RKLB, 2 Bayesian layers", "#c8102e"),
    "w2 2": ("WB, 2 Bayesian layers", "#0072b2"),
    "decavg": ("DecAvg, no Bayesian layer", "#111111"),
}
NAMES = {rule: name for rule, (name, _) in _STYLES.items()}
COLOURS = {rule: colour for rule, (_, colour) in _STYLES.items()}

# Networks from sparse to dense.
GRAPHS = {
    "tree": "tree",
    "ring": "ring",
    "er-0.3": "random, .3",
    "er-0.5": "random, .5",
    "complete": "complete",
}

# What is measured: as people write it, and as the head of a narrow column.
MEASURES = {
    "accuracy": ("accuracy", "accu-\nracy"),
    "ece": ("ECE (15 bins)", "ECE\n15"),
    "ece_fine": ("ECE (100 bins)", "ECE\n100"),
    "nll": ("NLL", "NLL"),
    "brier": ("Brier", "Brier"),
    "ood": ("AUROC of strange images", "OOD\nAUROC"),
    "seconds_a_round": ("seconds a round", "seconds\na round"),
    "local_mean": ("local models: mean accuracy", "local\nmean"),
    "local_worst": ("local models: worst 10 %", "local\nworst"),
    "own_mean": ("merged, own rows: mean", "own rows\nmean"),
    "own_worst": ("merged, own rows: worst 10 %", "own rows\nworst"),
}


def toy(records: Sequence[Record]) -> Figure:
    """Figure 1: the densities of the two Gaussians and of their barycenters."""
    figure, (axis,) = panels(1, width=10.0, height=4.4, layout="constrained")
    x = np.linspace(-3.5, 5.5, 600)
    for mean, variance in zip(*TOY[:2], strict=True):
        axis.fill_between(x, norm.pdf(x, mean, np.sqrt(variance)), color="0.85", lw=0)
        axis.plot(x, norm.pdf(x, mean, np.sqrt(variance)), color="0.6", lw=1)
    by: dict[str, dict[str, float]] = {}
    for r in records:
        by.setdefault(r.setting["rule"], {})[r.metric] = r.value or 0.0
    for rule, at in by.items():
        label = f"{NAMES[rule]}: mean {at['mean']:.2g}, variance {at['variance']:.4g}"
        broken = "--" if "(ours)" in NAMES[rule] else "-"
        density = norm.pdf(x, at["mean"], np.sqrt(at["variance"]))
        axis.plot(x, density, color=COLOURS[rule], ls=broken, label=label)
    title = "Barycenters of N(0, 1) and N(2, 1/4) (grey), weights 1/2"
    labelled(axis, title, size=11, grid="", xlabel="weight", ylabel="density")
    # beside the curves, which leave no corner free
    axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=9)
    return figure


def allocation(tasks: dict[str, Arrays]) -> Figure:
    """Figure 2: rows of each class at each node."""
    figure, axes = panels(len(tasks), width=4.0, height=3.4, layout="constrained")
    for axis, (name, by) in zip(axes, tasks.items(), strict=False):
        drawn = axis.imshow(by["counts"].T, cmap="viridis", aspect="auto")
        labelled(axis, SETS[name], grid="", xlabel="node", ylabel="class")
        figure.colorbar(drawn, ax=axis, label="rows")
    return figure


def _half(record: Record) -> float:
    """Half of a bar: the 95 % interval, or half the distance of two replicas, which give none."""
    if record.std is not None and record.reps == 2:
        return record.std / np.sqrt(2)
    return half_width(record) or 0.0


def _bars(records: Sequence[Record]) -> str:
    """What points and bars are."""
    many = max(r.reps for r in records)
    if many == 1:
        return "one replica: no bars"
    bars = "from one to the other" if many == 2 else "95 % interval"
    return f"points: mean of {many} replicas; bars: {bars}"


def _grid(records: Sequence[Record]) -> tuple[Figure, dict[tuple[str, str], Any]]:
    """A panel for each data set (columns) and measure (rows); of one set, measures as they fit."""
    measures = list(dict.fromkeys(r.metric for r in records))
    sets = list(dict.fromkeys(r.dataset for r in records))
    places = [(dataset, metric) for metric in measures for dataset in sets]
    beside = len(sets) if len(sets) > 1 else 2 if len(measures) in (2, 4) else 3
    figure, axes = panels(len(places), width=4.0, height=3.0, most=beside, layout="constrained")
    axis_of = dict(zip(places, axes, strict=False))
    measured = {(r.dataset, r.metric) for r in records}
    for place in [p for p in places if p not in measured]:
        axis_of.pop(place).set_visible(False)
    return figure, axis_of


def _points(axis: Any, at: Any, middle: Any, half: Any, variant: str, **style: Any) -> None:
    """Means with their bars, in the colour of a variant."""
    style |= {"color": COLOURS[variant], "label": NAMES[variant]}
    axis.errorbar(at, middle, half, marker="o", ms=4, capsize=2, **style)


def by_layers(records: Sequence[Record], title: str = "") -> Figure:
    """A measure against the number of Bayesian layers, a panel for each set and measure."""
    figure, axis_of = _grid(records)
    for (dataset, metric), axis in axis_of.items():
        here = [r for r in records if (r.dataset, r.metric) == (dataset, metric)]
        for rule in dict.fromkeys(r.setting["rule"] for r in here):
            points = sorted(
                (r.setting["layers"], r.value, _half(r)) for r in here if r.setting["rule"] == rule
            )
            at, middle, half = (np.array(a, float) for a in zip(*points, strict=True))
            # rules beside each other, so that intervals can be told apart
            shift = 0.04 * (list(COLOURS).index(rule) - 3) if rule != "fedavg" else 0
            _points(axis, at + shift, middle, half, rule, lw=1.2)
        axis.set_xticks(range(4))
        axis.set(xlabel="Bayesian layers (0: FedAvg)", ylabel=MEASURES[metric][0])
        labelled(axis, SETS[dataset])
        if metric == "seconds_a_round":
            # a cost: how many times as much is what matters
            axis.set_ylim(0, 1.1 * axis.get_ylim()[1])
    return finished(figure, title or _bars(records).capitalize())


def paces(records: Sequence[Record]) -> Figure:
    """Seconds of a round by the number of Bayesian layers."""
    return by_layers(records, "Seconds of a round, median of three times")


def longer(records: Sequence[Record]) -> Figure:
    """What the claims are about; the table has the rest."""
    shown = [r for r in records if r.metric in ("accuracy", "ece_fine", "nll")]
    return by_layers(shown, f"Five times as much training as in table 1; {_bars(shown)}")


def graphs(records: Sequence[Record]) -> Figure:
    """Calibration and accuracy of neighbourhoods' barycenters, from sparse to dense graphs."""
    measures = list(dict.fromkeys(r.metric for r in records))
    figure, axes = panels(len(measures), width=4.2, height=3.4, most=2, layout="constrained")
    places = [
        (g, q) for q in (1.0, 0.3) for g in GRAPHS
        if any((r.setting["graph"], r.setting["q"]) == (g, q) for r in records)
    ]  # fmt: skip
    names = [GRAPHS[g].replace(", ", "\n") + ("" if q == 1 else f"\nq = {q:g}") for g, q in places]
    for axis, metric in zip(axes, measures, strict=False):
        for variant in dict.fromkeys(r.setting["variant"] for r in records):
            by = {
                (r.setting["graph"], r.setting["q"]): r
                for r in records
                if r.metric == metric and r.setting["variant"] == variant
            }
            at = [i for i, place in enumerate(places) if place in by]
            middle = [by[places[i]].value for i in at]
            half = [_half(by[places[i]]) for i in at]
            _points(axis, at, middle, half, variant, lw=0, elinewidth=1)
        axis.set_xticks(range(len(places)), names, fontsize=8)
        labelled(axis, ylabel=MEASURES[metric][0])
    return finished(
        figure,
        f"Fashion-MNIST, 10 nodes: models merged with the neighbours'; {_bars(records)}\n"
        "random, .3: each link there with probability .3; q: share of messages that arrive",
    )
