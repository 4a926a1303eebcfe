"""The mailbox of one node: who is in its slots, what arrived in them, and what is kept.

Everything here is NumPy: outside a compiled program, JAX would compile one for every operation and
shape.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise import runtime
from peerwise.channel import Channel
from peerwise.core import Array, Inbox, Links, Message, Tree
from peerwise.topology import Topology
from peerwise.topology.links import late_links

Slot = dict[str, Any]  # what a node keeps of one neighbour that replies: see `new_slot`


class Letter(NamedTuple):
    """What one node tells another: the message to all its neighbours, and the part for this one."""

    message: Message
    part: Tree = None


class Later:
    """Stands for the value of a message, known to be finite, that is fetched when it is needed."""

    def __init__(self, fetch: Callable[[], Tree]):
        self.fetch = fetch


Letters = Mapping[int, tuple[Letter, int]]  # by sender: a letter and the round it was sent in


def new_slot(part: Tree, sent: Any, message: Message, weight: Any = 0) -> Slot:
    """What a node keeps of a neighbour after a round, as arrays; weight 0: it was not heard then.

    `part` is the newest that arrived, in round `sent`: zeros and -1 before the first. `message` is
    of this round, zeros if it did not arrive.
    """
    return {
        "part": part,
        "sent": np.int32(sent),
        "message": message,
        "known": np.bool_(weight > 0),
        "weight": np.float32(weight),
        "age": np.int32(0 if weight > 0 else -1),
    }


class Incoming(NamedTuple):
    """The slots of one node in one round, as the channel leaves them."""

    senders: list[int]  # -1 = no neighbour there
    link: np.ndarray  # [k] weight of the link, whether or not anything arrives
    weight: np.ndarray  # [k] weight with which the message is heard; 0 = it is lost
    age: np.ndarray  # [k] how many rounds ago the message was sent


class Network:
    """Who hears whom in every round of one run; it holds the links of the round asked for last."""

    def __init__(self, topology: Topology, channel: Channel, key: Array):
        self._channel, self._key = channel, jax.random.fold_in(key, runtime.CHANNEL)
        topology = late_links(topology, channel.lag)
        self._server, self._every = topology.server, int(topology.every)
        self._graphs = Links(*map(np.asarray, topology.links))  # [g, e] each
        self._table = [(np.asarray(nodes), np.asarray(slots)) for nodes, slots in topology.table]
        self._n, self._before = topology.n, topology.before
        self._drawn: tuple[int, Links] | None = None

    def hearers(self, i: int) -> tuple[int, ...]:
        """The nodes that hear node i in some round; with a server all, itself among them."""
        src, dst, weight, _ = self._graphs
        if self._server:
            return tuple(range(self._n))
        return tuple(np.unique(dst[(src == i) & (weight > 0)]).tolist())

    def incoming(self, i: int, t: int) -> Incoming:
        """The slots of node i in round t."""
        graph = min(t // self._every, len(self._graphs.src) - 1)
        sent = Links(*(leaf[graph] for leaf in self._graphs))
        if self._drawn is None or self._drawn[0] != t:
            before = None if self._before is None else self._before[graph]
            arrived = self._channel(self._key, t, sent, before)
            self._drawn = t, Links(*map(np.asarray, arrived))
        _, (src, _, weight, age) = self._drawn
        box = self._box(i, graph)
        return Incoming(
            np.where(box >= 0, src[box], -1).tolist(),
            np.where(box >= 0, sent.weight[box], 0),
            np.where(box >= 0, weight[box], 0),
            age[box],
        )

    def _box(self, i: int, graph: int) -> np.ndarray:
        """The numbers of the links in the slots of node i, -1 = empty."""
        if self._server:
            return np.arange(self._n)
        nodes, slots = next(bucket for bucket in self._table if i in bucket[0])
        return slots[graph, int(np.flatnonzero(nodes == i)[0])]


def stack(trees: Sequence[Tree]) -> Tree:
    """Trees of the same shape as one of NumPy arrays, with a first axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def finite(tree: Tree) -> bool:
    """Whether a tree holds neither NaN nor infinity."""
    real = (a for a in jax.tree.leaves(tree) if jnp.issubdtype(a.dtype, jnp.floating))
    return all(_finite(np.asarray(a)) for a in real)


def _finite(a: np.ndarray) -> bool:
    if a.dtype.kind != "f" or not a.size:
        return bool(np.isfinite(a).all())
    # NaN is the least and the greatest of all that hold one: no array of flags is needed
    return bool(np.isfinite(a.min()) and np.isfinite(a.max()))


def open_inbox(
    slots: Incoming, letters: Letters, blank: Message, t: int, stacked: bool = True
) -> Inbox:
    """The inbox of one node in round t; a slot without a finite letter has weight 0.

    `blank` is a message of zeros: it stands where no letter is, with age -1. Where values are not
    `stacked`, they come one after the other, once.
    """
    dtype: Any = runtime.float_of(blank)
    weights = slots.weight.tolist()
    arrived = [
        letters.get(j) if w > 0 else None for j, w in zip(slots.senders, weights, strict=True)
    ]
    messages = [blank if one is None else one[0].message for one in arrived]
    heard = [one is not None and _is_finite(one[0].message) for one in arrived]
    note = stack([message.note for message in messages])
    values = (_fetched(message.value) for message in messages)
    return Inbox(
        stack(list(values)) if stacked else values,
        note,
        np.where(heard, weights, 0).astype(dtype),
        np.array([-1 if one is None else t - one[1] for one in arrived], np.int32),
        link=slots.link.astype(dtype),
    )


def _is_finite(message: Message) -> bool:
    return finite(message.note if isinstance(message.value, Later) else message)


def _fetched(value: Tree) -> Tree:
    return value.fetch() if isinstance(value, Later) else value


def keep_replies(
    inbox: Inbox,
    senders: Sequence[int],
    kept: Mapping[str, Slot],
    letters: Letters,
    blank: Letter,
    t: int,
    believe: Callable[[Tree, Tree], Tree] | None = None,
) -> tuple[Inbox, dict[str, Slot]]:
    """The inbox with the newest part of every neighbour, and what the node keeps of each.

    A part that does not arrive, or is not finite, leaves the one before, and its message counts as
    unheard. `believe` is the method's.
    """
    weight, slots = np.array(inbox.weight), dict(kept)
    for k, j in enumerate(senders):
        if str(j) not in slots:
            continue
        before = slots[str(j)]["part"]
        if weight[k] > 0 and finite(letters[j][0].part):
            message, part = letters[j][0]
            part = part if believe is None else believe(before, part)
            slots[str(j)] = new_slot(part, t, message, weight[k])
        else:
            weight[k] = 0
            slots[str(j)] = new_slot(before, slots[str(j)]["sent"], blank.message)
    in_order = [slots.get(str(j)) for j in senders]
    sent = [-1 if slot is None else int(slot["sent"]) for slot in in_order]
    age = np.array([t - s if s >= 0 else -1 for s in sent], np.int32)
    part = stack([blank.part if slot is None else slot["part"] for slot in in_order])
    return inbox._replace(weight=weight, age=age, part=part), slots
