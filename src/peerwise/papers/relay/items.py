"""Relay beside CRC: how what `paper.toml` says is put together."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from peerwise.papers import items as paper
from peerwise.papers.crc.items import SETS, TABLES
from peerwise.papers.items import Dataset, Description, Scale, Tasks

SETTINGS = paper.settings_of("relay")
DEALT, GRAPHS, METHODS = SETTINGS["dealt"], SETTINGS["graphs"], SETTINGS["methods"]
EARLY, LATE = 64, 256  # rounds at which gaps are read
_RUNS = "peerwise.papers.relay.runs:"


def _rc(item: dict[str, Any], name: str, way: str, scale: Scale) -> Description:
    often = scale.times(item["repetitions"], 1)
    place: Description = {
        "data": {"source": name},
        "split": {"partition": DEALT[way], "nodes": item["nodes"]},
        "run": {"repetitions": often},
    }
    return paper.merged(SETTINGS["rc"], place, {"split": {"test_rows": 500}} if scale.quick else {})


def _sets(item: dict[str, Any], sets: list[str], scale: Scale) -> list[str]:
    """Those of an item that have as many rows as it asks for."""
    rows = (
        {entry["name"]: int(entry["rows"] or 0) for entry in paper.available()}
        if item["rows"]
        else {}
    )
    wanted = set(item.get("sets", sets)) & set(SETTINGS["quick"]["sets"] if scale.quick else sets)
    return [s for s in sets if s in wanted and rows.get(s, 0) >= item["rows"]]


def _gaps(item: dict[str, Any], sets: list[str], scale: Scale) -> Tasks:
    """Tasks of every set, graph and way of dealing: RC, and each of the methods."""
    planned = {}
    for name in _sets(item, sets, scale):
        for way in SETTINGS["quick"]["dealt"] if scale.quick else item["dealt"]:
            rc = _rc(item, name, way, scale)
            planned[f"{name}|-|{way}|rc"] = paper.described(f"{_RUNS}learn", rc)
            for graph in item["graphs"][:1] if scale.quick else item["graphs"]:
                network = {"network": {**GRAPHS[graph], **item.get("network", {})}}
                for method in item["methods"]:
                    more = network, {"method": METHODS[method]}
                    task = paper.described(f"{_RUNS}learn", rc, *more)
                    planned[f"{name}|{graph}|{way}|{method}"] = task
    return planned


def _liars(item: dict[str, Any], sets: list[str], scale: Scale) -> Tasks:
    planned = {}
    clips = [None, *SETTINGS["clips"]]
    for name in _sets(item, sets, scale):
        rc = _rc(item, name, "iid", scale)
        planned[f"{name}|-|iid|rc"] = paper.described(f"{_RUNS}learn", rc)
        for push in (0.0, SETTINGS["push"]):
            for clip in clips[:2] if scale.quick else clips:
                method = {"name": "relay", "clip": clip, "lead": 0.0, "warm": 0.0}
                task = paper.described(f"{_RUNS}lied_to", rc, {"method": method}, push=push)
                planned[f"{name}|{clip}|{push:g}|relay"] = task
    return planned


def printed(item: str, fields: dict[str, Any]) -> float | None:
    """The CRC paper's gap of CRC among 320 nodes, beside rows dealt at random."""
    names = [s.name for s in SETS if s.data == fields["dataset"]]
    known = names and item == "nodes-320" and (fields["dealt"], fields["to"]) == ("iid", EARLY)
    return TABLES["table-9"].get(names[0], {}).get("320") if known else None


def datasets(chosen: Iterable[str] | None = None, quick: bool = False) -> list[Dataset]:
    """Every set of the data folder that has features, and rows enough."""
    least = SETTINGS["least"]
    known = [
        entry["name"]
        for entry in paper.available()
        if entry["source"] == "folder"
        and (entry["kind"] == "tabular" or entry["name"].endswith("_features"))
        and int(entry["rows"] or 0) >= least
    ]
    what = f"data set of features with {least} rows or more"
    wanted = known if chosen is None else paper.named(what, chosen, known)
    return [Dataset(name, name) for name in known if name in wanted]


RUNS = {
    name: partial(_liars if name == "liar" else _gaps, {**SETTINGS["item"], **item})
    for name, item in SETTINGS["items"].items()
}

# What `peerwise reproduce relay/...` runs.
PAPER = paper.Paper.of("relay", datasets, runs=RUNS, printed=printed)
ITEMS = PAPER.items
