"""Local training of a net: mini-batches of a node's own rows, epoch by epoch.

Rows of weight 0 are padding: they come last in every epoch's order, and a batch of nothing else
changes nothing. Batches beyond a node's own rows cost time but no step, so that nodes of a group
of like sizes (see `shards`) train side by side at the price of the largest among them.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from peerwise.core import Array, Shard, Tree
from peerwise.errors import BadSetting, UnknownName
from peerwise.nets.net import Net
from peerwise.update.losses import Loss

__all__ = ["OPTIMISERS", "Trained", "Trainer", "trainer"]


def _sgd(lr: float, momentum: float) -> optax.GradientTransformation:
    return optax.sgd(lr, momentum if momentum else None)


def _adam(lr: float, momentum: float) -> optax.GradientTransformation:
    return optax.adam(lr)


# name -> (learning rate, momentum) -> what optax steps by
OPTIMISERS: dict[str, Callable[[float, float], optax.GradientTransformation]] = {
    "sgd": _sgd,
    "adam": _adam,
}


class Trained(NamedTuple):
    """What a node has after a round of training."""

    weights: Tree
    optimiser: Tree
    loss: Array  # mean over the rows of the last epoch (of all steps), before each step
    steps: Array  # how many changed anything


class Trainer(NamedTuple):
    """Local training as functions of one node."""

    begin: Callable[[Tree], Tree]  # weights -> state of the optimiser
    train: Callable[[Array, Tree, Tree, Shard], Trained]  # key, weights, optimiser, shard


@cache
def trainer(
    net: Net,
    loss: Loss,
    *,
    epochs: int = 1,
    steps: int | None = None,
    batch: int = 32,
    optimiser: str = "sgd",
    lr: float = 0.001,
    momentum: float = 0.5,
    weight_decay: float = 0.0,
) -> Trainer:
    """Training for `epochs` passes over the rows, or for `steps` batches drawn with replacement.

    The last batch of an epoch may be smaller, and counts as one. `weight_decay` is added to the
    gradient before the momentum, as in PyTorch.
    """
    if epochs < 1 or batch < 1 or (steps is not None and steps < 1):
        raise BadSetting(f"epochs, steps and batch must be 1 or more: {epochs}, {steps}, {batch}")
    if not lr > 0 or not 0 <= momentum < 1 or weight_decay < 0:
        raise BadSetting(
            f"lr must be above 0, momentum in [0, 1), weight_decay 0 or more, got {lr}, "
            f"{momentum}, {weight_decay}"
        )
    if optimiser not in OPTIMISERS:
        raise UnknownName("optimiser", optimiser, OPTIMISERS)
    parts = [optax.add_decayed_weights(weight_decay)] if weight_decay else []
    step_by = optax.chain(*parts, OPTIMISERS[optimiser](lr, momentum))

    def mean_loss(weights: Tree, x: Array, y: Array, w: Array) -> Array:
        each = loss(net.logits(weights, x), y)
        return (each * w).sum() / jnp.maximum(w.sum(), 1e-30)

    def step(carry: Any, shard: Shard, place: Array, w: Array) -> Any:
        """One batch: the rows at `place`, weighted by w; a batch of nothing changes nothing."""
        weights, state, total, rows, done = carry
        found, gradient = jax.value_and_grad(mean_loss)(
            weights, shard.x[place], shard.y[place], w.astype(shard.x.dtype)
        )
        move, new = step_by.update(gradient, state, weights)
        go = w.sum() > 0
        moved = (optax.apply_updates(weights, move), new)
        weights, state = jax.tree.map(lambda a, b: jnp.where(go, a, b), moved, (weights, state))
        total = total + jnp.where(go, found.astype(jnp.float32) * w.sum(), 0)
        return weights, state, total, rows + w.sum(), done + go

    def by_epochs(key: Array, carry: Any, shard: Shard) -> Any:
        m = shard.weight.shape[0]
        count = -(-m // batch)
        weight = shard.weight.astype(jnp.float32)

        def one_epoch(e: Any, carry: Any) -> Any:
            # Drawn in float32 whatever the precision; real rows first, in random order.
            draw = jax.random.uniform(jax.random.fold_in(key, e), (m,), jnp.float32)
            order = jnp.argsort(jnp.where(weight > 0, draw, 2.0))
            order = jnp.concatenate([order, jnp.full(count * batch - m, m, order.dtype)])

            def one_batch(b: Any, inner: Any) -> Any:
                place = jax.lax.dynamic_slice_in_dim(order, b * batch, batch)
                w = jnp.where(place < m, weight[jnp.minimum(place, m - 1)], 0)
                return step(inner, shard, jnp.minimum(place, m - 1), w)

            weights, state, _, _, done = carry
            zero = jnp.zeros((), jnp.float32)
            return jax.lax.fori_loop(0, count, one_batch, (weights, state, zero, zero, done))

        return jax.lax.fori_loop(0, epochs, one_epoch, carry)

    def by_steps(key: Array, carry: Any, shard: Shard) -> Any:
        weight = shard.weight.astype(jnp.float32)
        place_of = jnp.argsort(weight <= 0)  # real rows first
        real = (weight > 0).sum()

        def one_batch(i: Any, inner: Any) -> Any:
            draw = jax.random.uniform(jax.random.fold_in(key, i), (batch,), jnp.float32)
            place = place_of[jnp.minimum((draw * real).astype(jnp.int32), jnp.maximum(real - 1, 0))]
            return step(inner, shard, place, weight[place])

        return jax.lax.fori_loop(0, steps, one_batch, carry)

    def train(key: Array, weights: Tree, state: Tree, shard: Shard) -> Trained:
        zero = jnp.zeros((), jnp.float32)
        begin = (weights, state, zero, zero, jnp.zeros((), jnp.int32))
        run = by_epochs if steps is None else by_steps
        weights, state, total, rows, done = run(key, begin, shard)
        return Trained(weights, state, total / jnp.maximum(rows, 1e-30), done)

    return Trainer(step_by.init, train)
