"""A network over many devices: the same rounds, each device with a part of the nodes."""

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.tree_util import Partial

from peerwise import runtime
from peerwise.checkpoint import BY_LINK, WHOLE, Piece, joined
from peerwise.core import Array, Method, Shard, State, Tree
from peerwise.metrics.probes import axes_of, split_probe
from peerwise.shards import Group, Shards
from peerwise.simulate.exchange import AXIS, Part
from peerwise.simulate.nodes import Plan, in_blocks
from peerwise.simulate.parts import block_of, divide
from peerwise.simulate.program import Carry, advance, begin, begin_all
from peerwise.simulate.replicas import host_cast
from peerwise.simulate.saving import Checkpoint
from peerwise.simulate.tables import tables_of
from peerwise.topology import Topology

MINE, SHARED = PartitionSpec(AXIS), PartitionSpec()


class _Looks(NamedTuple):
    """A probe in a part: what it sees of each node, and of the network as a whole."""

    each: tuple[Partial, ...]
    own: tuple[dict[int, Array], ...]  # arrays of the nodes here, their axis first, for each look
    whole: Partial | None
    here: Part
    block: int | None

    def __call__(self, method: Method, state: State) -> tuple[Tree, Tree]:
        seen = _of_each(method, self.each, self.own, state, self.block)
        if self.whole is None:
            return seen, None
        return seen, self.whole(method, self.here.everyone(state))


def _of_each(
    method: Method, each: Any, own: Any, state: State, block: int | None
) -> dict[str, Array]:
    """What looks at every node by itself see, block after block."""

    def one(state: State, own: Any) -> dict[str, Array]:
        seen: dict[str, Array] = {}
        for look, held in zip(each, own, strict=True):
            axes = axes_of(look)
            data = (jnp.moveaxis(held[i], 0, axes[i]) if i in held else a
                    for i, a in enumerate(look.args))  # fmt: skip
            seen |= look.func(*data, method, state)
        return seen

    return in_blocks(one, state, own, size=block)


class _Part(NamedTuple):
    """What one device has, besides what changes."""

    here: Part
    shards: Shards
    topology: Topology
    looked_at: tuple[dict[int, Array], ...]  # for each probe its data of the nodes here


def _inside(mesh: Mesh, f: Callable[..., Any], shared: int, out: Any) -> Callable[..., Any]:
    """f(what is here, what all have ...) on every device; without the axis of parts within."""

    def one(mine: Any, *rest: Any) -> Any:
        return f(jax.tree.map(lambda a: a[0], mine), *rest)

    specs = MINE, *(SHARED,) * shared
    return jax.shard_map(one, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)


def _arguments(plan: Plan, mine: _Part, key: Array, each: Any, whole: Any) -> Any:
    """Key, rows, links and probe as the program takes them."""
    looks = None
    if each or whole is not None:
        looks = _Looks(
            each, mine.looked_at, whole, mine.here, plan.blocks.most if plan.blocks else None
        )
    return jax.random.wrap_key_data(key), mine.shards, mine.topology, looks


def _broken(carry: Carry, here: Part) -> Array | None:
    """Which training broke first at each node, for `check_losses`."""
    memory = carry.state.memory
    return (
        here.everyone(memory["broke"]) if isinstance(memory, dict) and "broke" in memory else None
    )


def _looked(method: Method, each: tuple[Partial, ...], state: State) -> dict[str, Array]:
    return {name: a for look in each for name, a in look(method, state).items()}


def _numbered(carry: Carry) -> Carry:
    return jax.tree.map(lambda a: a[None], carry)


@partial(jax.jit, static_argnums=(0, 1))
def _begin(plan: Plan, mesh: Mesh, mine: Any, key: Any, each: Any, whole: Any, at: Any) -> Any:
    def f(mine: _Part, key: Any, each: Any, whole: Any, at: Any) -> Any:
        typed, shards, links, looks = _arguments(plan, mine, key, each, whole)
        carry = begin(plan, typed, shards, links, looks, at, mine.here)
        return _numbered(carry), _broken(carry, mine.here)

    return _inside(mesh, f, 4, (MINE, SHARED))(mine, key, each, whole, at)


