"""Who hears whom: graphs, schedules of graphs, and what can be known of them before a run.

A `Topology` is a pytree of arrays of fixed shape. Passed as an argument to a jitted function it can
be exchanged for another of the same shapes without compiling again.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, dijkstra

from peerwise.core import Array, Links
from peerwise.errors import BadFile, BadSetting, UnknownName

__all__ = [
    "GRAPHS",
    "Topology",
    "alone",
    "barabasi_albert",
    "chain",
    "complete",
    "erdos_renyi",
    "from_file",
    "from_graph",
    "graph_of",
    "grid",
    "metropolis",
    "mixing_matrix",
    "named",
    "random_tree",
    "reach",
    "redrawn",
    "regular",
    "ring",
    "server",
    "small_world",
    "spectral_gap",
    "stack",
    "star",
    "tree_plus",
]

GRAPHS: tuple[str, ...] = (
    *("alone", "barabasi_albert", "chain", "complete", "erdos_renyi", "grid", "random_tree"),
    *("regular", "ring", "server", "small_world", "star", "tree_plus"),
)  # the graphs that `named` makes from a number of nodes and a seed

_ALWAYS = 2**31 - 1  # rounds that a static graph lasts
_TRIES = 1000  # draws before a graph that will not be connected is given up

Edges = tuple[np.ndarray, np.ndarray, np.ndarray]  # src, dst, weight of the directed links


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Topology:
    """The links of every round: g graphs of n nodes that last `every` rounds, the last for ever.

    Links are sorted by (dst, src); padding has weight 0, src 0, dst n - 1 and stands in no slot.
    There is always at least one link, if only padding, so that indexing needs no special case.

    With `server`, the links are the n messages up to the server, which is called node n. All nodes
    hear all that arrived, as one broadcast; row i of `table` names the message up of node i.
    """

    links: Links  # [g, e] each
    # Buckets of nodes of like degree: their numbers [n_b], and the link in each slot [g, n_b, k_b],
    # -1 = empty. One bucket of all nodes, unless a few have far more neighbours than the rest.
    table: tuple[tuple[Array, Array], ...]
    every: Array  # [] rounds that each graph lasts
    n: int = field(metadata={"static": True})
    server: bool = field(default=False, metadata={"static": True})
    weights: str = field(default="equal", metadata={"static": True})  # or "metropolis"

    def at(self, t: Array | int) -> Array:
        """Which of the g graphs round t uses."""
        last = self.links.src.shape[0] - 1
        return jnp.minimum(jnp.asarray(t, jnp.int32) // self.every, last)

    def __call__(self, key: Array, t: Array | int) -> Links:
        """The links of round t; the key is for topologies that draw links as they go."""
        now = self.at(t)
        return Links(*(leaf[now] for leaf in self.links))

    @property
    def slots(self) -> int:
        """The most messages that a node has room for in a round."""
        return self.n if self.server else max(table.shape[-1] for _, table in self.table)

    def links_per_round(self, t: int) -> int:
        """How many messages cross the network in round t: with a server, n up and n down."""
        return 2 * self.n if self.server else int(_edges(self, t)[0].size)


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise BadSetting(f"{name} must be a whole number, {least} or more, got {value!r}")
    return int(value)


def _probability(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise BadSetting(f"{name} must be between 0 and 1, got {value!r}")


def _edges(topology: Topology, t: int = 0) -> Edges:
    """The links of round t as NumPy arrays, without padding."""
    now = min(int(t) // int(topology.every), topology.links.src.shape[0] - 1)
    src, dst, weight, _ = (np.asarray(leaf)[now] for leaf in topology.links)
    real = weight > 0
    return src[real], dst[real], weight[real]


def _power(degree: np.ndarray) -> np.ndarray:
    """The next power of two, so that random graphs of one kind mostly share their shapes."""
    exponent: np.ndarray = np.ceil(np.log2(np.maximum(degree, 1))).astype(np.int64)
    return 1 << exponent


def _build(
    n: int, graphs: Sequence[Edges], every: int = _ALWAYS, weights: str = "equal"
) -> Topology:
    """A topology of directed graphs, given in any order of links."""
    g, e = len(graphs), max(1, *(src.size for src, _, _ in graphs))
    links = Links(*(np.zeros((g, e), kind) for kind in (np.int32, np.int32, np.float32, np.int32)))
    links.dst[:] = n - 1
    slot = np.full((g, e), -1)
    degree = np.zeros(n, np.int64)
    for i, (src, dst, weight) in enumerate(graphs):
        order = np.lexsort((src, dst))
        here = i, slice(src.size)
        links.src[here], links.dst[here], links.weight[here] = src[order], dst[order], weight[order]
        slot[here] = np.arange(src.size) - np.searchsorted(dst[order], dst[order])
        degree = np.maximum(degree, np.bincount(dst, minlength=n))

    size = _power(degree)  # slots of each node
    if n * size.max() <= 16 * e + 4096:
        size[:] = size.max()
    table = []
    for k in np.unique(size):
        nodes = np.flatnonzero(size == k)
        graph, link = np.nonzero((slot >= 0) & (size[links.dst] == k))
        row = np.searchsorted(nodes, links.dst[graph, link])
        bucket = np.full((g, nodes.size, k), -1, np.int32)
        bucket[graph, row, slot[graph, link]] = link
        table.append((jnp.asarray(nodes.astype(np.int32)), jnp.asarray(bucket)))
    lasts = jnp.asarray(every, jnp.int32)
    return Topology(Links(*map(jnp.asarray, links)), tuple(table), lasts, int(n), False, weights)


def _undirected(n: int, u: np.ndarray, v: np.ndarray) -> Topology:
    return _build(n, [(np.append(u, v), np.append(v, u), np.ones(2 * u.size))])


def _from_nx(graph: nx.Graph) -> Topology:
    """A topology of an unweighted graph whose nodes are 0..n-1."""
    pairs = np.array(graph.edges, np.int64).reshape(-1, 2)
    return _undirected(len(graph), pairs[:, 0], pairs[:, 1])


def _pairs(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs u < v counted by v (v - 1) / 2 + u (the root is exact enough up to 1e8 nodes)."""
    v = ((1 + np.sqrt(1 + 8 * codes.astype(float))) / 2).astype(np.int64)
    return codes - v * (v - 1) // 2, v


