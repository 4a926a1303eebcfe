"""Run a cell: draw its rows, assemble every repetition, let the networks learn, measure."""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from peerwise import metrics
from peerwise.core import Method, on_host
from peerwise.declare import build, find
from peerwise.errors import BadData, BadSetting
from peerwise.learner import details
from peerwise.learner.assemble import Assembled, Facts, assemble, make_links
from peerwise.learner.firsts import settled
from peerwise.learner.sections import Cell
from peerwise.learner.world import World, drawn
from peerwise.metrics.clock import Clock
from peerwise.runtime import cast, precision_of
from peerwise.shards import pack_alike
from peerwise.simulate import simulate
from peerwise.simulate.sharded import look_over
from peerwise.topology.links import edges_of

ROWS_VARIABLE = "PEERWISE_ROWS"  # which memory holds the nodes' rows: device or host
EARLY = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28)  # rounds that `[run] early` records in addition


class Outcome(NamedTuple):
    """The results of one cell, for every repetition, recorded round and node.

    Errors on the training rows are measured after the last round only: there are many such rows.
    What is measured after combining is called `combined_...`.
    """

    rounds: np.ndarray  # [r] which rounds were recorded
    values: dict[str, np.ndarray]  # name -> [repetitions, r or 1, nodes, ...] or [repetitions, r]
    bytes_per_link: int  # the size of one message
    messages: int  # messages of all nodes in one repetition, as a mean over repetitions
    details: dict[str, np.ndarray] = {}  # of the first repetition, for a page  # noqa: RUF012


class Seen(NamedTuple):
    """How far a run is, after some rounds of one group of repetitions."""

    rounds: int  # rounds that are done
    total: int
    recorded: np.ndarray  # [r] rounds that were measured so far
    error: np.ndarray  # [repetitions, r, nodes] test errors
    seconds: float  # since this group began, compilation included
    group: int  # repetitions of different shapes are groups, which run one after the other
    groups: int


Watch = Callable[[Seen], None]


def recorded(cell: Cell) -> list[int]:
    """The rounds at which nodes are measured: the last is always among them."""
    s, rounds = cell["run"], cell["run"]["rounds"]
    if not rounds:
        return []
    every = {"last": rounds, "all": 1}.get(s["record"], s["record"])
    early = EARLY if s["early"] else ()
    return sorted({*range(every, rounds + 1, every), rounds, *(r for r in early if r <= rounds)})


def assembled(cell: Cell) -> tuple[list[World], list[Assembled]]:
    """The worlds of all repetitions and what runs in each."""
    worlds = [drawn(cell, r) for r in range(cell["run"]["repetitions"])]
    if "network" in cell and cell["network"]["fixed"]:
        worlds = [w._replace(seed=worlds[0].seed) for w in worlds]
    links = [make_links(cell, w) for w in worlds]
    worlds = [settled(cell, w, one) for w, one in zip(worlds, links, strict=True)]
    degree = max(one.slots for one in links)
    if cell.method.traits.place == "pooled":
        return worlds, [assemble(cell, w, degree) for w in worlds]
    # pad all repetitions to equal shapes, so that one program runs them side by side
    packed = pack_alike([w.x for w in worlds], [w.y for w in worlds], [w.owned for w in worlds])
    pairs = zip(worlds, packed, strict=True)
    return worlds, [assemble(cell, w, degree, shards) for w, shards in pairs]


