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

BLOCK = 512  # nodes that learn side by side on a CPU
MOVED = 1 << 29  # bytes of a block that is moved from the host's memory to a device


class Plan(NamedTuple):
    """What is fixed when the program is compiled."""

    method: Method
    stages: tuple[str, ...]
    exact: bool
    pages: int
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


def _in_blocks(f: Callable[..., Tree], *rows: Any, host: bool = False) -> Tree:
    """f(*rows), on a CPU one block of nodes after the other; the last may overlap the one before.

    A block fits into the cache, and its intermediate results are never held for all nodes. Rows
    that lie in the memory of the `host` are moved block by block, elsewhere than on a CPU, too.
    """
    n, most = jax.tree.leaves(rows)[0].shape[0], BLOCK
    if jax.default_backend() != "cpu":
        most = _fitting(rows) if host else n
    if n <= most:
        return f(*near(rows))
    blocks = -(-n // most)
    size = -(-n // blocks)

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


def each_shard(plan: Plan, f: Callable[..., Tree], shards: Shards, *args: Any) -> Tree:
    """f for every node with its shard, in the order of the nodes."""
    on_cpu = jax.default_backend() == "cpu"
    few = shards.n <= BLOCK if on_cpu else not plan.host
    if plan.exact or (isinstance(f, Batched) and few):
        shards = near(shards)
    if isinstance(f, Batched) and few and not plan.exact:
        return side_by_side(f, shards, args)
    one = partial(each, plan, f)
    if not plan.exact:
        one = partial(_in_blocks, one, host=plan.host)
    given = by_group(shards, args)
    return regrouped(shards, [one(*a, g.shard) for a, g in zip(given, shards.groups, strict=True)])


def keys(key: Array, stage: int, t: Any, n: int) -> Array:
    """The keys of n nodes for one thing in round t, as raw data."""
    return jax.vmap(lambda i: jax.random.key_data(stage_key(key, stage, t, i)))(jnp.arange(n))


def first_keys(method: Method, key: Array, n: int) -> Array:
    """The keys with which n nodes begin, as raw data."""
    return jax.vmap(lambda i: jax.random.key_data(init_key(key, i, method.common)))(jnp.arange(n))


def keyed(f: Callable[..., Tree]) -> Callable[..., Tree]:
    """f called with raw key data: compiled barriers do not take typed keys."""
    if isinstance(f, Batched):
        return replace(f, begin=keyed(f.begin))
    return lambda data, *args: f(jax.random.wrap_key_data(data), *args)
