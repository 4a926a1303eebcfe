"""The vocabulary: what one node of a network does, as pure functions.

A method is written once, for one node. It never sees its own index, a clock, the graph or a socket.
A round is: send `message` (and `reply`), hear an `Inbox`, `combine`, `adapt`.
`simulate`, `walk` and real peers run the same functions.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import SingleDeviceSharding

__all__ = [
    "NUMERICS",
    "Array",
    "Batched",
    "Chart",
    "Gaussian",
    "Inbox",
    "Links",
    "Mean",
    "Message",
    "Method",
    "Range",
    "Shard",
    "Slots",
    "State",
    "Tree",
    "node_key",
    "rows_at",
    "without_rows",
]

# Raise it when a change makes the same description give other numbers: kept cells then run again
NUMERICS = 3

_ALIGNED = 64  # bytes: JAX uses an array in place, without a copy, if it begins at a multiple

Array: TypeAlias = Any  # a NumPy or JAX array
Tree: TypeAlias = Any  # arrays in nested tuples, lists and dicts


class Shard(NamedTuple):
    """The rows of one node, padded when built; weight 0 marks padding."""

    x: Array  # [m, d]
    y: Array  # [m] class codes
    weight: Array  # [m]


class State(NamedTuple):
    """What a node keeps from round to round."""

    value: Tree  # what combine changes and predict reads
    memory: Tree  # private to the node


class Message(NamedTuple):
    """What a node tells all its neighbours."""

    value: Tree
    note: dict[str, Array]  # scalars that the sender attaches (its data size, its loss)


class Gaussian(NamedTuple):
    """The posterior of a model's weights: an independent Gaussian for each weight."""

    mean: Array
    log_variance: Array


class Inbox(NamedTuple):
    """What a node has heard: a slot per neighbour, in a fixed order (arrival order for pushes)."""

    value: Tree  # [k, ...] the newest heard in each slot; arbitrary (even NaN) where weight is 0
    note: dict[str, Array]  # [k] each
    weight: Array  # [k] link weight (trust, Metropolis, share); 0 = nothing there
    age: Array  # [k] rounds since it was sent; 0 = this round, -1 = never
    part: Tree = None  # [k, ...] or None: what a neighbour's `reply` addressed to me
    link: Array = None  # [k] link weight, even if nothing arrived; 0 = no neighbour in the slot


class Links(NamedTuple):
    """Who hears whom this round: directed, sorted by dst, of fixed length; weight 0 = nothing."""

    src: Array  # [e]
    dst: Array  # [e]
    weight: Array  # [e]
    age: Array  # [e]


def _same(value: Tree) -> Tree:
    return value


def _replace(own: Tree, mean: Tree) -> Tree:
    return mean


class Chart(NamedTuple):
    """The coordinates in which the plain weighted mean is the right mean."""

    to: Callable[[Tree], Tree] = _same
    back: Callable[[Tree], Tree] = _same
    # exponent of the weights: one number, one per leaf of the charted value, or a function of it
    power: Any = 1


class Mean(NamedTuple):
    """A combination rule in three moves: weigh, average in a chart, step.

    The runtime computes sum(w x) / sum(w); a node whose weights are all 0 keeps its own value.
    """

    weigh: Callable[
        [dict[str, Array], Inbox], tuple[Array, Array]
    ]  # own note, inbox -> w_self, w[k]
    chart: Chart = Chart()
    step: Callable[[Tree, Tree], Tree] = _replace  # own, mean -> value
    total: bool = False  # True: the weighted sum instead of the mean (push-sum)


class Slots(NamedTuple):
    """A combination rule that needs every slot: median, trimmed mean, Krum.

    With `weigh` (as of a `Mean`) the rule is also given the share of each slot and, last, of the
    node itself [k + 1]. Shares sum to one; a slot of share 0 must not count. A node whose other
    shares are all 0 keeps its own value.
    """

    rule: Callable[..., Tree]  # own value, inbox -> value; with weigh: own, inbox, shares -> value
    weigh: Callable[[dict[str, Array], Inbox], tuple[Array, Array]] | None = None


@dataclass(frozen=True, eq=False)
class Batched:
    """A node's function (`init`, `adapt` or `reply`) as steps over batches of its rows.

    Calling it takes all steps of one node in turn. A runtime with many nodes instead interleaves
    steps of several nodes, so that the cost follows their rows and not the padding. `begin` and
    `draw` see the weights of the rows but not the rows (x is [m, 0]), and their results must not
    depend on the amount of padding.
    """

    begin: Callable[..., Tree]  # the arguments of the whole function -> carry
    draw: Callable[[Tree, Array, Shard], Array]  # carry, pass, shard -> row numbers, in order
    step: Callable[[Tree, Shard], Tree]  # carry, the rows of one batch -> carry
    end: Callable[[Tree], Tree]  # carry -> result
    batches: Callable[[int], int]  # rows of a (padded) shard -> batches in a pass
    batch: int  # rows in a batch
    passes: int = 1
    after: Callable[[Tree, Shard], Tree] | None = None  # carry, shard -> carry, after each pass

    def places(self, carry: Tree, e: Array | int, shard: Shard) -> Array:
        """Row numbers of the batches of pass e [batches, batch]; one past the rows is padding."""
        m = shard.weight.shape[0]
        return self.draw(carry, e, shard).reshape(self.batches(m), self.batch)

    def __call__(self, *args: Any) -> Tree:
        """The result of all steps of one node; the arguments are those of `begin`."""
        shard = next(a for a in args if isinstance(a, Shard))
        seen = without_rows(shard)

        def one_pass(e: Any, carry: Tree) -> Tree:
            places = self.places(carry, e, seen)
            carry, _ = jax.lax.scan(
                lambda c, place: (self.step(c, rows_at(shard, place)), None), carry, places
            )
            return carry if self.after is None else self.after(carry, shard)

        begun = self.begin(*(seen if a is shard else a for a in args))
        return self.end(jax.lax.fori_loop(0, self.passes, one_pass, begun))


