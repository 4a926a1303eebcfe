"""Curves of the study of utility."""

from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from peerwise.papers.figures import Line, Panel, curves
from peerwise.papers.items import View
from peerwise.papers.privacy.items import EPSILONS

SHADES = mpl.colormaps["viridis"]


def utility(view: View) -> Figure:
    """AUC against epsilon: a panel a set, dashed plain, solid noise-aware, dotted diffprivlib."""
    shown = []
    for (name,), runs in view.by("dataset").items():
        lines, levels = [], []
        for fields, arrays in runs:
            nodes = fields["nodes"]
            if "diffprivlib" in arrays:
                dotted = {"color": "k", "ls": ":", "label": "diffprivlib, N = 1"}
                lines.append(Line(EPSILONS, arrays["diffprivlib"][1].T, dotted))
                continue
            color = SHADES({"1": 0.0, "100": 0.45, "1000": 0.85}.get(nodes, 0.6))
            for kind, ls in (("aware", "-"), ("plain", "--")):
                label = f"N = {nodes}, {view.title('kind', kind)}"
                style: dict[str, Any] = {"color": color, "ls": ls, "label": label}
                lines.append(Line(EPSILONS, arrays[kind][1].T, style))
            if nodes == "1":
                levels.append((float(arrays["none"][1]), {"color": "0.5", "label": "no noise"}))
        of = {"xscale": "log", "xlabel": "ε", "ylabel": "AUC"}
        shown.append(Panel(name, lines, of, levels))
    return curves(shown, "Naive Bayes from noisy releases: AUC against privacy", 3.5, 2.9)
