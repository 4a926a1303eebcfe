"""What one peer computes: its rounds as pure functions, the same that `walk` and `simulate` run.

No clock, socket or file. A peer that hears what a node of `walk` hears ends with the same numbers,
to the bit.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise import runtime
from peerwise.channel import Channel, perfect
from peerwise.combine.apply import one_node, take_parts
from peerwise.core import Message, Method, Shard, State, Tree
from peerwise.errors import Diverged
from peerwise.mailbox import Heard, Slot, answer, blank_part, deliver, mailboxes, open_inbox
from peerwise.runtime import ADAPT, CHANNEL, INIT, LINKS, MESSAGE, stage_key
from peerwise.topology import Topology

__all__ = ["Letter", "Memory", "Node"]

Adapt = Any  # state, shard, round -> state: what stands in for a method's own `adapt`


class Letter(NamedTuple):
    """What one neighbour told this node: to all its neighbours, and to this node alone."""

    message: Message
    part: Tree = None


class Memory(NamedTuple):
    """What a node must not lose between two rounds; plain arrays throughout."""

    state: State
    slots: Tree  # by neighbour, for methods with replies; else None


class Node:
    """One node of a network, as functions of what it heard.

    `adapt`, where given, replaces the method's own: for noise that must not come from a key.
    `channel` takes messages away on purpose, the very same as in a simulation with this seed.
    """

    def __init__(
        self,
        method: Method,
        topology: Topology,
        index: int,
        shard: Shard,
        *,
        seed: int = 0,
        precision: str = "float32",
        channel: Channel | None = None,
        adapt: Adapt | None = None,
    ):
        self.method, self.topology, self.index = method, topology, index
        self.precision, self.channel = precision, perfect() if channel is None else channel
        self._adapt = adapt
        with runtime.precision_of(precision) as dtype:
            self._key = runtime.as_key(seed)
            self._shard = runtime.cast(shard, dtype)
        self._message, self._own = jax.jit(method.message), jax.jit(method.adapt)
        self._combine = jax.jit(partial(one_node, method.combine, hears_itself=False))
        self._take = jax.jit(partial(take_parts, method))
        self._reply = jax.jit(method.reply) if method.reply is not None else None
        box = mailboxes(topology, 0)[index]
        src = np.asarray(topology.links.src).reshape(-1)
        self.neighbours = tuple(int(src[link]) for link in box if link >= 0)
        self._like: Any = None

    def begin(self) -> Memory:
        """Before the first round."""
        with runtime.precision_of(self.precision):
            state = jax.jit(self.method.init)(
                stage_key(self._key, INIT, 0, self.index), self._shard
            )
            _check(state, self.index)
            return Memory(state, self._blank_slots(state))

    def shape(self) -> Memory:
        """A memory of zeros of the shape of this node's, for nothing was learnt or drawn."""
        with runtime.precision_of(self.precision):
            key = stage_key(self._key, INIT, 0, self.index)
            blank = jax.eval_shape(self.method.init, key, self._shard)
            state = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), blank)
            return Memory(state, self._blank_slots(state))

    def like(self, memory: Memory) -> Letter:
        """A letter of the shape that all neighbours send."""
        if self._like is None:
            with runtime.precision_of(self.precision):
                self._like = Letter(
                    self.method.message(self._key, memory.state),
                    blank_part(self.method, memory.state, self._shard),
                )
        return self._like

    def letters(self, memory: Memory, t: int) -> dict[int, Letter]:
        """What this node says in round t, by neighbour."""
        with runtime.precision_of(self.precision):
            said = self._message(stage_key(self._key, MESSAGE, t, self.index), memory.state)
            if not _all_finite(said):
                raise Diverged(
                    f"what node {self.index} would send in round {t} holds NaN or infinity; take a "
                    "smaller lr, or a model with more shrinkage"
                )
            if self._reply is None:
                return {j: Letter(said) for j in self.neighbours}
            like = self.like(memory).message
            slots = _slots(memory.slots)
            return {
                j: Letter(said, answer(self._reply, memory.state, self._shard, slots[j], like))
                for j in self.neighbours
            }

    def wanted(self, t: int) -> dict[int, int]:
        """By neighbour that is heard in round t: the round in which that letter was sent."""
        _, _, senders, weight, age = self._links(t)
        return {
            j: t - a
            for j, w, a in zip(senders, weight, age, strict=True)
            if j >= 0 and w > 0 and a <= t
        }

    def step(self, memory: Memory, t: int, heard: Mapping[int, tuple[Letter, int]]) -> Memory:
        """The node after round t; `heard` is by neighbour a letter and the round it was sent in."""
        with runtime.precision_of(self.precision):
            known, dtype, senders, weight, _ = self._links(t)
            like = self.like(memory)
            slots = [
                Heard(heard[j][0].message, float(w), t - heard[j][1])
                if j in heard and w > 0
                else Heard(None, 0.0, -1)
                for j, w in zip(senders, weight, strict=True)
            ]
            own = self._message(stage_key(self._key, MESSAGE, t, self.index), memory.state)
            inbox = open_inbox(slots, known, like.message, dtype)
            mine = memory.slots
            if self._reply is not None:
                by_neighbour = _slots(mine)
                inbox = deliver(
                    inbox,
                    senders,
                    by_neighbour,
                    {j: letter.part for j, (letter, _) in heard.items()},
                    {j: letter.message for j, (letter, _) in heard.items()},
                    like.part,
                    t,
                    self.method.believe,
                )
                mine = _plain(by_neighbour, like.message)
            state = memory.state
            state = State(self._combine(state.value, own.note, inbox), state.memory)
            if self.method.take is not None:
                state = self._take(state, inbox.part, inbox.weight)
            if self._adapt is not None:
                state = self._adapt(state, self._shard, t)
            else:
                state = self._own(stage_key(self._key, ADAPT, t, self.index), state, self._shard)
            _check(state, self.index)
            return Memory(state, mine)

    def predict(self, memory: Memory, x: np.ndarray) -> np.ndarray:
        """log p(y | x) [m, c] of rows that are encoded as this node's are."""
        with runtime.precision_of(self.precision) as dtype:
            rows = jnp.asarray(x, dtype)
            out = jax.jit(self.method.predict)(self._key, memory.state.value, rows)
            return np.asarray(out)

    def error(self, memory: Memory, x: np.ndarray, y: np.ndarray) -> float:
        """The share of rows whose most probable class is another."""
        return float((self.predict(memory, x).argmax(1) != y).mean()) if len(y) else float("nan")

    def _links(self, t: int) -> tuple[np.ndarray, Any, list[int], np.ndarray, list[int]]:
        """By slot: weight of the link, who sends, with which weight it is heard, how late."""
        there = self.topology(jax.random.fold_in(self._key, LINKS), t)
        links = self.channel(jax.random.fold_in(self._key, CHANNEL), t, there)
        src, _, weight, age = (np.asarray(a) for a in links)
        box = mailboxes(self.topology, t)[self.index]
        senders = [int(src[link]) if link >= 0 else -1 for link in box]
        known = np.where(box >= 0, np.asarray(there.weight)[box], 0)
        dtype = runtime.float_of(self._like) if self._like is not None else jnp.float32
        late = [int(age[link]) if link >= 0 else 0 for link in box]
        return known, dtype, senders, np.where(box >= 0, weight[box], 0), late

    def _blank_slots(self, state: State) -> Tree:
        if self._reply is None:
            return None
        like = self.like(Memory(state, None))
        return _plain({j: Slot(like.part) for j in self.neighbours}, like.message)


def _all_finite(tree: Tree) -> bool:
    return all(np.isfinite(np.asarray(a)).all() for a in jax.tree.leaves(tree))


def _check(state: State, index: int) -> None:
    memory = state.memory
    if isinstance(memory, dict) and "broke" in memory and int(memory["broke"]) >= 0:
        raise Diverged(
            f"the loss of this node ({index}) became infinite or NaN while it trained; take a "
            "smaller lr, momentum or step"
        )


def _plain(slots: dict[int, Slot], like: Message) -> Tree:
    """Slots as a tree of arrays."""
    blank = jax.tree.map(jnp.zeros_like, like)
    return {
        str(j): {
            "part": slot.part,
            "sent": np.int32(slot.sent),
            "message": blank if slot.message is None else slot.message,
            "known": np.bool_(slot.message is not None),
            "weight": np.float32(slot.weight),
            "age": np.int32(slot.age),
        }
        for j, slot in slots.items()
    }


def _slots(tree: Tree) -> dict[int, Slot]:
    return {
        int(j): Slot(
            s["part"],
            int(s["sent"]),
            s["message"] if bool(s["known"]) else None,
            float(s["weight"]),
            int(s["age"]),
        )
        for j, s in tree.items()
    }
