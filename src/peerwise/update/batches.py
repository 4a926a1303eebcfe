"""Which rows of its shard a node trains on, batch after batch."""

import jax
import jax.numpy as jnp

from peerwise.core import Array, Shard
from peerwise.update.training import Trained

__all__ = ["by_epochs", "by_steps"]


def by_epochs(batch: int, now: Trained, e: Array, shard: Shard) -> Array:
    """The rows of epoch e: real ones first, in random order; none if the node has done its epochs.

    The place past the last row stands for none, up to a whole number of batches.
    """
    m = shard.weight.shape[0]
    # Drawn in float32 whatever the precision, so that it does not change the order.
    key = jax.random.fold_in(jax.random.wrap_key_data(now.key), e)
    draw = jax.random.uniform(key, (m,), jnp.float32)
    used = shard.weight.astype(jnp.float32) > 0
    order = jnp.argsort(jnp.where(used, draw, 2.0)).astype(jnp.int32)
    order = jnp.where((e < now.epochs) & (jnp.arange(m) < used.sum()), order, m)
    return jnp.pad(order, (0, -m % batch), constant_values=m)


def by_steps(batch: int, steps: int, now: Trained, e: Array, shard: Shard) -> Array:
    """The rows of `steps` batches drawn with replacement."""
    m = shard.weight.shape[0]
    place_of = jnp.argsort(shard.weight <= 0).astype(jnp.int32)  # real rows first
    real = (shard.weight > 0).sum()

    def one(i: Array) -> Array:
        key = jax.random.fold_in(jax.random.wrap_key_data(now.key), i)
        draw = jax.random.uniform(key, (batch,), jnp.float32)
        place = place_of[jnp.minimum((draw * real).astype(jnp.int32), jnp.maximum(real - 1, 0))]
        return jnp.where(real > 0, place, m)

    return jax.vmap(one)(jnp.arange(steps)).reshape(-1)
