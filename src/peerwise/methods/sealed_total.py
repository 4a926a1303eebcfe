"""One sealed sum of whatever nodes count: what a network agrees on before it learns.

TAN's structure, center and scale, and which features tell most, are functions of a sum over all
rows. The sum is sealed, with the network's noise in it under a budget; whatever all derive from it
is the same at every node.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array, Method, Shard, State, Tree
from peerwise.errors import BadData
from peerwise.methods import words
from peerwise.methods.aligned import Aligned
from peerwise.methods.private_crc import noise_multiplier
from peerwise.methods.sealed import Sealed, Trust
from peerwise.privacy.budget import Budget
from peerwise.privacy.shares import bits_for, honest_members, shared_noise
from peerwise.privacy.sums import MOST

BLOCK = 1 << 10  # rows at a time, which keeps memory small


def deviation(budget: Budget, reach: float) -> float:
    """Of the noise in one sum of all nodes that a row moves by `reach`, in the L2 norm."""
    multiplier = noise_multiplier(budget.epsilon, budget.delta, 1)
    return multiplier * reach * budget.rows / budget.share**0.5


@cache
def sealed_total(
    count: Callable[[Shard], Tree],
    like: Any,
    budget: Budget,
    reach: float,
    nodes: int,
    trust: Trust,
) -> Method:
    """Every node ends with the sum of `count(shard)` over all nodes, with noise: see `total_of`.

    `like` is the shape of a count: `jax.tree_util.tree_structure` and shapes, see `shape_of`. One
    row moves all of a count by `reach` at most, in the L2 norm.
    """
    _, shapes = like
    size = sum(int(np.prod(shape)) for shape in shapes)
    # all members are in it, whatever `least` says: in its few rounds no other sum could follow
    honest = honest_members(nodes, trust.honest, nodes)
    # rounding to the grid moves every number of a row by half a step: by wide / 2^bits at most
    wide = reach / (1 - size**0.5 * 2.0 ** -bits_for(nodes))
    std = deviation(budget, wide)
    grid = shared_noise(np.full(size, wide), np.full(size, std), nodes, honest)

    def steps(state: State, shard: Shard) -> Array:
        counts = _flat(count(shard))
        return counts / jnp.asarray(grid.step, counts.dtype)

    def exact(state: State, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if len(y) > MOST:
            raise BadData(f"at most {MOST} rows can be summed exactly, got {len(y)}")
        total = np.zeros(size)
        for begin in range(0, len(y), BLOCK):
            part = slice(begin, begin + BLOCK)
            total += np.rint(_each_row(count, x[part], y[part]) / grid.step).sum(0)
        return total

    def learn(state: State) -> State:
        return state

    def start(shard: Shard) -> tuple[Tree, Tree]:
        return {}, {}

    def predict(key: Array, value: Tree, x: Array) -> Any:
        raise NotImplementedError("a sum predicts nothing")

    sealed = Sealed(Aligned(nodes, size, 1, nodes), grid, learn, steps, exact)
    return sealed.method(start, predict)


def total_of(method: Method, value: Tree) -> np.ndarray | None:
    """The total of a node [size] in double precision, the same bits at all; None before it."""
    sealed: Any = method.adapt
    sums = value["sums"]
    if not int(sums["done"]):
        return None
    total: np.ndarray = words.as_integers(np.asarray(sums["total"])).astype(np.int64)
    return total * sealed.grid.step


def nothing(method: Method) -> np.ndarray:
    """A total of which nothing was counted."""
    sealed: Any = method.adapt
    return np.zeros(sealed.sums.size)


def noise_of(method: Method) -> float:
    """The deviation of the noise in a total, with the shares of all nodes."""
    sealed: Any = method.adapt
    return float(np.sqrt(sealed.grid.share.max(initial=0) * sealed.sums.nodes))


def _flat(counts: Tree) -> Array:
    return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(counts)])


@cache
def _rows(count: Callable[[Shard], Tree]) -> Any:
    def one(x: Array, y: Array) -> Array:
        weight = (y >= 0).astype(x.dtype)
        return _flat(count(Shard(x[None], y[None], weight[None])))

    return jax.jit(jax.vmap(one))


def _each_row(count: Callable[[Shard], Tree], x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What each row adds to a count [m, size], in double precision and by itself."""
    with jax.enable_x64(True):
        return np.asarray(_rows(count)(jnp.asarray(x, jnp.float64), jnp.asarray(y, jnp.int32)))


def shape_of(count: Callable[[Shard], Tree], features: int) -> Any:
    """The shape of a count, as `sealed_total` takes it."""
    kinds = jnp.float32, jnp.int32, jnp.float32
    parts = zip(((1, features), (1,), (1,)), kinds, strict=True)
    shape = jax.eval_shape(count, Shard(*(jax.ShapeDtypeStruct(*part) for part in parts)))
    leaves, tree = jax.tree.flatten(shape)
    return tree, tuple(leaf.shape for leaf in leaves)


def unflat(like: Any, total: np.ndarray) -> Tree:
    """A total of all counts as `count` gives them."""
    tree, shapes = like
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
    parts = np.split(np.asarray(total), ends)
    return tree.unflatten([a.reshape(shape) for a, shape in zip(parts, shapes, strict=True)])
