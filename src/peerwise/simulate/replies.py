"""Replies, each to one neighbour alone: kept link by link, or summed on the way."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from peerwise.combine.apply import Heard, all_finite
from peerwise.combine.packed import Packed, packed
from peerwise.core import Array, Batched, Inbox, Message, Method, Shard, State, Tree, near
from peerwise.shards import Shards
from peerwise.simulate.exchange import Here, Part
from peerwise.simulate.nodes import Plan, each_shard, in_blocks, sealed
from peerwise.topology import Topology


class Parts(NamedTuple):
    """What replies delivered, and how the last round arrived.

    Kept replies lie by link [e], of which there are far fewer than slots. Where replies are summed
    as they come, none is kept, and the rest lies by slot [n, k].
    """

    part: Packed | None  # [e, ...] the newest of every link; None where they are summed
    sent: Array  # the round it was sent in, -1 = never
    weight: Array  # of the round before
    age: Array  # of the round before


class Along(NamedTuple):
    """What comes along every link of a round."""

    src: Array  # [e] the place of the sender among the messages at hand
    dst: Array  # [e] the place of the receiver among the nodes here
    weight: Array  # [e] 0: nothing


def part_shape(method: Method, state: State, message: Message, shard: Shard, axes: int) -> Tree:
    """The shape of one reply, from arrays (or shapes) with so many axes before those of one node.

    It does not depend on the part heard, so that none is given here.
    """
    if method.reply is None:
        return None
    state, message, shard = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape[axes:], a.dtype), (state, message, shard)
    )
    weight, age = jax.ShapeDtypeStruct((), shard.weight.dtype), jax.ShapeDtypeStruct((), jnp.int32)
    heard = Inbox(message.value, message.note, weight, age, None)
    return jax.eval_shape(method.reply, state, shard, heard)


def blank_parts(plan: Plan, topology: Topology, n: int, shape: Tree, dtype: Any) -> Parts:
    """Nothing heard yet by n nodes."""
    if plan.sums_replies:
        places: tuple[int, ...] = n, topology.table[0][1].shape[-1]
        part = None
    else:
        places = (topology.links.src.shape[-1],)
        part = packed(jax.tree.map(lambda a: jnp.zeros((*places, *a.shape), a.dtype), shape))
    never = jnp.full(places, -1, jnp.int32)
    return Parts(part, never, jnp.zeros(places, dtype), never)


def _for_link(plan: Plan, shards: Shards, like: tuple[State, Inbox]) -> Callable[..., Tree]:
    """state, slot, node -> the reply to one link; `like` has the shapes of a state and a slot."""
    reply: Any = plan.method.reply
    alone = sealed(reply) if plan.exact else reply
    groups = shards.groups
    row = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), groups[0].shard)
    if not _reads_rows(reply, like, row):
        blank = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), row)
        return lambda state, slot, node: alone(state, blank, slot)
    place, group = jnp.zeros(shards.n, jnp.int32), jnp.zeros(shards.n, jnp.int32)
    for i, g in enumerate(groups):
        place = place.at[g.nodes].set(jnp.arange(len(g.nodes), dtype=jnp.int32))
        group = group.at[g.nodes].set(i)

    def with_rows(state: State, slot: Inbox, node: Array) -> Tree:
        def of(shard: Shard) -> Tree:
            return alone(state, near(jax.tree.map(lambda a: a[place[node]], shard)), slot)

        return jax.lax.switch(group[node], [partial(of, g.shard) for g in groups])

    return with_rows


def _reads_rows(reply: Any, like: tuple[State, Inbox], row: Shard) -> bool:
    """Whether a reply depends on the rows of the node that says it."""
    state, slot = like
    program = jax.make_jaxpr(lambda row, state, slot: reply(state, row, slot))(row, state, slot)
    rows = program.jaxpr.invars[: len(row)]
    read = [v for eqn in program.jaxpr.eqns for v in eqn.invars] + program.jaxpr.outvars
    return any(v is r for v in read for r in rows)


def _answers(
    plan: Plan, parts: Parts, sent: Message, state: State, t: Any, along: Along, shards: Shards
) -> Packed:
    """For every link the reply of its receiver to its sender, as heard in the round before."""
    page = (t - 1 - parts.age) % plan.pages
    assert parts.part is not None

    def all_of(parts: Parts, page: Array, src: Array, dst: Array) -> Packed:
        """The replies to some links."""
        assert parts.part is not None
        message = jax.tree.map(lambda a: a[page, src], sent)
        slot = Inbox(message.value, message.note, parts.weight, parts.age, parts.part.tree)
        knows = jax.tree.map(lambda a: a[dst], packed(state)).tree
        like = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), (knows, slot))
        answer = _for_link(plan, shards, like)
        if plan.exact:
            return packed(jax.lax.map(lambda given: answer(*given), (knows, slot, dst)))
        return packed(jax.vmap(answer)(knows, slot, dst))

    given = parts, page, along.src, along.dst
    return in_blocks(all_of, *given, size=plan.blocks.links) if plan.blocks else all_of(*given)


def deliver(
    plan: Plan,
    parts: Parts,
    sent: Message,
    state: State,
    t: Any,
    heard: tuple[Heard, ...],
    along: Along,
    shards: Shards,
    topology: Topology,
    here: Here,
) -> tuple[Parts, tuple[Heard, ...]]:
    """Every node replies to what it heard last round, link by link, and hears the replies."""
    graph = topology.at(t)
    back = None if topology.back is None else topology.back[graph]
    replies = here.returned(_answers(plan, parts, sent, state, t, along, shards), back)
    weight = jnp.where(all_finite(replies), along.weight, 0)
    came = weight > 0
    if plan.method.believe is not None:
        assert parts.part is not None
        replies = packed(jax.vmap(plan.method.believe)(parts.part.tree, replies.tree))

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(came.reshape(came.shape + (1,) * (new.ndim - 1)), new, old)

    part = jax.tree.map(keep, replies, parts.part)
    last = jnp.where(came, jnp.int32(t), parts.sent)
    age = jnp.where(last < 0, -1, t - last)

    def hears(h: Heard, table: Array) -> Heard:
        slot = table[graph]
        there = slot >= 0
        return h._replace(
            weight=jnp.where(there, weight[slot], 0), age=jnp.where(there, age[slot], -1), slot=slot
        )

    heard = tuple(hears(h, table) for h, (_, table) in zip(heard, topology.table, strict=True))
    return Parts(part, last, weight, jnp.where(came, age, -1)), heard


def _said_to(
    plan: Plan, parts: Parts, sent: Message, state: State, t: Any, heard: Heard, shards: Shards
) -> Any:
    """j -> every node's reply to the neighbour in its slot j, heard in the round before."""
    page = (t - 1 - parts.age) % plan.pages

    reply: Any = plan.method.reply
    inner = reply.begin if isinstance(reply, Batched) else reply

    def answer(state: State, slot: Inbox, shard: Shard) -> Tree:
        return inner(state, shard, slot)

    respond: Any = replace(reply, begin=answer) if isinstance(reply, Batched) else answer

    def said_to(j: Any) -> Tree:
        message = jax.tree.map(lambda a: a[page[:, j], heard.src[:, j]], sent)
        slot = Inbox(message.value, message.note, parts.weight[:, j], parts.age[:, j], None)
        return each_shard(plan, respond, shards, state, slot)

    return said_to


