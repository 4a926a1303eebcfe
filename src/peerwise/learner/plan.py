"""What a cell will cost, before it is run: read off its program, timed by a few of its rounds."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from peerwise.learner.run import assembled, recorded, run
from peerwise.learner.sections import Cell, cell
from peerwise.runtime import count_messages
from peerwise.simulate.cost import Cost, cost_of
from peerwise.topology import Topology
from peerwise.topology.links import edges_of

Clock = Callable[[], float]

SEEN = 0.1  # share of a run's other work from which on its rounds can be timed beside it
MANY = 1 << 18  # rounds of a node that are run to time quick ones
OVERHEAD = 4  # times what arithmetic and memory need: then neither is what limits


class Planned(NamedTuple):
    """What is known of a cell without running it; all repetitions run side by side."""

    cell: Cell
    cost: Cost  # of one repetition
    messages: float  # a round
    links: Topology

    @property
    def repetitions(self) -> int:
        """How many networks learn."""
        return int(self.cell["run"]["repetitions"])

    @property
    def traffic(self) -> float:
        """Bytes that cross one network in a round."""
        return self.messages * self.cost.message

    @property
    def memory(self) -> int:
        """Bytes on the device while all repetitions go on."""
        return self.cost.memory * self.repetitions

    @property
    def flop(self) -> float:
        """A round of all repetitions."""
        return self.cost.flop * self.repetitions

    @property
    def work(self) -> float:
        """FLOP of the whole cell, measuring included."""
        records = max(len(recorded(self.cell)), 1) * self.cost.probe_flop
        return self.repetitions * (self.cell["run"]["rounds"] * self.cost.flop + records)


class Timing(NamedTuple):
    """Seconds of a cell on this machine."""

    once: float  # data read, dealt and packed, final errors on all rows
    compiling: float  # the first time; kept where JAX_COMPILATION_CACHE_DIR is set
    round: float
    record: float  # of measuring all nodes once

    def total(self, rounds: int, records: int) -> float:
        """Seconds of so many rounds, so many of them recorded."""
        return self.once + self.compiling + rounds * self.round + records * self.record

    def scaled(self, by: float) -> "Timing":
        """The same for another cell of the same program with so many times the work."""
        return self._replace(round=self.round * by, record=self.record * by)


class Machine(NamedTuple):
    """What this machine's device can do at best, measured on plain operations."""

    flops: float  # a second, in products of matrices
    bandwidth: float  # bytes a second, read and written in a copy


class Shared(NamedTuple):
    """One network shared by several devices."""

    crossing: int  # bytes that come in a round to the device that hears most from others
    seconds: float  # a round
    memory: float  # bytes a device
    limit: str


def _with(described: Cell, **run_options: Any) -> Cell:
    table = {**described["run"], **run_options}
    known = {k: v for k, v in table.items() if v is not None}
    return cell({**described.raw, "run": known})


def plan(described: Cell) -> Planned:
    """Draw the first repetition of a cell, trace its program and read off what it costs.

    Memory is not known before `compiled`.
    """
    _, (part, *_) = assembled(_with(described, repetitions=1))
    rounds, cost = described["run"]["rounds"], _cost(described, part, compiled=False)
    silent = described.method.traits.place in ("pooled", "alone")
    sent = 0 if silent or not rounds else count_messages(part.links, 0, rounds) / rounds
    return Planned(described, cost._replace(message=0) if silent else cost, sent, part.links)


def compiled(planned: Planned) -> Planned:
    """The same with the memory that the compiled program needs."""
    _, (part, *_) = assembled(_with(planned.cell, repetitions=1))
    memory = _cost(planned.cell, part, compiled=True).memory
    return planned._replace(cost=planned.cost._replace(memory=memory))


def _cost(described: Cell, part: Any, compiled: bool) -> Cost:
    return cost_of(
        part.method, part.shards, part.links, channel=part.channel, probe=part.probe,
        recorded=max(len(recorded(described)), 1), stages=tuple(described["run"]["stages"]),
        precision=described["run"]["precision"], compiled=compiled,
    )  # fmt: skip


def like(planned: Planned, other: Planned) -> Planned:
    """The same with the memory of another cell of its method, by bytes of rows and states."""
    ratio = (planned.cost.rows + planned.cost.state) / max(other.cost.rows + other.cost.state, 1)
    return planned._replace(cost=planned.cost._replace(memory=int(other.cost.memory * ratio)))


def _timed(f: Callable[[], Any], times: int = 1, clock: Clock = time.perf_counter) -> float:
    """Seconds of a call, the least of so many."""
    took = []
    for _ in range(times):
        begun = clock()
        f()
        took.append(clock() - begun)
    return min(took)


