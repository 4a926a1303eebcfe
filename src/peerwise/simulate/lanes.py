"""Work in batches (`core.Batched`) of many nodes at once, in lanes of like length.

A node takes as many steps as it has batches, and whoever is next takes its lane over: all together
cost what their rows cost, and a round is as long as the longest training.
"""

import heapq
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array, Batched, Shard, Tree, rows_at, without_rows
from peerwise.shards import Shards

__all__ = ["by_group", "regrouped", "side_by_side"]

TURNS = 32  # blocks of steps into which the longest training is cut where nodes differ in length
COARSE = 4  # times as many rows as others may a node have whose draws are made with theirs
STEP = 8  # what a step costs beside its nodes, in nodes
CACHE = 4 << 20  # bytes that nodes side by side may carry on a CPU, to find them in its cache


def regrouped(shards: Shards, parts: list[Tree]) -> Tree:
    """What every group has, in the order of the nodes."""
    if len(parts) == 1:
        return parts[0]
    place = jnp.argsort(jnp.concatenate([g.nodes for g in shards.groups]))
    return jax.tree.map(lambda a: a[place], _joined(parts))


def by_group(shards: Shards, args: Tree) -> list[Tree]:
    """Arguments [n, ...] of the nodes of each group."""
    if len(shards.groups) == 1:
        return [args]
    return [jax.tree.map(lambda a, g=g: a[g.nodes], args) for g in shards.groups]


class _Lanes(NamedTuple):
    """Who works in which lane: nodes of different lengths, dealt to few lanes of like length."""

    node: np.ndarray  # [turns, lanes] which node, n: nobody
    block: np.ndarray  # [turns, lanes] which of its blocks
    steps: int  # in a block