def run(
    cell: Cell,
    checkpoint: Path | None = None,
    *,
    predictions: bool = False,
    watch: Watch | None = None,
    mesh: Any = None,
    cut: str = "auto",
) -> Outcome:
    """Run all repetitions of a cell, side by side where their shapes allow it.

    `predictions`: the details also hold the first repetition's predictions for the test rows.
    `watch` is called now and then with what was measured so far.
    With a `mesh`, its devices share each network, and repetitions run one after the other.
    """
    worlds, parts = assembled(cell)
    if cell.method.traits.place == "pooled" or (mesh is not None and mesh.devices.size == 1):
        mesh = None  # there is one node, or one device: nothing to share
    s, silent = cell["run"], cell.method.traits.place in ("pooled", "alone")
    stages, at = tuple(s["stages"]), recorded(cell)
    seeds = [int(x) for x in np.random.SeedSequence([s["seed"], 3]).generate_state(len(parts))]
    clock = _Clock(s["rounds"], at, stages[-1], watch, 1 if _alike(parts) else len(parts))
    go = partial(
        simulate, rounds=s["rounds"], at=at, stages=stages, channel=parts[0].channel,
        precision=s["precision"], mesh=mesh, cut=cut,
    )  # fmt: skip
    methods, probes = [p.method for p in parts], [p.probe for p in parts]
    rows = os.environ.get(ROWS_VARIABLE, "device")
    runs = _simulated(parts, seeds, go, clock, checkpoint, silent, rows, mesh is not None)
    states = [(r.state, i) for r in runs for i in range(_count(r))]
    train = [metrics.errors("train", w.x, w.y) for w in worlds]
    if rows == "host":
        with precision_of(s["precision"]) as dtype:
            train = [on_host(probe, dtype) for probe in train]
    values = _at_end(methods, states, train, s["precision"], mesh)
    if s["rounds"]:
        for stage in stages:
            seen = [run.history[stage] for run in runs]
            prefix = "combined_" if stage == "combine" else ""
            values |= {prefix + k: _joined(k, [np.asarray(h[k]) for h in seen]) for k in seen[0]}
    else:  # nothing is learnt round by round: look at the start
        values |= _at_end(methods, states, probes, s["precision"], mesh)
    values |= _by_subgroup(cell, worlds, parts, states, mesh)
    sent = round(float(np.mean(np.concatenate([r.messages for r in runs]))))
    size, messages = (0, 0) if silent else (runs[0].message_bytes, sent)
    values |= _on_the_clock(cell, worlds, parts, at, size)
    more = details.of_rows(worlds[0], parts[0].links) | clock.marks
    if predictions:
        more |= details.of_predictions(worlds[0], parts[0], states[0], s["precision"])
    return Outcome(np.array(at or [0]), values, size, messages, more)


def _simulated(
    parts: list[Assembled], seeds: list[int], go: Any, clock: "_Clock", checkpoint: Path | None,
    silent: bool, rows: str, shared: bool,
) -> list[Any]:  # fmt: skip
    """Runs of all repetitions: in one program if their shapes agree, otherwise one by one.

    `shared`: several devices share each network, which then is run alone.
    """
    if shared:
        return [
            go(p.method, [p.shards], [p.links], seed=[seed], probe=[p.probe],
               checkpoint=checkpoint and checkpoint.with_name(f"{checkpoint.name}.{i}"))
            for i, (p, seed) in enumerate(zip(parts, seeds, strict=True))
        ]  # fmt: skip
    if rows != "device":  # rows in the host's memory allow one network at a time
        return [
            _as_replica(go(p.method, p.shards, p.links, seed=seed, probe=p.probe, rows=rows))
            for p, seed in zip(parts, seeds, strict=True)
        ]
    if _alike(parts):
        links: Any = parts[0].links if silent else [p.links for p in parts]
        shards, probes = [p.shards for p in parts], [p.probe for p in parts]
        method, times = parts[0].method, clock.next()
        return [go(method, shards, links, seed=seeds, probe=probes, checkpoint=checkpoint, **times)]
    return [
        go(p.method, [p.shards], [p.links], seed=[seed], probe=[p.probe], **clock.next())
        for p, seed in zip(parts, seeds, strict=True)
    ]


class _Clock:
    """Tells a watcher what was measured so far, and keeps when: rounds and seconds [k, 2]."""

    def __init__(
        self, total: int, at: list[int], stage: str, watch: Watch | None, groups: int
    ) -> None:
        self.total, self.at, self.stage = total, np.array(at, int), stage
        self.watch, self.groups, self.group = watch, groups, -1
        self.kept: list[tuple[int, float]] = []

    def next(self) -> dict[str, Any]:
        """Begin with the next group of repetitions; arguments of `simulate`."""
        if self.watch is None:
            return {}
        self.group, self.begun = self.group + 1, time.perf_counter()
        return {"watch": self.look}

    def look(self, done: int, history: Any) -> None:
        """Hand on what `simulate` has measured."""
        seconds = time.perf_counter() - self.begun
        if self.group == 0:
            self.kept.append((done, seconds))
        error = np.asarray(history[self.stage]["test_error"])
        reached = self.at[: error.shape[1]]
        assert self.watch is not None
        self.watch(Seen(done, self.total, reached, error, seconds, self.group, self.groups))

    @property
    def marks(self) -> dict[str, np.ndarray]:
        """When which round was done, where somebody watched."""
        return {"seconds": np.array(self.kept)} if self.kept else {}


def _as_replica(run: Any) -> Any:
    """A run of one network as that of several of which there is one."""
    state, history = jax.tree.map(lambda a: a[None], (run.state, run.history))
    return run._replace(state=state, history=history, messages=np.array([run.messages]))


