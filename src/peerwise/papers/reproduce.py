"""Reproduce items of a paper: run what they need, keep it, and set the numbers side by side."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from peerwise.errors import BadData, UnknownName
from peerwise.experiments import ba_bfl, compare, crc, cvar_cta, decdiff, gossip_nb, pool, relay
from peerwise.papers.items import Dataset, Item, Paper, TaskPaper, records, settings
from peerwise.study.results import Claim, Record, history_of, write_folder
from peerwise.experiments.setting import Setting
from peerwise.study.tasks import Task, run_tasks

__all__ = ["PAPERS", "Reproduction", "choose", "list_items", "reproduce", "tasks_of"]

# Everything that can be reproduced, by the first half of its name.
PAPERS: dict[str, Paper | TaskPaper] = {
    paper.name: paper
    for paper in (
        crc.PAPER,
        compare.PAPER,
        gossip_nb.PAPER,
        decdiff.PAPER,
        cvar_cta.PAPER,
        ba_bfl.PAPER,
        relay.PAPER,
    )
}
QUICK_NODES = 80  # larger networks are left out of a quick run


class Reproduction(NamedTuple):
    """What came of a command."""

    items: list[str]
    datasets: list[str]
    records: list[Record]
    claims: list[Claim]
    history: pd.DataFrame | None
    failures: dict[str, str]  # data set -> why


def list_items() -> list[tuple[str, str]]:
    """Every item that can be reproduced, with its title."""
    named = []
    for paper in PAPERS.values():
        named += [(f"{paper.name}/{item}", found.title) for item, found in paper.items.items()]
        named.append((f"{paper.name}/all", "everything above; goes on where it stopped"))
    return named


def choose(name: str) -> tuple[Paper | TaskPaper, list[str]]:
    """The paper and its items that a name like crc/table-4 or crc/all stands for."""
    known = [full for full, _ in list_items()]
    start, _, item = name.partition("/")
    if name not in known:
        raise UnknownName("item", name if start in PAPERS and item else f"{name}/", known)
    paper = PAPERS[start]
    return paper, list(paper.items) if item == "all" else [item]


def _fits(item: Item, dataset: Dataset) -> bool:
    return not dataset.rows or dataset.rows >= item.least


def _curves(
    datasets: Sequence[Dataset], defaults: dict[str, Setting], outcomes: dict[str, Any]
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
    paper: Paper | TaskPaper,
    items: list[str],
    folder: Path,
    *,
    chosen: Sequence[str] | None = None,
    repetitions: int | None = None,
    quick: bool = False,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    only_kept: bool = False,
) -> Reproduction:
    """Run items of a paper on the data sets at hand and write a run folder.

    `repetitions` is the number of trials where items are Monte Carlo, and of replicas where they
    train networks. `only_kept` runs nothing and takes what is in the folder.
    """
    if isinstance(paper, TaskPaper):
        return _from_tasks(
            paper, items, folder, chosen, repetitions, quick, workers, progress, only_kept
        )
    datasets = paper.datasets(chosen, quick)
    here = [d for d in datasets if d.present]
    tables = [item for item in items if item not in paper.without_data]
    if tables and not here:
        names = ", ".join(d.data for d in datasets)
        raise BadData(
            f"none of the data sets is at hand (looked for {names}); give the folder that "
            "has them and their MANIFEST.json with --data or PEERWISE_DATA"
        )
    defaults = {d.name: paper.base(d, quick, repetitions) for d in datasets}
    needed = [
        s
        for d in here
        for item in tables
        if _fits(paper.items[item], d)
        for s in settings(paper.items[item], defaults[d.name])
    ]
    if quick:
        needed = [s for s in needed if s.nodes <= QUICK_NODES]
    outcomes, failed = pool.run_all(needed, folder / "cells", progress, workers, only_kept)
    by_key = {s.key: s for s in needed}
    failures = {by_key[key].data: why for key, why in failed.items()}
    found: list[Record] = []
    for item in items:
        if item in paper.without_data:
            found += paper.without_data[item]()
            continue
        for dataset in [d for d in datasets if _fits(paper.items[item], d)]:
            found += records(paper, item, dataset, defaults[dataset.name], outcomes)
    claims = paper.claims(found)
    wanted = set(items) & set(paper.curves)
    history = _curves(here, defaults, outcomes) if wanted else None
    config = {
        "command": "reproduce",
        "items": [f"{paper.name}/{item}" for item in items],
        "datasets": [d.name for d in datasets],
        "quick": quick,
        "repetitions": next(iter(defaults.values())).repetitions,
    }
    write_folder(folder, config=config, records=found, claims=claims, history=history)
    return Reproduction(items, [d.name for d in datasets], found, claims, history, failures)


def tasks_of(
    paper: TaskPaper, items: list[str], sets: list[str], quick: bool, trials: int | None
) -> dict[str, dict[str, Task]]:
    """The tasks of every item, by name."""
    return {item: paper.items[item].tasks(sets, quick, trials) for item in items}


def _from_tasks(
    paper: TaskPaper,
    items: list[str],
    folder: Path,
    chosen: Sequence[str] | None,
    trials: int | None,
    quick: bool,
    workers: int | None,
    progress: Callable[[int, int], None] | None,
    only_kept: bool,
) -> Reproduction:
    sets = paper.datasets(chosen)
    if not sets and any(paper.items[item].needs_data for item in items):
        raise BadData(
            "none of the paper's data sets is at hand; give the folder that has them and their "
            "MANIFEST.json with --data or PEERWISE_DATA"
        )
    wanted = tasks_of(paper, items, sets, quick, trials)
    every = [task for tasks in wanted.values() for task in tasks.values()]
    done, failed = run_tasks(every, folder / "cells", progress, workers, only_kept)
    found: list[Record] = []
    for item, tasks in wanted.items():
        mine = {name: done[task.key] for name, task in tasks.items() if task.key in done}
        found += paper.items[item].records(mine)
    claims = paper.claims(found)
    config: dict[str, Any] = {
        "command": "reproduce",
        "items": [f"{paper.name}/{item}" for item in items],
        "datasets": sets,
        "quick": quick,
        **({} if trials is None else {"trials": trials}),
    }
    write_folder(folder, config=config, records=found, claims=claims)
    names = {task.key: name for tasks in wanted.values() for name, task in tasks.items()}
    return Reproduction(
        items, sets, found, claims, None, {names[key]: why for key, why in failed.items()}
    )