def _lanes(lengths: np.ndarray, most: int | None = None) -> _Lanes:
    """Lanes for nodes of so many steps each: the longest first, each to the shortest lane.

    A step costs as much as it would with `STEP` nodes more, however few there are: fewer steps
    are worth some idle lanes. Nodes change places after blocks of steps, `TURNS` times at most
    in the longest node. `most`: no more lanes than that, where not every node may have one.

    >>> lanes = _lanes(np.array([6, 3, 3, 2]))
    >>> lanes.node.tolist(), lanes.steps
    ([[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 3, 4], [0, 3, 4], [0, 4, 4]], 1)
    >>> lanes = _lanes(np.array([7, 7, 7, 7]), most=3)
    >>> lanes.node.tolist(), lanes.steps
    ([[0, 1], [2, 3]], 7)
    """
    n, longest = len(lengths), max(int(lengths.max()), 1)
    steps = longest if (lengths == lengths[0]).all() else -(-longest // TURNS)
    blocks = -(-lengths // steps)
    order = np.argsort(-blocks, kind="stable")
    fewest = -(-int(blocks.sum()) // int(max(blocks.max(), 1)))

    def dealt(lanes: int) -> list[list[int]]:
        heap = [(0, lane) for lane in range(lanes)]
        held: list[list[int]] = [[] for _ in heap]
        for v in order:
            load, lane = heapq.heappop(heap)
            held[lane].append(int(v))
            heapq.heappush(heap, (load + int(blocks[v]), lane))
        return held

    def cost(held: list[list[int]]) -> float:
        return max(blocks[h].sum() for h in held) * (len(held) + STEP)

    most = n if most is None else most
    even = -(-n // -(-n // most))  # as many in every turn, where all are as long
    tries = {max(1, int(fewest * more)) for more in (1, 1.1, 1.25, 1.5)} | {n}
    tries = {even} | {min(lanes, n, most) for lanes in tries}
    held = min(map(dealt, sorted(tries)), key=cost)
    turns = max(int(max(blocks[h].sum() for h in held)), 1)
    node, block = np.full((turns, len(held)), n), np.zeros((turns, len(held)), np.int64)
    for lane, mine in enumerate(held):
        told = np.repeat(mine, blocks[mine]) if mine else np.zeros(0, np.int64)
        node[: len(told), lane] = told
        block[: len(told), lane] = np.concatenate([np.arange(blocks[v]) for v in mine] or [told])
    return _Lanes(node.astype(np.int32), block.astype(np.int32), steps)


def _coarse(shards: Shards) -> list[tuple[int, int, Shard]]:
    """Groups put together: from which, up to which, and their rows' weights in one length.

    What is computed of weights alone is cheap, and every shape is compiled by itself.
    """
    sizes = [g.shard.weight.shape[1] for g in shards.groups]

    def padded(shard: Shard, m: int) -> Shard:
        def wide(a: Array) -> Array:
            return jnp.pad(a, [(0, 0), (0, m - a.shape[1])] + [(0, 0)] * (a.ndim - 2))

        return Shard(*map(wide, without_rows(shard)))

    cuts, first = [], 0
    while first < len(sizes):
        upto = first + sum(m * COARSE >= sizes[first] for m in sizes[first:])
        some = [padded(g.shard, sizes[first]) for g in shards.groups[first:upto]]
        cuts.append((first, upto, _joined(some)))
        first = upto
    return cuts


def _most(carry: Tree) -> int:
    """How many nodes may work side by side: on a CPU those whose weights stay in its cache.

    A step of all nodes reads and writes the weights of all. Steps of a few nodes, one after the
    other until they are done, find them where the step before has left them. Two at least: one
    at a time took several times as long where nodes differ in length.
    """
    leaves = jax.tree.leaves(carry)
    n = leaves[0].shape[0]
    if jax.default_backend() != "cpu":
        return n
    return min(n, max(2, CACHE * n // sum(a.size * a.dtype.itemsize for a in leaves)))


def side_by_side(f: Batched, shards: Shards, args: Any) -> Tree:
    """Work in batches of all nodes, several at a time in lanes; a lane takes node after node."""
    shard = [g.shard for g in shards.groups]
    many = [len(g.nodes) for g in shards.groups]
    sizes = [s.weight.shape[1] for s in shard]
    ends = [0, *np.cumsum(many).tolist()]  # of groups, in nodes
    span = f.passes if f.after is None else 1  # passes that need nobody between them
    length = span * np.repeat([f.batches(m) for m in sizes], many)  # steps of each node
    size = np.repeat(sizes, many)
    start = np.cumsum(size) - size  # of each node in the table of all rows
    table = _joined([jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), s) for s in shard])
    total = table.weight.shape[0]
    coarse = [(ends[a], ends[b], seen) for a, b, seen in _coarse(shards)]
    given = _cut(_joined(by_group(shards, args)), [0, *(upto for _, upto, _ in coarse)])
    carry = _joined(
        [jax.vmap(f.begin)(*a, seen) for a, (_, _, seen) in zip(given, coarse, strict=True)]
    )
    lanes = _lanes(length, _most(carry))

    def drawn(first: int, upto: int, seen: Shard, carry: Tree, e: Any) -> Array:
        """Rows of the table for the steps of some nodes, [nodes x blocks, steps, batch]."""

        def one(begin: Array, mine: Array, now: Tree, rows: Shard) -> Array:
            places = jax.vmap(lambda p: f.places(now, e + p, rows))(jnp.arange(span))
            return jnp.where(places < mine, begin + places, total).astype(jnp.int32)

        now = jax.tree.map(lambda a: a[first:upto], carry)
        at = jnp.asarray(start[first:upto]), jnp.asarray(size[first:upto])
        places = jax.vmap(one)(*at, now, seen)  # [nodes, span, batches, batch]
        parts = []
        for v in range(first, upto):
            # nodes of one length together: as many batches of each pass as it has rows for
            if v > first and length[v] == length[v - 1]:
                continue
            same = int((length[first:upto] == length[v]).sum())
            part = places[v - first : v - first + same, :, : length[v] // span]
            part = part.reshape(same, length[v], f.batch)
            short = -length[v] % lanes.steps
            part = jnp.pad(part, [(0, 0), (0, short), (0, 0)], constant_values=total)
            parts.append(part.reshape(-1, lanes.steps, f.batch))
        return _joined(parts)

    blocks = -(-length // lanes.steps)
    busy = lanes.node < len(blocks)
    first_block = np.append(np.cumsum(blocks) - blocks, 0)
    which = np.where(busy, first_block[lanes.node] + lanes.block, 0)
    in_order = np.array_equal(lanes.node, np.arange(len(blocks))[None])  # a lane for each node

    def one_pass(e: Any, carry: Tree) -> Tree:
        listed = _joined([drawn(*group, carry, e) for group in coarse])

        def turn(k: Any, carry: Tree) -> Tree:
            nodes = jnp.asarray(lanes.node)[k]
            # nobody's lane repeats the last node, on no rows, and its result is dropped
            mine = jax.tree.map(lambda a: a[jnp.minimum(nodes, len(blocks) - 1)], carry)
            place = listed[jnp.asarray(which)[k]]
            place = jnp.where(jnp.asarray(busy)[k][:, None, None], place, total)
            mine, _ = jax.lax.scan(step, mine, jnp.swapaxes(place, 0, 1))
            return jax.tree.map(lambda a, new: a.at[nodes].set(new, mode="drop"), carry, mine)

        def step(now: Tree, at: Array) -> tuple[Tree, None]:
            return jax.vmap(lambda c, p: f.step(c, rows_at(table, p)))(now, at), None

        if in_order:
            carry, _ = jax.lax.scan(step, carry, jnp.swapaxes(listed, 0, 1))
        else:
            carry = jax.lax.fori_loop(0, len(lanes.node), turn, carry)
        if f.after is None:
            return carry
        after = jax.vmap(f.after)
        now = _cut(carry, ends)
        return _joined([after(c, s) for c, s in zip(now, shard, strict=True)])

    if f.after is None:
        carry = one_pass(0, carry)
    else:
        carry = jax.lax.fori_loop(0, f.passes, one_pass, carry)
    return regrouped(shards, _cut(jax.vmap(f.end)(carry), ends))


def _cut(tree: Tree, ends: list[int]) -> list[Tree]:
    """What each group has of arrays [n, ...] in the order of the groups."""
    return [jax.tree.map(lambda a, b=b, e=e: a[b:e], tree) for b, e in pairwise(ends)]


def _joined(parts: list[Tree]) -> Tree:
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *a: jnp.concatenate(a), *parts)
