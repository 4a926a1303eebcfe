"""Real releases of a node's statistics: clipped, summed exactly, paid for, and only then noised.

Bounds, categories and classes must be public, or come from a release that was paid for
(`private_bounds`), never from the rows themselves.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from peerwise.data.each_row import numbers_of, read_each
from peerwise.data.loaders import Table
from peerwise.data.scaling import rescaled
from peerwise.data.schema import Feature, Schema
from peerwise.errors import BadData, BadFile, BadSetting, UnknownName
from peerwise.models.algebra import Statistics
from peerwise.models.registry import first_phase, model_for, resolved
from peerwise.privacy.design import Design, Noising, design_of, noising
from peerwise.privacy.ledger import Ledger, check_ledger, unit_hidden
from peerwise.privacy.mechanism import Noise, check_noise, vetted
from peerwise.privacy.sensitivity import clip
from peerwise.privacy.sums import BITS, exact_sums

Column = tuple[float, float] | Sequence[str]  # the bounds of a number, or categories


class Release(NamedTuple):
    """Noisy statistics, which may be sent, and what is for the node alone."""

    statistics: Statistics
    receipt: int | None  # of the ledger
    clipped: int  # how many numbers were outside the bounds: exact, not to be sent
    noising: Noising  # public: the kind of noise and its scale in every coordinate
    unknown: int = 0  # how many rows count nowhere, having no known label: exact, not to be sent

    @property
    def scale(self) -> np.ndarray:
        """Of the noise in each coordinate."""
        return self.noising.scale


def public_schema(
    columns: Mapping[str, Column], classes: Sequence[str], target: str = "class"
) -> Schema:
    """A schema from public knowledge alone: bounds of numbers, categories, classes.

    Numbers are encoded so that their bounds are -1 and 1; every statistic then has sensitivity 1.

    >>> public_schema({"age": (0, 120), "sex": ("f", "m")}, ("no", "yes")).features[0].center
    60.0
    """
    features = []
    if not isinstance(columns, Mapping):
        raise BadSetting(f"columns must be a dictionary by the name of a column, got {columns!r}")
    if isinstance(classes, str) or not hasattr(classes, "__len__"):
        raise BadSetting(f"classes must be a list of texts, got {classes!r}")
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
    model_options: Mapping[str, Any] | None = None,
    data: str = "rows",
    inside: bool = False,
    person_rows: int = 1,
    person: str | None = None,
) -> Release:
    """The statistics of rows with noise that makes them (epsilon, delta)-private.

    `x` is a frame in the units of the data and `y` class names; or `x` are encoded rows and `y`
    class codes.
    `bounds` are by feature, in the units of the data; numbers outside are moved to the bounds.
    `model_options` are public, such as the length of a row that `multinomial` needs.
    What is hidden is whether one row is there. Noise is added to every class, whether the node
    has rows of it or not, and nothing is clamped, so that noise averages out in a sum over nodes.
    `ledger` is charged before noise is drawn; `data` names the rows in it, and `inside` says that
    the caller has begun the transaction. With `person_rows`, of a person at most so many rows are
    among `x`, and what is hidden is whether the person is there; `person` is the column that tells
    persons apart, which the ledger names.
    """
    if not isinstance(schema, Schema):
        raise BadSetting(f"schema must be a Schema, as public_schema makes it, got {schema!r}")
    if not isinstance(bounds, Mapping):
        raise BadSetting(f"bounds must be a dictionary of bounds by column, got {bounds!r}")
    if not (model_options is None or isinstance(model_options, Mapping)):
        raise BadSetting(f"model_options must be a dictionary of options, got {model_options!r}")
    check_ledger(ledger)
    check_noise(noise)
    options = resolved(model, dict(model_options or {}))
    if first_phase({"name": model, **options}, schema) is not None:
        raise BadSetting(
            f"nodes that learn {model} first agree on an exact sum over rows, which no budget "
            "allows; use another model, such as naive_bayes, or give what is agreed (model_options)"
        )
    built = model_for(schema, model, **options)
    low, high = _encoded(schema, bounds)
    design = design_of(built, tuple(low.tolist()), tuple(high.tolist()))
    noised = noising(design, epsilon, delta, mechanism, split, person_rows)
    x, y = _rows(x, y, schema)
    x, clipped = clip(x, schema.cardinalities, low, high)
    lines, sums = exact_coordinates(design, _filled(x, schema, low, high), y)
    receipt = None
    if ledger is not None:
        ledger.check_schema(schema.to_json())
        entry = {"model": model, "split": split, "queries": len(design), "classes": built.classes}
        scales = [float(noised.scale.min()), float(noised.scale.max())]
        entry |= {"unit": unit_hidden(person_rows, person), "scale": scales}
        receipt = ledger.charge(
            noised.kind, entry, epsilon, noised.delta, data=data,
            multiplier=noised.multiplier, inside=inside,
        )  # fmt: skip
    q = design.lines
    lines = noise(noised.kind, lines, np.tile(noised.scale[:q], (built.classes, 1)))
    values = design.raw(lines, noise(noised.kind, sums, noised.scale[q:]) if built.shared else None)
    return Release(
        Statistics(schema, values, model), receipt, int(clipped), noised, int((y < 0).sum())
    )


def exact_coordinates(
    design: Design, x: np.ndarray, y: np.ndarray, bits: int = BITS
) -> tuple[np.ndarray, np.ndarray]:
    """The sums of a design's coordinates over rows, without rounding: by class, and of psi.

    One row more or less moves each by its reach at most, in the numbers that are computed.
    """
    q, classes = design.lines, design.model.classes
    coordinates = design.computed
    lines = exact_sums(lambda z: coordinates(z)[:, :q], x, y, classes, design.reach[:q], bits)
    if not design.model.shared:
        return lines, np.zeros(0)
    known = np.where((y >= 0) & (y < classes), 0, -1)
    sums = exact_sums(lambda z: coordinates(z)[:, q:], x, known, 1, design.reach[q:], bits)
    return lines, sums[0]


def _rows(x: Any, y: Any, schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """Rows and class codes in double precision; what is no number is missing, no class is -1.

    Only what is no matter of single rows is refused: a refusal would tell of the row.
    """
    if isinstance(x, pd.DataFrame):
        labels = np.asarray(y, object)
        if labels.shape != (len(x),):
            raise BadData(f"{len(x)} rows and labels of shape {labels.shape}")
        read = read_each(Table("the rows", x, labels, schema.target), schema)
        return rescaled(read.x, *_units(schema)), read.y
    x, y = _cells(x), _cells(y)
    if x.ndim != 2 or x.shape[1] != len(schema.features) or y.shape != x.shape[:1]:
        raise BadData(
            f"x must be [m, {len(schema.features)}] and y [m], got {x.shape} and {y.shape}"
        )
    if x.dtype == object:
        x = np.reshape([numbers_of(column) for column in x.T], x.T.shape).T
    x = x.astype(float)
    return np.where(np.isfinite(x), x, np.nan), _codes(y, schema.classes)


def _cells(rows: Any) -> np.ndarray:
    """Numbers as they are; anything else as objects, so that no cell changes another."""
    given = np.asarray(rows) if hasattr(rows, "__array__") else np.asarray(rows, object)
    return given if given.dtype.kind in "biuf" else given.astype(object)


def _codes(labels: np.ndarray, classes: Sequence[str]) -> np.ndarray:
    """The codes of labels, each by itself: a class's name, or its code; -1 for anything else."""
    known: dict[Any, int] = {}
    for i in range(len(classes)):
        known |= {i: i, str(i): i}
    known |= {name: i for i, name in enumerate(classes)}

    def code(label: Any) -> int:
        try:
            return known.get(label, -1)
        except TypeError:  # what is no single value
            return -1

    if labels.dtype != object:
        return np.where(np.isin(labels, range(len(classes))), labels, -1).astype(np.int32)
    return np.array([code(label) for label in labels], np.int32)


def _units(schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    units = [(f.center, f.scale) if f.kind == "numeric" else (0, 1) for f in schema.features]
    center, scale = np.array(units, float).T
    return center, scale


def _filled(x: np.ndarray, schema: Schema, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Rows without gaps where the schema has none: the middle of a number's bounds, no category."""
    if schema.missing:
        return x
    middle = np.full(len(schema.features), -1.0)
    middle[np.equal(schema.cardinalities, 0)] = (low + high) / 2
    return np.where(np.isnan(x), middle, x)


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
    sized = hasattr(column, "__len__") and not isinstance(column, str)
    return sized and len(column) == 2 and not any(isinstance(v, str) for v in column)


def _pair(name: str, column: Any) -> tuple[float, float]:
    try:
        low, high = (float(v) for v in column)
    except (TypeError, ValueError):
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise BadSetting(f"the bounds of '{name}' must be finite, low below high, got {column}")
    return low, high
