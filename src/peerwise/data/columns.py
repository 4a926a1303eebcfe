"""One column of a table: its values as numbers, or as codes into texts."""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types as dtypes

from peerwise.data.discreet import is_discreet, shown
from peerwise.data.numbers import EXACT, Parsed, parse, spell
from peerwise.errors import BadData

Array = npt.NDArray[Any]
MISSING = "(missing)"  # how a missing value is written where it is a category of its own


_NONE = re.compile(r"\s*[+-]?(nan|inf|infinity)\s*", re.I)


class Coded(NamedTuple):
    """A column as codes into the distinct texts that occur in it."""

    codes: Array  # [m] -1 = missing
    texts: list[str]
    free: bool = True  # False: the source itself says that these are no numbers


def no_column(table: str, name: str, there: Iterable[str]) -> BadData:
    """The error for a column that a table lacks, with the one that may be meant.

    In a file without a line of names these are cells: where none may be quoted, only the same
    letters are.
    """
    by_lower = {column.lower(): column for column in there}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=1.0 if is_discreet() else 0.6)
    hint = f"; is it '{by_lower[near[0]]}'?" if near else ""
    return BadData(f"'{table}' has no column '{name}', which the schema needs{hint}")


def factorise(values: Any, missing: Collection[str] = ()) -> Coded:
    """The values as texts, in order of appearance; the words in `missing` count as missing."""
    codes, uniques = pd.factorize(values)
    if isinstance(getattr(values, "dtype", None), pd.StringDtype):  # texts already, and different
        return without(Coded(codes, uniques.tolist()), missing)
    spelt = [spell(v) for v in uniques]
    place = {t: i for i, t in enumerate(dict.fromkeys(s for s in spelt if s not in missing))}
    return Coded(np.array([*(place.get(s, -1) for s in spelt), -1])[codes], list(place))


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


def raw_column(name: str, column: pd.Series) -> Array | Coded:
    """The column as its source types it: numbers [m], NaN = missing, or texts with nothing changed.

    Decimals and other number objects are numbers, dates are texts, and so are whole numbers that
    floats cannot tell apart. Infinity is still there.
    """
    dtype = column.dtype
    if dtype.kind in "mc":
        raise BadData(f"column '{name}' holds {dtype}; turn it into numbers or text, or drop it")
    if dtype.kind == "M":
        days = bool((column.dropna() == column.dropna().dt.normalize()).all())
        return factorise(column.dt.strftime("%Y-%m-%d" if days else "%Y-%m-%d %H:%M:%S"))
    number = dtypes.is_numeric_dtype(dtype) and not dtypes.is_bool_dtype(dtype)
    if number or number_objects(column):
        values: Array = column.to_numpy(dtype=np.float64, na_value=np.nan)
        whole = not dtypes.is_float_dtype(dtype) and np.abs(values[~np.isnan(values)]) >= EXACT
        return factorise(column.astype(object)) if np.any(whole) else values
    try:
        coded = factorise(column)
    except TypeError as error:
        raise BadData(f"column '{name}' holds more than single values: {error}") from error
    typed = dtypes.is_bool_dtype(dtype) or isinstance(dtype, pd.CategoricalDtype)
    return coded._replace(free=not typed)


def number_objects(column: pd.Series) -> bool:
    """Whether a column of objects holds numbers alone, such as decimals of Parquet."""
    numbers = ("decimal", "floating", "integer", "mixed-integer-float")
    return column.dtype == object and dtypes.infer_dtype(column, skipna=True) in numbers


def subset(column: Array | Coded, rows: Array | None) -> Array | Coded:
    """The column restricted to some rows, without the texts that only other rows have."""
    if rows is None:
        return column
    if not isinstance(column, Coded):
        return np.asarray(column[rows])
    kept, codes = np.unique(column.codes[rows], return_inverse=True)
    gap = int(bool(len(kept)) and kept[0] < 0)
    return Coded(codes - gap, [column.texts[i] for i in kept[gap:]], column.free)


@overload
def without(column: Coded, words: Collection[str]) -> Coded: ...
@overload
def without(column: Array | Coded, words: Collection[str]) -> Array | Coded: ...
def without(column: Array | Coded, words: Collection[str]) -> Array | Coded:
    """The column with the words that mean missing as gaps."""
    if not isinstance(column, Coded) or not any(w in column.texts for w in words):
        return column
    kept = [t for t in column.texts if t not in words]
    place = {t: i for i, t in enumerate(kept)}
    codes = np.array([*(place.get(t, -1) for t in column.texts), -1])[column.codes]
    return Coded(codes, kept, column.free)


