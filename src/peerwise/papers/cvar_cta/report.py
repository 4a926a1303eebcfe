"""Numbers and tables of the CVaR-CTA experiments.

The paper prints no numbers, so that there is no column of its own: its claims are what is compared.
"""

from collections.abc import Sequence
from typing import Any

from peerwise.papers.cvar_cta.figures import GRAPHS, NAMES, SETS
from peerwise.papers.cvar_cta.items import stage_of
from peerwise.papers.items import Arrays
from peerwise.papers.records import record_of
from peerwise.report.grid import Grid, half_width
from peerwise.study.results import Record

FEW = 3  # runs: of two, an interval says nothing
COLUMNS = {
    "accuracy": "accuracy",
    "worst_node": "worst\nnode",
    "worst_class": "worst\nclass",
    "other_stage": "other\nstage",
    "consensus": "spread",
}


def _record(
    item: str, dataset: str, metric: str, values: Any, variant: str, **setting: Any
) -> Record:
    of = {"method": variant.split()[0].removesuffix("/a"), "variant": variant, **setting}
    return record_of("cvar-cta", item, dataset, metric, values, **of)


def networks(item: str, done: dict[str, Arrays]) -> list[Record]:
    """Accuracy after the last round: mean, worst node and class; how far models are apart."""
    records = []
    for name, arrays in done.items():
        where, _, variant = name.partition("|")
        dataset, graph, q = where.split()
        stage, other = stage_of(variant), "" if stage_of(variant) else "combined_"
        last = arrays[f"{stage}accuracy"][:, -1]
        for metric, values in (
            ("accuracy", last.mean(-1)),
            ("worst_node", last.min(-1)),
            ("worst_class", arrays[f"{stage}class_accuracy"][:, -1].min(-1)),
            ("other_stage", arrays[f"{other}accuracy"][:, -1].mean(-1)),
            ("consensus", arrays[f"{stage}consensus"][:, -1]),
        ):
            of = {"graph": graph, "q": float(q)}
            records.append(_record(item, dataset, metric, values, variant, **of))
    return records


def rare(item: str, done: dict[str, Arrays]) -> list[Record]:
    """Accuracy of the nodes that are heard on the class that they have not, and on all."""
    records = []
    for name, arrays in done.items():
        graph, _, variant = name.partition("|")
        its_class = arrays["class_accuracy_of_others"][:, -1, 0]
        whole = arrays["accuracy"][:, -1, 1:].mean(-1)
        for metric, values in (("rare_class", its_class), ("accuracy", whole)):
            records.append(_record(item, "mnist", metric, values, variant, graph=graph))
    return records


def losses(item: str, done: dict[str, Arrays]) -> list[Record]:
    """The gap of CRC, or the accuracy of a net, after the last round."""
    records = []
    for name, arrays in done.items():
        where, _, variant = name.partition("|")
        dataset, graph, q = where.split()
        of = {"graph": graph, "q": float(q)}
        if "gap" in arrays:
            records.append(_record(item, dataset, "gap", arrays["gap"].mean(-1), variant, **of))
        else:
            values = arrays["accuracy"][:, -1].mean(-1)
            records.append(_record(item, dataset, "accuracy", values, variant, **of))
    return records


def _value(record: Record | None, interval: bool = False) -> str:
    if record is None or record.value is None:
        return ""
    if record.metric == "consensus":
        return f"{record.value:.2g}"
    text = f"{round(record.value, 3) + 0.0:.3f}"  # 1 - 1 of many rows may be just below 0
    half = half_width(record) if interval and record.reps >= FEW else None
    return text if half is None else f"{text} ±{half:.3f}"


def network_tables(item: str, records: Sequence[Record]) -> list[Grid]:
    """A table for each data set, graph and arrival probability."""
    places: dict[tuple[str, str, float], dict[str, dict[str, Record]]] = {}
    for r in records:
        place = r.dataset, r.setting["graph"], r.setting["q"]
        places.setdefault(place, {}).setdefault(r.setting["variant"], {})[r.metric] = r
    grids = []
    for (dataset, graph, q), variants in places.items():
        head = [f"{SETS[dataset]}, {GRAPHS[graph]}, q = {q:g}", *COLUMNS.values()]
        rows = [
            [NAMES[v], *(_value(cells.get(m), m == "accuracy") for m in COLUMNS)]
            for v, cells in variants.items()
        ]
        grids.append(Grid(head, rows))
    return grids


def rare_table(item: str, records: Sequence[Record]) -> list[Grid]:
    """Accuracy on the class that one node holds and on all, by method and graph."""
    cells = {(r.setting["variant"], r.setting["graph"], r.metric): r for r in records}
    variants, graphs = (dict.fromkeys(key[i] for key in cells) for i in (0, 1))
    head = ["method"]
    for graph in graphs:
        head += [f"{GRAPHS[graph]}\nits class", f"{GRAPHS[graph]}\nall"]
    places = [(g, m) for g in graphs for m in ("rare_class", "accuracy")]
    rows = [[NAMES[v], *(_value(cells.get((v, *p)), True) for p in places)] for v in variants]
    return [Grid(head, rows)]


def loss_table(item: str, records: Sequence[Record]) -> list[Grid]:
    """By share of messages lost."""
    cells = {(r.setting["graph"], r.setting["variant"], r.setting["q"]): r for r in records}
    columns = list(dict.fromkeys(key[:2] for key in cells))
    head = ["lost", *(f"{GRAPHS[graph]}\n{NAMES[v]}" for graph, v in columns)]
    lost = sorted({key[2] for key in cells}, reverse=True)
    rows = [[f"{1 - q:.0%}", *(_value(cells.get((*c, q)), True) for c in columns)] for q in lost]
    return [Grid(head, rows)]
