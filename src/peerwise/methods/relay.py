"""Relay: calibration that converges to the pooled model, however the rows are dealt.

CRC averages statistics with neighbours, and on sparse graphs it stops short of RC, the calibration
of all rows at one place. Here every node adds up its own calibration steps, and the sums of all
nodes reach all nodes exactly (`relaying`), each late by its distance. So every node follows RC with
some delay. This method is the project's own and in no paper.
"""

from functools import cache

import jax.numpy as jnp

from peerwise.core import Array, Inbox, Message, Method, Shard, Slots, State, Tree
from peerwise.errors import BadSetting
from peerwise.methods import relaying
from peerwise.models.family import Model, log_posterior, moved
from peerwise.update.calibrate import correction

__all__ = ["relay"]


@cache
def relay(model: Model, *, lr: float = 0.05, damping: float = 0.375) -> Method:
    """Relay: s = s0 + (sum over all nodes of their calibration steps) / n, as far as heard of.

    s0 is uniform and worth m / lr rows, m the mean rows a node; m and n are relayed with the steps
    and need not be known. A step that others answer only d rounds later must be smaller to be
    stable: steps count 1 / (1 + damping d), d being the mean age of what the node has heard.
    """
    if not lr > 0:
        raise BadSetting(f"lr must be greater than 0, got {lr}")
    if not damping >= 0:
        raise BadSetting(f"damping must be 0 or more, got {damping}")
    step = correction(model)

    def learnt(relayed: Tree) -> Tree:
        """The statistics that follow from what is known of all nodes' steps."""
        known, nodes = relaying.total(relayed), relayed["nodes"]
        rows = known["rows"] / nodes
        # a network without rows starts somewhere too
        start = model.uniform(jnp.where(rows > 0, rows, 1) / lr, known["steps"].dtype)
        return moved(start, known["steps"] / nodes)

    def init(key: Array, shard: Shard) -> State:
        rows = shard.weight.sum().astype(shard.x.dtype)
        nothing = jnp.zeros((model.classes, model.size), shard.x.dtype)
        relayed = relaying.begin(key, {"steps": nothing, "rows": rows})
        value = {"statistics": learnt(relayed), "relay": relayed}
        return State(value, {"guards": jnp.zeros((), jnp.int32)})

    def message(key: Array, state: State) -> Message:
        """Nothing for all: what a node says differs by neighbour."""
        return Message(jnp.zeros_like(state.value["relay"]["nodes"]), {})

    def reply(state: State, shard: Shard, heard: Inbox) -> Tree:
        return relaying.said(state.value["relay"], heard.part)

    def rule(value: Tree, inbox: Inbox) -> Tree:
        relayed = relaying.listened(value["relay"], inbox)
        return {"statistics": learnt(relayed), "relay": relayed}

    def adapt(key: Array, state: State, shard: Shard) -> State:
        relayed = state.value["relay"]
        change, guards = step(state.value["statistics"], shard)
        change = change / (1 + damping * relaying.delay(relayed))
        relayed = relaying.added(
            relayed, {"steps": change, "rows": jnp.zeros_like(relayed["nodes"])}
        )
        value = {"statistics": learnt(relayed), "relay": relayed}
        return State(value, {"guards": state.memory["guards"] + guards})

    def predict(key: Array, value: Tree, x: Array) -> Array:
        return log_posterior(model, value["statistics"], x)

    return Method(init, message, Slots(rule), adapt, predict, reply)
