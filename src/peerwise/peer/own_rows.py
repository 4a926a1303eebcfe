"""A node's own rows as numbers, if they are what was agreed."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from peerwise import data
from peerwise.data.discreet import discreet
from peerwise.data.encode import not_one_of
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
            f"the labels of '{table.name}' are its column '{table.target}' and the charter predicts"
            f" '{schema.target}'; load the table with that target"
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
            f"'{name}' has {len(y)} rows and the charter asks for at least {limits.least_rows}; "
            "this node cannot take part with them"
        )
    few = np.bincount(y, minlength=len(classes))[y] < limits.least_count
    if few.any():
        raise BadData(
            f"'{name}' has fewer than {limits.least_count} rows of a class, that of row "
            f"{int(few.argmax())} (counted from 0), and the charter asks for none or so many; "
            "remove them or take part with more"
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
            f"fewer than {limits.least_count} rows of a class have the '{feature.name}' of row "
            f"{int(rare.argmax())} (counted from 0), and the charter asks for none or so many; "
            "remove them or take part with more"
        )