@partial(jax.jit, static_argnums=(0, 1))
def _advance(
    plan: Plan, mesh: Mesh, mine: Any, start: Any, stop: Any, key: Any, channel: Any, each: Any,
    whole: Any, at: Any,
) -> Any:  # fmt: skip
    def f(mine: Any, start: Any, stop: Any, key: Any, channel: Any, *probes: Any) -> Any:
        carry, part = mine
        *before, looks = _arguments(plan, part, key, *probes[:2])
        given = (*before, channel, looks, probes[2], part.here)
        carry = advance(plan, carry, start, stop, *given)
        return _numbered(carry), _broken(carry, part.here)

    mapped = _inside(mesh, f, 7, (MINE, SHARED))
    return mapped(mine, start, stop, key, channel, each, whole, at)


class ManyDevices:
    """A run over the devices of a mesh: its tables, its rows, and its rounds."""

    def __init__(self, plan: Plan, mesh: Mesh, cut: str, inputs: Any, channel: Any, at: np.ndarray):
        key, shards, topology, probe = self.inputs = inputs
        self._mesh = Mesh(mesh.devices.reshape(-1), (AXIS,))
        shapes = jax.eval_shape(lambda *given: given, shards, topology, probe, at)
        self._links, self._by_link = topology.links.src.shape[-1], not plan.sums_replies
        self._like: Carry = jax.eval_shape(partial(begin_all, plan, None), key, *shapes)
        self.division = divide(topology, shards, mesh.devices.size, cut)
        on_cpu = mesh.devices.flat[0].platform == "cpu"
        self._plan = plan._replace(blocks=self.division.blocks) if on_cpu else plan
        replies = None
        if plan.method.reply is not None:
            replies = "summed" if plan.sums_replies else "kept"
        self.tables = tables_of(topology, self.division, replies)
        each, self._whole = split_probe(probe)
        axes = [axes_of(look) for look in each]
        self._each = tuple(
            Partial(look.func, *(None if i in by else a for i, a in enumerate(look.args)))
            for look, by in zip(each, axes, strict=True)
        )
        looked_at = tuple(
            {i: self._shared_out(np.moveaxis(look.args[i], axis, 0)) for i, axis in by.items()}
            for look, by in zip(each, axes, strict=True)
        )
        here, links = (jax.tree.map(self._put, t) for t in (self.tables.here, self.tables.topology))
        self._mine = _Part(here, self._rows(shards), links, looked_at)
        seen = jax.eval_shape(partial(_looked, plan.method), each, self._like.state)
        self._names = set(seen)
        channel = jax.tree.map(np.asarray, channel)
        self._rest = (np.asarray(jax.random.key_data(key)), channel, self._each, self._whole, at)
        self._broke: np.ndarray | None = None

    def like(self) -> Carry:
        """The shapes of a carry of all nodes."""
        return self._like

    def begin(self) -> Carry:
        """The carry before round 0, by parts."""
        key, _, *rest = self._rest
        return self._settled(_begin(self._plan, self._mesh, self._mine, key, *rest))

    def advance(self, carry: Carry, start: int, stop: int) -> Carry:
        """The carry after rounds start .. stop-1, by parts."""
        sharded = carry, self._mine
        return self._settled(_advance(self._plan, self._mesh, sharded, start, stop, *self._rest))

    def compiled(self) -> Any:
        """The program of the rounds, for those who want to read it."""
        start = jax.eval_shape(partial(_begin, self._plan, self._mesh), self._mine,
                               self._rest[0], *self._rest[2:])[0]  # fmt: skip
        given = (start, self._mine), 0, 1, *self._rest
        return _advance.lower(self._plan, self._mesh, *given).compile()

    def _settled(self, advanced: Any) -> Carry:
        # programs that wait for each other must not queue: threads of a CPU are few
        carry, broke = jax.block_until_ready(advanced)
        self._broke = None if broke is None else np.asarray(broke)
        return carry

    def check_losses(self, carry: Carry) -> None:
        """Raise `Diverged` if the loss of a node is infinite or NaN."""
        if self._broke is not None:
            runtime.check_losses(State(None, {"broke": self._broke}))

    def load(self, saved: Checkpoint) -> tuple[Carry, int] | None:
        """A saved run and its rounds, if there is one."""
        kept = saved.load_together(self._like)
        return None if kept is None else (self.placed(kept[0]), kept[1])

    def save(self, saved: Checkpoint, carry: Carry, done: int, last: bool) -> None:
        """Keep a run, every part in a file of its own."""
        saved.save_pieces(self.pieces(carry), self.division.parts, done, last)

    def _put(self, tables: np.ndarray) -> Array:
        """Tables with an axis of parts, on the devices."""
        tables = np.asarray(tables)
        return self._made(tables.shape[1:], lambda q: tables[q])

    def _made(self, shape: tuple[int, ...], of: Callable[[int], np.ndarray]) -> Array:
        """An array [parts, ...] of what `of` gives for each part whose device is here."""
        spread = NamedSharding(self._mesh, MINE)
        return jax.make_array_from_callback(
            (self.division.parts, *shape),
            spread,
            lambda at: of(at[0].start or 0)[None],  # type: ignore[index]
        )

    def _taken(self, array: Any, axis: int, nodes: np.ndarray) -> Array:
        """What an array has along its axis of nodes, or links, for those of each part."""
        array = np.asarray(array)
        shape = (*array.shape[:axis], nodes.shape[1], *array.shape[axis + 1 :])
        at = np.minimum(nodes, array.shape[axis] - 1)
        return self._made(shape, lambda q: array.take(at[q], axis))

    def _shared_out(self, array: Any, axis: int = 0) -> Array:
        return self._taken(array, axis, self.division.numbers)

    def _rows(self, shards: Shards) -> Shards:
        """Every part's rows; places without a node have none."""
        groups = []
        for i, group in enumerate(shards.groups):
            here = np.flatnonzero(self.division.group == i).astype(np.int32)
            row = np.full(self.division.n + 1, -1)
            row[np.asarray(group.nodes)] = np.arange(len(group.nodes))
            rows = row[self.division.numbers[:, here]]  # [parts, g]
            places = self._put(np.broadcast_to(here, (self.division.parts, here.size)))
            groups.append(Group(places, Shard(*(self._padded(a, rows) for a in group.shard))))
        return Shards(tuple(groups))

    def _padded(self, array: Any, rows: np.ndarray) -> Array:
        array = np.asarray(array)

        def of(q: int) -> np.ndarray:
            held = array[np.maximum(rows[q], 0)]
            held[rows[q] < 0] = 0
            return held

        return self._made((rows.shape[1], *array.shape[1:]), of)

    # From parts to the whole network and back. A carry of all nodes is that of one device.

    def whole(self, carry: Carry) -> Carry:
        """The carry of all nodes, in their order, in the memory of every process."""
        fetched = jax.tree.map(_fetched, carry)
        parts = range(self.division.parts)
        return joined(
            self._like, (self._piece(jax.tree.map(lambda a, q=q: a[q], fetched), q) for q in parts)
        )

    def pieces(self, carry: Carry) -> Iterator[tuple[int, Piece]]:
        """What the parts whose devices are of this process hold of their nodes."""
        for q, device in enumerate(self._mesh.devices):
            if device.process_index == jax.process_index():
                yield q, self._piece(jax.tree.map(partial(_on, device), carry), q)

    def _piece(self, local: Carry, q: int) -> Piece:
        """The nodes of part q, without places that hold none."""
        numbers = self.division.numbers[q]
        (places,) = np.nonzero(numbers < self.division.n)
        # where all messages are everywhere, a part's own are not the first
        among = q * numbers.size if self.tables.here.fixed and self.tables.here.route.gather else 0
        merged = {stage: self._merged(*both) for stage, both in local.records.items()}

        links = self.tables.links[q]
        (kept,) = np.nonzero(links < self._links)

        def own(a: np.ndarray, axis: int) -> np.ndarray:
            if axis == BY_LINK:
                return a[kept]
            return a if axis == WHOLE else a.take(places, axis)

        axes = self._axes
        state, parts, records = jax.tree.map(
            own, (local.state, local.parts, merged), (axes.state, axes.parts, axes.records)
        )
        sent = jax.tree.map(lambda a: a.take(places + among, 1), local.sent)
        return Piece(numbers[places], links[kept], Carry(state, sent, parts, records), axes)

    def placed(self, carry: Carry) -> Carry:
        """A carry of all nodes, each part's on its device."""
        records = {
            stage: tuple(
                jax.tree.map(
                    lambda a, axis: self._copies(a) if axis == WHOLE else self._shared_out(a, axis),
                    *both,
                )
                for both in zip(
                    self._split(seen), self._split(self._axes.records[stage]), strict=True
                )
            )
            for stage, seen in carry.records.items()
        }
        state = jax.tree.map(self._shared_out, carry.state)
        held = self.tables.links if self._by_link else self.division.numbers
        parts = jax.tree.map(lambda a: self._taken(a, 0, held), carry.parts)
        sent = jax.tree.map(lambda a: self._taken(a, 1, self.tables.held), carry.sent)
        return Carry(state, sent, parts, records)

    def _copies(self, array: Any) -> Array:
        array = np.asarray(array)
        return self._made(array.shape, lambda q: array)

    def _merged(self, each: Tree, whole: Tree) -> Tree:
        if self._whole is None:
            return each
        return {**each, **whole} if self._each else whole

    def _split(self, seen: Tree) -> tuple[Tree, Tree]:
        """What was seen of each node, and of the network as a whole."""
        if self._whole is None or not self._each:
            return (seen, None) if self._whole is None else ({}, seen)
        of_each = {k: v for k, v in seen.items() if k in self._names}
        return of_each, {k: v for k, v in seen.items() if k not in self._names}

    @cached_property
    def _axes(self) -> Carry:
        """The axis of nodes in every array of a carry, or what it has instead."""

        def along(tree: Tree, axis: int) -> Tree:
            return jax.tree.map(lambda _: axis, tree)

        like, records = self._like, {}
        for stage, seen in like.records.items():
            each, whole = self._split(seen)
            records[stage] = self._merged(along(each, 1), along(whole, WHOLE))
        parts = along(like.parts, BY_LINK if self._by_link else 0)
        return Carry(along(like.state, 0), along(like.sent, 1), parts, records)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _seen(method: Method, mesh: Mesh, block: int | None, mine: Any, each: Any) -> Any:
    def f(mine: Any, each: Any) -> Any:
        state, own = mine
        return jax.tree.map(lambda a: a[None], _of_each(method, each, own, state, block))

    return _inside(mesh, f, 1, MINE)(mine, each)


