"""Sums over a whole network, kept up to date by neighbours: a tree that is agreed, and relays.

A node tells a neighbour the newest sum of itself and of all that lies behind its other neighbours.
On a tree every node's number reaches every other exactly once, late by their distance. What is sent
is the whole sum and not its change: a lost message only delays. On any other graph the nodes first
agree on a breadth-first tree from the smallest of random names, and links that are not in it carry
the agreement alone. A tree that changes needs no bookkeeping: the sums are worked out anew every
round from what each node keeps, and are exact again once the tree has stood for its diameter.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from peerwise.core import Array, Inbox, Message, Shard, State, Tree

__all__ = [
    "PATIENCE",
    "begin",
    "believing",
    "delay",
    "listened",
    "renewed",
    "reply",
    "rounded",
    "said",
    "silent",
    "total",
]

# Rounds of silence after which a link counts as gone. What lay behind it is then missing from the
# sum, and that is worse than sums that are late: a node that is back by then has cost nothing.
PATIENCE = 64
UNROLLED = 16  # slots added without a loop, which is faster up to about this many
FAR = 2**30  # more steps than any way has

Relay = dict[str, Any]


def begin(key: Array, own: Tree) -> Relay:
    """A node that has heard nothing: it is the root of a tree of one, and the sum is its own."""
    name = jax.random.bits(key, (), jnp.uint32)
    kind = jax.tree.leaves(own)[0].dtype
    zero, one = jnp.zeros((), jnp.int32), jnp.ones((), jnp.int32)
    tree = {"name": name, "root": name, "parent": name, "steps": zero, "news": one, "stale": zero}
    return {
        **tree,
        "gone": name,  # the last root that fell silent, and its last news
        "gone_news": zero,
        "clock": one,
        "own": own,
        "others": jax.tree.map(jnp.zeros_like, own),
        "rest": jax.tree.map(jnp.zeros_like, own),  # what the rounding of `others` left out
        "nodes": jnp.ones((), kind),
        "ages": jnp.zeros((), kind),
    }


def said(relay: Relay, part: Tree) -> Tree:
    """What a node tells the neighbour that last told it `part` (None or blank: nothing yet).

    All but that neighbour is the sum over all neighbours less its part. Sums are kept in two
    numbers each (Knuth's two-sum), so that this loses nothing: it is as if the others were added.
    """
    tree = {k: relay[k] for k in ("name", "root", "parent", "steps", "news", "clock")}
    if part is None:
        sums = {"sum": relay["own"], "nodes": relay["nodes"], "ages": relay["ages"]}
        return {**tree, **jax.tree.map(jnp.zeros_like, sums)}
    now = relay["clock"] - 1  # as when the part was heard
    near = _near(relay, part, now)

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
    """What a method that relays says to all: nothing, as what it says differs by neighbour."""
    return Message(jnp.zeros_like(state.value["relay"]["nodes"]), {})


def reply(state: State, shard: Shard, heard: Inbox) -> Tree:
    """The reply of a method that keeps what it relays as `value["relay"]`."""
    return said(state.value["relay"], heard.part)


def listened(relay: Relay, inbox: Inbox) -> Relay:
    """A node after a round: its place in the tree, and the sum of itself and all it heard of."""
    now, parts = relay["clock"], inbox.part
    relay = {**relay, **_placed(relay, parts)}
    near = jax.vmap(lambda part: _near(relay, part, now))(parts)
    others, rest = _unzipped(
        jax.tree.map(lambda part: _summed(near, part), parts["sum"]), relay["own"]
    )
    nodes = 1 + jnp.where(near, parts["nodes"], 0).sum()
    ages = jnp.where(near, jax.vmap(lambda part: _aged(part, now))(parts), 0).sum()
    heard = {"others": others, "rest": rest, "nodes": nodes, "ages": ages}
    return {**relay, **heard, "clock": now + 1}


def believing(name: str, most: float) -> Callable[[Tree, Tree], Tree]:
    """part before, part new -> the part that is kept: no number of sum `name` moved by > `most`.

    Whatever a neighbour says, the sum that it stands for moves by no more than that a round, and
    counts are not negative. An honest sum that moves faster is followed later.
    """

    def followed(before: Array, new: Array) -> Array:
        change = new - before
        near = before + jnp.clip(change, -most, most)
        return jnp.where(jnp.abs(change) > most, near, new)  # a sum reached is told to the bit

    def believe(before: Tree, new: Tree) -> Tree:
        kept = jax.tree.map(followed, before["sum"][name], new["sum"][name])
        counts = {k: jnp.maximum(new[k], 0) for k in ("nodes", "ages")}
        others = {k: jnp.maximum(v, 0) for k, v in new["sum"].items() if k != name}
        return {**new, **counts, "sum": {**others, name: kept}}

    return believe


def renewed(relay: Relay, own: Tree) -> Relay:
    """A node whose own number is now another: rounded, and not a product still to be added.

    A compiler may make one rounding (FMA) of a product and a sum, and then what a sum left out is
    not what was left out.
    """
    return {**relay, "own": own}


def rounded(term: Array) -> Array:
    """The term, rounded: a compiler may not make one rounding (FMA) of it and of the sum."""
    return jnp.where(term == term, term, jnp.nan)


def total(relay: Relay) -> Tree:
    """The sum over all nodes that a node knows of; `relay["nodes"]` of them."""
    named = (relay[k] for k in ("others", "rest", "own"))
    return jax.tree.map(lambda others, rest, own: _once(_plus(others, rest, own)), *named)


def delay(relay: Relay) -> Array:
    """How many rounds old what a node knows is, as a mean over the nodes that it knows of."""
    return relay["ages"] / relay["nodes"]


def _plus(a: Array, rest: Array, b: Array) -> tuple[Array, Array]:
    """a + rest + b as a number and what its rounding left out."""
    whole = a + b
    of_b = whole - a
    return whole, rest + ((a - (whole - of_b)) + (b - of_b))


def _summed(near: Array, parts: Array) -> tuple[Array, Array]:
    """The parts [k, ...] that are `near`, as a number and what its rounding left out."""

    def put(k: Any, so_far: tuple[Array, Array]) -> tuple[Array, Array]:
        return _plus(*so_far, jnp.where(near[k], parts[k], 0))

    zero = jnp.zeros_like(parts[0]), jnp.zeros_like(parts[0])
    if parts.shape[0] > UNROLLED:
        return jax.lax.fori_loop(0, parts.shape[0], put, zero)
    for k in range(parts.shape[0]):
        zero = put(k, zero)
    return zero


def _once(pair: tuple[Array, Array]) -> Array:
    return pair[0] + pair[1]


def _unzipped(pairs: Tree, like: Tree) -> tuple[Tree, Tree]:
    """A tree of pairs as a pair of trees."""
    leaves = jax.tree.leaves(pairs)
    shape = jax.tree.structure(like)
    return jax.tree.unflatten(shape, leaves[::2]), jax.tree.unflatten(shape, leaves[1::2])


def _live(part: Tree, now: Array) -> Array:
    """Whether something was heard, and not too long ago; a blank part has no clock."""
    return (part["clock"] > 0) & (now - part["clock"] <= PATIENCE)


def _near(relay: Relay, part: Tree, now: Array) -> Array:
    """Whether the sender of a part is this node's parent or child in the tree."""
    parent = (part["name"] == relay["parent"]) & (relay["parent"] != relay["name"])
    child = part["parent"] == relay["name"]
    return _live(part, now) & (parent | child) & (part["name"] != relay["name"])


def _aged(part: Tree, now: Array) -> Array:
    """The ages of all that a part sums, now that it is heard: a round more, and its own age."""
    late = 1 + jnp.maximum(now - part["clock"], 0)  # nobody speaks from the future but liars
    return part["ages"] + part["nodes"] * late.astype(part["nodes"].dtype)


def _placed(relay: Relay, parts: Tree) -> Relay:
    """Where in the tree a node stands, by what its neighbours say of theirs.

    The root tells news every round (a number that grows), as in destination-sequenced routing
    (Perkins and Bhagwat 1994): a node whose way to the root is lost takes only a way with newer
    news than its own, or as new and shorter, so that no circle forms. A root without news for long
    is gone, and the smallest name among those left takes its place.
    """
    name, now, root = relay["name"], relay["clock"], relay["root"]
    mine = root == name
    news = jnp.where(mine, now, relay["news"])
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
    ways = jnp.where(better, usable & (parts["root"] == least), open_ways & ~mine)
    steps = jnp.where(ways, parts["steps"], FAR)
    nearest = steps.min(initial=FAR)
    # of equally near ones the parent of before stays
    stays = up & (steps == nearest)
    first = jnp.where(stays.any(), stays.argmax(), steps.argmin())
    found = ways.any()
    moved = better | ~mine

    new = {
        "root": jnp.where(better, least, root),
        "parent": jnp.where(found & moved, parts["name"][first], relay["parent"]),
        "steps": jnp.where(found & moved, nearest + 1, relay["steps"]),
        "news": jnp.where(found & moved, parts["news"][first], news),
    }
    new["news"] = jnp.where(better, new["news"], jnp.maximum(new["news"], news))
    fresh = better | (new["news"] > relay["news"]) | mine
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
