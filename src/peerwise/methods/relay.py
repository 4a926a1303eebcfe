"""Relay: calibration by the sums of all nodes' steps, which follows the pooled one with a delay.

CRC averages statistics with neighbours, and on sparse graphs it stops short of RC, the calibration
of all rows at one place. Here every node adds up its own calibration steps, and the sums of all
nodes reach all nodes exactly (`relaying`), each late by its distance and carried forward by that
delay (`leading`). So every node follows RC. This method is the project's own and in no paper.
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
from peerwise.methods import leading, relaying
from peerwise.models.family import Model, by_class, log_posterior, moved, statistics
from peerwise.update.calibrate import correction

# One setting for all data; docs/relay.md says how it was chosen and what it gives.
RISE = 0.01  # relative rise of the loss above its moving average that counts as rising
RELEASE = 0.5  # how fast steps recover while it falls, as a share of how fast they shrink
BEND = 0.5  # steps are divided by BEND x delay x curvature where that is above 1,
WIDE = 0.02  # and by WIDE x delay x lr x features, before a curvature has shown
LONG = 8.0  # rounds of delay that most nodes share above which they are divided by their square
STEEP = 1e9  # the most that a curvature counts, where a way is next to nothing or a liar's
# sums of what no node has less of than 0, with room for rounding
SUMS = tuple(Range(f"part.sum.{name}", -1e-3) for name in ("rows", "loss", "age", "brake", "way"))


@declares("method", needs=("replies",))
@cache
def relay(
    model: Model,
    *,
    lr: Annotated[float, Ge(1e-9), Le(1000), "learning rate"] = 0.05,
    warm: Annotated[float | None, Ge(0), Lt(1), "share of maximum likelihood in the start"] = None,
    lead: Annotated[
        float | None, Ge(0), Le(1), "share of its delay by which a sum is carried forward"
    ] = None,
    brake: Annotated[float, Ge(0), "how much smaller steps become while the loss rises"] = 0.0,
    fade: Annotated[float, Ge(0), "steps of round t are divided by 1 + fade t"] = 0.0,
    clip: Annotated[
        float | None, Gt(0), "how far a round may move a neighbour's sum, against liars"
    ] = None,
) -> Method:
    """Relay: s = s0 + (sum over all nodes of their calibration steps) / n, as far as it is known.

    s0 is worth m / lr rows, m the mean rows a node; m and n are relayed with the steps and need not
    be known. The share `warm` of it is the maximum likelihood of all rows, relayed too, and the
    rest uniform. By default it is 1 / sqrt(features), at most 1/2: naive Bayes counts features
    as if they were independent, and grows overconfident as features are added.
    Nodes with different rows take steps for ever, which cancel in the sum but not while some are
    late. So every node relays the average rate of its steps, too, and sums are carried forward by
    it (`lead`; 0: not, and messages are half as long).
    Feedback that is d rounds late oscillates when steps are large: they are divided by half of d
    times the curvature along the way that models go, where that is above 1. Curvature is measured
    at every node by how much its step turns from round to round, and summed over all of them. Until
    it shows, lr x features stand for it. Nodes scale their steps alike, by what is relayed, or they
    would not balance at RC's solution. Steps can also shrink while the mean log loss of all nodes
    rises (`brake`), and with time (`fade`).
    `clip` bounds what a liar can do: a round moves no number of a neighbour's sum by more. The
    maximum likelihood would take long to pass such a bound, so that `warm` then defaults to 0; it
    bounds no rates, so that `lead` must be 0 and is.
    """
    for name, given in (("brake", brake), ("fade", fade)):
        if math.isinf(given):
            raise BadSetting(f"{name} must be 0 or more, and finite, got {given}")
    if clip is not None and lead:
        raise BadSetting(
            f"clip bounds sums and not their rates: lead must be 0 with it, got {lead}"
        )
    step = correction(model)
    share = warmth(model, clip) if warm is None else warm
    ahead = (1.0 if clip is None else 0.0) if lead is None else float(lead)
    wide = WIDE * lr * len(model.cardinalities)

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
        first = jax.tree.map(lambda a: a * (share / lr), statistics(model, *shard))
        own = {
            "steps": first,
            "rows": rows,
            "loss": rows * math.log(model.classes),  # all classes are equally likely at first
            "age": zero,
            "brake": zero,
            "turn": zero,
            "way": zero,
            **({leading.RATE: leading.still(first)} if ahead else {}),
        }
        relayed = relaying.begin(key, own)
        value = {"statistics": learnt(relayed), "relay": relayed}
        nothing = jnp.zeros_like(by_class(first))
        memory = {"usual": zero, "nodes": zero, "guards": jnp.zeros((), jnp.int32)}
        memory |= {"at": nothing, "change": nothing}
        return State(value, memory)

    def rule(value: Tree, inbox: Inbox) -> Tree:
        relayed = leading.listened(value["relay"], inbox, "steps", ahead)
        return {"statistics": learnt(relayed), "relay": relayed}

    def adapt(key: Array, state: State, shard: Shard) -> State:
        relayed, memory = state.value["relay"], state.memory
        own, known, nodes = relayed["own"], relaying.total(relayed), relayed["nodes"]
        age = known["age"] / nodes
        pushed, usual = _pushed(known, age, nodes, memory)
        change, loss, guards = step(state.value["statistics"], shard)
        slower = jnp.maximum(1, age * jnp.maximum(BEND * _curvature(known), wide))
        slower = slower * jnp.maximum(1, _alike(age, nodes) / LONG) ** 2
        slower = slower * jnp.exp(known["brake"] / nodes)
        slower = slower * (1 + fade * (relayed["clock"] - 2).astype(age.dtype))
        steps = moved(own["steps"], relaying.rounded(change / slower))
        turn, way = _turned(own, by_class(state.value["statistics"]), change, memory, age)
        rate = (
            {leading.RATE: leading.growing(own[leading.RATE], own["steps"], steps)} if ahead else {}
        )
        own = {
            "steps": steps,
            "rows": own["rows"],
            "loss": loss,
            "age": relaying.delay(relayed),
            "brake": jnp.maximum(own["brake"] + brake * pushed / (1 + age), 0),
            "turn": turn,
            "way": way,
            **rate,
        }
        relayed = relaying.renewed(relayed, own)
        value = {"statistics": learnt(relayed), "relay": relayed}
        seen = {"usual": usual, "nodes": nodes, "guards": memory["guards"] + guards}
        return State(value, {**seen, "at": by_class(state.value["statistics"]), "change": change})

    def predict(key: Array, value: Tree, x: Array) -> Array:
        return log_posterior(model, value["statistics"], x)

    believe = None if clip is None else relaying.believing("steps", clip)
    reply = leading.reply("steps", ahead)
    return Method(
        init, relaying.silent, Slots(rule), adapt, predict, reply, believe=believe,
        ranges=(*relaying.RANGES, *SUMS),
    )  # fmt: skip


def warmth(model: Model, clip: float | None = None) -> float:
    """The default share of maximum likelihood in the start: 1 / sqrt(features), at most 1/2."""
    return 0.0 if clip is not None else 1 / math.sqrt(max(len(model.cardinalities), 4))


def _alike(age: Array, nodes: Array) -> Array:
    """The part of the mean delay that makes feedback swing: what most nodes wait alike.

    None of it on a chain, where the mean is n / 3 and waves leave at the ends; about all of it on a
    tree of many nodes.
    """
    return age * jnp.maximum(0, 1 - 3 * age / nodes)


def _turned(own: Tree, at: Array, change: Array, memory: Any, age: Array) -> tuple[Array, Array]:
    """How far a node's step turned against the way its model went, and that way, squared.

    Averages over about the delay; their ratio is the curvature along the way. A first round has
    nothing to compare with.
    """
    way, turn = at - memory["at"], memory["change"] - change
    begun = jnp.where(memory["nodes"] > 0, 1 / (1 + age), 0)
    return (
        own["turn"] + relaying.rounded(begun * ((turn * way).sum() - own["turn"])),
        own["way"] + relaying.rounded(begun * ((way * way).sum() - own["way"])),
    )


def _curvature(known: Tree) -> Array:
    """By how much steps turn back for each step that models go, over all nodes; finite."""
    there = known["way"] > 0
    bent = jnp.maximum(known["turn"], 0) / jnp.where(there, known["way"], 1)
    return jnp.where(there, jnp.minimum(bent, STEEP), 0)


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
