"""Checks of what the clinical metrics are given: classes, settings, rows of nodes and subgroups."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.metrics.bootstrap import METRICS, OF_POSITIVE
from peerwise.metrics.checks import same_length


def metrics_of(positive: int | None) -> list[str]:
    """The metrics that are defined with, or without, a class of interest."""
    return [name for name in METRICS if positive is not None or name not in OF_POSITIVE]


def check_settings(threshold: float, bootstrap: int, level: float) -> None:
    """Refuse a threshold, a number of resamples or a level that is out of range."""
    if not 0 <= threshold <= 1:
        raise BadSetting(f"threshold must be a probability, 0 to 1, got {threshold}")
    if not isinstance(bootstrap, int | np.integer) or bootstrap < 0:
        raise BadSetting(f"bootstrap must be a number of resamples, 0 for none, got {bootstrap}")
    if not 0 < level < 1:
        raise BadSetting(f"level must be between 0 and 1, such as 0.95, got {level}")


def names_of(classes: Sequence[Any]) -> list[str]:
    """The names of classes as texts, of which two or more must differ."""
    names = [str(name) for name in classes]
    if len(names) < 2:
        raise BadData(f"there must be at least two classes, got {names}")
    if len(set(names)) < len(names):
        raise BadData(f"the names of classes must differ, got {names}")
    return names


def classes_of(
    prob: np.ndarray, classes: Sequence[Any] | None, positive: Any, what: str
) -> tuple[list[str], int | None]:
    """The names of the classes, and the code of the one of interest; names come before codes."""
    if prob.ndim not in (1, 2):
        raise BadData(f"{what} must be [rows, classes] or [rows], got {prob.shape}")
    c = 2 if prob.ndim == 1 else prob.shape[1]
    if c < 2:
        raise BadData(f"{what} is {prob.shape}; give a column for each class, or one dimension")
    names = [str(k) for k in range(c)] if classes is None else names_of(classes)
    if len(names) != c:
        raise BadData(f"{what} has {c} classes but {len(names)} are named: {', '.join(names)}")
    if positive is None:
        return names, 1 if c == 2 else None
    if str(positive) in names:
        return names, names.index(str(positive))
    if isinstance(positive, int | np.integer) and 0 <= positive < c:
        return names, int(positive)
    raise UnknownName("positive class", str(positive), names)


def row_numbers(rows: Any, m: int, node: str) -> np.ndarray:
    """The row numbers of a node, checked against m rows."""
    given = np.asarray(rows)
    if given.ndim != 1 or not given.size:
        raise BadData(f"node '{node}' has no rows of its own to be measured on")
    if given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= m:
        raise BadData(f"the rows of node '{node}' must be row numbers 0 to {m - 1}")
    return given


def column_of(values: Any, m: int, what: str) -> pd.Series:
    """A column with a value for each of m rows."""
    if np.ndim(values) != 1:
        raise BadData(f"{what} must be one name per row, got shape {np.shape(values)}")
    same_length(len(values), m, what)
    return pd.Series(values)


Group = tuple[str, str, np.ndarray]


def split(name: str, column: pd.Series) -> Iterator[Group]:
    """The rows of each value, in the order of the values; rows without one are "missing"."""
    kinds = column.astype("category").cat
    codes = kinds.codes.to_numpy()
    for code, value in [*enumerate(kinds.categories), (-1, "missing")]:
        rows = np.flatnonzero(codes == code)
        if rows.size:
            yield name, str(value), rows


def groups(subgroups: Any, m: int) -> Iterator[Group]:
    """All rows, then the rows of each value of each column."""
    columns: list[tuple[str, pd.Series]] = []
    if isinstance(subgroups, pd.DataFrame):
        columns = [(str(k), column_of(v, m, f"subgroup '{k}'")) for k, v in subgroups.items()]
    elif subgroups is not None:
        name = getattr(subgroups, "name", None) or "subgroup"
        columns = [(str(name), column_of(subgroups, m, "subgroups"))]
    yield "all", "all", np.arange(m)
    for name, column in columns:
        yield from split(name, column)
