"""The rounds of a whole network as one compiled loop: every node is a row of an array.

What differs between runs of the same shapes (data, graph, seed, number of rounds, which of them are
recorded) is an argument of the compiled program, so a second run does not compile again.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from peerwise import runtime
from peerwise.channel import Channel
from peerwise.combine.apply import Heard, all_finite, in_slots, network, one_node, take_parts
from peerwise.core import Array, Message, State, Tree
from peerwise.runtime import ADAPT, CHANNEL, LINKS, MESSAGE
from peerwise.shards import Shards
from peerwise.simulate.exchange import Here, Whole
from peerwise.simulate.nodes import (
    Plan,
    apart,
    each,
    each_shard,
    first_keys,
    in_blocks,
    keyed,
    keys,
    sealed,
)
from peerwise.simulate.replies import Along, Parts, blank_parts, deliver, part_shape, summed
from peerwise.topology import Topology

WHOLE = Whole()


class Carry(NamedTuple):
    """Everything that the next round needs."""

    state: State  # [n, ...]
    sent: Message  # [pages, n, ...] the messages of the last rounds; no page if none is read again
    parts: Parts | None
    records: dict[str, Tree]  # stage -> [recorded, ...]


def begin(
    plan: Plan,
    key: Array,
    shards: Shards,
    topology: Topology,
    probe: Any,
    at: Array,
    here: Here = WHOLE,
) -> Carry:
    """The carry before round 0."""
    method, nodes = plan.method, here.nodes(topology.n)
    n = nodes.shape[0]
    state = each_shard(plan, keyed(method.init), shards, first_keys(method, key, nodes))
    message = jax.eval_shape(jax.vmap(method.message), jax.random.split(key, n), state)
    pages = plan.pages if plan.pages > 1 else 0, here.rows(topology.n)
    sent = jax.tree.map(lambda a: jnp.zeros((*pages, *a.shape[1:]), a.dtype), message)
    records = {}
    if probe is not None:
        seen = jax.eval_shape(lambda s: probe(method, s), state)
        kept = jax.tree.map(lambda a: jnp.zeros((at.shape[0], *a.shape), a.dtype), seen)
        records = dict.fromkeys(plan.stages, kept)
    parts = None
    if method.reply is not None:
        shape = part_shape(method, state, message, shards.groups[0].shard, 1)
        parts = blank_parts(plan, topology, n, shape, shards.groups[0].shard.weight.dtype)
    return Carry(state, sent, parts, records)


def _hear(
    plan: Plan, carry: Carry, key: Array, t: Any, topology: Topology, channel: Channel, here: Here
) -> tuple[tuple[Heard, ...], Along]:
    """Who is in which slot of whose inbox this round, and what comes along each link."""
    there = topology(jax.random.fold_in(key, LINKS), t)
    links = channel(jax.random.fold_in(key, CHANNEL), t, there, topology.late(t))
    fine = jax.vmap(all_finite)(carry.sent)  # [pages, n]
    graph = topology.at(t)
    senders = here.senders(links, graph)
    dtype = runtime.float_of(carry.sent)
    pages = (t - links.age) % plan.pages
    arrived = (links.age <= t) & fine[pages, senders]
    weights = jnp.where(arrived, links.weight, 0).astype(dtype)
    ages = jnp.where(weights > 0, links.age, -1)
    heard = []
    for nodes, table in topology.table:
        slot = table[graph]
        edge = jnp.maximum(slot, 0)
        weight = jnp.where(slot >= 0, weights[edge], 0)
        age = jnp.where(slot >= 0, ages[edge], -1)
        page = None if plan.pages == 1 else pages[edge]
        link = jnp.where(slot >= 0, there.weight[edge], 0).astype(dtype)
        slots = senders[edge], weight, age, page, link
        if topology.server:  # one row of slots for all: the message that each node sent up
            slots = jax.tree.map(lambda a: a.T, slots)
        heard.append(Heard(nodes if len(topology.table) > 1 else None, *slots))
    return tuple(heard), Along(senders, here.hearers(links, graph), weights)


def _combine(
    plan: Plan,
    carry: Carry,
    t: Any,
    heard: tuple[Heard, ...],
    parts: Tree,
    topology: Topology,
    here: Here,
) -> Tree:
    method, state = plan.method, carry.state
    now = t % plan.pages
    note = here.own(jax.tree.map(lambda a: a[now], carry.sent.note))
    sent, notes = carry.sent
    if plan.pages == 1:
        sent, notes = jax.tree.map(lambda a: a[0], (sent, notes))
    one = None
    if plan.exact:
        one = sealed(partial(one_node, method.combine, hears_itself=topology.server))
    by = [partial(in_blocks, size=size) for size in plan.blocks.buckets] if plan.blocks else ()
    return network(
        method.combine, state.value, note, sent, notes, heard, one, server=topology.server, by=by,
        parts=parts,
    )  # fmt: skip


def _take(plan: Plan, state: State, total: Tree, parts: Tree, heard: Heard) -> Any:
    """The states after `take` of the replies' sums; in exact mode replies are summed here."""
    take: Any = plan.method.take
    if plan.sums_replies:
        return jax.vmap(take)(state, total)
    part = in_slots(parts, heard.slot)
    return each(plan, partial(take_parts, plan.method), state, part, heard.weight)


