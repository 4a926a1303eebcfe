"""Local training of a net: mini-batches of a node's own rows, epoch by epoch.

Rows of weight 0 are padding: they come last in every epoch's order, and a batch of nothing else
changes nothing. Batches beyond a node's own rows cost time but no step.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax

from peerwise.core import Array, Batched, Shard, Tree
from peerwise.errors import BadSetting, UnknownName
from peerwise.nets.net import Net
from peerwise.update.losses import Loss
from peerwise.update.risk import Risk

__all__ = ["OPTIMISERS", "Penalty", "Trained", "Trainer", "gradient", "trainer"]

Penalty: TypeAlias = Callable[[Tree, Tree | None], Array]  # weights, anchor -> what is added

ROWS, MOST = 64, 256  # at a time, where a gradient over all rows, or over so many, is needed


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
    """Where a node's training is, and what it has in the end."""

    weights: Tree
    optimiser: Tree
    key: Array  # raw data of the key
    total: Array  # loss of the rows trained on so far, before each step
    rows: Array  # how many
    steps: Array  # how many changed anything
    epochs: Array  # how many this node does
    stopping: Tree  # None, or the best weights, their loss, and epochs since
    prior: Tree  # None, or rows of the node, and the weights from which a penalty is measured
    kept: Tree  # whatever the caller wants to find again

    @property
    def loss(self) -> Array:
        """The mean over the rows trained on, before each step."""
        return self.total / jnp.maximum(self.rows, 1e-30)


class Trainer(NamedTuple):
    """Local training as functions of one node."""

    optimiser: Callable[[Tree], Tree]  # weights -> state of the optimiser
    epochs: Callable[[Array], Array]  # key -> how many epochs a node does a round
    train: Batched  # key, weights, optimiser, epochs, kept, shard -> `Trained`


def _checked(
    epochs: int | tuple[int, int], steps: int | None, batch: int, lr: float, momentum: float,
    weight_decay: float, optimiser: str, validation: float, patience: int,
) -> tuple[int, int]:  # fmt: skip
    """The least and most epochs, if everything makes sense."""
    low, high = (epochs, epochs) if isinstance(epochs, int) else tuple(epochs)
    if not 1 <= low <= high or batch < 1 or (steps is not None and steps < 1):
        raise BadSetting(f"epochs, steps and batch must be 1 or more: {epochs}, {steps}, {batch}")
    if not lr > 0 or not 0 <= momentum < 1 or weight_decay < 0:
        raise BadSetting(
            f"lr must be above 0, momentum in [0, 1), weight_decay 0 or more, got {lr}, "
            f"{momentum}, {weight_decay}"
        )
    if not 0 <= validation < 1 or patience < 1:
        raise BadSetting(
            f"validation must be in [0, 1) and patience 1 or more, got {validation}, {patience}"
        )
    if steps is not None and (validation or epochs != 1):
        raise BadSetting("give steps, or epochs (and early stopping after each), not both")
    if optimiser not in OPTIMISERS:
        raise UnknownName("optimiser", optimiser, OPTIMISERS)
    return low, high


def _mean_loss(net: Net, loss: Loss) -> Callable[[Tree, Shard, Array | None], Array]:
    def mean(weights: Tree, rows: Shard, key: Array | None) -> Array:
        w = rows.weight.astype(rows.x.dtype)
        logits = net.logits(weights, rows.x, key) if net.noisy else net.logits(weights, rows.x)
        return (loss(logits, rows.y) * w).sum() / jnp.maximum(w.sum(), 1e-30)

    return mean


