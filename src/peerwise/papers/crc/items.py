"""The experiments of the CRC paper: columns of its tables, its data sets, what it prints.

A column says which sections differ from the paper's default and what is measured.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from peerwise.papers import items as paper
from peerwise.papers.items import Column, Dataset, Description, Scale
from peerwise.study.jobs import Task

SETTINGS = paper.settings_of("crc")
Table = dict[str, dict[str, float | None]]  # data set -> column -> value


class PaperSet(NamedTuple):
    """One row of Table I."""

    name: str  # the short name of Tables II-XII
    title: str  # the name in Table I
    data: str  # the name in this project's data folder, which may lack it
    rows: int
    features: int
    discrete: int
    continuous: int
    classes: int


def _tables(data: dict[str, Any]) -> dict[str, Table]:
    """Tables of the paper beside each other; a line too short or too long is an error."""
    read: dict[str, Table] = {f"table-{number}": {} for number in data["tables"]}
    for line in data["cells"].strip().splitlines():
        name, cells = line.split(maxsplit=1)
        for table, columns, part in zip(read, data["columns"], cells.split("|"), strict=True):
            values = (None if cell == "-" else float(cell) for cell in part.split())
            read[table][name] = dict(zip(columns.split(), values, strict=True))
    return read


SETS = tuple(PaperSet(*row) for row in SETTINGS["sets"])
TABLES = {name: table for told in SETTINGS["printed"] for name, table in _tables(told).items()}
COUNTS: dict[str, dict[str, tuple[int, int]]] = {
    table: {column: tuple(pair) for column, pair in of.items()}
    for table, of in SETTINGS["counts"].items()
}
DESCRIBED = PaperSet._fields[3:]  # what Table I counts
_CATEGORY = SETTINGS["category"]
_AGAIN = f"-{_CATEGORY}"  # after the name of a set that is typed again


def _gaps(updates: dict[str, Description], prefix: str = "") -> tuple[Column, ...]:
    return tuple(
        Column(name, "test_gap", update, header=prefix + name) for name, update in updates.items()
    )


_GRAPHS: dict[str, Description] = {
    "tree": {},
    "chain": {"network": "chain"},
    **{f"+{k}": {"network": {"topology": "tree_plus", "extra": k}} for k in (10, 20, 40, 80)},
}
# the default setting is shared by several tables: recorded once, fully
_ALL: Description = {"run": {"record": "all"}}
_TREE = {**_GRAPHS, "tree": _ALL}
_SIZES = (20, 40, 80, 160, 320)


def _drift(partition: str) -> tuple[Column, ...]:
    dealt = {"split": {"partition": partition}}
    return _gaps({k: {**v, **dealt} for k, v in _GRAPHS.items() if k != "chain"})


def _rows_of_rc() -> tuple[Column, ...]:
    sizes = (20, 40, 80, 160, 320, 640, 1280, 2560, 5120)

    def pooled(rows: int) -> Description:
        return {"split": {"nodes": 1, "rows": rows}}

    most = pooled(10240)
    gaps = [Column(str(m), "test_gap", pooled(m), "rc", reference=most) for m in sizes]
    return (*gaps, Column("10240", "test_error", most, "rc", header="error at 10240"))


def _convergence() -> tuple[Column, ...]:
    columns = []
    for part in ("train", "test"):
        metrics = {"gap": f"{part}_gap", "std": "node_std", "error": f"{part}_error"}
        for method, kind in (("ml", "gap"), ("crc", "gap"), ("crc", "std"), ("rc", "error")):
            name, header = f"{method}_{part}_{kind}", f"{method.upper()} {part} {kind}"
            columns.append(Column(name, metrics[kind], _ALL, method, part, header=header))
    extra = Column("isolated_test_gap", "test_gap", _ALL, "isolated", header="isolated test gap")
    return (*columns, extra)


def _network_sizes() -> tuple[Column, ...]:
    columns: list[Column] = []
    for n in _SIZES:
        update = paper.merged({"split": {"nodes": n}}, _ALL)
        columns += [
            Column(str(n), "test_gap", update, round="best", header=f"n={n} best"),
            Column(f"{n}_last", "test_gap", update, header=f"n={n} last"),
        ]
    return tuple(columns)


def _iterations() -> tuple[Column, ...]:
    columns: list[Column] = []
    for i in (1, 2, 3):
        update = paper.merged({"method": {"iterations": i}}, _ALL)
        columns += [
            Column(str(i), "test_gap", update, header=f"iter={i} gap at 64"),
            Column(f"{i}_t", "rounds_to_gap", update, header=f"iter={i} round"),
        ]
    return tuple(columns)


def _starts() -> tuple[Column, ...]:
    """Our own: where RC and CRC begin."""
    warm = "peerwise.papers.relay.runs:warm_crc"
    likely = {"method": {"start": "ml"}}
    return (
        Column("rc_uniform", "test_error", {}, "rc"),
        Column("rc_ml", "test_error", likely, "rc"),
        Column("crc_uniform", "test_gap", _ALL),
        Column("crc_mixed", "test_gap", {}, warm),
    )


# The columns of every table.
COLUMNS = {
    "table-2": _rows_of_rc(),
    "table-3": _convergence(),
    "table-4": _gaps(_TREE),
    "table-5": _drift("feature_drift"),
    "table-6": _drift("label_drift"),
    "table-7": _drift("label_feature_drift"),
    "table-8": _gaps({str(m): {"split": {"rows": m}} for m in _SIZES}, prefix="rows="),
    "table-9": _network_sizes(),
    "table-10": _gaps(
        {str(n): {"split": {"nodes": n, "rows": 12800 // n}} for n in _SIZES}, prefix="n="
    ),
    "table-11": _iterations(),
    "table-12": _gaps(
        {"inf": _ALL, **{str(d): {"network": {"redraw": d}} for d in (8, 4, 2, 1)}}, prefix="δ="
    ),
    "start": _starts(),
}


def datasets(chosen: Iterable[str] | None = None, quick: bool = False) -> list[Dataset]:
    """The rows of the tables: the paper's 16 sets, which of them are here, and ours beside."""
    here = {entry["name"] for entry in paper.available() if entry["source"] == "folder"}
    rows, notes = [], SETTINGS["notes"]
    for s in SETS:
        note = notes["features"] if s.data.endswith("_features") else notes.get(s.name, "")
        rows.append(Dataset(s.name, s.data, note=note, present=s.data in here))
        if s.name == "smartgrid":
            fair = rows[-1]._replace(name="smartgrid-12", note=notes["smartgrid-12"])
            rows.append(fair._replace(drop=("stab",), variant=True))
        if s.name in SETTINGS["typed_again"]:
            again = rows[-1]._replace(name=s.name + _AGAIN, note=notes["typed_again"])
            rows.append(again._replace(distinct=_CATEGORY, variant=True))
    if chosen is not None:
        names = {r.name for r in rows}
        wanted = paper.named("data set of the paper", chosen, names | {r.data for r in rows})
        files = set(wanted) - names  # a file's own name means all that is made of it
        return [r for r in rows if r.name in wanted or r.data in files]
    return [r for r in rows if r.name in SETTINGS["quick_sets"]] if quick else rows


