"""The experiments of "Decentralized Federated Learning of Probabilistic Generative Classifiers".

Every table is a list of columns; a column says which setting it runs and what it measures. The
paper's numbers are in `crc_paper`, its claims in `crc_claims`.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from peerwise import data
from peerwise.errors import UnknownName
from peerwise.experiments.crc_paper import SETS, TABLES, PaperSet
from peerwise.experiments.job import Outcome
from peerwise.experiments.results import Record
from peerwise.experiments.setting import Setting

__all__ = ["ITEMS", "Column", "Dataset", "Item", "datasets", "records", "settings"]

CLOSE = 0.01  # a gap below this counts as having converged to RC


class Dataset(NamedTuple):
    """A row of the tables: a data set of the paper, or a variant of ours beside it."""

    name: str
    data: str
    paper: PaperSet
    drop: tuple[str, ...] = ()
    note: str = ""
    present: bool = True


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


def _gaps(updates: dict[str, dict[str, Any]], **header: str) -> tuple[Column, ...]:
    return tuple(
        Column(name, "test_gap", update, header=header.get("prefix", "") + name)
        for name, update in updates.items()
    )


_GRAPHS: dict[str, dict[str, Any]] = {
    "tree": {},
    "chain": {"topology": "chain"},
    **{
        f"+{k}": {"topology": "tree_plus", "topology_options": {"extra": k}}
        for k in (10, 20, 40, 80)
    },
}
_ALL = {"record": "all"}  # the default setting is shared by several tables: recorded once, fully
_TREE = {**_GRAPHS, "tree": _ALL}
_SIZES = (20, 40, 80, 160, 320)


def _drift(partition: str) -> tuple[Column, ...]:
    graphs = {k: {**v, "partition": partition} for k, v in _GRAPHS.items() if k != "chain"}
    return _gaps(graphs)


def _rows_of_rc() -> tuple[Column, ...]:
    sizes = (20, 40, 80, 160, 320, 640, 1280, 2560, 5120)
    most = {"nodes": 1, "rows": 10240}
    gaps = [
        Column(str(m), "test_gap", {"nodes": 1, "rows": m}, "rc", reference=most) for m in sizes
    ]
    return (*gaps, Column("10240", "test_error", most, "rc", header="error at 10240"))


def _convergence() -> tuple[Column, ...]:
    columns = []
    for part in ("train", "test"):
        columns += [
            Column(f"ml_{part}_gap", f"{part}_gap", _ALL, "ml", part, header=f"ML {part} gap"),
            Column(f"crc_{part}_gap", f"{part}_gap", _ALL, "crc", part, header=f"CRC {part} gap"),
            Column(f"crc_{part}_std", "node_std", _ALL, "crc", part, header=f"CRC {part} std"),
            Column(
                f"rc_{part}_error", f"{part}_error", _ALL, "rc", part, header=f"RC {part} error"
            ),
        ]
    extra = Column("isolated_test_gap", "test_gap", _ALL, "isolated", header="isolated test gap")
    return (*columns, extra)


def _network_sizes() -> tuple[Column, ...]:
    columns: list[Column] = []
    for n in _SIZES:
        update = {"nodes": n, "record": "all"}
        columns += [
            Column(str(n), "test_gap", update, round="best", header=f"n={n} best"),
            Column(f"{n}_last", "test_gap", update, header=f"n={n} last"),
        ]
    return tuple(columns)


def _iterations() -> tuple[Column, ...]:
    columns: list[Column] = []
    for i in (1, 2, 3):
        update = {"iterations": i, "record": "all"}
        columns += [
            Column(str(i), "test_gap", update, header=f"iter={i} gap at 64"),
            Column(f"{i}_t", "rounds_to_gap", update, header=f"iter={i} round"),
        ]
    return tuple(columns)


# Every table and figure of the paper that can be reproduced.
ITEMS: dict[str, Item] = {
    "table-1": Item("Data sets", "what the features are taken to be", ()),
    "table-2": Item(
        "Rows that centralised RC needs",
        "test gap of RC with m rows to RC with 10240 rows",
        _rows_of_rc(),
    ),
    "table-3": Item(
        "Convergence of local models",
        "gaps to RC after 64 rounds on a random tree, 50 nodes of 50 rows",
        _convergence(),
    ),
    "table-4": Item("Sparse networks", "test gap to RC by topology", _gaps(_TREE)),
    "table-5": Item("Drift in p(x)", "test gap to RC by topology", _drift("feature_drift")),
    "table-6": Item(
        "Drift in p(y): one class a node", "test gap to RC by topology", _drift("label_drift")
    ),
    "table-7": Item(
        "Drift in p(x, y)", "test gap to RC by topology", _drift("label_feature_drift")
    ),
    "table-8": Item(
        "Rows a node",
        "test gap to RC on the same rows, 50 nodes",
        _gaps({str(m): {"rows": m} for m in _SIZES}, prefix="rows="),
    ),
    "table-9": Item(
        "Size of the network",
        "test gap to RC on the same rows, 50 rows a node; at each repetition's best round (as the "
        "paper's caption says) and at the last",
        _network_sizes(),
    ),
    "table-10": Item(
        "Fragmentation",
        "test gap to RC, 12800 rows dealt to n nodes",
        _gaps({str(n): {"nodes": n, "rows": 12800 // n} for n in _SIZES}, prefix="n="),
    ),
    "table-11": Item(
        "Local iterations",
        "test gap to RC at round 64, and the first round with a gap below 0.01 (mean over "
        "repetitions)",
        _iterations(),
    ),
    "table-12": Item(
        "Dynamic networks",
        "test gap to RC; a new random tree every δ rounds",
        _gaps({"inf": _ALL, **{str(d): {"redraw": d} for d in (8, 4, 2, 1)}}, prefix="δ="),
    ),
    "figure-2": Item(
        "Reach", "share of nodes within a distance, in random trees (no data needed)", ()
    ),
}

_QUICK = {"repetitions": 2, "test_rows": 1000}
_QUICK_SETS = ("skin", "adult", "letter")
_EMBEDDED = "embedding: EfficientNet-Lite0 of our data folder, not the paper's"


def datasets(chosen: Iterable[str] | None = None, quick: bool = False) -> list[Dataset]:
    """The rows of the tables: the paper's 16 sets, which of them are here, and ours beside."""
    here = {entry["name"] for entry in data.available() if entry["source"] == "folder"}
    rows = []
    for paper in SETS:
        assert paper.data is not None
        note = _EMBEDDED if paper.data.endswith("_features") else ""
        if paper.name == "smartgrid":
            note = "13 features as in the paper: 'stab' is one of them and gives the label away"
        present = paper.data in here
        rows.append(Dataset(paper.name, paper.data, paper, (), note, present))
        if paper.name == "smartgrid":
            fair = "without 'stab', which determines the label: 12 features"
            rows.append(Dataset("smartgrid-12", paper.data, paper, ("stab",), fair, present))
    if chosen is not None:
        chosen = list(chosen)
        known = {r.name for r in rows} | {r.data for r in rows}
        for name in chosen:
            if name not in known:
                raise UnknownName("data set of the paper", name, known)
        return [r for r in rows if r.name in chosen or r.data in chosen]
    return [r for r in rows if r.name in _QUICK_SETS] if quick else rows


