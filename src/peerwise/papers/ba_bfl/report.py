"""Numbers and tables of the BA-BFL experiments.

The numbers of the paper's table 1 are not in the text at hand: its claims are what is compared.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from peerwise import metrics
from peerwise.combine.barycenter import barycenter_of
from peerwise.papers.ba_bfl.figures import GRAPHS, NAMES, SETS
from peerwise.papers.ba_bfl.items import TOY
from peerwise.papers.ba_bfl.printed import FIGURE_1
from peerwise.papers.items import Arrays
from peerwise.papers.records import record_of
from peerwise.report.grid import Grid, half_width
from peerwise.study.results import Record

DIVERGENCES = ("rkl", "w2", "kl", "eaa", "gaa", "gaa_normalised", "aalv")  # of figure 1
FEW = 3  # replicas: of two, an interval says nothing
# Heads of narrow columns.
SHORT = {
    "accuracy": "accu-\nracy",
    "ece": "ECE\n15",
    "ece_fine": "ECE\n100",
    "nll": "NLL",
    "brier": "Brier",
    "ood": "OOD\nAUROC",
    "seconds_a_round": "seconds\na round",
    "local_mean": "local\nmean",
    "local_worst": "local\nworst",
    "own_mean": "own rows\nmean",
    "own_worst": "own rows\nworst",
}


def _record(item: str, dataset: str, metric: str, values: Any, **setting: Any) -> Record:
    of = {"method": "ba_bfl", **setting}
    return record_of("ba-bfl", item, dataset, metric, values, **of)


def toy(item: str, done: dict[str, Arrays]) -> list[Record]:
    """Figure 1: the barycenters of N(0, 1) and N(2, 1/4), ours and the paper's."""
    records = []
    for rule in DIVERGENCES:
        ours, theirs = barycenter_of(rule, *TOY), FIGURE_1.get(rule, (None, None))
        for which, value, printed in zip(("mean", "variance"), ours, theirs, strict=True):
            records.append(_record(item, "toy", which, value, rule=rule, paper_value=printed))
    return records


def splits(item: str, done: dict[str, Arrays]) -> list[Record]:
    """Figure 2: the fewest and the most rows of a node."""
    records = []
    for name, arrays in done.items():
        total = arrays["counts"].sum(1)
        for of, value in (("least", total.min()), ("most", total.max())):
            records.append(_record(item, name, "rows", value, of=of))
    return records


def _measures(arrays: Arrays) -> dict[str, np.ndarray]:
    """Of the last round: the merged models' quality and the local ones' fairness."""
    last = {
        name: arrays[name][:, -1].mean(-1)
        for name in ("accuracy", "ece", "ece_fine", "nll", "brier")
    }
    local = metrics.fairness(arrays["local_accuracy"][:, -1], arrays["sizes"])
    own = metrics.fairness(arrays["own_accuracy"][:, -1], arrays["sizes"])
    return {
        **last,
        **({"ood": arrays["ood"]} if "ood" in arrays else {}),
        "local_mean": local.mean,
        "local_worst": local.worst,
        "own_mean": own.mean,
        "own_worst": own.worst,
    }


# What each item shows of the runs that it shares with others.
SHOWN = {
    "table-1": ("accuracy", "ece_fine", "ece", "nll", "brier", "ood"),
    "figure-3": ("ece_fine", "nll"),
    "figure-5": ("local_mean", "local_worst", "own_mean", "own_worst"),
    "longer": ("accuracy", "ece_fine", "ece", "nll", "brier", "ood", "local_worst", "own_mean"),
}


def runs(item: str, done: dict[str, Arrays]) -> list[Record]:
    """What an item shows of each run, by number of layers and rule."""
    records = []
    for name, arrays in done.items():
        dataset, n, rule = name.split(" ", 2)
        measures = _measures(arrays)
        for metric in SHOWN.get(item, SHOWN["table-1"]):
            if metric in measures:
                of = {"layers": int(n), "rule": rule}
                records.append(_record(item, dataset, metric, measures[metric], **of))
    return records


