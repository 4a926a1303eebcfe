"""Barycenters of independent Gaussians: charts in which they are plain weighted means.

"BA-BFL: Barycentric Aggregation for Bayesian Federated Learning" (Jamoussi, Serra, Stavrou,
Kountouris): the merged posterior is the one with the least weighted divergence from those merged.
Wherever a model has a `core.Gaussian`, a chart replaces it by arrays whose means are those of the
barycenter; weights without a posterior are averaged as they are.
"""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.combine.weigh import Rule, weights_of
from peerwise.core import Array, Chart, Gaussian, Mean, Tree
from peerwise.declare import declares
from peerwise.errors import BadSetting, UnknownName

Arrays = tuple[Array, ...]


class _Charted(NamedTuple):
    """The arrays that represent a Gaussian in a chart."""

    arrays: Any


class _Kind(NamedTuple):
    """A chart of one Gaussian (mean, log-variance), and the powers to which weights are raised."""

    to: Callable[[Array, Array], Arrays]
    back: Callable[..., tuple[Array, Array]]
    powers: tuple[int, ...] = (1, 1)


def _natural(mean: Array, log_variance: Array) -> Arrays:
    precision = jnp.exp(-log_variance)
    return precision * mean, precision


def _moments(mean: Array, log_variance: Array) -> Arrays:
    # the second moment as two terms: added to a squared mean, a small variance is rounded away
    return mean, jnp.exp(log_variance), mean * mean


def _from_moments(mean: Array, variance: Array, square: Array) -> tuple[Array, Array]:
    # rounding may put the squared mean of equal numbers above the mean of their squares
    return mean, jnp.log(variance + jnp.maximum(square - mean * mean, 0))


def _with_one(mean: Array, log_variance: Array) -> Arrays:
    return mean, jnp.exp(log_variance), jnp.ones_like(mean)  # whose mean is the sum of w^2


# Barycenters by name, diagonal Gaussians each.
BARYCENTERS: dict[str, _Kind] = {
    # reverse Kullback-Leibler: the normalised product of powers
    "rkl": _Kind(_natural, lambda shift, precision: (shift / precision, -jnp.log(precision))),
    # squared Wasserstein-2: the mean of the standard deviations
    "w2": _Kind(lambda m, v: (m, jnp.exp(v / 2)), lambda m, s: (m, 2 * jnp.log(s))),
    # forward Kullback-Leibler: the moments of the mixture. The spread of the means is as exact as
    # their squares; `alpha_barycenter(1)` gives the same to full precision
    "kl": _Kind(_moments, _from_moments, (1, 1, 1)),
    # empirical arithmetic aggregation: the mean of the variances
    "eaa": _Kind(lambda m, v: (m, jnp.exp(v)), lambda m, v: (m, jnp.log(v))),
    # Gaussian arithmetic aggregation: the variance of a weighted sum of independent draws
    "gaa": _Kind(lambda m, v: (m, jnp.exp(v)), lambda m, v: (m, jnp.log(v)), (1, 2)),
    # the same divided by the sum of the squared weights, as the authors' code has it
    "gaa_normalised": _Kind(_with_one, lambda m, v, one: (m, jnp.log(v / one)), (1, 2, 2)),
    # arithmetic aggregation of log-variances
    "aalv": _Kind(lambda m, v: (m, v), lambda m, v: (m, v)),
}


def is_gaussian(part: Any) -> bool:
    """Whether a part of a model is a `Gaussian` and not an array."""
    return isinstance(part, Gaussian)


def _kind(name: str) -> _Kind:
    if name not in BARYCENTERS:
        raise UnknownName("barycenter", name, BARYCENTERS)
    return BARYCENTERS[name]


@cache
def _chart(name: str) -> Chart:
    kind = _kind(name)

    def to(value: Tree) -> Tree:
        def one(part: Any) -> Any:
            return _Charted(kind.to(*part)) if is_gaussian(part) else part

        return jax.tree.map(one, value, is_leaf=is_gaussian)

    def mapped(charted: Tree, inside: Callable[[Any], Any], outside: Callable[[Any], Any]) -> Tree:
        def one(part: Any) -> Any:
            return inside(part) if isinstance(part, _Charted) else outside(part)

        return jax.tree.map(one, charted, is_leaf=lambda part: isinstance(part, _Charted))

    def back(charted: Tree) -> Tree:
        return mapped(charted, lambda part: Gaussian(*kind.back(*part.arrays)), lambda part: part)

    def power(charted: Tree) -> Tree:
        return mapped(charted, lambda part: _Charted(kind.powers), lambda part: 1)

    return Chart(to, back, power)


@declares("rule")
@cache
def barycenter(
    *,
    divergence: Annotated[
        Literal["rkl", "w2", "kl", "eaa", "gaa", "gaa_normalised", "aalv"],
        "which divergence the merged posterior minimises",
    ] = "rkl",
    weigh: Annotated[Rule, "how posteriors are weighted"] = "data_size",
) -> Mean:
    """The barycenter of the posteriors heard and the node's own, by data size and trust.

    `divergence`: one of `BARYCENTERS`. With another `weigh`, e.g. `cfa(epsilon=0.5)`, a node gives
    its own posterior a fixed share: a personal model.
    """
    return Mean(weights_of(weigh), _chart(divergence))


def check_gaussians(mean: Any, variance: Any, weights: Any) -> tuple[np.ndarray, ...]:
    """Means [k, ...], variances and weights [k] as arrays, checked."""
    mean, variance, weights = (np.asarray(a, float) for a in (mean, variance, weights))
    if weights.ndim != 1 or mean.shape[:1] != weights.shape:
        raise BadSetting(
            f"give one weight for each posterior, got {weights.shape} for means {mean.shape}"
        )
    if not (weights >= 0).all() or abs(weights.sum() - 1) > 1e-6:
        raise BadSetting(
            f"weights must be 0 or more and sum to one, got a sum of {weights.sum():.6g}: divide "
            "them by it"
        )
    if not np.isfinite(mean).all() or not np.isfinite(variance).all():
        raise BadSetting("means and variances must be finite numbers")
    return mean, variance, weights


def check_variances(mean: Any, variance: Any, weights: Any) -> tuple[np.ndarray, ...]:
    """As `check_gaussians`, of independent Gaussians: a variance above 0 for every mean."""
    mean, variance, weights = check_gaussians(mean, variance, weights)
    if mean.shape != variance.shape:
        raise BadSetting(
            f"means and variances must have one shape, got {mean.shape} and {variance.shape}"
        )
    if not (variance > 0).all():
        raise BadSetting(f"variances must be above 0, got {variance.min():g}")
    return mean, variance, weights


def barycenter_of(
    name: str, mean: Any, variance: Any, weights: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the barycenter of Gaussians [k, ...] with weights [k] that sum to one.

    >>> m, v = barycenter_of("rkl", [0.0, 2.0], [1.0, 0.25], [0.5, 0.5])
    >>> round(float(m), 4), round(float(v), 4)
    (1.6, 0.4)
    """
    kind = _kind(name)
    mean, variance, weights = check_variances(mean, variance, weights)
    with jax.enable_x64(True):
        charted = kind.to(jnp.asarray(mean), jnp.log(jnp.asarray(variance)))
        means = [
            jnp.tensordot(jnp.asarray(weights) ** power, a, 1)
            for a, power in zip(charted, kind.powers, strict=True)
        ]
        center, log_variance = kind.back(*means)
        return np.asarray(center), np.exp(np.asarray(log_variance))
