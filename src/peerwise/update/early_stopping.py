"""Early stopping: a node validates after every epoch on rows that it never trains on."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from peerwise.core import Array, Batched, Shard, Tree
from peerwise.update.objective import MeanLoss
from peerwise.update.training import Best, Trained


def _held_out(shard: Shard, share: float) -> Array:
    """Which rows are for validation: spread evenly over the shard."""
    i = jnp.arange(shard.weight.shape[0], dtype=jnp.float32)
    return jnp.floor((i + 1) * share) > jnp.floor(i * share)


def early_stopping(
    train: Batched, loss: MeanLoss, share: float, patience: int, keep: bool = False
) -> Batched:
    """Training that ends after `patience` epochs without a lower loss, with the best weights.

    The loss is that on a `share` of the rows; `train` sees the others. `keep`: it ends with the
    optimiser's state of the best epoch, too.
    """

    def kept(now: Trained) -> tuple[Tree, Tree]:
        return now.weights, now.optimiser if keep else None

    def others(shard: Shard) -> Shard:
        return shard._replace(weight=jnp.where(_held_out(shard, share), 0, shard.weight))

    def begin(*args: Any) -> Trained:
        *rest, shard = args
        now: Trained = train.begin(*rest, others(shard))
        none = jnp.full((), jnp.inf, jnp.float32), jnp.zeros((), jnp.int32)
        return now._replace(stopping=Best(now.weights, *none, kept(now)[1]))

    def draw(now: Trained, e: Array, shard: Shard) -> Array:
        goes_on = now.stopping.waited < patience
        return jnp.where(goes_on, train.draw(now, e, others(shard)), shard.weight.shape[0])

    def after(now: Trained, shard: Shard) -> Trained:
        before: Best = now.stopping
        watched = shard._replace(weight=jnp.where(_held_out(shard, share), shard.weight, 0))
        seen = loss(now.weights, watched, None).astype(jnp.float32)
        # without rows to validate on, the newest weights are the best
        none = ~(watched.weight.sum() > 0)
        better = (seen < before.loss) | none
        total = now.total + jnp.where(none | jnp.isfinite(seen), 0, jnp.nan)  # it broke down
        old = before.weights, before.optimiser
        weights, optimiser = jax.tree.map(lambda a, b: jnp.where(better, a, b), kept(now), old)
        waited = jnp.where(better, 0, before.waited + 1)
        stopping = Best(weights, jnp.where(better, seen, before.loss), waited, optimiser)
        return now._replace(stopping=stopping, total=total)

    def end(now: Trained) -> Trained:
        best = now.stopping
        optimiser = best.optimiser if keep else now.optimiser
        return train.end(now._replace(weights=best.weights, optimiser=optimiser))

    return replace(train, begin=begin, draw=draw, end=end, after=after)
