"""One function for every node: all at once, in blocks, or one after the other.

What one node does is written for one node; here it is done for a network. Shards of like size are
held together (see `shards`), and so are their nodes; work in batches goes in `lanes`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from peerwise.core import Array, Batched, Method, Tree, near
from peerwise.runtime import init_key, stage_key
from peerwise.shards import Shards
from peerwise.simulate.lanes import by_group, regrouped, side_by_side

BLOCK = 512  # nodes that learn side by side on a CPU: as many as fit into its cache
LARGE_BLOCK = 1 << 17  # on a GPU: what they need on the way stays small beside their values
MOVED = 1 << 29  # bytes of a block that is moved from the host's memory to a device


class Blocks(NamedTuple):
    """How many nodes work side by side, whatever their number."""

    groups: tuple[int, ...]  # of each group of shards
    buckets: tuple[int, ...]  # of each bucket of slots
    links: int  # links that are answered side by side

    @property
    def most(self) -> int:
        """The largest of them."""
        return max(self.groups)


class Plan(NamedTuple):
    """What is fixed when the program is compiled."""

    method: Method
    stages: tuple[str, ...]
    exact: bool
    pages: int
    blocks: Blocks | None = None  # None: as many side by side as are fast
    host: bool = False  # the rows lie in the host's memory, from where blocks of them are moved

    @property
    def sums_replies(self) -> bool:
        """Whether replies are summed as they come and never lie in an inbox."""
        return self.method.take is not None and not self.exact

    # two plans are the same program only if they hold the same functions
    def __hash__(self) -> int:
        return hash((*(id(f) for f in self.method), *self[1:]))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Plan)
            and self[1:] == other[1:]
            and all(a is b for a, b in zip(self.method, other.method, strict=True))
        )


def sealed(f: Callable[..., Tree]) -> Callable[..., Tree]:
    """f as a program of its own, into which nothing around it is fused: no last bit changes."""
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


def in_blocks(
    f: Callable[..., Tree], *rows: Any, size: int | None = None, host: bool = False
) -> Tree:
    """f(*rows), one block of nodes after the other; the last may overlap the one before.

    The intermediate results of a block are never held for all nodes. With blocks of a given `size`,
    bits do not depend on how many nodes there are. Rows that lie in the memory of the `host` are
    moved block by block.
    """
    n, most = jax.tree.leaves(rows)[0].shape[0], BLOCK
    if jax.default_backend() != "cpu":
        most = _fitting(rows) if host else LARGE_BLOCK
    if size is None and n <= most:
        return f(*near(rows))
    blocks: Any = -(-n // (size or most))
    if size is None:
        size = -(-n // blocks)
    else:  # XLA would not make a loop of a single block
        blocks = jax.lax.optimization_barrier(jnp.int32(blocks))

    def block(b: Any, done: Tree) -> Tree:
        at = jnp.minimum(b * size, n - size)
        new = f(*near(jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, at, size), rows)))
        put = jax.lax.dynamic_update_slice_in_dim
        return jax.tree.map(lambda old, a: put(old, a, at, 0), done, new)

    near_by = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), rows)
    blank = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(f, *near_by))
    return jax.lax.fori_loop(0, blocks, block, blank)


def _fitting(rows: Any) -> int:
    """How many nodes' arguments and rows make a block of `MOVED` bytes."""
    leaves = jax.tree.leaves(rows)
    whole = sum(a.size * a.dtype.itemsize for a in leaves)
    return max(1, int(MOVED * leaves[0].shape[0] / max(whole, 1)))


def apart(t: Any, f: Callable[[], Tree], like: Tree) -> Tree:
    """f() computed once: XLA fuses an operation into each of its users, which compute it again.

    On a CPU a barrier does not hold it back, but a choice does, as long as XLA cannot know that
    there is none: no round t is below 0.
    """
    if jax.default_backend() == "cpu":
        return jax.lax.cond(t >= 0, f, lambda: jax.tree.map(jnp.zeros_like, like))
    return jax.lax.optimization_barrier(f())


def each_shard(plan: Plan, f: Callable[..., Tree], shards: Shards, *args: Any) -> Tree:
    """f for every node with its shard, in the order of the nodes."""
    on_cpu = jax.default_backend() == "cpu"
    few = shards.n <= BLOCK if on_cpu else not plan.host
    if isinstance(f, Batched) and few and not plan.exact and not plan.blocks:
        return side_by_side(f, near(shards), args)
    if plan.exact:
        shards = near(shards)
    one = partial(each, plan, f)
    sizes = plan.blocks.groups if plan.blocks else (None,) * len(shards.groups)
    done = []
    for given, group, size in zip(by_group(shards, args), shards.groups, sizes, strict=True):
        rows = (*given, group.shard)
        done.append(one(*rows) if plan.exact else in_blocks(one, *rows, size=size, host=plan.host))
    return regrouped(shards, done)


def keys(key: Array, stage: int, t: Any, nodes: Array) -> Array:
    """The keys of nodes, given by their numbers, for one thing in round t, as raw data."""
    return jax.vmap(lambda i: jax.random.key_data(stage_key(key, stage, t, i)))(nodes)


def first_keys(method: Method, key: Array, nodes: Array) -> Array:
    """The keys with which nodes begin, as raw data."""
    kinds = method.common, method.numbered
    return jax.vmap(lambda i: jax.random.key_data(init_key(key, i, *kinds)))(nodes)


def keyed(f: Callable[..., Tree]) -> Callable[..., Tree]:
    """f called with raw key data: compiled barriers do not take typed keys."""
    if isinstance(f, Batched):
        return replace(f, begin=keyed(f.begin))
    return lambda data, *args: f(jax.random.wrap_key_data(data), *args)
