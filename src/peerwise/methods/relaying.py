"""Sums over a whole network, relayed between neighbours along a tree on which the nodes agree.

A node sends a neighbour the newest sum of itself and of all that lies behind its other neighbours.
On a tree every node's number reaches every other exactly once, late by their distance. What is sent
is the whole sum and not its change: a lost message only delays. On any other graph the nodes first
agree on a breadth-first tree from the smallest of random names, and links that are not in it carry
the agreement alone. A tree that changes needs no bookkeeping: the sums are computed anew every
round from what each node keeps, and are exact again after as many stable rounds as its diameter.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array, Inbox, Message, Range, Shard, State, Tree

# Rounds of silence after which a link counts as gone. The nodes behind it then drop out of the
# sum, which is worse than a late sum: hence a long wait. A node back before its end costs nothing.
PATIENCE = 64
# Rounds by which a clock may catch up in a round. A liar's clock moves those of others by no more,
# so that they still hear each other.
CATCH_UP = PATIENCE // 2
UNROLLED = 16  # slots added one by one on a GPU, which is faster up to about this many
FAR = 2**30  # more steps than any path has
# of the parts that neighbours send, whatever is summed in them
RANGES = (
    *(Range(f"part.{name}", 0) for name in ("nodes", "ages", "news", "clock")),
    Range("part.steps", 0, FAR),
)

# what a node tells its neighbours of its place in the tree
PLACE = ("name", "root", "parent", "steps", "news", "clock")

Relay = dict[str, Any]


def begin(key: Array, own: Tree) -> Relay:
    """The state of a node that has heard nothing: the root of a tree of one, its sum its own."""
    kind = jax.tree.leaves(own)[0].dtype
    return {
        **alone(jax.random.bits(key, (), jnp.uint32)),
        "own": own,
        "others": jax.tree.map(jnp.zeros_like, own),
        "rest": jax.tree.map(jnp.zeros_like, own),  # what the rounding of `others` left out
        "nodes": jnp.ones((), kind),
        "ages": jnp.zeros((), kind),
    }


def alone(name: Array) -> Relay:
    """The place in the tree of a node that has heard nothing."""
    zero, one = jnp.zeros((), jnp.int32), jnp.ones((), jnp.int32)
    return {
        "name": name, "root": name, "parent": name, "steps": zero, "news": one, "stale": zero,
        "gone": name,  # the last root that fell silent, and its last news
        "gone_news": zero,
        "clock": one,
    }  # fmt: skip


def said(relay: Relay, part: Tree) -> Tree:
    """The reply to the neighbour whose last reply was `part` (None or blank: none yet).

    It holds the sum over all neighbours less that part. Sums are kept as two numbers each (Knuth's
    two-sum), so that the subtraction loses nothing: it is as if only the others had been added.
    """
    tree = {k: relay[k] for k in PLACE}
    if part is None:
        sums = {"sum": relay["own"], "nodes": relay["nodes"], "ages": relay["ages"]}
        return {**tree, **jax.tree.map(jnp.zeros_like, sums)}
    now = relay["clock"] - 1  # as when the part was heard
    near = once(lambda: adjacent(relay, part, now))

    def behind(own: Array, others: Array, rest: Array, its: Array) -> Array:
        return _once(_plus(*_plus(others, rest, -its), own))

    named = (relay[k] for k in ("own", "others", "rest"))
    sums = {
        "sum": jax.tree.map(behind, *named, part["sum"]),
        "nodes": relay["nodes"] - part["nodes"],
        "ages": relay["ages"] - _aged(part, now),
    }
    return {**tree, **jax.tree.map(lambda a: jnp.where(near, a, 0), sums)}


def silent(key: Array, state: State) -> Message:
    """An empty message: a method that relays sends each neighbour a reply of its own instead."""
    return Message(jnp.zeros_like(state.value["relay"]["nodes"]), {})


def reply(state: State, shard: Shard, heard: Inbox) -> Tree:
    """The reply of a method that keeps what it relays as `value["relay"]`."""
    return said(state.value["relay"], heard.part)


def in_time(relay: Relay, parts: Tree) -> Relay:
    """The state with its clock at the latest that was heard of, `CATCH_UP` rounds ahead at most.

    Clocks count rounds, and a node that was away, or is slow, has had fewer than others: by its
    clock, what it says would count as long gone for ever.
    """
    own = relay["clock"]
    latest = parts["clock"].max(initial=own)
    return {**relay, "clock": jnp.minimum(latest, own + CATCH_UP)}


def listened(relay: Relay, inbox: Inbox) -> Relay:
    """The state after a round: place in the tree, and the sum of the node and all it heard of."""
    return heard(in_time(relay, inbox.part), inbox)


def heard(relay: Relay, inbox: Inbox) -> Relay:
    """`listened`, of a node whose clock is `in_time`."""
    now, parts = relay["clock"], inbox.part
    relay = {**relay, **placed(relay, parts)}
    near = once(lambda: jax.vmap(lambda part: adjacent(relay, part, now))(parts))
    others, rest = _summed(near, parts["sum"])
    nodes = 1 + jnp.where(near, parts["nodes"], 0).sum()
    ages = jnp.where(near, jax.vmap(lambda part: _aged(part, now))(parts), 0).sum()
    sums = {"others": others, "rest": rest, "nodes": nodes, "ages": ages}
    return {**relay, **sums, "clock": now + 1}


def believing(name: str, most: float) -> Callable[[Tree, Tree], Tree]:
    """part before, part new -> part kept, in which no number of sum `name` moved by > `most`.

    Whatever a neighbour sends, its sum moves by no more than that in a round, and counts are not
    negative. An honest sum that moves faster is followed with a delay.
    """

    def followed(before: Array, new: Array) -> Array:
        change = new - before
        near = before + jnp.clip(change, -most, most)
        return jnp.where(jnp.abs(change) > most, near, new)  # a sum within reach is kept to the bit

    def believe(before: Tree, new: Tree) -> Tree:
        kept = jax.tree.map(followed, before["sum"][name], new["sum"][name])
        counts = {k: jnp.maximum(new[k], 0) for k in ("nodes", "ages")}
        others = {k: jnp.maximum(v, 0) for k, v in new["sum"].items() if k != name}
        return {**new, **counts, "sum": {**others, name: kept}}

    return believe


def renewed(relay: Relay, own: Tree) -> Relay:
    """Replace this node's own term, which must be rounded, not a product still to be added.

    A compiler may fuse a product and a sum into one rounding (FMA); the remainder that is kept
    would then be wrong.
    """
    return {**relay, "own": own}


def rounded(term: Array) -> Array:
    """The term, rounded: a compiler cannot fuse it with a sum into one rounding (FMA)."""
    return jnp.where(term == term, term, jnp.nan)


def total(relay: Relay) -> Tree:
    """The sum over all nodes that a node knows of; `relay["nodes"]` of them."""
    named = (relay[k] for k in ("others", "rest", "own"))
    return jax.tree.map(lambda others, rest, own: _once(_plus(others, rest, own)), *named)


def delay(relay: Relay) -> Array:
    """The mean age in rounds of what a node knows, over the nodes that it knows of."""
    return relay["ages"] / relay["nodes"]


def late(part: Tree, now: Array) -> Array:
    """How many rounds ago the sums of a part were sent: one, and those since it was heard."""
    return 1 + jnp.maximum(now - part["clock"], 0)  # only a liar's clock is ahead


def once(f: Callable[[], Array]) -> Array:
    """f() computed once, where XLA would compute it again for every number that it is used for.

    On a CPU a choice keeps it apart, as long as XLA does not know that there is none.
    """
    if jax.default_backend() != "cpu":
        return f()
    like = jax.eval_shape(f)
    chosen = jax.lax.optimization_barrier(jnp.ones((), bool))
    result: Array = jax.lax.cond(chosen, f, lambda: jnp.zeros(like.shape, like.dtype))
    return result


def _plus(a: Array, rest: Array, b: Array) -> tuple[Array, Array]:
    """a + rest + b as a number and what its rounding left out."""
    whole = a + b
    of_b = whole - a
    return whole, rest + ((a - (whole - of_b)) + (b - of_b))


def _summed(near: Array, parts: Tree) -> tuple[Tree, Tree]:
    """The parts [k, ...] that are `near`, as numbers and what their rounding left out.

    On a CPU arrays of one shape are summed in one pass, so that what they have in common is read
    once.
    """
    leaves, structure = jax.tree.flatten(parts)
    sums: list[tuple[Array, Array]] = [(near, near)] * len(leaves)
    for shape in dict.fromkeys(a.shape for a in leaves):
        which = [i for i, a in enumerate(leaves) if a.shape == shape]
        there = near.reshape(near.shape + (1,) * (len(shape) - 1))
        terms = [jnp.where(there, leaves[i], 0) for i in which]
        for i, pair in zip(which, _added(terms), strict=True):
            sums[i] = pair
    others, rest = zip(*sums, strict=True)
    return jax.tree.unflatten(structure, others), jax.tree.unflatten(structure, rest)


def _added(terms: list[Array]) -> list[tuple[Array, Array]]:
    """The sum over the slots of each array of terms [k, ...], and what its rounding left out."""
    slots = terms[0].shape[0]
    if jax.default_backend() != "cpu" and slots <= UNROLLED:
        return [_unrolled(one) for one in terms]
    zero = np.zeros((), terms[0].dtype)

    def put(so_far: Any, part: Any) -> Any:
        pairs = zip(_pairs(so_far), _pairs(part), strict=True)
        return tuple(n for (a, rest), (b, more) in pairs for n in _plus(a, rest + more, b))

    given = tuple(a for one in terms for a in (one, jnp.zeros_like(one)))
    return _pairs(jax.lax.reduce(given, (zero,) * len(given), put, (0,)))


def _pairs(numbers: Any) -> list[tuple[Array, Array]]:
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _unrolled(terms: Array) -> tuple[Array, Array]:
    total = terms[0], jnp.zeros_like(terms[0])
    for k in range(1, terms.shape[0]):
        total = _plus(*total, terms[k])
    return total


def _once(pair: tuple[Array, Array]) -> Array:
    return pair[0] + pair[1]


def _live(part: Tree, now: Array) -> Array:
    """Whether something was heard, and not too long ago; a blank part has no clock."""
    return (part["clock"] > 0) & (now - part["clock"] <= PATIENCE)


def adjacent(relay: Relay, part: Tree, now: Array) -> Array:
    """Whether the sender of a part is this node's parent or child in the tree."""
    parent = (part["name"] == relay["parent"]) & (relay["parent"] != relay["name"])
    child = part["parent"] == relay["name"]
    return _live(part, now) & (parent | child) & (part["name"] != relay["name"])