def chain(n: int = 50) -> Topology:
    """A line: node i beside i - 1 and i + 1.

    >>> chain(3).links.src.tolist(), chain(3).links.dst.tolist()
    ([[1, 0, 2, 1]], [[0, 1, 1, 2]])
    """
    u = np.arange(_whole("n", n, 1) - 1)
    return _undirected(n, u, u + 1)


def ring(n: int = 50) -> Topology:
    """A chain whose ends meet (with fewer than 3 nodes they already do).

    >>> ring(5).links_per_round(0)
    10
    """
    u = np.arange(_whole("n", n, 1) - (n < 3))
    return _undirected(n, u, (u + 1) % n)


def star(n: int = 50) -> Topology:
    """Node 0 beside every other: a hub that is itself a learner, unlike `server`.

    >>> sorted(star(4).links.src.tolist()[0])
    [0, 0, 0, 1, 2, 3]
    """
    v = np.arange(1, _whole("n", n, 1))
    return _undirected(n, np.zeros_like(v), v)


def complete(n: int = 50) -> Topology:
    """Everybody beside everybody, as n (n - 1) links; `server` is the cheap way to a global mean.

    >>> complete(4).links_per_round(0)
    12
    """
    return _undirected(n, *np.triu_indices(_whole("n", n, 1), 1))


def server(n: int = 50) -> Topology:
    """A server that totals what all nodes send and broadcasts it: n messages up and n down.

    Every node hears all n, itself included. Under a lossy channel a lost message up leaves that
    node out of the total of the round.

    >>> server(10).links_per_round(0)
    20
    """
    i = np.arange(_whole("n", n, 1), dtype=np.int32)[None]
    up = Links(i, np.full_like(i, n), np.ones(i.shape, np.float32), np.zeros_like(i))
    links, table = Links(*map(jnp.asarray, up)), (jnp.asarray(i[0]), jnp.asarray(i[..., None]))
    return Topology(links, (table,), jnp.asarray(_ALWAYS, jnp.int32), int(n), server=True)


