"""The figure of the relay experiments."""

import numpy as np
from matplotlib.figure import Figure

from peerwise.papers.items import Arrays
from peerwise.papers.relay.items import DEALT, GRAPHS
from peerwise.papers.relay.report import NAMES, NETWORKS, gap_at
from peerwise.report.axes import finished, labelled
from peerwise.report.figures import panels

COLOURS = {"crc": "#e69f00", "metropolis": "#0072b2", "tracking": "#8e44ad", "relay": "#c8102e"}


def curves(tasks: dict[str, Arrays]) -> Figure:
    """Gap against rounds: a row of panels for each network, a column for each way of dealing."""
    figure, axes = panels(len(GRAPHS) * len(DEALT), 2.7, 2.4, len(DEALT), sharex=True, sharey=True)
    places = [(graph, way) for graph in GRAPHS for way in DEALT]
    for axis, (graph, way) in zip(axes, places, strict=True):
        axis.axhline(0, color="0.4", lw=0.8)
        for method, name in NAMES.items():
            here = [k for k in tasks if k.split("|")[1:] == [graph, way, method]]
            if not here:
                continue
            rounds = tasks[here[0]]["rounds"]
            gaps = np.array([[gap_at(tasks, k, int(t)).mean() for t in rounds] for k in here])
            axis.plot(rounds, gaps.mean(0), color=COLOURS[method], label=name, lw=1.8)
            for line in gaps:
                axis.plot(rounds, line, color=COLOURS[method], lw=0.6, alpha=0.35)
        labelled(axis, f"{NETWORKS[graph]}, {way}", size=9, ylim=(-0.06, 0.45))
    for axis in axes[-len(DEALT) :]:
        axis.set_xlabel("round")
    for axis in axes[:: len(DEALT)]:
        axis.set_ylabel("gap to RC")
    sets = ", ".join(dict.fromkeys(k.split("|")[0] for k in tasks))
    title = "Test error less RC's of 64 rounds; 50 nodes of 50 rows\n"
    return finished(figure, f"{title}thick: mean of the sets; thin: each of {sets}", size=10)