def look_over(
    mesh: Mesh, method: Method, probe: Any, states: Any, i: int, dtype: np.dtype
) -> dict[str, np.ndarray]:
    """What a probe sees in the i-th of some states [.., n, ...], every device looking at a part."""
    state = jax.tree.map(lambda a: np.asarray(a)[i], states)
    n, size = jax.tree.leaves(state)[0].shape[0], mesh.devices.size
    each, whole = split_probe(host_cast(probe, dtype))
    seen: dict[str, np.ndarray] = {}
    if each:
        block = block_of(n)
        p = max(-(-n // size), block)
        mesh = Mesh(mesh.devices.reshape(-1), (AXIS,))
        at = np.minimum(np.arange(size * p), n - 1).reshape(size, p)
        spread = NamedSharding(mesh, MINE)

        def part(a: np.ndarray) -> Array:
            return jax.make_array_from_callback(
                (size, p, *a.shape[1:]),
                spread,
                lambda q: a[at[q[0]]],  # type: ignore[index]
            )

        axes = [axes_of(look) for look in each]
        own = tuple(
            {j: np.moveaxis(look.args[j], axis, 0) for j, axis in by.items()}
            for look, by in zip(each, axes, strict=True)
        )
        looks = tuple(
            Partial(look.func, *(None if j in by else a for j, a in enumerate(look.args)))
            for look, by in zip(each, axes, strict=True)
        )
        on_cpu = mesh.devices[0].platform == "cpu"
        measured = _seen(
            method, mesh, block if on_cpu else None, jax.tree.map(part, (state, own)), looks
        )
        for name, a in jax.tree.map(_fetched, measured).items():
            seen[name] = a.reshape(-1, *a.shape[2:])[:n]
    if whole is not None:
        seen |= jax.tree.map(np.asarray, jax.jit(whole, static_argnums=0)(method, state))
    return seen


def _fetched(array: Array) -> np.ndarray:
    """An array of all parts, in the memory of every process."""
    if jax.process_count() == 1:
        return np.asarray(array)
    return np.asarray(multihost_utils.process_allgather(array, tiled=True))


def _on(device: Any, array: Array) -> np.ndarray:
    """What a device holds of an array [parts, ...], one of its parts."""
    (local,) = (s.data for s in array.addressable_shards if s.device == device)
    return np.asarray(local)[0]
