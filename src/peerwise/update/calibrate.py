"""Risk-based calibration: a node moves statistics towards fewer mistakes on its own rows.

Algorithm 3 and equation 3 of "Decentralized Federated Learning of Probabilistic Generative
Classifiers" (Pérez, Echegoyen, Santafé): s <- s + s(X, Y) - s(X, theta(s)).
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from peerwise.core import Array, Shard, Tree
from peerwise.models.family import Model, log_posterior, moved


@cache
def calibrate(model: Model, iterations: int = 1) -> Callable[[Tree, Shard], tuple[Tree, Array]]:
    """statistics, shard -> calibrated statistics, and how often a guard of theta acted.

    What all classes share never moves: its sum over the classes' targets and posteriors is 0.
    """

    def update(s: Tree, shard: Shard) -> tuple[Tree, Array]:
        phi = model.features(shard.x)
        target = jax.nn.one_hot(shard.y, model.classes, dtype=phi.dtype, axis=0)  # [c, m]
        weight = shard.weight.astype(phi.dtype)[None]
        guards = jnp.zeros((), jnp.int32)
        for _ in range(iterations):
            prob, acted = _posterior(model, s, shard.x, phi)
            s = moved(s, _sums((target - prob.T) * weight, phi))
            guards += acted
        return s, guards

    return update


@cache
def correction(model: Model) -> Callable[[Tree, Shard], tuple[Array, Array, Array]]:
    """statistics, shard -> s(X, Y) - s(X, theta(s)) [c, q], sum of -log p(y | x), guards acting.

    What one calibration would add to the lines of the classes, without adding it; it goes down the
    gradient of that sum in theta.
    """

    def step(s: Tree, shard: Shard) -> tuple[Array, Array, Array]:
        phi = model.features(shard.x)
        target = jax.nn.one_hot(shard.y, model.classes, dtype=phi.dtype, axis=0)  # [c, m]
        weight = shard.weight.astype(phi.dtype)[None]
        theta = model.theta(s)
        scores = _scores(phi, theta.weight) if model.linear else log_posterior(model, s, shard.x)
        scores = scores - scores.max(1, keepdims=True)
        shares = jnp.exp(scores)  # once for each, for the posterior as well as for the loss
        whole = shares.sum(1, keepdims=True)
        y = jnp.clip(shard.y, 0, model.classes - 1)
        right = jnp.take_along_axis(scores, y[:, None], 1) - jnp.log(whole)
        counts = jnp.where(shard.y == y, weight[0], 0)
        loss = -_added(counts, jnp.where(counts > 0, right[:, 0], 0))
        return _sums((target - (shares / whole).T) * weight, phi), loss, theta.guards

    return step


def _posterior(model: Model, s: Tree, x: Array, phi: Array) -> tuple[Array, Array]:
    """p(y | x) [m, c] and the guards of theta, given phi(x)."""
    theta = model.theta(s)
    if not model.linear:
        return jnp.exp(log_posterior(model, s, x)), theta.guards
    return jax.nn.softmax(_scores(phi, theta.weight)), theta.guards


# Column 0 of phi is the constant 1. A GPU's products are faster without it: the other columns then
# lie at even addresses, and XLA computes the constants of theta once, apart from its other columns.
def _scores(phi: Array, weight: Array) -> Array:
    """log p(x, y) [m, c], up to what the classes share, from phi [m, q] and theta [c, q]."""
    if jax.default_backend() == "cpu":
        return jnp.matmul(phi, weight.T, precision="highest")
    return jnp.matmul(phi[:, 1:], weight[:, 1:].T, precision="highest") + weight[:, 0][None]


def _sums(change: Array, phi: Array) -> Array:
    """The change of the statistics [c, q] by rows of phi [m, q] that count `change` [c, m]."""
    if jax.default_backend() == "cpu":
        return jnp.matmul(change, phi, precision="highest")
    others = jnp.matmul(change, phi[:, 1:], precision="highest")
    # behind a barrier, or a few threads add up all rows while the others wait
    counts = jax.lax.optimization_barrier(change.sum(1, keepdims=True))
    return jnp.concatenate([counts, others], 1)


def _added(counts: Array, terms: Array) -> Array:
    """The sum over rows of terms that count so often."""
    if jax.default_backend() != "cpu":
        return (counts * terms).sum()
    # XLA adds up rows in an order that depends on what else a program does, but for matrices: of
    # two lines each, or it would make a sum of their product again
    both = jnp.matmul(jnp.stack([counts] * 2), jnp.stack([terms] * 2, 1), precision="highest")
    return both[0, 0]


def soft_error(model: Model, s: Tree, shard: Shard) -> Array:
    """Mean of 1 - p(y | x) over the rows of a shard: the loss that calibration lowers."""
    prob, _ = _posterior(model, s, shard.x, model.features(shard.x))
    right = jnp.take_along_axis(prob, shard.y[:, None], 1)[:, 0]
    weight = shard.weight.astype(prob.dtype)
    total = weight.sum()
    return 1 - (right * weight).sum() / jnp.where(total > 0, total, 1)


class Calibration(NamedTuple):
    """What calibration ends with."""

    statistics: Tree  # of the iterate with the lowest soft error
    soft_error: Array  # [iterations + 1] from the start on; infinite where it had stopped
    best: Array  # which iterate that is
    iterations: Array  # how many were made


@cache
def calibrated(model: Model, iterations: int) -> Callable[..., Calibration]:
    """statistics, rows, watched rows, tolerance, patience -> `Calibration`.

    Calibrates on `rows` until the soft error on `watched` has not fallen by `tolerance` for
    `patience` iterations, and keeps the best.
    """
    update = calibrate(model)

    def run(s: Tree, rows: Shard, watched: Shard, tolerance: Any, patience: Any) -> Calibration:
        first = soft_error(model, s, watched)
        trace = jnp.full(iterations + 1, jnp.inf, first.dtype).at[0].set(first)
        zero = jnp.zeros((), jnp.int32)

        def go_on(carry: Any) -> Array:
            t, since = carry[0], carry[1]
            return (t < iterations) & (since < patience)

        def iterate(carry: Any) -> Any:
            t, since, s, best, least, at, trace = carry
            s, _ = update(s, rows)
            soft = soft_error(model, s, watched)
            better = soft < least
            since = jnp.where(soft < least - tolerance, 0, since + 1)
            best = jax.tree.map(lambda a, b: jnp.where(better, a, b), s, best)
            at = jnp.where(better, t + 1, at)
            least = jnp.minimum(soft, least)
            return t + 1, since, s, best, least, at, trace.at[t + 1].set(soft)

        start = (zero, zero, s, s, first, zero, trace)
        t, _, _, best, _, at, trace = jax.lax.while_loop(go_on, iterate, start)
        return Calibration(best, trace, at, t)

    return jax.jit(run)
