"""Naive Bayes for counts (words in a text) and for binary features (a symptom is there or not)."""

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Gt

from peerwise.core import Array, Shard
from peerwise.declare import declares
from peerwise.errors import BadSetting
from peerwise.models.block import Block, Coefficients, assemble, check_arguments, smallest
from peerwise.models.entries import Entries, factors, side_by_side
from peerwise.models.family import Model, Phase


@cache
def typical_length(cardinalities: tuple[int, ...], classes: int) -> Phase:
    """What `multinomial` takes from rows: the mean of all counts in a row."""

    def count(shard: Shard) -> Array:
        words = (jnp.nan_to_num(shard.x) * shard.weight[:, None]).sum()
        return jnp.stack([words, shard.weight.sum().astype(words.dtype)])

    def options(sums: np.ndarray) -> dict[str, Any]:
        words, rows = map(float, sums)  # rows of any weight: twice the weight is twice the row
        return {"length": max(words / rows, 1.0) if rows > 0 else 1.0}

    return Phase(count, options, public=True)


@declares("model", plain=True, agrees=typical_length)
def multinomial(
    cardinalities: Sequence[int],
    classes: int,
    missing: bool = False,
    *,
    length: Annotated[
        float | None, Gt(0), "public size of a typical row; none: from the rows"
    ] = None,
) -> Model:
    """p(y) times a multinomial over the columns: x_i says how often word i occurs in a row.

    Columns are plain counts, not standardised. `length` is the public size of a typical row: what
    a pseudo-row of the uniform start counts. The multinomial coefficient, the same for all
    classes, is left out of log p(x, y), as in scikit-learn.

    >>> multinomial((0, 0, 0), classes=2).size
    4
    """
    cardinalities, classes = check_arguments(cardinalities, classes)
    if any(cardinalities):
        raise BadSetting("multinomial needs columns of counts; a categorical column is none")
    if missing:
        raise BadSetting("multinomial has no missing counts: a word that is absent counts 0")
    length = 1.0 if length is None else length
    if not length < np.inf:
        raise BadSetting(f"length must be a finite number, got {length}")
    return _multinomial(len(cardinalities), classes, float(length))


@declares("model", plain=True)
def bernoulli(cardinalities: Sequence[int], classes: int, missing: bool = False) -> Model:
    """p(y) prod_i p(x_i | y) for binary features: numbers 0 and 1, or two categories.

    With `missing`, NaN is a missing value, which is not counted and adds nothing.

    >>> bernoulli((2, 0), classes=2).size
    3
    """
    cardinalities, classes = check_arguments(cardinalities, classes)
    wrong = [r for r in cardinalities if r not in (0, 2)]
    if wrong:
        raise BadSetting(
            f"bernoulli needs features of two values, got one of {wrong[0]} categories"
        )
    return _bernoulli(cardinalities, classes, bool(missing))


@cache
def _multinomial(d: int, classes: int, length: float) -> Model:
    def parameters(n: Array, floor: Array, s: Array, sums: Array) -> tuple[dict[str, Array], Array]:
        least = smallest(s)
        cell = jnp.maximum(s, least)
        return {"prob": cell / cell.sum(1, keepdims=True)}, (s < least).sum()

    def coefficients(p: dict[str, Array]) -> Coefficients:
        return Coefficients(0.0, jnp.log(p["prob"]))

    def terms(p: dict[str, Array], x: Array) -> tuple[float, Array]:
        return 0.0, jnp.nan_to_num(x)[:, None] * jnp.log(p["prob"])[None]

    def sample(key: Array, p: dict[str, Array], y: Array) -> Array:
        words = max(round(length), 1)
        drawn = jax.random.categorical(key, jnp.log(p["prob"])[y], shape=(words, y.shape[0]))
        hit = drawn[..., None] == np.arange(d, dtype=np.int32)[None, None]
        return hit.sum(0).astype(p["prob"].dtype)

    def pseudo(rows: Array, mean: Array, var: Array, cell: Any) -> tuple[Array, None]:
        each = rows * length / d if cell is None else jnp.asarray(cell, rows.dtype)
        return jnp.broadcast_to(each, (d,)), None

    columns, one_each = np.arange(d, dtype=np.int32), (lambda x: x)
    block = Block(
        columns, d, one_each, parameters, coefficients, dict, terms, sample, pseudo,
        entries=lambda: (factors(columns, np.full(d, -1)), None),
    )  # fmt: skip
    return assemble("multinomial", (0,) * d, classes, [block], "counts")


@cache
def _bernoulli(cardinalities: tuple[int, ...], classes: int, missing: bool) -> Model:
    d = len(cardinalities)

    def features(x: Array) -> Array:
        if not missing:
            return x
        known = ~jnp.isnan(x)
        return jnp.concatenate([jnp.where(known, x, 0), known.astype(x.dtype)], 1)

    def parameters(n: Array, floor: Array, s: Array, sums: Array) -> tuple[dict[str, Array], Array]:
        guards = jnp.zeros((), int)
        if missing:
            guards += (s[:, d:] < floor).sum()
            n = jnp.maximum(s[:, d:], floor)
        there, absent = s[:, :d], n - s[:, :d]
        guards += (there < floor).sum() + (absent < floor).sum()
        there, absent = jnp.maximum(there, floor), jnp.maximum(absent, floor)
        return {"prob": there / (there + absent)}, guards

    def coefficients(p: dict[str, Array]) -> Coefficients:
        there, absent = jnp.log(p["prob"]), jnp.log1p(-p["prob"])
        if missing:
            return Coefficients(0.0, jnp.concatenate([there - absent, absent], 1))
        return Coefficients(absent.sum(1, keepdims=True), there - absent)

    def terms(p: dict[str, Array], x: Array) -> tuple[float, Array]:
        there, absent = jnp.log(p["prob"])[None], jnp.log1p(-p["prob"])[None]
        z = x[:, None]
        return 0.0, jnp.where(jnp.isnan(z), 0, z * there + (1 - z) * absent)

    def sample(key: Array, p: dict[str, Array], y: Array) -> Array:
        return jax.random.bernoulli(key, p["prob"][y]).astype(p["prob"].dtype)

    def pseudo(rows: Array, mean: Array, var: Array, cell: Any) -> tuple[Array, None]:
        if cell is not None:
            raise BadSetting("bernoulli counts both values of a feature by rows: give rows alone")
        half = jnp.broadcast_to(rows / 2, (d,))
        return jnp.concatenate([half, 2 * half]) if missing else half, None

    columns, size = np.arange(d, dtype=np.int32), 2 * d if missing else d
    none = np.full(d, -1)

    def entries() -> tuple[Entries, None]:
        if not missing:
            return factors(columns, none), None
        return side_by_side([factors(columns, none, columns + d), factors(none, none)]), None

    block = Block(
        columns, size, features, parameters, coefficients, dict, terms, sample, pseudo,
        entries=entries,
    )  # fmt: skip
    return assemble("bernoulli", cardinalities, classes, [block], "binary")
