"""Run a method on a whole network at once: every node is a row of an array.

Rounds are one compiled loop. What differs between runs of the same shapes (data, graph, seed,
number of rounds, which of them are recorded) is an argument of the compiled program, so a second
run does not compile again.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise import checkpoint as files
from peerwise import runtime
from peerwise import topology as topologies
from peerwise.channel import Channel, perfect
from peerwise.combine.apply import Heard, all_finite, network, one_node
from peerwise.core import Array, Inbox, Message, Method, Shard, State, Tree
from peerwise.errors import BadSetting
from peerwise.runtime import ADAPT, CHANNEL, INIT, LINKS, MESSAGE, Probe, Run, stage_key
from peerwise.shards import Shards
from peerwise.topology import Topology

__all__ = ["Run", "simulate"]

BLOCK = 512  # nodes that learn side by side on a CPU


class Parts(NamedTuple):
    """What replies delivered: the newest part in every slot, and how the last round arrived."""

    part: Tree  # [n, k, ...]
    sent: Array  # [n, k] the round it was sent in, -1 = never
    weight: Array  # [n, k] of the round before
    age: Array  # [n, k] of the round before


class Carry(NamedTuple):
    """Everything that the next round needs."""

    state: State  # [n, ...]
    sent: Message  # [pages, n, ...] the messages of the last rounds; no page if none is read again
    parts: Parts | None
    records: dict[str, Tree]  # stage -> [recorded, ...]


class Plan(NamedTuple):
    """What is fixed when the program is compiled."""

    method: Method
    stages: tuple[str, ...]
    exact: bool
    pages: int

    # two plans are the same program only if they hold the same functions
    def __hash__(self) -> int:
        return hash((*(id(f) for f in self.method), self.stages, self.exact, self.pages))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Plan)
            and self[1:] == other[1:]
            and all(a is b for a, b in zip(self.method, other.method, strict=True))
        )


def _sealed(f: Callable[..., Tree]) -> Callable[..., Tree]:
    """f as a program of its own: nothing around it is fused into it and changes a last bit."""
    jitted = jax.jit(f)

    def sealed(*args: Any) -> Tree:
        return jax.lax.optimization_barrier(jitted(*jax.lax.optimization_barrier(args)))

    return sealed


def _each(plan: Plan, f: Callable[..., Tree], *args: Any) -> Tree:
    """f for every entry along axis 0: all at once, or one after the other in exact mode."""
    if not plan.exact:
        return jax.vmap(f)(*args)
    sealed = _sealed(f)
    return jax.lax.map(lambda row: sealed(*row), args)


def _in_blocks(f: Callable[..., Tree], *rows: Any) -> Tree:
    """f(*rows), on a CPU for a block of nodes after the other; the last may overlap the one before.

    What a block needs stays in the cache, and what it needs in between is never held for all.
    """
    n = jax.tree.leaves(rows)[0].shape[0]
    if n <= BLOCK or jax.default_backend() != "cpu":
        return f(*rows)
    blocks = -(-n // BLOCK)
    size = -(-n // blocks)

    def block(b: Any, done: Tree) -> Tree:
        at = jnp.minimum(b * size, n - size)
        new = f(*jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, at, size), rows))
        put = jax.lax.dynamic_update_slice_in_dim
        return jax.tree.map(lambda old, a: put(old, a, at, 0), done, new)

    blank = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(f, *rows))
    return jax.lax.fori_loop(0, blocks, block, blank)


def _each_shard(plan: Plan, f: Callable[..., Tree], shards: Shards, *args: Any) -> Tree:
    """f for every node with its shard, group by group, in the order of the nodes."""
    each = partial(_each, plan, f)
    if not plan.exact:
        each = partial(_in_blocks, each)
    if len(shards.groups) == 1:
        return each(*args, shards.groups[0].shard)
    parts = [each(*jax.tree.map(lambda a, g=g: a[g.nodes], args), g.shard) for g in shards.groups]
    place = jnp.argsort(jnp.concatenate([g.nodes for g in shards.groups]))
    return jax.tree.map(lambda *a: jnp.concatenate(a)[place], *parts)


def _keys(key: Array, stage: int, t: Any, n: int) -> Array:
    return jax.vmap(lambda i: jax.random.key_data(stage_key(key, stage, t, i)))(jnp.arange(n))


def _keyed(f: Callable[..., Tree]) -> Callable[..., Tree]:
    """f called with raw key data: compiled barriers do not take typed keys."""
    return lambda data, *args: f(jax.random.wrap_key_data(data), *args)


def _begin(
    plan: Plan, key: Array, shards: Shards, topology: Topology, probe: Any, at: Array
) -> Carry:
    method, n = plan.method, topology.n
    state = _each_shard(plan, _keyed(method.init), shards, _keys(key, INIT, 0, n))
    message = jax.eval_shape(jax.vmap(method.message), jax.random.split(key, n), state)
    blank = partial(jax.tree.map, lambda a: jnp.zeros(a.shape, a.dtype))
    pages = plan.pages if plan.pages > 1 else 0
    sent = jax.tree.map(lambda a: jnp.zeros((pages, *a.shape), a.dtype), message)
    records = {}
    if probe is not None:
        seen = jax.eval_shape(lambda s: probe(method, s), state)
        kept = jax.tree.map(lambda a: jnp.zeros((at.shape[0], *a.shape), a.dtype), seen)
        records = dict.fromkeys(plan.stages, kept)
    parts = None
    if method.reply is not None:
        k = topology.table[0][1].shape[-1]
        weight = jnp.zeros((n, k), shards.groups[0].shard.weight.dtype)
        slot = jax.tree.map(lambda a: a[0, 0], (sent.value, sent.note))
        # the part's shape does not depend on the part heard: find it with none heard
        one = jax.eval_shape(
            method.reply,
            jax.tree.map(lambda a: a[0], state),
            Shard(*(a[0] for a in shards.groups[0].shard)),
            Inbox(slot[0], slot[1], weight[0, 0], jnp.int32(-1), None),
        )
        part = blank(jax.tree.map(lambda a: jax.ShapeDtypeStruct((n, k, *a.shape), a.dtype), one))
        never = jnp.full((n, k), -1, jnp.int32)
        parts = Parts(part, never, weight, never)
    return Carry(state, sent, parts, records)


def _hear(
    plan: Plan, carry: Carry, key: Array, t: Any, topology: Topology, channel: Channel
) -> tuple[Heard, ...]:
    """Who is in which slot of whose inbox this round."""
    there = topology(jax.random.fold_in(key, LINKS), t)
    links = channel(jax.random.fold_in(key, CHANNEL), t, there)
    fine = jax.vmap(all_finite)(carry.sent)  # [pages, n]
    graph = topology.at(t)
    heard = []
    for nodes, table in topology.table:
        slot = table[graph]
        edge = jnp.maximum(slot, 0)
        src, age = links.src[edge], links.age[edge]
        page = (t - age) % plan.pages
        arrived = (slot >= 0) & (age <= t) & fine[page, src]
        dtype = runtime.float_of(carry.sent)
        weight = jnp.where(arrived, links.weight[edge], 0).astype(dtype)
        link = jnp.where(slot >= 0, there.weight[edge], 0).astype(dtype)
        slots = src, weight, age, None if plan.pages == 1 else page, None, link
        if topology.server:  # one row of slots for all: the message that each node sent up
            slots = jax.tree.map(lambda a: a.T, slots)
        heard.append(Heard(nodes if len(topology.table) > 1 else None, *slots))
    return tuple(heard)


def _reply(plan: Plan, carry: Carry, t: Any, heard: Heard, shards: Shards) -> tuple[Parts, Heard]:
    """Everybody answers what it heard last round, slot by slot, and hears the answers."""
    method, parts = plan.method, carry.parts
    assert parts is not None
    n, k = heard.src.shape
    page = (t - 1 - parts.age) % plan.pages

    def answer(state: State, slot: Inbox, shard: Shard) -> Tree:
        return method.reply(state, shard, slot)  # type: ignore[misc]

    def said_to(j: int) -> Tree:
        """What every node says to the neighbour in its slot j."""
        said = jax.tree.map(lambda a: a[page[:, j], heard.src[:, j]], carry.sent)
        part = jax.tree.map(lambda a: a[:, j], parts.part)
        slot = Inbox(said.value, said.note, parts.weight[:, j], parts.age[:, j], part)
        return _each_shard(plan, answer, shards, carry.state, slot)

    said = [said_to(j) for j in range(k)]
    out = jax.tree.map(lambda *a: jnp.stack(a, 1), *said)  # [n, k, ...]
    # the slot that node v has in the inbox of its neighbour
    back = (heard.src[heard.src] == jnp.arange(n)[:, None, None]).argmax(-1)
    mine = jax.tree.map(lambda a: a[heard.src, back], out)
    fine = jax.vmap(all_finite)(mine)
    weight = jnp.where(fine, heard.weight, 0)
    came = weight > 0

    def keep(new: Array, old: Array) -> Array:
        return jnp.where(came.reshape(came.shape + (1,) * (new.ndim - 2)), new, old)

    part = jax.tree.map(keep, mine, parts.part)
    sent = jnp.where(came, jnp.int32(t), parts.sent)
    age = jnp.where(sent < 0, -1, t - sent)
    heard = heard._replace(weight=weight, age=age, part=part)
    return Parts(part, sent, weight, jnp.where(came, heard.age, -1)), heard


def _combine(
    plan: Plan, carry: Carry, t: Any, heard: tuple[Heard, ...], topology: Topology
) -> Tree:
    method, state = plan.method, carry.state
    now = t % plan.pages
    note = jax.tree.map(lambda a: a[now], carry.sent.note)
    sent, notes = carry.sent
    if plan.pages == 1:
        sent, notes = jax.tree.map(lambda a: a[0], (sent, notes))
    one = None
    if plan.exact:
        one = _sealed(partial(one_node, method.combine, hears_itself=topology.server))
    return network(
        method.combine, state.value, note, sent, notes, heard, one, server=topology.server
    )


def _look(plan: Plan, stage: str, carry: Carry, t: Any, probe: Any, at: Array) -> Carry:
    """Let the probe look, if this is a round to record; nothing leaves the device."""
    if probe is None or stage not in plan.stages or not at.shape[0]:
        return carry
    row = jnp.searchsorted(at, t + 1)
    hit = (row < at.shape[0]) & (at[jnp.minimum(row, at.shape[0] - 1)] == t + 1)

    def write(records: Tree) -> Tree:
        seen = probe(plan.method, carry.state)
        return jax.tree.map(lambda kept, new: kept.at[row].set(new), records, seen)

    records = jax.lax.cond(hit, write, lambda r: r, carry.records[stage])
    return carry._replace(records={**carry.records, stage: records})


def _advance(
    plan: Plan,
    carry: Carry,
    start: Any,
    stop: Any,
    key: Array,
    shards: Shards,
    topology: Topology,
    channel: Channel,
    probe: Any,
    at: Array,
) -> Carry:
    """Rounds start .. stop-1."""
    method, n = plan.method, topology.n

    def one_round(t: Any, carry: Carry) -> Carry:
        out = _each(plan, _keyed(method.message), _keys(key, MESSAGE, t, n), carry.state)
        kept = carry.sent
        if plan.pages == 1:
            sent = jax.tree.map(lambda new: new[None], out)
        else:
            sent = kept = jax.tree.map(lambda old, new: old.at[t % plan.pages].set(new), kept, out)
        carry = carry._replace(sent=sent)
        heard = _hear(plan, carry, key, t, topology, channel)
        parts = None
        if method.reply is not None:
            parts, answered = _reply(plan, carry, t, heard[0], shards)
            heard = (answered,)
        # A loop of one turn: XLA fuses an operation into each of its users, but not across a loop.
        # Without it the mean over the neighbours is computed again wherever adapt reads it.
        value = jax.lax.fori_loop(
            t, t + 1, lambda *_: _combine(plan, carry, t, heard, topology), carry.state.value
        )
        carry = carry._replace(parts=parts, sent=kept, state=State(value, carry.state.memory))
        carry = _look(plan, "combine", carry, t, probe, at)
        state = _each_shard(
            plan, _keyed(method.adapt), shards, _keys(key, ADAPT, t, n), carry.state
        )
        return _look(plan, "adapt", carry._replace(state=state), t, probe, at)

    return jax.lax.fori_loop(start, stop, one_round, carry)


@partial(jax.jit, static_argnums=(0, 1))
def _begin_all(plan: Plan, axes: Any, *args: Any) -> Carry:
    f = partial(_begin, plan)
    return f(*args) if axes is None else jax.vmap(f, (*axes, None))(*args)


@partial(jax.jit, static_argnums=(0, 1))
def _advance_all(plan: Plan, axes: Any, carry: Carry, start: Any, stop: Any, *args: Any) -> Carry:
    f = partial(_advance, plan)
    if axes is not None:
        key, shards, topology, probe = axes
        f = jax.vmap(f, (0, None, None, key, shards, topology, None, probe, None))
    return f(carry, start, stop, *args)


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
    `checkpoint`, the run is saved there after every chunk of rounds and found again. `progress`
    is told the number of rounds done after every chunk.
    """
    channel = perfect() if channel is None else channel
    at = ([rounds] if rounds else []) if at is None else at
    first_topology = topology[0] if isinstance(topology, list) else topology
    first_shards = shards[0] if isinstance(shards, list) else shards
    at, stages = runtime.check(
        method, first_shards.n, first_topology, channel.lag, rounds, at, stages
    )
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
        begin = partial(_begin_all, plan, static_axes)
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
        while done < stop:
            upto = min(done + step, stop)
            carry = _advance_all(
                plan, static_axes, carry, done, upto, key, data, graph, channel, eye, when
            )
            done = upto
            if checkpoint is not None:
                files.save(checkpoint, carry, done, mark)
            if progress is not None:
                jax.block_until_ready(carry.state)
                progress(done)
        lead = 2 if replicas is None else 3
        one = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct(a.shape[lead:], a.dtype),
            (carry.sent, None if carry.parts is None else carry.parts.part),
        )
        seen = sum(r <= done for r in at)
        reached = slice(seen) if replicas is None else (slice(None), slice(seen))
        return Run(
            state=carry.state,
            rounds=done,
            recorded=at[:seen],
            history=carry.records
            if seen == len(at)
            else jax.tree.map(lambda a: a[reached], carry.records),
            message_bytes=runtime.size_of(one),
            messages=runtime.count_messages(first_topology, 0, done),
            carry=carry,
        )
