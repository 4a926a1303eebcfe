"""Local training of a net: mini-batches of a node's own rows, epoch by epoch.

Rows of weight 0 are padding: they come last in every epoch's order, and a batch of nothing else
changes nothing. Batches beyond a node's own rows cost time but no step.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from peerwise.core import Array, Batched, Shard, Tree
from peerwise.errors import BadSetting
from peerwise.nets.net import Net
from peerwise.update.early_stopping import early_stopping
from peerwise.update.losses import Loss
from peerwise.update.objective import Objective, Penalty, at_risk, mean_loss, penalised
from peerwise.update.risk import Risk
from peerwise.update.training import Trained, Training, epochs_range

# name -> (learning rate, momentum) -> what optax steps by
OPTIMISERS: dict[str, Callable[[float, float], optax.GradientTransformation]] = {
    "sgd": lambda lr, momentum: optax.sgd(lr, momentum if momentum else None),
    "adam": lambda lr, momentum: optax.adam(lr),
}


class Trainer(NamedTuple):
    """Local training as functions of one node."""

    optimiser: Callable[[Tree], Tree]  # weights -> state of the optimiser
    epochs: Callable[[Array], Array]  # key -> how many epochs a node does a round
    train: Batched  # key, weights, optimiser, epochs, kept, shard -> `Trained`


@cache
def trainer(
    net: Net,
    loss: Loss,
    training: Training,
    *,
    risk: Risk | None = None,
    lr_t: float | None = None,
    penalty: Penalty | None = None,
    anchored: bool = False,
) -> Trainer:
    """Local training of a net by a loss. The same arguments give the same object.

    With a `risk` (see `update.risk`), what is trained is {"net": weights, "t": threshold}, and the
    threshold has a learning rate of its own (`lr_t`, by default the same).

    A `penalty` of the weights, such as the divergence of a posterior from its prior, counts once
    for all rows of the node. `anchored`: it is measured from the weights with which a round's
    training begins, those that were combined.
    """
    low, high = epochs_range(training)
    if risk is not None and penalty is not None:
        raise BadSetting("a risk and a penalty do not go together")
    decay = [optax.add_decayed_weights(training.weight_decay)] if training.weight_decay else []
    descent = OPTIMISERS[training.optimiser](training.lr, training.momentum)
    optimiser: Any = optax.chain(*decay, descent)
    objective = Objective(mean_loss(net, loss))
    if risk is not None:
        objective = at_risk(objective.loss, risk)
        threshold = optax.sgd(training.lr if lr_t is None else lr_t)
        optimiser = optax.partition({"net": optimiser, "t": threshold}, {"net": "net", "t": "t"})
    elif penalty is not None:
        objective = penalised(objective.loss, penalty, anchored)
    batch, steps = training.batch, training.steps
    train = Batched(
        begin=partial(_begin, objective),
        draw=partial(_by_epochs, batch) if steps is None else partial(_by_steps, batch, steps),
        step=partial(_step, net, objective, optimiser),
        end=lambda now: now,
        batches=lambda m: -(-m // batch) if steps is None else steps,
        batch=batch,
        passes=high,
    )
    if training.validation:
        given = training.validation, training.patience, training.keep
        train = early_stopping(train, objective.loss, *given)

    def own_epochs(key: Array) -> Array:
        return jax.random.randint(key, (), low, high + 1, jnp.int32)

    return Trainer(optimiser.init, own_epochs, train)


def _begin(
    objective: Objective,
    key: Array,
    weights: Tree,
    optimiser: Tree,
    epochs: Array,
    kept: Tree,
    shard: Shard,
) -> Trained:
    zero, none = jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32)
    raw = jax.random.key_data(key)
    prior = objective.prior(weights, shard)
    return Trained(weights, optimiser, raw, zero, zero, none, epochs, None, prior, kept)


def _varied(net: Net, now: Trained, rows: Shard) -> tuple[Shard, Array | None]:
    """The rows as the net is to see them in this step, and its key for dropout."""
    if not net.noisy and net.vary is None:
        return rows, None
    key = jax.random.fold_in(jax.random.wrap_key_data(now.key), -1 - now.steps)
    if net.vary is not None:
        key, changes = jax.random.split(key)
        rows = rows._replace(x=net.vary(changes, rows.x))
    return rows, key


def _step(net: Net, objective: Objective, optimiser: Any, now: Trained, rows: Shard) -> Trained:
    """The training after one batch; a batch of nothing changes nothing."""
    rows, key = _varied(net, now, rows)

    def goal(weights: Tree) -> tuple[Array, Array]:
        loss = objective.loss(weights, rows, key)
        return objective.total(loss, weights, now.prior), loss

    (_, loss), slope = jax.value_and_grad(goal, has_aux=True)(now.weights)
    move, state = optimiser.update(slope, now.optimiser, now.weights)
    count = rows.weight.astype(jnp.float32).sum()
    go = count > 0
    weights, state = jax.tree.map(
        lambda new, old: jnp.where(go, new, old),
        (optax.apply_updates(now.weights, move), state),
        (now.weights, now.optimiser),
    )
    return now._replace(
        weights=weights,
        optimiser=state,
        total=now.total + jnp.where(go, loss.astype(jnp.float32) * count, 0),
        rows=now.rows + count,
        steps=now.steps + go,
    )


def _by_epochs(batch: int, now: Trained, e: Array, shard: Shard) -> Array:
    """The rows of epoch e: real ones first, in random order; none if the node has done its epochs.

    The place past the last row means no row and fills up a whole number of batches.
    """
    m = shard.weight.shape[0]
    # Drawn in float32 whatever the precision, so that it does not change the order.
    key = jax.random.fold_in(jax.random.wrap_key_data(now.key), e)
    draw = jax.random.uniform(key, (m,), jnp.float32)
    used = shard.weight.astype(jnp.float32) > 0
    order = jnp.argsort(jnp.where(used, draw, 2.0)).astype(jnp.int32)
    order = jnp.where((e < now.epochs) & (jnp.arange(m) < used.sum()), order, m)
    return jnp.pad(order, (0, -m % batch), constant_values=m)


def _by_steps(batch: int, steps: int, now: Trained, e: Array, shard: Shard) -> Array:
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
