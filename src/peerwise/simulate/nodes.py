"""One function for every node: all at once, in blocks, or one after the other.

What one node does is written for one node; here it is done for a network. Shards of like size are
held together (see `shards`), and so are their nodes. Work in batches (`core.Batched`) is done in
lanes: a node takes as many steps as it has batches, and whoever is next takes its lane over.
"""

import heapq
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array, Batched, Method, Shard, Tree, rows_at, without_rows
from peerwise.runtime import stage_key
from peerwise.shards import Shards

__all__ = ["Plan", "each", "each_shard", "keyed", "keys", "sealed"]

BLOCK = 512  # nodes that learn side by side on a CPU
TURNS = 32  # blocks of steps into which the longest training is cut where nodes differ in length
COARSE = 4  # times as many rows as others may a node have whose draws are made with theirs
STEP = 8  # what a step costs beside its nodes, in nodes


class Plan(NamedTuple):
    """What is fixed when the program is compiled."""

    method: Method
    stages: tuple[str, ...]
    exact: bool
    pages: int

    @property
    def sums_replies(self) -> bool:
        """Whether replies are summed as they come and never lie in an inbox."""
        return self.method.take is not None and not self.exact

    # two plans are the same program only if they hold the same functions
    def __hash__(self) -> int:
        return hash((*(id(f) for f in self.method), self.stages, self.exact, self.pages))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Plan)
            and self[1:] == other[1:]
            and all(a is b for a, b in zip(self.method, other.method, strict=True))
        )


def sealed(f: Callable[..., Tree]) -> Callable[..., Tree]:
    """f as a program of its own: nothing around it is fused into it and changes a last bit."""
    jitted = jax.jit(f)

    def sealed(*args: Any) -> Tree:
        return jax.lax.optimization_barrier(jitted(*jax.lax.optimization_barrier(args)))

    return sealed


def each(plan: Plan, f: Callable[..., Tree], *args: Any) -> Tree:
    """f for every entry along axis 0: all at once, or one after the other in exact mode."""
    if not plan.exact:
        return jax.vmap(f)(*args)
    alone = sealed(f)
    return jax.lax.map(lambda row: alone(*row), args)


def _in_blocks(f: Callable[..., Tree], *rows: Any) -> Tree:
    """f(*rows), on a CPU for a block of nodes after the other; the last may overlap the one before.

    What a block needs stays in the cache, and what it needs in between is never held for all.
    """
    n = jax.tree.leaves(rows)[0].shape[0]
    if n <= BLOCK or jax.default_backend() != "cpu":
        return f(*rows)
    blocks = -(-n // BLOCK)
    size = -(-n // blocks)

    def block(b: Any, done: Tree) -> Tree:
        at = jnp.minimum(b * size, n - size)
        new = f(*jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, at, size), rows))
        put = jax.lax.dynamic_update_slice_in_dim
        return jax.tree.map(lambda old, a: put(old, a, at, 0), done, new)

    blank = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(f, *rows))
    return jax.lax.fori_loop(0, blocks, block, blank)


def _regrouped(shards: Shards, parts: list[Tree]) -> Tree:
    """What every group has, in the order of the nodes."""
    if len(parts) == 1:
        return parts[0]
    place = jnp.argsort(jnp.concatenate([g.nodes for g in shards.groups]))
    return jax.tree.map(lambda a: a[place], _joined(parts))


def _by_group(shards: Shards, args: Tree) -> list[Tree]:
    """Arguments [n, ...] of the nodes of each group."""
    if len(shards.groups) == 1:
        return [args]
    return [jax.tree.map(lambda a, g=g: a[g.nodes], args) for g in shards.groups]


def each_shard(plan: Plan, f: Callable[..., Tree], shards: Shards, *args: Any) -> Tree:
    """f for every node with its shard, in the order of the nodes."""
    few = shards.n <= BLOCK or jax.default_backend() != "cpu"
    if isinstance(f, Batched) and few and not plan.exact:
        return _side_by_side(f, shards, args)
    one = partial(each, plan, f)
    if not plan.exact:
        one = partial(_in_blocks, one)
    mine = _by_group(shards, args)
    return _regrouped(shards, [one(*a, g.shard) for a, g in zip(mine, shards.groups, strict=True)])


class _Lanes(NamedTuple):
    """Who works in which lane: nodes of different lengths, dealt to few lanes of like length."""

    node: np.ndarray  # [turns, lanes] which node, n: nobody
    block: np.ndarray  # [turns, lanes] which of its blocks
    steps: int  # in a block


def _lanes(lengths: np.ndarray) -> _Lanes:
    """Lanes for nodes of so many steps each: the longest first, each to the shortest lane.

    A step costs as much as it would with `STEP` nodes more, however few there are: fewer steps
    are worth some idle lanes. Nodes change places after blocks of steps, `TURNS` times at most
    in the longest node.

    >>> lanes = _lanes(np.array([6, 3, 3, 2]))
    >>> lanes.node.tolist(), lanes.steps
    ([[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 3, 4], [0, 3, 4], [0, 4, 4]], 1)
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

    tries = {min(n, max(1, int(fewest * more))) for more in (1, 1.1, 1.25, 1.5)} | {n}
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


def _side_by_side(f: Batched, shards: Shards, args: Any) -> Tree:
    """Work in batches of all nodes, several at a time in lanes; a lane takes node after node."""
    shard = [g.shard for g in shards.groups]
    many = [len(g.nodes) for g in shards.groups]
    sizes = [s.weight.shape[1] for s in shard]
    ends = [0, *np.cumsum(many).tolist()]  # of groups, in nodes
    span = f.passes if f.after is None else 1  # passes that need nobody between them
    length = span * np.repeat([f.batches(m) for m in sizes], many)  # steps of each node
    lanes = _lanes(length)
    size = np.repeat(sizes, many)
    start = np.cumsum(size) - size  # of each node in the table of all rows
    table = _joined([jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), s) for s in shard])
    total = table.weight.shape[0]
    coarse = [(ends[a], ends[b], seen) for a, b, seen in _coarse(shards)]

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

    given = _cut(_joined(_by_group(shards, args)), [0, *(upto for _, upto, _ in coarse)])
    carry = _joined(
        [jax.vmap(f.begin)(*a, seen) for a, (_, _, seen) in zip(given, coarse, strict=True)]
    )
    if f.after is None:
        carry = one_pass(0, carry)
    else:
        carry = jax.lax.fori_loop(0, f.passes, one_pass, carry)
    return _regrouped(shards, _cut(jax.vmap(f.end)(carry), ends))


def _cut(tree: Tree, ends: list[int]) -> list[Tree]:
    """What each group has of arrays [n, ...] in the order of the groups."""
    return [jax.tree.map(lambda a, b=b, e=e: a[b:e], tree) for b, e in pairwise(ends)]


def _joined(parts: list[Tree]) -> Tree:
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *a: jnp.concatenate(a), *parts)


def keys(key: Array, stage: int, t: Any, n: int) -> Array:
    """The keys of n nodes for one thing in round t, as raw data."""
    return jax.vmap(lambda i: jax.random.key_data(stage_key(key, stage, t, i)))(jnp.arange(n))


def keyed(f: Callable[..., Tree]) -> Callable[..., Tree]:
    """f called with raw key data: compiled barriers do not take typed keys."""
    if isinstance(f, Batched):
        return replace(f, begin=keyed(f.begin))
    return lambda data, *args: f(jax.random.wrap_key_data(data), *args)
