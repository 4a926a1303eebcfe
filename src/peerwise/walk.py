"""Run a method node by node, mailbox by mailbox, in plain Python: the oracle of the others.

Slow and readable. It calls the same jitted one-node functions as `simulate(exact=True)` and as a
real peer does, and agrees with them bit for bit.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise import runtime
from peerwise.channel import Channel, perfect
from peerwise.combine.apply import one_node, take_parts
from peerwise.core import Message, Method, State, Tree
from peerwise.mailbox import (
    Heard,
    Slot,
    answer,
    blank_part,
    deliver,
    mailboxes,
    open_inbox,
    stacked,
)
from peerwise.runtime import ADAPT, CHANNEL, INIT, LINKS, MESSAGE, Probe, Run, stage_key
from peerwise.shards import Shards
from peerwise.topology import Topology

__all__ = ["walk"]


def _memory(states: list[State]) -> Tree:
    """Which training of each node broke down first, where a method keeps that."""
    kept = [s.memory for s in states]
    known = isinstance(kept[0], dict) and "broke" in kept[0]
    return {"broke": jnp.stack([m["broke"] for m in kept])} if known else None


def walk(
    method: Method,
    shards: Shards,
    topology: Topology,
    rounds: int,
    *,
    seed: Any = 0,
    channel: Channel | None = None,
    probe: Probe | None = None,
    at: Sequence[int] | None = None,
    stages: str | Sequence[str] = "adapt",
    precision: str = "float32",
) -> Run:
    """As `simulate(exact=True)`, one node and one message at a time."""
    channel = perfect() if channel is None else channel
    at = ([rounds] if rounds else []) if at is None else at
    n = shards.n
    at, stages = runtime.check(method, n, topology, channel.lag, rounds, at, stages)
    channel.check(topology, rounds)
    with runtime.precision_of(precision) as dtype:
        key, probe = runtime.as_key(seed), runtime.as_probe(probe, dtype)
        shard = [runtime.cast(shards.of(i), dtype) for i in range(n)]
        message, adapt = jax.jit(method.message), jax.jit(method.adapt)
        combine = jax.jit(partial(one_node, method.combine, hears_itself=topology.server))
        take = jax.jit(partial(take_parts, method))
        states = [jax.jit(method.init)(stage_key(key, INIT, 0, i), shard[i]) for i in range(n)]
        runtime.check_losses(State(None, _memory(states)))
        blank = blank_part(method, states[0], shard[0])
        slots = _blank_slots(blank, topology) if method.reply else None
        sent: list[list[Message]] = []
        seen: dict[str, list[Tree]] = {stage: [] for stage in stages}

        def look(stage: str, t: int) -> None:
            if probe is not None and stage in stages and t + 1 in at:
                seen[stage].append(probe(method, stacked(states)))

        messages = 0
        for t in range(rounds):
            sent.append([message(stage_key(key, MESSAGE, t, i), states[i]) for i in range(n)])
            there = topology(jax.random.fold_in(key, LINKS), t)
            links = channel(jax.random.fold_in(key, CHANNEL), t, there)
            src, _, weight, age = (np.asarray(a) for a in links)
            boxes = mailboxes(topology, t)
            said = _replies(method, states, shard, slots) if slots is not None else None
            values, told = [], []
            for i in range(n):
                dtype = runtime.float_of(sent[t][i])
                box = boxes[i]
                late = [int(age[link]) if link >= 0 else 0 for link in box]
                heard = [
                    Heard(sent[t - a][int(src[link])], float(weight[link]), a)
                    if link >= 0 and weight[link] > 0 and a <= t
                    else Heard(None, 0.0, a)
                    for link, a in zip(box, late, strict=True)
                ]
                known = np.where(box >= 0, np.asarray(there.weight)[box], 0)
                inbox = open_inbox(heard, known, sent[t][0], dtype)
                if slots is not None and said is not None:
                    to_me = {j: said[j][i] for j in slots[i]}
                    senders = [int(src[link]) if link >= 0 else -1 for link in box]
                    now = dict(enumerate(sent[t]))
                    inbox = deliver(inbox, senders, slots[i], to_me, now, blank, t, method.believe)
                values.append(combine(states[i].value, sent[t][i].note, inbox))
                told.append((inbox.part, inbox.weight))
            states = [State(value, s.memory) for value, s in zip(values, states, strict=True)]
            if method.take is not None:
                states = [take(state, *parts) for state, parts in zip(states, told, strict=True)]
            look("combine", t)
            states = [adapt(stage_key(key, ADAPT, t, i), states[i], shard[i]) for i in range(n)]
            look("adapt", t)
            runtime.check_losses(State(None, _memory(states)))
            messages += topology.links_per_round(t)
        size = runtime.size_of((jax.eval_shape(method.message, key, states[0]), blank))
        history = {stage: stacked(list(s)) for stage, s in seen.items() if s}
        return Run(stacked(states), rounds, at, history, size, messages)


def _blank_slots(blank: Tree, topology: Topology) -> list[dict[int, Slot]]:
    """An empty slot for every neighbour of every node."""
    src = np.asarray(topology(jax.random.key(0), 0).src)
    boxes = mailboxes(topology, 0)
    return [
        {int(src[link]): Slot(blank) for link in boxes[i] if link >= 0} for i in range(topology.n)
    ]


def _replies(
    method: Method, states: list[State], shard: list[Any], slots: list[dict[int, Slot]]
) -> list[dict[int, Tree]]:
    """What every node says to each of its neighbours, from what it heard in the round before."""
    assert method.reply is not None
    reply = jax.jit(method.reply)
    like = method.message(jax.random.key(0), states[0])
    return [
        {j: answer(reply, state, rows, slot, like) for j, slot in mine.items()}
        for state, rows, mine in zip(states, shard, slots, strict=True)
    ]
