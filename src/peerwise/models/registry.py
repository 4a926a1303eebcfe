"""Models by name, and what must be agreed before their statistics mean anything."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from peerwise.core import Shard
from peerwise.data.schema import Schema
from peerwise.declare import build, canonical, find
from peerwise.errors import BadData, BadSetting
from peerwise.models.family import Model, Phase


def model_for(schema: Schema, name: str = "naive_bayes", **options: Any) -> Model:
    """The model called `name` for the features and classes of a schema."""
    facts = {
        "cardinalities": schema.cardinalities,
        "classes": len(schema.classes),
        "missing": schema.missing,
    }
    model: Model = build("model", {"name": name, **resolved(name, options)}, facts)
    return model


def resolved(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a model, those not given at their default."""
    parents = options.get("parents")
    if parents is not None:
        options = {**options, "parents": tuple(np.asarray(parents).tolist())}
    table = canonical("model", {"name": name, **options}, ("model",), sweeps=False)
    return {key: value for key, value in table.items() if key != "name"}


def is_plain(name: str) -> bool:
    """Whether a model takes numbers as they are, not standardised."""
    return find("model", name).traits.plain


def first_phase(table: Mapping[str, Any], schema: Schema) -> Phase | None:
    """What the nodes must agree on before a model in canonical form exists, if anything."""
    agrees = find("model", table["name"]).traits.agrees
    if agrees is None or None not in table.values():
        return None
    phase: Phase = agrees(tuple(map(int, schema.cardinalities)), len(schema.classes))
    return phase


def blank_model(table: Mapping[str, Any], schema: Schema) -> Model:
    """The model of a table in canonical form; as if no row had been counted where rows decide."""
    options = {key: value for key, value in table.items() if key != "name"}
    phase = first_phase(table, schema)
    if phase is not None:
        d, kinds = len(schema.features), (np.float32, np.int32, np.float32)
        parts = zip(((1, d), (1,), (1,)), kinds, strict=True)
        none = jax.eval_shape(phase.count, Shard(*(jax.ShapeDtypeStruct(*p) for p in parts)))
        options |= phase.options(np.zeros(none.shape))
    return model_for(schema, table["name"], **options)


def agreed(
    schema: Schema, name: str, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None
) -> dict[str, Any]:
    """The options that a model takes from rows: TAN's structure, the length of a typical row.

    In a network the nodes find them in a first phase, from exact sums (`peerwise.agreement`).
    """
    phase = first_phase({"name": name, **resolved(name, {})}, schema)
    if phase is None:
        return {}
    with jax.enable_x64(True):
        weight = np.ones(len(y)) if weight is None else np.asarray(weight, float)
        rows = Shard(np.asarray(x, float), np.asarray(y, np.int32), weight)
        return phase.options(np.asarray(phase.count(rows)))


def check_rows(model: Model, x: np.ndarray, schema: Schema) -> None:
    """Refuse numbers outside the model's domain: negative counts, a third value."""
    if model.wants == "standardised":
        return
    if model.wants == "counts":
        wrong = ~(np.nan_to_num(x, nan=-1.0) >= 0)
        must = "a count, 0 or more"
    else:
        wrong = ~(np.isnan(x) | (x == 0) | (x == 1))
        must = "0 or 1"
    if wrong.any():
        row, column = np.argwhere(wrong)[0].tolist()
        raise BadData(
            f"{model.name} needs {must} in every column; '{schema.features[column].name}' holds "
            f"{x[row, column]:g} in row {row}"
        )
    if any(f.center or f.scale != 1 for f in schema.features):
        raise BadSetting(f"{model.name} needs plain numbers: do not standardise them")
