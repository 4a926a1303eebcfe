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

# Raised whenever the same description gives other numbers: what was kept before is run again
NUMERICS = 3

_ALIGNED = 64  # bytes: an array that begins at a multiple of it is taken over as it is

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
    """The posterior of some weights: independent Gaussians where other models have numbers."""

    mean: Array
    log_variance: Array


class Inbox(NamedTuple):
    """What a node has heard: a slot per neighbour, in a fixed order (arrival order for pushes)."""

    value: Tree  # [k, ...] the newest heard in each slot; anything at all where weight is 0
    note: dict[str, Array]  # [k] each
    weight: Array  # [k] link weight (trust, Metropolis, share); 0 = nothing there
    age: Array  # [k] rounds since it was sent; 0 = this round, -1 = never
    part: Tree = None  # [k, ...] or None: what a neighbour's `reply` addressed to me
    link: Array = None  # [k] link weight, whether or not anything arrived; 0 = no neighbour there


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
    """What a node does (`init`, `adapt` or `reply`) as steps over batches of its rows.

    Called, it takes the steps one after the other. A runtime that holds many nodes takes steps of
    several at once, so that they cost what their rows cost and no padding. `begin` and `draw` see
    the weights of the rows and not the rows (x is [m, 0]), and more padding must not change what
    they give.
    """

    begin: Callable[..., Tree]  # the arguments of what it stands for -> carry
    draw: Callable[[Tree, Array, Shard], Array]  # carry, pass, shard -> places of the rows, in turn
    step: Callable[[Tree, Shard], Tree]  # carry, the rows of one batch -> carry
    end: Callable[[Tree], Tree]  # carry -> result
    batches: Callable[[int], int]  # rows of a (padded) shard -> batches in a pass
    batch: int  # rows in a batch
    passes: int = 1
    after: Callable[[Tree, Shard], Tree] | None = None  # carry, shard -> carry, after each pass

    def places(self, carry: Tree, e: Array | int, shard: Shard) -> Array:
        """Which rows are in the batches of pass e [batches, batch]; past the rows is padding."""
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

    def picked(a: Array) -> Array:  # not a product with 0, which leaves NaN as it is
        return jnp.where(there.reshape(there.shape + (1,) * (a.ndim - 1)), a[at], 0)

    return Shard(*map(picked, rows))


class Range(NamedTuple):
    """Numbers that an honest node may send: those of all leaves whose path ends with a name.

    A path is dotted, as in "note.size" or "part.nodes".
    """

    name: str
    least: float = -np.inf
    most: float = np.inf


class Method(NamedTuple):
    """What one node does.

    `reply`, where a method has one, is what a node says to one neighbour alone; it is given the
    slot of that neighbour in the node's inbox of the round before (an `Inbox` without axis k).
    With `take`, a node is given only the sum of the replies, weighted by link, after `combine`.
    Without it, each neighbour's newest reply lies in the inbox as `part`; `believe`, where a method
    has one, makes that part from the one before (zeros at first) and the new reply.
    `init`, `adapt` and `reply` may be `Batched`. With `common`, the key of `init` is two: the
    node's own, and one that is the same at all nodes and another in every repetition. With
    `numbered` (and not `common`) the second holds the node's number, see `number_of`: for methods
    whose nodes must know who takes part. `ranges` says what real peers take from each other:
    counts and ages that are not negative, variances
    within reach.
    """

    init: Callable[[Array, Shard], State]  # key, shard -> state
    message: Callable[[Array, State], Message]  # key, state -> message, heard by all neighbours
    combine: Mean | Slots
    adapt: Callable[[Array, State, Shard], State]  # key, state, shard -> state
    predict: Callable[[Array, Tree, Array], Array]  # key, value, x[m, d] -> log p(y|x) [m, c]
    reply: Callable[[State, Shard, Inbox], Tree] | None = None  # state, shard, heard -> part
    take: Callable[[State, Tree], State] | None = None  # state, sum of weight x part -> state
    believe: Callable[[Tree, Tree], Tree] | None = None  # part before, part new -> part kept
    common: bool = False  # whether nodes begin with something that they share
    ranges: tuple[Range, ...] = ()  # of the numbers in a message and a reply
    numbered: bool = False  # whether nodes are told their number


def node_key(key: Array, t: Array | int, i: Array | int) -> Array:
    """The key of node i in round t: it does not depend on how many nodes share a machine."""
    return jax.random.fold_in(jax.random.fold_in(key, t), i)


def number_of(keys: Array) -> Array:
    """A node's number, from the keys of a `numbered` method's `init`."""
    return jax.random.key_data(keys[1])[-1]


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array to be filled; where JAX computes on a CPU it takes it over without a copy."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    held = np.empty(size + _ALIGNED, np.uint8)
    start = -held.ctypes.data % _ALIGNED
    return held[start : start + size].view(dtype).reshape(shape)


def on_host(tree: Tree, dtype: Any = None) -> Tree:
    """The arrays of a tree in the host's memory, from where a program moves what it needs.

    Real numbers in `dtype`, if one is given. On a CPU it is the same memory under another name.
    """
    place = SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")

    def put(a: Array) -> Array:
        real = dtype is not None and np.issubdtype(a.dtype, np.floating)
        return jax.device_put(np.asarray(a, dtype if real else None), place)

    return jax.tree.map(put, tree)


def near(tree: Tree) -> Tree:
    """The arrays of a tree in the device's memory: within a program, moved there if need be."""

    def moved(a: Array) -> Array:
        away = getattr(jax.typeof(a), "memory_space", None) == jax.memory.Space.Host
        return jax.device_put(a, jax.memory.Space.Device) if away else a

    return jax.tree.map(moved, tree)


def on_device(array: Array, dtype: Any = None) -> Array:
    """The array as JAX's, of `dtype` if one is given; NumPy's is copied as it is.

    `jnp.asarray` would compile a program for every new shape of NumPy's arrays.
    """
    if isinstance(array, jax.Array):
        return jnp.asarray(array, dtype)
    return jax.device_put(np.array(array, dtype))
