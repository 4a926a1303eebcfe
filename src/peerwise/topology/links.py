"""Topologies as arrays: links, slots, schedules of graphs, weights.

A `Topology` is a pytree of arrays of fixed shape. Passed as an argument to a jitted function it can
be exchanged for another of the same shapes without compiling again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array, Links, aligned, on_device
from peerwise.errors import BadSetting
from peerwise.topology.large import both_ways

ALWAYS = 2**31 - 1  # the number of rounds of a static graph
CACHED = 1 << 16  # slots that are filled at a time, so that they fit into the processor's cache

Edges = tuple[np.ndarray, np.ndarray, np.ndarray]  # src, dst, weight of the directed links


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Topology:
    """The links of every round: g graphs of n nodes, each for `every` rounds, the last for ever.

    Links are sorted by (dst, src); padding has weight 0, src 0, dst n - 1 and is in no slot.
    There is always at least one link, if only padding, so that indexing needs no special case.

    With `server`, the links are the n messages to the server, which is node n. It broadcasts all
    messages that arrived to all nodes; row i of `table` is the link of node i's message.
    """

    links: Links  # [g, e] each
    # Buckets of nodes of similar degree: node numbers [n_b], and the link in each slot
    # [g, n_b, k_b], -1 = empty. One bucket, unless a few nodes have far more neighbours.
    table: tuple[tuple[Array, Array], ...]
    every: Array  # [] rounds that each graph lasts
    n: int = field(metadata={"static": True})
    server: bool = field(default=False, metadata={"static": True})
    weights: str = field(default="equal", metadata={"static": True})  # or "metropolis"
    arrival: bool = field(default=False, metadata={"static": True})  # slots in order of arrival
    # [g, e, lag + 1] weight that each link had 0, 1, ... rounds ago; None: see `late_links`
    before: Array | None = None
    # [g, e] the link by which each one is answered; None: see `two_way`
    back: Array | None = None

    def at(self, t: Array | int) -> Array:
        """Which of the g graphs round t uses."""
        last = self.links.src.shape[0] - 1
        return jnp.minimum(jnp.asarray(t, jnp.int32) // self.every, last)

    def __call__(self, key: Array, t: Array | int) -> Links:
        """The links of round t; the key is for topologies that draw links as they go."""
        now = self.at(t)
        return Links(*(leaf[now] for leaf in self.links))

    def late(self, t: Array | int) -> Array | None:
        """Weights of the links of round t by age; None unless messages may be late on old links."""
        return None if self.before is None else self.before[self.at(t)]

    @property
    def slots(self) -> int:
        """The largest number of slots of a node."""
        return self.n if self.server else max(table.shape[-1] for _, table in self.table)

    def links_per_round(self, t: int) -> int:
        """How many messages cross the network in round t: with a server, n up and n down."""
        return 2 * self.n if self.server else int(edges_of(self, t)[0].size)


def whole(name: str, value: Any, least: int) -> int:
    """The value, if it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise BadSetting(f"{name} must be a whole number, {least} or more, got {value!r}")
    return int(value)


