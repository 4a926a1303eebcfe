"""Papers and their items (tables and figures) that can be reproduced, as data.

A paper's `paper.toml` holds what it varies (sections of `peerwise.learner`), the titles of its
items, the fields in rows and columns of their tables, names, printed numbers and claims. Its Python
modules build the descriptions and choose what to read of every run. These modules import none of
the numerics, so that `peerwise list items` is fast: functions of a paper's modules `report`,
`figures` and `claims` are given by name and imported when they are needed.
"""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module, resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from peerwise.errors import UnknownName
from peerwise.study.jobs import Arrays as Arrays
from peerwise.study.jobs import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from peerwise.report.grid import Grid
    from peerwise.study.results import Claim, Record

CLOSE, NEAR = 0.01, 0.05  # a gap to RC below CLOSE counts as converged, below NEAR as near to it
Description = dict[str, Any]  # sections of `peerwise.learner`
Tasks = dict[str, Task]  # by name
Plan = Callable[[list[str], "Scale"], Tasks]  # data sets, scale -> tasks
Done = dict[str, Any]  # results by name: arrays of a task, or the outcome of a cell
Names = Mapping[str, Any]  # field -> how to print its values: a table, a format or a function
_NONE: Mapping[str, Any] = MappingProxyType({})


_KEPT: ContextVar[list[dict[str, Any]] | None] = ContextVar("kept", default=None)


def available() -> list[dict[str, Any]]:
    """The data sets found here; while a kept run is shown, those that it was run on."""
    from peerwise import data

    kept = _KEPT.get()
    return data.available() if kept is None else kept


@contextmanager
def as_run_on(entries: list[dict[str, Any]] | None) -> Iterator[None]:
    """While inside, `available` gives the data sets that a kept run was run on."""
    before = _KEPT.set(entries)
    try:
        yield
    finally:
        _KEPT.reset(before)


class Scale(NamedTuple):
    """The size at which items are run."""

    quick: bool = False
    repetitions: int | None = None  # None: the item's own

    def times(self, full: int, quick: int) -> int:
        """The number of repetitions: the given one, or the full or quick default."""
        return self.repetitions or (quick if self.quick else full)


class Dataset(NamedTuple):
    """A row of the tables: a data set of the paper, or a variant of ours beside it."""

    name: str
    data: str
    drop: tuple[str, ...] = ()
    note: str = ""
    present: bool = True
    rows: int = 0  # 0: unknown before the file is read
    distinct: int | None = None  # the most values of a category; None: the usual limit
    variant: bool = False  # whether it is our variant of a set of the paper


class Column(NamedTuple):
    """A column of a table: what runs and what is measured."""

    name: str  # as the paper calls it
    metric: str  # test_gap, train_gap, test_error, train_error, node_std, rounds_to_gap
    update: Description = {}  # the sections that differ from the default  # noqa: RUF012
    method: str = "crc"
    part: str = "test"  # for node_std: whether of the test or of the training error
    round: str = "last"  # or "best": each repetition at its best round
    reference: Description | None = None  # sections of the reference, if it learns from other rows
    header: str = ""

    @property
    def title(self) -> str:
        """The column's heading."""
        return self.header or self.name

    @property
    def needs_reference(self) -> bool:
        """Whether its metric is a distance to the reference."""
        return self.metric in ("train_gap", "test_gap", "rounds_to_gap")


class Reading(NamedTuple):
    """A number to read from every run: its metric, how to read it, and settings to add."""

    metric: str
    read: Callable[[Arrays], Any]  # arrays -> a value for each repetition; KeyError if none
    setting: dict[str, Any] = {}  # noqa: RUF012


