"""Numbers of the CRC paper that do not come from cells: its data sets, and how far trees reach."""

from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure

import peerwise.data
from peerwise import topology
from peerwise.data.encode import FEW
from peerwise.papers.crc.items import DESCRIBED
from peerwise.papers.items import Arrays, Number, View
from peerwise.report.figures import reach_curves

TREES = 20  # trees of a size


def counts(data: str, drop: list[str], distinct: int = FEW) -> Arrays:
    """How many rows, features and classes a set has here."""
    encoded = peerwise.data.encode(
        peerwise.data.load(data), typing="distinct", drop=tuple(drop), distinct=distinct
    )
    discrete = sum(r > 0 for r in encoded.schema.cardinalities)
    features = len(encoded.schema.features)
    classes = len(encoded.schema.classes)
    return {"counts": np.array([len(encoded.y), features, discrete, features - discrete, classes])}


def sets(view: View) -> Iterator[Number]:
    """Table 1: what the sets are."""
    known = {run.fields["dataset"]: run.arrays["counts"] for run in view.runs}
    for dataset in view.datasets:
        for place, name in enumerate(DESCRIBED):
            values = [known[dataset.name][place]] if dataset.name in known else []
            yield Number(dataset.name, name, values, {"method": "none", "column": name})


def reach_of_trees(repetitions: int = TREES, seed: int = 0) -> dict[int, np.ndarray]:
    """Mean share of nodes within each distance, for random trees of the paper's sizes."""
    shares = {}
    for n in (20, 40, 50, 80, 160, 320):
        drawn = [topology.reach(topology.random_tree(n, seed=seed + r)) for r in range(repetitions)]
        longest = max(len(r) for r in drawn)
        wide = [np.pad(r, (0, longest - len(r)), constant_values=1.0) for r in drawn]
        shares[n] = np.mean(wide, axis=0)
    return shares


def reach(view: View) -> Iterator[Number]:
    """Figure 2."""
    for n, shares in reach_of_trees().items():
        for k, share in enumerate(shares):
            setting = {"method": "none", "nodes": n, "distance": k, "column": f"{n}:{k}"}
            yield Number("random trees", "reach", share, setting, {"reps": TREES})


def reach_figure(view: View) -> Figure:
    """The share of nodes within a distance, a line a size of tree."""
    shares: dict[int, list[float]] = {}
    for record in view.records:
        shares.setdefault(int(record.setting["nodes"]), []).append(record.value or 0.0)
    return reach_curves({n: np.array(share) for n, share in shares.items()})
