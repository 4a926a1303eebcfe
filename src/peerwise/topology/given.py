"""Graphs that a user brings: networkx graphs and edge lists."""

import math
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from peerwise.errors import BadFile, BadSetting
from peerwise.topology.links import Topology, build, whole


def from_graph(graph: nx.Graph, *, allow_disconnected: bool = False) -> Topology:
    """Any networkx graph without parallel edges or loops; nodes become 0..n-1 in sorted order.

    An edge u -> v of a directed graph means that v hears u. The edge attribute "weight" becomes the
    link weight. Nodes that cannot be compared are sorted by their text.

    >>> from_graph(nx.Graph([("a", "b"), ("b", "c")])).links.dst.tolist()
    [[0, 1, 1, 2]]
    """
    n = whole("the number of nodes of the graph", len(graph), 1)
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
    edges = list(graph.edges(data="weight", default=1.0))
    u, v = (np.array([number[edge[end]] for edge in edges], np.int64) for end in (0, 1))
    try:
        with np.errstate(over="ignore"):  # infinity is answered below
            weight = np.array([edge[2] for edge in edges], float).astype(np.float32)
    except (TypeError, ValueError):
        weight = np.full(len(edges), np.nan, np.float32)
    if bad := np.flatnonzero(~(np.isfinite(weight) & (weight > 0))).tolist():
        a, b, given = edges[bad[0]]
        raise BadSetting(f"edge {a!r}, {b!r} must have a positive number as weight, got {given!r}")
    if graph.is_directed():
        return build(n, [(u, v, weight)])
    return build(n, [(np.append(u, v), np.append(v, u), np.append(weight, weight))])


def _sorted(nodes: Any) -> list[Any]:
    try:
        return sorted(nodes)
    except TypeError:
        return sorted(nodes, key=str)


def from_file(path: str | Path, *, allow_disconnected: bool = False) -> Topology:
    """An undirected graph from a text file with an edge "u v" or "u v weight" on each line.

    What follows a # is a comment. Nodes are sorted as numbers if all of them are whole numbers.
    """
    return from_graph(read_graph(path), allow_disconnected=allow_disconnected)


def read_graph(path: str | Path) -> nx.Graph:
    """The graph of such a file with the nodes as they are called there, whole numbers as int."""
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
    return graph