def paces(item: str, done: dict[str, Arrays]) -> list[Record]:
    """Figure 4: seconds of a round, by number of layers and rule."""
    records = []
    for name, arrays in done.items():
        dataset, n, rule = name.split(" ", 2)
        of = {"layers": int(n), "rule": rule}
        seconds = arrays["seconds_a_round"]
        records.append(_record(item, dataset, "seconds_a_round", seconds, **of))
    return records


def graphs(item: str, done: dict[str, Arrays]) -> list[Record]:
    """Accuracy, calibration and the worst local model, by graph, loss and rule."""
    records = []
    for name, arrays in done.items():
        where, _, variant = name.partition("|")
        graph, q = where.split()
        measures = _measures(arrays)
        for metric in ("accuracy", "ece", "nll", "local_worst"):
            of = {"graph": graph, "q": float(q), "variant": variant}
            records.append(_record(item, "fashion_mnist", metric, measures[metric], **of))
    return records


def _value(record: Record | None) -> str:
    if record is None or record.value is None:
        return ""
    digits = {"seconds_a_round": ".3g", "rows": ".0f"}.get(record.metric, ".3f")
    text = f"{record.value:{digits}}"
    half = half_width(record) if record.reps >= FEW else None
    return text if half is None else f"{text} ±{half:{digits}}"


def toy_table(item: str, records: Sequence[Record]) -> list[Grid]:
    """Ours beside the paper's."""
    by = {(r.setting["rule"], r.metric): r for r in records}
    head = ["rule", "mean\nours", "mean\npaper", "variance\nours", "variance\npaper"]
    rows = []
    for rule in dict.fromkeys(rule for rule, _ in by):
        row = [NAMES[rule]]
        for metric in ("mean", "variance"):
            record = by[rule, metric]
            printed = "" if record.paper_value is None else f"{record.paper_value:g}"
            row += [f"{record.value:.6g}", printed]
        rows.append(row)
    return [Grid(head, rows)]


def split_table(item: str, records: Sequence[Record]) -> list[Grid]:
    """A row a data set."""
    by = {(r.dataset, r.setting["of"]): r for r in records}
    rows = [
        [SETS[name], *(_value(by[name, of]) for of in ("least", "most"))]
        for name in dict.fromkeys(r.dataset for r in records)
    ]
    return [Grid(["set", "fewest rows\nof a node", "most"], rows)]


def run_tables(item: str, records: Sequence[Record]) -> list[Grid]:
    """A table for each data set: a row for each number of layers and rule."""
    grids = []
    for name in dict.fromkeys(r.dataset for r in records):
        # not all sets have strange images of their shape beside them
        measures = list(dict.fromkeys(r.metric for r in records if r.dataset == name))
        cells: dict[tuple[int, str], dict[str, Record]] = {}
        for r in records:
            if r.dataset == name:
                place = r.setting["layers"], r.setting["rule"]
                cells.setdefault(place, {})[r.metric] = r
        head = [f"{SETS[name]}\nBayesian layers, rule", *(SHORT[m] for m in measures)]
        rows = [
            [f"{n} {_named(rule)}", *(_value(row.get(m)) for m in measures)]
            for (n, rule), row in sorted(cells.items())
        ]
        grids.append(Grid(head, rows))
    return grids


def _named(rule: str) -> str:
    return NAMES.get(rule) or f"{NAMES[rule.split()[0]]}, the paper's start"


def graph_table(item: str, records: Sequence[Record]) -> list[Grid]:
    """A row a graph, loss and rule."""
    measures = list(dict.fromkeys(r.metric for r in records))
    cells: dict[tuple[str, float, str], dict[str, Record]] = {}
    for r in records:
        place = r.setting["graph"], r.setting["q"], r.setting["variant"]
        cells.setdefault(place, {})[r.metric] = r
    head = ["graph, q, method", *(SHORT[m] for m in measures)]
    rows = [
        [f"{GRAPHS[g]}, {q:g}, {NAMES[v]}", *(_value(row.get(m)) for m in measures)]
        for (g, q, v), row in cells.items()
    ]
    return [Grid(head, rows)]
