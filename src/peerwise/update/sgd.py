"""Local training of a net: mini-batches of a node's own rows, epoch by epoch.

Rows of weight 0 are padding: they come last in every epoch's order, and a batch of nothing else
changes nothing. Batches beyond a node's own rows cost time but no step.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from peerwise.core import Array, Batched, Shard, Tree
from peerwise.errors import BadSetting, UnknownName
from peerwise.nets.net import Net
from peerwise.update.batches import by_epochs, by_steps
from peerwise.update.early_stopping import early_stopping
from peerwise.update.losses import Loss
from peerwise.update.objective import Objective, Penalty, at_risk, mean_loss, penalised
from peerwise.update.risk import Risk
from peerwise.update.training import Trained, Training, check_training, epochs_range

__all__ = ["OPTIMISERS", "Trainer", "trainer"]

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
    training begins, what was combined, and not from nowhere.
    """
    check_training(training)
    if risk is not None and penalty is not None:
        raise BadSetting("a risk and a penalty do not go together")
    optimiser = _optimiser(training)
    objective = Objective(mean_loss(net, loss))
    if risk is not None:
        objective = at_risk(objective.loss, risk)
        optimiser = _with_threshold(optimiser, training.lr if lr_t is None else lr_t)
    elif penalty is not None:
        objective = penalised(objective.loss, penalty, anchored)
    train = _batched(
        training, partial(_begin, objective), partial(_step, net, objective, optimiser)
    )
    if training.validation:
        train = early_stopping(train, objective.loss, training.validation, training.patience)
    return Trainer(optimiser.init, partial(_own_epochs, *epochs_range(training)), train)


def _optimiser(training: Training) -> optax.GradientTransformation:
    if training.optimiser not in OPTIMISERS:
        raise UnknownName("optimiser", training.optimiser, OPTIMISERS)
    decay = training.weight_decay
    parts = [optax.add_decayed_weights(decay)] if decay else []
    return optax.chain(*parts, OPTIMISERS[training.optimiser](training.lr, training.momentum))


def _with_threshold(
    optimiser: optax.GradientTransformation, lr_t: float
) -> optax.GradientTransformation:
    """Weights by the optimiser, the threshold by plain descent."""
    return optax.partition({"net": optimiser, "t": optax.sgd(lr_t)}, {"net": "net", "t": "t"})


def _batched(
    training: Training, begin: Callable[..., Trained], step: Callable[[Trained, Shard], Trained]
) -> Batched:
    batch, steps = training.batch, training.steps
    if steps is None:
        _, most = epochs_range(training)
        draw = partial(by_epochs, batch)
        return Batched(begin, draw, step, _end, lambda m: -(-m // batch), batch, most)
    return Batched(begin, partial(by_steps, batch, steps), step, _end, lambda m: steps, batch)


def _own_epochs(low: int, high: int, key: Array) -> Array:
    return jax.random.randint(key, (), low, high + 1, jnp.int32)


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


def _step(
    net: Net,
    objective: Objective,
    optimiser: optax.GradientTransformation,
    now: Trained,
    rows: Shard,
) -> Trained:
    """One batch; a batch of nothing changes nothing."""
    rows, key = _varied(net, now, rows)
    slope_of = jax.value_and_grad(objective.value, has_aux=True)
    (_, loss), slope = slope_of(now.weights, rows, key, now.prior)
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


def _end(now: Trained) -> Trained:
    return now
