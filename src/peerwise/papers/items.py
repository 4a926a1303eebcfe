"""Tables: which setting a column runs, what it measures, and what a paper printed there."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from peerwise import data
from peerwise.errors import UnknownName
from peerwise.experiments.job import Outcome
from peerwise.study.results import Claim, Record
from peerwise.experiments.setting import Setting
from peerwise.study.tasks import Task

__all__ = [
    "CLOSE",
    "Column",
    "Dataset",
    "Figure",
    "Item",
    "Paper",
    "TaskPaper",
    "at_hand",
    "measure",
    "records",
    "settings",
]

CLOSE = 0.01  # a gap below this counts as having converged to RC


class Dataset(NamedTuple):
    """A row of the tables: a data set of the paper, or a variant of ours beside it."""

    name: str
    data: str
    paper: Any = None  # what the paper says of it
    drop: tuple[str, ...] = ()
    note: str = ""
    present: bool = True
    rows: int = 0  # 0: not known before it is read


class Column(NamedTuple):
    """A column of a table: what runs and what is measured."""

    name: str  # the paper's
    metric: str  # test_gap, train_gap, test_error, train_error, node_std, rounds_to_gap
    update: dict[str, Any] = {}  # what differs from the default setting  # noqa: RUF012
    method: str = "crc"
    part: str = "test"  # for node_std: the standard deviation of which error
    round: str = "last"  # or "best": each repetition at its best round
    reference: dict[str, Any] | None = None  # the reference, where it is not RC on the same rows
    header: str = ""

    @property
    def title(self) -> str:
        """What stands above the column."""
        return self.header or self.name


class Item(NamedTuple):
    """A table or figure of the paper."""

    title: str
    about: str
    columns: tuple[Column, ...]
    layout: str = "paper"  # cells are ours beside the paper's; "before": a model before and after
    notes: tuple[str, ...] = ()
    least: int = 0  # data sets of fewer rows are left out


class Paper(NamedTuple):
    """What `peerwise reproduce NAME/ITEM` knows of a paper, or of a comparison of our own."""

    name: str
    items: dict[str, Item]
    datasets: Callable[[Iterable[str] | None, bool], list[Dataset]]  # chosen, quick
    base: Callable[[Dataset, bool, int | None], Setting]  # data set, quick, repetitions
    claims: Callable[[list[Record]], list[Claim]]
    printed: Callable[[str, Dataset, str], float | None] = lambda item, dataset, column: None
    counts: dict[str, dict[str, tuple[int, int]]] = {}  # noqa: RUF012
    # items whose numbers do not come from settings: of a data set, or of none
    described: dict[str, Callable[[Dataset], list[Record]]] = {}  # noqa: RUF012
    without_data: dict[str, Callable[[], list[Record]]] = {}  # noqa: RUF012
    curves: tuple[str, ...] = ()  # items whose errors are drawn against rounds


class Figure(NamedTuple):
    """An item whose numbers come from tasks of its own and not from settings."""

    title: str
    about: str
    # data sets, quick, trials -> tasks by name
    tasks: Callable[[list[str], bool, int | None], dict[str, Task]]
    records: Callable[[dict[str, dict[str, Any]]], list[Record]]  # arrays by name of the task
    needs_data: bool = True


class TaskPaper(NamedTuple):
    """What `peerwise reproduce NAME/ITEM` knows of a paper whose items are tasks."""

    name: str
    items: dict[str, Figure]
    datasets: Callable[[Iterable[str] | None], list[str]]  # chosen -> those at hand
    claims: Callable[[list[Record]], list[Claim]]


def at_hand(sets: Sequence[str], chosen: Iterable[str] | None) -> list[str]:
    """Which of a paper's data sets are there, of those chosen."""
    here = {entry["name"] for entry in data.available()}
    wanted = list(sets if chosen is None else chosen)
    for name in wanted:
        if name not in sets:
            raise UnknownName("data set of the paper", name, sets)
    return [s for s in sets if s in wanted and s in here]


def _of(column: Column, default: Setting) -> Setting:
    return default.model_copy(update={**column.update, "method": column.method})


def _reference(column: Column, default: Setting) -> Setting:
    if column.reference is not None:
        return default.model_copy(update={**column.reference, "method": "rc"})
    return _of(column, default).reference()


def settings(item: Item, default: Setting) -> list[Setting]:
    """Everything that a table needs of one data set."""
    needed = []
    for column in item.columns:
        needed.append(_of(column, default))
        if column.metric in ("train_gap", "test_gap", "rounds_to_gap"):
            needed.append(_reference(column, default))
    return needed


def _error(outcome: Outcome, part: str, which: str) -> np.ndarray:
    """Mean error over the nodes [repetitions], at the last round or at each one's best."""
    curve = outcome.values[f"{part}_error"].mean(-1)  # [repetitions, rounds]
    return curve[:, -1] if which == "last" else curve.min(-1)


def measure(column: Column, mine: Outcome, reference: Outcome | None) -> np.ndarray:
    """The number of a column for every repetition."""
    if column.metric.endswith(("_error", "_log_loss")):
        curve = mine.values[column.metric].mean(-1)
        return curve[:, -1] if column.round == "last" else curve.min(-1)
    if column.metric == "node_std":
        return mine.values[f"{column.part}_error"][:, -1].std(-1)
    assert reference is not None
    if column.metric == "rounds_to_gap":
        # the paper's scores are means over repetitions: the round at which the mean gap is small
        curve = (
            mine.values["test_error"].mean(-1).mean(0) - _error(reference, "test", "last").mean()
        )
        close = np.flatnonzero(curve < CLOSE)
        return np.array([mine.rounds[close[0]] if close.size else np.nan], float)
    part = column.metric.removesuffix("_gap")
    return _error(mine, part, column.round) - _error(reference, part, column.round)


def _record(
    paper: Paper, item: str, dataset: Dataset, column: Column, default: Setting, **found: Any
) -> Record:
    setting = {"method": column.method, "column": column.name, **column.update}
    setting.pop("record", None)
    if column.metric == "node_std":
        setting["part"] = column.part
    if any(c.round != "last" for c in paper.items[item].columns):
        setting["round"] = column.round
    return Record(
        paper=paper.name,
        item=item,
        dataset=dataset.name,
        setting=setting,
        metric=column.metric,
        paper_value=paper.printed(item, dataset, column.name),
        **found,
    )


def records(
    paper: Paper, item: str, dataset: Dataset, default: Setting, outcomes: dict[str, Outcome]
) -> list[Record]:
    """The numbers of one row of a table; a set that is absent or failed has none of ours."""
    if item in paper.described:
        return paper.described[item](dataset)
    made = []
    for column in paper.items[item].columns:
        mine = outcomes.get(_of(column, default).key)
        reference = outcomes.get(_reference(column, default).key)
        needs = column.metric in ("train_gap", "test_gap", "rounds_to_gap")
        if mine is None or (needs and reference is None):
            none = {"value": None, "std": None, "reps": 0}
            made.append(_record(paper, item, dataset, column, default, **none))
            continue
        values = measure(column, mine, reference)
        value = None if np.isnan(values).any() else float(values.mean())
        std = float(values.std()) if values.size > 1 else None
        found = {"value": value, "std": std, "reps": default.repetitions}
        made.append(_record(paper, item, dataset, column, default, **found))
    return made