def _look(plan: Plan, stage: str, carry: Carry, t: Any, probe: Any, at: Array) -> Carry:
    """Let the probe look, if this is a round to record; nothing leaves the device."""
    if probe is None or stage not in plan.stages or not at.shape[0]:
        return carry
    row = jnp.searchsorted(at, t + 1)
    hit = (row < at.shape[0]) & (at[jnp.minimum(row, at.shape[0] - 1)] == t + 1)

    def write(records: Tree) -> Tree:
        seen = probe(plan.method, carry.state)
        return jax.tree.map(lambda kept, new: kept.at[row].set(new), records, seen)

    records = jax.lax.cond(hit, write, lambda r: r, carry.records[stage])
    return carry._replace(records={**carry.records, stage: records})


def _one_round(
    plan: Plan,
    t: Any,
    carry: Carry,
    key: Array,
    shards: Shards,
    topology: Topology,
    channel: Channel,
    probe: Any,
    at: Array,
    here: Here = WHOLE,
) -> Carry:
    """The carry after round t."""
    method, nodes = plan.method, here.nodes(topology.n)
    out = each(plan, keyed(method.message), keys(key, MESSAGE, t, nodes), carry.state)
    out = here.brought(out)
    kept = carry.sent
    if plan.pages == 1:
        sent = jax.tree.map(lambda new: new[None], out)
    else:
        sent = kept = jax.tree.map(lambda old, new: old.at[t % plan.pages].set(new), kept, out)
    carry = carry._replace(sent=here.at_hand(sent, topology, t))
    heard, along = _hear(plan, carry, key, t, topology, channel, here)
    parts, part, total = None, None, None
    if carry.parts is not None:
        given = plan, carry.parts, carry.sent, carry.state, t
        if plan.sums_replies:
            parts, answered, total = summed(*given, heard[0], shards, here)
            heard = (answered,)
        else:
            parts, heard = deliver(*given, heard, along, shards, topology, here)
            part = parts.part
    combine = partial(_combine, plan, carry, t, heard, part, topology, here)
    state = State(apart(t, combine, carry.state.value), carry.state.memory)
    if method.take is not None:
        state = _take(plan, state, total, part, heard[0])
    carry = carry._replace(parts=parts, sent=kept, state=state)
    carry = _look(plan, "combine", carry, t, probe, at)
    state = each_shard(plan, keyed(method.adapt), shards, keys(key, ADAPT, t, nodes), carry.state)
    return _look(plan, "adapt", carry._replace(state=state), t, probe, at)


def advance(plan: Plan, carry: Carry, start: Any, stop: Any, *args: Any) -> Carry:
    """The carry after rounds start .. stop-1."""
    return jax.lax.fori_loop(start, stop, lambda t, now: _one_round(plan, t, now, *args), carry)


@partial(jax.jit, static_argnums=(0, 1))
def begin_all(plan: Plan, axes: Any, *args: Any) -> Carry:
    """The carry before round 0; `axes` says which arguments have an axis of replicas."""
    f = partial(begin, plan)
    return f(*args) if axes is None else jax.vmap(f, (*axes, None))(*args)


@partial(jax.jit, static_argnums=(0, 1))
def advance_all(plan: Plan, axes: Any, carry: Carry, start: Any, stop: Any, *args: Any) -> Carry:
    """The carry after rounds start .. stop-1 of a run, or of all its replicas."""
    f = partial(_one_round, plan)
    if axes is not None:  # within the loop: JAX would trace a loop again, twice, to add an axis
        key, shards, topology, probe = axes
        f = jax.vmap(f, (None, 0, key, shards, topology, None, probe, None))
    return jax.lax.fori_loop(start, stop, lambda t, carry: f(t, carry, *args), carry)
