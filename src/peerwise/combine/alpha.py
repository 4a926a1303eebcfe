"""Alpha-barycenters of independent Gaussians, by quadrature.

Theorem 1 of "BA-BFL: Barycentric Aggregation for Bayesian Federated Learning" (Jamoussi, Serra,
Stavrou, Kountouris): the density with the least weighted alpha-divergence from posteriors p_k is
proportional to (sum_k w_k p_k^alpha)^(1 / alpha). It is not Gaussian (remark 1) except as
alpha -> 0, the reverse Kullback-Leibler barycenter. Here the Gaussian of the same mean
and variance replaces it, coordinate by coordinate; at alpha = 1 these are the mixture's moments.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.combine.barycenter import BARYCENTERS, check_variances, is_gaussian
from peerwise.combine.slots import heard_values, weighted_mean
from peerwise.combine.weigh import Rule, weights_of
from peerwise.core import Array, Gaussian, Inbox, Slots, Tree
from peerwise.declare import declares
from peerwise.errors import BadSetting

Pair = tuple[Array, Array]  # mean and log-variance

# Panels of Gauss-Legendre points. alpha > 0: between these numbers of standard deviations from each
# posterior's mean, where the mass lies; alpha < 0: on both sides of the mode, down to e^-FALL.
EDGES = (-8.0, -4.5, -2.5, -1.0, 1.0, 2.5, 4.5, 8.0)
POINTS = {1: 8, -1: 48}  # in a panel, by the sign of alpha
FALL = 40.0
HALVINGS = 50


def _log_densities(x: Array, mean: Array, log_variance: Array) -> Array:
    """log p_k(x) [k, ...], up to a constant that all share."""
    return -0.5 * (log_variance + jnp.square(x[None] - mean) * jnp.exp(-log_variance))


def _log_mean(alpha: float, shares: Array, log_p: Array) -> Array:
    """log of (sum_k w_k p_k^alpha)^(1 / alpha), exact to rounding as alpha -> 0 too."""
    heard = shares > 0
    if alpha > 0:
        first = jnp.where(heard, log_p, -jnp.inf).max(0)
    else:
        first = jnp.where(heard, log_p, jnp.inf).min(0)
    power = jnp.where(heard, alpha * (log_p - first[None]), 0)  # 0 or less
    near = (shares * jnp.expm1(power)).sum(0)
    far = (shares * jnp.exp(power)).sum(0)
    return first + jnp.where(near > -0.5, jnp.log1p(jnp.maximum(near, -0.5)), jnp.log(far)) / alpha


def _slope(alpha: float, shares: Array, x: Array, mean: Array, log_variance: Array) -> Array:
    """The derivative of the log-density: the posteriors' own, weighted by terms of the sum."""
    log_p = jnp.where(shares > 0, alpha * _log_densities(x, mean, log_variance), -jnp.inf)
    part = jax.nn.softmax(log_p + jnp.log(jnp.where(shares > 0, shares, 1)), axis=0)
    return (part * (mean - x[None]) * jnp.exp(-log_variance)).sum(0)


def _halve(low: Array, high: Array, beyond: Callable[[Array], Array]) -> Array:
    """Where `beyond` turns from false at `low` to true at `high`, coordinate by coordinate."""

    def once(_: Any, ends: Pair) -> Pair:
        low, high = ends
        middle = low + (high - low) / 2
        past = beyond(middle)
        return jnp.where(past, low, middle), jnp.where(past, middle, high)

    return jax.lax.fori_loop(0, HALVINGS, once, (low, high))[1]


def _edges_by_posterior(alpha: float, shares: Array, mean: Array, log_variance: Array) -> Array:
    """Panel edges for alpha > 0: around each posterior and the alpha -> 0 limit between them."""
    center, log_width = _closed("rkl", shares, mean, log_variance)
    means = jnp.concatenate([mean, center[None]])
    widths = jnp.exp(jnp.concatenate([log_variance, log_width[None]]) / 2)
    return jnp.sort(jnp.concatenate([means + edge * widths for edge in EDGES]), axis=0)


def _edges_by_mode(alpha: float, shares: Array, mean: Array, log_variance: Array) -> Array:
    """Panel edges for alpha < 0, where the density is log-concave: its mode and its tails."""

    def log_f(x: Array) -> Array:
        return _log_mean(alpha, shares, _log_densities(x, mean, log_variance))

    low, high = mean.min(0), mean.max(0)
    mode = _halve(low, high, lambda x: _slope(alpha, shares, x, mean, log_variance) < 0)
    floor = log_f(mode) - FALL
    # at this distance from its mean the widest posterior has fallen as far
    reach = math.sqrt(2 * FALL) * jnp.exp(log_variance.max(0) / 2) + (high - low)
    ends = [_halve(mode, mode + way * reach, lambda x: log_f(x) < floor) for way in (-1, 1)]
    return jnp.stack([ends[0], mode, ends[1]])


