"""Where the nodes of a graph are drawn."""

import warnings

import networkx as nx
import numpy as np

SMALL = 120  # nodes: distances along the graph can all be respected
LARGE = 3000  # more are not drawn
DRAWN = 6000  # edges: more are a grey area
STEPS = 60


def places(nodes: int, edges: np.ndarray) -> list[list[float]] | None:
    """Coordinates of every node between 0 and 1; None for a graph that cannot be drawn."""
    if not 1 < nodes <= LARGE:
        return None
    graph = nx.Graph()
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from(edges.tolist())
    if nodes <= SMALL and nx.is_connected(graph):
        if graph.number_of_edges() == nodes * (nodes - 1) // 2:
            positions = nx.circular_layout(graph)
        else:
            positions = nx.kamada_kawai_layout(graph)
        at = np.array([positions[i] for i in range(nodes)])
    else:
        at = _relaxed(nodes, edges)
    at = at - at.min(0)
    return (at / np.maximum(np.ptp(at, axis=0), 1e-9)).round(3).tolist()


def _start(nodes: int, edges: np.ndarray) -> np.ndarray:
    """The two slowest waves of the graph, which unfold rings and grids."""
    import scipy.sparse as sp
    from scipy.sparse.linalg import lobpcg

    rng = np.random.default_rng(0)
    if not len(edges):
        return rng.normal(size=(nodes, 2))
    u, v = edges.T
    a = sp.coo_matrix((np.ones(2 * len(u)), (np.r_[u, v], np.r_[v, u])), (nodes, nodes)).tocsr()
    degree = np.maximum(np.asarray(a.sum(1)).ravel(), 1)
    laplacian = sp.diags(degree) - a
    # ones are the wave that does not move
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # roughly is good enough to begin with
        _, waves = lobpcg(
            laplacian, rng.normal(size=(nodes, 2)), Y=np.ones((nodes, 1)), largest=False,
            tol=1e-3, maxiter=80, M=sp.diags(1 / degree),
        )  # fmt: skip
    return np.asarray(waves) / max(np.ptp(waves), 1e-12) + rng.normal(size=(nodes, 2)) * 0.01


def _relaxed(nodes: int, edges: np.ndarray) -> np.ndarray:
    """Fruchterman and Reingold's forces: all push each other apart, links pull together."""
    at = _start(nodes, edges).astype(np.float32)
    k, heat = 1 / np.sqrt(nodes), 0.1
    for _ in range(STEPS):
        apart = at[:, None] - at[None]
        square = np.maximum((apart**2).sum(-1), 1e-6)
        move = np.einsum("ijd,ij->id", apart, k * k / square)
        if len(edges):
            u, v = edges.T
            along = at[u] - at[v]
            pull = along * (np.linalg.norm(along, axis=1, keepdims=True) / k)
            np.add.at(move, u, -pull)
            np.add.at(move, v, pull)
        length = np.maximum(np.linalg.norm(move, axis=1, keepdims=True), 1e-9)
        at = at + move / length * np.minimum(length, heat)
        heat *= 0.95
    return at