def no_numbers(column: Array | Coded, categories: Sequence[str]) -> list[str]:
    """The texts of a column, such as "nan", that are gaps where all categories are numbers."""
    if not isinstance(column, Coded):
        return []
    odd = [t for t in column.texts if t not in categories and _NONE.fullmatch(t)]
    return odd if odd and all(_names([c for c in categories if c != MISSING])) else []


def spelt(column: Coded) -> Coded:
    """The column with its numbers written alike: 1.0 as 1."""
    read = parse(column.texts)
    names = [spell(v) if f else t for t, v, f in zip(column.texts, *read[:2], strict=True)]
    place = {t: i for i, t in enumerate(dict.fromkeys(names))}
    codes = np.array([*(place[t] for t in names), -1])[column.codes]
    return Coded(codes, list(place), column.free)


def numbers(
    name: str, column: Array | Coded, comma: bool = False, read: Parsed | None = None
) -> Array:
    """The column as numbers [m], NaN = missing or infinite; BadData names a text that is no number.

    `comma`: a comma is certainly a decimal one, also in "1,234". `read`: its texts as they were
    parsed before.
    """
    if not isinstance(column, Coded):
        return _finite(column)
    texts = column.texts
    if not column.free:  # false and true, or categories that are declared to be numbers after all
        texts = [{"False": "0", "True": "1"}.get(t, t) for t in texts]
    read = parse(texts) if read is None else read
    for i in np.flatnonzero(~read.fits)[:1]:
        raise BadData(
            f"column '{name}' should be numeric and holds {shown(texts[i], 'another text')}, first "
            f"in row {int(np.argmax(column.codes == i))} (counted from 0); correct it, drop the"
            " column or declare it categorical"
        )
    if read.unsure and not comma:
        raise BadData(unsure(name, read.unsure))
    return _finite(np.append(read.values, np.nan)[column.codes])


def unsure(name: str, text: str) -> str:
    """The message about a comma that may separate thousands or decimals."""
    return (
        f"column '{name}' holds {shown(text, 'numbers with a comma')}, which may be thousands or a "
        "decimal comma; write it "
        f'without the comma, or say [data.columns] {quoted(name)} = "number" for a decimal comma'
    )


def quoted(name: str) -> str:
    """A column's name as a key of TOML."""
    bare = name.replace("_", "").replace("-", "")
    return name if bare.isascii() and bare.isalnum() else f'"{name}"'


def no_infinity(name: str, column: Array | Coded) -> None:
    """Refuse a column in which a number is infinite."""
    if isinstance(column, Coded):
        wrong = np.append(np.isinf(parse(column.texts).values), False)[column.codes]
    else:
        wrong = np.isinf(column)
    if wrong.any():
        raise BadData(
            f"column '{name}' holds infinity {where(wrong)}; correct or empty these cells"
        )


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, np.nan)


def gaps(column: Array | Coded) -> Array:
    """Which rows have no value, as [m] bool."""
    return column.codes < 0 if isinstance(column, Coded) else np.isnan(column)


def distinct(column: Array | Coded) -> Array | list[str]:
    """The distinct values that occur."""
    if isinstance(column, Coded):
        return column.texts
    return np.asarray(pd.unique(column[~np.isnan(column)]))


def code(column: Array | Coded, categories: Sequence[str]) -> tuple[Array, Array]:
    """Each value's index in `categories` as a float, NaN for an unknown one; and which are unknown.

    A text counts as the category that is spelt like it, or else as the one that is the same number:
    files write 1 as 1.0 where a column has gaps. A missing value has the place of "(missing)" where
    that is a category.
    """
    coded = column if isinstance(column, Coded) else factorise(column)
    place = {text: float(i) for i, text in enumerate(categories)}
    if any(t not in place for t in coded.texts):
        alike = _by_number(categories)
        for text, name in zip(coded.texts, _names(coded.texts), strict=True):
            if text not in place and name in alike:
                place[text] = alike[name]
    places = np.array([place.get(t, math.nan) for t in [*coded.texts, MISSING]])[coded.codes]
    return places, np.isnan(places) & (coded.codes >= 0)


def _by_number(categories: Sequence[str]) -> dict[str, float]:
    """The places of categories that are numbers by value; a value that two have counts as none."""
    names = _names(categories)
    often = Counter(names)
    return {s: float(i) for i, s in enumerate(names) if s and often[s] == 1}


def _names(texts: Sequence[str]) -> list[str]:
    """How texts that are numbers, and no codes, are spelt; "" for the others."""
    read = parse(texts)
    plain = read.fits & ~read.codes & np.isfinite(read.values)
    return [spell(v) if p else "" for v, p in zip(read.values, plain, strict=True)]


def where(absent: Array) -> str:
    """How many rows are marked, and the first of them, for a message."""
    return f"in {int(absent.sum())} rows, first in row {int(absent.argmax())} (counted from 0)"