def _on_the_clock(
    cell: Cell, worlds: list[World], parts: list[Assembled], at: list[int], size: int
) -> dict[str, np.ndarray]:
    """When each node has finished each recorded round, if a clock is asked for: `seconds`.

    Learners that hold all rows in one place, or that learn without rounds, have no deployment.
    """
    built = [build("metric", table, Facts({}, {})) for table in cell["run"]["metrics"]
            if not find("metric", table["name"]).facts]  # fmt: skip
    clocks = [clock for clock in built if isinstance(clock, Clock)]
    if not clocks or not at or cell.method.traits.place == "pooled":
        return {}
    if "network" in cell and cell["network"]["channel"]["name"] != "perfect":
        name = cell["network"]["channel"]["name"]
        raise BadSetting(
            f"the metric clock needs messages that all arrive at once, but channel '{name}' loses "
            "or delays some: remove the metric, or the channel"
        )
    seconds = []
    for world, part in zip(worlds, parts, strict=True):
        links, seed, size_of = part.links, world.seed, float(size)
        graphs = [edges_of(links, i * int(links.every))[:2] for i in range(len(links.links.src))]
        now = partial(_graph_of, graphs, int(links.every))
        seconds.append(clocks[0].seconds(links.n, now, at, size_of, seed=seed, server=links.server))
    return {"seconds": np.stack(seconds)}


def _graph_of(graphs: list[Any], every: int, t: int) -> Any:
    """The graph of round t; the last lasts for ever."""
    return graphs[min(t // every, len(graphs) - 1)]


def _by_subgroup(
    cell: Cell, worlds: list[World], parts: list[Assembled], states: list[Any], mesh: Any
) -> dict[str, np.ndarray]:
    """The same metrics on test rows of one kind: "metric|column = value" -> [repetitions, 1, ...].

    A repetition without such rows has NaN.
    """
    values: dict[str, np.ndarray] = {}
    for name in cell["run"]["by"]:
        for value in np.unique(np.concatenate([w.groups[name] for w in worlds])):
            seen: list[dict[str, np.ndarray] | None] = []
            for world, part, state in zip(worlds, parts, states, strict=True):
                rows = np.flatnonzero(world.groups[name] == value)
                if not rows.size:
                    seen.append(None)
                    continue
                few = world._replace(x_test=world.x_test[rows], y_test=world.y_test[rows])  # type: ignore[index]
                probe = assemble(cell, few, part.links.slots, part.shards).probe
                kind = cell["run"]["precision"]
                seen.append(_at_end([part.method], [state], [probe], kind, mesh))
            like = next(look for look in seen if look is not None)
            for k, v in like.items():
                every = [np.full_like(v, np.nan) if look is None else look[k] for look in seen]
                values[f"{k}|{name} = {value}"] = np.concatenate(every)
    return values


def _count(run: Any) -> int:
    return int(jax.tree.leaves(run.state)[0].shape[0])


@partial(jax.jit, static_argnums=0)
def _look(method: Method, probe: Any, states: Any, i: Any) -> Any:
    return probe(method, jax.tree.map(lambda a: a[i], states))


def _at_end(
    methods: list[Method],
    states: list[tuple[Any, int]],
    probes: list[Any],
    precision: str,
    mesh: Any,
) -> dict[str, np.ndarray]:
    """What the probes see in the final states of the repetitions: [repetitions, 1, ...]."""
    with precision_of(precision) as dtype:
        given = zip(methods, probes, states, strict=True)
        if mesh is None:
            seen = [_look(method, cast(probe, dtype), *state) for method, probe, state in given]
        else:
            seen = [look_over(mesh, m, probe, *state, dtype) for m, probe, state in given]
        return {k: _joined(k, [np.asarray(h[k])[None, None] for h in seen]) for k in seen[0]}


def _joined(name: str, parts: list[np.ndarray]) -> np.ndarray:
    """What all repetitions recorded, one after the other."""
    if len({part.shape[1:] for part in parts}) > 1:
        raise BadData(
            f"'{name}' has a value for each class, and not all repetitions drew training rows of "
            "the same classes; use more rows, or set [data] public = true if the classes are public"
        )
    return np.concatenate(parts)


def _alike(parts: list[Assembled]) -> bool:
    """Whether all repetitions fit into one array program."""
    shapes = [[a.shape for a in jax.tree.leaves(p.shards)] for p in parts]
    one = all(p.method is parts[0].method for p in parts) and all(s == shapes[0] for s in shapes)
    # a user's metric may be another function in every repetition
    one = one and len({jax.tree.structure(p.probe) for p in parts}) == 1
    return one and max(len(p.links.table) for p in parts) == 1
