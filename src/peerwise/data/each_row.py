"""Rows as numbers, each cell read by itself, so that no row decides whether or how others are read.

For releases with noise: what refuses a file because of one row tells of that row. A cell that is no
number, not finite or not among the categories is missing; a row without a known label counts
nowhere. A column that is absent is an error: that is no matter of rows.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from peerwise.data.columns import Coded, code, no_column, raw_column, without
from peerwise.data.loaders import Table
from peerwise.data.numbers import spell
from peerwise.data.schema import Feature, Schema
from peerwise.errors import BadData

Array = np.ndarray
# of these types equal values have one text; of others not: one moment in two time zones
SPELT_ALIKE = (str, bool, int)


class Read(NamedTuple):
    """Numbers in the units of the file and class codes; how many cells are missing by column."""

    x: Array  # [m, d] NaN = missing
    y: Array  # [m] int32, -1 = no known label
    gaps: dict[str, int]  # exact: for the node alone


def read_each(table: Table, schema: Schema, words: Collection[str] = ()) -> Read:
    """The rows of a table under a schema, whatever its cells hold."""
    frame = _frame(table)
    for feature in schema.features:
        if feature.name not in frame:
            raise no_column(table.name, feature.name, frame.columns)
        if isinstance(frame[feature.name], pd.DataFrame):
            raise BadData(f"'{table.name}' has two columns '{feature.name}'; rename or drop one")
    x = np.empty((len(frame), len(schema.features)))
    for j, feature in enumerate(schema.features):
        x[:, j] = _cells(frame[feature.name], feature, words)
    known = _texts(np.asarray(table.labels, object), schema.classes)
    labels, _ = code(_with_points(known, schema.classes), schema.classes)
    y = np.where(np.isnan(labels), -1, labels).astype(np.int32)
    absent = np.isnan(x).sum(0)
    gaps = {f.name: int(k) for f, k in zip(schema.features, absent, strict=True) if k}
    return Read(x, y, gaps)


def numbers_of(values: Iterable[Any]) -> Array:
    """Single values as the numbers that a numeric column of them has; NaN for what is none."""
    return _cells(pd.Series(values), Feature("values", "numeric"), ())


def _frame(table: Table) -> pd.DataFrame:
    frame: Any = table.frame
    if isinstance(frame, pd.DataFrame):
        return frame.rename(columns=str)
    flat = np.asarray(frame).reshape(len(frame), -1)
    flat = flat / 255 if flat.dtype == np.uint8 else flat
    return pd.DataFrame(flat, columns=[f"f{j}" for j in range(flat.shape[1])])


def _cells(column: pd.Series, feature: Feature, words: Collection[str]) -> Array:
    if column.dtype.kind == "M":
        column = _dates(column, feature.categories)
    elif column.dtype.kind in "mc":  # one such cell gives all others this type
        column = _real(column)
    objects = column.dtype == object
    read = _texts(column, feature.categories) if objects else raw_column(feature.name, column)
    if feature.categories:
        if isinstance(read, Coded):
            read = without(read, [w for w in words if w not in feature.categories])
            read = _with_points(read, feature.categories)
        return np.asarray(code(read, feature.categories)[0])
    if isinstance(read, Coded):  # each text by itself: no other says what its comma means
        texts = [{"False": "0", "True": "1"}.get(t, t) for t in read.texts]
        values = [np.nan if t in words else _number(t) for t in texts]
        read = np.array([*values, np.nan])[read.codes]
    return np.where(np.isfinite(read), read, np.nan)


def _real(column: pd.Series) -> pd.Series:
    """The cells of a column of complex numbers that are real; of durations none is a number."""
    cells = np.full(len(column), np.nan)
    if column.dtype.kind == "c":
        given = column.to_numpy()
        cells = np.where(given.imag == 0, given.real, np.nan)
    return pd.Series(cells, column.index)


def _texts(cells: Iterable[Any], categories: Collection[str]) -> Coded:
    """Objects as texts, each by itself; what is no single value is missing.

    For pandas True and 1 are the same, so that the first of them would say how both are spelt; and
    one text in a column of dates would have all of them spelt otherwise.
    """
    seen: dict[tuple[type, Any], str | None] = {}

    def text(value: Any) -> str | None:
        key = type(value), value
        try:
            if type(value) not in SPELT_ALIKE:
                return _text(value, categories)
            if key not in seen:
                seen[key] = _text(value, categories)
        except (TypeError, ValueError):  # a list, a table; a whole number too long to spell
            return None
        return seen[key]

    texts = [text(value) for value in cells]
    place = {t: i for i, t in enumerate(dict.fromkeys(t for t in texts if t is not None))}
    return Coded(np.array([-1 if t is None else place[t] for t in texts], np.intp), list(place))


def _text(value: Any, categories: Collection[str]) -> str | None:
    """The text of one value, as it is spelt in a column of its own kind; None where it is a gap."""
    gap: Any = pd.isna(value)
    if isinstance(gap, bool | np.bool_) and gap:
        return None
    if isinstance(value, datetime):
        stamp = pd.Timestamp(value)
        whole = stamp.strftime("%Y-%m-%d %H:%M:%S")
        midnight = stamp == stamp.normalize() and whole not in categories
        return stamp.strftime("%Y-%m-%d") if midnight else whole
    if isinstance(value, complex | np.complexfloating) and value.imag == 0:
        value = value.real
    return spell(float(value) if isinstance(value, np.floating) else value)


def _dates(column: pd.Series, categories: Collection[str]) -> pd.Series:
    """Dates as texts, with the time of the day or not as the categories have it."""
    whole = column.dt.strftime("%Y-%m-%d %H:%M:%S")
    midnight = (column == column.dt.normalize()) & ~whole.isin(list(categories))
    return whole.mask(midnight, column.dt.strftime("%Y-%m-%d")).astype(object)


def _with_points(column: Coded, categories: Collection[str]) -> Coded:
    """The texts that are numbers with a decimal point, also where another cell has one."""
    texts = [
        t if t in categories or np.isnan(_number(t)) else t.replace(",", ".") for t in column.texts
    ]
    return column._replace(texts=texts)


def _number(text: str) -> float:
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return np.nan