def alone(n: int = 1) -> Topology:
    """No links at all: every node learns from its own rows.

    >>> alone(3).links_per_round(0)
    0
    """
    none = np.zeros(0, np.int64)
    return _undirected(_whole("n", n, 1), none, none)


def grid(n: int = 49) -> Topology:
    """n nodes in rows of ceil(sqrt(n)), each beside those left, right, above and below.

    Where n does not fill the rectangle (a prime n never does) the last row is shorter.

    >>> grid(4).links_per_round(0), grid(5).links_per_round(0)
    (8, 10)
    """
    v = np.arange(_whole("n", n, 1))
    columns = math.isqrt(n - 1) + 1
    right = v[(v + 1 < n) & ((v + 1) % columns != 0)]
    down = v[: max(n - columns, 0)]
    return _undirected(n, np.append(right, down), np.append(right + 1, down + columns))


def _prufer(n: int, rng: np.random.Generator) -> np.ndarray:
    """The n - 1 edges of a tree drawn uniformly among the n^(n - 2) labelled ones."""
    if n == 1:
        return np.zeros((0, 2), np.int64)
    return np.array(nx.from_prufer_sequence(rng.integers(n, size=n - 2).tolist()).edges)


def random_tree(n: int = 50, seed: int = 0) -> Topology:
    """A tree drawn uniformly among all labelled trees, by its Prüfer sequence.

    >>> random_tree(50, seed=7).links_per_round(0)
    98
    """
    return tree_plus(n, 0, seed)


