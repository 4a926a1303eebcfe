"""Run a method on a whole network at once: every node is a row of an array."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise import checkpoint as files
from peerwise import runtime
from peerwise import topology as topologies
from peerwise.channel import Channel, perfect
from peerwise.core import Method, Tree
from peerwise.errors import BadSetting
from peerwise.runtime import Probe, Run
from peerwise.shards import Shards
from peerwise.simulate.nodes import Plan
from peerwise.simulate.program import Carry, advance_all, begin_all
from peerwise.simulate.replies import part_shape
from peerwise.topology import Topology

__all__ = ["Run", "simulate"]

QUICK = 0.1  # seconds: a checkpoint that takes less is written after every chunk
WORK = 20  # times as long as a slower one takes to write passes before the next


def _replicate(name: str, given: Any, replicas: int | None) -> tuple[int | None, int | None]:
    """The vmap axis of an argument and the number of replicas so far."""
    if not isinstance(given, list):
        return None, replicas
    if not given or (replicas is not None and len(given) != replicas):
        raise BadSetting(
            f"lists of replicas must have one length: {name} has {len(given)}, another {replicas}"
        )
    return 0, len(given)


def _stacked(name: str, trees: list[Any]) -> Any:
    shapes = [[np.shape(a) for a in jax.tree.leaves(tree)] for tree in trees]
    if any(s != shapes[0] for s in shapes):
        raise BadSetting(
            f"replicas must have equal shapes, and those of {name} differ: run them one by one"
        )
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _resumed(run: Run, like: Carry, at: tuple[int, ...]) -> tuple[Carry, int]:
    """What an interrupted run goes on from, if it is the run that the arguments describe."""

    def shapes(tree: Tree) -> Any:
        return jax.tree.structure(tree), [(a.shape, a.dtype) for a in jax.tree.leaves(tree)]

    if run.recorded != tuple(r for r in at if r <= run.rounds) or shapes(run.carry) != shapes(like):
        raise BadSetting(
            "the run to resume is another one: give the method, data, precision, probe, stages and "
            "rounds to record with which it began"
        )
    return run.carry, run.rounds


def _bytes(method: Method, carry: Carry, shards: Shards, replicas: int | None) -> int:
    """Bytes of one message with its notes, and of one reply."""
    more = replicas is not None

    def one(tree: Tree, axes: int) -> Tree:
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[axes + more :], a.dtype), tree)

    message, state = one(carry.sent, 2), one(carry.state, 1)
    shard = one(shards.groups[0].shard, 1)
    return runtime.size_of((message, part_shape(method, state, message, shard, 0)))


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
) -> Run:
    """Run `method` for `rounds` rounds on a network.

    `probe(method, state)` reads the network after the rounds `at` (default: the last), after
    `stages` ("combine", "adapt" or both). `exact` runs node after node and agrees with `walk` bit
    for bit; otherwise nodes run side by side and agree to rounding.

    Replicas: give lists of `shards`, `topology`, `seed` or `probe` (a single one is shared), and
    every array of the result has a leading axis for them.

    `until` stops early; `resume` goes on from such a run as if it had never stopped. With
    `checkpoint`, the run is saved there after every chunk of rounds (or after some, where saving
    would take more than a twentieth of the time) and found again. `progress` is told the number of
    rounds done after every chunk.
    """
    channel = perfect() if channel is None else channel
    at = ([rounds] if rounds else []) if at is None else at
    first_topology = topology[0] if isinstance(topology, list) else topology
    first_shards = shards[0] if isinstance(shards, list) else shards
    at, stages = runtime.check(
        method, first_shards.n, first_topology, channel.lag, rounds, at, stages
    )
    channel.check(first_topology, rounds)
    axes, replicas = [], None
    named = {"seed": seed, "shards": shards, "topology": topology, "probe": probe}
    for name, given in named.items():
        axis, replicas = _replicate(name, given, replicas)
        axes.append(axis)
    with runtime.precision_of(precision) as dtype:
        pages = channel.lag + 1 + (method.reply is not None)
        plan = Plan(method, stages, exact, pages)
        key = (
            jnp.stack([runtime.as_key(s) for s in seed])
            if isinstance(seed, list)
            else runtime.as_key(seed)
        )
        if isinstance(shards, list):
            data = _stacked("shards", [runtime.cast(s, dtype) for s in shards])
        else:
            data = runtime.cast(shards, dtype)
        graph = topologies.stack(topology) if isinstance(topology, list) else topology
        if isinstance(probe, list):
            eye = _stacked("probe", [runtime.as_probe(p, dtype) for p in probe])
        else:
            eye = runtime.as_probe(probe, dtype)
        when = jnp.asarray(at, jnp.int32)
        static_axes = None if replicas is None else tuple(axes)
        begin = partial(begin_all, plan, static_axes)
        done, mark = 0, ""
        if checkpoint is not None:
            seeds = jax.random.key_data(key)
            mark = files.fingerprint(method, stages, exact, seeds, data, graph, channel, eye, at)
        if resume is not None:
            like = jax.eval_shape(begin, key, data, graph, eye, when)
            carry, done = _resumed(resume, like, at)
        elif checkpoint is not None and Path(checkpoint).exists():
            like = jax.eval_shape(begin, key, data, graph, eye, when)
            carry, done = files.load(checkpoint, like, mark)
        else:
            carry = begin(key, data, graph, eye, when)
        if done > rounds:
            raise BadSetting(f"the run has done {done} rounds already; ask for that many or more")
        stop = rounds if until is None else min(until, rounds)
        step = chunk or (max(1, rounds // 50) if progress or checkpoint else max(stop - done, 1))
        runtime.check_losses(carry.state)
        saved, cost = time.monotonic(), 0.0
        while done < stop:
            upto = min(done + step, stop)
            carry = advance_all(
                plan, static_axes, carry, done, upto, key, data, graph, channel, eye, when
            )
            done = upto
            runtime.check_losses(carry.state)
            if checkpoint is not None:
                jax.block_until_ready(carry.state)
                begun = time.monotonic()
                if done == stop or cost < QUICK or begun - saved >= WORK * cost:
                    files.save(checkpoint, carry, done, mark)
                    saved = time.monotonic()
                    cost = saved - begun
            if progress is not None:
                jax.block_until_ready(carry.state)
                progress(done)
        seen = sum(r <= done for r in at)
        reached = slice(seen) if replicas is None else (slice(None), slice(seen))
        return Run(
            state=carry.state,
            rounds=done,
            recorded=at[:seen],
            history=carry.records
            if seen == len(at)
            else jax.tree.map(lambda a: a[reached], carry.records),
            message_bytes=_bytes(method, carry, data, replicas),
            messages=runtime.count_messages(first_topology, 0, done),
            carry=carry,
        )