def calibrate(described: Cell, enough: float = 0.5, clock: Clock = time.perf_counter) -> Timing:
    """Run a few rounds of a cell; as many as take `enough` seconds.

    Rounds too quick to be told from the rest of a run are timed by more of them than the cell has.
    """
    rounds, records = described["run"]["rounds"], len(recorded(described))
    few = _with(described, rounds=min(rounds, 1), record="last", early=False)
    first = _timed(lambda: run(few), 1, clock)
    # the least of two: other programs of this machine, or a compilation, may fall into one
    once = _timed(lambda: run(few), 2, clock)
    if rounds < 2:
        return Timing(once, max(first - once, 0), 0.0, 0.0)
    more, took = 1, 0.0
    while took < enough and more < rounds - 1:
        more = min((4 if took > SEEN * once else 16) * more, rounds - 1)
        took, once = _longer(described, more, few, once, clock)
    many = MANY // described["split"]["nodes"]
    while took < SEEN * once and more < many:
        more = min(16 * more, many)
        took, once = _longer(described, more, few, once, clock)
    per_round = max(took, 0) / more
    per_record = 0.0
    for seen in (min(8, rounds), min(64, rounds)) if records > 1 else ():
        every = _with(described, rounds=seen, record="all", early=False)
        run(every)
        took = _timed(partial(run, every), 2, clock) - once - (seen - 1) * per_round
        per_record = max(took, 0) / max(seen - 1, 1)
        if took > enough:
            break
    return Timing(max(once - per_round, 0), max(first - once, 0), per_round, per_record)


def _longer(
    described: Cell, more: int, few: Cell, once: float, clock: Clock
) -> tuple[float, float]:
    """Seconds of so many more rounds, and of a run of one, timed again beside it."""
    longer = _with(described, rounds=1 + more, record="last", early=False)
    run(longer)  # where the graph changes it is another program
    whole = _timed(partial(run, longer), 2, clock)
    once = min(once, _timed(partial(run, few), 1, clock))
    return whole - once, once


def machine(seconds: float = 0.2) -> Machine:
    """Measure the device: the best of several products of matrices, and of several copies."""
    a = jnp.ones((1024, 1024), jnp.float32)
    b = jnp.ones((1 << 24,), jnp.float32)
    product, copy = jax.jit(lambda a: a @ a), jax.jit(lambda b: b + 1)

    def best(f: Callable[[Any], Any], x: Any) -> float:
        jax.block_until_ready(f(x))
        end, times = time.perf_counter() + seconds, list[float]()
        while not times or time.perf_counter() < end:
            times.append(_timed(lambda: jax.block_until_ready(f(x))))
        return min(times)

    return Machine(2 * 1024**3 / best(product, a), 2 * b.nbytes / best(copy, b))


def limit_of(planned: Planned, timing: Timing, here: Machine) -> str:
    """What a round takes its time for, in words."""
    arithmetic = planned.flop / here.flops
    memory = planned.cost.touched * planned.repetitions / here.bandwidth
    if not planned.cell["run"]["rounds"] or not timing.round:  # too quick to be timed
        return "reading and measuring, not rounds"
    if timing.round > OVERHEAD * max(arithmetic, memory):
        return "many small operations"
    return "arithmetic" if arithmetic > memory else "memory"


def crossing(links: Topology, devices: int) -> int:
    """Messages that come in a round to the device that hears most from other devices.

    Nodes go to devices in an order that keeps neighbours together (reverse Cuthill-McKee), as many
    to each; a message that several nodes of a device hear comes once.
    """
    src, dst, _ = edges_of(links)
    if links.server or not src.size:
        return 0
    n = links.n
    ends = np.append(0, np.cumsum(np.bincount(dst, minlength=n))).astype(np.int32)
    order = reverse_cuthill_mckee(csr_array((np.ones(src.size), src, ends), (n, n)), True)
    part = np.empty(n, np.int64)
    part[order] = np.arange(n) * devices // n
    out = part[src] != part[dst]
    come = np.unique(part[dst][out] * n + src[out]) // n
    return int(np.bincount(come, minlength=1).max(initial=0))


def shared(planned: Planned, timing: Timing, devices: int, bandwidth: float) -> Shared:
    """A round on so many devices like this one, joined by links of so many bytes a second.

    Arithmetic and memory divide by the devices, and messages that cross come on top; what small
    operations cost does not get less, so this is the most that can be hoped for.
    """
    size = crossing(planned.links, devices) * planned.cost.message * planned.repetitions
    own, exchange = timing.round / devices, size / bandwidth
    limit = "the exchange between devices" if exchange > own else "each device's own part"
    return Shared(size, own + exchange, planned.memory / devices, limit)
