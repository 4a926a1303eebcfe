"""Statistics as values of their own: add, subtract, scale, save, turn into a classifier."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from peerwise.core import Tree
from peerwise.data.schema import Schema
from peerwise.errors import BadData, BadFile, BadSetting, UnknownName
from peerwise.files import BROKEN, one_line, read_tensors, warn_unhashed, write_tensors
from peerwise.models import family
from peerwise.models.classifier import Classifier
from peerwise.models.family import Model
from peerwise.models.registry import agreed, check_rows, model_for, resolved


@dataclass(frozen=True, eq=False)
class Statistics:
    """Raw sums of s(x, y) over rows, with the schema that says what they are sums of.

    They form a vector space: parts add up to the whole, a node's rows can be taken out again, and
    scaling changes how much they weigh beside others but not the classifier they make.
    """

    schema: Schema
    values: Tree  # [c, q]; with shared statistics {"classes": [c, q], "shared": [r]}
    model: str = "naive_bayes"
    options: Mapping[str, Any] = field(default_factory=dict)  # of the model: a tree's parents

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", resolved(self.model, self.options))
        built = self.made
        want: Any = (built.classes, built.size)
        if built.shared:
            want = {"classes": want, "shared": (built.shared,)}
        values = self.values
        got = {k: a.shape for k, a in values.items()} if isinstance(values, dict) else values.shape
        if got != want:
            raise BadData(f"statistics of this schema have shape {want}, got {got}")

    @property
    def made(self) -> Model:
        """The model that they are statistics of."""
        return model_for(self.schema, self.model, **self.options)

    @classmethod
    def of(
        cls,
        x: np.ndarray,
        y: np.ndarray,
        schema: Schema,
        model: str = "naive_bayes",
        weight: np.ndarray | None = None,
        **options: Any,
    ) -> "Statistics":
        """The statistics of encoded, standardised rows, summed in float64.

        What a model must agree upon and is not among the options (TAN's structure) comes from
        these rows. A label of -1 marks a row without one, which counts nowhere.
        """
        x, y = np.asarray(x, float), np.asarray(y, np.int32)
        x = x if x.size else x.reshape(0, len(schema.features))
        weight = np.ones(len(x)) if weight is None else np.asarray(weight, float)
        _check_shapes(x, y, weight, len(schema.features))
        options = {**agreed(schema, model, x, y, weight), **options}
        built = model_for(schema, model, **options)
        check_rows(built, x, schema)
        if not schema.missing and np.isnan(x).any():
            row, column = np.argwhere(np.isnan(x))[0].tolist()
            raise BadData(
                f"'{schema.features[column].name}' is missing in row {row}, and the schema says "
                "that nothing is missing (missing=True allows it)"
            )
        with jax.enable_x64(True):
            values = jax.tree.map(np.asarray, _sums(built, x, y, weight))
        _check_finite(values, x, weight, schema)
        return cls(schema, values, model, options)

    @classmethod
    def prior(
        cls,
        schema: Schema,
        model: str = "naive_bayes",
        *,
        rows: float = 1.0,
        categories: float | None = None,
        mean: Mapping[str, float] | None = None,
        std: Mapping[str, float] | None = None,
        **options: Any,
    ) -> "Statistics":
        """Conjugate prior statistics, to be added to those of rows.

        Every class gets `rows` pseudo-rows. Classes: a Dirichlet distribution. Categories: a
        Dirichlet with `categories` in each cell, or with the pseudo-rows spread evenly. Numbers:
        a normal-inverse-gamma (or inverse-Wishart) distribution around `mean` and `std`, in the
        units of the data, by name; what is not named is at the schema's center and scale. The
        classifier of the sum is the posterior's: means of the Dirichlets, and mean and mode of
        the Gaussian part, with kappa = rows, 2 beta = rows std^2, 2 alpha = rows - 3 (the joint
        mode; for a covariance of d features, nu = rows - d - 2 and Psi = rows diag(std^2)).
        """
        for pseudo_rows in (rows, 0 if categories is None else categories):
            if not 0 <= pseudo_rows < np.inf:
                raise BadSetting(f"pseudo-rows must be 0 or more, got {pseudo_rows}")
        mean, std = mean or {}, std or {}
        numeric = [f.name for f in schema.features if f.kind == "numeric"]
        for name, value in [*mean.items(), *std.items()]:
            if name not in numeric:
                raise UnknownName("numeric feature", name, numeric)
            if not np.isfinite(value):
                raise BadSetting(f"the mean and std of '{name}' must be finite, got {value}")
        for name, value in std.items():
            if value < 0:
                raise BadSetting(f"the std of '{name}' must be 0 or more, got {value}")
        at = [(mean.get(f.name, f.center) - f.center) / f.scale for f in schema.features]
        wide = [std.get(f.name, f.scale) / f.scale for f in schema.features]
        built = model_for(schema, model, **options)
        with jax.enable_x64(True):
            sums = built.prior(float(rows), np.array(at), np.array(wide) ** 2, categories)
            return cls(schema, jax.tree.map(np.asarray, sums), model, options)

    @property
    def rows(self) -> float:
        """How many rows they are worth."""
        return float(family.by_class(self.values)[:, 0].sum())

    def _with(self, values: Tree) -> "Statistics":
        return Statistics(self.schema, values, self.model, self.options)

    def _same_kind(self, other: "Statistics") -> None:
        if self.model != other.model:
            raise BadData(f"statistics of a {self.model} and of a {other.model} do not add up")
        difference = self.schema.difference(other.schema)
        if difference is not None:
            raise BadData(f"statistics of different schemas do not add up: {difference}")
        for name in sorted({*self.options, *other.options}):
            ours, theirs = self.options.get(name), other.options.get(name)
            if ours != theirs:
                raise BadData(
                    f"statistics of different {self.model} models do not add up: {name} is "
                    f"{ours} here and {theirs} there"
                )

    def __add__(self, other: "Statistics") -> "Statistics":
        self._same_kind(other)
        return self._with(jax.tree.map(np.add, self.values, other.values))

    def __sub__(self, other: "Statistics") -> "Statistics":
        self._same_kind(other)
        return self._with(jax.tree.map(np.subtract, self.values, other.values))

    def __mul__(self, factor: float) -> "Statistics":
        return self._with(jax.tree.map(lambda a: a * float(factor), self.values))

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Statistics) or self.schema != other.schema:
            return False
        leaves = jax.tree.leaves(self.values), jax.tree.leaves(other.values)
        alike = self.model == other.model and self.options == other.options
        return alike and all(map(np.array_equal, *leaves))

    __hash__ = None  # type: ignore[assignment]  # arrays inside

    def save(self, path: str | Path) -> None:
        """Write a safetensors file with the schema in its header."""
        header = {
            "kind": "peerwise statistics",
            "model": self.model,
            "schema": self.schema.to_json(),
            "options": json.dumps(dict(self.options)),
        }
        named = self.values if isinstance(self.values, dict) else {"values": self.values}
        arrays = {name: np.ascontiguousarray(a) for name, a in named.items()}
        write_tensors(path, arrays, header)

    @classmethod
    def load(cls, path: str | Path) -> "Statistics":
        """Read what `save` wrote; checks everything and runs no code.

        A file of a version before 0.9 has no hash and is read with a warning.
        """
        header, arrays, hashed = read_tensors(path, "model file", "take a whole copy", needed=False)
        names = set(arrays)
        if header.get("kind") != "peerwise statistics" or names not in _LAYOUTS:
            raise BadFile(f"{path} is a safetensors file, but not one that Peerwise wrote")
        for part in arrays.values():
            if not np.issubdtype(part.dtype, np.floating) or not np.isfinite(part).all():
                raise BadFile(f"{path} holds statistics that are not finite numbers; it is damaged")
        try:
            schema = Schema.from_json(header.get("schema", ""))
            options = _options(header.get("options", "{}"))
            values: Tree = arrays["values"] if names == {"values"} else arrays
            statistics = cls(schema, values, header.get("model", ""), options)
        except BROKEN as error:
            raise BadFile(f"{path} contradicts itself: {one_line(error)}") from None
        if not hashed:
            warn_unhashed(path)
        return statistics

    def to_classifier(self) -> Classifier:
        """The classifier theta(s)."""
        return Classifier(self)


# one program of a shape, not one of each operation
_sums = jax.jit(family.statistics, static_argnums=0)


def _check_shapes(x: np.ndarray, y: np.ndarray, weight: np.ndarray, features: int) -> None:
    if x.ndim != 2 or x.shape[1] != features:
        raise BadData(
            f"rows must have {features} features, as the schema says; got an array of shape "
            f"{x.shape}"
        )
    for name, given in (("y", y), ("weight", weight)):
        if given.shape != (len(x),):
            raise BadData(
                f"{name} must have one entry for each of the {len(x)} rows, got an array of shape "
                f"{given.shape}"
            )


def _check_finite(values: Tree, x: np.ndarray, weight: np.ndarray, schema: Schema) -> None:
    """Refuse sums that overflowed, by the column that is to blame."""
    if all(np.isfinite(part).all() for part in jax.tree.leaves(values)):
        return
    if not np.isfinite(weight).all():
        raise BadData(f"the weight of row {int(np.argmin(np.isfinite(weight)))} is not finite")
    most = np.nan_to_num(np.abs(x), nan=0.0, posinf=np.inf)
    row, column = np.unravel_index(int(most.argmax()), x.shape)
    raise BadData(
        f"the values of column '{schema.features[column].name}' are too large ({x[row, column]:g} "
        f"in row {row}); rescale or drop it"
    )


_LAYOUTS: list[set[str]] = [{"values"}, {"classes", "shared"}]


def _options(text: str) -> dict[str, Any]:
    """The options of a file's header: numbers, and lists of numbers as tuples."""
    read = json.loads(text)
    if not isinstance(read, dict):
        raise ValueError("its options are not a JSON object")
    return {k: tuple(v) if isinstance(v, list) else v for k, v in read.items()}
