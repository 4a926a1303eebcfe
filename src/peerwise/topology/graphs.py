"""Graphs by name: fixed ones and drawn ones, each from a number of nodes and a seed."""

import math
import random
from typing import Annotated, Any, TypeAlias

import networkx as nx
import numpy as np
from annotated_types import Ge, Le

from peerwise.core import Links, on_device
from peerwise.declare import build, canonical, declares, gives
from peerwise.errors import BadSetting
from peerwise.topology.large import (
    LARGE,
    distinct,
    is_connected,
    pairing,
    preferential,
    prufer_tree,
)
from peerwise.topology.links import ALWAYS, Topology, undirected, whole

gives("topology", Topology)

Probability: TypeAlias = Annotated[float, Ge(0), Le(1)]

_TRIES = 1000  # draws before a connected graph is given up


def _from_nx(graph: nx.Graph) -> Topology:
    """A topology of an unweighted graph whose nodes are 0..n-1."""
    pairs = np.array(graph.edges, np.int64).reshape(-1, 2)
    return undirected(len(graph), pairs[:, 0], pairs[:, 1])


def _pairs(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs u < v counted by v (v - 1) / 2 + u (the root is exact enough up to 1e8 nodes)."""
    v = ((1 + np.sqrt(1 + 8 * codes.astype(float))) / 2).astype(np.int64)
    return codes - v * (v - 1) // 2, v


@declares("topology")
def chain(n: int = 50) -> Topology:
    """A line: node i beside i - 1 and i + 1.

    >>> chain(3).links.src.tolist(), chain(3).links.dst.tolist()
    ([[1, 0, 2, 1]], [[0, 1, 1, 2]])
    """
    u = np.arange(whole("n", n, 1) - 1)
    return undirected(n, u, u + 1)


@declares("topology")
def ring(n: int = 50) -> Topology:
    """A chain whose ends meet (with fewer than 3 nodes they already do).

    >>> ring(5).links_per_round(0)
    10
    """
    u = np.arange(whole("n", n, 1) - (n < 3))
    return undirected(n, u, (u + 1) % n)


@declares("topology")
def star(n: int = 50) -> Topology:
    """Node 0 beside every other: a hub that is itself a learner, unlike `server`.

    >>> sorted(star(4).links.src.tolist()[0])
    [0, 0, 0, 1, 2, 3]
    """
    v = np.arange(1, whole("n", n, 1))
    return undirected(n, np.zeros_like(v), v)


@declares("topology", complete=True)
def complete(n: int = 50) -> Topology:
    """Each node beside all others, as n (n - 1) links; `server` is the cheap way to a global mean.

    >>> complete(4).links_per_round(0)
    12
    """
    return undirected(n, *np.triu_indices(whole("n", n, 1), 1))


@declares("topology")
def server(n: int = 50) -> Topology:
    """A server that totals what all nodes send and broadcasts it: n messages up and n down.

    Every node hears all n, itself included. Under a lossy channel a lost message up leaves that
    node out of the total of the round.

    >>> server(10).links_per_round(0)
    20
    """
    i = np.arange(whole("n", n, 1), dtype=np.int32)[None]
    up = Links(i, np.full_like(i, n), np.ones(i.shape, np.float32), np.zeros_like(i))
    links, table = Links(*map(on_device, up)), (on_device(i[0]), on_device(i[..., None]))
    return Topology(links, (table,), on_device(ALWAYS, np.int32), int(n), server=True)


@declares("topology")
def alone(n: int = 1) -> Topology:
    """No links at all: every node learns from its own rows.

    >>> alone(3).links_per_round(0)
    0
    """
    none = np.zeros(0, np.int64)
    return undirected(whole("n", n, 1), none, none)


@declares("topology")
def grid(n: int = 49) -> Topology:
    """n nodes in rows of ceil(sqrt(n)), each beside those left, right, above and below.

    Where n does not fill the rectangle (a prime n never does) the last row is shorter.

    >>> grid(4).links_per_round(0), grid(5).links_per_round(0)
    (8, 10)
    """
    v = np.arange(whole("n", n, 1))
    columns = math.isqrt(n - 1) + 1
    right = v[(v + 1 < n) & ((v + 1) % columns != 0)]
    down = v[: max(n - columns, 0)]
    return undirected(n, np.append(right, down), np.append(right + 1, down + columns))


def _prufer(n: int, rng: np.random.Generator) -> np.ndarray:
    """The n - 1 edges of a tree drawn uniformly among the n^(n - 2) labelled ones."""
    if n == 1:
        return np.zeros((0, 2), np.int64)
    return prufer_tree(rng.integers(n, size=n - 2))


@declares("topology")
def random_tree(n: int = 50, seed: int = 0) -> Topology:
    """A tree drawn uniformly among all labelled trees, by its Prüfer sequence.

    >>> random_tree(50, seed=7).links_per_round(0)
    98
    """
    return tree_plus(n, seed, extra=0)


@declares("topology")
def tree_plus(
    n: int = 50, seed: int = 0, *, extra: Annotated[int, Ge(0), "edges beside the tree's"] = 10
) -> Topology:
    """`random_tree(n, seed)` and `extra` more edges, drawn uniformly among the pairs not in it.

    >>> tree_plus(50, extra=10).links_per_round(0)
    118
    """
    room = (whole("n", n, 1) - 1) * (n - 2) // 2
    if extra > room:
        raise BadSetting(f"extra must be at most {room} for a tree of {n} nodes, got {extra}")
    rng = np.random.default_rng(whole("seed", seed, 0))
    tree = np.sort(_prufer(n, rng), axis=1)
    taken = np.sort(tree[:, 1] * (tree[:, 1] - 1) // 2 + tree[:, 0])
    free = np.sort(rng.choice(max(room, 1), extra, replace=False))
    # The r-th free pair comes after as many taken ones as have r free pairs or fewer before them.
    codes = free + np.searchsorted(taken - np.arange(taken.size), free, side="right")
    return undirected(n, *_pairs(np.append(taken, codes)))


def _is_connected(topology: Topology) -> bool:
    """Whether every node can be reached from every other, along links in both directions."""
    src, dst, weight = (np.asarray(leaf)[0] for leaf in topology.links[:3])
    return topology.n == 1 or bool(weight[-1] and is_connected(topology.n, src, dst))


@declares("topology")
def erdos_renyi(
    n: int = 50, seed: int = 0, *, p: Annotated[Probability, "that a pair is linked"] = 0.2
) -> Topology:
    """Every pair linked with probability p, drawn again until the graph is connected.

    >>> erdos_renyi(50, p=0.2).n
    50
    """
    total = whole("n", n, 1) * (n - 1) // 2
    rng = np.random.default_rng(whole("seed", seed, 0))
    for _ in range(_TRIES):
        count = rng.binomial(total, p)
        if count < n - 1:
            continue
        if n < LARGE:
            codes = rng.choice(max(total, 1), count, replace=False, shuffle=False)
        else:
            codes = distinct(rng, total, count)
        drawn = undirected(n, *_pairs(codes))
        if _is_connected(drawn):
            return drawn
    raise BadSetting(
        f"p = {p} gave no connected graph of {n} nodes in {_TRIES} draws; "
        f"take p well above log(n)/n = {math.log(n) / n:.3g}"
    )


@declares("topology")
def barabasi_albert(
    n: int = 50, seed: int = 0, *, m: Annotated[int, Ge(1), "edges of a node that joins"] = 2
) -> Topology:
    """Nodes join one by one, each with m edges to nodes drawn in proportion to their degree.

    >>> barabasi_albert(50, m=2).links_per_round(0)
    192
    """
    if m >= whole("n", n, 1):
        raise BadSetting(f"m must be below n = {n}, got {m}")
    if n >= LARGE:
        return undirected(n, *preferential(np.random.default_rng(whole("seed", seed, 0)), n, m))
    return _from_nx(nx.barabasi_albert_graph(n, m, seed=whole("seed", seed, 0)))


@declares("topology")
def regular(
    n: int = 50, seed: int = 0, *, k: Annotated[int, Ge(0), "neighbours of each node"] = 4
) -> Topology:
    """A random graph in which every node has k neighbours, drawn again until it is connected.

    >>> regular(50, k=4).links_per_round(0)
    200
    """
    if k >= whole("n", n, 1) or n * k % 2:
        raise BadSetting(f"k must be below n and n k even, got n = {n} and k = {k}")
    if k < 2 and n > k + 1:
        raise BadSetting(f"k must be 2 or more to connect {n} nodes, got {k}")
    draws = random.Random(whole("seed", seed, 0))
    if n >= LARGE and k > 2:
        rng = np.random.default_rng(seed)
        while not _is_connected(drawn := undirected(n, *pairing(rng, n, k))):
            pass  # hardly ever: with three or more neighbours nearly all such graphs are connected
        return drawn
    for _ in range(_TRIES):
        graph = nx.random_regular_graph(k, n, seed=draws)
        if nx.is_connected(graph):
            return _from_nx(graph)
    raise BadSetting(f"k = {k} gave no connected graph of {n} nodes in {_TRIES} draws; take k > 2")


@declares("topology")
def small_world(
    n: int = 50,
    seed: int = 0,
    *,
    k: Annotated[int, Ge(2), "nearest nodes on the ring, an even number"] = 4,
    p: Annotated[Probability, "that an edge is rewired"] = 0.1,
) -> Topology:
    """A ring where each node knows its k nearest, each edge rewired with probability p; connected.

    Watts and Strogatz (1998).

    >>> small_world(50, k=4).links_per_round(0)
    200
    """
    if k >= whole("n", n, 1) or k % 2:
        raise BadSetting(f"k must be even and below n = {n}, got {k}")
    try:
        return _from_nx(
            nx.connected_watts_strogatz_graph(n, k, p, tries=_TRIES, seed=whole("seed", seed, 0))
        )
    except nx.NetworkXError:
        raise BadSetting(
            f"k = {k} and p = {p} gave no connected graph of {n} nodes in {_TRIES} draws; "
            "take a larger k or a smaller p"
        ) from None


def named(name: str, n: int = 50, seed: int = 0, **options: Any) -> Topology:
    """The listed graph called `name`; the seed goes to those that are drawn.

    >>> named("chain", 5).links_per_round(0), named("tree_plus", 5, extra=1).links_per_round(0)
    (8, 10)
    """
    table = canonical("topology", {"name": name, **options}, ("topology",), sweeps=False)
    topology: Topology = build("topology", table, {"n": n, "seed": seed})
    return topology