def base(dataset: Dataset, quick: bool = False, repetitions: int | None = None) -> Setting:
    """The paper's default setting on a data set."""
    update: dict[str, Any] = dict(_QUICK) if quick else {}
    if repetitions is not None:
        update["repetitions"] = repetitions
    return Setting(data=dataset.data, drop=dataset.drop, **update)


def _of(column: Column, default: Setting) -> Setting:
    return default.model_copy(update={**column.update, "method": column.method})


def _reference(column: Column, default: Setting) -> Setting:
    if column.reference is not None:
        return default.model_copy(update={**column.reference, "method": "rc"})
    return _of(column, default).reference()


def settings(item: str, default: Setting) -> list[Setting]:
    """Everything that a table needs of one data set."""
    needed = []
    for column in ITEMS[item].columns:
        needed.append(_of(column, default))
        if column.metric in ("train_gap", "test_gap", "rounds_to_gap"):
            needed.append(_reference(column, default))
    return needed


def _error(outcome: Outcome, part: str, which: str) -> np.ndarray:
    """Mean error over the nodes [repetitions], at the last round or at each one's best."""
    curve = outcome.values[f"{part}_error"].mean(-1)  # [repetitions, rounds]
    return curve[:, -1] if which == "last" else curve.min(-1)


def _measure(column: Column, mine: Outcome, reference: Outcome | None) -> np.ndarray:
    """The number of a column for every repetition."""
    if column.metric.endswith("_error"):
        return _error(mine, column.metric.removesuffix("_error"), column.round)
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


def _record(item: str, dataset: Dataset, column: Column, default: Setting, **found: Any) -> Record:
    setting = {"method": column.method, "column": column.name, **column.update}
    setting.pop("record", None)
    if column.metric == "node_std":
        setting["part"] = column.part
    if item == "table-9":
        setting["round"] = column.round
    printed = TABLES.get(item, {}).get(dataset.paper.name, {}).get(column.name)
    return Record(
        paper="crc",
        item=item,
        dataset=dataset.name,
        setting=setting,
        metric=column.metric,
        paper_value=None if dataset.drop else printed,
        **found,
    )


def records(
    item: str, dataset: Dataset, default: Setting, outcomes: dict[str, Outcome]
) -> list[Record]:
    """The numbers of one row of a table; a set that is absent or failed has none of ours."""
    if item == "table-1":
        return _described(dataset)
    made = []
    for column in ITEMS[item].columns:
        mine = outcomes.get(_of(column, default).key)
        reference = outcomes.get(_reference(column, default).key)
        needs = column.metric in ("train_gap", "test_gap", "rounds_to_gap")
        if mine is None or (needs and reference is None):
            none = {"value": None, "std": None, "reps": 0}
            made.append(_record(item, dataset, column, default, **none))
            continue
        values = _measure(column, mine, reference)
        value = None if np.isnan(values).any() else float(values.mean())
        std = float(values.std()) if values.size > 1 else None
        found = {"value": value, "std": std, "reps": default.repetitions}
        made.append(_record(item, dataset, column, default, **found))
    return made


def _described(dataset: Dataset) -> list[Record]:
    paper = dataset.paper
    printed = {
        "rows": paper.rows,
        "features": paper.features,
        "discrete": paper.discrete,
        "continuous": paper.continuous,
        "classes": paper.classes,
    }
    ours: dict[str, int] = {}
    if dataset.present:
        encoded = data.encode(data.load(dataset.data), typing="distinct", drop=dataset.drop)
        discrete = sum(r > 0 for r in encoded.schema.cardinalities)
        features = len(encoded.schema.features)
        ours = {
            "rows": len(encoded.y),
            "features": features,
            "discrete": discrete,
            "continuous": features - discrete,
            "classes": len(encoded.schema.classes),
        }
    return [
        Record(
            paper="crc",
            item="table-1",
            dataset=dataset.name,
            setting={"method": "none", "column": name},
            metric=name,
            value=ours.get(name),
            std=None,
            reps=1 if ours else 0,
            paper_value=None if dataset.drop else value,
        )
        for name, value in printed.items()
    ]