def _quadrature(alpha: float, shares: Array, mean: Array, log_variance: Array) -> Pair:
    """Mean and log-variance of the density; memory is [slots, parameters], one point at a time."""
    sign = 1 if alpha > 0 else -1
    place = _edges_by_posterior if sign > 0 else _edges_by_mode
    edges = place(alpha, shares, mean, log_variance)
    nodes, weights = np.polynomial.legendre.leggauss(POINTS[sign])
    points = jnp.asarray(np.stack([(nodes + 1) / 2, weights / 2], 1), mean.dtype)

    def add(carry: Any, panel: Any, point: Array) -> Any:
        """Add one point to the mass, its mean and its squared deviations (West 1979)."""
        top, mass, center, spread = carry
        low, high = panel
        x = low + (high - low) * point[0]
        log_f = _log_mean(alpha, shares, _log_densities(x, mean, log_variance))
        # masses are relative to the highest density so far, so that a float can hold them
        higher = jnp.maximum(top, log_f)
        mass, spread = (a * jnp.exp(top - higher) for a in (mass, spread))
        new = jnp.exp(log_f - higher) * (high - low) * point[1]
        mass = mass + new
        away = x - center
        center = center + jnp.where(mass > 0, new / jnp.where(mass > 0, mass, 1), 0) * away
        return higher, mass, center, spread + new * away * (x - center)

    def panel_of(carry: Any, panel: Any) -> Any:
        carry, _ = jax.lax.scan(lambda c, point: (add(c, panel, point), None), carry, points)
        return carry, None

    zero = jnp.zeros_like(mean[0])
    start = (jnp.full_like(zero, -jnp.inf), zero, mean[0], zero)
    (_, mass, center, spread), _ = jax.lax.scan(panel_of, start, (edges[:-1], edges[1:]))
    return center, jnp.log(spread / mass)


def _closed(name: str, shares: Array, mean: Array, log_variance: Array) -> Pair:
    kind = BARYCENTERS[name]
    return kind.back(*((shares * a).sum(0) for a in kind.to(mean, log_variance)))


def _merge(alpha: float, shares: Array, mean: Array, log_variance: Array) -> Pair:
    """The barycenter's mean and log-variance from those of posteriors [k, ...]."""
    shares = shares.astype(mean.dtype).reshape((-1,) + (1,) * (mean.ndim - 1))
    if alpha == 0:
        return _closed("rkl", shares, mean, log_variance)
    if alpha == 1:  # as "kl", but about the mean: no small variance is rounded away
        center = (shares * mean).sum(0)
        spread = jnp.exp(log_variance) + jnp.square(mean - center[None])
        return center, jnp.log((shares * spread).sum(0))
    return _quadrature(alpha, shares, mean, log_variance)


def _check_alpha(alpha: float) -> float:
    if not math.isfinite(alpha):
        raise BadSetting(f"alpha must be a finite number, got {alpha}")
    return float(alpha)


@declares("rule")
@cache
def alpha_barycenter(
    *,
    alpha: Annotated[float, "of the divergence: 0 reverse KL, 1/2 Hellinger, 1 KL"] = 0.5,
    weigh: Annotated[Rule, "how posteriors are weighted"] = "data_size",
) -> Slots:
    """The alpha-barycenter of the posteriors heard and the node's own, as a Gaussian.

    `alpha`: 0 reverse Kullback-Leibler, 1/2 Hellinger, 1 Kullback-Leibler, or any other number.
    `weigh`: by data size and trust unless given, as in `barycenter`. Quadrature points lie
    densely around every posterior and between them, so that posteriors may have any widths. They
    may miss the mass only if alpha is just above 0 and posteriors are some 20 deviations apart.
    """
    exponent = _check_alpha(alpha)

    def rule(own: Tree, inbox: Inbox, shares: Array) -> Tree:
        values = heard_values(shares, own, inbox.value)

        def one(part: Any) -> Any:
            if is_gaussian(part):
                return Gaussian(*_merge(exponent, shares, *part))
            return weighted_mean(shares, part)

        return jax.tree.map(one, values, is_leaf=is_gaussian)

    return Slots(rule, weights_of(weigh))


def alpha_barycenter_of(
    alpha: float, mean: Any, variance: Any, weights: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the alpha-barycenter of Gaussians [k, ...] with weights [k].

    >>> m, v = alpha_barycenter_of(0.5, [0.0, 2.0], [1.0, 0.25], [0.5, 0.5])
    >>> round(float(m), 4), round(float(v), 4)
    (1.172, 1.3474)
    """
    exponent = _check_alpha(alpha)
    mean, variance, weights = check_variances(mean, variance, weights)
    with jax.enable_x64(True):
        center, log_variance = jax.jit(_merge, static_argnums=0)(
            exponent, jnp.asarray(weights), jnp.asarray(mean), jnp.log(jnp.asarray(variance))
        )
        return np.asarray(center), np.exp(np.asarray(log_variance))
