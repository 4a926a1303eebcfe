"""One column of a table: its values as numbers, or as codes into texts."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types as dtypes

from peerwise.errors import BadData

Array = npt.NDArray[Any]
MISSING = "(missing)"  # how a missing value is written where it is a category of its own
UNKNOWN = "?"  # how many published tables write a missing value


class Coded(NamedTuple):
    """A column as codes into the distinct texts that occur in it."""

    codes: Array  # [m] -1 = missing
    texts: list[str]


def factorise(values: Any, missing: str | None = None) -> Coded:
    """The values as texts, in order of appearance; one spelt `missing` counts as missing."""
    codes, uniques = pd.factorize(values)
    spelt = [spell(v) for v in uniques]
    place = {text: i for i, text in enumerate(dict.fromkeys(s for s in spelt if s != missing))}
    return Coded(np.array([*(place.get(s, -1) for s in spelt), -1])[codes], list(place))


def spell(value: object) -> str:
    """The text of a value, the same for 1 and 1.0."""
    # a gap turns a column of whole numbers into floats; its categories must stay the same texts
    if isinstance(value, float | np.floating) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)


def in_order(texts: Iterable[str]) -> tuple[str, ...]:
    """The distinct texts sorted, by value when all are numbers, with "(missing)" at the end."""
    held = set(texts)
    values = sorted(held - {MISSING})
    try:
        numbers = [float(v) for v in values]
    except ValueError:
        numbers = [math.nan]
    if all(map(math.isfinite, numbers)):
        values = [v for _, v in sorted(zip(numbers, values, strict=True))]
    # last, so that a gap does not shift the codes of the values that are there
    return (*values, *(held & {MISSING}))


def read_column(name: str, column: pd.Series, kind: str | None, unknown: bool) -> Array | Coded:
    """The column as numbers [m], NaN = missing, where it holds numbers or `kind` is "numeric".

    unknown: whether "?" means missing; among numbers it always does.
    """
    dtype = column.dtype
    if dtype.kind in "mMc":
        raise BadData(f"column '{name}' holds {dtype}; turn it into numbers or text, or drop it")
    number = dtypes.is_numeric_dtype(dtype) and not dtypes.is_bool_dtype(dtype)
    if number or (dtypes.is_bool_dtype(dtype) and kind == "numeric") or _number_objects(column):
        return _finite(column.to_numpy(dtype=np.float64, na_value=np.nan))
    try:
        coded = factorise(column, UNKNOWN if unknown or kind == "numeric" else None)
    except TypeError as error:
        raise BadData(f"column '{name}' holds more than single values: {error}") from error
    return _parsed(name, coded) if kind == "numeric" else coded


def _number_objects(column: pd.Series) -> bool:
    numbers = ("decimal", "floating", "integer", "mixed-integer-float")
    return column.dtype == object and dtypes.infer_dtype(column, skipna=True) in numbers


def _parsed(name: str, column: Coded) -> Array:
    values = pd.to_numeric(pd.Series(column.texts, dtype=object), errors="coerce").to_numpy()
    for i, text in enumerate(column.texts):
        if math.isnan(values[i]):
            raise BadData(
                f"column '{name}' should be numeric and holds '{text}', first in row"
                f" {int(np.argmax(column.codes == i))} (counted from 0); mend it, drop the"
                " column or declare it categorical"
            )
    return _finite(np.append(values.astype(np.float64), np.nan)[column.codes])


def _finite(numbers: Array) -> Array:
    return np.where(np.isfinite(numbers), numbers, np.nan)


def gaps(column: Array | Coded) -> Array:
    """Which rows have no value, as [m] bool."""
    return column.codes < 0 if isinstance(column, Coded) else np.isnan(column)


def distinct(column: Array | Coded) -> Array | list[str]:
    """The different values that are there."""
    if isinstance(column, Coded):
        return column.texts
    return np.asarray(pd.unique(column[~np.isnan(column)]))


def code(column: Array | Coded, categories: Sequence[str]) -> Array:
    """Each value's place in `categories` as a float; NaN for one that is not there.

    A missing value has the place of "(missing)" where that is a category.
    """
    coded = column if isinstance(column, Coded) else factorise(column)
    place = {text: float(i) for i, text in enumerate(categories)}
    return np.array([place.get(t, math.nan) for t in [*coded.texts, MISSING]])[coded.codes]


def where(absent: Array) -> str:
    """How many rows are marked, and the first of them, for a message."""
    return f"in {int(absent.sum())} rows, first in row {int(absent.argmax())} (counted from 0)"