def edges_of(topology: Topology, t: int = 0) -> Edges:
    """The links of round t as NumPy arrays, without padding."""
    now = min(int(t) // int(topology.every), topology.links.src.shape[0] - 1)
    src, dst, weight, _ = (np.asarray(leaf)[now] for leaf in topology.links)
    real = weight > 0
    return src[real], dst[real], weight[real]


def _power(degree: np.ndarray) -> np.ndarray:
    """The next power of two, so that random graphs of one kind mostly share their shapes."""
    exponent: np.ndarray = np.ceil(np.log2(np.maximum(degree, 1))).astype(np.int64)
    return 1 << exponent


def _by_receiver(n: int, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """The order of links by receiver, then sender."""
    if n < 2**31:
        return np.argsort(dst.astype(np.int64) * n + src, kind="stable")
    return np.lexsort((src, dst))


def build(
    n: int,
    graphs: Sequence[Edges],
    every: int = ALWAYS,
    weights: str = "equal",
    arrival: bool = False,
    ordered: bool = False,
) -> Topology:
    """A topology of directed graphs, given in any order of links.

    A node's slots go by the number of the sender, or, with `arrival`, in the order given.
    `ordered`: the links already go by receiver, then by sender.
    """
    g, e = len(graphs), max(1, *(src.size for src, _, _ in graphs))
    fills = (0, np.int32), (n - 1, np.int32), (0, np.float32), (0, np.int32)
    counts = np.empty((g, n), np.int32)  # messages that each node hears
    for i, (_, dst, _) in enumerate(graphs):
        counts[i] = np.bincount(dst, minlength=n)
    age = aligned((g, e), np.int32)
    age[:] = 0
    if ordered and g == 1 and all(a.size == e for a in graphs[0]):  # taken over as they are
        src, dst, weight = (
            a[None].astype(kind, copy=False)
            for a, (_, kind) in zip(graphs[0], fills[:3], strict=True)
        )
        links = Links(src, dst, weight, age)
    else:
        src, dst, weight = (aligned((g, e), kind) for _, kind in fills[:3])
        links = Links(src, dst, weight, age)
        for i, (src, dst, weight) in enumerate(graphs):
            here = i, slice(src.size)
            if not ordered:
                order = np.argsort(dst, kind="stable") if arrival else _by_receiver(n, src, dst)
                src, dst, weight = src[order], dst[order], weight[order]
            links.src[here], links.dst[here], links.weight[here] = src, dst, weight
            for leaf, (fill, _) in zip(links, fills, strict=True):
                leaf[i, src.size :] = fill

    size = _power(counts.max(0))  # slots of each node
    if n * size.max() <= 16 * e + 4096:
        size[:] = size.max()
    table = []
    for k in np.unique(size):
        nodes = np.flatnonzero(size == k)
        bucket = aligned((g, nodes.size, k), np.int32)
        for i, count in enumerate(counts):  # links go by receiver: a node's are one run of them
            first = np.cumsum(count, dtype=np.int32) - count
            _runs(bucket[i], first[nodes], count[nodes])
        # nobody else holds these arrays: they need not be copied
        table.append((jax.device_put(nodes.astype(np.int32)), jax.device_put(bucket)))
    lasts = on_device(every, np.int32)
    held = Links(*map(jax.device_put, links))
    return Topology(held, tuple(table), lasts, int(n), False, weights, arrival)


def _runs(rows: np.ndarray, first: np.ndarray, count: np.ndarray) -> None:
    """Fill each row with so many numbers from its first on, and -1 after them.

    Some rows at a time, which stay in the cache.
    """
    step = np.arange(rows.shape[1], dtype=np.int32)
    some = max(1, CACHED // rows.shape[1])
    for at in range(0, len(rows), some):
        here = slice(at, at + some)
        np.add(first[here, None], step, out=rows[here])
        np.copyto(rows[here], -1, where=step >= count[here, None])


def by_degree(topology: Topology) -> Topology:
    """The topology with its nodes in buckets of like degree: large networks skip empty slots."""
    if len(topology.table) > 1 or topology.server:
        return topology
    table = np.asarray(topology.table[0][1])
    size = _power((table >= 0).sum(-1).max(0))
    nodes = [np.flatnonzero(size == k).astype(np.int32) for k in np.unique(size)]
    buckets = [table[:, those, : size[those[0]]] for those in nodes]
    return replace(
        topology, table=tuple(zip(map(on_device, nodes), map(on_device, buckets), strict=True))
    )


def undirected(n: int, u: np.ndarray, v: np.ndarray) -> Topology:
    """A topology of the edges u - v, in both directions."""
    src, dst = both_ways(n, u, v)
    weight = aligned(src.shape, np.float32)
    weight[:] = 1
    return build(n, [(src, dst, weight)], ordered=True)


def redrawn(draw: Callable[..., Topology], *, every: int, rounds: int, seed: int = 0) -> Topology:
    """A new graph every `every` rounds, enough of them for `rounds`, all drawn beforehand.

    `draw(seed=...)` is a random factory with the rest of its arguments bound.

    >>> from functools import partial
    >>> from peerwise.topology import random_tree
    >>> redrawn(partial(random_tree, 50), every=8, rounds=60).links.src.shape
    (8, 98)
    """
    count = -(-whole("rounds", rounds, 1) // whole("every", every, 1))
    seeds = np.random.SeedSequence(whole("seed", seed, 0)).generate_state(count).tolist()
    try:
        signature(draw).bind(seed=seed)
    except TypeError as error:
        raise BadSetting(f"draw must need a seed and nothing else: {error}") from None
    drawn = [draw(seed=s) for s in seeds]
    kinds = {(d.n, d.weights, d.server, d.links.src.shape[0]) for d in drawn}
    if len(kinds) > 1 or drawn[0].server or drawn[0].links.src.shape[0] > 1:
        raise BadSetting(
            "draw must give static graphs without a server, of one number of nodes and one kind of "
            f"weights, got (n, weights, server, graphs) = {', '.join(map(str, sorted(kinds)))}"
        )
    return build(drawn[0].n, [edges_of(d) for d in drawn], every, drawn[0].weights)


def pushes(among: Topology | int, *, rounds: int, seed: int = 0) -> Topology:
    """Every node sends to one other node a round, drawn anew each round: n links, not n^2.

    The other is any of the n nodes, or a neighbour in a fixed graph. What reaches a node in one
    round lies in its slots in a random order of arrival. All rounds are drawn beforehand.

    >>> pushes(100, rounds=3).links.src.shape
    (3, 100)
    """
    rounds = whole("rounds", rounds, 1)
    rng = np.random.default_rng(whole("seed", seed, 0))
    if isinstance(among, Topology):
        if among.server or among.links.src.shape[0] > 1:
            raise BadSetting(
                "pushes go along a fixed graph without a server: take another topology, or no push"
            )
        n = among.n
        src, dst, _ = edges_of(among)
        if not src.size:
            raise BadSetting(
                f"a node without neighbours has nobody to tell, and no link is there among {n} "
                "nodes: take another topology, or no push"
            )
        order = np.argsort(src, kind="stable")
        degree, neighbour = np.bincount(src, minlength=n), dst[order]
        start = np.cumsum(degree) - degree
        pick = (rng.random((rounds, n)) * degree).astype(np.int64)
        senders = np.flatnonzero(degree)
        target = neighbour[np.minimum(start + pick, max(neighbour.size - 1, 0))]
    else:
        n = whole("n", among, 1)
        senders = np.arange(n) if n > 1 else np.arange(0)
        target = (np.arange(n) + rng.integers(1, max(n, 2), (rounds, n))) % n
    graphs = []
    for row in target:
        sender = rng.permutation(senders)
        graphs.append((sender, row[sender], np.ones(sender.size)))
    return build(n, graphs, every=1, arrival=True)


def two_way(topology: Topology) -> Topology:
    """The topology with the link in the other direction of each link, for replies.

    Its links must be there in both directions, by receiver, then by sender.

    >>> from peerwise.topology import chain
    >>> made = two_way(chain(3))
    >>> made.links.src.tolist(), made.links.dst.tolist(), made.back.tolist()
    ([[1, 0, 2, 1]], [[0, 1, 1, 2]], [[1, 0, 3, 2]])
    """
    src, weight = np.asarray(topology.links.src), np.asarray(topology.links.weight)
    back = np.empty(src.shape, np.int32)
    for i, real in enumerate(weight > 0):
        back[i] = np.arange(real.size)
        (link,) = np.nonzero(real)
        back[i, link] = link[np.argsort(src[i, link], kind="stable")]
    return replace(topology, back=on_device(back))


def late_links(topology: Topology, lag: int) -> Topology:
    """The topology with slots for what was sent up to `lag` rounds ago, over links that are gone.

    A message travels the link of the round in which it was sent. Where the graph changes, a link of
    the last `lag` rounds has a slot in every one of them (weight 0 in `links`: nothing is sent over
    it now), and `before` has the weights with which messages still on their way were sent.

    >>> late_links(pushes(4, rounds=3), 1).before.shape
    (4, 7, 2)
    """
    count = topology.links.src.shape[0]
    if not lag or count == 1 or topology.before is not None:
        return topology
    every = int(topology.every)
    graphs = [edges_of(topology, i * every) for i in range(count)]
    rounds = (count - 1) * every + lag + 1  # from then on nothing changes
    windows = []
    for t in range(rounds):
        ages = range(min(t, lag) + 1)
        window = [graphs[min((t - age) // every, count - 1)] for age in ages]
        windows.append(_window(topology.n, window, lag, topology.arrival))
    edges = [(src, dst, weight[:, 0]) for src, dst, weight in windows]
    late = build(topology.n, edges, 1, topology.weights, topology.arrival)
    before = np.zeros((*late.links.src.shape, lag + 1), np.float32)
    for i, (_, _, weight) in enumerate(windows):
        before[i, : len(weight)] = weight
    return replace(late, before=on_device(before))


def _window(n: int, graphs: Sequence[Edges], lag: int, arrival: bool) -> Edges:
    """Every link of some graphs once, this round's first, with its weights by age [e, lag + 1].

    By dst, then by src or, with `arrival`, by the round that last had the link.
    """
    src, dst, weight = (np.concatenate(parts) for parts in zip(*graphs, strict=True))
    age = np.repeat(np.arange(len(graphs)), [len(one[0]) for one in graphs])
    _, newest, link = np.unique(
        dst.astype(np.int64) * n + src, return_index=True, return_inverse=True
    )
    weights = np.zeros((newest.size, lag + 1))
    weights[link, age] = weight
    if arrival:
        order = np.lexsort((newest, -age[newest], dst[newest]))
        newest, weights = newest[order], weights[order]
    return src[newest], dst[newest], weights


def metropolis(topology: Topology) -> Topology:
    """The same links with weights 1 / (1 + the larger degree of the two ends); 1 / n for a server.

    The rest to 1 stays with the node, so that the mixing matrix is doubly stochastic and the
    limit weighs every node alike. Xiao, Boyd and Lall (2005). Needs links in both directions.

    >>> from peerwise.topology import chain
    >>> [round(w, 3) for w in metropolis(chain(4)).links.weight[0].tolist()]
    [0.333, 0.333, 0.333, 0.333, 0.333, 0.333]
    """
    src, dst, old = (np.asarray(leaf) for leaf in topology.links[:3])
    if topology.server:
        weight = np.full(old.shape, 1 / topology.n)
    else:
        weight = np.zeros(old.shape)
        for i, real in enumerate(old > 0):
            u, v = src[i, real].astype(np.int64), dst[i, real].astype(np.int64)
            if not np.array_equal(np.sort(u * topology.n + v), np.sort(v * topology.n + u)):
                raise BadSetting(
                    "Metropolis weights need links in both directions, which neither pushes nor a "
                    "directed graph have: take an undirected one, or another rule"
                )
            degree = np.bincount(v, minlength=topology.n)
            weight[i, real] = 1 / (1 + np.maximum(degree[u], degree[v]))
    links = topology.links._replace(weight=on_device(weight, np.float32))
    return replace(topology, links=links, weights="metropolis")


def stack(topologies: Sequence[Topology]) -> Topology:
    """Several topologies as one with a leading axis on every array, to `vmap` over replicas.

    They are padded to one shape: graphs by the last of each, links by weight 0, slots by -1.

    >>> from peerwise.topology import random_tree
    >>> stack([random_tree(9, seed=s) for s in range(3)]).links.src.shape
    (3, 1, 16)
    """
    if not topologies:
        raise BadSetting("there is no topology to stack; give at least one")
    kinds = {(t.n, t.server, t.weights, len(t.table)) for t in topologies}
    if len(kinds) > 1 or len(topologies[0].table) > 1:
        raise BadSetting(
            "stacked topologies must share n, server and weights, and be without nodes of far more "
            f"neighbours than the rest, got (n, server, weights, buckets) = "
            f"{', '.join(map(str, sorted(kinds)))}"
        )
    g, e = np.max([t.links.src.shape for t in topologies], axis=0)
    k = max(t.slots for t in topologies) if not topologies[0].server else 1

    def pad(leaf: Array, length: int, fill: int) -> np.ndarray:
        rest = [(0, 0)] * (leaf.ndim - 1)
        wide = np.pad(leaf, [*rest, (0, length - leaf.shape[-1])], constant_values=fill)
        return np.pad(wide, [(0, g - leaf.shape[0]), *rest], mode="edge")

    def padded(one: Topology) -> Topology:
        fills = (0, one.n - 1, 0, 0)
        links = (pad(leaf, e, fill) for leaf, fill in zip(one.links, fills, strict=True))
        nodes, table = one.table[0]
        before = one.before
        if before is not None:
            before = np.swapaxes(pad(np.swapaxes(before, 1, 2), e, 0), 1, 2)
        back = None if one.back is None else pad(np.asarray(one.back), e, 0)
        slots = ((nodes, pad(table, k, -1)),)
        return replace(one, links=Links(*links), table=slots, before=before, back=back)

    # In NumPy: a program compiled for every new shape would take longer than the work.
    together = [padded(one) for one in topologies]
    stacked: Topology = jax.tree.map(lambda *leaves: on_device(np.stack(leaves)), *together)
    return stacked
