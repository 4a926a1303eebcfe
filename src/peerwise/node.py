"""One round of one node, as functions of what it heard: what `walk` and the peers share.

No clock, socket or file. A peer that hears what a node of `walk` hears ends with the same numbers,
to the bit.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import numpy as np

from peerwise import runtime
from peerwise.channel import Channel, perfect
from peerwise.combine.apply import one_node, take_parts
from peerwise.combine.running import LARGE, Running, running
from peerwise.core import Inbox, Message, Method, Shard, State, Tree, on_device
from peerwise.errors import Diverged
from peerwise.mailbox import (
    Letter,
    Letters,
    Network,
    Slot,
    finite,
    keep_replies,
    new_slot,
    open_inbox,
)
from peerwise.runtime import ADAPT, MESSAGE
from peerwise.shards import Shards
from peerwise.topology import Topology

__all__ = ["Letter", "Memory", "Node"]

Adapt = Callable[[State, Shard, int], State]  # stands in for a method's own; int: the round

_stage_key = jax.jit(runtime.stage_key)
_init_key = jax.jit(runtime.init_key, static_argnums=(2, 3))


class Memory(NamedTuple):
    """What a node must not lose between two rounds; plain arrays throughout."""

    state: State
    slots: dict[str, Slot] | None  # by neighbour, for methods with replies


class Node:
    """One node of a network.

    A round is `letters`, then `step` with what the node heard: `combine` and `adapt`.
    `channel` takes messages away on purpose, the very same as in a simulation with this seed.
    `adapt`, where given, replaces the method's own: for noise that must not come from a key.
    A `strict` node refuses to go on once its loss or what it would send is no number.
    """

    def __init__(
        self,
        method: Method,
        topology: Topology,
        index: int,
        shard: Shard,
        *,
        seed: Any = 0,
        precision: str = "float32",
        channel: Channel | None = None,
        adapt: Adapt | None = None,
        strict: bool = True,
    ):
        self.method, self.topology, self.index = method, topology, index
        self.precision, self.channel = precision, perfect() if channel is None else channel
        self._adapt, self._strict = adapt, strict
        with runtime.precision_of(precision) as dtype:
            self._key = runtime.as_key(seed)
            self._shard = runtime.cast(shard, dtype)
        self._programs = _programs(_ById(method), topology.server)
        self._network = Network(topology, self.channel, self._key)
        self.neighbours = self._network.hearers(index)
        self._blank: Letter | None = None
        self._running: dict[int, Running | None] = {}  # by number of slots
        self._latest: tuple[Any, int, Any] = (None, -1, None)  # state, round, message

    @classmethod
    def every(
        cls, method: Method, topology: Topology, shards: Shards, **options: Any
    ) -> list["Node"]:
        """All nodes of a network; they draw the links of a round once between them."""
        nodes = [cls(method, topology, i, shards.of(i), **options) for i in range(shards.n)]
        for node in nodes:
            node._network = nodes[0]._network
        return nodes

    def begin(self) -> Memory:
        """The node before the first round."""
        with runtime.precision_of(self.precision):
            state = self._programs.init(self._first_key(), self._shard)
            return self._checked(Memory(state, self._blank_slots(state)))

    def shape(self) -> Memory:
        """A memory of zeros of the shape of this node's; nothing is learnt or drawn."""
        with runtime.precision_of(self.precision):
            state = _zeros(jax.eval_shape(self.method.init, self._first_key(), self._shard))
            return Memory(state, self._blank_slots(state))

    def like(self, memory: Memory) -> Letter:
        """A letter of zeros, of the shape that all neighbours send."""
        if self._blank is None:
            with runtime.precision_of(self.precision):
                message = _zeros(jax.eval_shape(self.method.message, self._key, memory.state))
                part = None
                if self.method.reply is not None:
                    heard = self._heard(new_slot(None, -1, message))
                    shape = jax.eval_shape(self.method.reply, memory.state, self._shard, heard)
                    part = _zeros(shape)
                self._blank = Letter(message, part)
        return self._blank

    def letters(self, memory: Memory, t: int) -> dict[int, Letter]:
        """What this node tells each of its neighbours in round t."""
        with runtime.precision_of(self.precision):
            message = self._message(memory.state, t)
            if self._strict and not finite(message):
                raise Diverged(
                    f"what node {self.index} would send in round {t} holds NaN or infinity; take a "
                    "smaller lr, or a model with more shrinkage"
                )
            return {j: Letter(message, self._reply(memory, j)) for j in self.neighbours}

    def wanted(self, t: int) -> dict[int, int]:
        """By neighbour that is heard in round t: the round in which that letter was sent."""
        with runtime.precision_of(self.precision):
            senders, _, weight, age = self._network.incoming(self.index, t)
        return {
            j: t - a
            for j, w, a in zip(senders, weight, age.tolist(), strict=True)
            if w > 0 and a <= t
        }

    def combine(self, memory: Memory, t: int, letters: Letters) -> Memory:
        """The node after it heard, in round t, each letter with the round it was sent in."""
        with runtime.precision_of(self.precision):
            incoming = self._network.incoming(self.index, t)
            state, slots = memory
            blank = self.like(memory)
            adds = self._adds(memory, blank, len(incoming.senders))
            inbox = open_inbox(incoming, letters, blank.message, t, stacked=adds is None)
            if slots is not None:
                believe = self._programs.believe
                inbox, slots = keep_replies(
                    inbox, incoming.senders, slots, letters, blank, t, believe
                )
            note = self._message(state, t).note
            if adds is None:
                value = self._programs.combine(state.value, note, inbox)
            else:
                value = adds(state.value, note, inbox._replace(value=None), inbox.value)
            state = State(value, state.memory)
            if self._programs.take is not None:
                state = self._programs.take(state, inbox.part, inbox.weight)
            return Memory(state, slots)

    def _adds(self, memory: Memory, blank: Letter, slots: int) -> Running | None:
        """What takes large messages one by one; None where they are small, or needed together."""
        if slots * runtime.size_of(blank.message) < LARGE or self.method.reply is not None:
            return None
        if slots not in self._running:
            several = jax.tree.map(
                lambda a: jax.ShapeDtypeStruct((slots, *a.shape), a.dtype), blank.message
            )
            real = np.zeros(slots, self._shard.weight.dtype)
            notes = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), several.note)
            inbox = Inbox(several.value, notes, real, np.zeros(slots, np.int32), link=real)
            self._running[slots] = running(
                self.method.combine, memory.state.value, blank.message.note, inbox,
                self.topology.server,
            )  # fmt: skip
        return self._running[slots]

    def adapt(self, memory: Memory, t: int) -> Memory:
        """The node after it learnt from its own rows in round t."""
        with runtime.precision_of(self.precision):
            if self._adapt is not None:
                state = self._adapt(memory.state, self._shard, t)
            else:
                state = self._programs.adapt(self._key_of(ADAPT, t), memory.state, self._shard)
            return self._checked(Memory(state, memory.slots))

    def step(self, memory: Memory, t: int, letters: Letters) -> Memory:
        """The node after round t; `letters` are by neighbour, with the round of each."""
        return self.adapt(self.combine(memory, t, letters), t)

    def forgetting(self, memory: Memory) -> Memory:
        """The node as if it had not heard anything yet of neighbours that reply."""
        with runtime.precision_of(self.precision):
            return Memory(memory.state, self._blank_slots(memory.state))

    def predict(self, memory: Memory, x: np.ndarray) -> np.ndarray:
        """log p(y | x) [m, c] of rows that are encoded as this node's are."""
        with runtime.precision_of(self.precision) as dtype:
            rows = on_device(x, dtype)
            return np.asarray(self._programs.predict(self._key, memory.state.value, rows))

    def error(self, memory: Memory, x: np.ndarray, y: np.ndarray) -> float:
        """The share of rows whose most probable class is another."""
        return float((self.predict(memory, x).argmax(1) != y).mean()) if len(y) else float("nan")

    def _first_key(self) -> Any:
        return _init_key(self._key, self.index, self.method.common, self.method.numbered)

    def _key_of(self, stage: int, t: int) -> Any:
        return _stage_key(self._key, stage, t, self.index)

    def _message(self, state: State, t: int) -> Message:
        """What the node tells all in round t; worked out once, though a round needs it twice."""
        latest = self._latest
        if latest[0] is not state or latest[1] != t:
            message = self._programs.message(self._key_of(MESSAGE, t), state)
            latest = self._latest = state, t, message
        return latest[2]

    def _reply(self, memory: Memory, j: int) -> Tree:
        """What the node tells neighbour j alone, from what it heard of j in the round before."""
        if memory.slots is None:
            return None
        return self._programs.reply(memory.state, self._shard, self._heard(memory.slots[str(j)]))

    def _heard(self, slot: Slot) -> Inbox:
        """What a node keeps of one neighbour, as a method's `reply` is given it."""
        value, note = slot["message"]
        weight = np.asarray(slot["weight"], self._shard.weight.dtype)
        return Inbox(value, note, weight, slot["age"], slot["part"])

    def _blank_slots(self, state: State) -> dict[str, Slot] | None:
        """A slot for every neighbour that replies, with nothing heard in it."""
        if self.method.reply is None:
            return None
        message, part = self.like(Memory(state, None))
        return {str(j): new_slot(part, -1, message) for j in self.neighbours}

    def _checked(self, memory: Memory) -> Memory:
        """The memory; a strict node refuses one whose training broke down."""
        kept = memory.state.memory
        if self._strict and isinstance(kept, dict) and "broke" in kept and int(kept["broke"]) >= 0:
            raise Diverged(
                f"the loss of this node ({self.index}) became infinite or NaN while it trained; "
                "take a smaller lr, momentum or step"
            )
        return memory


class _ById:
    """A method to look up in a cache: two are the same if they hold the very same functions."""

    def __init__(self, method: Method):
        self.method = method

    def __hash__(self) -> int:
        return hash(tuple(map(id, self.method)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _ById):
            return NotImplemented
        return all(a is b for a, b in zip(self.method, other.method, strict=True))


@lru_cache(maxsize=32)
def _programs(key: _ById, hears_itself: bool) -> Any:
    """A method's functions, compiled once for all nodes that run it; None where it has none."""
    method = key.method
    plain = ("ranges", "common", "numbered")
    functions = {name: f for name, f in method._asdict().items() if name not in plain} | {
        "combine": partial(one_node, method.combine, hears_itself=hears_itself),
        "take": method.take and partial(take_parts, method),
    }
    return SimpleNamespace(**{name: f and jax.jit(f) for name, f in functions.items()})


def _zeros(shapes: Tree) -> Tree:
    return jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), shapes)
