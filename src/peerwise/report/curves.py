"""The figure of a run: a metric against rounds, or after the last round where only that is known.

Methods have colours; one factor has a panel for each of its values, a second one line styles.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from peerwise.errors import BadData, UnknownName
from peerwise.report.axes import (
    few_log_ticks,
    interval,
    legend_with_note,
    name_outer,
    plain_numbers,
)
from peerwise.report.better import lower_is_better
from peerwise.report.look import panels, styled

LINES = 8  # in a panel
PANELS = 24  # in a figure
BESIDE = 4  # panels beside each other
STYLES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
MARKS = ("o", "s", "^", "D")
STEEP = 8.0  # from this ratio of the largest to the smallest mean on, the axis is logarithmic

Choice = tuple[tuple[str, Any], ...]  # columns and the value of each


class Layout(NamedTuple):
    """Which column of a history is told by colours, by line styles and by panels."""

    colour: str
    style: str | None
    facets: tuple[str, ...]
    colours: tuple[Any, ...]  # values of the column told by colour
    styles: tuple[Any, ...]
    panels: tuple[Choice, ...]


def factors_of(history: pd.DataFrame) -> list[str]:
    """The columns of a history that say what was varied, data set and method aside."""
    columns = [str(c) for c in history.columns]
    first = columns[: columns.index("repetition")]
    # what the first cell did not depend on stands behind the metrics, which are numbers
    words = [c for c in columns if not pd.api.types.is_numeric_dtype(history[c])]
    return [c for c in dict.fromkeys((*first, *words)) if c not in ("dataset", "method")]


def values_in(frame: pd.DataFrame, column: str) -> list[Any]:
    """The values of a column: numbers by size, anything else as they come; empty ones left out."""
    values = list(dict.fromkeys(frame[column].dropna()))
    numbers = pd.to_numeric(pd.Series(values, dtype=object), errors="coerce")
    return (
        [values[i] for i in np.argsort(numbers, kind="stable")] if numbers.notna().all() else values
    )


def layout(history: pd.DataFrame, factors: Sequence[str], facet: str | None = None) -> Layout:
    """Lay out a history's figure: panels by the given facet, data sets, or the smallest factor."""
    counts = {c: len(values_in(history, c)) for c in ("dataset", "method", *factors)}
    if facet is not None and facet not in counts:
        raise UnknownName("factor", facet, counts)
    same = history["dataset"].astype(str)  # a sweep over data sets names them twice
    varied = [
        c
        for c, count in counts.items()
        if count > 1 and not (c != "dataset" and (history[c].astype(str) == same).all())
    ]
    rest = [c for c in varied if c not in ("method", facet)]
    by_count = sorted(rest, key=lambda c: counts[c])
    if "method" in varied and facet != "method":
        colour = "method"
    else:  # one method: what has most values, data sets last
        most = [c for c in reversed(by_count) if c != "dataset"]
        colour = most[0] if most else "method"
    rest = [c for c in by_count if c != colour]
    if facet is None and rest:
        facet = "dataset" if "dataset" in rest else rest[0]
    rest = [c for c in rest if c != facet]
    style = rest[0] if rest and counts[rest[0]] <= len(STYLES) else None
    if style and counts[style] * counts[colour] > LINES:
        style = None
    facets = tuple(c for c in (facet, *rest) if c is not None and c != style and counts[c] > 1)
    choices = product(*([(c, v) for v in values_in(history, c)] for c in facets))
    return Layout(
        colour,
        style,
        facets,
        tuple(values_in(history, colour)),
        tuple(values_in(history, style)) if style else (None,),
        tuple(choice for choice in choices if len(_rows(history, choice, strict=True))),
    )


def _rows(history: pd.DataFrame, choice: Choice, strict: bool = False) -> pd.DataFrame:
    """Rows of these values; rows without a value, which do not depend on it, belong to all."""
    kept = pd.Series(True, history.index)
    for column, value in choice:
        kept &= (history[column] == value) | (history[column].isna() & (not strict))
    return history[kept]


def pages(
    history: pd.DataFrame,
    title: str = "",
    factors: Sequence[str] = (),
    *,
    metric: str = "test_error",
    facet: str | None = None,
    style: str | None = None,
    across: str = "round",
) -> list[Figure]:
    """Figures of a metric against rounds, as many as it takes for eight lines a panel.

    `across` may also be a metric that grows from round to round, such as `seconds`.

    Where only the last round was recorded, dots with intervals stand for the lines, the best
    method on top.
    """
    if metric not in history:
        raise UnknownName("metric", metric, _metrics(history))
    if across not in history:
        raise UnknownName("metric", across, _metrics(history))
    history = history[np.isfinite(history[metric])]
    if history.empty:
        raise BadData(f"the run has no value of {metric} to draw")
    factors = [f for f in factors if f in history]
    whole = layout(history, factors, facet)
    parts = list(_pages(whole))
    draw = _curves if history.groupby("method")["round"].nunique().max() > 1 else _dots
    figures = []
    for number, part in enumerate(parts, 1):
        of = f"{number} of {len(parts)}: " if len(parts) > 1 else ""
        with styled(style) as colours:
            more = {"across": across} if draw is _curves else {}
            figures.append(draw(history, part, metric, colours, of, **more))
            if title:
                figures[-1].suptitle(_text(title))
    return figures


