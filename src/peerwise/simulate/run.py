"""Run a method on a whole network at once: every node is a row of an array."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from peerwise import runtime
from peerwise.channel import Channel, perfect
from peerwise.core import Method, Tree, on_device, on_host
from peerwise.errors import BadSetting, UnknownName
from peerwise.runtime import Probe, Run
from peerwise.shards import Shards
from peerwise.simulate.nodes import Plan
from peerwise.simulate.program import Carry, advance_all, begin_all
from peerwise.simulate.replicas import count_replicas, first_of, inputs_of
from peerwise.simulate.replies import part_shape
from peerwise.simulate.saving import Checkpoint, resumed
from peerwise.topology import Topology
from peerwise.topology.links import late_links


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
    chunk: int | None = None,
    rows: str = "device",
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
    called with the number of rounds done.

    With `rows` = "host" the nodes' rows stay in the host's memory and are moved to the device in
    blocks of nodes, every round: for rows that do not fit it. Not for replicas.
    """
    if rows not in ("device", "host"):
        raise UnknownName("place for rows", rows, ["device", "host"])
    channel = perfect() if channel is None else channel
    at = ([rounds] if rounds else []) if at is None else at
    replicas = count_replicas(seed=seed, shards=shards, topology=topology, probe=probe)
    n, graph = first_of(shards).n, first_of(topology)
    at, stages = runtime.check(method, n, graph, channel.lag, rounds, at, stages)
    for one in topology if isinstance(topology, list) else [topology]:
        runtime.check(method, n, one, channel.lag, rounds, at, stages)
        channel.check(one, rounds)
    if rows == "host" and replicas is not None:
        raise BadSetting("rows in the host's memory are for one network at a time: give no lists")
    pages = channel.lag + 1 + (method.reply is not None)
    plan = Plan(method, stages, exact, pages, rows == "host")
    with runtime.precision_of(precision) as dtype:
        if rows == "host":
            shards = _rows_on_host(first_of(shards), dtype)
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
        step = chunk or (max(1, rounds // 50) if progress or checkpoint else max(stop - done, 1))
        runtime.check_losses(carry.state)
        while done < stop:
            start, done = done, min(done + step, stop)
            carry = advance_all(
                plan, axes, carry, start, done, key, data, network, channel, eye, recorded
            )
            runtime.check_losses(carry.state)
            if saved is not None:
                saved.save(carry, done, last=done == stop)
            if progress is not None:
                jax.block_until_ready(carry.state)
                progress(done)
        return Run(
            state=carry.state,
            rounds=done,
            recorded=tuple(r for r in at if r <= done),
            history=_history(carry, at, done, replicas),
            message_bytes=_bytes(method, carry, data, replicas),
            messages=_messages(topology, done, replicas),
            carry=carry,
        )


def _rows_on_host(shards: Shards, dtype: np.dtype) -> Shards:
    """The rows in the host's memory; which nodes hold them stays on the device."""
    groups = (g._replace(shard=on_host(g.shard, dtype)) for g in shards.groups)
    return Shards(tuple(groups))


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
