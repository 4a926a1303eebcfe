"""The gradient of a net's mean loss over a node's rows, a few at a time."""

from typing import Any

import jax
import jax.numpy as jnp

from peerwise.core import Array, Batched, Shard, Tree
from peerwise.nets.net import Net
from peerwise.update.losses import Loss
from peerwise.update.objective import mean_loss

__all__ = ["gradient"]

ROWS, MOST = 64, 256  # at a time, of all rows and of a limited number of them


def gradient(net: Net, loss: Loss, rows: int | None = None) -> Batched:
    """weights, turn, whether, shard -> the gradient of the mean loss over its rows, dropout off.

    `rows`: of at most so many rows, evenly spaced, others in every turn. Not `whether`: zeros.
    """
    mean = mean_loss(net, loss)
    size = ROWS if rows is None else min(MOST, rows)

    def begin(weights: Tree, turn: Array, whether: Array, shard: Shard) -> Any:
        zero = jnp.zeros((), shard.weight.dtype)
        return weights, turn, whether, jax.tree.map(jnp.zeros_like, weights), zero

    def taken(m: int) -> int:
        return m if rows is None else min(rows, m)

    def draw(now: Any, e: Array, shard: Shard) -> Array:
        m = shard.weight.shape[0]
        i, real = jnp.arange(taken(m)), (shard.weight > 0).sum()
        many = jnp.minimum(real, taken(m))
        # real rows come first in a shard
        place = jnp.where(i < many, (now[1] + i * real // jnp.maximum(many, 1)) % real, m)
        return jnp.pad(place, (0, -taken(m) % size), constant_values=m).astype(jnp.int32)

    def step(now: Any, batch: Shard) -> Any:
        weights, turn, whether, total, count = now
        slope = jax.grad(mean)(weights, batch, None)
        here = batch.weight.sum()
        total = jax.tree.map(lambda s, g: s + here.astype(g.dtype) * g, total, slope)
        return weights, turn, whether, total, count + here

    def end(now: Any) -> Tree:
        _, _, whether, total, count = now
        share = jnp.where(whether & (count > 0), 1 / jnp.maximum(count, 1e-30), 0)
        return jax.tree.map(lambda s: jnp.where(whether, s * share.astype(s.dtype), 0), total)

    return Batched(begin, draw, step, end, lambda m: -(-taken(m) // size), size)
