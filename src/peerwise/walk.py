"""Run a method node by node, mailbox by mailbox, in plain Python: the oracle of the others.

Slow and readable. It calls the same jitted one-node functions as `simulate(exact=True)` and as a
real peer does, and agrees with them bit for bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise import runtime
from peerwise.channel import Channel, perfect
from peerwise.combine.apply import all_finite, one_node, take_parts
from peerwise.core import Inbox, Message, Method, Shard, State, Tree
from peerwise.runtime import ADAPT, CHANNEL, INIT, LINKS, MESSAGE, Probe, Run, stage_key
from peerwise.shards import Shards
from peerwise.topology import Topology

__all__ = ["walk"]


def _stack(trees: list[Tree]) -> Tree:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _finite(message: Tree) -> bool:
    return bool(all_finite(jax.tree.map(lambda a: a[None], message))[0])


def _memory(states: list[State]) -> Tree:
    """Which training of each node broke down first, where a method keeps that."""
    kept = [s.memory for s in states]
    known = isinstance(kept[0], dict) and "broke" in kept[0]
    return {"broke": jnp.stack([m["broke"] for m in kept])} if known else None


def _mailboxes(topology: Topology, t: int) -> dict[int, np.ndarray]:
    """For every node the numbers of the links in its slots, -1 = empty."""
    graph = int(topology.at(t))
    if topology.server:
        return {i: np.arange(topology.n) for i in range(topology.n)}
    return {
        int(node): row
        for nodes, table in topology.table
        for node, row in zip(np.asarray(nodes), np.asarray(table[graph]), strict=True)
    }


@dataclass
class _Slot:
    """What one node last heard from one neighbour that replies."""

    part: Tree
    sent: int = -1  # the round in which the part was sent
    message: Message | None = None  # of the round before, if it arrived
    weight: float = 0.0
    age: int = -1


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
        blank = _blank_part(method, states[0], shard[0])
        slots = _blank_slots(blank, topology) if method.reply else None
        sent: list[list[Message]] = []
        seen: dict[str, list[Tree]] = {stage: [] for stage in stages}

        def look(stage: str, t: int) -> None:
            if probe is not None and stage in stages and t + 1 in at:
                seen[stage].append(probe(method, _stack(states)))

        messages = 0
        for t in range(rounds):
            sent.append([message(stage_key(key, MESSAGE, t, i), states[i]) for i in range(n)])
            there = topology(jax.random.fold_in(key, LINKS), t)
            links = channel(jax.random.fold_in(key, CHANNEL), t, there)
            src, _, weight, age = (np.asarray(a) for a in links)
            boxes = _mailboxes(topology, t)
            said = _replies(method, states, shard, slots) if slots is not None else None
            values, told = [], []
            for i in range(n):
                dtype = runtime.float_of(sent[t][i])
                inbox = _open(boxes[i], sent, src, weight, age, t, dtype)
                known = np.where(boxes[i] >= 0, np.asarray(there.weight)[boxes[i]], 0)
                inbox = inbox._replace(link=jnp.asarray(known, dtype))
                if slots is not None and said is not None:
                    to_me = {j: said[j][i] for j in slots[i]}
                    inbox = _deliver(inbox, boxes[i], src, slots[i], to_me, blank, sent[t], t)
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
        history = {stage: _stack(list(s)) for stage, s in seen.items() if s}
        return Run(_stack(states), rounds, at, history, size, messages)


def _open(
    box: np.ndarray,
    sent: list[list[Message]],
    src: np.ndarray,
    weight: np.ndarray,
    age: np.ndarray,
    t: int,
    dtype: Any,
) -> Inbox:
    """The inbox of one node: a slot per link of its mailbox."""
    blank = jax.tree.map(jnp.zeros_like, sent[t][0])
    heard: list[tuple[Message, float, int]] = []
    for link in box:
        late = int(age[link])
        arrived = link >= 0 and weight[link] > 0 and late <= t
        letter = sent[t - late][int(src[link])] if arrived else blank
        good = arrived and _finite(letter)
        heard.append((letter, float(weight[link]) if good else 0.0, late))
    letters = _stack([h[0] for h in heard])
    return Inbox(
        letters.value,
        letters.note,
        jnp.asarray([h[1] for h in heard], dtype),
        jnp.asarray([h[2] for h in heard], jnp.int32),
    )


def _blank_part(method: Method, state: State, rows: Shard) -> Tree:
    """What stands in a slot before the first reply; None where a method has no replies."""
    if method.reply is None:
        return None
    first = method.message(jax.random.key(0), state)
    heard = Inbox(first.value, first.note, jnp.zeros((), rows.weight.dtype), jnp.int32(-1))
    shape = jax.eval_shape(method.reply, state, rows, heard)
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shape)


def _blank_slots(blank: Tree, topology: Topology) -> list[dict[int, _Slot]]:
    """An empty slot for every neighbour of every node."""
    src = np.asarray(topology(jax.random.key(0), 0).src)
    boxes = _mailboxes(topology, 0)
    return [
        {int(src[link]): _Slot(blank) for link in boxes[i] if link >= 0} for i in range(topology.n)
    ]


def _replies(
    method: Method, states: list[State], shard: list[Any], slots: list[dict[int, _Slot]]
) -> list[dict[int, Tree]]:
    """What every node says to each of its neighbours, from what it heard in the round before."""
    assert method.reply is not None
    reply = jax.jit(method.reply)
    blank = jax.tree.map(jnp.zeros_like, method.message(jax.random.key(0), states[0]))

    def answer(state: State, rows: Any, slot: _Slot) -> Tree:
        letter = slot.message or blank
        weight = jnp.asarray(slot.weight, rows.weight.dtype)
        heard = Inbox(letter.value, letter.note, weight, jnp.int32(slot.age), slot.part)
        return reply(state, rows, heard)

    return [
        {j: answer(state, rows, slot) for j, slot in mine.items()}
        for state, rows, mine in zip(states, shard, slots, strict=True)
    ]


def _deliver(
    inbox: Inbox,
    box: np.ndarray,
    src: np.ndarray,
    mine: dict[int, _Slot],
    to_me: dict[int, Tree],
    blank: Tree,
    sent: list[Message],
    t: int,
) -> Inbox:
    """Put the parts addressed to a node into its inbox; one that does not arrive leaves the old."""
    weight, age, parts = np.array(inbox.weight), [], []
    for k, link in enumerate(box):
        if link < 0:
            age.append(-1)
            parts.append(blank)
            continue
        j = int(src[link])
        slot = mine[j]
        slot.message, slot.weight, slot.age = None, 0.0, -1
        weight[k] *= _finite(to_me[j])
        if weight[k] > 0:
            slot.part, slot.sent = to_me[j], t
            slot.message, slot.weight, slot.age = sent[j], float(weight[k]), 0
        age.append(t - slot.sent if slot.sent >= 0 else -1)
        parts.append(slot.part)
    return inbox._replace(
        weight=jnp.asarray(weight), age=jnp.asarray(age, jnp.int32), part=_stack(parts)
    )
