"""Run a method on a whole network at once: every node is a row of an array."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from peerwise import runtime
from peerwise.channel import Channel, perfect
from peerwise.core import Method, Tree, on_device, on_host
from peerwise.errors import BadSetting, UnknownName
from peerwise.runtime import Probe, Run
from peerwise.shards import Shards
from peerwise.simulate.nodes import BLOCK, Plan
from peerwise.simulate.program import Carry, advance_all, begin_all
from peerwise.simulate.replicas import count_replicas, first_of, host_inputs, in_turn, inputs_of
from peerwise.simulate.replies import part_shape
from peerwise.simulate.saving import Checkpoint, resumed
from peerwise.simulate.sharded import ManyDevices
from peerwise.topology import Topology
from peerwise.topology.links import by_degree, late_links, two_way

LARGE = 10_000  # nodes from which on a GPU loses more by empty slots than by several buckets

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
    mesh: Mesh | None = None,
    cut: str = "auto",
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
    called with the number of rounds done, and `watch` with it and the history so far; chunks grow
    until those who watch are told a few times a second.

    With a `mesh` (see `mesh_of`) its devices share the nodes, in parts that few links cross (`cut`:
    "auto", "order" or "metis"), and bring each other the messages that do. Results are those of one
    device to rounding, and the same to the bit for any number of devices from two on. Replicas run
    one after the other. The result lies in the memory of every process, as NumPy's arrays.

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
    if rows == "host" and (replicas is not None or mesh is not None):
        raise BadSetting(
            "rows in the host's memory are for one network at a time on one device: give no lists "
            "and no mesh"
        )
    if mesh is not None and mesh.devices.size > 1 and replicas is not None:
        go = partial(
            simulate, method, rounds=rounds, channel=channel, at=at, stages=stages, exact=exact,
            precision=precision, until=until, chunk=chunk, mesh=mesh, cut=cut,
        )  # fmt: skip
        given = {"shards": shards, "topology": topology, "seed": seed, "probe": probe}
        return in_turn(go, replicas, given, resume, checkpoint, progress)
    pages = channel.lag + 1 + (method.reply is not None)
    plan = Plan(method, stages, exact, pages, host=rows == "host")
    late = _prepared(topology, channel.lag, method.reply is not None)
    with runtime.precision_of(precision) as dtype:
        if rows == "host":
            shards = _rows_on_host(first_of(shards), dtype)
        runner: _OneDevice | ManyDevices
        if mesh is not None and mesh.devices.size > 1:
            network = host_inputs(seed, shards, late, probe, dtype)
            runner = ManyDevices(plan, mesh, cut, network, channel, np.asarray(at, np.int32))
        else:
            skips = replicas is None and _skips_empty_slots(plan, n)
            slots = by_degree(late) if skips else late
            runner = _OneDevice(plan, *inputs_of(seed, shards, slots, probe, dtype), channel, at)
        saved = None
        if checkpoint is not None:
            key, data, _, eye = runner.inputs
            raw = np.asarray(jax.random.key_data(key))
            # not the links as the runner has them: another number of devices may order slots anew
            saved = Checkpoint(checkpoint, method, stages, exact, raw, data, late, channel, eye, at)
        carry, done = _begun(runner, at, resume, saved)
        if done > rounds:
            raise BadSetting(f"the run has done {done} rounds already; ask for that many or more")
        stop = rounds if until is None else min(until, rounds)
        step = chunk or (
            max(1, rounds // 50) if progress or watch or checkpoint else max(stop - done, 1)
        )
        runner.check_losses(carry)
        grows = watch is not None and chunk is None and progress is None and checkpoint is None
        while done < stop:
            start, done, begun = done, min(done + step, stop), time.perf_counter()
            carry = runner.advance(carry, start, done)
            runner.check_losses(carry)
            if saved is not None:
                runner.save(saved, carry, done, done == stop)
            if progress is not None:
                jax.block_until_ready(carry.state)
                progress(done)
            if watch is not None:
                jax.block_until_ready(carry.state)
                watch(done, _history(carry, at, done, replicas))
            if grows and time.perf_counter() - begun < OFTEN:  # who watches sees no faster
                step *= 2
        carry = runner.whole(carry)
        return Run(
            state=carry.state,
            rounds=done,
            recorded=tuple(r for r in at if r <= done),
            history=_history(carry, at, done, replicas),
            message_bytes=_bytes(method, carry, runner.inputs[1], replicas),
            messages=_messages(topology, done, replicas),
            carry=carry,
        )


class _OneDevice:
    """A run, or all its replicas, on one device."""

    def __init__(self, plan: Plan, inputs: Any, axes: Any, channel: Channel, at: Any):
        self.inputs, self._fixed = inputs, (plan, axes)
        self._channel, self._at = channel, on_device(at, np.int32)

    def begin(self) -> Carry:
        """The carry before round 0."""
        return begin_all(*self._fixed, *self.inputs, self._at)

    def like(self) -> Carry:
        """The shapes of a carry."""
        begin = partial(begin_all, *self._fixed)
        return jax.eval_shape(begin, *self.inputs, self._at)

    def advance(self, carry: Carry, start: int, stop: int) -> Carry:
        """The carry after rounds start .. stop-1."""
        key, data, network, eye = self.inputs
        given = key, data, network, self._channel, eye, self._at
        return advance_all(*self._fixed, carry, start, stop, *given)

    def check_losses(self, carry: Carry) -> None:
        """Raise `Diverged` if the loss of a node is infinite or NaN."""
        runtime.check_losses(carry.state)

    def load(self, saved: Checkpoint) -> tuple[Carry, int] | None:
        """A saved run and its rounds, if there is one."""
        if not saved.path.exists():
            return None
        carry, done = saved.load(self.like())
        return jax.tree.map(on_device, carry), done

    def save(self, saved: Checkpoint, carry: Carry, done: int, last: bool) -> None:
        """Keep a run."""
        saved.save(carry, done, last)

    def placed(self, carry: Carry) -> Carry:
        """A carry of all nodes, on the device."""
        return carry

    def whole(self, carry: Carry) -> Carry:
        """A carry of all nodes."""
        return carry


def _rows_on_host(shards: Shards, dtype: np.dtype) -> Shards:
    """The rows in the host's memory; which nodes hold them stays on the device."""
    groups = (g._replace(shard=on_host(g.shard, dtype)) for g in shards.groups)
    return Shards(tuple(groups))


def _prepared(topology: Any, lag: int, replies: bool) -> Any:
    """The topology, or that of each replica, with links of messages on their way, and back."""
    if isinstance(topology, list):
        return [_prepared(one, lag, replies) for one in topology]
    return two_way(topology) if replies else late_links(topology, lag)


def _skips_empty_slots(plan: Plan, n: int) -> bool:
    """Whether nodes go by degree; replies that are summed need all to have as many slots."""
    on_cpu = jax.default_backend() == "cpu"
    if plan.method.reply is None:
        return n >= LARGE and not on_cpu
    return not plan.sums_replies and n > (BLOCK if on_cpu else LARGE)


def _begun(
    runner: Any, at: tuple[int, ...], resume: Run | None, saved: Checkpoint | None
) -> tuple[Carry, int]:
    """Where a run begins or goes on, and how many rounds it has done."""
    if resume is not None:
        carry, done = resumed(resume, runner.like(), at)
        return runner.placed(carry), done
    kept = None if saved is None else runner.load(saved)
    return (runner.begin(), 0) if kept is None else kept


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