def _back(heard: Heard) -> Array:
    """[n, k] the slot that a node has in the inbox of the neighbour in its slot k."""
    node = jnp.arange(heard.src.shape[0])[:, None, None]
    return (heard.src[heard.src] == node).argmax(-1)


def _by_slot(heard: Heard, link: Array, here: Here) -> tuple[Any, Array]:
    """Replies to slot j -> they as they arrive, for whom, in which slot, whether; slots in use."""
    if not isinstance(here, Part):
        back = _back(heard)
        used = (link > 0).any(0).sum()
        return lambda rows, j: (rows, heard.src[:, j], back[:, j], link[:, j] > 0), used
    letters = here.letters
    assert letters is not None

    def arrive(rows: Tree, j: Any) -> tuple[Tree, Array, Array, Array]:
        came, to, slot = letters.step(rows, j)
        there = to < link.shape[0]
        return came, jnp.where(there, to, 0), slot, there

    return arrive, letters.used


def summed(
    plan: Plan,
    parts: Parts,
    sent: Message,
    state: State,
    t: Any,
    heard: Heard,
    shards: Shards,
    here: Here,
) -> tuple[Parts, Heard, Tree]:
    """As `deliver`, but slot after slot into one sum for each node: memory is nodes x parts.

    Slots beyond the largest number of neighbours are empty for all nodes and not computed.
    """
    said_to = _said_to(plan, parts, sent, state, t, heard, shards)
    link = heard.link
    assert link is not None
    n = link.shape[0]
    arrive, used = _by_slot(heard, link, here)

    def add(j: Any, so_far: tuple[Tree, Array]) -> tuple[Tree, Array]:
        total, fine = so_far
        reply = said_to(j)
        (reply, good), to, place, there = arrive((reply, all_finite(reply)), j)
        weight = jnp.where(there & good, heard.weight[to, place], 0)

        def onto(whole: Array, part: Array) -> Array:
            w = weight.astype(part.dtype).reshape(weight.shape + (1,) * (part.ndim - 1))
            return whole.at[to].add(jnp.where(w > 0, w * part, 0))

        fine = fine.at[jnp.where(there, to, n), place].set(good, mode="drop")
        return jax.tree.map(onto, total, reply), fine

    shape = jax.eval_shape(said_to, 0)
    blank = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shape)
    total, fine = jax.lax.fori_loop(0, used, add, (blank, jnp.ones(link.shape, bool)))
    weight = jnp.where(fine, heard.weight, 0)
    age = jnp.where(weight > 0, heard.age, -1)
    return Parts(None, parts.sent, weight, age), heard._replace(weight=weight), total
