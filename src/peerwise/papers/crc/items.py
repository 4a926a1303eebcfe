"""The experiments of "Decentralized Federated Learning of Probabilistic Generative Classifiers".

Every table is a list of columns; a column says which setting it runs and what it measures. The
paper's numbers are in `crc_paper`, its claims in `crc_claims`.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from peerwise import data, topology
from peerwise.errors import UnknownName
from peerwise.papers.crc.claims import check
from peerwise.papers.crc.printed import COUNTS, SETS, TABLES
from peerwise.papers.items import Column, Dataset, Item, Paper
from peerwise.study.results import Record
from peerwise.experiments.setting import Setting

__all__ = ["ITEMS", "PAPER", "base", "datasets", "reach_of_trees"]


def _gaps(updates: dict[str, dict[str, Any]], **header: str) -> tuple[Column, ...]:
    return tuple(
        Column(name, "test_gap", update, header=header.get("prefix", "") + name)
        for name, update in updates.items()
    )


_GRAPHS: dict[str, dict[str, Any]] = {
    "tree": {},
    "chain": {"topology": "chain"},
    **{
        f"+{k}": {"topology": "tree_plus", "topology_options": {"extra": k}}
        for k in (10, 20, 40, 80)
    },
}
_ALL = {"record": "all"}  # the default setting is shared by several tables: recorded once, fully
_TREE = {**_GRAPHS, "tree": _ALL}
_SIZES = (20, 40, 80, 160, 320)


def _drift(partition: str) -> tuple[Column, ...]:
    graphs = {k: {**v, "partition": partition} for k, v in _GRAPHS.items() if k != "chain"}
    return _gaps(graphs)


def _rows_of_rc() -> tuple[Column, ...]:
    sizes = (20, 40, 80, 160, 320, 640, 1280, 2560, 5120)
    most = {"nodes": 1, "rows": 10240}
    gaps = [
        Column(str(m), "test_gap", {"nodes": 1, "rows": m}, "rc", reference=most) for m in sizes
    ]
    return (*gaps, Column("10240", "test_error", most, "rc", header="error at 10240"))


def _convergence() -> tuple[Column, ...]:
    columns = []
    for part in ("train", "test"):
        columns += [
            Column(f"ml_{part}_gap", f"{part}_gap", _ALL, "ml", part, header=f"ML {part} gap"),
            Column(f"crc_{part}_gap", f"{part}_gap", _ALL, "crc", part, header=f"CRC {part} gap"),
            Column(f"crc_{part}_std", "node_std", _ALL, "crc", part, header=f"CRC {part} std"),
            Column(
                f"rc_{part}_error", f"{part}_error", _ALL, "rc", part, header=f"RC {part} error"
            ),
        ]
    extra = Column("isolated_test_gap", "test_gap", _ALL, "isolated", header="isolated test gap")
    return (*columns, extra)


def _network_sizes() -> tuple[Column, ...]:
    columns: list[Column] = []
    for n in _SIZES:
        update = {"nodes": n, "record": "all"}
        columns += [
            Column(str(n), "test_gap", update, round="best", header=f"n={n} best"),
            Column(f"{n}_last", "test_gap", update, header=f"n={n} last"),
        ]
    return tuple(columns)


def _iterations() -> tuple[Column, ...]:
    columns: list[Column] = []
    for i in (1, 2, 3):
        update = {"iterations": i, "record": "all"}
        columns += [
            Column(str(i), "test_gap", update, header=f"iter={i} gap at 64"),
            Column(f"{i}_t", "rounds_to_gap", update, header=f"iter={i} round"),
        ]
    return tuple(columns)


# Every table and figure of the paper that can be reproduced.
ITEMS: dict[str, Item] = {
    "table-1": Item("Data sets", "what the features are taken to be", ()),
    "table-2": Item(
        "Rows that centralised RC needs",
        "test gap of RC with m rows to RC with 10240 rows",
        _rows_of_rc(),
    ),
    "table-3": Item(
        "Convergence of local models",
        "gaps to RC after 64 rounds on a random tree, 50 nodes of 50 rows",
        _convergence(),
    ),
    "table-4": Item("Sparse networks", "test gap to RC by topology", _gaps(_TREE)),
    "table-5": Item("Drift in p(x)", "test gap to RC by topology", _drift("feature_drift")),
    "table-6": Item(
        "Drift in p(y): one class a node", "test gap to RC by topology", _drift("label_drift")
    ),
    "table-7": Item(
        "Drift in p(x, y)", "test gap to RC by topology", _drift("label_feature_drift")
    ),
    "table-8": Item(
        "Rows a node",
        "test gap to RC on the same rows, 50 nodes",
        _gaps({str(m): {"rows": m} for m in _SIZES}, prefix="rows="),
    ),
    "table-9": Item(
        "Size of the network",
        "test gap to RC on the same rows, 50 rows a node; at each repetition's best round (as the "
        "paper's caption says) and at the last",
        _network_sizes(),
    ),
    "table-10": Item(
        "Fragmentation",
        "test gap to RC, 12800 rows dealt to n nodes",
        _gaps({str(n): {"nodes": n, "rows": 12800 // n} for n in _SIZES}, prefix="n="),
    ),
    "table-11": Item(
        "Local iterations",
        "test gap to RC at round 64, and the first round with a gap below 0.01 (mean over "
        "repetitions)",
        _iterations(),
    ),
    "table-12": Item(
        "Dynamic networks",
        "test gap to RC; a new random tree every δ rounds",
        _gaps({"inf": _ALL, **{str(d): {"redraw": d} for d in (8, 4, 2, 1)}}, prefix="δ="),
    ),
    "figure-2": Item(
        "Reach", "share of nodes within a distance, in random trees (no data needed)", ()
    ),
}

_QUICK = {"repetitions": 2, "test_rows": 1000}
_QUICK_SETS = ("skin", "adult", "letter")
_EMBEDDED = "embedding: EfficientNet-Lite0 of our data folder, not the paper's"


def datasets(chosen: Iterable[str] | None = None, quick: bool = False) -> list[Dataset]:
    """The rows of the tables: the paper's 16 sets, which of them are here, and ours beside."""
    here = {entry["name"] for entry in data.available() if entry["source"] == "folder"}
    rows = []
    for paper in SETS:
        assert paper.data is not None
        note = _EMBEDDED if paper.data.endswith("_features") else ""
        if paper.name == "smartgrid":
            note = "13 features as in the paper: 'stab' is one of them and gives the label away"
        present = paper.data in here
        rows.append(Dataset(paper.name, paper.data, paper, (), note, present))
        if paper.name == "smartgrid":
            fair = "without 'stab', which determines the label: 12 features"
            rows.append(Dataset("smartgrid-12", paper.data, paper, ("stab",), fair, present))
    if chosen is not None:
        chosen = list(chosen)
        known = {r.name for r in rows} | {r.data for r in rows}
        for name in chosen:
            if name not in known:
                raise UnknownName("data set of the paper", name, known)
        return [r for r in rows if r.name in chosen or r.data in chosen]
    return [r for r in rows if r.name in _QUICK_SETS] if quick else rows


