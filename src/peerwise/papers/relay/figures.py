"""The figure of the relay experiments."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from peerwise.papers.items import View
from peerwise.papers.relay.items import DEALT, GRAPHS
from peerwise.papers.relay.report import compared, gap_at, references
from peerwise.report.axes import finished, labelled
from peerwise.report.figures import panels

COLOURS = {"crc": "#e69f00", "metropolis": "#0072b2", "tracking": "#8e44ad", "relay": "#c8102e"}


def curves(view: View) -> Figure:
    """Gap against rounds: a row of panels for each network, a column for each way of dealing."""
    figure, axes = panels(len(GRAPHS) * len(DEALT), 2.7, 2.4, len(DEALT), sharex=True, sharey=True)
    axis_of: dict[Any, Any] = dict(
        zip([(graph, way) for graph in GRAPHS for way in DEALT], axes, strict=True)
    )
    rc = references(view)
    for (graph, way, method), runs in view.by("graph", "dealt", "method").items():
        runs = [run for run in runs if compared(run, rc)]
        if method == "rc" or not runs:
            continue
        rounds = runs[0].arrays["rounds"]
        gaps = np.array([[gap_at(run, rc, int(t)).mean() for t in rounds] for run in runs])
        style = {"color": COLOURS[method], "label": view.title("method", method)}
        axis_of[graph, way].plot(rounds, gaps.mean(0), lw=1.8, **style)
        axis_of[graph, way].plot(rounds, gaps.T, color=COLOURS[method], lw=0.6, alpha=0.35)
    for (graph, way), axis in axis_of.items():
        axis.axhline(0, color="0.4", lw=0.8)
        labelled(axis, f"{view.title('graph', graph)}, {way}", size=9, ylim=(-0.06, 0.45))
        axis.set(xlabel="round", ylabel="gap to RC")
        axis.label_outer()
    sets = ", ".join(dict.fromkeys(run.fields["dataset"] for run in view.runs))
    title = "Test error less RC's of 64 rounds; 50 nodes of 50 rows\n"
    return finished(figure, f"{title}thick: mean of the sets; thin: each of {sets}", size=10)
