"""Reliability diagrams: how often a model that says 80 % is right."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from peerwise.errors import BadData
from peerwise.metrics import Reliability
from peerwise.report.axes import legend_below
from peerwise.report.figures import panels

BESIDE = 3  # panels beside each other


def _bars(axis: Any, bins: Reliability) -> None:
    """Bars of each bin's accuracy, with its difference from the confidence."""
    left, width = bins.edges[:-1], np.diff(bins.edges)
    low, high = np.fmin(bins.accuracy, bins.confidence), np.fmax(bins.accuracy, bins.confidence)
    style = {"align": "edge", "lw": 0.5}
    axis.bar(left, low, width, color="#a9c4e4", edgecolor="white", **style)
    for name, colour, kind in (
        ("better than it believes", "#8cc4a5", bins.accuracy > bins.confidence),
        ("worse than it believes", "#e0958c", bins.accuracy < bins.confidence),
    ):
        height = np.where(kind, high - low, np.nan)
        axis.bar(
            left, height, width, low, label=name, color=colour, edgecolor="white", **style
        )  # fmt: skip
    axis.plot([0, 1], [0, 1], color="0.35", ls="--", lw=1, label="as it believes")
    # not clipped: a dot at 1, where many bins are, is half outside
    axis.plot(
        bins.confidence, bins.accuracy, "o", color="black", ms=3.5, clip_on=False, zorder=3,
        label="bin, at its means",
    )  # fmt: skip


def reliability_diagram(models: Mapping[str, Reliability]) -> Figure:
    """Accuracy against confidence, a panel a model; below it, the share of rows by confidence.

    The difference between a bin's accuracy and its confidence is green where the model is better
    than it believes, red where it is worse; its mean over rows is the ECE in the title.
    """
    if not models:
        raise BadData("there is no model to draw a reliability diagram of")
    figure, axes = panels(len(models), 3.5, 4.0, BESIDE, layout="constrained")
    # the layout leaves no room for what hangs below a panel
    figure.get_layout_engine().set(h_pad=0.14)
    for place, (axis, (name, bins)) in enumerate(zip(axes, models.items(), strict=False)):
        _bars(axis, bins)
        below = axis.inset_axes([0, -0.4, 1, 0.34], sharex=axis)
        share = bins.count / bins.count.sum()
        below.bar(
            bins.edges[:-1], share, np.diff(bins.edges), color="0.6", edgecolor="white",
            align="edge", lw=0.5,
        )  # fmt: skip
        axis.set_title(f"{name}\nECE {bins.ece:.3f}", fontsize=10)
        axis.set(xlim=(0, 1), ylim=(0, 1))
        axis.tick_params(labelbottom=False)
        below.set(xlabel="confidence", ylim=(0, 1.08 * share.max()))
        if place % BESIDE == 0:  # one label for panels beside each other
            axis.set_ylabel("accuracy")
            below.set_ylabel("share of rows", fontsize=8)
        for one in (axis, below):
            one.grid(alpha=0.25)
            one.set_axisbelow(True)
    legend_below(figure)
    return figure
