"""Relay beside CRC: gaps to RC however rows are dealt, over losses, among liars. No paper has it.

Gaps are to RC with a uniform start, lr .05 and 64 rounds on the same rows, the CRC paper's
reference; a gap below 0 is better than that, as more rounds are for RC too.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from peerwise import data
from peerwise.errors import UnknownName
from peerwise.papers.crc.printed import SETS, TABLES
from peerwise.papers.items import CLOSE, Figure, TaskPaper
from peerwise.study.results import Claim, Record
from peerwise.study.tasks import Task

__all__ = ["DEALT", "GRAPHS", "ITEMS", "METHODS", "PAPER", "datasets", "gap_at"]

Arrays = dict[str, np.ndarray]
# How rows are dealt, by what differs between nodes.
DEALT = {
    "iid": "iid",
    "p(x)": "feature_drift",
    "p(y)": "label_drift",
    "p(x,y)": "label_feature_drift",
}
# Networks of 50 nodes.
GRAPHS: dict[str, dict[str, Any]] = {
    "tree": {},
    "chain": {"topology": "chain"},
    "plus": {"topology": "tree_plus", "topology_options": {"extra": 10}},
}
# What learns.
METHODS: dict[str, dict[str, Any]] = {
    "crc": {"method": "crc"},
    "metropolis": {"method": "crc", "weigh": "metropolis"},
    "tracking": {"method": "gradient_tracking"},
    "relay": {"method": "relay"},
}
EARLY, LATE = 64, 256  # rounds at which gaps are read
LEAST = 5_000  # rows of a set that 50 nodes of one class each can be dealt from
MANY = 320  # nodes of the paper's largest network
LOST = 0.3
UP, DOWN = 100.0, 10.0  # rounds that a node is there and away, in the mean
SHOWN = ("letter", "adult", "mushroom_secondary", "credit_default")  # sets of the curves
QUICK_SETS = ("adult", "letter")
QUICK_WAYS = ("iid", "p(y)")
# What a liar adds to what it says, a round, and by how much a neighbour's numbers may move.
PUSH = 1e4
CLIPS = (None, 100.0, 30.0, 10.0, 3.0)
FULL: dict[str, Any] = {"repetitions": 5, "test_rows": 2000}
QUICK: dict[str, Any] = {"repetitions": 1, "test_rows": 500}


def _task(name: str, dealt: str, method: str, scale: dict[str, Any], **more: Any) -> Task:
    told = {"data": name, "partition": DEALT[dealt], **METHODS.get(method, {"method": method})}
    return Task("peerwise.papers.relay.runs:learn", {**told, **more, **scale})


def _scale(quick: bool, runs: int | None) -> dict[str, Any]:
    told = dict(QUICK if quick else FULL)
    return {**told, "repetitions": runs or told["repetitions"]}


def _gaps(
    graphs: Iterable[str], dealt: Iterable[str], methods: Iterable[str], shown: Any = None,
    usual: int | None = None, **more: Any,
) -> Callable[[list[str], bool, int | None], dict[str, Task]]:  # fmt: skip
    """Tasks of every set, graph and way of dealing: RC, and each of the methods."""
    graphs, dealt, methods = list(graphs), list(dealt), list(methods)

    def tasks(sets: list[str], quick: bool, runs: int | None) -> dict[str, Task]:
        scale, made = _scale(quick, runs if quick else runs or usual), {}
        size = {k: v for k, v in more.items() if k == "nodes"}
        ways, networks = (QUICK_WAYS, graphs[:1]) if quick else (dealt, graphs)
        for name in [s for s in sets if shown is None or s in shown]:
            if quick and name not in QUICK_SETS:
                continue
            for way in ways:
                made[f"{name}|-|{way}|rc"] = _task(name, way, "rc", scale, **size)
                for graph in networks:
                    for method in methods:
                        place = {**GRAPHS[graph], **more}
                        task = _task(name, way, method, scale, **place)
                        made[f"{name}|{graph}|{way}|{method}"] = task
        return made

    return tasks


def _large(tasks: Any, least: int) -> Any:
    """The tasks of sets with so many rows."""

    def chosen(sets: list[str], quick: bool, runs: int | None) -> dict[str, Task]:
        rows = {entry["name"]: int(entry["rows"]) for entry in data.available()}
        large = [s for s in sets if rows.get(s, 0) >= least]
        made: dict[str, Task] = tasks(large, quick, runs)
        return made

    return chosen


def _liars(sets: list[str], quick: bool, runs: int | None) -> dict[str, Task]:
    scale, made = _scale(quick, runs if quick else runs or 2), {}
    for name in [s for s in sets if s in SHOWN[:2]]:
        made[f"{name}|-|iid|rc"] = _task(name, "iid", "rc", scale)
        for push in (0.0, PUSH):
            for clip in CLIPS[:2] if quick else CLIPS:
                told = {"data": name, "partition": "iid", "push": push, "clip": clip, **scale}
                task = Task("peerwise.papers.relay.runs:lied_to", told)
                made[f"{name}|{clip}|{push:g}|relay"] = task
    return made


def gap_at(done: dict[str, Arrays], name: str, rounds: int, same: bool = False) -> np.ndarray:
    """Error of a task less RC's of 64 rounds (`same`: of as many) on the same rows, a repetition.

    Empty where one of them was not run.
    """
    dataset, _, way, _ = name.split("|")
    rc = done.get(f"{dataset}|-|{way if way in DEALT else 'iid'}|rc")
    if rc is None or name not in done:
        return np.array([])

    def at(arrays: Arrays, t: int) -> np.ndarray:
        return np.asarray(arrays["error"][:, list(arrays["rounds"]).index(t)])

    return at(done[name], rounds) - at(rc, rounds if same else EARLY)


def _record(item: str, dataset: str, values: np.ndarray, **setting: Any) -> Record:
    return Record(
        paper="relay", item=item, dataset=dataset, setting=setting, metric="test_gap",
        value=float(values.mean()) if values.size else None,
        std=float(values.std(ddof=1)) if values.size > 1 else None, reps=int(values.size),
    )  # fmt: skip


def _records(item: str) -> Callable[[dict[str, Arrays]], list[Record]]:
    def records(done: dict[str, Arrays]) -> list[Record]:
        made = []
        for name in done:
            dataset, graph, way, method = name.split("|")
            if method == "rc":
                continue
            for rounds in (EARLY, LATE):
                told = {"method": method, "graph": graph, "dealt": way, "rounds": rounds}
                found = _record(item, dataset, gap_at(done, name, rounds), **told)
                printed = _printed(dataset) if item == "nodes-320" and way == "iid" else None
                made.append(found.model_copy(update={"paper_value": printed}))
        return made

    return records


def _printed(dataset: str) -> float | None:
    """The paper's gap of CRC among 320 nodes (table 9), where it has the set."""
    names = [s.name for s in SETS if s.data == dataset]
    return TABLES["table-9"].get(names[0], {}).get("320") if names else None


