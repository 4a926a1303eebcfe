"""Pieces of figures that several papers' reports share: axes, bands and legends."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullFormatter, NullLocator

from peerwise import metrics


def labelled(
    axis: Any, title: str = "", *, grid: str = "both", size: int = 10, **more: Any
) -> None:
    """Say what an axis shows: its title, and what `Axes.set` takes; over faint lines of `grid`."""
    axis.set(**more)
    if title:
        axis.set_title(title, fontsize=size)
    if grid:
        axis.grid(alpha=0.25, axis=grid)


def finished(
    figure: Figure, title: str = "", shown: dict[str, Any] | None = None, size: int = 11
) -> Figure:
    """The figure with a title above and one legend below all panels."""
    legend_below(figure, shown)
    if title:
        figure.suptitle(title, fontsize=size)
    return figure


def legend_below(figure: Figure, shown: dict[str, Any] | None = None) -> None:
    """One legend below all panels: what is given, or each labelled line once."""
    if shown is None:
        shown = {}
        for axis in figure.axes:
            for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
                shown.setdefault(label, handle)
    wide = 0.6 + 0.075 * max(map(len, shown), default=0)  # inches of the longest entry
    columns = min(len(shown), max(int(figure.get_figwidth() / wide), 1))
    figure.legend(
        list(shown.values()), list(shown), loc="outside lower center", ncols=columns, fontsize=9,
        frameon=False,
    )  # fmt: skip


def legend_with_note(figure: Figure, handles: dict[str, Any], note: str) -> None:
    """One legend below all panels, headed by what lines and bands are."""
    width = figure.get_figwidth()
    widest = max((len(label) for label in handles), default=0)
    columns = max(min(len(handles), int(width / (0.068 * widest + 0.65))), 1)
    # the panels keep their height
    figure.set_figheight(figure.get_figheight() + 0.25 + 0.19 * -(-len(handles) // columns))
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=columns,
        title=note, title_fontsize=8, alignment="center",
    )  # fmt: skip


def name_outer(axes: Sequence[Any], across: str, up: str = "") -> None:
    """Name the axes of the outer panels, whose ticks are those of the others."""
    below, left = _outermost(axes)
    for axis in below:
        axis.set_xlabel(across)
        axis.tick_params(labelbottom=True)
    for axis in left:
        axis.set_ylabel(up)


def _outermost(axes: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Panels with nothing below them, and those with nothing to their left."""
    specs = [axis.get_subplotspec() for axis in axes]
    places = {(spec.rowspan.start, spec.colspan.start) for spec in specs}
    below, left = [], []
    for axis, spec in zip(axes, specs, strict=True):
        if (spec.rowspan.start + 1, spec.colspan.start) not in places:
            below.append(axis)
        if spec.is_first_col():
            left.append(axis)
    return below, left


def accuracy_axis(axis: Any, bottom: float = 0.0) -> None:
    """Accuracies by the logarithm of the error: .95 and .98 are as far apart as .50 and .80."""
    axis.set_yscale(
        "function",
        functions=(lambda a: -np.log(1 - np.minimum(a, 0.9999)), lambda b: 1 - np.exp(-b)),
    )
    ticks = [0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995]
    axis.yaxis.set_major_locator(FixedLocator(ticks))
    axis.yaxis.set_major_formatter("{x:g}")
    top = max(np.max(line.get_ydata(), initial=0) for line in axis.lines)  # not of the bands
    axis.set_ylim(bottom, min(1 - 0.75 * (1 - top), 0.999))


def plain_numbers(axis: Any) -> None:
    """A logarithmic axis with plain numbers, not powers of ten."""
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def interval(values: np.ndarray, log: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean over replicas (first axis) and the ends of its 95 % interval; the range of two.

    The interval that two replicas give jumps from round to round and hides everything else. One
    replica has no interval: its ends are NaN. `log`: of logarithms, so that the interval of a
    small distance does not pass 0.
    """
    held = np.log(np.maximum(values, 1e-12)) if log else values
    mean, half = metrics.confidence(held)
    low, high = (held.min(0), held.max(0)) if len(held) == 2 else (mean - half, mean + half)
    return (np.exp(mean), np.exp(low), np.exp(high)) if log else (mean, low, high)


def few_log_ticks(axis: Any, most: int = 5) -> None:
    """Ticks at 1, 2 and 5 times powers of ten on a logarithmic axis, or fewer of them.

    Where the axis is too short to hold two of these, ticks at other round numbers.
    """
    low, high = sorted(axis.get_view_interval())
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        ticks = [s * p for p in powers for s in steps if low <= s * p <= high]
        if len(ticks) <= most:
            break
    if len(ticks) < 2:
        ticks = [
            t
            for t in MaxNLocator(most - 1, steps=[1, 2, 5, 10]).tick_values(low, high)
            if low <= t <= high
        ]
    ticks = ticks[:: -(-len(ticks) // most)]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_minor_locator(NullLocator())


def band(axis: Any, at: np.ndarray, values: np.ndarray, log: bool = False, **style: Any) -> None:
    """Draw the mean over replicas [replicas, rounds] and its `interval` as a band."""
    mean, low, high = interval(values, log)
    axis.plot(at, mean, **{"lw": 1.8, **style})
    if len(values) > 1:
        axis.fill_between(at, low, high, color=style["color"], alpha=0.15, lw=0)
