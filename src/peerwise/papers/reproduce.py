"""Reproduce items of a paper: run what they need, keep it, and set the numbers side by side."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from peerwise.errors import BadData, UnknownName
from peerwise.papers.items import Dataset, Item, Paper, Scale, TaskPaper, Tasks

if TYPE_CHECKING:
    import pandas as pd

    from peerwise.learner import Cell, Outcome
    from peerwise.study.engine import Ran
    from peerwise.study.jobs import Job
    from peerwise.study.results import Claim, Record

QUICK_NODES = 80  # larger networks are left out of a quick run
Progress = Callable[[int, int], None]


class _Papers(Mapping[str, Paper | TaskPaper]):
    """Papers by name; the items of one are imported when it is asked for."""

    names = ("crc", "rc", "gossip-nb", "decdiff", "cvar-cta", "ba-bfl", "relay")

    def __getitem__(self, name: str) -> Paper | TaskPaper:
        if name not in self.names:
            raise KeyError(name)
        module = import_module(f"peerwise.papers.{name.replace('-', '_')}.items")
        paper: Paper | TaskPaper = module.PAPER
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


def reproduce(
    paper: Paper | TaskPaper,
    items: list[str],
    folder: Path,
    *,
    chosen: Sequence[str] | None = None,
    repetitions: int | None = None,
    quick: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
    only_kept: bool = False,
    fresh: bool = False,
) -> Reproduction:
    """Run items of a paper on the data sets at hand and write a run folder.

    `repetitions` is the number of trials where items are Monte Carlo, and of replicas where they
    train networks. `only_kept` runs nothing and takes what is in the folder.
    """
    work = _Work(folder, Scale(quick, repetitions), chosen, progress, workers, only_kept, fresh)
    if isinstance(paper, TaskPaper):
        return _from_tasks(paper, items, work)
    return _from_columns(paper, items, work)


class _Work(NamedTuple):
    """How a command is carried out."""

    folder: Path
    scale: Scale
    chosen: Sequence[str] | None
    progress: Progress | None
    workers: int | None
    only_kept: bool
    fresh: bool

    def run(self, jobs: "Iterable[Job]") -> "Ran":
        """Run jobs, or take what is kept of them."""
        from peerwise.study.engine import ThisMachine, run_jobs

        how: dict[str, Any] = {"progress": self.progress, "only_kept": self.only_kept}
        engine = ThisMachine(self.workers)
        return run_jobs(jobs, self.folder, engine=engine, fresh=self.fresh, **how)

    def write(
        self, paper: Paper | TaskPaper, items: list[str], sets: list[str],
        records: "list[Record]", more: dict[str, Any], history: "pd.DataFrame | None" = None,
    ) -> "list[Claim]":  # fmt: skip
        """Write the run folder; returns the claims."""
        from peerwise.study.results import write_folder
        from peerwise.study.store import Store

        named = [f"{paper.name}/{item}" for item in items]
        asked = {"items": named, "datasets": sets, "quick": self.scale.quick}
        claims, config = paper.claims(records), {"command": "reproduce", **asked, **more}
        rows = None if self.only_kept else Store(self.folder).rows()
        write_folder(
            self.folder, config=config, records=records, claims=claims, history=history, rows=rows
        )
        return claims


def _fits(item: Item, dataset: Dataset) -> bool:
    return not dataset.rows or dataset.rows >= item.least


def _from_columns(paper: Paper, items: list[str], work: _Work) -> Reproduction:
    from peerwise.learner import cell
    from peerwise.papers.records import cells
    from peerwise.study.jobs import Run, to_outcome

    datasets = paper.datasets(work.chosen, work.scale.quick)
    here = [d for d in datasets if d.present]
    if not here and any(paper.items[item].needs_data for item in items):
        names = ", ".join(d.data for d in datasets)
        raise BadData(
            f"none of the data sets is at hand (looked for {names}); give the folder that "
            "has them and their MANIFEST.json with --data or PEERWISE_DATA"
        )
    bases = {d.name: cell(paper.base(d, work.scale)) for d in datasets}
    tables = [paper.items[item] for item in items]
    needed = [c for d in here for t in tables if _fits(t, d) for c in cells(t, bases[d.name])]
    if work.scale.quick:
        needed = [c for c in needed if c["split"]["nodes"] <= QUICK_NODES]
    ran = work.run(Run(c) for c in needed)
    outcomes = {key: to_outcome(kept.arrays) for key, kept in ran.done.items()}
    sources = {c.key: c["data"]["source"] for c in needed}
    failures = {sources[key]: why for key, why in ran.failures.items()}
    records = [
        record for item in items for record in _of_item(paper, item, datasets, bases, outcomes)
    ]
    curves = any(table.curves for table in tables)
    history = _curves(here, bases, outcomes) if curves else None
    chosen, often = [d.name for d in datasets], next(iter(bases.values()))["run"]["repetitions"]
    claims = work.write(paper, items, chosen, records, {"repetitions": often}, history)
    return Reproduction(items, chosen, records, claims, history, failures, ran.words)


def _of_item(
    paper: Paper, name: str, datasets: list[Dataset], bases: "dict[str, Cell]",
    outcomes: "dict[str, Outcome]",
) -> "list[Record]":  # fmt: skip
    from peerwise.papers.records import column_records

    item = paper.items[name]
    fitting = [d for d in datasets if _fits(item, d)]
    if item.records:
        return paper.part("report", item.records)(name, fitting)
    return [r for d in fitting for r in column_records(paper, name, d, bases[d.name], outcomes)]


def _curves(
    datasets: Sequence[Dataset], bases: "dict[str, Cell]", outcomes: "dict[str, Outcome]"
) -> "pd.DataFrame | None":
    """Errors of every node and round in the default setting."""
    import pandas as pd

    from peerwise.study.results import history_of

    frames = []
    for dataset in datasets:
        for method in ("rc", "ml", "crc", "isolated"):
            one = bases[dataset.name].changed(method=method, run={"record": "all"})
            outcome = outcomes.get(one.key)
            if outcome is not None:
                frames.append(history_of(outcome, dataset=dataset.name, method=method))
    return pd.concat(frames, ignore_index=True) if frames else None


def tasks_of(paper: TaskPaper, items: list[str], sets: list[str], scale: Scale) -> dict[str, Tasks]:
    """The tasks of every item, by name."""
    return {item: paper.items[item].tasks(sets, scale) for item in items}


def _from_tasks(paper: TaskPaper, items: list[str], work: _Work) -> Reproduction:
    sets = paper.datasets(work.chosen)
    if not sets and any(paper.items[item].needs_data for item in items):
        raise BadData(
            "none of the paper's data sets is at hand; give the folder that has them and their "
            "MANIFEST.json with --data or PEERWISE_DATA"
        )
    wanted = tasks_of(paper, items, sets, work.scale)
    every = [task for tasks in wanted.values() for task in tasks.values()]
    ran = work.run(every)
    records: list[Record] = []
    for item, tasks in wanted.items():
        arrays = {n: ran.done[t.key].arrays for n, t in tasks.items() if t.key in ran.done}
        records += paper.records(item, arrays)
    often = work.scale.repetitions
    trials = {} if often is None else {"trials": often}
    claims = work.write(paper, items, sets, records, trials)
    names = {task.key: name for tasks in wanted.values() for name, task in tasks.items()}
    failures = {names[key]: why for key, why in ran.failures.items()}
    return Reproduction(items, sets, records, claims, None, failures, ran.words)