def _metrics(history: pd.DataFrame) -> list[str]:
    others = {"dataset", "method", "repetition", "round", "node", *factors_of(history)}
    return [str(c) for c in history.columns if c not in others]


def _pages(whole: Layout) -> Iterator[Layout]:
    """The layout in parts of at most eight lines a panel and `PANELS` panels."""
    size = LINES // len(whole.styles)
    for first in range(0, len(whole.colours), size):
        for panel in range(0, len(whole.panels), PANELS):
            yield whole._replace(
                colours=whole.colours[first : first + size],
                panels=whole.panels[panel : panel + PANELS],
            )


def _lines(history: pd.DataFrame, part: Layout, choice: Choice) -> Iterator[tuple[int, int, Any]]:
    """Place of the colour and of the style, and the rows, of each line in a panel.

    What does not depend on the column told by colour has place -1.
    """
    inside = _rows(history, choice)
    free = inside[inside[part.colour].isna()]
    if len(free):
        yield -1, 0, free
    for c, colour in enumerate(part.colours):
        of_colour = inside[inside[part.colour] == colour]
        if part.style is None:
            if len(of_colour):
                yield c, 0, of_colour
            continue
        if of_colour[part.style].isna().all() and len(of_colour):  # does not depend on it
            yield c, 0, of_colour
            continue
        for s, value in enumerate(part.styles):
            rows = of_colour[of_colour[part.style] == value]
            if len(rows):
                yield c, s, rows


def _colour(colours: list[Any], place: int) -> Any:
    """The colour at a place; grey for what does not depend on the column told by colour."""
    return "0.45" if place < 0 else colours[place % len(colours)]