def tree_plus(n: int = 50, extra: int = 10, seed: int = 0) -> Topology:
    """`random_tree(n, seed)` and `extra` more edges, drawn uniformly among the pairs not in it.

    >>> tree_plus(50, extra=10).links_per_round(0)
    118
    """
    room = (_whole("n", n, 1) - 1) * (n - 2) // 2
    if _whole("extra", extra, 0) > room:
        raise BadSetting(f"extra must be at most {room} for a tree of {n} nodes, got {extra}")
    rng = np.random.default_rng(_whole("seed", seed, 0))
    tree = np.sort(_prufer(n, rng), axis=1)
    taken = np.sort(tree[:, 1] * (tree[:, 1] - 1) // 2 + tree[:, 0])
    free = np.sort(rng.choice(max(room, 1), extra, replace=False))
    # The r-th free pair comes after as many taken ones as have r free pairs or fewer before them.
    codes = free + np.searchsorted(taken - np.arange(taken.size), free, side="right")
    return _undirected(n, *_pairs(np.append(taken, codes)))


def erdos_renyi(n: int = 50, p: float = 0.2, seed: int = 0) -> Topology:
    """Every pair linked with probability p, drawn again until the graph is connected.

    >>> erdos_renyi(50, p=0.2).n
    50
    """
    total = _whole("n", n, 1) * (n - 1) // 2
    rng = np.random.default_rng(_whole("seed", seed, 0))
    _probability("p", p)
    for _ in range(_TRIES):
        count = rng.binomial(total, p)
        if count < n - 1:
            continue
        u, v = _pairs(rng.choice(max(total, 1), count, replace=False, shuffle=False))
        if connected_components(coo_array((np.ones(u.size), (u, v)), (n, n)))[0] == 1:
            return _undirected(n, u, v)
    raise BadSetting(
        f"p = {p} gave no connected graph of {n} nodes in {_TRIES} draws; "
        f"take p well above log(n)/n = {math.log(n) / n:.3g}"
    )


def barabasi_albert(n: int = 50, m: int = 2, seed: int = 0) -> Topology:
    """Nodes join one by one, each with m edges to nodes drawn in proportion to their degree.

    >>> barabasi_albert(50, m=2).links_per_round(0)
    192
    """
    if _whole("m", m, 1) >= _whole("n", n, 1):
        raise BadSetting(f"m must be below n = {n}, got {m}")
    return _from_nx(nx.barabasi_albert_graph(n, m, seed=_whole("seed", seed, 0)))


def regular(n: int = 50, k: int = 4, seed: int = 0) -> Topology:
    """A random graph in which every node has k neighbours, drawn again until it is connected.

    >>> regular(50, k=4).links_per_round(0)
    200
    """
    if _whole("k", k, 0) >= _whole("n", n, 1) or n * k % 2:
        raise BadSetting(f"k must be below n and n k even, got n = {n} and k = {k}")
    if k < 2 and n > k + 1:
        raise BadSetting(f"k must be 2 or more to connect {n} nodes, got {k}")
    draws = random.Random(_whole("seed", seed, 0))
    for _ in range(_TRIES):
        graph = nx.random_regular_graph(k, n, seed=draws)
        if nx.is_connected(graph):
            return _from_nx(graph)
    raise BadSetting(f"k = {k} gave no connected graph of {n} nodes in {_TRIES} draws; take k > 2")


def small_world(n: int = 50, k: int = 4, p: float = 0.1, seed: int = 0) -> Topology:
    """A ring where each node knows its k nearest, each edge rewired with probability p; connected.

    Watts and Strogatz (1998).

    >>> small_world(50, k=4).links_per_round(0)
    200
    """
    if _whole("k", k, 2) >= _whole("n", n, 1) or k % 2:
        raise BadSetting(f"k must be even and below n = {n}, got {k}")
    _probability("p", p)
    try:
        return _from_nx(
            nx.connected_watts_strogatz_graph(n, k, p, tries=_TRIES, seed=_whole("seed", seed, 0))
        )
    except nx.NetworkXError:
        raise BadSetting(
            f"k = {k} and p = {p} gave no connected graph of {n} nodes in {_TRIES} draws; "
            "take a larger k or a smaller p"
        ) from None


def named(name: str, n: int = 50, seed: int = 0, **options: Any) -> Topology:
    """The graph of `GRAPHS` called `name`; the seed goes to those that are drawn.

    >>> named("chain", 5).links_per_round(0), named("tree_plus", 5, extra=1).links_per_round(0)
    (8, 10)
    """
    if name not in GRAPHS:
        raise UnknownName("topology", name, GRAPHS)
    make = globals()[name]
    takes = signature(make).parameters
    if unknown := sorted(options.keys() - takes.keys()):
        raise BadSetting(f"{name} takes {', '.join(takes)}, got {', '.join(unknown)}")
    topology: Topology = make(n, **({"seed": seed} if "seed" in takes else {}), **options)
    return topology


def from_graph(graph: nx.Graph, *, allow_disconnected: bool = False) -> Topology:
    """Any networkx graph without parallel edges or loops; nodes become 0..n-1 in sorted order.

    An edge u -> v of a directed graph means that v hears u. The edge attribute "weight" becomes the
    link weight. Nodes that cannot be compared are sorted by their text.

    >>> from_graph(nx.Graph([("a", "b"), ("b", "c")])).links.dst.tolist()
    [[0, 1, 1, 2]]
    """
    n = _whole("the number of nodes of the graph", len(graph), 1)
    if graph.is_multigraph():
        raise BadSetting("the graph allows parallel edges; merge them with networkx.Graph(graph)")
    if loop := next(nx.selfloop_edges(graph), None):
        raise BadSetting(
            f"node {loop[0]!r} has an edge to itself; remove it (whether a node counts itself "
            "is a setting of the method)"
        )
    parts = list(
        nx.weakly_connected_components(graph)
        if graph.is_directed()
        else nx.connected_components(graph)
    )
    if len(parts) > 1 and not allow_disconnected:
        least = _sorted(min(parts, key=len))
        shown = ", ".join(map(str, least[:10])) + (", ..." if len(least) > 10 else "")
        raise BadSetting(
            f"the graph has {len(parts)} components, the smallest with nodes {shown}; "
            "join them, or pass allow_disconnected=True"
        )
    number = {node: i for i, node in enumerate(_sorted(graph))}
    found = list(graph.edges(data="weight", default=1.0))
    u, v = (np.array([number[edge[end]] for edge in found], np.int64) for end in (0, 1))
    try:
        with np.errstate(over="ignore"):  # infinity is answered below
            weight = np.array([edge[2] for edge in found], float).astype(np.float32)
    except (TypeError, ValueError):
        weight = np.full(len(found), np.nan, np.float32)
    if bad := np.flatnonzero(~(np.isfinite(weight) & (weight > 0))).tolist():
        a, b, given = found[bad[0]]
        raise BadSetting(f"edge {a!r}, {b!r} must have a positive number as weight, got {given!r}")
    if graph.is_directed():
        return _build(n, [(u, v, weight)])
    return _build(n, [(np.append(u, v), np.append(v, u), np.append(weight, weight))])


def _sorted(nodes: Any) -> list[Any]:
    try:
        return sorted(nodes)
    except TypeError:
        return sorted(nodes, key=str)


def from_file(path: str | Path, *, allow_disconnected: bool = False) -> Topology:
    """An undirected graph from a text file with an edge "u v" or "u v weight" on each line.

    What follows a # is a comment. Nodes are sorted as numbers if all of them are whole numbers.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"cannot read the edge list {path}: {error}") from None
    edges: dict[frozenset[str], tuple[str, str, float]] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            u, v, weight = words[0], words[1], float(words[2]) if len(words) > 2 else 1.0
        except (IndexError, ValueError):
            u, v, weight = "", "", math.nan
        if len(words) > 3 or u == v or not 0 < weight < math.inf:
            raise BadFile(
                f"{path}, line {number}: expected two different nodes and perhaps a positive "
                f"weight, got '{line.strip()}'"
            )
        if frozenset((u, v)) in edges:
            raise BadFile(f"{path}, line {number}: the edge {u} {v} was given before; remove one")
        edges[frozenset((u, v))] = u, v, weight
    if not edges:
        raise BadFile(f"{path} has no edges; write one 'u v' on each line")
    whole = all(node.isdecimal() for edge in edges for node in edge)
    graph = nx.Graph()
    for u, v, weight in edges.values():
        graph.add_edge(*((int(u), int(v)) if whole else (u, v)), weight=weight)
    return from_graph(graph, allow_disconnected=allow_disconnected)


def redrawn(draw: Callable[..., Topology], *, every: int, rounds: int, seed: int = 0) -> Topology:
    """A new graph every `every` rounds, enough of them for `rounds`, all drawn beforehand.

    `draw(seed=...)` is a random factory with the rest of its arguments bound.

    >>> from functools import partial
    >>> redrawn(partial(random_tree, 50), every=8, rounds=60).links.src.shape
    (8, 98)
    """
    count = -(-_whole("rounds", rounds, 1) // _whole("every", every, 1))
    seeds = np.random.SeedSequence(_whole("seed", seed, 0)).generate_state(count).tolist()
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
    return _build(drawn[0].n, [_edges(d) for d in drawn], every, drawn[0].weights)


def _symmetric(n: int, src: np.ndarray, dst: np.ndarray) -> bool:
    there, back = np.sort(src.astype(np.int64) * n + dst), np.sort(dst.astype(np.int64) * n + src)
    return bool(np.array_equal(there, back))


def metropolis(topology: Topology) -> Topology:
    """The same links with weights 1 / (1 + the larger degree of the two ends); 1 / n for a server.

    What they lack to 1 stays with the node, so that the mixing matrix is doubly stochastic and the
    limit weighs every node alike. Xiao, Boyd and Lall (2005). Needs links in both directions.

    >>> [round(w, 3) for w in metropolis(chain(4)).links.weight[0].tolist()]
    [0.333, 0.333, 0.333, 0.333, 0.333, 0.333]
    """
    src, dst, old = (np.asarray(leaf) for leaf in topology.links[:3])
    if topology.server:
        weight = np.full(old.shape, 1 / topology.n)
    else:
        weight = np.zeros(old.shape)
        for i, real in enumerate(old > 0):
            u, v = src[i, real], dst[i, real]
            if not _symmetric(topology.n, u, v):
                raise BadSetting(
                    "Metropolis weights need links in both directions; make the graph undirected"
                )
            degree = np.bincount(v, minlength=topology.n)
            weight[i, real] = 1 / (1 + np.maximum(degree[u], degree[v]))
    links = topology.links._replace(weight=jnp.asarray(weight, jnp.float32))
    return replace(topology, links=links, weights="metropolis")


def stack(topologies: Sequence[Topology]) -> Topology:
    """Several topologies as one with a leading axis on every array, to `vmap` over replicas.

    They are padded to one shape: graphs by the last of each, links by weight 0, slots by -1.

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
        return replace(one, links=Links(*links), table=((nodes, pad(table, k, -1)),))

    # In NumPy: a program compiled for every new shape would take longer than the work.
    together = [padded(one) for one in topologies]
    stacked: Topology = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *together)
    return stacked