def without_rows(shard: Shard) -> Shard:
    """The shard with the weights and types of its rows, but not their contents."""
    return Shard(shard.x[..., :0], jnp.zeros_like(shard.y), shard.weight)


def rows_at(rows: Shard, place: Array) -> Shard:
    """Some rows of a table; a place past its end gives zeros of weight 0."""
    m = rows.weight.shape[0]
    at, there = jnp.minimum(place, m - 1), place < m

    def picked(a: Array) -> Array:  # `where`, because 0 * NaN is NaN
        return jnp.where(there.reshape(there.shape + (1,) * (a.ndim - 1)), a[at], 0)

    return Shard(*map(picked, rows))


class Range(NamedTuple):
    """The range of numbers that an honest node sends in leaves whose path ends with `name`.

    A path is dotted, as in "note.size" or "part.nodes".
    """

    name: str
    least: float = -np.inf
    most: float = np.inf


class Method(NamedTuple):
    """What one node does.

    `reply` (optional) makes what a node says to one neighbour alone, from that neighbour's slot
    in the node's inbox of the round before (an `Inbox` without axis k). With `take`, a node gets
    only the sum of the replies, weighted by link, after `combine`. Without `take`, the newest reply
    of each neighbour is the inbox's `part`; `believe` (optional) makes that part from the part
    before (zeros at first) and the new reply. `init`, `adapt` and `reply` may be `Batched`.
    With `common`, `init` gets two keys: the node's own, and one that all nodes of a repetition
    share. With `numbered` (and not `common`) the second key holds the node's number (`number_of`),
    for methods whose nodes must know who takes part. `ranges`: what real peers accept from each
    other, e.g. counts and ages that are not negative.
    """

    init: Callable[[Array, Shard], State]  # key, shard -> state
    message: Callable[[Array, State], Message]  # key, state -> message, heard by all neighbours
    combine: Mean | Slots
    adapt: Callable[[Array, State, Shard], State]  # key, state, shard -> state
    predict: Callable[[Array, Tree, Array], Array]  # key, value, x[m, d] -> log p(y|x) [m, c]
    reply: Callable[[State, Shard, Inbox], Tree] | None = None  # state, shard, heard -> part
    take: Callable[[State, Tree], State] | None = None  # state, sum of weight x part -> state
    believe: Callable[[Tree, Tree], Tree] | None = None  # part before, part new -> part kept
    common: bool = False  # whether `init` also gets a key that all nodes share
    ranges: tuple[Range, ...] = ()  # of the numbers in a message and a reply
    numbered: bool = False  # whether `init` is told the node's number


def node_key(key: Array, t: Array | int, i: Array | int) -> Array:
    """The key of node i in round t: it does not depend on how many nodes share a machine."""
    return jax.random.fold_in(jax.random.fold_in(key, t), i)


def number_of(keys: Array) -> Array:
    """A node's number, from the keys of a `numbered` method's `init`."""
    return jax.random.key_data(keys[1])[-1]


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An empty array, aligned so that JAX on a CPU uses it without a copy."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    held = np.empty(size + _ALIGNED, np.uint8)
    start = -held.ctypes.data % _ALIGNED
    return held[start : start + size].view(dtype).reshape(shape)


def on_host(tree: Tree, dtype: Any = None) -> Tree:
    """The arrays of a tree in the host's memory; a program moves to the device what it needs.

    Real numbers are converted to `dtype`, if given. On a CPU, host and device memory are the same.
    """
    place = SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")

    def put(a: Array) -> Array:
        real = dtype is not None and np.issubdtype(a.dtype, np.floating)
        return jax.device_put(np.asarray(a, dtype if real else None), place)

    return jax.tree.map(put, tree)


def near(tree: Tree) -> Tree:
    """The arrays of a tree in the device's memory, moved there within a program if necessary."""

    def moved(a: Array) -> Array:
        away = getattr(jax.typeof(a), "memory_space", None) == jax.memory.Space.Host
        return jax.device_put(a, jax.memory.Space.Device) if away else a

    return jax.tree.map(moved, tree)


def on_device(array: Array, dtype: Any = None) -> Array:
    """A JAX array with the same numbers, of `dtype` if given; a NumPy array is copied.

    `jnp.asarray` would compile a program for every new shape of a NumPy array.
    """
    if isinstance(array, jax.Array):
        return jnp.asarray(array, dtype)
    return jax.device_put(np.array(array, dtype))
