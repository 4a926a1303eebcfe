"""Work in batches (`core.Batched`) of many nodes at once, in lanes of like length (`schedule`)."""

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from peerwise.core import Array, Batched, Shard, Tree, rows_at, without_rows
from peerwise.shards import Shards
from peerwise.simulate.schedule import Lanes, Layout, deal_lanes, layout_of

CACHE = 4 << 20  # bytes that nodes side by side may carry on a CPU, to fit into its cache


def regrouped(shards: Shards, parts: list[Tree]) -> Tree:
    """The groups' parts as one tree, in the order of the nodes."""
    if len(parts) == 1:
        return parts[0]
    place = jnp.argsort(jnp.concatenate([g.nodes for g in shards.groups]))
    return jax.tree.map(lambda a: a[place], _joined(parts))


def by_group(shards: Shards, args: Tree) -> list[Tree]:
    """Arguments [n, ...] of the nodes of each group."""
    if len(shards.groups) == 1:
        return [args]
    return [jax.tree.map(lambda a, g=g: a[g.nodes], args) for g in shards.groups]


class _Work(NamedTuple):
    """What nodes side by side have in common: what they do, their rows, and the schedule."""

    f: Batched
    shards: list[Shard]  # of each group
    table: Shard  # all rows
    weights: list[Shard]  # of rows whose batches are drawn together, without the rows
    layout: Layout
    lanes: Lanes


def side_by_side(f: Batched, shards: Shards, args: Any) -> Tree:
    """The result of `f` for every node; several work at a time, a lane takes node after node."""
    groups = [g.shard for g in shards.groups]
    counts = [len(g.nodes) for g in shards.groups]
    layout = layout_of(f, [s.weight.shape[1] for s in groups], counts)
    table = _joined([jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), s) for s in groups])
    weights = [_weights(groups[first:upto]) for first, upto in layout.together]
    ends = [0, *(layout.ends[upto] for _, upto in layout.together)]
    given = _cut(_joined(by_group(shards, args)), ends)
    carry = _joined([jax.vmap(f.begin)(*a, s) for a, s in zip(given, weights, strict=True)])
    lanes = deal_lanes(layout.length, _most(carry))
    one_pass = partial(_one_pass, _Work(f, groups, table, weights, layout, lanes))
    if f.after is None:
        carry = one_pass(0, carry)
    else:
        carry = jax.lax.fori_loop(0, f.passes, one_pass, carry)
    return regrouped(shards, _cut(jax.vmap(f.end)(carry), layout.ends))


def _weights(shards: list[Shard]) -> Shard:
    """The weights of rows of several groups, the largest first, in one length."""
    m = shards[0].weight.shape[1]

    def padded(a: Array) -> Array:
        return jnp.pad(a, [(0, 0), (0, m - a.shape[1])] + [(0, 0)] * (a.ndim - 2))

    return _joined([Shard(*map(padded, without_rows(s))) for s in shards])


def _most(carry: Tree) -> int:
    """How many nodes may work side by side: on a CPU those whose weights stay in its cache.

    A step of all nodes reads and writes the weights of all. Steps of a few nodes, one after the
    other until they are done, find them in the cache. Two at least: one at a time took several
    times as long where nodes differ in length.
    """
    leaves = jax.tree.leaves(carry)
    n = leaves[0].shape[0]
    if jax.default_backend() != "cpu":
        return n
    return min(n, max(2, CACHE * n // sum(a.size * a.dtype.itemsize for a in leaves)))


def _one_pass(work: _Work, e: Any, carry: Tree) -> Tree:
    """The carry of all nodes after pass e, or after all passes where nothing comes between them."""
    f, lanes = work.f, work.lanes
    groups = zip(work.layout.together, work.weights, strict=True)
    places = _joined([_drawn(work, *cut, seen, carry, e) for cut, seen in groups])
    if lanes.one_each:
        carry = _steps(work, carry, places)
    else:
        turn = partial(_turn, work, places)
        carry = jax.lax.fori_loop(0, len(lanes.node), turn, carry)
    if f.after is None:
        return carry
    after = jax.vmap(f.after)
    parts = zip(_cut(carry, work.layout.ends), work.shards, strict=True)
    return _joined([after(part, shard) for part, shard in parts])


def _drawn(work: _Work, begin: int, end: int, seen: Shard, carry: Tree, e: Any) -> Array:
    """Rows of the table for the steps of some groups, [nodes x blocks, steps, batch]."""
    f, layout, steps = work.f, work.layout, work.lanes.steps
    first, upto = layout.ends[begin], layout.ends[end]

    def one(start: Array, size: Array, now: Tree, shard: Shard) -> Array:
        places = jax.vmap(lambda p: f.places(now, e + p, shard))(jnp.arange(layout.passes))
        return jnp.where(places < size, start + places, layout.rows).astype(jnp.int32)

    now = jax.tree.map(lambda a: a[first:upto], carry)
    at = jnp.asarray(layout.start[first:upto]), jnp.asarray(layout.size[first:upto])
    places = jax.vmap(one)(*at, now, seen)  # [nodes, passes, batches, batch]
    parts = []
    for v, after in layout.alike(first, upto):
        length = int(layout.length[v])
        # as many batches of each pass as these nodes have rows for
        part = places[v - first : after - first, :, : length // layout.passes]
        part = part.reshape(after - v, length, f.batch)
        short = [(0, 0), (0, -length % steps), (0, 0)]
        part = jnp.pad(part, short, constant_values=layout.rows)
        parts.append(part.reshape(-1, steps, f.batch))
    return _joined(parts)


def _turn(work: _Work, places: Array, k: Any, carry: Tree) -> Tree:
    """The carry of all nodes after one block of steps in every lane."""
    lanes = work.lanes
    nodes = jnp.asarray(lanes.node)[k]
    # an idle lane repeats the last node on no rows, and its result is dropped
    now = jax.tree.map(lambda a: a[jnp.minimum(nodes, lanes.n - 1)], carry)
    place = places[jnp.asarray(lanes.block)[k]]
    busy = jnp.asarray(lanes.node < lanes.n)[k]
    place = jnp.where(busy[:, None, None], place, work.layout.rows)
    now = _steps(work, now, place)
    return jax.tree.map(lambda a, new: a.at[nodes].set(new, mode="drop"), carry, now)


def _steps(work: _Work, carry: Tree, places: Array) -> Tree:
    """The carry of nodes after steps on the rows at places [nodes, steps, batch], side by side."""

    def step(now: Tree, at: Array) -> tuple[Tree, None]:
        return jax.vmap(lambda c, p: work.f.step(c, rows_at(work.table, p)))(now, at), None

    carry, _ = jax.lax.scan(step, carry, jnp.swapaxes(places, 0, 1))
    return carry


def _cut(tree: Tree, ends: list[int]) -> list[Tree]:
    """Each group's part of arrays [n, ...] in the order of the groups."""
    return [jax.tree.map(lambda a, b=b, e=e: a[b:e], tree) for b, e in pairwise(ends)]


def _joined(parts: list[Tree]) -> Tree:
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *a: jnp.concatenate(a), *parts)
