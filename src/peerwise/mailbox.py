"""What one node has heard and says to each neighbour, message by message: for `walk` and peers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.combine.apply import all_finite
from peerwise.core import Array, Inbox, Message, Method, Shard, State, Tree
from peerwise.topology import Topology

__all__ = [
    "Heard",
    "Slot",
    "answer",
    "blank_part",
    "deliver",
    "finite",
    "mailboxes",
    "open_inbox",
    "stacked",
]


class Heard(NamedTuple):
    """What is in one slot of a node's mailbox this round."""

    letter: Message | None  # None: nothing arrived
    weight: float
    age: int


@dataclass
class Slot:
    """What one node last heard from one neighbour that replies."""

    part: Tree
    sent: int = -1  # the round in which the part was sent
    message: Message | None = None  # of the round before, if it arrived
    weight: float = 0.0
    age: int = -1


def stacked(trees: Sequence[Tree]) -> Tree:
    """Trees of the same shape as one, with a first axis."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def finite(message: Tree) -> bool:
    """Whether every number of a message is one."""
    return bool(all_finite(jax.tree.map(lambda a: a[None], message))[0])


def mailboxes(topology: Topology, t: int) -> dict[int, np.ndarray]:
    """For every node the numbers of the links in its slots, -1 = empty."""
    graph = int(topology.at(t))
    if topology.server:
        return {i: np.arange(topology.n) for i in range(topology.n)}
    return {
        int(node): row
        for nodes, table in topology.table
        for node, row in zip(np.asarray(nodes), np.asarray(table[graph]), strict=True)
    }


def open_inbox(heard: Sequence[Heard], link: Array, like: Message, dtype: Any) -> Inbox:
    """The inbox of one node from its slots; `like` is any message, `link` the weights of links."""
    blank = jax.tree.map(jnp.zeros_like, like)
    good = [h.letter is not None and h.weight > 0 and finite(h.letter) for h in heard]
    letters = stacked([blank if h.letter is None else h.letter for h in heard])
    return Inbox(
        letters.value,
        letters.note,
        jnp.asarray([h.weight if g else 0.0 for h, g in zip(heard, good, strict=True)], dtype),
        jnp.asarray([h.age for h in heard], jnp.int32),
        link=jnp.asarray(link, dtype),
    )


def blank_part(method: Method, state: State, rows: Shard) -> Tree:
    """What stands in a slot before the first reply; None where a method has no replies."""
    if method.reply is None:
        return None
    first = method.message(jax.random.key(0), state)
    heard = Inbox(first.value, first.note, jnp.zeros((), rows.weight.dtype), jnp.int32(-1))
    shape = jax.eval_shape(method.reply, state, rows, heard)
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shape)


def answer(reply: Any, state: State, rows: Shard, slot: Slot, like: Message) -> Tree:
    """What a node says to one neighbour, from what it heard of it in the round before."""
    letter = slot.message or jax.tree.map(jnp.zeros_like, like)
    weight = jnp.asarray(slot.weight, rows.weight.dtype)
    return reply(
        state, rows, Inbox(letter.value, letter.note, weight, jnp.int32(slot.age), slot.part)
    )


def deliver(
    inbox: Inbox,
    senders: Sequence[int],
    mine: dict[int, Slot],
    to_me: dict[int, Tree],
    sent: dict[int, Message],
    blank: Tree,
    t: int,
    believe: Callable[[Tree, Tree], Tree] | None = None,
) -> Inbox:
    """Put the parts addressed to a node into its inbox; one that does not arrive leaves the old.

    `senders` are by slot, -1 = empty; `to_me` and `sent` hold what those that arrived said;
    `believe` is the method's.
    """
    weight, age, parts = np.array(inbox.weight), [], []
    for k, j in enumerate(senders):
        if j < 0:
            age.append(-1)
            parts.append(blank)
            continue
        slot = mine[j]
        slot.message, slot.weight, slot.age = None, 0.0, -1
        weight[k] *= j in to_me and finite(to_me[j])
        if weight[k] > 0:
            slot.part = to_me[j] if believe is None else believe(slot.part, to_me[j])
            slot.sent = t
            slot.message, slot.weight, slot.age = sent[j], float(weight[k]), 0
        age.append(t - slot.sent if slot.sent >= 0 else -1)
        parts.append(slot.part)
    return inbox._replace(
        weight=jnp.asarray(weight), age=jnp.asarray(age, jnp.int32), part=stacked(parts)
    )
