"""Relay: calibration by the sums of all nodes' steps, which follows the pooled one with a delay.

CRC averages statistics with neighbours, and on sparse graphs it stops short of RC, the calibration
of all rows at one place. Here every node adds up its own calibration steps, and the sums of all
nodes reach all nodes exactly (`relaying`), each late by its distance. So every node follows RC with
some delay. This method is the project's own and in no paper.
"""

import math
from functools import cache
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from annotated_types import Ge, Gt, Le, Lt

from peerwise.core import Array, Inbox, Method, Range, Shard, Slots, State, Tree
from peerwise.declare import declares
from peerwise.errors import BadSetting
from peerwise.methods import relaying
from peerwise.models.family import Model, log_posterior, moved, statistics
from peerwise.update.calibrate import correction

# One setting for all data; docs/relay.md says how it was chosen and what it gives.
RISE = 0.01  # relative rise of the loss above its moving average that counts as rising
BRAKE = 0.5  # log of the factor by which steps shrink per mean delay while the loss rises
RELEASE = 0.5  # how fast they recover while it falls, as a share of that
LONG = 10.0  # rounds of mean delay above which steps are divided by (delay / LONG)^2
FADE = 0.003  # how steps shrink: in round t they are divided by 1 + FADE t
# sums of what no node has less of than 0, with room for rounding
SUMS = tuple(Range(f"part.sum.{name}", -1e-3) for name in ("rows", "loss", "age", "brake"))


@declares("method", needs=("replies",))
@cache
def relay(
    model: Model,
    *,
    lr: Annotated[float, Ge(1e-9), Le(1000), "learning rate"] = 0.05,
    warm: Annotated[float | None, Ge(0), Lt(1), "share of maximum likelihood in the start"] = None,
    brake: Annotated[float, Ge(0), "how much smaller steps become while the loss rises"] = BRAKE,
    fade: Annotated[float, Ge(0), "steps of round t are divided by 1 + fade t"] = FADE,
    clip: Annotated[
        float | None, Gt(0), "how far a round may move a neighbour's sum, against liars"
    ] = None,
) -> Method:
    """Relay: s = s0 + (sum over all nodes of their calibration steps) / n, as far as it is known.

    s0 is worth m / lr rows, m the mean rows a node; m and n are relayed with the steps and need not
    be known. The share `warm` of it is the maximum likelihood of all rows, relayed too, and the
    rest uniform. By default it is 1 / sqrt(features), at most 1/2: naive Bayes counts features
    as if they were independent, and grows overconfident as features are added.
    Feedback that is d rounds late oscillates when steps are large: steps shrink while the mean log
    loss of all nodes rises (`brake`; 0: never), and are divided by (d / 10)^2 where the mean d is
    above 10. Both are means over all nodes, relayed as well: all nodes must scale their steps
    alike, or they would not balance at RC's solution.
    Nodes with different rows take steps for ever, which cancel in the sum but not during the delay:
    models would stay about lr x delay x the difference of steps away from RC's solution. `fade`
    divides the steps of round t by 1 + fade t, and that distance with them.
    `clip` bounds what a liar can do: a round moves no number of a neighbour's sum by more. The
    maximum likelihood would take long to pass such a bound, so that `warm` then defaults to 0.
    """
    for name, given in (("brake", brake), ("fade", fade)):
        if math.isinf(given):
            raise BadSetting(f"{name} must be 0 or more, and finite, got {given}")
    step = correction(model)
    share = warmth(model, clip) if warm is None else warm

    def learnt(relayed: Tree) -> Tree:
        """The statistics that follow from what is known of all nodes' steps."""
        known, nodes = relaying.total(relayed), relayed["nodes"]
        rows = known["rows"] / nodes
        # a network without rows needs a start too
        start = model.uniform(jnp.where(rows > 0, rows, 1) / lr, rows.dtype)
        return jax.tree.map(
            lambda s0, sums: relaying.rounded((1 - share) * s0) + relaying.rounded(sums / nodes),
            start,
            known["steps"],
        )

    def init(key: Array, shard: Shard) -> State:
        zero = jnp.zeros((), shard.x.dtype)
        rows = shard.weight.sum().astype(shard.x.dtype)
        own = {
            "steps": jax.tree.map(lambda a: a * (share / lr), statistics(model, *shard)),
            "rows": rows,
            "loss": rows * math.log(model.classes),  # all classes are equally likely at first
            "age": zero,
            "brake": zero,
        }
        relayed = relaying.begin(key, own)
        value = {"statistics": learnt(relayed), "relay": relayed}
        memory = {"usual": zero, "nodes": zero, "guards": jnp.zeros((), jnp.int32)}
        return State(value, memory)

    def rule(value: Tree, inbox: Inbox) -> Tree:
        relayed = relaying.listened(value["relay"], inbox)
        return {"statistics": learnt(relayed), "relay": relayed}

    def adapt(key: Array, state: State, shard: Shard) -> State:
        relayed, memory = state.value["relay"], state.memory
        own, known, nodes = relayed["own"], relaying.total(relayed), relayed["nodes"]
        age = known["age"] / nodes
        pushed, usual = _pushed(known, age, nodes, memory)
        change, loss, guards = step(state.value["statistics"], shard)
        slower = jnp.exp(known["brake"] / nodes) * jnp.maximum(1, age / LONG) ** 2
        slower = slower * (1 + fade * (relayed["clock"] - 2).astype(age.dtype))
        own = {
            "steps": moved(own["steps"], relaying.rounded(change / slower)),
            "rows": own["rows"],
            "loss": loss,
            "age": relaying.delay(relayed),
            "brake": jnp.maximum(own["brake"] + brake * pushed / (1 + age), 0),
        }
        relayed = relaying.renewed(relayed, own)
        value = {"statistics": learnt(relayed), "relay": relayed}
        seen = {"usual": usual, "nodes": nodes, "guards": memory["guards"] + guards}
        return State(value, seen)

    def predict(key: Array, value: Tree, x: Array) -> Array:
        return log_posterior(model, value["statistics"], x)

    believe = None if clip is None else relaying.believing("steps", clip)
    return Method(
        init, relaying.silent, Slots(rule), adapt, predict, relaying.reply, believe=believe,
        ranges=(*relaying.RANGES, *SUMS),
    )  # fmt: skip


def warmth(model: Model, clip: float | None = None) -> float:
    """The default share of maximum likelihood in the start: 1 / sqrt(features), at most 1/2."""
    return 0.0 if clip is not None else 1 / math.sqrt(max(len(model.cardinalities), 4))


def _pushed(known: Tree, age: Array, nodes: Array, memory: Any) -> tuple[Array, Array]:
    """1 if the mean log loss of all rows rises, below 0 if it falls, or 0; and its moving average.

    The average spans about the delay and starts anew when nodes come or go, since losses on other
    rows cannot be compared.
    """
    loss = known["loss"] / jnp.maximum(known["rows"], 1)
    usual = jnp.where(nodes == memory["nodes"], memory["usual"], loss)
    rises, falls = loss > (1 + RISE) * usual, loss < (1 - RISE) * usual
    pushed = jnp.where(rises, 1.0, jnp.where(falls, -RELEASE, 0.0)).astype(loss.dtype)
    return pushed, usual + (loss - usual) / (1 + age)
