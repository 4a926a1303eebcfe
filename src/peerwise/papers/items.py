"""What can be reproduced: papers, their items and columns.

Modules of items hold data and the tasks they stand for, and import none of the numerics: listing
everything takes a moment. What an item is measured, laid out and drawn by is named here, and found
in the paper's modules `report`, `figures` and `claims` when it is needed.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from peerwise.errors import UnknownName
from peerwise.study.jobs import Arrays as Arrays
from peerwise.study.jobs import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from peerwise.report.grid import Grid
    from peerwise.study.results import Claim, Record

CLOSE = 0.01  # a gap below this counts as having converged to RC
Description = dict[str, Any]  # sections of `peerwise.learner`
Tasks = dict[str, Task]  # by name
Plan = Callable[[list[str], "Scale"], Tasks]  # of some data sets, at a scale
Done = dict[str, Arrays]  # what tasks gave, by name


class Scale(NamedTuple):
    """At which size items are run."""

    quick: bool = False
    repetitions: int | None = None  # None: the item's own

    def times(self, full: int, quick: int) -> int:
        """How often something is repeated."""
        return self.repetitions or (quick if self.quick else full)


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
    update: Description = {}  # the sections that differ from the default  # noqa: RUF012
    method: str = "crc"
    part: str = "test"  # for node_std: the standard deviation of which error
    round: str = "last"  # or "best": each repetition at its best round
    reference: Description | None = None  # sections of the reference, where it has other rows
    header: str = ""

    @property
    def title(self) -> str:
        """What stands above the column."""
        return self.header or self.name

    @property
    def needs_reference(self) -> bool:
        """Whether it is a distance to the reference."""
        return self.metric in ("train_gap", "test_gap", "rounds_to_gap")


class Item(NamedTuple):
    """A table or figure whose columns are cells of the learner."""

    title: str
    about: str
    columns: tuple[Column, ...] = ()
    layout: str = "beside"  # how it is shown: a name of `papers.show.LAYOUTS`
    notes: tuple[str, ...] = ()
    least: int = 0  # data sets of fewer rows are left out
    records: str = ""  # a function of `report` that gives its numbers instead of columns
    headers: tuple[str, ...] = ()  # of such numbers
    needs_data: bool = True
    curves: bool = False  # errors against rounds are kept, too

    @property
    def heads(self) -> dict[str, str]:
        """What stands above each column, by its name."""
        return {c.name: c.title for c in self.columns} or {h: h for h in self.headers}


class TaskItem(NamedTuple):
    """A table or figure whose numbers come from tasks of its own."""

    title: str
    about: str
    tasks: Plan
    records: str  # a function of `report`: item, arrays by the task's name -> records
    tables: str = ""  # a function of `report`: records -> grids
    figure: str = ""  # a function of `figures`: arrays by the task's name -> a figure
    from_records: bool = False  # the figure is drawn from records instead
    legend: str = ""
    needs_data: bool = True


@dataclass(frozen=True)
class _Modules:
    """The modules of a paper, which are imported when something of them is asked for."""

    name: str
    package: str

    def part(self, module: str, function: str) -> Any:
        """A function of one of the paper's modules."""
        return getattr(import_module(f"{self.package}.{module}"), function)

    def claims(self, records: "list[Record]") -> "list[Claim]":
        """The claims that records speak to, each marked held or not."""
        return self.part("claims", "claims")(records)


@dataclass(frozen=True)
class Paper(_Modules):
    """A paper, or a comparison of our own, whose items are columns."""

    items: dict[str, Item]
    datasets: Callable[[Iterable[str] | None, bool], list[Dataset]]  # chosen, quick
    base: Callable[[Dataset, Scale], Description]  # what all columns of a data set begin from
    printed: Callable[[str, Dataset, str], float | None] = lambda item, dataset, column: None
    counts: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskPaper(_Modules):
    """A paper whose items are tasks."""

    items: dict[str, TaskItem]
    datasets: Callable[[Iterable[str] | None], list[str]]  # chosen -> those at hand

    def records(self, item: str, done: Done) -> "list[Record]":
        """The numbers of an item, from what its tasks gave."""
        return list(self.part("report", self.items[item].records)(item, done))

    def tables(self, item: str, records: "Sequence[Record]") -> "list[Grid]":
        """The tables of an item."""
        name = self.items[item].tables
        return self.part("report", name)(item, records) if name and records else []

    def figure(self, item: str, done: Done, records: "Sequence[Record]") -> "Figure | None":
        """The figure of an item, if it has one and anything to show."""
        name = self.items[item].figure
        shown = records if self.items[item].from_records else done
        return self.part("figures", name)(shown) if name and shown else None


def merged(*descriptions: Description) -> Description:
    """One description of several; later sections add to earlier ones, option by option."""
    whole: Description = {}
    for description in descriptions:
        for section, value in description.items():
            old = whole.get(section)
            both = isinstance(old, dict) and isinstance(value, dict)
            whole[section] = {**old, **value} if both else value  # type: ignore[dict-item]
    return whole


def named(what: str, chosen: Iterable[str], known: Collection[str]) -> list[str]:
    """The names that were chosen, all of which are to be known."""
    wanted = list(chosen)
    for name in wanted:
        if name not in known:
            raise UnknownName(what, name, known)
    return wanted


def deal_tasks(dealt: Callable[[str], Description], quick: Description) -> Plan:
    """Tasks that count rows of each class at each node, of sets that are dealt in some way."""

    def tasks(sets: list[str], scale: Scale) -> Tasks:
        wholes = {s: merged(dealt(s), {"split": quick} if scale.quick else {}) for s in sets}
        function = "peerwise.papers.learning:deal"
        return {s: Task(function, {"description": whole}) for s, whole in wholes.items()}

    return tasks


def at_hand(sets: Sequence[str], chosen: Iterable[str] | None = None) -> list[str]:
    """Which of a paper's data sets are there, of those chosen."""
    from peerwise import data

    here = {entry["name"] for entry in data.available()}
    wanted = sets if chosen is None else named("data set of the paper", chosen, sets)
    return [s for s in sets if s in wanted and s in here]
