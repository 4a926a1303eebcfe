"""Pieces of figures that several papers' reports share: axes, bands and legends."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter

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


def band(axis: Any, at: np.ndarray, values: np.ndarray, log: bool = False, **style: Any) -> None:
    """Mean over replicas [replicas, rounds] with its 95 % interval; the range of two.

    The interval that two replicas give jumps from round to round and hides everything else.
    `log`: of logarithms, so that the interval of a small distance does not pass 0.
    """
    held = np.log(np.maximum(values, 1e-12)) if log else values
    mean, half = metrics.confidence(held)
    low, high = (mean - half, mean + half) if len(values) > 2 else (held.min(0), held.max(0))
    if log:
        mean, low, high = np.exp(mean), np.exp(low), np.exp(high)
    axis.plot(at, mean, lw=1.8, **style)
    axis.fill_between(at, low, high, color=style["color"], alpha=0.15, lw=0)
