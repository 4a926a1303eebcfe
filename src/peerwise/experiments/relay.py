"""Relay beside CRC: gaps to RC on trees and chains, however rows are dealt. No paper has these."""

from collections.abc import Iterable
from typing import Any

from peerwise import data
from peerwise.errors import UnknownName
from peerwise.experiments.items import Column, Dataset, Item, Paper
from peerwise.experiments.results import Claim, Record
from peerwise.experiments.setting import Setting

__all__ = ["ITEMS", "PAPER"]

DEALT = {
    "iid": "iid",
    "p(x)": "feature_drift",
    "p(y)": "label_drift",
    "p(x,y)": "label_feature_drift",
}
GRAPHS: dict[str, dict[str, Any]] = {
    "tree": {},
    "chain": {"topology": "chain"},
    "plus": {"topology": "tree_plus", "topology_options": {"extra": 10}},
}
METHODS = ("crc", "relay")
CLOSE = 0.01
QUICK_SETS = ("adult", "letter", "mushroom_secondary")
LEAST = 5_000  # rows of a set that 50 nodes of one class each can be dealt from


def _columns(rounds: int, **network: Any) -> tuple[Column, ...]:
    """A column for each way of dealing and method; RC has 64 rounds whatever theirs."""
    return tuple(
        Column(
            f"{method} {name}",
            "test_gap",
            {**network, "partition": partition, "rounds": rounds},
            method,
            reference={"partition": partition, **_size(network)},
        )
        for name, partition in DEALT.items()
        for method in METHODS
    )


def _size(network: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in network.items() if k == "nodes"}


def _item(title: str, rounds: int, least: int = LEAST, **network: Any) -> Item:
    about = (
        f"test gap after {rounds} rounds to RC (uniform start, lr .05, 64 rounds), 50 rows a node"
    )
    return Item(title, about, _columns(rounds, **network), least=least)


# What can be run: every graph after 64 and 256 rounds, with losses, and a larger network.
ITEMS: dict[str, Item] = {
    **{
        f"{name}-{rounds}": _item(f"Relay and CRC on a {name}, {rounds} rounds", rounds, **graph)
        for name, graph in GRAPHS.items()
        for rounds in (64, 256)
    },
    "lossy-256": _item("Relay and CRC on trees that lose 30 %, 256 rounds", 256, arrival=0.7),
    "nodes-320": _item("Relay and CRC on trees of 320 nodes, 256 rounds", 256, 20_000, nodes=320),
}


def datasets(chosen: Iterable[str] | None = None, quick: bool = False) -> list[Dataset]:
    """Every set of the data folder that has features."""
    rows = [
        Dataset(entry["name"], entry["name"], rows=int(entry["rows"]))
        for entry in data.available()
        if entry["source"] == "folder"
        and (entry["kind"] == "tabular" or entry["name"].endswith("_features"))
    ]
    if chosen is not None:
        chosen = list(chosen)
        known = [r.name for r in rows]
        for name in chosen:
            if name not in known:
                raise UnknownName("data set with features", name, known)
        return [r for r in rows if r.name in chosen]
    return [r for r in rows if r.name in QUICK_SETS] if quick else rows


def base(dataset: Dataset, quick: bool = False, repetitions: int | None = None) -> Setting:
    """50 nodes of 50 rows, as in the CRC paper."""
    update: dict[str, Any] = {"repetitions": 2, "test_rows": 1000} if quick else {}
    if repetitions is not None:
        update["repetitions"] = repetitions
    return Setting(data=dataset.data, **update)


def claims(records: list[Record]) -> list[Claim]:
    """What relay is meant to reach, with the exceptions named."""
    found = {
        (r.item, r.dataset, str(r.setting["column"])): r.value
        for r in records
        if r.value is not None
    }
    made = []
    ours = {k: v for k, v in found.items() if k[2].startswith("relay ")}
    late = {k: v for k, v in ours.items() if not k[0].endswith("-64")}
    early = {
        k: (v, found[k[0], k[1], k[2].replace("relay", "crc")])
        for k, v in ours.items()
        if k[0].endswith("-64") and (k[0], k[1], k[2].replace("relay", "crc")) in found
    }
    for name, claim, rule, cells, odd in (
        (
            "relay-reaches-rc",
            "By round 256 relay is at RC's error, however the rows are dealt",
            f"the mean gap is below {CLOSE} in every cell",
            late,
            [k for k, v in late.items() if not v < CLOSE],
        ),
        (
            "relay-no-worse-than-crc",
            "At round 64 relay is no worse than CRC",
            "its mean gap is at most CRC's in every cell",
            early,
            [k for k, (mine, crc) in early.items() if mine > crc],
        ),
    ):
        named = ", ".join(f"{d} {c.removeprefix('relay ')} ({i})" for i, d, c in odd)
        count = f"{len(cells) - len(odd)} of {len(cells)}"
        made.append(
            Claim(
                name=name,
                claim=claim,
                rule=rule,
                ours=count + (f"; not: {named}" if odd else ""),
                paper="",
                held=not odd if cells else None,
            )
        )
    return made


# What `peerwise reproduce relay/...` runs.
PAPER = Paper("relay", ITEMS, datasets, base, claims)
