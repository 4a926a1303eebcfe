"""Forms of figures that several papers share: curves with bands, maps of rows, points with bars."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from peerwise.papers.items import View
from peerwise.report.axes import accuracy_axis, band, finished, labelled, plain_numbers
from peerwise.report.figures import gap_map, panels
from peerwise.report.grid import half_width
from peerwise.study.results import Record


class Line(NamedTuple):
    """A curve with its spread."""

    at: Any
    values: np.ndarray  # [repetitions, places]
    style: dict[str, Any]


class Panel(NamedTuple):
    """A panel of curves; what `Axes.set` takes is in `axes`."""

    title: str
    lines: Sequence[Line]
    axes: dict[str, Any]
    levels: Sequence[tuple[float, dict[str, Any]]] = ()  # lines across: a height and its style
    accurate: bool = False  # accuracies by the logarithm of the error


def curves(
    shown: Sequence[Panel], title: str = "", width: float = 4.2, height: float = 3.5, most: int = 3,
    **options: Any,
) -> Figure:  # fmt: skip
    """Panels of curves: means over repetitions, with their 95 % interval or the range of two."""
    figure, axes = panels(len(shown), width, height, most, layout="constrained", **options)
    for axis, panel in zip(axes, shown, strict=False):
        for at, values, style in panel.lines:
            band(axis, at, values, log=panel.axes.get("yscale") == "log", **style)
        for level, style in panel.levels:
            axis.axhline(level, **{"lw": 1.6, "ls": ":", **style})
        labelled(axis, panel.title, **panel.axes)
        for side in ("x", "y"):
            if panel.axes.get(f"{side}scale") == "log":
                plain_numbers(getattr(axis, f"{side}axis"))
        if panel.accurate:
            accuracy_axis(axis)
        if options.get("sharey"):
            axis.label_outer()
    return finished(figure, title)


def allocation(view: View) -> Figure:
    """Who holds what: rows of each class at each node, a panel a data set."""
    figure, axes = panels(len(view.runs), 5.2, 3.4, layout="constrained")
    top = max(run.arrays["counts"].max() for run in view.runs)
    for axis, (fields, arrays) in zip(axes, view.runs, strict=False):
        counts = arrays["counts"]  # [nodes, classes]
        drawn = axis.imshow(
            np.maximum(counts, 0.5).T, norm=LogNorm(1, top), cmap="viridis", aspect="auto",
            interpolation="nearest",
        )  # fmt: skip
        if counts.shape[1] <= 12:
            axis.set_yticks(range(counts.shape[1]))
        text = view.title("dataset", fields["dataset"])
        if "gini" in arrays:
            text += f": Gini {arrays['gini'].mean():.2f} within a class, "
            text += f"{float(arrays['gini_of_totals']):.2f} of node totals"
        labelled(axis, text, grid="", xlabel="node", ylabel="class")
    bar = figure.colorbar(drawn, ax=axes, label="rows (logarithmic)")
    plain_numbers(bar.ax.yaxis)
    figure.suptitle("Who holds what", fontsize=11)
    return figure


def gaps(view: View) -> Figure | None:
    """A map of the gaps of a table of columns, ours and the paper's."""
    heads = {c.name: c.title for c in view.item.columns if c.metric == "test_gap"}
    records = [r for r in view.records if r.setting.get("column") in heads]
    if not any(r.value is not None for r in records):
        return None
    title = f"{view.name.replace('-', ' ').capitalize()}. {view.item.title}: test gap to RC"
    return gap_map(records, heads, title)


def _half(record: Record) -> float:
    """Half of a bar: the 95 % interval, or half the distance of two replicas, which give none."""
    if record.std is not None and record.reps == 2:
        return record.std / np.sqrt(2)
    return half_width(record) or 0.0


def bars(records: Sequence[Record]) -> str:
    """What points and bars are."""
    many = max(r.reps for r in records)
    if many == 1:
        return "one replica: no bars"
    between = "from one to the other" if many == 2 else "95 % interval"
    return f"points: mean of {many} replicas; bars: {between}"


def points(
    axis: Any, records: Iterable[Record], line: Callable[[Record], Any],
    at: Callable[[Record], float | None],
    style: Callable[[Any], dict[str, Any]],
) -> None:  # fmt: skip
    """Means with their bars against a place, each in its line."""
    lines: dict[Any, list[tuple[float, float, float]]] = {}
    for record in records:
        place = at(record)
        if place is not None and record.value is not None:
            of = lines.setdefault(line(record), [])
            of.append((place, record.value, _half(record)))
    for value, of in lines.items():
        x, middle, half = np.array(sorted(of)).T
        axis.errorbar(x, middle, half, **{"marker": "o", "ms": 4, "capsize": 2, **style(value)})