def _aged(part: Tree, now: Array) -> Array:
    """The summed ages of all terms of a part: a round more, and the rounds since it was sent."""
    return part["ages"] + part["nodes"] * late(part, now).astype(part["nodes"].dtype)


def placed(relay: Relay, parts: Tree) -> Relay:
    """A node's place in the tree, derived from its neighbours' places.

    The root sends news every round (a number that grows), as in destination-sequenced routing
    (Perkins and Bhagwat 1994): a node whose way to the root is lost takes only a way with newer
    news than its own, or as new and shorter, so that no circle forms. A root without news for long
    is gone, and the smallest name among those left takes its place.
    """
    name, now, root = relay["name"], relay["clock"], relay["root"]
    is_root = root == name
    news = jnp.where(is_root, now, relay["news"])
    silenced = (parts["root"] == relay["gone"]) & (parts["news"] <= relay["gone_news"])
    usable = _live(parts, now) & (parts["parent"] != name) & (parts["name"] != name) & ~silenced
    same = usable & (parts["root"] == root)

    up = same & (parts["name"] == relay["parent"])
    held = up.any() & (relay["stale"] <= PATIENCE)
    shorter = same & (parts["news"] >= news) & (parts["steps"] + 1 < relay["steps"])
    as_new = (parts["news"] == news) & (parts["steps"] < relay["steps"])
    newer = same & ((parts["news"] > news) | as_new)
    open_ways = jnp.where(held, shorter | up, newer)

    least = jnp.where(usable, parts["root"], root).min(initial=root)
    better = least < root
    ways = jnp.where(better, usable & (parts["root"] == least), open_ways & ~is_root)
    steps = jnp.where(ways, parts["steps"], FAR)
    nearest = steps.min(initial=FAR)
    # among equally near ones the previous parent stays
    stays = up & (steps == nearest)
    first = jnp.where(stays.any(), stays.argmax(), steps.argmin())
    reached = ways.any()
    moved = better | ~is_root

    new = {
        "root": jnp.where(better, least, root),
        "parent": jnp.where(reached & moved, parts["name"][first], relay["parent"]),
        "steps": jnp.where(reached & moved, nearest + 1, relay["steps"]),
        "news": jnp.where(reached & moved, parts["news"][first], news),
    }
    new["news"] = jnp.where(better, new["news"], jnp.maximum(new["news"], news))
    fresh = better | (new["news"] > relay["news"]) | is_root
    stale = jnp.where(fresh, 0, relay["stale"] + 1)
    over = stale > 2 * PATIENCE
    alone = {"root": name, "parent": name, "steps": jnp.zeros_like(stale), "news": now}
    new = {k: jnp.where(over, alone[k], new[k]) for k in alone}
    return {
        **new,
        "stale": jnp.where(over, 0, stale),
        "gone": jnp.where(over, root, relay["gone"]),
        "gone_news": jnp.where(over, relay["news"], relay["gone_news"]),
    }
