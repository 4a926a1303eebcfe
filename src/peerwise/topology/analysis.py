"""What can be known of a topology before a run: reach, mixing, spectral gap."""

import networkx as nx
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from peerwise.topology.links import Topology, edges_of


def graph_of(topology: Topology, t: int = 0) -> nx.Graph:
    """Round t as a networkx graph with link weights; directed if not all links go both ways.

    >>> from peerwise.topology import chain
    >>> sorted(graph_of(chain(3)).edges)
    [(0, 1), (1, 2)]
    """
    if topology.server:
        return nx.complete_graph(topology.n)
    src, dst, weight = edges_of(topology, t)
    graph = nx.DiGraph()
    graph.add_nodes_from(range(topology.n))
    graph.add_weighted_edges_from(zip(src.tolist(), dst.tolist(), weight.tolist(), strict=True))
    alike = all(graph.get_edge_data(v, u) == w for u, v, w in graph.edges(data=True))
    return graph.to_undirected() if alike else graph


def reach(topology: Topology, t: int = 0) -> np.ndarray:
    """How far news travels: entry k is the share of nodes within k links of a node, on average.

    A node is within 0 links of itself. Fig. 2 of Pérez, Echegoyen and Santafé.

    >>> from peerwise.topology import chain
    >>> reach(chain(3)).round(3).tolist()
    [0.333, 0.778, 1.0]
    """
    n = topology.n
    if topology.server:
        return np.ones(1) if n == 1 else np.array([1 / n, 1.0])
    src, dst, _ = edges_of(topology, t)
    heard = coo_array((np.ones(src.size), (dst, src)), (n, n)).tocsr()
    counts = np.zeros(n)
    for nodes in np.array_split(np.arange(n), -(-n // 512)):  # never n x n distances at once
        steps = dijkstra(heard, indices=nodes, unweighted=True)
        counts += np.bincount(steps[np.isfinite(steps)].astype(np.int64), minlength=n)
    return np.cumsum(np.trim_zeros(counts, "b")) / n**2


def mixing_matrix(topology: Topology, *, include_self: bool = False, t: int = 0) -> np.ndarray:
    """The weight of every value (column) in each node's mean (row); rows sum to 1.

    Link weights over the neighbours heard, and 1 for the node itself with `include_self`. With
    Metropolis weights the rest to 1 is the node's own, and with a server all have 1 / n,
    whatever `include_self`. A node without neighbours keeps its own value.

    >>> from peerwise.topology import chain
    >>> mixing_matrix(chain(3)).tolist()
    [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
    """
    n = topology.n
    if topology.server:
        return np.full((n, n), 1 / n)
    src, dst, weight = edges_of(topology, t)
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

    >>> from peerwise.topology import chain, complete
    >>> round(spectral_gap(complete(5)), 6), round(spectral_gap(chain(5), include_self=False), 6)
    (1.0, 0.0)
    """
    values = np.abs(np.linalg.eigvals(mixing_matrix(topology, include_self=include_self, t=t)))
    second = np.sort(values)[-2] if values.size > 1 else 0.0
    return float(np.clip(1 - second, 0, 1))