def _data(dataset: Dataset, name: str) -> dict[str, Any]:
    typed = {} if dataset.distinct is None else {"distinct": dataset.distinct}
    return {name: dataset.data, "drop": list(dataset.drop), **typed}


def base(dataset: Dataset, scale: Scale) -> Description:
    """The paper's default setting on a data set."""
    source = {"data": _data(dataset, "source")}
    often = {"run": {"repetitions": scale.repetitions}} if scale.repetitions else {}
    return paper.merged(source, SETTINGS["quick"] if scale.quick else {}, often)


def printed(item: str, fields: dict[str, Any]) -> float | None:
    """What the paper prints of a number; a set typed again stands beside the same numbers."""
    name, column = fields["dataset"].removesuffix(_AGAIN), fields.get("column", "")
    if item == "table-1":
        return next((getattr(s, column) for s in SETS if s.name == name), None)
    return TABLES.get(item, {}).get(name, {}).get(column)


def _counted(sets: list[str], scale: Scale) -> paper.Tasks:
    """Table 1: every set at hand is read and counted."""
    function = "peerwise.papers.crc.report:counts"
    here = [d for d in datasets(sets) if d.present]
    return {d.name: Task(function, _data(d, "data")) for d in here}


# What `peerwise reproduce crc/...` runs.
PAPER = paper.Paper.of(
    "crc", datasets, runs={"table-1": _counted}, columns=COLUMNS, printed=printed, base=base,
    counts=COUNTS,
)  # fmt: skip
ITEMS = PAPER.items
