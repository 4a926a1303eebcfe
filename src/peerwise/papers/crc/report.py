"""Numbers of the CRC paper that do not come from cells: its data sets, and how far trees reach."""

from typing import Any

import numpy as np

from peerwise import data, topology
from peerwise.papers.items import Dataset
from peerwise.papers.records import record_of
from peerwise.study.results import Record


def _counts(dataset: Dataset) -> dict[str, int]:
    """How many rows, features and classes a set has here."""
    encoded = data.encode(data.load(dataset.data), typing="distinct", drop=dataset.drop)
    discrete = sum(r > 0 for r in encoded.schema.cardinalities)
    features = len(encoded.schema.features)
    return {
        "rows": len(encoded.y),
        "features": features,
        "discrete": discrete,
        "continuous": features - discrete,
        "classes": len(encoded.schema.classes),
    }


def described(item: str, datasets: list[Dataset]) -> list[Record]:
    """Table 1: what the sets are, ours beside the paper's."""
    records = []
    for dataset in datasets:
        ours = _counts(dataset) if dataset.present else {}
        for name in ("rows", "features", "discrete", "continuous", "classes"):
            printed = None if dataset.drop else getattr(dataset.paper, name)
            said: Any = {"method": "none", "column": name, "paper_value": printed}
            values = [ours[name]] if ours else []
            records.append(record_of("crc", item, dataset.name, name, values, **said))
    return records


def reach_of_trees(repetitions: int = 20, seed: int = 0) -> dict[int, np.ndarray]:
    """Mean share of nodes within each distance, for random trees of the paper's sizes."""
    shares = {}
    for n in (20, 40, 50, 80, 160, 320):
        drawn = [topology.reach(topology.random_tree(n, seed=seed + r)) for r in range(repetitions)]
        longest = max(len(r) for r in drawn)
        wide = [np.pad(r, (0, longest - len(r)), constant_values=1.0) for r in drawn]
        shares[n] = np.mean(wide, axis=0)
    return shares


def reach(item: str, datasets: list[Dataset]) -> list[Record]:
    """Figure 2."""
    return [
        Record(
            paper="crc", item=item, dataset="random trees",
            setting={"method": "none", "nodes": n, "distance": k, "column": f"{n}:{k}"},
            metric="reach", value=float(share), std=None, reps=20,
        )
        for n, shares in reach_of_trees().items()
        for k, share in enumerate(shares)
    ]  # fmt: skip