def graph_of(topology: Topology, t: int = 0) -> nx.Graph:
    """Round t as a networkx graph with link weights; directed if not all links go both ways.

    >>> sorted(graph_of(chain(3)).edges)
    [(0, 1), (1, 2)]
    """
    if topology.server:
        return nx.complete_graph(topology.n)
    src, dst, weight = _edges(topology, t)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(topology.n))
    graph.add_weighted_edges_from(zip(src.tolist(), dst.tolist(), weight.tolist(), strict=True))
    alike = all(graph.get_edge_data(v, u) == w for u, v, w in graph.edges(data=True))
    return graph.to_undirected() if alike else graph


def reach(topology: Topology, t: int = 0) -> np.ndarray:
    """How far news travels: entry k is the share of nodes within k links of a node, on average.

    A node is within 0 links of itself. Fig. 2 of Pérez, Echegoyen and Santafé.

    >>> reach(chain(3)).round(3).tolist()
    [0.333, 0.778, 1.0]
    """
    n = topology.n
    if topology.server:
        return np.ones(1) if n == 1 else np.array([1 / n, 1.0])
    src, dst, _ = _edges(topology, t)
    heard = coo_array((np.ones(src.size), (dst, src)), (n, n)).tocsr()
    counts = np.zeros(n)
    for nodes in np.array_split(np.arange(n), -(-n // 512)):  # never n x n distances at once
        steps = dijkstra(heard, indices=nodes, unweighted=True)
        counts += np.bincount(steps[np.isfinite(steps)].astype(np.int64), minlength=n)
    return np.cumsum(np.trim_zeros(counts, "b")) / n**2


def mixing_matrix(topology: Topology, *, include_self: bool = False, t: int = 0) -> np.ndarray:
    """What each node (row) makes of the values of all (columns) in a mean; rows sum to 1.

    Link weights over the neighbours heard, and 1 for the node itself with `include_self`. With
    Metropolis weights what they lack to 1 is the node's own, and with a server all have 1 / n,
    whatever `include_self`. A node without neighbours keeps its own value.

    >>> mixing_matrix(chain(3)).tolist()
    [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
    """
    n = topology.n
    if topology.server:
        return np.full((n, n), 1 / n)
    src, dst, weight = _edges(topology, t)
    matrix = np.zeros((n, n))
    matrix[dst, src] = weight
    heard = matrix.sum(1)
    if topology.weights == "metropolis":
        matrix += np.diag(1 - heard)
    else:
        matrix += np.diag(np.where(heard == 0, 1.0, float(include_self)))
        matrix /= matrix.sum(1, keepdims=True)
    return matrix


def spectral_gap(topology: Topology, *, include_self: bool = True, t: int = 0) -> float:
    """1 minus the second largest modulus of the eigenvalues of `mixing_matrix`.

    Differences between nodes shrink by 1 - gap a round; at 0 they never vanish (a graph in pieces,
    or a tree whose nodes do not count themselves).

    >>> round(spectral_gap(complete(5)), 6), round(spectral_gap(chain(5), include_self=False), 6)
    (1.0, 0.0)
    """
    values = np.abs(np.linalg.eigvals(mixing_matrix(topology, include_self=include_self, t=t)))
    second = np.sort(values)[-2] if values.size > 1 else 0.0
    return float(np.clip(1 - second, 0, 1))
