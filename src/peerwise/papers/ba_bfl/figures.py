"""Figures of the BA-BFL experiments: the paper's, and barycenters over graphs."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import norm

from peerwise import metrics
from peerwise.papers.ba_bfl.items import GRAPHS, SETTINGS
from peerwise.papers.figures import bars, points
from peerwise.papers.items import View
from peerwise.report.axes import finished, labelled
from peerwise.report.figures import panels
from peerwise.report.reliability import reliability_diagram
from peerwise.study.results import Record

# What is measured, as people write it.
MEASURES = {
    "ece": "ECE (15 bins)",
    "ece_fine": "ECE (100 bins)",
    "nll": "NLL",
    "brier": "Brier",
    "ood": "AUROC of strange images",
    "seconds_a_round": "seconds a round",
    "local_mean": "local models: mean accuracy",
    "local_worst": "local models: worst 10 %",
    "own_mean": "merged, own rows: mean",
    "own_worst": "merged, own rows: worst 10 %",
}


TITLES = {
    "longer": "Five times as much training as in table 1; ",
    "figure-4": "Seconds of a round, median of three times; ",
}


def _style(rule: str) -> dict[str, Any]:
    of = SETTINGS["variants"][rule]
    return {"color": of["colour"], "label": of["label"], "lw": 1.2}


def toy(view: View) -> Figure:
    """Figure 1: the densities of the two Gaussians and of their barycenters."""
    figure, (axis,) = panels(1, width=10.0, height=4.4, layout="constrained")
    x = np.linspace(-3.5, 5.5, 600)
    for mean, variance in zip(*SETTINGS["toy"][:2], strict=True):
        axis.fill_between(x, norm.pdf(x, mean, np.sqrt(variance)), color="0.85", lw=0)
        axis.plot(x, norm.pdf(x, mean, np.sqrt(variance)), color="0.6", lw=1)
    by: dict[str, dict[str, float]] = {}
    for r in view.records:
        by.setdefault(r.setting["rule"], {})[r.metric] = r.value or 0.0
    for rule, at in by.items():
        style, broken = _style(rule), "--" if "(ours)" in _style(rule)["label"] else "-"
        label = f"{style['label']}: mean {at['mean']:.2g}, variance {at['variance']:.4g}"
        density = norm.pdf(x, at["mean"], np.sqrt(at["variance"]))
        axis.plot(x, density, **{**style, "label": label}, ls=broken)
    title = "Barycenters of N(0, 1) and N(2, 1/4) (grey), weights 1/2"
    labelled(axis, title, size=11, grid="", xlabel="weight", ylabel="density")
    # beside the curves, which leave no corner free
    axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=9)
    return figure


def _place(record: Record) -> float:
    """Rules beside each other, so that intervals can be told apart."""
    rule = record.setting["rule"]
    return record.setting["layers"] + (
        0.04 * (list(SETTINGS["variants"]).index(rule) - 3) if rule != "fedavg" else 0
    )


def by_layers(view: View) -> Figure | None:
    """A measure against the number of Bayesian layers, a panel for each set and measure."""
    claimed = ("accuracy", "ece_fine", "nll")  # of the longer runs; the table has the rest
    records = [r for r in view.records if view.name != "longer" or r.metric in claimed]
    if not records:
        return None
    measures, sets = (list(dict.fromkeys(of)) for of in (
        (r.metric for r in records), (r.dataset for r in records)))  # fmt: skip
    places = [(dataset, metric) for metric in measures for dataset in sets]
    beside = len(sets) if len(sets) > 1 else 2 if len(measures) in (2, 4) else 3
    figure, axes = panels(len(places), width=4.0, height=3.0, most=beside, layout="constrained")
    for axis, (dataset, metric) in zip(axes, places, strict=False):
        here = [r for r in records if (r.dataset, r.metric) == (dataset, metric)]
        axis.set_visible(bool(here))
        points(axis, here, lambda r: r.setting["rule"], _place, _style)
        axis.set_xticks(range(4))
        axis.set(xlabel="Bayesian layers (0: FedAvg)", ylabel=MEASURES.get(metric, metric))
        labelled(axis, view.title("dataset", dataset))
        if metric == "seconds_a_round":
            # a cost: how many times as much is what matters
            axis.set_ylim(0, 1.1 * axis.get_ylim()[1])
    title = f"{TITLES.get(view.name, '')}{bars(records)}"
    return finished(figure, title[0].upper() + title[1:])


def reliability(view: View) -> Figure | None:
    """Accuracy by confidence, a panel a run, means of replicas; runs without bins are left out."""
    drawn = {
        _about(view, run.fields): metrics.binned(run.arrays["bins"].mean(0))
        for run in view.runs
        if "bins" in run.arrays
    }
    return reliability_diagram(drawn) if drawn else None


def _about(view: View, fields: dict[str, Any]) -> str:
    """What a run is, in the title of its panel."""
    if "prior" in fields:
        prior = view.title("prior", fields["prior"])
        bare = fields["prior"] == "fedavg"
        return prior if bare else f"{prior}, temperature {fields['temperature']:g}"
    layers = f", {fields['layers']} Bayesian" if fields["layers"] else ""
    return (
        f"{view.title('dataset', fields['dataset'])}: {view.title('rule', fields['rule'])}{layers}"
    )


def graphs(view: View) -> Figure | None:
    """Calibration and accuracy of neighbourhoods' barycenters, from sparse to dense graphs."""
    if not view.records:
        return None
    measures = list(dict.fromkeys(r.metric for r in view.records))
    run = {(r.setting["graph"], r.setting["q"]) for r in view.records}
    places = [(g, q) for q in (1.0, 0.3) for g in GRAPHS if (g, q) in run]
    figure, axes = panels(len(measures), width=4.2, height=3.4, most=2, layout="constrained")
    names = [view.title("graph", g).replace(", ", "\n") + ("" if q == 1 else f"\nq = {q:g}")
             for g, q in places]  # fmt: skip

    def at(record: Record) -> float:
        return places.index((record.setting["graph"], record.setting["q"]))

    def dots(variant: str) -> dict[str, Any]:
        return {**_style(variant), "lw": 0, "elinewidth": 1}

    for axis, metric in zip(axes, measures, strict=False):
        here = [r for r in view.records if r.metric == metric]
        points(axis, here, lambda r: r.setting["variant"], at, dots)
        axis.set_xticks(range(len(places)), names, fontsize=8)
        labelled(axis, ylabel=MEASURES.get(metric, metric))
    return finished(
        figure,
        f"Fashion-MNIST, 10 nodes: models merged with the neighbours'; {bars(view.records)}\n"
        "random, .3: each link there with probability .3; q: share of messages that arrive",
    )
