"""Figures of a comparison: critical differences of ranks, and what accuracy costs in bytes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from peerwise.report.axes import few_log_ticks, legend_with_note, name_outer
from peerwise.report.comparison import Comparison, Ranks, labelled
from peerwise.report.curves import LINES
from peerwise.report.look import panels, save, styled
from peerwise.report.reading import read_history


def critical_difference(ranks: Ranks, style: str | None = None) -> Figure:
    """Mean ranks on a line, the best on the left; a bar joins methods that cannot be told apart."""
    names, values = [str(m) for m in ranks.mean.index], ranks.mean.to_numpy()
    k, groups = len(names), ranks.groups
    below = 0.55 + 0.22 * len(groups)  # where the names begin
    rows = -(-k // 2)
    with styled(style):
        height = 0.5 + 0.32 * (below + rows)
        figure = Figure(figsize=(5.6, height + 0.45), layout="constrained")
        axis = figure.subplots()
        axis.set_axis_off()
        wide = 0.08 * max(map(len, names)) * k / 5.6 + 0.35
        axis.set(xlim=(1 - wide, k + wide), ylim=(below + rows - 0.2, -1.4))
        line: dict[str, Any] = {"color": "black", "lw": 1, "solid_capstyle": "butt"}
        axis.plot([1, k], [0, 0], **line)
        for tick in range(1, k + 1):
            axis.plot([tick, tick], [0, -0.15], **line)
            axis.text(tick, -0.22, str(tick), ha="center", va="bottom", fontsize=8)
        _ruler(axis, ranks, k)
        for row, group in enumerate(groups):
            ends = [ranks.mean[group[0]], ranks.mean[group[-1]]]
            bar = [ends[0] - 0.04, ends[1] + 0.04]
            axis.plot(bar, [0.3 + 0.22 * row] * 2, color="black", lw=3, solid_capstyle="butt")
        for place, (name, value) in enumerate(zip(names, values, strict=True)):
            left = place < rows
            height = below + (place if left else k - 1 - place) + 0.35
            end = 1 - 0.1 if left else k + 0.1
            axis.plot([value, value, end], [0, height, height], **line)
            side = "right" if left else "left"
            at = end + (-0.04 if left else 0.04)
            axis.text(at, height, f"{_words(name)} ({value:.2f})", ha=side, va="center")
    return figure


def _words(name: str) -> str:
    """A name as matplotlib shall print it."""
    return name.replace("_", " ").replace("$", r"\$")


def _ruler(axis: Any, ranks: Ranks, k: int) -> None:
    """The length of the critical difference, above the line of ranks."""
    end = min(1 + ranks.critical, k)
    axis.plot([1, end], [-0.95, -0.95], color="black", lw=1.2)
    for at in (1, end):
        axis.plot([at, at], [-1.05, -0.85], color="black", lw=1.2)
    beyond = " (more than the line is long)" if 1 + ranks.critical > k else ""
    text = f"critical difference {ranks.critical:.2f}{beyond}"
    axis.text(1, -1.12, text, ha="left", va="bottom", fontsize=8)


def accuracy_by_bytes(
    histories: Mapping[str, pd.DataFrame], values: pd.DataFrame, style: str | None = None
) -> Figure | None:
    """Accuracy against the bytes that all nodes have sent, a panel a data set.

    `histories` are by method, with columns dataset, round and test_error; `values` has the metric
    bytes, of all rounds. Methods that send nothing are levels. None where no method sends anything.
    """
    sizes = values[values["metric"] == "bytes"].groupby(["dataset", "method"])["value"]
    size = {key: float(v) for key, v in sizes.mean().items()}
    if not any(size.values()):
        return None
    sets = list(dict.fromkeys(values["dataset"]))
    methods = list(histories)[:LINES]
    beside = 3 if len(sets) % 3 == 0 or len(sets) < 3 else 4
    with styled(style) as colours:
        width = 4.6 if len(sets) == 1 else 3.6 if len(sets) == 2 else 2.7
        figure, axes = panels(len(sets), width, 2.6, beside, layout="constrained")
        shown: dict[str, Any] = {}
        for axis, name in zip(axes, sets, strict=False):
            axis.set_title(_words(str(name)))
            axis.set_xscale("log")
            for place, method in enumerate(methods):
                history = histories[method]
                means = history[history["dataset"] == name].groupby("round")["test_error"].mean()
                if means.empty:
                    continue
                colour = colours[place % len(colours)]
                _against_bytes(axis, 1 - means, size.get((name, method), 0.0), colour)
                shown[_words(method)] = Line2D([], [], color=colour, lw=2)
            axis.xaxis.set_major_formatter(EngFormatter("B", sep="\N{NARROW NO-BREAK SPACE}"))
            few_log_ticks(axis.xaxis, 4)
        name_outer(axes[: len(sets)], "sent by all nodes", "accuracy")
        more = len(histories) - len(methods)
        left_out = f"; {more} more methods left out" if more else ""
        note = f"mean over nodes and repetitions; dashed: sends nothing{left_out}"
        legend_with_note(figure, shown, note)
    return figure


def _against_bytes(axis: Any, accuracy: pd.Series, size: float, colour: Any) -> None:
    """A line over recorded rounds, a dot where one was recorded, a level where nothing is sent."""
    if not size:
        axis.axhline(accuracy.iloc[-1], color=colour, ls="--", lw=1.2)
        return
    at = accuracy.index.to_numpy(float) * size / accuracy.index.max()
    kind = {"marker": "o", "ms": 5, "ls": ""} if len(at) == 1 else {"lw": 1.6}
    axis.plot(at, accuracy.to_numpy(), color=colour, **kind)


def draw(
    folder: Path,
    runs: Mapping[str, Path],
    values: Mapping[str, pd.DataFrame],
    result: Comparison,
    formats: Sequence[str] = (),
    style: str | None = None,
) -> list[Path]:
    """Write the figures of a comparison to a folder and return their paths."""
    figures: dict[str, Figure | None] = {}
    if result.ranks is not None:
        figures["ranks"] = critical_difference(result.ranks, style)
    labels = labelled(values)
    histories: dict[str, list[pd.DataFrame]] = {}
    for name, path in runs.items():
        for method, history in read_history(path).groupby("method", sort=False):
            histories.setdefault(labels[name, method], []).append(history)
    sizes = [v.assign(method=[labels[n, m] for m in v["method"]]) for n, v in values.items()]
    joined = {label: pd.concat(parts) for label, parts in histories.items()}
    figures["bytes"] = accuracy_by_bytes(joined, pd.concat(sizes), style)
    return [
        save(figure, folder / f"{name}.png", formats)
        for name, figure in figures.items()
        if figure is not None
    ]
