"""Statistics as things of their own: add, subtract, scale, save, make a classifier of them."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from peerwise.checkpoint import write_whole
from peerwise.data.schema import Schema
from peerwise.errors import BadData, BadFile, UnknownName
from peerwise.models import family
from peerwise.models.family import Model
from peerwise.models.naive_bayes import naive_bayes

__all__ = ["MODELS", "Classifier", "Statistics", "model_for"]

MODELS = {"naive_bayes": naive_bayes}  # what can be named where a model is expected


def model_for(schema: Schema, name: str = "naive_bayes") -> Model:
    """The model called `name` for the features and classes of a schema."""
    if name not in MODELS:
        raise UnknownName("model", name, MODELS)
    return MODELS[name](schema.cardinalities, len(schema.classes), schema.missing)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Raw sums of s(x, y) over rows, with the schema that says what they are sums of.

    They form a vector space: parts add up to the whole, a node's rows can be taken out again, and
    scaling changes how much they weigh beside others but not the classifier they make.
    """

    schema: Schema
    values: np.ndarray  # [c, q]
    model: str = "naive_bayes"

    def __post_init__(self) -> None:
        made = model_for(self.schema, self.model)
        if self.values.shape != (made.classes, made.size):
            raise BadData(
                f"statistics of this schema have shape {(made.classes, made.size)}, "
                f"got {self.values.shape}"
            )

    @classmethod
    def of(
        cls,
        x: np.ndarray,
        y: np.ndarray,
        schema: Schema,
        model: str = "naive_bayes",
        weight: np.ndarray | None = None,
    ) -> "Statistics":
        """The statistics of encoded, standardised rows, summed in float64."""
        made = model_for(schema, model)
        weight = np.ones(len(y)) if weight is None else np.asarray(weight, float)
        with jax.enable_x64(True):
            x, y = np.asarray(x, float).reshape(-1, len(schema.features)), np.asarray(y, np.int32)
            values = np.asarray(family.statistics(made, jax.numpy.asarray(x), y, weight))
        return cls(schema, values, model)

    @property
    def rows(self) -> float:
        """How many rows they are worth."""
        return float(self.values[:, 0].sum())

    def _same_kind(self, other: "Statistics") -> None:
        if self.model != other.model:
            raise BadData(f"statistics of a {self.model} and of a {other.model} do not add up")
        difference = self.schema.difference(other.schema)
        if difference is not None:
            raise BadData(f"statistics of different schemas do not add up: {difference}")

    def __add__(self, other: "Statistics") -> "Statistics":
        self._same_kind(other)
        return Statistics(self.schema, self.values + other.values, self.model)

    def __sub__(self, other: "Statistics") -> "Statistics":
        self._same_kind(other)
        return Statistics(self.schema, self.values - other.values, self.model)

    def __mul__(self, factor: float) -> "Statistics":
        return Statistics(self.schema, self.values * float(factor), self.model)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Statistics)
            and self.model == other.model
            and self.schema == other.schema
            and np.array_equal(self.values, other.values)
        )

    __hash__ = None  # type: ignore[assignment]  # arrays inside

    def save(self, path: str | Path) -> None:
        """Write a safetensors file with the schema in its header."""
        header = {
            "kind": "peerwise statistics",
            "model": self.model,
            "schema": self.schema.to_json(),
        }
        write_whole(path, to_bytes({"values": np.ascontiguousarray(self.values)}, metadata=header))

    @classmethod
    def load(cls, path: str | Path) -> "Statistics":
        """Read what `save` wrote; checks everything and runs no code."""
        try:
            with safe_open(path, framework="numpy") as file:
                header = file.metadata() or {}
                names = list(file.keys())
                values = file.get_tensor("values") if names == ["values"] else None
        except FileNotFoundError:
            raise BadFile(f"there is no model file {path}") from None
        except (OSError, SafetensorError, AttributeError) as error:  # the last: an 8-bit type
            raise BadFile(f"{path} is not a model file or is damaged: {error}") from None
        if header.get("kind") != "peerwise statistics" or values is None:
            raise BadFile(f"{path} is a safetensors file, but not one that Peerwise wrote")
        if not np.issubdtype(values.dtype, np.floating) or not np.isfinite(values).all():
            raise BadFile(f"{path} holds statistics that are not finite numbers; it is damaged")
        schema = Schema.from_json(header.get("schema", ""))
        try:
            return cls(schema, values, header.get("model", ""))
        except ValueError as error:
            raise BadFile(f"{path} contradicts itself: {error}") from None

    def to_classifier(self) -> "Classifier":
        """The classifier theta(s)."""
        return Classifier(self)


@dataclass(frozen=True, eq=False)
class Classifier:
    """What statistics say about the class of a row."""

    statistics: Statistics

    def _score(self, x: np.ndarray, score: Any) -> np.ndarray:
        made = model_for(self.statistics.schema, self.statistics.model)
        features = len(self.statistics.schema.features)
        x = np.asarray(x, float)
        if x.ndim != 2 or x.shape[1] != features:
            raise BadData(f"rows must have {features} features, got an array of shape {x.shape}")
        with jax.enable_x64(True):
            s = jax.numpy.asarray(self.statistics.values, float)
            return np.asarray(jax.jit(partial(score, made))(s, x))

    def log_joint(self, x: np.ndarray) -> np.ndarray:
        """log p(x, y) [m, c] of encoded rows."""
        return self._score(x, family.log_joint)

    def log_proba(self, x: np.ndarray) -> np.ndarray:
        """log p(y | x) [m, c] of encoded rows."""
        return self._score(x, family.log_posterior)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The most probable class of encoded rows, by name."""
        return np.asarray(self.statistics.schema.classes)[self.log_joint(x).argmax(1)]

    @property
    def parameters(self) -> dict[str, Any]:
        """Prior, means, variances and category probabilities, as a textbook writes them."""
        made = model_for(self.statistics.schema, self.statistics.model)
        with jax.enable_x64(True):
            described = made.describe(jax.numpy.asarray(self.statistics.values, float))
            return dict(jax.tree.map(np.asarray, described))
