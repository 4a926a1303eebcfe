"""The exact sum of what all nodes hold, known to every node, by neighbours alone.

What a network must agree upon before it learns (TAN's structure, a common center and scale) is a
function of a sum over all rows. Averaging is inexact; here the sum is exact, and the same number
at every node: the nodes agree on a breadth-first tree, add up along it, and hand the total down.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from peerwise.combine.weigh import equal
from peerwise.core import Array, Inbox, Message, Method, Range, Shard, Slots, State, Tree


@cache
def total(count: Callable[[Shard], Tree], ranges: tuple[Range, ...] = ()) -> Method:
    """Every node ends with the sum of `count(shard)` over all nodes, in its value's "total".

    A node's name is a random number. The smallest that a node has heard of is its root, its parent
    the first neighbour that is nearest to the root. It sends its neighbours the sum of itself and
    of those that name it as their parent, and the total that it got from its parent. On a fixed
    connected graph with links both ways and no loss, all have the total after 3 x diameter rounds.
    Sums of counts below 2^24 (2^53 in float64) are exact; all nodes end with the root's number.
    `ranges` are those of what is summed.
    """

    def init(key: Array, shard: Shard) -> State:
        own = count(shard)
        name = jax.random.bits(key, (), jnp.uint32)
        zero = jnp.zeros((), jnp.int32)
        tree = {"name": name, "root": name, "steps": zero, "parent": name}
        return State({**tree, "own": own, "below": own, "total": own}, {})

    def message(key: Array, state: State) -> Message:
        return Message({k: v for k, v in state.value.items() if k != "own"}, {})

    def rule(own: dict[str, Tree], inbox: Inbox) -> dict[str, Tree]:
        heard, sent = inbox.weight > 0, inbox.value
        far = jnp.iinfo(jnp.int32).max
        name = own["name"]
        root = jnp.where(heard, sent["root"], name).min(initial=name)
        steps = jnp.where(heard & (sent["root"] == root), sent["steps"], far - 1)
        nearest = steps.argmin()
        is_root = root == name
        parent = jnp.where(is_root, name, sent["name"][nearest])
        children = heard & (sent["parent"] == name) & (sent["name"] != name)
        below = jax.tree.map(lambda a, b: a + _where(children, b).sum(0), own["own"], sent["below"])
        above = jax.tree.map(lambda a: a[nearest], sent["total"])
        return {
            "name": name,
            "root": root,
            "steps": jnp.where(is_root, 0, steps[nearest] + 1),
            "parent": parent,
            "own": own["own"],
            "below": below,
            "total": jax.tree.map(lambda a, b: jnp.where(is_root, a, b), below, above),
        }

    ranges = (Range("value.steps", 0, 2**30), *ranges)
    return Method(init, message, Slots(rule), _stay, _silent, ranges=ranges)


@cache
def server_total(count: Callable[[Shard], Tree]) -> Method:
    """As `total`, in one round on `topology.server`, which adds up and sends the sum to all."""

    def init(key: Array, shard: Shard) -> State:
        return State({"total": count(shard)}, {})

    def message(key: Array, state: State) -> Message:
        return Message(state.value, {})

    return Method(init, message, equal()._replace(total=True), _stay, _silent)


def _where(keep: Array, values: Array) -> Array:
    return jnp.where(keep.reshape(-1, *[1] * (values.ndim - 1)), values, 0)


def _stay(key: Array, state: State, shard: Shard) -> State:
    return state


def _silent(key: Array, value: Tree, x: Array) -> Any:
    raise NotImplementedError("a sum predicts nothing")