class Table(NamedTuple):
    """The layout of a table: which fields make its rows and columns, and which separate tables.

    A cell with several numbers shows their mean, or with `joined` all of them in turn.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]  # "a|b": a, or b if there is no a
    by: tuple[str, ...] = ()  # one table for each combination of these fields
    head: str = ""  # the heading of the rows, with fields of `by` in braces
    between: str = ", "  # separates the fields of a row
    digits: Mapping[str, str] = {}  # number format by metric; .3f by default
    least: int = 2  # show an interval from so many repetitions on; 0: never
    intervals: tuple[str, ...] = ()  # metrics that show an interval; all if none is named
    paper: str = ""  # number format of the paper's numbers; empty if there are none
    inside: bool = False  # show the paper's numbers in our cells, not in columns of their own
    joined: str = ""  # a field whose values share one cell, with an arrow between them
    counted: bool = False  # show how many gaps are below .01 (below .05), instead of numbers
    best: bool = False  # mark the lowest number of a row
    shaded: bool = False  # mark small gaps, and count them below the table
    names: Names = {}  # noqa: RUF012


class Item(NamedTuple):
    """A table or figure: what it runs, what it reads from the runs and how it shows that."""

    title: str
    about: str
    runs: Plan | None = None
    named: str = "{dataset} {variant}"  # how a run's name holds its fields; {q:f} is a number
    reads: tuple[Reading, ...] | str = ()  # or the name of a function in `report`: view -> numbers
    tables: tuple[Table, ...] = ()
    figure: str = ""  # a function of `figures`: view -> a figure, or "papers.figures:function"
    legend: str = ""
    quick_note: str = ""  # what a quick run cannot show
    needs_data: bool = True
    columns: tuple[Column, ...] = ()  # cells to run, instead of tasks
    least: int = 0  # leave out data sets with fewer rows
    curves: bool = False  # also keep errors by round


class Run(NamedTuple):
    """The arrays of one run, and the fields in its name."""

    fields: dict[str, Any]
    arrays: Arrays


class Number(NamedTuple):
    """A number of an item: a value for each repetition, and fields that override the record's."""

    dataset: str
    metric: str
    values: Any
    setting: dict[str, Any]
    shown: dict[str, Any] = {}  # replaces fields of the record, e.g. its mean  # noqa: RUF012


class View(NamedTuple):
    """An item with the runs and records from which its numbers and figures are made."""

    paper: "Paper"
    name: str
    runs: list[Run] = []  # noqa: RUF012
    records: "Sequence[Record]" = ()
    datasets: Sequence[Dataset] = ()

    @property
    def item(self) -> Item:
        """The item itself."""
        return self.paper.items[self.name]

    def title(self, key: str, value: Any) -> str:
        """A value of a field as people write it."""
        return title(self.paper.names, key, value)

    def by(self, *keys: str) -> dict[tuple[Any, ...], list[Run]]:
        """Runs by some of their fields."""
        groups: dict[tuple[Any, ...], list[Run]] = {}
        for run in self.runs:
            groups.setdefault(tuple(run.fields[key] for key in keys), []).append(run)
        return groups


@dataclass(frozen=True)
class Paper:
    """A paper, or a comparison of our own."""

    name: str
    items: dict[str, Item]
    datasets: Callable[[Iterable[str] | None, bool], list[Dataset]]  # chosen, quick
    names: Names = field(default_factory=dict)
    printed: Callable[[str, dict[str, Any]], float | None] = lambda item, fields: None
    base: Callable[[Dataset, Scale], Description] = lambda dataset, scale: {}  # of columns
    counts: dict[str, dict[str, tuple[int, int]]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, name: str, datasets: Callable[..., list[Dataset]], *, runs: Mapping[str, Plan] = _NONE,
        reads: Mapping[str, tuple[Reading, ...]] = _NONE,
        columns: Mapping[str, tuple[Column, ...]] = _NONE, names: Names = _NONE, **more: Any,
    ) -> "Paper":  # fmt: skip
        """A paper as its `paper.toml` has it, with what its items run and read."""
        whole = settings_of(name)
        tables = {key: _tuples(Table, of) for key, of in whole.get("tables", {}).items()}
        items = {}
        for key, own in whole["items"].items():
            of = {**whole.get("item", {}), **own}
            shown = tuple(tables[table] for table in of.get("tables", ()))
            how: dict[str, Any] = {"tables": shown, "columns": columns.get(key, ())}
            if key in columns and not shown:
                heads = {column.name: column.title for column in columns[key]}
                shown = (COLUMNS._replace(names={"column": heads}),)
                how |= {"tables": shown, "figure": "papers.figures:gaps"}
            how |= {"runs": runs[key]} if key in runs else {}
            how |= {"reads": reads[key]} if key in reads else {}
            items[key] = _tuples(Item, of)._replace(**how)
        variants = {v: of["label"] for v, of in whole.get("variants", {}).items()}
        known = {"variant": variants, **whole.get("names", {}), **names}
        return cls(name, items, datasets, known, **more)

    def part(self, module: str, function: str) -> Any:
        """A function of one of the paper's modules, or of one that is common to papers."""
        package = f"peerwise.papers.{self.name.replace('-', '_')}"
        where, _, common = function.rpartition(":")
        return getattr(import_module(f"peerwise.{where}" if where else f"{package}.{module}"),
                       common)  # fmt: skip

    def view(self, item: str, done: Done, datasets: Sequence[Dataset] = ()) -> View:
        """An item with what its runs gave."""
        pattern = self.items[item].named
        runs = [Run(fields_of(pattern, name), arrays) for name, arrays in done.items()]
        return View(self, item, runs, datasets=datasets)

    def records(self, item: str, done: Done, datasets: Sequence[Dataset] = ()) -> "list[Record]":
        """The numbers of an item, from what its runs gave."""
        from peerwise.papers.records import column_records, records_of

        if self.items[item].columns:
            return column_records(self, item, done, datasets)
        return records_of(self.view(item, done, datasets))

    @property
    def variants(self) -> set[str]:
        """The names of sets that are ours, beside those of the paper."""
        return {d.name for d in self.datasets(None, False) if d.variant}

    def tables(self, item: str, records: "Sequence[Record]") -> "list[Grid]":
        """The tables of an item."""
        from peerwise.papers.layout import laid_out

        layouts = self.items[item].tables if records else ()
        return [grid for table in layouts for grid in laid_out(self, item, table, records)]

    def figure(self, item: str, done: Done, records: "Sequence[Record]") -> "Figure | None":
        """The figure of an item, if it has one and anything to show."""
        name, shown = self.items[item].figure, done if self.items[item].runs else records
        if not name or not shown:
            return None
        figure: Figure | None = self.part("figures", name)(
            self.view(item, done)._replace(records=records)
        )
        return figure

    def claims(self, records: "list[Record]") -> "list[Claim]":
        """The claims that records speak to, each graded."""
        from peerwise.papers.claims import Numbers

        claimed: list[Claim] = self.part("claims", "claims")(Numbers(records))
        return claimed


