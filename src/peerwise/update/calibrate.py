"""Risk-based calibration: a node moves statistics towards fewer mistakes on its own rows.

Algorithm 3 and equation 3 of "Decentralized Federated Learning of Probabilistic Generative
Classifiers" (Pérez, Echegoyen, Santafé): s <- s + s(X, Y) - s(X, theta(s)).
"""

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp

from peerwise.core import Array, Shard
from peerwise.models.family import Model

__all__ = ["calibrate", "soft_error"]


@cache
def calibrate(model: Model, iterations: int = 1) -> Callable[[Array, Shard], tuple[Array, Array]]:
    """statistics, shard -> calibrated statistics, and how often a guard of theta acted."""

    def update(s: Array, shard: Shard) -> tuple[Array, Array]:
        phi = model.features(shard.x)
        target = jax.nn.one_hot(shard.y, model.classes, dtype=phi.dtype, axis=0)  # [c, m]
        weight = shard.weight.astype(phi.dtype)[None]
        guards = jnp.zeros((), jnp.int32)
        for _ in range(iterations):
            theta = model.theta(s)
            posterior = jax.nn.softmax(jnp.matmul(phi, theta.weight.T, precision="highest"))
            s = s + jnp.matmul((target - posterior.T) * weight, phi, precision="highest")
            guards += theta.guards
        return s, guards

    return update


def soft_error(model: Model, s: Array, shard: Shard) -> Array:
    """Mean of 1 - p(y | x) over the rows of a shard: the loss that calibration lowers."""
    phi = model.features(shard.x)
    posterior = jax.nn.softmax(jnp.matmul(phi, model.theta(s).weight.T, precision="highest"))
    right = jnp.take_along_axis(posterior, shard.y[:, None], 1)[:, 0]
    weight = shard.weight.astype(phi.dtype)
    return 1 - (right * weight).sum() / jnp.maximum(weight.sum(), 1)
