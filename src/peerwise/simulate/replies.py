"""Replies, each to one neighbour alone: delivered into its inbox, or summed on the way."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from peerwise.combine.apply import Heard, all_finite
from peerwise.core import Array, Batched, Inbox, Message, Method, Shard, State, Tree
from peerwise.shards import Shards
from peerwise.simulate.exchange import Here, Part
from peerwise.simulate.nodes import Plan, each_shard


class Parts(NamedTuple):
    """What replies delivered: the newest part in every slot, and how the last round arrived."""

    part: Tree  # [n, k, ...]; None where they are summed as they come
    sent: Array  # [n, k] the round it was sent in, -1 = never
    weight: Array  # [n, k] of the round before
    age: Array  # [n, k] of the round before


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


def blank_parts(plan: Plan, shards: Shards, n: int, k: int, shape: Tree) -> Parts:
    """Nothing heard yet, in k slots of n nodes."""
    never = jnp.full((n, k), -1, jnp.int32)
    weight = jnp.zeros((n, k), shards.groups[0].shard.weight.dtype)
    part = None
    if not plan.sums_replies:
        part = jax.tree.map(lambda a: jnp.zeros((n, k, *a.shape), a.dtype), shape)
    return Parts(part, never, weight, never)


def _answers(
    plan: Plan, parts: Parts, sent: Message, state: State, t: Any, heard: Heard, shards: Shards
) -> Any:
    """j -> every node's reply to the neighbour in its slot j, heard in the round before."""
    method = plan.method
    page = (t - 1 - parts.age) % plan.pages

    reply: Any = method.reply
    inner = reply.begin if isinstance(reply, Batched) else reply

    def answer(state: State, slot: Inbox, shard: Shard) -> Tree:
        return inner(state, shard, slot)

    respond: Any = replace(reply, begin=answer) if isinstance(reply, Batched) else answer

    def said_to(j: Any) -> Tree:
        message = jax.tree.map(lambda a: a[page[:, j], heard.src[:, j]], sent)
        part = jax.tree.map(lambda a: a[:, j], parts.part)
        slot = Inbox(message.value, message.note, parts.weight[:, j], parts.age[:, j], part)
        return each_shard(plan, respond, shards, state, slot)

    return said_to


def _back(heard: Heard) -> Array:
    """[n, k] the slot that a node has in the inbox of the neighbour in its slot k."""
    node = jnp.arange(heard.src.shape[0])[:, None, None]
    return (heard.src[heard.src] == node).argmax(-1)


def _delivered(out: Tree, heard: Heard, here: Here) -> Tree:
    """Replies [n, k, ...], in the sender's slots, in the slots of those whom they are for."""
    if not isinstance(here, Part):
        back = _back(heard)
        return jax.tree.map(lambda a: a[heard.src, back], out)
    letters = here.letters
    assert letters is not None
    came = jax.tree.map(jnp.zeros_like, out)
    for j in range(heard.src.shape[1]):
        rows, to, slot = letters.step(jax.tree.map(lambda a, j=j: a[:, j], out), j)
        came = jax.tree.map(lambda a, r, to=to, s=slot: a.at[to, s].set(r, mode="drop"), came, rows)
    return came


def deliver(
    plan: Plan,
    parts: Parts,
    sent: Message,
    state: State,
    t: Any,
    heard: Heard,
    shards: Shards,
    here: Here,
) -> tuple[Parts, Heard]:
    """Every node replies to what it heard last round, slot by slot, and hears the replies."""
    said_to = _answers(plan, parts, sent, state, t, heard, shards)
    out = jax.tree.map(lambda *a: jnp.stack(a, 1), *map(said_to, range(heard.src.shape[1])))
    replies = _delivered(out, heard, here)  # [n, k, ...]
    weight = jnp.where(jax.vmap(all_finite)(replies), heard.weight, 0)
    came = weight > 0
    if plan.method.believe is not None:
        replies = jax.vmap(jax.vmap(plan.method.believe))(parts.part, replies)

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(came.reshape(came.shape + (1,) * (new.ndim - 2)), new, old)

    part = jax.tree.map(keep, replies, parts.part)
    last = jnp.where(came, jnp.int32(t), parts.sent)
    age = jnp.where(last < 0, -1, t - last)
    heard = heard._replace(weight=weight, age=age, part=part)
    return Parts(part, last, weight, jnp.where(came, heard.age, -1)), heard


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
    said_to = _answers(plan, parts, sent, state, t, heard, shards)
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
