"""Relay beside CRC: gaps to RC however rows are dealt, over losses, among liars. No paper has it.

Gaps are to RC with a uniform start, lr .05 and 64 rounds on the same rows, the CRC paper's
reference; a gap below 0 is better than that, as more rounds are for RC too.
"""

from collections.abc import Iterable
from typing import Any

from peerwise.papers.crc.printed import COUNTS, SETS, TABLES
from peerwise.papers.items import (
    Dataset,
    Description,
    Item,
    Paper,
    Plan,
    Scale,
    Table,
    Tasks,
    described,
    named,
)

# How rows are dealt, by what differs between nodes.
DEALT = {
    "iid": "iid",
    "p(x)": "feature_drift",
    "p(y)": "label_drift",
    "p(x,y)": "label_feature_drift",
}
# Networks of 50 nodes.
GRAPHS: dict[str, Description] = {
    "tree": {},
    "chain": {"topology": "chain"},
    "plus": {"topology": "tree_plus", "extra": 10},
}
# What learns.
METHODS: dict[str, Description] = {
    "crc": {"name": "crc"},
    "metropolis": {"name": "crc", "rule": "metropolis"},
    "tracking": {"name": "gradient_tracking"},
    "relay": {"name": "relay"},
}
EARLY, LATE = 64, 256  # rounds at which gaps are read
LEAST = 5_000  # rows of a set that 50 nodes of one class each can be dealt from
LARGE = 20_000  # rows of a set for the largest network
MANY = 320  # nodes of the CRC paper's largest network
UP, DOWN = 100.0, 10.0  # rounds that a node is there and away, in the mean
SHOWN = ("letter", "adult", "mushroom_secondary", "credit_default")  # sets of the curves
QUICK_SETS = ("adult", "letter")
QUICK_WAYS = ("iid", "p(y)")
# What a liar adds to what it says, a round, and by how much a neighbour's numbers may move.
PUSH = 1e4
CLIPS = (None, 100.0, 30.0, 10.0, 3.0)
HALF = ("iid", "p(y)")
BOTH = ("crc", "relay")
NAMES = {
    "graph": {"tree": "tree", "chain": "chain", "plus": "tree + 10 links"},
    "method": {"crc": "CRC", "metropolis": "CRC, Metropolis weights",
               "tracking": "gradient tracking", "relay": "relay"},
    "rounds": lambda rounds: f"{rounds} rounds",
    "push": lambda push: "one liar" if float(push) else "honest",
    "clip": lambda clip: "none" if clip == "None" else f"{float(clip):g}",
}  # fmt: skip


def _rc(name: str, way: str, scale: Scale, usual: int, nodes: int = 50) -> Description:
    few = 500 if scale.quick else 2000
    return {
        "data": {"source": name},
        "split": {"partition": DEALT[way], "nodes": nodes, "test_rows": few},
        "method": {"name": "rc"},
        "run": {"rounds": LATE, "record": 16, "repetitions": scale.times(usual, 1)},
    }


_RUNS = "peerwise.papers.relay.runs:"


def _gaps(
    graphs: Iterable[str], ways: Iterable[str], methods: Iterable[str], shown: Any = None,
    usual: int = 5, least: int = 0, nodes: int = 50, channel: Description | None = None,
) -> Plan:  # fmt: skip
    """Tasks of every set, graph and way of dealing: RC, and each of the methods."""
    graphs, ways, methods = list(graphs), list(ways), list(methods)

    def tasks(sets: list[str], scale: Scale) -> Tasks:
        used, networks = (QUICK_WAYS, graphs[:1]) if scale.quick else (ways, graphs)
        sets = [s for s in (_large(sets, least) if least else sets) if s in (shown or sets)]
        planned = {}
        for name in [s for s in sets if not scale.quick or s in QUICK_SETS]:
            for way in used:
                rc = _rc(name, way, scale, usual, nodes)
                planned[f"{name}|-|{way}|rc"] = described(f"{_RUNS}learn", rc)
                for graph in networks:
                    network = {"network": {**GRAPHS[graph], **(channel or {})}}
                    for method in methods:
                        learnt = described(
                            f"{_RUNS}learn", rc, network, {"method": METHODS[method]}
                        )
                        planned[f"{name}|{graph}|{way}|{method}"] = learnt
        return planned

    return tasks


def _large(sets: list[str], least: int) -> list[str]:
    """The sets with so many rows."""
    from peerwise import data

    rows = {entry["name"]: int(entry["rows"]) for entry in data.available()}
    return [s for s in sets if rows.get(s, 0) >= least]


def _liars(sets: list[str], scale: Scale) -> Tasks:
    planned = {}
    for name in [s for s in sets if s in SHOWN[:2]]:
        rc = _rc(name, "iid", scale, 2)
        planned[f"{name}|-|iid|rc"] = described(f"{_RUNS}learn", rc)
        for push in (0.0, PUSH):
            for clip in CLIPS[:2] if scale.quick else CLIPS:
                method = {"name": "relay", "clip": clip, "warm": 0.0}
                task = described(f"{_RUNS}lied_to", rc, {"method": method}, push=push)
                planned[f"{name}|{clip}|{push:g}|relay"] = task
    return planned


