"""Numbers of the BA-BFL experiments.

The numbers of the paper's table 1 are not in the text at hand: its claims are what is compared.
"""

from collections.abc import Iterator
from typing import Any

from peerwise import metrics
from peerwise.combine.barycenter import barycenter_of
from peerwise.papers.ba_bfl.items import SETTINGS
from peerwise.papers.items import Arrays, Number, View

DIVERGENCES = ("rkl", "w2", "kl", "eaa", "gaa", "gaa_normalised", "aalv")  # of figure 1
_QUALITY = ("accuracy", "ece_fine", "ece", "nll", "brier", "ood")


def toy(view: View) -> Iterator[Number]:
    """Figure 1: the barycenters of N(0, 1) and N(2, 1/4)."""
    for rule in DIVERGENCES:
        for which, value in zip(
            ("mean", "variance"), barycenter_of(rule, *SETTINGS["toy"]), strict=True
        ):
            yield Number("toy", which, value, {"rule": rule})


def _measures(arrays: Arrays) -> dict[str, Any]:
    """Of the last round: the merged models' quality and the local ones' fairness; or its time."""
    if "accuracy" not in arrays:
        return {"seconds_a_round": arrays.get("seconds", arrays["seconds_a_round"])}
    merged = ("accuracy", "ece", "ece_fine", "nll", "brier")
    read: dict[str, Any] = {name: arrays[name][:, -1].mean(-1) for name in merged}
    for whose in ("local", "own"):
        fair = metrics.fairness(arrays[f"{whose}_accuracy"][:, -1], arrays["sizes"])
        read |= {f"{whose}_mean": fair.mean, f"{whose}_worst": fair.worst}
    if "bins" in arrays:
        read["confidence"] = arrays["bins"][..., 1].sum(1)
    return {**read, **({"ood": arrays["ood"]} if "ood" in arrays else {})}


def runs(view: View) -> Iterator[Number]:
    """What an item shows of each run."""
    for fields, arrays in view.runs:
        setting = {k: v for k, v in fields.items() if k != "dataset"}
        measures, shown = _measures(arrays), {}
        if "accuracy" not in arrays:  # one replica, timed several times
            shown = {"value": float(arrays["seconds_a_round"]), "std": None, "reps": 1}
        for metric in SETTINGS["items"][view.name].get("shown", _QUALITY):
            if metric in measures:
                yield Number(fields["dataset"], metric, measures[metric], setting, shown)
