"""Numbers of the Gossip-NB experiments."""

from collections.abc import Iterator

import numpy as np

from peerwise.papers.gossip_nb.items import EPSILONS
from peerwise.papers.items import Number, View

_FEDERATED, _GOSSIP = {"method": "federated_nb"}, {"method": "gossip_nb"}


def accuracies(view: View) -> Iterator[Number]:
    """Of runs that hold accuracies [epsilons, trials], and one without noise."""
    for fields, arrays in view.runs:
        if "accuracy" in arrays:
            for epsilon, values in zip(EPSILONS, arrays["accuracy"], strict=True):
                of = {**_FEDERATED, "variant": fields["variant"], "epsilon": epsilon}
                yield Number(fields["dataset"], "accuracy", values, of)
        if "vanilla" in arrays:
            of = {**_FEDERATED, "variant": "vanilla", "epsilon": "none"}
            yield Number(fields["dataset"], "accuracy", arrays["vanilla"][:1], of)


def sensitivities(view: View) -> Iterator[Number]:
    """The median sensitivity, by size of the network."""
    for fields, arrays in view.runs:
        for n, quantiles in arrays.items():
            of = {**_FEDERATED, "nodes": int(n[1:])}
            yield Number(fields["dataset"], "median_sensitivity", quantiles[50], of)


def thresholds(view: View) -> Iterator[Number]:
    """Accuracy with the best node, with all, and with the best number of nodes."""
    for fields, arrays in view.runs:
        accuracy = arrays["accuracy"]
        last = [row[~np.isnan(row)][-1] for row in accuracy]
        best = np.nanmax(accuracy, axis=1)
        for kept, values in (("1", accuracy[:, 0]), ("all", last), ("best", best)):
            yield Number(fields["dataset"], "accuracy", values, {**_FEDERATED, "kept": kept})


def gossip(view: View) -> Iterator[Number]:
    """The nodes' median accuracy at some iterations, and Federated's."""
    for fields, arrays in view.runs:
        name, median = fields["dataset"], arrays["accuracy"][..., 1]
        of = {"counter": fields["counter"], "epsilon": fields["epsilon"]}
        for t in sorted({1, 5, 10, 30, 50, 100} & set(range(1, median.shape[1] + 1))):
            yield Number(name, "accuracy", median[:, t - 1], {**_GOSSIP, **of, "round": t})
        if fields["counter"] in ("printed", "clamped"):  # the others add up what "printed" does
            at = {**_FEDERATED, **of, "round": "Federated"}
            yield Number(name, "accuracy", arrays["federated"], at)


def parameters(view: View) -> Iterator[Number]:
    """How far parameters are from Federated's at some iterations: the median, relatively."""
    for fields, arrays in view.runs:
        for kind in [k for k in ("prior", "category", "mean", "std") if k in arrays]:
            apart = arrays[f"apart_{kind}"]
            rounds = apart.shape[1]
            for t in sorted(t for t in {10, 30, rounds} if t <= rounds):
                of = {**_GOSSIP, "parameter": kind, "epsilon": fields["epsilon"], "round": t}
                yield Number(fields["dataset"], "deviation", apart[:, t - 1], of)


def clamping(view: View) -> Iterator[Number]:
    """Accuracies, and how far the statistics of rare events drift."""
    yield from accuracies(view)
    for fields, arrays in view.runs:
        if "exact" in arrays:
            rare = arrays["exact"] < np.quantile(arrays["exact"], 0.25)
            for kind in ("plain", "clamped"):
                drift = (arrays[kind] - arrays["exact"])[rare].mean()
                of = {**_FEDERATED, "where": kind, "nodes": 1000, "epsilon": 1.0}
                yield Number(fields["dataset"], "bias", drift, of)


def attacks(view: View) -> Iterator[Number]:
    """Accuracy by rule, kind of attack and share of attackers."""
    for fields, arrays in view.runs:
        for i, accuracy in enumerate(arrays["accuracy"]):
            of: dict[str, object] = {
                k: arrays[k][i].item() for k in ("rule", "kind", "share") if k in arrays
            }
            over = {"std": float(arrays["std"][i]), "reps": int(arrays["trials"][i])}
            setting = {**of, **_FEDERATED, "epsilon": fields["epsilon"]}
            yield Number(fields["dataset"], "accuracy", accuracy, setting, over)
