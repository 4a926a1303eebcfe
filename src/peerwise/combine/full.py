"""Barycenters of Gaussians with full covariances, for small models.

As in `barycenter`, in closed form for both Kullback-Leibler divergences. The squared Wasserstein-2
barycenter of covariances that do not commute is a fixed point (Agueh and Carlier 2011), reached by
the iteration of Álvarez-Esteban, del Barrio, Cuesta-Albertos and Matrán (2016).
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.combine.barycenter import BARYCENTERS, barycenter, check_gaussians, is_gaussian
from peerwise.combine.slots import heard_values, weighted_mean
from peerwise.combine.weigh import Rule, weights_of
from peerwise.core import Array, Chart, Gaussian, Inbox, Mean, Slots, Tree
from peerwise.declare import declares
from peerwise.errors import BadSetting, UnknownName

ROUNDS = 50  # of the iteration: exact to 1e-9 where variances differ a hundred thousandfold

# The divergences of `full_barycenter`.
FULL = ("rkl", "w2", "kl")


Function: TypeAlias = Callable[..., Any]

# products in full precision: by default a GPU may round the factors
_dot = partial(jnp.matmul, precision="highest")


class FullGaussian(NamedTuple):
    """A Gaussian over a vector of weights, which may be correlated."""

    mean: Array  # [d]
    covariance: Array  # [d, d]


class _Charted(NamedTuple):
    """The arrays that represent a full Gaussian in a chart."""

    arrays: Any


def _is_full(part: Any) -> bool:
    return isinstance(part, FullGaussian)


def _symmetric(matrix: Array) -> Array:
    return (matrix + jnp.swapaxes(matrix, -1, -2)) / 2


def _spectral(matrix: Array, *functions: Function) -> list[Array]:
    """Functions of a symmetric matrix through its eigenvalues, negative ones (rounding) are 0."""
    values, vectors = jnp.linalg.eigh(_symmetric(matrix))
    values = jnp.maximum(values, 0)
    return [
        _dot(vectors * of(values)[..., None, :], jnp.swapaxes(vectors, -1, -2)) for of in functions
    ]


def _inverse_root(values: Array) -> Array:
    return jnp.where(values > 0, 1 / jnp.sqrt(jnp.where(values > 0, values, 1)), 0)


def _inverse(matrix: Array) -> Array:
    """The inverse of a symmetric positive definite matrix."""
    factor = jax.scipy.linalg.cho_factor(matrix, lower=True)
    return _symmetric(
        jax.scipy.linalg.cho_solve(factor, jnp.eye(matrix.shape[-1], dtype=matrix.dtype))
    )


def _natural(mean: Array, covariance: Array) -> tuple[Array, ...]:
    precision = _inverse(covariance)
    return _dot(precision, mean), precision


def _from_natural(shift: Array, precision: Array) -> tuple[Array, Array]:
    covariance = _inverse(precision)
    return _dot(covariance, shift), covariance


def _moments(mean: Array, covariance: Array) -> tuple[Array, ...]:
    return mean, covariance, jnp.outer(mean, mean)


def _from_moments(mean: Array, covariance: Array, square: Array) -> tuple[Array, Array]:
    # adds the covariance of the means, without eigenvalues that rounding made negative
    (spread,) = _spectral(square - jnp.outer(mean, mean), lambda values: values)
    return mean, covariance + spread


_CHARTS: dict[str, tuple[Function, Function]] = {
    "rkl": (_natural, _from_natural),
    "kl": (_moments, _from_moments),
}


@cache
def _chart(name: str) -> Chart:
    """A chart for full Gaussians and, beside them, for independent ones."""
    to_full, from_full = _CHARTS[name]
    independent = barycenter(divergence=name).chart

    def to(value: Tree) -> Tree:
        def one(part: Any) -> Any:
            return _Charted(to_full(*part)) if _is_full(part) else part

        return independent.to(jax.tree.map(one, value, is_leaf=_is_full))

    def is_charted(part: Any) -> bool:
        return isinstance(part, _Charted)

    def back(charted: Tree) -> Tree:
        def one(part: Any) -> Any:
            return FullGaussian(*from_full(*part.arrays)) if is_charted(part) else part

        return jax.tree.map(one, independent.back(charted), is_leaf=is_charted)

    return Chart(to, back)


def _wasserstein(shares: Array, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """The barycenter of means [k, d] and covariances [k, d, d]."""

    def once(_: Any, center: Array) -> Array:
        root, inverse = _spectral(center, jnp.sqrt, _inverse_root)
        (between,) = _spectral(_dot(_dot(root[None], covariance), root[None]), jnp.sqrt)
        mixed = _dot(inverse, weighted_mean(shares, between))
        return _symmetric(_dot(mixed, mixed.T))

    # the start is the barycenter already where all covariances commute
    start = weighted_mean(shares, _spectral(covariance, jnp.sqrt)[0])
    center = jax.lax.fori_loop(0, ROUNDS, once, _dot(start, start.T))
    return weighted_mean(shares, mean), center


def _independent_wasserstein(shares: Array, mean: Array, log_variance: Array) -> Gaussian:
    kind = BARYCENTERS["w2"]
    return Gaussian(*kind.back(*(weighted_mean(shares, a) for a in kind.to(mean, log_variance))))


def _wasserstein_rule(own: Tree, inbox: Inbox, shares: Array) -> Tree:
    def one(part: Any) -> Any:
        if _is_full(part):
            return FullGaussian(*_wasserstein(shares, *part))
        if is_gaussian(part):
            return _independent_wasserstein(shares, *part)
        return weighted_mean(shares, part)

    values = heard_values(shares, own, inbox.value)
    return jax.tree.map(one, values, is_leaf=lambda part: _is_full(part) or is_gaussian(part))


def _check_name(name: str) -> str:
    if name not in FULL:
        raise UnknownName("barycenter of full covariances", name, FULL)
    return name


@declares("rule")
@cache
def full_barycenter(
    *,
    divergence: Annotated[
        Literal["rkl", "w2", "kl"], "which divergence the merged posterior minimises"
    ] = "rkl",
    weigh: Annotated[Rule, "how posteriors are weighted"] = "data_size",
) -> Mean | Slots:
    """The barycenter of Gaussians with full covariances, by data size and trust.

    `divergence`: reverse KL, squared Wasserstein-2 or KL, for a model's `FullGaussian` and its
    `core.Gaussian` parts; other weights are averaged. `weigh`: as in `barycenter`.
    """
    if divergence == "w2":
        return Slots(_wasserstein_rule, weights_of(weigh))
    return Mean(weights_of(weigh), _chart(divergence))


def _check_covariances(mean: Any, covariance: Any, weights: Any) -> tuple[np.ndarray, ...]:
    mean, covariance, weights = check_gaussians(mean, covariance, weights)
    if mean.ndim != 2 or covariance.shape != (*mean.shape, mean.shape[-1]):
        raise BadSetting(
            "means must be [k, d] and covariances [k, d, d], got "
            f"{mean.shape} and {covariance.shape}"
        )
    lopsided = np.abs(covariance - covariance.swapaxes(1, 2)).max(initial=0)
    if lopsided > 1e-6 * np.abs(covariance).max(initial=0):
        raise BadSetting(f"covariances must be symmetric, one is off by {lopsided:g}")
    least = np.linalg.eigvalsh(covariance).min()
    if least <= 0:
        raise BadSetting(
            f"covariances must be positive definite, one has the eigenvalue {least:.6g}"
        )
    return mean, covariance, weights


@cache
def _whole(name: str) -> Callable[[Array, Array, Array], tuple[Array, Array]]:
    if name == "w2":
        return jax.jit(_wasserstein)
    to, back = _CHARTS[name]

    def merged(weights: Array, mean: Array, covariance: Array) -> tuple[Array, Array]:
        return back(*(weighted_mean(weights, a) for a in jax.vmap(to)(mean, covariance)))

    return jax.jit(merged)


def full_barycenter_of(
    name: str, mean: Any, covariance: Any, weights: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Mean [d] and covariance of the barycenter of Gaussians: [k, d], [k, d, d], weights [k].

    >>> m, c = full_barycenter_of("w2", [[0.0], [2.0]], [[[1.0]], [[0.25]]], [0.5, 0.5])
    >>> round(float(m[0]), 4), round(float(c[0, 0]), 4)
    (1.0, 0.5625)
    """
    _check_name(name)
    mean, covariance, weights = _check_covariances(mean, covariance, weights)
    with jax.enable_x64(True):
        center, spread = _whole(name)(*map(jnp.asarray, (weights, mean, covariance)))
        return np.asarray(center), np.asarray(spread)
