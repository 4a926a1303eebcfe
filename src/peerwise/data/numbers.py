"""Numbers as files write them, with a point or a decimal comma, and texts that look like one."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

Array = npt.NDArray[Any]
EXACT = 2**53  # whole numbers from here on are not told apart as floats
_COMMA = r"\s*[+-]?(?:\d+,\d*|,\d+)(?:[eE][+-]?\d+)?\s*"
_THOUSANDS = r"\s*[+-]?[1-9]\d{0,2},\d{3}\s*"


class Parsed(NamedTuple):
    """What the distinct texts of a column are as numbers."""

    values: Array  # [k] NaN where a text is no number, and for "nan"
    fits: Array  # [k] which texts are numbers
    codes: Array  # [k] which are codes and no quantities: they begin with 0, or are too long
    unsure: str  # the first whose comma may also separate thousands


def parse(texts: Sequence[str]) -> Parsed:
    """The numbers that texts stand for; spaces around them do not count.

    A comma is a decimal one where no text has a point. A text is a code if it begins with a zero
    before another digit, or is a whole number that floats cannot tell from the next.

    >>> parse(["1,5", "2", "x"]).values.tolist()
    [1.5, 2.0, nan]
    >>> parse(["01", "10"]).codes.tolist()
    [True, False]
    """
    values = np.array(pd.to_numeric(np.array(texts, object), errors="coerce"), np.float64)
    written = pa.array(texts, pa.string())
    fits, unsure = ~np.isnan(values), ""
    odd = np.flatnonzero(~fits)
    if odd.size:
        left = pd.Series([texts[i] for i in odd.tolist()], dtype="str")
        fits[odd] = left.str.strip().str.lower().isin(["nan", "-nan", "+nan"])
        comma = left.str.fullmatch(_COMMA).to_numpy(bool)
        if comma.any() and not _matches(written, r"\.")[fits].any():
            points = left[comma].str.strip().str.replace(",", ".", regex=False)
            values[odd[comma]] = pd.to_numeric(points, errors="coerce").to_numpy(np.float64)
            fits[odd[comma]] = True
            if left[comma].str.fullmatch(_THOUSANDS).all():
                unsure = str(left[comma].iloc[0])
    codes = fits & _matches(written, r"^\s*[+-]?0\d")
    for i in np.flatnonzero(np.isfinite(values) & (np.abs(values) >= EXACT)).tolist():
        codes[i] |= texts[i].strip().lstrip("+-").isdecimal()
    return Parsed(values, fits, codes, unsure)


def _matches(texts: pa.Array, pattern: str) -> Array:
    matches: Array = pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
    return matches.astype(bool)


def spell(value: object) -> str:
    """The text of a value, the same for 1 and 1.0."""
    # a gap turns a column of whole numbers into floats; its categories must stay the same texts
    if isinstance(value, float | np.floating) and math.isfinite(value) and value == int(value):
        return str(int(value))
    return str(value)
