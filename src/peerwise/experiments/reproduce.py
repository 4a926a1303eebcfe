"""Reproduce items of a paper: run what they need, keep it, and set the numbers side by side."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from peerwise import topology
from peerwise.errors import BadData, UnknownName
from peerwise.experiments import crc, crc_claims, pool
from peerwise.experiments.results import Claim, Record, history_of, write_folder
from peerwise.experiments.setting import Setting

__all__ = ["Reproduction", "choose", "list_items", "reach_of_trees", "reproduce"]

NO_DATA = ("figure-2",)  # items that need no data set
QUICK_NODES = 80  # larger networks are left out of a quick run
CURVES = ("table-3",)  # items whose errors are drawn against rounds


class Reproduction(NamedTuple):
    """What came of a command."""

    items: list[str]
    datasets: list[crc.Dataset]
    records: list[Record]
    claims: list[Claim]
    history: pd.DataFrame | None
    failures: dict[str, str]  # data set -> why


def list_items() -> list[tuple[str, str]]:
    """Every item that can be reproduced, with its title."""
    named = [(f"crc/{item}", found.title) for item, found in crc.ITEMS.items()]
    return [*named, ("crc/all", "everything above; goes on where it stopped")]


def choose(name: str) -> list[str]:
    """The items that a name like crc/table-4 or crc/all stands for."""
    paper, _, item = name.partition("/")
    known = [full for full, _ in list_items()]
    if name not in known:
        raise UnknownName("item", name if paper == "crc" and item else f"{name}/", known)
    return list(crc.ITEMS) if item == "all" else [item]


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


def _curves(
    datasets: Sequence[crc.Dataset], defaults: dict[str, Setting], outcomes: dict[str, Any]
) -> pd.DataFrame | None:
    """Errors of every node and round in the default setting."""
    frames = []
    for dataset in datasets:
        for method in ("rc", "ml", "crc", "isolated"):
            update = {"record": "all", "method": method}
            setting = defaults[dataset.name].model_copy(update=update)
            outcome = outcomes.get(setting.key)
            if outcome is not None:
                frames.append(history_of(setting, outcome, dataset=dataset.name, method=method))
    return pd.concat(frames, ignore_index=True) if frames else None


def reproduce(
    items: list[str],
    folder: Path,
    *,
    chosen: Sequence[str] | None = None,
    repetitions: int | None = None,
    quick: bool = False,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Reproduction:
    """Run items of the CRC paper on the data sets at hand and write a run folder."""
    datasets = crc.datasets(chosen, quick)
    here = [d for d in datasets if d.present]
    tables = [item for item in items if item not in NO_DATA]
    if tables and not here:
        names = ", ".join(d.data for d in datasets)
        raise BadData(
            f"none of the paper's data sets is at hand (looked for {names}); give the folder that "
            "has them and their MANIFEST.json with --data or PEERWISE_DATA"
        )
    defaults = {d.name: crc.base(d, quick, repetitions) for d in datasets}
    needed = [s for d in here for item in tables for s in crc.settings(item, defaults[d.name])]
    if quick:
        needed = [s for s in needed if s.nodes <= QUICK_NODES]
    outcomes, failed = pool.run_all(needed, folder / "cells", progress, workers)
    by_key = {s.key: s for s in needed}
    failures = {by_key[key].data: why for key, why in failed.items()}
    records: list[Record] = []
    for item in items:
        if item == "figure-2":
            records += _reach_records()
            continue
        for dataset in datasets:
            records += crc.records(item, dataset, defaults[dataset.name], outcomes)
    claims = crc_claims.check(records)
    wanted = set(items) & set(CURVES)
    history = _curves(here, defaults, outcomes) if wanted else None
    config = {
        "command": "reproduce",
        "items": [f"crc/{item}" for item in items],
        "datasets": [d.name for d in datasets],
        "quick": quick,
        "repetitions": next(iter(defaults.values())).repetitions,
    }
    write_folder(folder, config=config, records=records, claims=claims, history=history)
    return Reproduction(items, datasets, records, claims, history, failures)
