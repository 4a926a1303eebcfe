"""CRC with differential privacy: every round a node releases its update, clipped and noised.

A node's update is a sum over its rows of (target - posterior) (x) phi(x). Each row's part is
clipped in the L2 norm and Gaussian noise is added to the sum, so that one row more or less moves
it by `clip` at most. What a node has sent after T rounds is the adaptive composition of T such
releases; Gaussian noise of multiplier z composes to one of z / sqrt(T).
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, Le

from peerwise.combine.weigh import Rule
from peerwise.core import Array, Message, Method, Shard, State, Tree
from peerwise.declare import declares
from peerwise.errors import BadSetting
from peerwise.methods.crc import Rate, SampleSize, crc
from peerwise.models.family import Model, log_posterior, moved
from peerwise.privacy.budget import Budget, check_delta
from peerwise.privacy.mechanism import gaussian, gaussian_sigma


def noise_multiplier(epsilon: float, delta: float, rounds: int) -> float:
    """Noise deviation over sensitivity that keeps `rounds` releases (epsilon, delta)-private."""
    if rounds < 1:
        raise BadSetting(f"rounds must be 1 or more, got {rounds}")
    check_delta(delta, "gaussian")
    if math.isinf(epsilon) and epsilon > 0:
        return 0.0
    return gaussian_sigma(1.0, epsilon, delta) * math.sqrt(rounds)


@declares("method", releases="each round")
def private_crc(
    model: Model,
    rounds: int,
    budget: Budget,
    rows: int | None = None,
    nodes: int | None = None,
    *,
    clip: Annotated[float, Ge(1e-9), Le(1e6), "how far one row may move an update"] = 5.0,
    lr: Rate = 0.05,
    m0: SampleSize = None,
    rule: Rule = "equal",
) -> Method:
    """CRC whose nodes each spend their budget on `rounds` noised updates; run it for no more.

    Adjacency is one row more or less at one node. `clip` bounds what one row can do to an update;
    statistics must be about a public center and scale. Infinity as epsilon clips without noise.
    For simulation: noise is drawn from the node's key.
    """
    if math.isinf(clip):
        raise BadSetting(f"clip must be a finite number, got {clip}")
    if note := getattr(rule.weigh, "note", None):
        raise BadSetting(
            f"the rule needs the {note} of a node's rows, which private_crc does not tell: take "
            "another rule, such as equal or metropolis"
        )
    multiplier = noise_multiplier(budget.epsilon, budget.delta, rounds)
    base = crc(model, rows, nodes, lr=lr, m0=m0, rule=rule)
    return _private(base, model, multiplier * float(clip), float(clip))


@cache
def clipped_update(model: Model, clip: float) -> Callable[[Tree, Shard], tuple[Array, Array]]:
    """value, shard -> the update without noise, and how often the model needed a guard.

    One row more or less moves the update by `clip` at most.
    """

    def update(value: Tree, shard: Shard) -> tuple[Array, Array]:
        phi = model.features(shard.x)
        prob = jnp.exp(log_posterior(model, value, shard.x))
        target = jax.nn.one_hot(shard.y, model.classes, dtype=phi.dtype)
        wrong = target - prob
        weight = shard.weight.astype(phi.dtype)
        norm = jnp.sqrt((wrong**2).sum(1) * (phi**2).sum(1)) * weight
        kept = jnp.minimum(1, clip / jnp.maximum(norm, 1e-30)) * weight
        total = jnp.matmul((wrong * kept[:, None]).T, phi, precision="highest")
        return total, model.theta(value).guards

    return update


@cache
def _private(base: Method, model: Model, std: float, clip: float) -> Method:
    update_of = clipped_update(model, clip)

    def adapt(key: Array, state: State, shard: Shard) -> State:
        update, guards = update_of(state.value, shard)
        if std:
            scale = jnp.full(update.shape, std, update.dtype)
            update = update + gaussian(key, scale, jnp.float32).astype(update.dtype)
        memory = {**state.memory, "guards": state.memory["guards"] + guards}
        return State(moved(state.value, update), memory)

    def message(key: Array, state: State) -> Message:
        return Message(state.value, {})  # the number of rows would reveal single ones

    return base._replace(adapt=adapt, message=message)
