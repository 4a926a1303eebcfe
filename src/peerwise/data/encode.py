"""From a raw table to numbers and their schema, or to numbers under a schema that is given."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from peerwise.data.columns import (
    MISSING,
    UNKNOWN,
    Coded,
    code,
    distinct,
    factorise,
    gaps,
    in_order,
    read_column,
    spell,
    where,
)
from peerwise.data.loaders import Table
from peerwise.data.scaling import rescaled
from peerwise.data.schema import KINDS, Feature, Schema
from peerwise.errors import BadData, BadSetting, UnknownName

Array = npt.NDArray[Any]
Dropped = list[tuple[str, str]]
Typing = str | Mapping[str, str]
TYPINGS = ("distinct", "manifest")
TREATMENTS = ("category", "missing", "error")
FEW = 10  # the most distinct values of a categorical column in the CRC paper's tables


class Encoded(NamedTuple):
    """Rows as numbers, with the schema that says what the numbers mean."""

    x: Array  # [m, d] float64, float32 for images and embedded features; NaN = missing
    y: Array  # [m] int32 codes into schema.classes
    schema: Schema
    split: Array | None
    dropped: tuple[tuple[str, str], ...]  # (column, reason)


def encode(
    table: Table,
    *,
    typing: Typing = "distinct",
    missing: str = "category",
    drop: Iterable[str] = (),
    schema: Schema | None = None,
) -> Encoded:
    """The table as numbers, under a schema learnt from it or under the `schema` given.

    typing: "distinct" is the rule that reproduces Table I of the CRC paper: nominal values are
    label-encoded in sorted order, then a column of at most 10 distinct values is categorical and
    any other numeric, nominal or not. "manifest" follows the source: its list of categorical
    columns, and whatever is text or bool. A mapping of columns to kinds overrides "manifest".
    Images and embedded features are always numeric, flattened, and called f0, f1, ...

    missing: "category" makes a missing value of a categorical or nominal column the category
    "(missing)", which comes last and counts among the 10 (Table I comes out either way), and a
    missing number NaN; "missing" makes both NaN; "error" raises. Infinity is a missing number.
    "?" is missing too, except under "category", where it is a category like any other.

    A column whose values are all equal, gaps aside, is dropped. Under a given `schema` columns
    are found by name and standardised by its center and scale, others are ignored, and a
    value that the schema does not know is NaN if it allows missing values and an error if not.
    """
    if missing not in TREATMENTS:
        raise UnknownName("treatment of missing values", missing, TREATMENTS)
    if len(table.labels) == 0 or len(table.frame) == 0:
        raise BadData(f"'{table.name}' has no rows")
    if len(table.labels) != len(table.frame):
        raise BadData(f"'{table.name}': {len(table.frame)} rows, {len(table.labels)} labels")
    y, classes = _labels(table, missing, schema)
    columns = _columns(table)
    unwanted = dict.fromkeys([drop] if isinstance(drop, str) else drop)
    _known(unwanted, columns)
    declared = _declared(table, typing, columns)
    for name in unwanted:
        del columns[name]
    if schema is not None:
        x = _under(schema, table, columns, missing)
        return Encoded(rescaled(x, *_units(schema)), y, schema, table.split, ())
    if isinstance(table.frame, pd.DataFrame):
        x, features, dropped = _learn_frame(table.frame, columns, declared, missing)
    else:
        x, features, dropped = _learn_array(_flat(table.frame), columns, missing)
    dropped += [(name, "left out on request") for name in unwanted]
    if not features:
        reasons = "; ".join(f"{name}: {why}" for name, why in dropped) or "it has no columns"
        raise BadData(f"no feature of '{table.name}' is left ({reasons})")
    learnt = Schema(tuple(features), classes, table.target, bool(np.isnan(x).any()))
    return Encoded(x, y, learnt, table.split, tuple(dropped))


def encode_rows(frame: pd.DataFrame, schema: Schema) -> Array:
    """Rows of a frame as numbers under a schema; columns are found by name, others are ignored.

    A value that the schema does not know is NaN if it allows missing values and an error if not.
    """
    table = Table("the rows", frame, np.zeros(0, object), schema.target)
    return rescaled(_under(schema, table, _columns(table), "category"), *_units(schema))


def _labels(table: Table, missing: str, schema: Schema | None) -> tuple[Array, tuple[str, ...]]:
    labels = factorise(table.labels, None if missing == "category" else UNKNOWN)
    if gaps(labels).any():
        rows = where(gaps(labels))
        raise BadData(f"the target '{table.target}' is missing {rows}; remove these rows")
    classes = in_order(labels.texts) if schema is None else schema.classes
    for label in labels.texts:
        if label not in classes:
            known = ", ".join(classes)
            raise BadData(f"the label '{label}' is not one of the schema's classes: {known}")
    return code(labels, classes).astype(np.int32), classes


def _columns(table: Table) -> dict[str, int]:
    """The place of each column, which for an image is a pixel of a channel."""
    if not isinstance(table.frame, pd.DataFrame):
        if table.frame.dtype.kind not in "buif":
            raise BadData(f"the array of '{table.name}' must hold numbers, got {table.frame.dtype}")
        return {f"f{j}": j for j in range(table.frame.size // len(table.frame))}
    places = {str(name): j for j, name in enumerate(table.frame.columns)}
    if len(places) < table.frame.shape[1]:
        raise BadData(f"two columns of '{table.name}' have the same name; rename one")
    return places


def _known(names: Iterable[str], columns: Iterable[str]) -> None:
    known = set(columns)
    for name in names:
        if name not in known:
            raise UnknownName("column", name, known)


def _declared(table: Table, typing: Typing, columns: Iterable[str]) -> dict[str, str] | None:
    """The kinds that the source or the caller declares; None for the rule "distinct"."""
    if typing == "distinct":
        return None
    if isinstance(typing, str) and typing != "manifest":
        raise UnknownName("typing", typing, TYPINGS)
    own = {} if isinstance(typing, str) else dict(typing)
    _known(own, columns)
    for name, kind in own.items():
        if kind not in KINDS:
            raise BadSetting(f"the kind of column '{name}' must be one of {KINDS}, got {kind!r}")
        if kind != "numeric" and not isinstance(table.frame, pd.DataFrame):
            raise BadSetting(f"'{name}' belongs to an array of numbers and cannot be {kind}")
    return dict.fromkeys(table.categorical or (), "categorical") | own


def _learn_frame(
    frame: pd.DataFrame, columns: Mapping[str, int], declared: dict[str, str] | None, missing: str
) -> tuple[Array, list[Feature], Dropped]:
    encoded: list[Array] = []
    features: list[Feature] = []
    dropped: Dropped = []
    for name, place in columns.items():
        kind = (declared or {}).get(name)
        column = read_column(name, frame.iloc[:, place], kind, missing != "category")
        values, absent = distinct(column), gaps(column)
        _allow(absent, name, missing != "error")
        if len(values) < 2:
            dropped.append((name, _constant(values)))
            continue
        own = [MISSING] if missing == "category" and absent.any() else []
        if kind is None:
            few = len(values) + len(own) <= FEW
            nominal = few if declared is None else isinstance(column, Coded)
            kind = "categorical" if nominal else "numeric"
        if isinstance(column, Coded) or kind == "categorical":
            coded = column if isinstance(column, Coded) else factorise(column)
            categories = in_order([*coded.texts, *own])
            features.append(Feature(name, kind, categories))
            encoded.append(code(coded, categories))
        else:
            features.append(Feature(name, kind))
            encoded.append(column)
    return np.column_stack(encoded) if encoded else np.empty((0, 0)), features, dropped


def _learn_array(
    raw: Array, columns: Mapping[str, int], missing: str
) -> tuple[Array, list[Feature], Dropped]:
    # fmin and fmax pass over NaN
    low, high = np.fmin.reduce(raw, axis=0), np.fmax.reduce(raw, axis=0)
    kept = {name: j for name, j in columns.items() if high[j] > low[j]}
    dropped = [
        (name, _constant(low[j : j + 1][~np.isnan(low[j : j + 1])]))
        for name, j in columns.items()
        if name not in kept
    ]
    x = _pixels(raw, kept, missing != "error")
    return x, [Feature(name, "numeric") for name in kept], dropped


def _under(schema: Schema, table: Table, columns: Mapping[str, int], missing: str) -> Array:
    """The rows encoded by the schema's features, not yet rescaled."""
    for name in (f.name for f in schema.features):
        if name not in columns:
            near = get_close_matches(name, columns, n=1)
            hint = f"; is it '{near[0]}'?" if near else ""
            raise BadData(f"'{table.name}' has no column '{name}', which the schema needs{hint}")
    allow = schema.missing and missing != "error"
    if not isinstance(table.frame, pd.DataFrame):
        if any(f.kind != "numeric" or f.categories for f in schema.features):
            raise BadData(f"'{table.name}' is an array of numbers, and the schema has categories")
        return _pixels(
            _flat(table.frame), {f.name: columns[f.name] for f in schema.features}, allow
        )
    encoded = []
    for f in schema.features:
        series = table.frame.iloc[:, columns[f.name]]
        if f.categories:
            encoded.append(_known_codes(f, series, schema.missing, missing))
        else:
            numbers = read_column(f.name, series, "numeric", unknown=True)
            _allow(gaps(numbers), f.name, allow)
            encoded.append(np.asarray(numbers))
    return np.column_stack(encoded)


def _known_codes(f: Feature, series: pd.Series, allow: bool, missing: str) -> Array:
    column = read_column(f.name, series, None, unknown=UNKNOWN not in f.categories)
    coded = column if isinstance(column, Coded) else factorise(column)
    unseen = [text for text in coded.texts if text not in f.categories]
    if unseen and not allow:
        known = ", ".join(f.categories)
        raise BadData(f"column '{f.name}' holds '{unseen[0]}', which is not one of: {known}")
    _allow(gaps(coded), f.name, missing != "error" and (allow or MISSING in f.categories))
    return code(coded, f.categories)


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
        raise BadData(f"column '{name}' has missing values {where(absent)}; fill in or drop it")


def _constant(values: Array | list[str]) -> str:
    return (
        f"constant: every value is {spell(values[0])}" if len(values) else "every value is missing"
    )
