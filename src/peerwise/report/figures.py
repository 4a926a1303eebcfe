"""Figures that explain themselves."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from peerwise.report.axes import labelled
from peerwise.report.curves import pages
from peerwise.report.look import panels as panels
from peerwise.report.look import save as save
from peerwise.study.results import Record

if TYPE_CHECKING:
    from peerwise.study.join import Joined

COLOURS = {"crc": "#1f5fa8", "rc": "#111111", "ml": "#c0392b", "isolated": "#b8860b"}


def gains(joined: "Joined") -> Figure:
    """What joining gains every site, with its interval; green where it lies above 0."""
    verdicts = joined.verdicts.iloc[::-1]
    colours = {"join": "#2e8b57", "stay": COLOURS["ml"]}
    figure, axis = plt.subplots(figsize=(7, 1.4 + 0.32 * len(verdicts)))
    axis.axvline(0, color="0.6", lw=1)
    for place, (_, line) in enumerate(verdicts.iterrows()):
        colour = colours.get(str(line["verdict"]), "0.5")
        axis.plot([line["low"], line["high"]], [place, place], color=colour, lw=2)
        axis.plot(line["gain"], place, "o", color=colour)
    labels = [f"{site} ({joined.rows.get(str(site), 0)} rows)" for site in verdicts.index]
    axis.set_yticks(range(len(verdicts)), labels)
    what = joined.metric.replace("_", " ")
    axis.set_xlabel(f"gain in {what} of the network's model over the site's own (95 % interval)")
    axis.set_title("Should my site join?", loc="left", fontsize=11)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return figure


def curves(history: pd.DataFrame, title: str, varied: Sequence[str] = ()) -> Figure:
    """Test error against rounds: the first of the figures that `pages` draws."""
    return pages(history, title, varied)[0]


def gap_map(records: Sequence[Record], headers: dict[str, str], title: str) -> Figure:
    """Heat maps of gaps on one scale: ours and, where a paper printed them, the paper's."""
    rows = list(dict.fromkeys(r.dataset for r in records if r.value is not None))
    cells = {(r.dataset, r.setting.get("column")): r for r in records}

    def grid(which: str) -> np.ndarray:
        return np.array(
            [
                [np.nan if (v := getattr(cells[row, c], which)) is None else v for c in headers]
                for row in rows
            ],
            float,
        )

    shown = {"value": "ours", "paper_value": "paper"}
    if all(r.paper_value is None for r in records):
        del shown["paper_value"]
    size = (2.6 + 0.65 * len(shown) * len(headers), 1.4 + 0.34 * len(rows))
    figure, axes = plt.subplots(1, len(shown), figsize=size, sharey=True, squeeze=False)
    long = max(map(len, headers.values())) > 10
    for axis, (which, name) in zip(axes[0], shown.items(), strict=True):
        values = grid(which)
        axis.imshow(np.clip(values, 0, 0.2), cmap="YlOrRd", vmin=0, vmax=0.2, aspect="auto")
        for (i, j), value in np.ndenumerate(values):
            if not np.isnan(value):
                digits = 3 if which == "value" else 2
                shade = "white" if value > 0.14 else "black"
                axis.text(
                    j, i, f"{value:.{digits}f}", ha="center", va="center", fontsize=7, color=shade
                )
        axis.set_xticks(range(len(headers)), list(headers.values()), fontsize=8)
        if long:
            axis.tick_params(axis="x", rotation=40)
            plt.setp(axis.get_xticklabels(), ha="right", rotation_mode="anchor")
        axis.set_yticks(range(len(rows)), rows, fontsize=8)
        if len(shown) > 1:
            axis.set_title(name, fontsize=10)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    return figure


def reach_curves(reaches: dict[int, np.ndarray]) -> Figure:
    """Share of nodes within a distance, a line for each size of tree (the paper's Figure 2)."""
    figure, axis = plt.subplots(figsize=(5.6, 3.8))
    shades = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(reaches)))
    for shade, (n, share) in zip(shades, reaches.items(), strict=True):
        axis.plot(range(len(share)), share, color=shade, lw=1.8, label=f"n = {n}")
    title = "Random trees: the larger, the farther the news"
    labelled(axis, title, size=11, xlim=(0, 60), ylim=(0, 1.02), xlabel="distance")
    axis.set_ylabel("share of nodes within it")
    axis.legend(frameon=False)
    figure.tight_layout()
    return figure


def network_and_curves(
    graph: nx.Graph,
    node_error: np.ndarray,
    rounds: np.ndarray,
    error: np.ndarray,
    levels: dict[str, float],
    title: str,
) -> Figure:
    """The network coloured by each node's test error, beside how the errors fell.

    `error` is [rounds, nodes]; `levels` are errors of references, drawn as horizontal lines.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.8), width_ratios=(1, 1.15))
    place = nx.kamada_kawai_layout(graph)
    nx.draw_networkx_edges(graph, place, ax=left, edge_color="#999999")
    style = {"cmap": "viridis_r", "node_size": 130, "edgecolors": "white"}
    drawn = nx.draw_networkx_nodes(graph, place, ax=left, node_color=node_error, **style)
    bar = figure.colorbar(drawn, ax=left, shrink=0.8, pad=0.02)
    bar.set_label("test error of the node's own model")
    left.set_title(
        f"{graph.number_of_nodes()} nodes, {graph.number_of_edges()} links, no server", fontsize=10
    )
    left.axis("off")
    right.plot(rounds, error, color=COLOURS["crc"], lw=0.5, alpha=0.25)
    right.plot(rounds, error.mean(1), color=COLOURS["crc"], lw=2.2, label="CRC: mean of the nodes")
    colours = [COLOURS[method] for method in ("rc", "ml", "isolated")]
    for (name, value), colour in zip(levels.items(), colours, strict=False):
        right.axhline(value, color=colour, ls="--", lw=1.3, label=f"{name}: {value:.3f}")
    right.set_ylim(bottom=0)
    labelled(right, "thin lines: single nodes", xlabel="round", ylabel="test error")
    right.legend(frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=12)
    figure.tight_layout()
    return figure
