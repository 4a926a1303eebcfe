"""Reproduce items of a paper: run what they need, keep it, and set the numbers side by side."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from peerwise.errors import BadData, BadFile, UnknownName
from peerwise.papers.items import Dataset, Done, Paper, Scale, as_run_on, available, tasks_of

if TYPE_CHECKING:
    import pandas as pd

    from peerwise.study.engine import Engine
    from peerwise.study.jobs import Job
    from peerwise.study.results import Claim, Record
    from peerwise.study.store import Kept

QUICK_NODES = 80  # larger networks are left out of a quick run
Progress = Callable[[int, int], None]


class _Papers(Mapping[str, Paper]):
    """Papers by name; the items of one are imported when it is asked for."""

    names = (
        "crc",
        "rc",
        "gossip-nb",
        "decdiff",
        "cvar-cta",
        "ba-bfl",
        "relay",
        "privacy",
        "sealed",
    )

    def __getitem__(self, name: str) -> Paper:
        if name not in self.names:
            raise KeyError(name)
        module = import_module(f"peerwise.papers.{name.replace('-', '_')}.items")
        paper: Paper = module.PAPER
        return paper

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


# Everything that can be reproduced, by the first half of its name.
PAPERS = _Papers()


class Reproduction(NamedTuple):
    """What came of a command."""

    items: list[str]
    datasets: list[str]
    records: "list[Record]"
    claims: "list[Claim]"
    history: "pd.DataFrame | None"
    failures: dict[str, str]  # data set or task -> why
    words: str = ""  # how many cells were kept and why others were not


def list_items() -> list[tuple[str, str]]:
    """Every item that can be reproduced, with its title."""
    named = []
    for paper in PAPERS.values():
        named += [(f"{paper.name}/{name}", item.title) for name, item in paper.items.items()]
        named.append((f"{paper.name}/all", "everything above; resumes where it stopped"))
    return named


def choose(name: str) -> tuple[Paper, list[str]]:
    """The paper and its items that a name like crc/table-4 or crc/all stands for."""
    known = [full for full, _ in list_items()]
    start, _, item = name.partition("/")
    if name not in known:
        raise UnknownName("item", name if start in PAPERS and item else f"{name}/", known)
    paper = PAPERS[start]
    return paper, list(paper.items) if item == "all" else [item]


def reproduce(
    paper: Paper,
    items: list[str],
    folder: Path,
    *,
    chosen: Sequence[str] | None = None,
    repetitions: int | None = None,
    quick: bool = False,
    workers: int | None = None,
    engine: "Engine | None" = None,
    progress: Progress | None = None,
    only_kept: bool = False,
    fresh: bool = False,
) -> Reproduction:
    """Run items of a paper on the data sets at hand and write a run folder.

    `repetitions` is the number of trials where items are Monte Carlo, and of replicas where they
    train networks. `engine` is where jobs run, by default `workers` processes of this machine.
    `only_kept` runs nothing and takes what is in the folder.
    """
    from peerwise.study.engine import ThisMachine
    from peerwise.study.store import Store

    store = Store(folder)
    if only_kept and any(paper.items[i].needs_data for i in items) and not store.keys():
        raise BadFile(f"{folder} holds no results of a run; give the folder that does with --out")
    on = store.asked().get("at_hand") if only_kept else None
    how: dict[str, Any] = {
        "engine": engine or ThisMachine(workers),
        "progress": progress,
        "only_kept": only_kept,
        "fresh": fresh,
    }
    with as_run_on(on):
        return _reproduced(paper, items, folder, chosen, Scale(quick, repetitions), **how)


def _reproduced(
    paper: Paper, items: list[str], folder: Path, chosen: Sequence[str] | None, scale: Scale, *,
    engine: "Engine", progress: Progress | None, only_kept: bool, fresh: bool,
) -> Reproduction:  # fmt: skip
    from peerwise.study.engine import run_jobs
    from peerwise.study.results import write_folder
    from peerwise.study.store import Store

    datasets = paper.datasets(chosen, scale.quick)
    if not any(d.present for d in datasets) and any(paper.items[i].needs_data for i in items):
        looked = f" (looked for {', '.join(d.data for d in datasets)})" if datasets else ""
        raise BadData(
            f"none of the paper's data sets is at hand{looked}; give the folder that has them and "
            "their MANIFEST.json with --data or PEERWISE_DATA"
        )
    wanted = {item: jobs_of(paper, item, datasets, scale) for item in items}
    jobs = [job for jobs in wanted.values() for job in jobs.values()]
    ran = run_jobs(jobs, folder, progress=progress, engine=engine, only_kept=only_kept, fresh=fresh)
    done: Done = {j.key: _given(j, ran.done[j.key]) for j in jobs if j.key in ran.done}
    records, frames = [], []
    for item, named in wanted.items():
        of_item = {name: done[job.key] for name, job in named.items() if job.key in done}
        records += paper.records(item, of_item, datasets)
        frames += _curves(paper, item, of_item, datasets)
    failures = {n.partition("|reference")[0]: ran.failures[j.key] for named in wanted.values()
                for n, j in named.items() if j.key in ran.failures}  # fmt: skip
    history = _together(frames)
    names, claims = [d.name for d in datasets], paper.claims(records)
    config: dict[str, Any] = {
        "command": "reproduce", "items": [f"{paper.name}/{item}" for item in items],
        "datasets": names, "quick": scale.quick,
        **({"trials": scale.repetitions} if scale.repetitions else {}), "at_hand": _used(datasets),
    }  # fmt: skip
    rows = None if only_kept else Store(folder).rows()
    write_folder(folder, config=config, records=records, claims=claims, history=history, rows=rows)
    return Reproduction(items, names, records, claims, history, failures, ran.words)


def _used(datasets: Sequence[Dataset]) -> list[dict[str, Any]]:
    """What is known of the data sets that a run reads, so that it can be shown without them."""
    names = {d.data for d in datasets if d.present}
    known = ("name", "source", "kind", "rows")
    return [{k: e[k] for k in known if k in e} for e in available() if e["name"] in names]


def jobs_of(paper: Paper, item: str, datasets: list[Dataset], scale: Scale) -> dict[str, Any]:
    """What an item needs to be run, by name: cells of its columns, or tasks."""
    if not paper.items[item].columns:
        return dict(tasks_of(paper.items[item], [d.name for d in datasets], scale))
    from peerwise.papers.records import cells_of
    from peerwise.study.jobs import Run

    cells = cells_of(paper, item, datasets, scale)
    large = scale.quick and QUICK_NODES
    return {n: Run(c) for n, c in cells.items() if not large or c["split"]["nodes"] <= large}


def _given(job: "Job", kept: "Kept") -> Any:
    """What a job gave: the outcome of a cell, or the arrays of a task."""
    from peerwise.study.jobs import Run, to_outcome

    return to_outcome(kept.arrays) if isinstance(job, Run) else kept.arrays


def _curves(paper: Paper, item: str, done: Done, datasets: list[Dataset]) -> "list[pd.DataFrame]":
    """Errors of every node and round, of each method of a table that keeps curves."""
    from peerwise.study.results import history_of

    columns = paper.items[item].columns if paper.items[item].curves else ()
    methods = {column.method: column.name for column in columns}
    return [
        history_of(done[place], dataset=d.name, method=method)
        for d in datasets
        for method, name in methods.items()
        if (place := f"{d.name}|{name}") in done
    ]


def _together(frames: "list[pd.DataFrame]") -> "pd.DataFrame | None":
    import pandas as pd

    return pd.concat(frames, ignore_index=True) if frames else None
