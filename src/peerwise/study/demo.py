"""The demonstration: a network learns the handwritten digits that scikit-learn bundles."""

from collections.abc import Callable
from typing import NamedTuple

import networkx as nx
import numpy as np

from peerwise import topology
from peerwise.learner import Cell, assemble, drawn, run
from peerwise.simulate import simulate


class Demo(NamedTuple):
    """What the demonstration shows."""

    cell: Cell
    graph: nx.Graph
    rounds: np.ndarray  # [t]
    error: np.ndarray  # [t, nodes] test error of every node's model
    levels: dict[str, float]  # test errors of the references
    spread: dict[str, float]  # standard deviation over nodes, where there are several
    bytes_per_link: int
    messages: int
    guards: int


def demo(cell: Cell, progress: Callable[[int], None] | None = None) -> Demo:
    """Run CRC and its references once; `progress` is called with the rounds done."""
    parts, rounds = assemble(cell, drawn(cell, 0)), cell["run"]["rounds"]
    done = simulate(
        parts.method,
        parts.shards,
        parts.links,
        rounds,
        seed=cell["run"]["seed"],
        probe=parts.probe,
        at=range(1, rounds + 1),
        progress=progress,
        chunk=1 if progress else None,
    )
    levels, spread = {}, {}
    names = {
        "calibrated, pooled (RC)": "rc",
        "max. likelihood, pooled": "ml",
        "each node alone": "isolated",
    }
    for label, method in names.items():
        error = run(cell.changed(method=method, run={"record": "last"})).values["test_error"][0, -1]
        levels[label] = float(error.mean())
        spread[label] = float(error.std())
    seen = done.history["adapt"]
    return Demo(
        cell,
        topology.graph_of(parts.links),
        np.arange(1, rounds + 1),
        np.asarray(seen["test_error"]),
        levels,
        spread,
        done.message_bytes,
        done.messages,
        int(np.asarray(seen["guards"])[-1].sum()),
    )
