"""From encoded rows back to a table: numbers in their units, categories and classes by name."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from peerwise.data.schema import Feature, Schema
from peerwise.errors import BadData

Array = npt.NDArray[Any]


def decode(x: Array, schema: Schema, y: Array | None = None) -> pd.DataFrame:
    """The rows that `encode` under this schema would turn into x (and y, the last column).

    A nominal column that was used as a number becomes the nearest of its names; NaN stays missing.

    >>> from peerwise.data.schema import Feature
    >>> schema = Schema((Feature("age", "numeric", (), 40, 10),), ("no", "yes"), "ill")
    >>> decode(np.array([[0.5]]), schema, np.array([1])).to_dict("records")
    [{'age': 45.0, 'ill': 'yes'}]
    """
    if x.ndim != 2 or x.shape[1] != len(schema.features):
        raise BadData(f"x has shape {x.shape} but the schema has {len(schema.features)} features")
    columns = {f.name: _column(x[:, i], f) for i, f in enumerate(schema.features)}
    if y is not None:
        columns[schema.target] = np.asarray(schema.classes, object)[np.asarray(y, int)]
    return pd.DataFrame(columns)


def _column(values: Array, feature: Feature) -> Array:
    if feature.kind == "numeric":
        values = values * feature.scale + feature.center
        if not feature.categories:
            return values
    known = ~np.isnan(values)
    code = np.clip(np.rint(np.where(known, values, 0)), 0, len(feature.categories) - 1).astype(int)
    named = np.asarray(feature.categories, object)[code]
    named[~known] = None
    return named