def _over_repetitions(rows: pd.DataFrame, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """Recorded rounds [r], and means over nodes [repetitions, r]."""
    means = rows.groupby(["repetition", "round"])[metric].mean().unstack()
    means = means.dropna(axis=1)
    return means.columns.to_numpy(), means.to_numpy()


def _spread(
    rows: pd.DataFrame, metric: str, log: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rounds, mean, and ends of the interval over repetitions; of one, the middle 80 % of nodes."""
    at, values = _over_repetitions(rows, metric)
    mean, (_, low, high) = values.mean(0), interval(values, log)
    if len(values) == 1:
        by_round = rows[rows["round"].isin(at)].groupby("round")[metric]
        low, high = (by_round.quantile(q).to_numpy() for q in (0.1, 0.9))
    return at, mean, low, high


def _note(history: pd.DataFrame, metric: str, what: str) -> str:
    """What lines and bands are, in words."""
    keys = [c for c in history.columns if c in ("dataset", "method", *factors_of(history))]
    counts = history.groupby(keys, dropna=False)["repetition"].nunique()
    low, high = int(counts.min()), int(counts.max())
    nodes = "mean over nodes" if history["node"].nunique() > 1 else "one node"
    if high == 1:
        return f"{nodes}, one repetition" + f"; {what}: 80 % of the nodes" * ("mean" in nodes)
    often = f"{low} repetitions" if low == high else f"{low} to {high} repetitions"
    kind = "range" if high == 2 else "95 % interval"
    return f"{nodes}; {what}: {kind} over {often}"


def _text(value: Any) -> str:
    """A value as matplotlib shall print it: no formula where a name has a dollar in it."""
    return str(value).replace("$", r"\$")


def _called(column: str, value: Any) -> str:
    """A value in words: a method or data set by its name, of a factor `alpha = 0.1`."""
    text = _words(_text(value))
    return text if column in ("method", "dataset") else f"{_words(column)} = {text}"


def _heading(choice: Choice, most: int) -> str:
    """The values of a panel on one line, or each on lines of its own."""
    parts = [_called(column, value) for column, value in choice]
    whole = ", ".join(parts)
    return whole if len(whole) <= most else "\n".join(fill(part, most) for part in parts)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _frame(part: Layout, height: float, **options: Any) -> tuple[Figure, list[Any]]:
    """A figure with a panel for each choice of the layout."""
    count = len(part.panels)
    beside = next((b for b in (3, 4) if count % b == 0 or count < b), BESIDE)
    width = 4.6 if count == 1 else 3.6 if count == 2 else 2.7
    figure, axes = panels(count, width, height, beside, layout="constrained", **options)
    for axis, choice in zip(axes, part.panels, strict=False):
        axis.set_title(_heading(choice, int(11 * width)))  # about eleven letters an inch
    return figure, axes[:count]


def _curves(
    history: pd.DataFrame, part: Layout, metric: str, colours: list[Any], of: str,
    across: str = "round",
) -> Figure:  # fmt: skip
    of_repetitions = history.groupby(["dataset", "method", "repetition", "round"])[metric].mean()
    means = of_repetitions.groupby(["dataset", "method", "round"]).mean()
    # a repetition without any error has no logarithm, and one of few errors an interval too wide
    log = of_repetitions.min() > means.min() / 20 and means.max() / means.min() > STEEP
    # scales differ between data sets, not between settings of one
    figure, axes = _frame(part, 2.6, sharex=True, sharey="dataset" not in part.facets)
    for axis, choice in zip(axes, part.panels, strict=True):
        for c, s, rows in _lines(history, part, choice):
            look = {"color": _colour(colours, c), "ls": STYLES[s]}
            at, mean, low, high = _spread(rows, metric, log)
            if len(at) < 2:  # nothing is learnt round by round: a level
                for level in mean:
                    axis.axhline(level, lw=1.2, **look)
                continue
            if not log and means.min() >= 0:
                low = np.maximum(low, 0)
            if across != "round":
                at = rows.groupby("round")[across].mean().loc[at].to_numpy()
                if not np.isfinite(at).all():
                    continue  # has no such thing
            axis.plot(at, mean, lw=1.6, **look)
            axis.fill_between(at, low, high, color=look["color"], alpha=0.15, lw=0)
        if log:
            axis.set_yscale("log")
            plain_numbers(axis.yaxis)
        elif means.min() >= 0:
            axis.set_ylim(bottom=0)
        axis.xaxis.set_major_locator(MaxNLocator(5, integer=across == "round"))
        axis.margins(x=0.01)
    for axis in axes if log else ():  # once all lines have set the limits
        few_log_ticks(axis.yaxis)
    name_outer(axes, _words(across), _words(metric))
    shown = _handles(part, colours) | _free_handle(history, part)
    legend_with_note(figure, shown, of + _note(history, metric, "band"))
    return figure


def _free_handle(history: pd.DataFrame, part: Layout) -> dict[str, Any]:
    """What the legend shows for lines that do not depend on the column told by colour."""
    if history[part.colour].notna().all():
        return {}
    return {f"any {_words(part.colour)}": Line2D([], [], color=_colour([], -1), lw=2)}


def _handles(part: Layout, colours: list[Any]) -> dict[str, Any]:
    """What the legend shows: a line for each colour, then one for each style."""
    shown: dict[str, Any] = {}
    if len(part.colours) > 1 or part.colour == "method":
        for c, value in enumerate(part.colours):
            label = _called(part.colour, value)
            shown[label] = Line2D([], [], color=_colour(colours, c), lw=2)
    if part.style is not None:
        for s, value in enumerate(part.styles):
            shown[_called(part.style, value)] = Line2D([], [], color="0.3", ls=STYLES[s], lw=1.6)
    return shown


def _dots(history: pd.DataFrame, part: Layout, metric: str, colours: list[Any], of: str) -> Figure:
    """A row for each line there would be, sorted by the mean over panels: the best on top."""
    keep = history[history[part.colour].isin(part.colours)]
    up = lower_is_better(metric) is not False
    means = keep.groupby(part.colour)[metric].mean()
    order = means.sort_values(ascending=up, kind="stable").index.tolist()
    place = {value: row for row, value in enumerate(reversed(order))}
    figure, axes = _frame(part, 0.9 + 0.3 * len(order) * len(part.styles) ** 0.5, sharey=True,
                          sharex="dataset" not in part.facets)  # fmt: skip
    for axis, choice in zip(axes, part.panels, strict=True):
        for c, s, rows in _lines(history, part, choice):
            _, mean, low, high = _spread(rows, metric, log=False)
            if c < 0:
                axis.axvline(mean[0], color=_colour(colours, c), ls="--", lw=1.2)
                continue
            at = place[part.colours[c]] + 0.18 * ((len(part.styles) - 1) / 2 - s)
            colour = _colour(colours, c)
            if np.isfinite(low[0]):
                axis.plot([max(low[0], 0) if mean[0] >= 0 else low[0], high[0]], [at, at],
                          color=colour, lw=1.6)  # fmt: skip
            axis.plot(mean[0], at, MARKS[s], color=colour, ms=5)
        names = [_called(part.colour, v) for v in reversed(order)]
        axis.set_yticks(range(len(order)), names)
        axis.set_ylim(-0.6, len(order) - 0.4)
        axis.xaxis.set_major_locator(MaxNLocator(4))
    name_outer(axes, _words(metric))
    shapes = {
        _called(part.style, v): Line2D([], [], color="0.3", marker=MARKS[s], ls="")
        for s, v in enumerate(part.styles)
        if part.style is not None
    }
    shown = shapes | _free_handle(history, part)
    legend_with_note(figure, shown, of + _note(history, metric, "line"))
    return figure