def base(dataset: Dataset, quick: bool = False, repetitions: int | None = None) -> Setting:
    """The paper's default setting on a data set."""
    update: dict[str, Any] = dict(_QUICK) if quick else {}
    if repetitions is not None:
        update["repetitions"] = repetitions
    return Setting(data=dataset.data, drop=dataset.drop, **update)


def _described(dataset: Dataset) -> list[Record]:
    paper = dataset.paper
    printed = {
        "rows": paper.rows,
        "features": paper.features,
        "discrete": paper.discrete,
        "continuous": paper.continuous,
        "classes": paper.classes,
    }
    ours: dict[str, int] = {}
    if dataset.present:
        encoded = data.encode(data.load(dataset.data), typing="distinct", drop=dataset.drop)
        discrete = sum(r > 0 for r in encoded.schema.cardinalities)
        features = len(encoded.schema.features)
        ours = {
            "rows": len(encoded.y),
            "features": features,
            "discrete": discrete,
            "continuous": features - discrete,
            "classes": len(encoded.schema.classes),
        }
    return [
        Record(
            paper="crc",
            item="table-1",
            dataset=dataset.name,
            setting={"method": "none", "column": name},
            metric=name,
            value=ours.get(name),
            std=None,
            reps=1 if ours else 0,
            paper_value=None if dataset.drop else value,
        )
        for name, value in printed.items()
    ]


def _printed(item: str, dataset: Dataset, column: str) -> float | None:
    if dataset.drop:  # a variant of ours
        return None
    return TABLES.get(item, {}).get(dataset.paper.name, {}).get(column)


def reach_of_trees(repetitions: int = 20, seed: int = 0) -> dict[int, np.ndarray]:
    """Mean share of nodes within each distance, for random trees of the paper's sizes (Fig. 2)."""
    found = {}
    for n in (20, 40, 50, 80, 160, 320):
        drawn = [topology.reach(topology.random_tree(n, seed=seed + r)) for r in range(repetitions)]
        longest = max(len(r) for r in drawn)
        wide = [np.pad(r, (0, longest - len(r)), constant_values=1.0) for r in drawn]
        found[n] = np.mean(wide, axis=0)
    return found


def _reach_records() -> list[Record]:
    return [
        Record(
            paper="crc",
            item="figure-2",
            dataset="random trees",
            setting={"method": "none", "nodes": n, "distance": k, "column": f"{n}:{k}"},
            metric="reach",
            value=float(share),
            std=None,
            reps=20,
        )
        for n, reach in reach_of_trees().items()
        for k, share in enumerate(reach)
    ]


# What `peerwise reproduce crc/...` runs.
PAPER = Paper(
    "crc",
    ITEMS,
    datasets,
    base,
    check,
    _printed,
    COUNTS,
    {"table-1": _described},
    {"figure-2": _reach_records},
    ("table-3",),
)
