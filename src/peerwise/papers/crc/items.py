"""The experiments of "Decentralized Federated Learning of Probabilistic Generative Classifiers".

Every table is a list of columns; a column says which sections differ from the paper's default and
what is measured. The paper's numbers are in `printed`, its claims in `claims`.
"""

from collections.abc import Iterable
from typing import Any

from peerwise.papers.crc.printed import COUNTS, SETS, TABLES
from peerwise.papers.items import (
    Column,
    Dataset,
    Description,
    Item,
    Paper,
    Scale,
    Table,
    merged,
    named,
    of_columns,
)


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


def _drift(title: str, partition: str) -> Item:
    dealt = {"split": {"partition": partition}}
    columns = _gaps({k: {**v, **dealt} for k, v in _GRAPHS.items() if k != "chain"})
    return of_columns(title, "test gap to RC by topology", columns)


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
        update = merged({"split": {"nodes": n}}, _ALL)
        columns += [
            Column(str(n), "test_gap", update, round="best", header=f"n={n} best"),
            Column(f"{n}_last", "test_gap", update, header=f"n={n} last"),
        ]
    return tuple(columns)


def _iterations() -> tuple[Column, ...]:
    columns: list[Column] = []
    for i in (1, 2, 3):
        update = merged({"method": {"iterations": i}}, _ALL)
        columns += [
            Column(str(i), "test_gap", update, header=f"iter={i} gap at 64"),
            Column(f"{i}_t", "rounds_to_gap", update, header=f"iter={i} round"),
        ]
    return tuple(columns)


DESCRIBED = ("rows", "features", "discrete", "continuous", "classes")
_DESCRIBED = Table(("dataset",), ("column",), head="data set", paper=".0f", inside=True, least=None,
                   digits=dict.fromkeys(DESCRIBED, ".0f"))  # fmt: skip

# Every table and figure of the paper that can be reproduced.
ITEMS: dict[str, Item] = {
    "table-1": Item(
        "Data sets", "what the features are taken to be", reads="sets", tables=(_DESCRIBED,)
    ),
    "table-2": of_columns(
        "Rows that centralised RC needs",
        "test gap of RC with m rows to RC with 10240 rows",
        _rows_of_rc(),
    ),
    "table-3": of_columns(
        "Convergence of local models",
        "gaps to RC after 64 rounds on a random tree, 50 nodes of 50 rows",
        _convergence(),
        curves=True,
    ),
    "table-4": of_columns("Sparse networks", "test gap to RC by topology", _gaps(_TREE)),
    "table-5": _drift("Drift in p(x)", "feature_drift"),
    "table-6": _drift("Drift in p(y): one class a node", "label_drift"),
    "table-7": _drift("Drift in p(x, y)", "label_feature_drift"),
    "table-8": of_columns(
        "Rows a node",
        "test gap to RC on the same rows, 50 nodes",
        _gaps({str(m): {"split": {"rows": m}} for m in _SIZES}, prefix="rows="),
    ),
    "table-9": of_columns(
        "Size of the network",
        "test gap to RC on the same rows, 50 rows a node; at each repetition's best round (as the "
        "paper's caption says) and at the last",
        _network_sizes(),
    ),
    "table-10": of_columns(
        "Fragmentation",
        "test gap to RC, 12800 rows dealt to n nodes",
        _gaps({str(n): {"split": {"nodes": n, "rows": 12800 // n}} for n in _SIZES}, prefix="n="),
    ),
    "table-11": of_columns(
        "Local iterations",
        "test gap to RC at round 64, and the first round with a gap below 0.01 (mean over "
        "repetitions)",
        _iterations(),
    ),
    "table-12": of_columns(
        "Dynamic networks",
        "test gap to RC; a new random tree every δ rounds",
        _gaps(
            {"inf": _ALL, **{str(d): {"network": {"redraw": d}} for d in (8, 4, 2, 1)}}, prefix="δ="
        ),
    ),
    "figure-2": Item(
        "Reach", "share of nodes within a distance, in random trees (no data needed)",
        reads="reach", figure="papers.crc.report:reach_figure", needs_data=False,
    ),
}  # fmt: skip

_QUICK: Description = {"run": {"repetitions": 2}, "split": {"test_rows": 1000}}
_QUICK_SETS = ("skin", "adult", "letter")
_EMBEDDED = "embedding: EfficientNet-Lite0 of our data folder, not the paper's"


def datasets(chosen: Iterable[str] | None = None, quick: bool = False) -> list[Dataset]:
    """The rows of the tables: the paper's 16 sets, which of them are here, and ours beside."""
    from peerwise import data

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
        known = {r.name for r in rows} | {r.data for r in rows}
        wanted = named("data set of the paper", chosen, known)
        return [r for r in rows if r.name in wanted or r.data in wanted]
    return [r for r in rows if r.name in _QUICK_SETS] if quick else rows


def base(dataset: Dataset, scale: Scale) -> Description:
    """The paper's default setting on a data set."""
    source = {"data": {"source": dataset.data, "drop": list(dataset.drop)}}
    often = {"run": {"repetitions": scale.repetitions}} if scale.repetitions else {}
    return merged(source, _QUICK if scale.quick else {}, often)


def printed(item: str, fields: dict[str, Any]) -> float | None:
    """What the paper prints of a number; a variant of ours is no set of its own."""
    name, column = fields["dataset"], fields.get("column", "")
    if item == "table-1":
        return next((getattr(s, column) for s in SETS if s.name == name), None)
    return TABLES.get(item, {}).get(name, {}).get(column)


# What `peerwise reproduce crc/...` runs.
PAPER = Paper("crc", ITEMS, datasets, printed=printed, base=base, counts=COUNTS)
