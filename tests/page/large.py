"""A run folder as 1,000 rounds of 1,000 nodes and 10 methods leave it, without running them."""

import networkx as nx
import numpy as np
import pandas as pd

from peerwise.learner import Outcome
from peerwise.study.jobs import to_arrays
from peerwise.study.results import Record, history_of, write_folder
from peerwise.study.store import Row, Store


def write_large(folder, rounds=1000, nodes=1000, methods=10, classes=10):
    """Write the folder with the functions of a real run."""
    rng = np.random.default_rng(0)
    edges = np.array(nx.random_regular_graph(4, nodes, seed=0).edges)
    held = rng.poisson(5, (nodes, classes))
    store, rows, records, frames = Store(folder), [], [], []
    for m in range(methods):
        name = f"method-{m}"
        level = 0.05 + 0.02 * m + 0.6 * np.exp(-np.arange(rounds) / (40 + 20 * m))
        spread = rng.normal(0, 0.01 + 0.002 * m, (nodes,))
        error = np.abs(level[None, :, None] + spread + rng.normal(0, 0.003, (1, rounds, nodes)))
        values = {"test_error": error, "test_log_loss": 3 * error}
        details = {"held": held, "classes": np.array([f"class {c}" for c in range(classes)]),
                   "edges": edges, "links": np.array(len(edges)),
                   "class_error": rng.random((nodes, classes)) * 0.2,
                   "bins": np.stack([np.arange(15.0), np.arange(15.0) ** 2 / 15,
                                     np.arange(15.0) ** 2 / 16], 1)}  # fmt: skip
        outcome = Outcome(np.arange(1, rounds + 1), values, 5000, nodes * 4 * rounds, details)
        arrays = to_arrays(outcome)
        about = {"asked": {"split": {"nodes": nodes}, "run": {"rounds": rounds}}, "depends": {},
                 "made": {"seconds": 60.0}}  # fmt: skip
        store.put(name, arrays, about)
        last = error[:, -1].mean(1)
        names = {"dataset": "digits", "method": name, "seed": 0}
        rows += [Row(name, names, k, last if k == "test_error" else None, v)
                 for k, v in arrays.items()]  # fmt: skip
        value = float(last[0])
        records.append(Record(paper=None, item="run", dataset="digits", setting={"method": name},
                              metric="test_error", value=value, std=None, reps=1))  # fmt: skip
        frames.append(history_of(outcome, dataset="digits", method=name))
    write_folder(folder, config={"data": "digits"}, records=records,
                 history=pd.concat(frames, ignore_index=True), rows=rows)  # fmt: skip
    return folder
