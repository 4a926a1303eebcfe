"""Naive Bayes with Gaussian and categorical features.

Appendix A of "Decentralized Federated Learning of Probabilistic Generative Classifiers"
(Pérez, Echegoyen, Santafé). The uniform start printed there, moments (m0/r, m0/r, 0), has variance
-1; what is meant, and done here, is (m0/r, 0, m0/r): mean 0, variance 1 for every class.
"""

from collections.abc import Sequence
from functools import cache

import jax.numpy as jnp
import numpy as np

from peerwise.core import Array
from peerwise.errors import BadSetting
from peerwise.models.family import Model, Theta

__all__ = ["naive_bayes"]

SMALLEST_SHARE = 1e-6  # of all rows: a class or a category is never rarer than this
SMALLEST_VARIANCE = 1e-3  # of the unit variance of a standardised feature
LOG_2PI = float(np.log(2 * np.pi))


def naive_bayes(cardinalities: Sequence[int], classes: int, missing: bool = False) -> Model:
    """p(y) prod_i p(x_i | y). `cardinalities`: 0 for a Gaussian feature, else its categories.

    Features come in columns of x in that order: standardised numbers, and category codes 0, 1, ...
    With `missing`, NaN is a missing value: it adds nothing to the statistics (every Gaussian
    feature then counts its own rows) and nothing to the log-likelihood.

    >>> naive_bayes((0, 0, 3), classes=2).size  # 1 + (x, x^2) twice + one-hot of 3
    8
    """
    if classes < 1:
        raise BadSetting(f"classes must be 1 or more, got {classes}")
    if not len(cardinalities) or min(cardinalities) < 0:
        raise BadSetting(
            f"cardinalities must be 0 (Gaussian) or a number of categories, got {cardinalities}"
        )
    return _naive_bayes(tuple(int(r) for r in cardinalities), int(classes), bool(missing))


@cache
def _naive_bayes(cardinalities: tuple[int, ...], classes: int, missing: bool) -> Model:
    # 32-bit: JAX 0.10 takes a 64-bit index in one precision and then refuses it in the other
    numeric = np.flatnonzero(np.array(cardinalities) == 0).astype(np.int32)
    nominal = np.flatnonzero(np.array(cardinalities) > 0).astype(np.int32)
    levels = [cardinalities[i] for i in nominal]
    column = np.repeat(nominal, levels)  # the feature behind each one-hot entry
    level = np.concatenate([np.arange(r) for r in levels]) if levels else np.zeros(0, int)
    block = np.repeat(np.arange(len(levels)), levels)
    together = block[:, None] == block  # [entries, entries] of one feature
    d = len(numeric)
    first, second, count = slice(1, 1 + d), slice(1 + d, 1 + 2 * d), slice(1 + 2 * d, 1 + 3 * d)
    cells = slice(1 + (3 if missing else 2) * d, None)
    size = 1 + (3 if missing else 2) * d + len(column)
    all_numeric = d == len(cardinalities)

    def features(x: Array) -> Array:
        numbers = x if all_numeric else x[:, numeric]
        parts = [jnp.ones((x.shape[0], 1), x.dtype)]
        if missing:
            known = ~jnp.isnan(numbers)
            numbers = jnp.where(known, numbers, 0)
            parts += [numbers, numbers * numbers, known.astype(x.dtype)]
        else:
            parts += [numbers, numbers * numbers]
        if len(column):
            parts.append((x[:, column] == level[None].astype(x.dtype)).astype(x.dtype))
        return jnp.concatenate(parts, 1)

    def guarded(s: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Class counts, means, variances, category probabilities, and how many were impossible."""
        rows = s[:, :1]
        # relative to the total, so that theta does not change when statistics are scaled
        floor = jnp.maximum(SMALLEST_SHARE * rows.sum(), jnp.finfo(s.dtype).tiny)
        n = jnp.maximum(rows, floor)
        guards = (rows < floor).sum()
        n_i = jnp.maximum(s[:, count], floor) if missing else n
        mean = s[:, first] / n_i
        raw = s[:, second] / n_i - mean * mean
        var = jnp.maximum(raw, SMALLEST_VARIANCE)
        cell = jnp.maximum(s[:, cells], floor)
        guards += (raw < SMALLEST_VARIANCE).sum() + (s[:, cells] < floor).sum()
        if missing:
            guards += (s[:, count] < floor).sum()
        sums = jnp.matmul(cell, together.astype(s.dtype), precision="highest")
        return n, mean, var, cell / sums, guards.astype(jnp.int32)

    def theta(s: Array) -> Theta:
        n, mean, var, prob, guards = guarded(s)
        constant = -(jnp.log(var) + mean * mean / var + LOG_2PI) / 2
        bias = jnp.log(n / n.sum())
        parts = [mean / var, -0.5 / var]
        if missing:
            parts.append(constant)
        else:
            bias = bias + constant.sum(1, keepdims=True)
        return Theta(jnp.concatenate([bias, *parts, jnp.log(prob)], 1), guards)

    def uniform(m0: Array, dtype: np.dtype) -> Array:
        share = np.ones(size) / classes
        share[first] = 0
        share[cells] /= np.repeat(levels, levels) if levels else 1
        return jnp.tile(jnp.asarray(share, dtype)[None] * jnp.asarray(m0, dtype), (classes, 1))

    def describe(s: Array) -> dict[str, Array]:
        n, mean, var, prob, _ = guarded(jnp.asarray(s))
        tables = {int(i): prob[:, block == b] for b, i in enumerate(nominal)}
        return {"prior": (n / n.sum())[:, 0], "mean": mean, "var": var, "prob": tables}

    return Model("naive_bayes", classes, size, features, theta, uniform, describe)
