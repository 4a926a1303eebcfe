"""Models by name, and what must be agreed before their statistics mean anything."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from peerwise.data.schema import Schema
from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.models.counts import bernoulli, multinomial
from peerwise.models.discriminant import lda, qda
from peerwise.models.family import Model
from peerwise.models.naive_bayes import naive_bayes, shared_naive_bayes
from peerwise.models.tan import chow_liu, pair_counts, tan

__all__ = ["MODELS", "PLAIN", "agreed", "check_rows", "model_for", "resolved"]

# what can be named where a model is expected
MODELS: dict[str, Callable[..., Model]] = {
    "naive_bayes": naive_bayes,
    "shared_naive_bayes": shared_naive_bayes,
    "qda": qda,
    "lda": lda,
    "tan": tan,
    "multinomial": multinomial,
    "bernoulli": bernoulli,
}


PLAIN = ("multinomial", "bernoulli")  # models of numbers as they are: not standardised


def model_for(schema: Schema, name: str = "naive_bayes", **options: Any) -> Model:
    """The model called `name` for the features and classes of a schema."""
    if name not in MODELS:
        raise UnknownName("model", name, MODELS)
    known = list(resolved(name, {}))
    for option in options:
        if option not in known:
            raise UnknownName(f"option of the model {name}:", option, known)
    return MODELS[name](schema.cardinalities, len(schema.classes), schema.missing, **options)


def resolved(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a model, those not given at their default, lists as tuples of numbers."""
    if name not in MODELS:
        raise UnknownName("model", name, MODELS)
    takes = list(inspect.signature(MODELS[name]).parameters.values())[3:]
    full = {p.name: p.default for p in takes} | dict(options)
    parents = full.get("parents")
    if parents is not None:
        full["parents"] = tuple(np.asarray(parents).tolist())
    return full


def agreed(
    schema: Schema, name: str, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None
) -> dict[str, Any]:
    """The options that a model takes from rows: TAN's structure, the length of a typical row.

    In a network they are a first phase: `methods.structure` finds TAN's by exact sums.
    """
    if name == "tan":
        with jax.enable_x64(True):
            weight = np.ones(len(y)) if weight is None else np.asarray(weight, float)
            count = pair_counts(schema.cardinalities, len(schema.classes))
            pairs = np.asarray(count(np.asarray(x, float), np.asarray(y, np.int32), weight))
        return {"parents": tuple(chow_liu(pairs, schema.cardinalities).tolist())}
    if name == "multinomial":
        total = np.nan_to_num(np.asarray(x, float)).sum(1).mean() if len(x) else 1.0
        return {"length": float(max(total, 1.0))}
    return {}


def check_rows(model: Model, x: np.ndarray, schema: Schema) -> None:
    """Refuse numbers that the model cannot be about: negative counts, a third value."""
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