def printed(item: str, fields: dict[str, Any]) -> float | None:
    """The CRC paper's gap of CRC among 320 nodes, beside rows dealt at random."""
    names = [s.name for s in SETS if s.data == fields["dataset"]]
    known = names and item == "nodes-320" and fields["dealt"] == "iid"
    return TABLES["table-9"].get(names[0], {}).get("320") if known else None


_GAP = (
    "test error less RC's (uniform start, lr .05, 64 rounds, the same rows); mean over nodes and "
    "repetitions; below 0: better than RC of 64 rounds"
)
_COUNTED = (
    "Counts: sets with a gap below .01 (below .05); the CRC paper's of CRC, iid: tree "
    "{} ({}), tree + 10 links {} ({}) of 16"
).format(*COUNTS["table-4"]["tree"], *COUNTS["table-4"]["+10"])
_SHORT = {"test_gap": ".3fz"}
_PAIRS = Table(("dataset",), ("dealt",), ("graph", "rounds"), "{graph}, {rounds}", digits=_SHORT,
               least=None, joined="method")  # fmt: skip
_COUNTS = Table(("graph", "dealt"), ("method", "rounds"), head="gap < .01 (< .05)", counted=True)
_MEANS = Table(("graph", "dealt"), ("method",), ("rounds",), "mean of the sets, {rounds}",
               digits=_SHORT, least=None)  # fmt: skip
_LIARS = Table(
    ("dataset", "clip"), ("push", "rounds"), head="data, clip", digits=_SHORT, least=None
)
_NAMED = "{dataset}|{graph}|{dealt}|{method}"

# What can be run.
ITEMS: dict[str, Item] = {
    "gaps": Item(
        "Relay and CRC on sparse networks",
        "50 nodes of 50 rows on trees, chains and trees with 10 links more",
        _gaps(GRAPHS, DEALT, BOTH), _NAMED, "gaps", (_PAIRS, _COUNTS),
        legend=f"CRC → relay; {_GAP}. {_COUNTED}",
    ),
    "rounds": Item(
        "Gap against rounds",
        "beside CRC with Metropolis weights and with gradient tracking",
        _gaps(GRAPHS, DEALT, METHODS, SHOWN), _NAMED, "gaps", (_MEANS,), "curves", _GAP,
    ),
    "lossy": Item(
        "Relay and CRC where 30 % of messages are lost",
        "50 nodes of 50 rows on trees",
        _gaps(["tree"], HALF, BOTH, channel={"channel": "erasure", "q": 0.7}),
        _NAMED, "gaps", (_PAIRS,), legend=f"CRC → relay; {_GAP}",
    ),
    "churn": Item(
        "Relay and CRC where nodes come and go",
        f"50 nodes of 50 rows on trees with 10 links more; up for {UP:g} rounds in the mean, down "
        f"for {DOWN:g}",
        _gaps(["plus"], HALF, BOTH, SHOWN, channel={"channel": "churn", "up": UP, "down": DOWN}),
        _NAMED, "gaps", (_PAIRS,),
        legend=f"CRC → relay; {_GAP}; nodes that are down are measured too",
    ),
    "nodes-320": Item(
        "Relay and CRC among 320 nodes",
        "50 rows a node, trees, 2 repetitions; beside iid the paper's table 9",
        _gaps(["tree"], HALF, BOTH, usual=2, least=LARGE, nodes=MANY),
        _NAMED, "gaps", (_PAIRS._replace(paper=".2f"),),
        legend=f"CRC → relay; {_GAP}. Paper: CRC at its best round, table 9",
    ),
    "liar": Item(
        "One liar, and clipping",
        f"a leaf adds {PUSH:g} (norm) to what it says, in every round; 49 honest nodes",
        _liars, "{dataset}|{clip}|{push}|{method}", "gaps", (_LIARS,),
        legend=f"{_GAP}; the liar's own model is left out; relay without a warm start",
    ),
}  # fmt: skip


def datasets(chosen: Iterable[str] | None = None, quick: bool = False) -> list[Dataset]:
    """Every set of the data folder that has features, and rows enough."""
    from peerwise import data

    known = [
        entry["name"]
        for entry in data.available()
        if entry["source"] == "folder"
        and (entry["kind"] == "tabular" or entry["name"].endswith("_features"))
        and int(entry["rows"]) >= LEAST
    ]
    what = f"data set of features with {LEAST} rows or more"
    wanted = known if chosen is None else named(what, chosen, known)
    return [Dataset(name, name) for name in known if name in wanted]


# What `peerwise reproduce relay/...` runs.
PAPER = Paper("relay", ITEMS, datasets, NAMES, printed)
