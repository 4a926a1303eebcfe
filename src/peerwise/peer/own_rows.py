"""A node's own rows as numbers, if they are what was agreed."""

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from peerwise import data
from peerwise.data.columns import where
from peerwise.data.discreet import discreet
from peerwise.data.each_row import read_each
from peerwise.data.encode import not_one_of
from peerwise.data.numbers import spell
from peerwise.data.scaling import rescaled
from peerwise.errors import BadData
from peerwise.peer.terms import FeatureTerms, LimitTerms


@discreet()
def own_rows(
    table: data.Table,
    schema: data.Schema,
    features: Sequence[FeatureTerms],
    limits: LimitTerms,
    dtype: type[np.floating],
    words: Collection[str] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """x [m, d] of `dtype` and y [m] int32; BadData says what is not as agreed, and where.

    It names columns and rows and quotes no cell: what a peer says does not stay at its site.
    `words` are those that mean missing; every other text is a value.
    """
    if table.target != schema.target:
        raise BadData(
            f"the labels of '{table.name}' are its column '{table.target}', but the charter "
            f"predicts '{schema.target}'; load the table with that target"
        )
    # plain numbers first: bounds are about the values that the file holds
    plain = replace(
        schema, features=tuple(replace(f, center=0.0, scale=1.0) for f in schema.features)
    )
    raw = data.encode(table, schema=plain, words=words)
    for unknown in raw.unknown:  # also where gaps are allowed: it is no gap, it is a mistake
        agreed = next(f for f in schema.features if f.name == unknown.column)
        raise BadData(not_one_of(unknown, agreed))
    for j, feature in enumerate(features):
        _within(raw.x[:, j], feature)
    _enough(raw.y, schema.classes, limits, table.name)
    for j, feature in enumerate(features):
        if feature.categories:
            _cells(raw.x[:, j], raw.y, feature, schema.classes, limits)
    center = np.array([f.center for f in schema.features])
    scale = np.array([f.scale for f in schema.features])
    return rescaled(raw.x, center, scale).astype(dtype), raw.y


@discreet()
def rows_within(
    table: data.Table,
    schema: data.Schema,
    features: Sequence[FeatureTerms],
    dtype: type[np.floating],
    words: Collection[str] = (),
    person: tuple[str, int] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The same under a budget, where no row may decide whether the node takes part.

    Numbers are moved into the charter's bounds, what is no finite number or no known category is
    missing (where nothing may be, a number is the middle of its bounds and a category is none), and
    rows without a known label count nowhere. A node without any rows has one that counts nowhere.
    `person`: the column that says whose a row is, and how many of a person's rows count, the first.
    """
    if person is not None:
        table = first_rows(table, *person)
    read = read_each(table, schema, words)
    x, y = read.x[read.y >= 0], read.y[read.y >= 0]
    if not len(y):
        x, y = np.full((1, len(features)), np.nan), np.full(1, -1, np.int32)
    return moved_within(x, schema, features).astype(dtype), y


def moved_within(
    x: np.ndarray, schema: data.Schema, features: Sequence[FeatureTerms]
) -> np.ndarray:
    """Rows in the charter's units [m, d], of rows in the units of a file, as a budget takes them.

    Numbers are moved into their bounds; NaN is filled unless cells may be missing.
    """
    x = x.copy()
    for j, feature in enumerate(features):
        if feature.kind == "categorical":
            filled = -1.0
        else:
            low, high = feature.bounds()
            x[:, j] = np.clip(x[:, j], low, high)
            filled = low + (high - low) / 2
        if not schema.missing:
            x[np.isnan(x[:, j]), j] = filled
    center = np.array([f.center for f in schema.features])
    scale = np.array([f.scale for f in schema.features])
    return rescaled(x, center, scale)


@discreet()
def not_as_agreed(
    table: data.Table,
    schema: data.Schema,
    features: Sequence[FeatureTerms],
    words: Collection[str] = (),
    person: tuple[str, int] | None = None,
) -> list[str]:
    """What under a budget counts otherwise than the file says, in sentences with exact numbers.

    For the people at the site: nobody is refused for it, so that a mistake in a file shows nowhere
    else.
    """
    lines, rows = [], len(table.labels)
    if person is not None:
        table = first_rows(table, *person)
        if more := rows - len(table.labels):
            lines.append(
                f"{more} of {rows} rows count nowhere: of each person ('{person[0]}') only the "
                f"first {'row counts' if person[1] == 1 else f'{person[1]} rows count'}"
            )
    read = read_each(table, schema, words)
    if unknown := int((read.y < 0).sum()):
        classes = ", ".join(schema.classes)
        lines.append(f"{unknown} rows count nowhere: their label is not one of {classes}")
    for x, feature in zip(read.x[read.y >= 0].T, features, strict=True):
        low, high = (0.0, 0.0) if feature.kind == "categorical" else feature.bounds()
        if gaps := int(np.isnan(x).sum()):
            known = f"not one of {', '.join(feature.categories)}" if feature.categories else ""
            filled = f"{low + (high - low) / 2:g}, the middle of its bounds"
            filled = "none of its categories" if feature.kind == "categorical" else filled
            lines.append(
                f"column '{feature.name}': {gaps} cells are empty or {known or 'no number'} and "
                f"count as {'missing' if schema.missing else filled}"
            )
        if feature.kind == "numeric" and (beyond := int(((x < low) | (x > high)).sum())):
            lines.append(
                f"column '{feature.name}': {beyond} cells count as {low:g} or {high:g}, its bounds"
            )
    return lines


def first_rows(table: data.Table, person: str, rows: int) -> data.Table:
    """The first rows of every person, as many as count."""
    frame = table.frame
    if not isinstance(frame, pd.DataFrame) or person not in frame:
        raise BadData(
            f"'{table.name}' has no column '{person}', in which [privacy] person expects the "
            "person of each row; add it"
        )
    if frame[person].isna().any():
        raise BadData(
            f"column '{person}' names the person of each row, but is empty "
            f"{where(frame[person].isna().to_numpy())}, so that the rows of one person cannot be "
            "counted; fill them in or remove the rows"
        )
    kept = (frame.groupby(person, sort=False).cumcount() < rows).to_numpy()
    return table._replace(frame=frame[kept].reset_index(drop=True), labels=table.labels[kept])


@discreet()
def apart_by_content(
    table: data.Table,
    schema: data.Schema,
    share: float,
    words: Collection[str] = (),
    person: tuple[str, int] | None = None,
) -> np.ndarray:
    """Which rows [m] are held out under a budget: by what is in a row, not by where it stands.

    If rows were counted, one row less would exchange others behind it, and noise covers one row.
    Equal rows (of a person, where there are persons) go by their number among each other.
    """
    read, whose = read_each(table, schema, words), [""] * len(table.labels)
    if person is not None and isinstance(table.frame, pd.DataFrame) and person[0] in table.frame:
        whose = [spell(one) for one in table.frame[person[0]]]
    seen: Counter[bytes] = Counter()
    places = np.empty(len(whose))
    for i, (cells, label, who) in enumerate(zip(read.x, read.y, whose, strict=True)):
        content = hashlib.sha256(cells.tobytes() + label.tobytes() + who.encode()).digest()
        number = seen[content].to_bytes(8, "big")
        seen[content] += 1
        place = hashlib.sha256(content + number).digest()[:8]
        places[i] = int.from_bytes(place, "big") / 2**64
    return places < share


def _within(x: np.ndarray, feature: FeatureTerms) -> None:
    low = -np.inf if feature.low is None else feature.low
    high = np.inf if feature.high is None else feature.high
    # NaN is a gap and lies nowhere
    wrong = (x < low) | (x > high)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadData(
            f"column '{feature.name}' holds a number in row {row} (counted from 0) that is not "
            f"between {low:g} and {high:g}; mend or remove the row"
        )


def _enough(y: np.ndarray, classes: Sequence[str], limits: LimitTerms, name: str) -> None:
    if len(y) < limits.least_rows:
        raise BadData(
            f"'{name}' has {len(y)} rows, but the charter requires at least {limits.least_rows} "
            "(limits.least_rows); this node needs more rows to take part"
        )
    few = np.bincount(y, minlength=len(classes))[y] < limits.least_count
    if few.any():
        raise BadData(
            f"'{name}' has fewer than {limits.least_count} rows of the class of row "
            f"{int(few.argmax())} (counted from 0), but the charter requires that many or none "
            "(limits.least_count); remove these rows or add more"
        )


def _cells(
    codes: np.ndarray,
    y: np.ndarray,
    feature: FeatureTerms,
    classes: Sequence[str],
    limits: LimitTerms,
) -> None:
    """Refuse a value that few rows of a class have: its count would tell of single ones."""
    known = ~np.isnan(codes)
    table = np.zeros((len(classes), len(feature.categories)), int)
    np.add.at(table, (y[known], codes[known].astype(int)), 1)
    rare = np.zeros(len(y), bool)
    rare[known] = table[y[known], codes[known].astype(int)] < limits.least_count
    if rare.any():
        raise BadData(
            f"fewer than {limits.least_count} rows have both the class and the '{feature.name}' "
            f"of row {int(rare.argmax())} (counted from 0), but the charter requires that many or "
            "none (limits.least_count); remove these rows or add more"
        )
