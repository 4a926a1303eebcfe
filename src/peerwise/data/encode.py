"""From a raw table to numbers and their schema, or to numbers under a schema that is given."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from peerwise.data.columns import (
    MISSING,
    Coded,
    code,
    distinct,
    factorise,
    gaps,
    in_order,
    no_column,
    no_infinity,
    no_numbers,
    numbers,
    subset,
    where,
    without,
)
from peerwise.data.discreet import is_discreet, shown
from peerwise.data.kinds import WORDS, How, Raw, Typing, check_known, declared, overrides, settled
from peerwise.data.loaders import Table
from peerwise.data.numbers import parse, spell
from peerwise.data.scaling import rescaled
from peerwise.data.schema import Feature, Schema
from peerwise.errors import BadData, UnknownName

Array = npt.NDArray[Any]
Dropped = list[tuple[str, str]]
TREATMENTS = ("category", "missing", "error")
FEW = 10  # the most distinct values of a categorical column in the CRC paper's tables
MANY = 50  # a target of more values, some of them broken numbers, is a quantity and no class


class Unknown(NamedTuple):
    """Cells of a column that hold a category that the schema does not have."""

    column: str
    cells: int
    text: str  # what the first of them holds
    row: int  # of the first, counted from 0

    def __str__(self) -> str:
        more = f" and {self.cells - 1} more cells" if self.cells > 1 else ""
        text = shown(self.text, "a value")
        return f"column '{self.column}' holds {text} in row {self.row} (counted from 0){more}"


class Encoded(NamedTuple):
    """Rows as numbers, with the schema that says what the numbers mean."""

    x: Array  # [m, d] float64, float32 for images and embedded features; NaN = missing
    y: Array  # [m] int32 codes into schema.classes; their number for a class that is not there
    schema: Schema
    split: Array | None
    dropped: tuple[tuple[str, str], ...]  # (column, reason)
    unknown: tuple[Unknown, ...] = ()  # categories that the schema does not have


def encode(
    table: Table | Raw,
    *,
    typing: Typing = "distinct",
    missing: str = "category",
    drop: Iterable[str] = (),
    schema: Schema | None = None,
    columns: Mapping[str, str] | None = None,
    distinct: int = FEW,
    words: Collection[str] = WORDS,
    rows: Array | None = None,
) -> Encoded:
    """The table as numbers, under a schema learnt from it or under the `schema` given.

    typing: "distinct" is the rule that reproduces Table I of the CRC paper: nominal values are
    label-encoded in sorted order, then a column of at most `distinct` different values (10) is
    categorical and any other numeric, nominal or not. "manifest" follows the source: its list of
    categorical columns, and whatever is text or bool. A mapping of columns to kinds overrides
    "manifest". Under both, `columns` says of single columns that they are a "number", a "category"
    or to "drop". Images and embedded features are always numeric, flattened, and called f0, f1, ...

    Texts that all are numbers are numbers, with a point or a decimal comma, unless they are codes:
    one begins with 0 before another digit, or has more digits than a float holds. Numbers with
    other words between them are refused.

    missing: "category" makes a missing value of a categorical or nominal column the category
    "(missing)", which comes last and counts among the 10 (Table I comes out either way), and a
    missing number NaN; "missing" makes both NaN; "error" raises. Infinity is a missing number.
    `words` mean missing too; under "category" they are a category like any other, except among
    numbers.

    A column whose values are all equal, gaps aside, is dropped. Kinds, categories and classes are
    learnt from `rows` alone, all where it is None; in other rows a category that is not known is
    NaN. Under a given `schema` columns are found by name and standardised by its center and scale,
    others are ignored, and a value that the schema does not know is NaN if it allows missing values
    and an error if not.
    """
    raw = table if isinstance(table, Raw) else Raw(table)
    table = raw.table
    if missing not in TREATMENTS:
        raise UnknownName("treatment of missing values", missing, TREATMENTS)
    if len(table.labels) == 0 or len(table.frame) == 0:
        raise BadData(f"'{table.name}' has no rows")
    if len(table.labels) != len(table.frame):
        raise BadData(f"'{table.name}': {len(table.frame)} rows, {len(table.labels)} labels")
    chosen, left = overrides(columns or {}, raw)
    unwanted = dict.fromkeys([drop] if isinstance(drop, str) else drop)
    check_known(unwanted, raw.places)
    unwanted |= left
    kinds = declared(table, typing, raw.places) | chosen
    how = How("distinct" if typing == "distinct" else "manifest", missing, kinds, distinct,
              tuple(words))  # fmt: skip
    labels = _labels(table, how)
    if schema is not None:
        y = _classes_of(labels, schema)
        x, unknown = _under(schema, raw, how, missing != "error", schema.missing)
        return Encoded(rescaled(x, *_units(schema)), y, schema, table.split, (), unknown)
    classes = _learn_classes(table, subset(labels, rows))
    names = [name for name in raw.places if name not in unwanted]
    if isinstance(table.frame, pd.DataFrame):
        features, dropped = _learn_frame(raw, names, how, rows)
    else:
        features, dropped = _learn_array(_flat(table.frame), raw.places, names, rows)
    dropped += [(name, "left out on request") for name in unwanted]
    if not features:
        reasons = "; ".join(f"{name}: {why}" for name, why in dropped) or "it has no columns"
        raise BadData(f"no feature of '{table.name}' is left ({reasons})")
    learnt = Schema(tuple(features), classes, table.target)
    x, unknown = _under(learnt, raw, how, missing != "error", True)
    learnt = Schema(tuple(features), classes, table.target, _may_be_missing(x, features, rows))
    y, _ = code(labels, classes)
    y = np.where(np.isnan(y), len(classes), y).astype(np.int32)
    return Encoded(x, y, learnt, table.split, tuple(dropped), unknown)


def encode_rows(frame: pd.DataFrame, schema: Schema, words: Collection[str] = ()) -> Array:
    """Rows of a frame as numbers under a schema; columns are found by name, others are ignored.

    A value that the schema does not know is NaN if it allows missing values and an error if not;
    so is one of the `words` that mean missing.
    """
    return read_rows(frame, schema, words)[0]


def read_rows(
    frame: pd.DataFrame, schema: Schema, words: Collection[str] = (), name: str = "the rows"
) -> tuple[Array, tuple[Unknown, ...]]:
    """As `encode_rows`, and the columns that hold categories that the schema does not have.

    `name` is what errors call the rows. Categories are compared as texts, nothing stripped; numbers
    may have a decimal comma.
    """
    how = How("manifest", "category", {}, FEW, tuple(words))
    raw = Raw(Table(name, frame, np.zeros(0, object), schema.target))
    x, unknown = _under(schema, raw, how, True, schema.missing)
    return rescaled(x, *_units(schema)), unknown


def typed_frame(
    table: Table,
    rows: Array,
    *,
    columns: Mapping[str, str] | None = None,
    words: Collection[str] = WORDS,
) -> pd.DataFrame:
    """The features as a frame of numbers and of categories as texts, for estimators.

    Kinds are read off `rows`, or declared by the source or by `columns`; infinity is refused. In
    other rows of a column of numbers, a word is an error as it is under a schema.
    """
    raw = Raw(table)
    chosen, unwanted = overrides(columns or {}, raw)
    kinds = declared(table, "manifest", raw.places) | chosen
    how = How("manifest", "category", kinds, FEW, tuple(words))
    out: dict[str, Any] = {}
    for name in (n for n in raw.places if n not in unwanted):
        column = raw.column(name)
        no_infinity(name, column)
        if not isinstance(settled(name, column, how, rows), Coded):
            out[name] = numbers(name, without(column, how.words), kinds.get(name) == "numeric")
            continue
        coded = column if isinstance(column, Coded) else factorise(column)
        out[name] = np.array([*coded.texts, None], dtype=object)[coded.codes]
    return pd.DataFrame(out, index=range(len(table.labels)))


def _labels(table: Table, how: How) -> Coded:
    labels = factorise(table.labels, () if how.missing == "category" else how.words)
    if gaps(labels).any():
        rows = where(gaps(labels))
        raise BadData(f"the target '{table.target}' is missing {rows}; remove these rows")
    return labels


def _classes_of(labels: Coded, schema: Schema) -> Array:
    """The codes of labels that are all classes of the schema."""
    y, unseen = code(labels, schema.classes)
    for row in np.flatnonzero(unseen)[:1]:
        known = ", ".join(schema.classes)
        label = shown(labels.texts[labels.codes[row]], f"in row {row} (counted from 0)")
        raise BadData(f"the label {label} is not one of the schema's classes: {known}")
    return y.astype(np.int32)


def _learn_classes(table: Table, labels: Array | Coded) -> tuple[str, ...]:
    """The classes in order, if there is something to tell apart and it is no quantity."""
    assert isinstance(labels, Coded)
    texts = labels.texts
    if len(texts) == 1:
        raise BadData(
            f"every row of '{table.name}' is of class {shown(texts[0], 'one alone')} "
            f"('{table.target}'): there is nothing to learn; name another target, or take "
            "more rows"
        )
    if len(texts) > MANY:
        values = parse(texts).values
        broken = bool(np.isfinite(values).all()) and bool((values % 1 != 0).any())
        if broken or len(texts) > len(labels.codes) / 2:
            kind = "numbers" if broken else "values"
            raise BadData(
                f"the target '{table.target}' has {len(texts)} different {kind} in "
                f"{len(labels.codes)} rows: it looks like "
                f"{'a quantity (regression)' if broken else 'an identifier'}, but Peerwise learns "
                "classes; name another target, or turn it into a few classes"
            )
    return in_order(texts)


def _learn_frame(
    raw: Raw, names: Sequence[str], how: How, rows: Array | None
) -> tuple[list[Feature], Dropped]:
    features: list[Feature] = []
    dropped: Dropped = []
    for name in names:
        column = settled(name, raw.column(name), how, rows)
        values, absent = distinct(column), gaps(column)
        _allow(absent, name, how.missing != "error")
        if len(values) < 2:
            dropped.append((name, _constant(values)))
            continue
        own = [MISSING] if how.missing == "category" and absent.any() else []
        kind = how.kinds.get(name)
        if kind is None:
            few = len(values) + len(own) <= how.limit
            nominal = few if how.typing == "distinct" else isinstance(column, Coded)
            kind = "categorical" if nominal else "numeric"
        if isinstance(column, Coded) or kind == "categorical":
            coded = column if isinstance(column, Coded) else factorise(column)
            features.append(Feature(name, kind, in_order([*coded.texts, *own])))
        else:
            features.append(Feature(name, kind))
    return features, dropped


def _learn_array(
    raw: Array, places: Mapping[str, int], names: Sequence[str], rows: Array | None
) -> tuple[list[Feature], Dropped]:
    # fmin and fmax pass over NaN
    held = raw if rows is None else raw[rows]
    low, high = np.fmin.reduce(held, axis=0), np.fmax.reduce(held, axis=0)
    kept = {name: j for name in names if high[j := places[name]] > low[j]}
    dropped = [
        (name, _constant(low[j : j + 1][~np.isnan(low[j : j + 1])]))
        for name in names
        if name not in kept
        for j in (places[name],)
    ]
    return [Feature(name, "numeric") for name in kept], dropped


def _may_be_missing(x: Array, features: Sequence[Feature], rows: Array | None) -> bool:
    """Whether encoded rows may hold NaN: one that was learnt from does, or some number is missing.

    A category that rows beside those have is no reason: it adds nothing to what is predicted.
    """
    if rows is None:
        return bool(np.isnan(x).any())
    plain = [j for j, f in enumerate(features) if not f.categories]
    return bool(np.isnan(x[rows]).any() or np.isnan(x[:, plain]).any())


def _under(
    schema: Schema, raw: Raw, how: How, gap: bool, other: bool
) -> tuple[Array, tuple[Unknown, ...]]:
    """The rows encoded by the schema's features, not yet rescaled, and what it does not know.

    `gap`: whether missing values are taken at all; `other`: whether as NaN, and what is not known.
    """
    table = raw.table
    for name in (f.name for f in schema.features):
        if name not in raw.places:
            raise no_column(table.name, name, raw.places)
    if not isinstance(table.frame, pd.DataFrame):
        if any(f.kind != "numeric" or f.categories for f in schema.features):
            raise BadData(f"'{table.name}' is an array of numbers, but the schema has categories")
        places = {f.name: raw.places[f.name] for f in schema.features}
        return _pixels(_flat(table.frame), places, gap and other), ()
    x = np.empty((len(table.frame), len(schema.features)))
    unknown = []
    for j, f in enumerate(schema.features):
        if f.categories:
            column = raw.column(f.name)
            column = column if isinstance(column, Coded) else numbers(f.name, column)
            words = [w for w in how.words if w not in f.categories]
            column = without(column, [*words, *no_numbers(column, f.categories)])
            x[:, j], unseen = code(column, f.categories)
            _allow(gaps(column), f.name, gap and (other or MISSING in f.categories))
            for row in np.flatnonzero(unseen)[:1]:
                text = _text_of(column, int(row))
                unknown.append(Unknown(f.name, int(unseen.sum()), text, int(row)))
                if not other:
                    raise BadData(not_one_of(unknown[-1], f))
        else:
            x[:, j] = raw.numbers(f.name, how.words, how.kinds.get(f.name) == "numeric")
            _allow(np.isnan(x[:, j]), f.name, gap and other)
    return x, tuple(unknown)


def not_one_of(unknown: Unknown, feature: Feature) -> str:
    """The message about a category that is not one of the agreed ones."""
    known = ", ".join(feature.categories)
    return f"{unknown}, which is not one of: {known}; mend or remove the row"


def _text_of(column: Array | Coded, row: int) -> str:
    return column.texts[column.codes[row]] if isinstance(column, Coded) else spell(column[row])


def _units(schema: Schema) -> tuple[Array, Array]:
    units = [(f.center, f.scale) if f.kind == "numeric" else (0, 1) for f in schema.features]
    center, scale = np.array(units, dtype=np.float64).T
    return center, scale


def _flat(array: Array) -> Array:
    raw = array.reshape(len(array), -1)
    if raw.dtype.kind != "f":
        return raw  # bytes take a quarter of the memory until the columns are chosen
    with np.errstate(over="ignore"):
        raw = raw.astype(np.float32)
    return np.where(np.isfinite(raw), raw, np.float32(np.nan))


def _pixels(raw: Array, kept: Mapping[str, int], allow: bool) -> Array:
    x = raw[:, list(kept.values())].astype(np.float32)
    if raw.dtype == np.uint8:
        x /= 255
    if raw.dtype.kind == "f" and not allow:
        for j, name in enumerate(kept):
            _allow(np.isnan(x[:, j]), name, allow)
    return x


def _allow(absent: Array, name: str, allow: bool) -> None:
    if absent.any() and not allow:
        raise BadData(
            f"column '{name}' has missing values {where(absent)}; fill them in, drop the column, "
            'or allow them: missing = "missing" in a run file, missing = true in a charter'
        )


def _constant(values: Array | list[str]) -> str:
    if not len(values):
        return "every value is missing"
    return "constant" if is_discreet() else f"constant: every value is {spell(values[0])}"