def gradient(net: Net, loss: Loss, rows: int | None = None) -> Batched:
    """weights, turn, whether, shard -> the gradient of the mean loss over its rows, dropout off.

    `rows`: of at most so many rows, evenly spaced, others in every turn. Not `whether`: zeros.
    """
    mean = _mean_loss(net, loss)
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
        found = jax.grad(mean)(weights, batch, None)
        here = batch.weight.sum()
        total = jax.tree.map(lambda s, g: s + here.astype(g.dtype) * g, total, found)
        return weights, turn, whether, total, count + here

    def end(now: Any) -> Tree:
        _, _, whether, total, count = now
        share = jnp.where(whether & (count > 0), 1 / jnp.maximum(count, 1e-30), 0)
        return jax.tree.map(lambda s: jnp.where(whether, s * share.astype(s.dtype), 0), total)

    return Batched(begin, draw, step, end, lambda m: -(-taken(m) // size), size)


def _with_threshold(step_by: Any, lr_t: float) -> Any:
    """Weights by the optimiser, the threshold by plain descent."""
    named = {"net": "net", "t": "t"}
    return optax.partition({"net": step_by, "t": optax.sgd(lr_t)}, named)


@cache
def trainer(
    net: Net,
    loss: Loss,
    *,
    epochs: int | tuple[int, int] = 1,
    steps: int | None = None,
    batch: int = 32,
    optimiser: str = "sgd",
    lr: float = 0.001,
    momentum: float = 0.5,
    weight_decay: float = 0.0,
    validation: float = 0.0,
    patience: int = 1,
    risk: Risk | None = None,
    lr_t: float | None = None,
    penalty: Penalty | None = None,
    anchored: bool = False,
) -> Trainer:
    """Training for `epochs` passes over the rows, or for `steps` batches drawn with replacement.

    A range of epochs (low, high) lets every node draw its own number once and for all. The last
    batch of an epoch may be smaller, and counts as one; so does a shard smaller than a batch.
    `weight_decay` is added to the gradient before the momentum, as in PyTorch. With a share of rows
    for `validation` (evenly spaced ones, never trained on), a node stops after `patience` epochs
    without a lower loss on them and keeps the best weights of the round.

    With a `risk` (see `update.risk`), what is trained is {"net": weights, "t": threshold}, and the
    threshold has a learning rate of its own (`lr_t`, by default the same).

    A `penalty` of the weights, such as the divergence of a posterior from its prior, counts once
    for all rows of the node. `anchored`: it is measured from the weights with which a round's
    training begins, what was combined, and not from nowhere.
    """
    low, high = _checked(
        epochs, steps, batch, lr, momentum, weight_decay, optimiser, validation, patience
    )
    parts = [optax.add_decayed_weights(weight_decay)] if weight_decay else []
    step_by = optax.chain(*parts, OPTIMISERS[optimiser](lr, momentum))
    mean_loss = _mean_loss(net, loss)
    if risk is not None and penalty is not None:
        raise BadSetting("a risk and a penalty do not go together")
    if risk is not None:
        step_by = _with_threshold(step_by, lr if lr_t is None else lr_t)

    def goal(
        weights: Tree, rows: Shard, key: Array | None, prior: Tree = None
    ) -> tuple[Array, Array]:
        """What is made small, and the mean loss."""
        if risk is None:
            seen = mean_loss(weights, rows, key)
            if penalty is None or prior is None:
                return seen, seen
            many, anchor = prior
            return seen + penalty(weights, anchor) / many.astype(seen.dtype), seen
        seen = mean_loss(weights["net"], rows, key)
        return risk(weights["t"], seen), seen

    def held_out(shard: Shard) -> Array:
        """Which rows are for validation: spread evenly over the shard."""
        i = jnp.arange(shard.weight.shape[0], dtype=jnp.float32)
        return jnp.floor((i + 1) * validation) > jnp.floor(i * validation)

    def trained_on(shard: Shard) -> Array:
        kept = shard.weight.astype(jnp.float32)
        return jnp.where(held_out(shard), 0, kept) if validation else kept

    def own_epochs(key: Array) -> Array:
        return jax.random.randint(key, (), low, high + 1, jnp.int32)

    def begin(
        key: Array, weights: Tree, state: Tree, own: Array, kept: Tree, shard: Shard
    ) -> Trained:
        zero = jnp.zeros((), jnp.float32)
        none = (weights, jnp.full((), jnp.inf, jnp.float32), jnp.zeros((), jnp.int32))
        begun = jnp.zeros((), jnp.int32)
        raw = jax.random.key_data(key)
        stopping = none if validation else None
        prior = None
        if penalty is not None:
            rows = jnp.maximum(trained_on(shard).sum(), 1)
            prior = rows, weights if anchored else None
        return Trained(weights, state, raw, zero, zero, begun, own, stopping, prior, kept)

    def step(now: Trained, rows: Shard) -> Trained:
        """One batch; a batch of nothing changes nothing."""
        key = None
        if net.noisy or net.vary is not None:
            key = jax.random.fold_in(jax.random.wrap_key_data(now.key), -1 - now.steps)
        if net.vary is not None and key is not None:
            key, changes = jax.random.split(key)
            rows = rows._replace(x=net.vary(changes, rows.x))
        slope_of = jax.value_and_grad(goal, has_aux=True)
        (_, found), slope = slope_of(now.weights, rows, key, now.prior)
        move, new = step_by.update(slope, now.optimiser, now.weights)
        count = rows.weight.astype(jnp.float32).sum()
        go = count > 0
        weights, state = jax.tree.map(
            lambda a, b: jnp.where(go, a, b),
            (optax.apply_updates(now.weights, move), new),
            (now.weights, now.optimiser),
        )
        return now._replace(
            weights=weights,
            optimiser=state,
            total=now.total + jnp.where(go, found.astype(jnp.float32) * count, 0),
            rows=now.rows + count,
            steps=now.steps + go,
        )

    def by_epochs(now: Trained, e: Array, shard: Shard) -> Array:
        """The rows of an epoch: real ones first in random order, none if the node is done."""
        m = shard.weight.shape[0]
        # Drawn in float32 whatever the precision, so that it does not change the order.
        key = jax.random.fold_in(jax.random.wrap_key_data(now.key), e)
        draw = jax.random.uniform(key, (m,), jnp.float32)
        used = trained_on(shard) > 0
        order = jnp.argsort(jnp.where(used, draw, 2.0)).astype(jnp.int32)
        goes = e < now.epochs
        if now.stopping is not None:
            goes &= now.stopping[2] < patience
        order = jnp.where(goes & (jnp.arange(m) < used.sum()), order, m)
        return jnp.pad(order, (0, -m % batch), constant_values=m)

    def by_steps(now: Trained, e: Array, shard: Shard) -> Array:
        m = shard.weight.shape[0]
        place_of = jnp.argsort(shard.weight <= 0).astype(jnp.int32)  # real rows first
        real = (shard.weight > 0).sum()

        def one(i: Array) -> Array:
            key = jax.random.fold_in(jax.random.wrap_key_data(now.key), i)
            draw = jax.random.uniform(key, (batch,), jnp.float32)
            place = place_of[jnp.minimum((draw * real).astype(jnp.int32), jnp.maximum(real - 1, 0))]
            return jnp.where(real > 0, place, m)

        return jax.vmap(one)(jnp.arange(steps or 0)).reshape(-1)

    def after(now: Trained, shard: Shard) -> Trained:
        best, least, waited = now.stopping
        apart = shard._replace(weight=jnp.where(held_out(shard), shard.weight, 0))
        seen = goal(now.weights, apart, None)[1].astype(jnp.float32)
        # without rows to validate on, the newest weights are the best
        none = ~(apart.weight.sum() > 0)
        better = (seen < least) | none
        total = now.total + jnp.where(none | jnp.isfinite(seen), 0, jnp.nan)  # a loss like others
        best = jax.tree.map(lambda a, b: jnp.where(better, a, b), now.weights, best)
        waited = jnp.where(better, 0, waited + 1)
        kept = (best, jnp.where(better, seen, least), waited)
        return now._replace(stopping=kept, total=total)

    def end(now: Trained) -> Trained:
        return now if now.stopping is None else now._replace(weights=now.stopping[0])

    def batches(m: int) -> int:
        return -(-m // batch) if steps is None else steps

    passes = high if steps is None else 1
    draw = by_epochs if steps is None else by_steps
    train = Batched(begin, draw, step, end, batches, batch, passes, after if validation else None)
    return Trainer(step_by.init, own_epochs, train)
