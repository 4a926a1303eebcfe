"""The kinds of a table's columns: a number, a category or left out, declared or by their values."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from peerwise.data.columns import (
    Coded,
    factorise,
    numbers,
    quoted,
    raw_column,
    spelt,
    subset,
    unsure,
    where,
    without,
)
from peerwise.data.discreet import is_discreet
from peerwise.data.loaders import Table
from peerwise.data.numbers import Parsed, parse
from peerwise.data.schema import KINDS
from peerwise.errors import BadData, BadSetting, UnknownName

Array = npt.NDArray[Any]
Typing = str | Mapping[str, str]
TYPINGS = ("distinct", "manifest")
OVERRIDES = {"number": "numeric", "category": "categorical", "drop": "drop"}
# Words that mean missing unless others are named: how many published tables write it.
WORDS = ("?",)


class Raw:
    """The columns of a table as its source types them, each read when it is first asked for."""

    def __init__(self, table: Table):
        self.table = table
        self.places = columns_of(table)
        self._read: dict[str, Array | Coded] = {}
        self._numbers: dict[tuple[str, tuple[str, ...], bool], Array] = {}

    def column(self, name: str) -> Array | Coded:
        """One column of a frame: numbers, or texts with nothing changed."""
        if name not in self._read:
            assert isinstance(self.table.frame, pd.DataFrame)
            self._read[name] = raw_column(name, self.table.frame.iloc[:, self.places[name]])
        return self._read[name]

    def numbers(self, name: str, words: tuple[str, ...], comma: bool) -> Array:
        """One column as numbers, parsed once: repetitions read the same rows again and again."""
        key = name, words, comma
        if key not in self._numbers:
            self._numbers[key] = numbers(name, without(self.column(name), words), comma)
        return self._numbers[key]


class How(NamedTuple):
    """How columns are read where no schema is given."""

    typing: str
    missing: str
    kinds: Mapping[str, str]  # declared by the source or the user, by column
    limit: int  # the most distinct values of a category, under "distinct"
    words: tuple[str, ...]


def columns_of(table: Table) -> dict[str, int]:
    """The place of each column, which for an image is a pixel of a channel."""
    if not isinstance(table.frame, pd.DataFrame):
        if table.frame.dtype.kind not in "buif":
            raise BadData(f"the array of '{table.name}' must hold numbers, got {table.frame.dtype}")
        return {f"f{j}": j for j in range(table.frame.size // max(len(table.frame), 1))}
    places = {str(name): j for j, name in enumerate(table.frame.columns)}
    if len(places) < table.frame.shape[1]:
        raise BadData(f"two columns of '{table.name}' have the same name; rename one")
    return places


def check_known(names: Iterable[str], columns: Iterable[str]) -> None:
    """Refuse a name that is no column."""
    known = set(columns)
    for name in names:
        if name not in known:
            raise UnknownName("column", name, known)


def overrides(columns: Mapping[str, str], raw: Raw) -> tuple[dict[str, str], dict[str, None]]:
    """The kinds that a user gives single columns, and the columns to leave out."""
    check_known(columns, raw.places)
    for name, kind in columns.items():
        if kind not in OVERRIDES:
            raise BadSetting(
                f"[data.columns] {quoted(name)} must be one of {', '.join(OVERRIDES)}, got {kind!r}"
            )
        if kind == "category" and not isinstance(raw.table.frame, pd.DataFrame):
            raise BadSetting(f"'{name}' belongs to an array of numbers and cannot be a category")
    kinds = {name: OVERRIDES[kind] for name, kind in columns.items() if kind != "drop"}
    return kinds, dict.fromkeys(name for name, kind in columns.items() if kind == "drop")


def declared(table: Table, typing: Typing, columns: Iterable[str]) -> dict[str, str]:
    """The kinds that the source or the caller declares; none under the rule "distinct"."""
    if typing == "distinct":
        return {}
    if isinstance(typing, str) and typing != "manifest":
        raise UnknownName("typing", typing, TYPINGS)
    own = {} if isinstance(typing, str) else dict(typing)
    check_known(own, columns)
    for name, kind in own.items():
        if kind not in KINDS:
            raise BadSetting(f"the kind of column '{name}' must be one of {KINDS}, got {kind!r}")
        if kind != "numeric" and not isinstance(table.frame, pd.DataFrame):
            raise BadSetting(f"'{name}' belongs to an array of numbers and cannot be {kind}")
    return dict.fromkeys(table.categorical or (), "categorical") | own


def settled(name: str, whole: Array | Coded, how: How, rows: Array | None) -> Array | Coded:
    """A column of some rows as numbers or as texts, by what it holds and what is declared of it."""
    kind = how.kinds.get(name)
    if kind == "numeric":
        return subset(numbers(name, without(whole, how.words), comma=True), rows)
    column = subset(whole, rows)
    if not isinstance(column, Coded):
        column = numbers(name, column)
        return factorise(column) if kind == "categorical" else column
    bare = without(column, how.words)
    read = parse(bare.texts) if column.free and bare.texts else None
    plain = read is not None and bool(read.fits.all()) and not read.codes.any()
    if kind is None and read is not None:
        if plain and read.unsure:
            raise BadData(unsure(name, read.unsure))
        if plain:
            return numbers(name, bare, read=read)
        if _mixed(read, how):
            raise BadData(_mend(name, whole, bare.texts[int(np.argmin(read.fits))]))
    kept = column if how.missing == "category" else bare
    return spelt(kept) if plain else kept


def _mixed(read: Parsed, how: How) -> bool:
    """Whether a few words stand between numbers: as texts these would lose their order."""
    few = how.limit if how.typing == "distinct" else 2
    fits = int(read.fits.sum())
    return not read.codes.any() and fits > few and fits > len(read.fits) / 2


def _mend(name: str, column: Array | Coded, text: str) -> str:
    assert isinstance(column, Coded)
    word = '"..."' if is_discreet() else json.dumps(text, ensure_ascii=False)
    return (
        f"column '{name}' holds numbers and {'a text' if is_discreet() else word} "
        f"{where(column.codes == column.texts.index(text))}; mend it, or say [data] "
        f"missing_words = [{word}] (--missing-word) if it means missing, or [data.columns] "
        f'{quoted(name)} = "category" or "drop" (--column)'
    )
