"""Run a method node by node, letter by letter, in plain Python: the oracle of the others.

Slow and readable. It calls the same compiled one-node functions as `simulate(exact=True)` and as a
real peer does, and agrees with them bit for bit.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from peerwise import runtime
from peerwise.channel import Channel, perfect
from peerwise.core import Method, State, Tree, on_device
from peerwise.mailbox import stack
from peerwise.node import Letter, Memory, Node
from peerwise.runtime import Probe, Run
from peerwise.shards import Shards
from peerwise.topology import Topology
from peerwise.topology.links import late_links

__all__ = ["walk"]


def walk(
    method: Method,
    shards: Shards,
    topology: Topology,
    rounds: int,
    *,
    seed: Any = 0,
    channel: Channel | None = None,
    probe: Probe | None = None,
    at: Sequence[int] | None = None,
    stages: str | Sequence[str] = "adapt",
    precision: str = "float32",
) -> Run:
    """What `simulate(exact=True)` gives, worked out one node and one letter at a time."""
    channel = perfect() if channel is None else channel
    at = ([rounds] if rounds else []) if at is None else at
    at, stages = runtime.check(method, shards.n, topology, channel.lag, rounds, at, stages)
    channel.check(topology, rounds)
    with runtime.precision_of(precision) as dtype:
        probe = runtime.as_probe(probe, dtype)
        options = {"seed": seed, "precision": precision, "channel": channel, "strict": False}
        nodes = Node.every(method, late_links(topology, channel.lag), shards, **options)
        seen: dict[str, list[Tree]] = {stage: [] for stage in stages}
        for done, stage, memories in _rounds(nodes, rounds, channel.lag):
            states = [memory.state for memory in memories]
            _check_losses(states)
            if probe is not None and stage in stages and done in at:
                seen[stage].append(probe(method, _stacked(states)))
        return Run(
            state=_stacked(states),
            rounds=rounds,
            recorded=at,
            history={stage: _stacked(trees) for stage, trees in seen.items() if trees},
            message_bytes=runtime.size_of(nodes[0].like(memories[0])),
            messages=runtime.count_messages(topology, 0, rounds),
        )


def _rounds(nodes: list[Node], rounds: int, lag: int) -> Iterator[tuple[int, str, list[Memory]]]:
    """The protocol: after every stage, how many rounds were begun, the stage, and what nodes hold.

    Letters are kept for as many rounds as they may be late.
    """
    memories = [node.begin() for node in nodes]
    yield 0, "init", memories
    posted: deque[list[dict[int, Letter]]] = deque(maxlen=lag + 1)  # by age, sender, receiver
    for t in range(rounds):
        posted.appendleft([node.letters(m, t) for node, m in zip(nodes, memories, strict=True)])
        heard = [
            {j: (posted[t - sent][j][node.index], sent) for j, sent in node.wanted(t).items()}
            for node in nodes
        ]
        memories = [
            node.combine(memory, t, letters)
            for node, memory, letters in zip(nodes, memories, heard, strict=True)
        ]
        yield t + 1, "combine", memories
        memories = [node.adapt(memory, t) for node, memory in zip(nodes, memories, strict=True)]
        yield t + 1, "adapt", memories


def _stacked(trees: list[Any]) -> Any:
    """Trees of the same shape as one of JAX arrays, with a first axis."""
    return jax.tree.map(on_device, stack(trees))


def _check_losses(states: list[State]) -> None:
    """Refuse to go on once the training of a node broke down, where a method keeps that."""
    kept = [state.memory for state in states]
    if isinstance(kept[0], dict) and "broke" in kept[0]:
        runtime.check_losses(State(None, {"broke": stack([memory["broke"] for memory in kept])}))