# What can be run.
ITEMS: dict[str, Figure] = {
    "gaps": Figure(
        "Relay and CRC on sparse networks",
        "50 nodes of 50 rows on trees, chains and trees with 10 links more",
        _gaps(GRAPHS, DEALT, ("crc", "relay")),
        _records("gaps"),
    ),
    "rounds": Figure(
        "Gap against rounds",
        "beside CRC with Metropolis weights and with gradient tracking",
        _gaps(GRAPHS, DEALT, METHODS, SHOWN),
        _records("rounds"),
    ),
    "lossy": Figure(
        "Relay and CRC where 30 % of messages are lost",
        "50 nodes of 50 rows on trees",
        _gaps(["tree"], ["iid", "p(y)"], ("crc", "relay"), arrival=1 - LOST),
        _records("lossy"),
    ),
    "churn": Figure(
        "Relay and CRC where nodes come and go",
        f"50 nodes of 50 rows on trees with 10 links more; up for {UP:g} rounds in the mean, down "
        f"for {DOWN:g}",
        _gaps(
            ["plus"],
            ["iid", "p(y)"],
            ("crc", "relay"),
            SHOWN,
            channel="churn",
            channel_options={"up": UP, "down": DOWN},
        ),
        _records("churn"),
    ),
    "nodes-320": Figure(
        "Relay and CRC among 320 nodes",
        "50 rows a node, trees, 2 repetitions; beside iid the paper's table 9",
        _large(_gaps(["tree"], ["iid", "p(y)"], ("crc", "relay"), usual=2, nodes=MANY), 20_000),
        _records("nodes-320"),
    ),
    "liar": Figure(
        "One liar, and clipping",
        f"a leaf adds {PUSH:g} (norm) to what it says, in every round; 49 honest nodes",
        _liars,
        _records("liar"),
    ),
}


def datasets(chosen: Iterable[str] | None = None) -> list[str]:
    """Every set of the data folder that has features, and rows enough."""
    known = [
        entry["name"]
        for entry in data.available()
        if entry["source"] == "folder"
        and (entry["kind"] == "tabular" or entry["name"].endswith("_features"))
        and int(entry["rows"]) >= LEAST
    ]
    if chosen is None:
        return known
    wanted = list(chosen)
    for name in wanted:
        if name not in known:
            raise UnknownName(f"data set of features with {LEAST} rows or more", name, known)
    return [name for name in known if name in wanted]


def claims(records: list[Record]) -> list[Claim]:
    """What relay is meant to reach, with the exceptions named."""
    mine = ("gaps", "lossy", "churn", "nodes-320")
    found = {
        (r.item, r.dataset, *(r.setting[k] for k in ("graph", "dealt", "rounds", "method"))): r
        for r in records
        if r.item in mine and r.value is not None
    }
    ours = {k: r.value or 0.0 for k, r in found.items() if k[-1] == "relay"}
    late = {k: v for k, v in ours.items() if k[4] == LATE}
    early = {
        k: (v, found[(*k[:-1], "crc")].value or 0.0)
        for k, v in ours.items()
        if k[0] == "gaps" and k[4] == EARLY and (*k[:-1], "crc") in found
    }
    above = {k: v for k, v in late.items() if not v < CLOSE}
    worse = {k: v - crc for k, (v, crc) in early.items() if v > crc}
    made = [
        _counted(
            "relay-reaches-rc",
            "By round 256 relay is at RC's error, however the rows are dealt",
            f"the mean gap is below {CLOSE} in every cell",
            late,
            above,
        ),
        _counted(
            "relay-no-worse-than-crc",
            "At round 64 relay is no worse than CRC",
            "its mean gap is at most CRC's in every cell",
            early,
            worse,
        ),
    ]
    return [claim for claim in made if claim is not None]


def _counted(name: str, claim: str, rule: str, cells: Any, odd: dict[Any, float]) -> Claim | None:
    if not cells:
        return None
    named = ", ".join(f"{k[1]} {k[3]} {k[2]} ({k[0]}) {v:+.3f}" for k, v in odd.items())
    count = f"{len(cells) - len(odd)} of {len(cells)}"
    ours = count + (f"; not: {named}" if odd else "")
    return Claim(name=name, claim=claim, rule=rule, ours=ours, paper="", held=not odd)


# What `peerwise reproduce relay/...` runs.
PAPER = TaskPaper("relay", ITEMS, datasets, claims)
