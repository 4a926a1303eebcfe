"""Where the nodes of a program are: all on one device, or a part of them on each of several.

A round is written once. It asks here for the numbers of its nodes, for the places of the senders
among the messages at hand, and for the messages themselves: `Whole` has them all, a `Part` brings
from other devices those that its links need.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from peerwise.core import Array, Links, Tree
from peerwise.topology import Topology

AXIS = "nodes"  # of the mesh


class Whole(NamedTuple):
    """All nodes on one device."""

    def nodes(self, n: int) -> Array:
        """The numbers of the nodes here, of a network of n."""
        return jnp.arange(n)

    def rows(self, n: int) -> int:
        """How many messages a kept page holds."""
        return n

    def senders(self, links: Links, graph: Array) -> Array:
        """The place of each link's sender among the messages at hand."""
        return links.src

    def hearers(self, links: Links, graph: Array) -> Array:
        """The place of each link's receiver among the nodes here."""
        return links.dst

    def returned(self, answers: Tree, back: Array) -> Tree:
        """What came over each link here: the answer of its sender to the link `back`."""
        return jax.tree.map(lambda a: a[back], answers)

    def brought(self, out: Tree) -> Tree:
        """Messages of the nodes here; on a fixed graph also of those elsewhere that links need."""
        return out

    def at_hand(self, pages: Tree, topology: Topology, t: Any) -> Tree:
        """Kept pages [pages, rows, ...] with all messages that links of round t need."""
        return pages

    def own(self, messages: Tree) -> Tree:
        """Those of the messages at hand that are of the nodes here."""
        return messages


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Route:
    """How rows of one part reach the others: a step for each distance between parts.

    In step i part q sends its rows `give[i]` to part q + shifts[i], for which there is room behind
    its own rows. Without a step (`gather`), every part is given the rows of all, in their order.
    """

    give: tuple[Array, ...]  # for each step [graphs, rows] which rows go
    shifts: tuple[int, ...] = field(metadata={"static": True})
    parts: int = field(metadata={"static": True})
    gather: bool = field(metadata={"static": True})

    def total(self, rows: int) -> int:
        """How many rows are at hand afterwards."""
        if self.gather:
            return rows * self.parts
        return rows + sum(give.shape[-1] for give in self.give)

    def __call__(self, tree: Tree, graph: Array | int) -> Tree:
        """Rows [own, ...] of this part, followed by those of others that this graph needs."""
        if self.gather:
            return jax.tree.map(lambda a: jax.lax.all_gather(a, AXIS, tiled=True), tree)
        steps = [
            _permuted(jax.tree.map(lambda a, g=give: a[g[graph]], tree), shift, self.parts)
            for give, shift in zip(self.give, self.shifts, strict=True)
        ]
        return jax.tree.map(lambda *a: jnp.concatenate(a), tree, *steps)

    def own(self, tree: Tree, rows: int) -> Tree:
        """The rows that were this part's own."""
        begin = jax.lax.axis_index(AXIS) * rows if self.gather else 0
        return jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, begin, rows), tree)


def _permuted(tree: Tree, shift: int, parts: int) -> Tree:
    """Rows from the part `shift` before this one: one message for all arrays of a type."""
    leaves, structure = jax.tree.flatten(tree)
    to = [(q, (q + shift) % parts) for q in range(parts)]
    rows = leaves[0].shape[0]
    came: list[Any] = [None] * len(leaves)
    for kind in dict.fromkeys(a.dtype for a in leaves):
        which = [i for i, a in enumerate(leaves) if a.dtype == kind]
        flat = [leaves[i].reshape(rows, -1) for i in which]
        got = jax.lax.ppermute(jnp.concatenate(flat, 1), AXIS, to)
        begin = 0
        for i, a in zip(which, flat, strict=True):
            came[i] = got[:, begin : begin + a.shape[1]].reshape(leaves[i].shape)
            begin += a.shape[1]
    return jax.tree.unflatten(structure, came)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Letters:
    """How replies reach those whom they are for; a reply to the neighbour in slot j is step j.

    Rows of a step are in the order of the senders' numbers, so that sums have one order however
    many parts there are.
    """

    route: Route  # its graphs are the k slots
    row: Array  # [k, l] of the replies at hand
    to: Array  # [k, l] the place of the node that it is for; none: beyond the last
    slot: Array  # [k, l] the sender's slot in that node's inbox
    used: Array  # [] slots that any node uses

    def step(self, replies: Tree, j: Array | int) -> tuple[Tree, Array, Array]:
        """Replies [p, ...] of all nodes to slot j as they come: rows, for whom, in which slot."""
        came = self.route(replies, j)
        return jax.tree.map(lambda a: a[self.row[j]], came), self.to[j], self.slot[j]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Mail:
    """How the answers to links reach the links by which they go: all of them at once."""

    route: Route
    row: Array  # [e] of the answers at hand

    def __call__(self, answers: Tree) -> Tree:
        """Answers [e, ...] to the links here, as those that come over them."""
        return jax.tree.map(lambda a: a[self.row], self.route(answers, 0))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Part:
    """The nodes of one device. Places that hold no node have the number n."""

    numbers: Array  # [p]
    place: Array  # [graphs, e] of each link's sender among the messages at hand
    hearer: Array  # [graphs, e] the place of each link's receiver
    route: Route
    order: Array  # [n] where each node lies among the places of all parts
    letters: Letters | None  # of replies that are summed
    mail: Mail | None  # of those that are kept
    fixed: bool = field(metadata={"static": True})  # one graph: pages keep what was brought

    def nodes(self, n: int) -> Array:
        """The numbers of the nodes here."""
        return self.numbers

    def rows(self, n: int) -> int:
        """How many messages a kept page holds."""
        p = self.numbers.shape[0]
        return self.route.total(p) if self.fixed else p

    def senders(self, links: Links, graph: Array) -> Array:
        """The place of each link's sender among the messages at hand."""
        return self.place[graph]

    def hearers(self, links: Links, graph: Array) -> Array:
        """The place of each link's receiver among the nodes here."""
        return self.hearer[graph]

    def returned(self, answers: Tree, back: Array) -> Tree:
        """What came over each link here: the answer of its sender to the link in return."""
        assert self.mail is not None
        return self.mail(answers)

    def brought(self, out: Tree) -> Tree:
        """Messages of the nodes here; on a fixed graph also of those elsewhere that links need."""
        return self.route(out, 0) if self.fixed else out

    def at_hand(self, pages: Tree, topology: Topology, t: Any) -> Tree:
        """Kept pages [pages, rows, ...] with all messages that links of round t need."""
        if self.fixed:
            return pages
        turned = jax.tree.map(lambda a: jnp.moveaxis(a, 0, 1), pages)
        return jax.tree.map(lambda a: jnp.moveaxis(a, 1, 0), self.route(turned, topology.at(t)))

    def own(self, messages: Tree) -> Tree:
        """Those of the messages at hand that are of the nodes here."""
        return self.route.own(messages, self.numbers.shape[0])

    def everyone(self, tree: Tree) -> Tree:
        """Arrays [p, ...] of all parts as [n, ...], in the order of the nodes."""
        return jax.tree.map(lambda a: jax.lax.all_gather(a, AXIS, tiled=True)[self.order], tree)


Here = Whole | Part
