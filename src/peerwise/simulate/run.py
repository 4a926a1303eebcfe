"""Run a method on a whole network at once: every node is a row of an array."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from peerwise import runtime
from peerwise.channel import Channel, perfect
from peerwise.core import Method, Tree, on_device
from peerwise.errors import BadSetting
from peerwise.runtime import Probe, Run
from peerwise.shards import Shards
from peerwise.simulate.nodes import Plan
from peerwise.simulate.program import Carry, advance_all, begin_all
from peerwise.simulate.replicas import count_replicas, first_of, inputs_of
from peerwise.simulate.replies import part_shape
from peerwise.simulate.saving import Checkpoint, resumed
from peerwise.topology import Topology
from peerwise.topology.links import late_links

OFTEN = 0.25  # seconds that a chunk of rounds may take, where somebody watches


def simulate(
    method: Method,
    shards: Shards | list[Shards],
    topology: Topology | list[Topology],
    rounds: int,
    *,
    seed: Any = 0,
    channel: Channel | None = None,
    probe: Probe | list[Probe] | None = None,
    at: Sequence[int] | None = None,
    stages: str | Sequence[str] = "adapt",
    exact: bool = False,
    precision: str = "float32",
    until: int | None = None,
    resume: Run | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[int], None] | None = None,
    watch: Callable[[int, dict[str, Tree]], None] | None = None,
    chunk: int | None = None,
) -> Run:
    """Run `method` for `rounds` rounds on a network.

    `probe(method, state)` reads the network after the rounds `at` (default: the last), after
    `stages` ("combine", "adapt" or both). `exact` runs node after node and agrees with `walk` bit
    for bit; otherwise nodes run side by side and agree to rounding.

    Replicas: give lists of `shards`, `topology`, `seed` or `probe` (a single one is shared), and
    every array of the result has a leading axis for them.

    `until` stops early; `resume` goes on from such a run as if it had never stopped. With
    `checkpoint`, the run is saved there after every chunk of rounds (or after some, where saving
    would take more than a twentieth of the time) and loaded again. After every chunk `progress` is
    called with the number of rounds done, and `watch` with it and the history so far; chunks grow
    until those who watch are told a few times a second.
    """
    channel = perfect() if channel is None else channel
    at = ([rounds] if rounds else []) if at is None else at
    replicas = count_replicas(seed=seed, shards=shards, topology=topology, probe=probe)
    n, graph = first_of(shards).n, first_of(topology)
    at, stages = runtime.check(method, n, graph, channel.lag, rounds, at, stages)
    for one in topology if isinstance(topology, list) else [topology]:
        runtime.check(method, n, one, channel.lag, rounds, at, stages)
        channel.check(one, rounds)
    plan = Plan(method, stages, exact, channel.lag + 1 + (method.reply is not None))
    with runtime.precision_of(precision) as dtype:
        inputs, axes = inputs_of(seed, shards, _with_late(topology, channel.lag), probe, dtype)
        recorded = on_device(at, np.int32)
        key, data, network, eye = inputs
        saved = None
        if checkpoint is not None:
            raw = jax.random.key_data(key)
            saved = Checkpoint(
                checkpoint, method, stages, exact, raw, data, network, channel, eye, at
            )
        carry, done = _begun(partial(begin_all, plan, axes), (*inputs, recorded), at, resume, saved)
        if done > rounds:
            raise BadSetting(f"the run has done {done} rounds already; ask for that many or more")
        stop = rounds if until is None else min(until, rounds)
        step = chunk or (
            max(1, rounds // 50) if progress or watch or checkpoint else max(stop - done, 1)
        )
        runtime.check_losses(carry.state)
        grows = watch is not None and chunk is None and progress is None and checkpoint is None
        while done < stop:
            start, done, begun = done, min(done + step, stop), time.perf_counter()
            carry = advance_all(
                plan, axes, carry, start, done, key, data, network, channel, eye, recorded
            )
            runtime.check_losses(carry.state)
            if saved is not None:
                saved.save(carry, done, last=done == stop)
            if progress is not None:
                jax.block_until_ready(carry.state)
                progress(done)
            if watch is not None:
                jax.block_until_ready(carry.state)
                watch(done, _history(carry, at, done, replicas))
            if grows and time.perf_counter() - begun < OFTEN:  # who watches sees no faster
                step *= 2
        return Run(
            state=carry.state,
            rounds=done,
            recorded=tuple(r for r in at if r <= done),
            history=_history(carry, at, done, replicas),
            message_bytes=_bytes(method, carry, data, replicas),
            messages=_messages(topology, done, replicas),
            carry=carry,
        )


def _with_late(topology: Any, lag: int) -> Any:
    """The topology, or that of each replica, with the links of messages still on their way."""
    if isinstance(topology, list):
        return [late_links(one, lag) for one in topology]
    return late_links(topology, lag)


def _begun(
    begin: Callable[..., Carry],
    arguments: tuple[Any, ...],
    at: tuple[int, ...],
    resume: Run | None,
    saved: Checkpoint | None,
) -> tuple[Carry, int]:
    """Where a run begins or goes on, and how many rounds it has done."""
    if resume is not None:
        return resumed(resume, jax.eval_shape(begin, *arguments), at)
    if saved is not None and saved.path.exists():
        return saved.load(jax.eval_shape(begin, *arguments))
    return begin(*arguments), 0


def _history(carry: Carry, at: tuple[int, ...], done: int, replicas: int | None) -> dict[str, Tree]:
    """What the probe saw in the rounds done so far."""
    seen = sum(r <= done for r in at)
    if seen == len(at):
        return carry.records
    reached = slice(seen) if replicas is None else (slice(None), slice(seen))
    history: dict[str, Tree] = jax.tree.map(lambda a: a[reached], carry.records)
    return history


def _messages(topology: Topology | list[Topology], done: int, replicas: int | None) -> Any:
    """How many were sent; of each replica, whose graphs may differ."""
    if replicas is None:
        return runtime.count_messages(first_of(topology), 0, done)
    graphs = topology if isinstance(topology, list) else [topology] * replicas
    return np.array([runtime.count_messages(graph, 0, done) for graph in graphs])


def _bytes(method: Method, carry: Carry, shards: Shards, replicas: int | None) -> int:
    """Bytes of one message with its notes, and of one reply."""
    more = replicas is not None

    def one(tree: Tree, axes: int) -> Tree:
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[axes:], a.dtype), tree)

    message, state = one(carry.sent, 2 + more), one(carry.state, 1 + more)
    rows = shards.groups[0].shard  # replicas may share their rows
    shard = one(rows, rows.weight.ndim - 1)
    return runtime.size_of((message, part_shape(method, state, message, shard, 0)))
