"""Real releases of a node's statistics: clipped, summed exactly, paid for, and only then noised.

Bounds, categories and classes must be public, or come from a release that was paid for
(`private_bounds`), never from the rows themselves.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd

from peerwise.data.encode import encode_rows
from peerwise.data.schema import Feature, Schema
from peerwise.errors import BadData, BadFile, BadSetting, UnknownName
from peerwise.models.algebra import Statistics
from peerwise.models.registry import model_for
from peerwise.privacy import budget
from peerwise.privacy.ledger import Ledger
from peerwise.privacy.mechanism import MECHANISMS, Noise, gaussian_sigma, vetted
from peerwise.privacy.sensitivity import bounded, clip
from peerwise.privacy.sums import exact_sums

Column = tuple[float, float] | Sequence[str]  # the bounds of a number, or categories
PRIVATE = ("naive_bayes",)  # models whose sensitivity is known


class Release(NamedTuple):
    """Noisy statistics, which may be sent, and what is for the node alone."""

    statistics: Statistics
    receipt: int | None  # of the ledger
    clipped: int  # how many numbers were outside the bounds: exact, not to be sent
    scale: np.ndarray  # [q] of the noise: public


def public_schema(
    columns: Mapping[str, Column], classes: Sequence[str], target: str = "class"
) -> Schema:
    """A schema from public knowledge alone: bounds of numbers, categories, classes.

    Numbers are encoded so that their bounds are -1 and 1; every statistic then has sensitivity 1.

    >>> public_schema({"age": (0, 120), "sex": ("f", "m")}, ("no", "yes")).features[0].center
    60.0
    """
    features = []
    for name, column in columns.items():
        if isinstance(column, str) or not hasattr(column, "__len__"):
            raise BadSetting(
                f"'{name}' must be the bounds of a number or a list of categories, got {column!r}"
            )
        if _is_bounds(column):
            low, high = _pair(name, column)
            features.append(Feature(name, "numeric", (), (low + high) / 2, (high - low) / 2))
        else:
            features.append(Feature(name, "categorical", tuple(column)))  # type: ignore[arg-type]
    try:
        return Schema.from_json(Schema(tuple(features), tuple(classes), target).to_json())
    except (BadFile, ValueError) as error:
        raise BadSetting(f"these columns make no schema: {error}") from None


def private_statistics(
    x: Any,
    y: Any,
    schema: Schema,
    *,
    epsilon: float,
    bounds: Mapping[str, Column],
    ledger: Ledger | None = None,
    split: str = "even",
    mechanism: str = "laplace",
    delta: float = 0.0,
    noise: Noise = vetted,
    model: str = "naive_bayes",
    data: str = "rows",
    inside: bool = False,
) -> Release:
    """The statistics of rows with noise that makes them (epsilon, delta)-private.

    `x` is a frame in the units of the data and `y` class names; or `x` are encoded rows and `y`
    class codes.
    `bounds` are by feature, in the units of the data; numbers outside are moved to the bounds.
    What is hidden is whether one row is there. Noise is added to every class, whether the node
    has rows of it or not, and nothing is clamped, so that noise averages out in a sum over nodes.
    `ledger` is charged before noise is drawn; `data` names the rows in it, and `inside` says that
    the caller has begun the transaction.
    """
    if model not in PRIVATE:
        raise UnknownName("model with private statistics", model, PRIVATE)
    if mechanism not in MECHANISMS:
        raise UnknownName("kind of noise", mechanism, MECHANISMS)
    epsilon, delta = budget.check_epsilon(epsilon), budget.check_delta(delta, mechanism)
    queries = budget.Queries(schema.cardinalities, len(schema.classes), schema.missing)
    low, high = _encoded(schema, bounds)
    sensitivity = bounded(queries, low, high)
    if mechanism == "laplace":
        multiplier, share = None, budget.split(epsilon, queries, sensitivity, split)
        scale = budget.scales(sensitivity, share, queries)
    else:
        multiplier = gaussian_sigma(1.0, epsilon, delta)
        share = budget.split_gaussian(multiplier, queries, sensitivity, split)
        scale = sensitivity * share[queries.column]
    x, y = _rows(x, y, schema)
    _plausible(x, schema, low, high)
    x, clipped = clip(x, schema.cardinalities, low, high)
    built = model_for(schema, model)
    with jax.enable_x64(True):
        sums = exact_sums(
            lambda z: np.asarray(built.features(jax.numpy.asarray(z))),
            x,
            y,
            built.classes,
            sensitivity,
        )
    receipt = None
    if ledger is not None:
        ledger.check_schema(schema.to_json())
        entry = {"model": model, "split": split, "queries": len(queries), "classes": len(sums)}
        entry |= {"scale": [float(scale.min()), float(scale.max())]}
        receipt = ledger.charge(
            mechanism, entry, epsilon, delta, data=data, multiplier=multiplier, inside=inside
        )
    noisy = noise(mechanism, sums, np.tile(scale, (len(sums), 1)))
    return Release(Statistics(schema, noisy, model), receipt, int(clipped), scale)


def _rows(x: Any, y: Any, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """Rows and class codes, checked against the schema, in double precision."""
    if isinstance(x, pd.DataFrame):
        x, names = encode_rows(x, schema), [str(label) for label in np.asarray(y, object)]
        for label in names:
            if label not in schema.classes:
                raise UnknownName("class", label, schema.classes)
        y = np.array([schema.classes.index(label) for label in names], np.int32)
    try:
        x, y = np.asarray(x, float), np.asarray(y)
    except (TypeError, ValueError):
        raise BadData("rows must be encoded numbers, or a frame in the units of the data") from None
    if x.ndim != 2 or x.shape[1] != len(schema.features) or y.shape != x.shape[:1]:
        raise BadData(
            f"x must be [m, {len(schema.features)}] and y [m], got {x.shape} and {y.shape}"
        )
    if not schema.missing and np.isnan(x).any():
        name = schema.features[int(np.argmax(np.isnan(x).any(0)))].name
        raise BadData(f"'{name}' has missing values and the schema allows none; fill them in")
    if not np.isin(y, np.arange(-1, len(schema.classes))).all():
        raise BadData(
            f"labels must be codes 0 to {len(schema.classes) - 1}, or -1 for none (names go with a "
            "frame)"
        )
    return x, y


def _plausible(x: np.ndarray, schema: Schema, low: np.ndarray, high: np.ndarray) -> None:
    """Refuse numbers that are mostly out of bounds, before anything is paid for."""
    numeric = [i for i, f in enumerate(schema.features) if f.kind == "numeric"]
    outside = (x[:, numeric] < low) | (x[:, numeric] > high)
    for place, i in enumerate(numeric):
        if len(x) >= 20 and outside[:, place].mean() > 0.5:  # with fewer it may be chance
            raise BadData(
                f"most values of '{schema.features[i].name}' are outside its bounds: an array must "
                "hold encoded rows (give a frame for rows in the units of the data)"
            )


def _encoded(schema: Schema, bounds: Mapping[str, Column]) -> tuple[np.ndarray, np.ndarray]:
    """The bounds of the numeric features in the units of x."""
    known = [f.name for f in schema.features]
    for name in bounds:
        if name not in known:
            raise UnknownName("feature", name, known)
    pairs = []
    for f in schema.features:
        if f.kind != "numeric":
            continue
        if f.name not in bounds or not _is_bounds(bounds[f.name]):
            raise BadSetting(
                f"there are no public bounds for the number '{f.name}': give bounds, "
                f"such as {{'{f.name}': (low, high)}}, or find them with private_bounds"
            )
        pairs.append([(b - f.center) / f.scale for b in _pair(f.name, bounds[f.name])])
    low, high = np.array(pairs, float).reshape(-1, 2).T
    return low, high


def _is_bounds(column: Any) -> bool:
    return len(column) == 2 and not any(isinstance(v, str) for v in column)


def _pair(name: str, column: Any) -> tuple[float, float]:
    low, high = (float(v) for v in column)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise BadSetting(f"the bounds of '{name}' must be finite, low below high, got {column}")
    return low, high