# A row for each data set, the paper's numbers beside ours.
COLUMNS = Table(("dataset",), ("column",), head="data set", least=0, paper=".2f", inside=True,
                shaded=True, digits={"rounds_to_gap": ".0f"})  # fmt: skip


@cache
def settings_of(name: str) -> dict[str, Any]:
    """What a paper's `paper.toml` says."""
    folder = resources.files("peerwise.papers") / name.replace("-", "_")
    return tomllib.loads((folder / "paper.toml").read_text("utf-8"))


def _tuples(kind: Any, of: Mapping[str, Any]) -> Any:
    """A table or an item from a file's fields; fields of other names are the paper's own."""
    fields = {k: v for k, v in of.items() if k in kind._fields}
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})


def title(names: Names, key: str, value: Any) -> str:
    """A value of a field as people write it."""
    known = names.get(key, {})
    if isinstance(known, str):
        return known.format(value)
    if callable(known):
        return str(known(value))
    return str(known.get(value, f"{value:g}" if isinstance(value, float) else value))


def fields_of(pattern: str, name: str) -> dict[str, Any]:
    """The fields in the name of a run, by the item's pattern."""
    fields: dict[str, Any] = {}
    keys = re.findall(r"{(\w+):?(\w?)}", pattern)
    texts = re.split(r"{[^}]+}", pattern)
    rest = name
    for (key, kind), text in zip(keys, texts[1:], strict=True):
        value, _, rest = rest.partition(text) if text else (rest, "", "")
        fields[key] = {"f": float, "d": int}.get(kind, str)(value)
    return fields


def tasks_of(item: Item, sets: list[str], scale: Scale) -> Tasks:
    """The tasks of an item, by name."""
    return item.runs(sets, scale) if item.runs else {}


def merged(*descriptions: Description) -> Description:
    """One description of several; later sections add to earlier ones, option by option."""
    whole: Description = {}
    for description in descriptions:
        for section, value in description.items():
            old = whole.get(section)
            both = isinstance(old, dict) and isinstance(value, dict)
            whole[section] = {**old, **value} if both else value  # type: ignore[dict-item]
    return whole


def described(function: str, *descriptions: Description, **more: Any) -> Task:
    """A task that takes a description; a function without a module is one of `papers.learning`."""
    module = "" if ":" in function else "peerwise.papers.learning:"
    return Task(f"{module}{function}", {"description": merged(*descriptions), **more})


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
        few = {"split": quick} if scale.quick else {}
        return {name: described("deal", dealt(name), few) for name in sets}

    return tasks


def _at_hand(
    sets: Mapping[str, str], chosen: Iterable[str] | None = None, quick: bool = False
) -> list[Dataset]:
    here = {entry["name"] for entry in available()}
    wanted = list(sets.values())
    if chosen is not None:
        names = named("data set of the paper", chosen, [*sets, *sets.values()])
        wanted = [sets.get(name, name) for name in names]
    return [Dataset(s, s) for s in sets.values() if s in wanted and s in here]


def at_hand(sets: Sequence[str] | Mapping[str, str]) -> Callable[..., list[Dataset]]:
    """A function that says which of a paper's data sets are there, of those chosen."""
    known = sets if isinstance(sets, Mapping) else {name: name for name in sets}
    return partial(_at_hand, known)
