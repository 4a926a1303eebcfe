"""Numbers and tables of the BA-BFL experiments.

The numbers of the paper's table 1 are not in the text at hand: its claims are what is compared.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from peerwise import metrics
from peerwise.combine.barycenter import barycenter_of
from peerwise.papers.ba_bfl.figures import GRAPHS, MEASURES, NAMES, SETS
from peerwise.papers.ba_bfl.items import TOY
from peerwise.papers.ba_bfl.printed import FIGURE_1
from peerwise.papers.items import Arrays, Done
from peerwise.papers.records import by_fields, record_of
from peerwise.report.grid import Grid, laid, mean_text
from peerwise.study.results import Record

DIVERGENCES = ("rkl", "w2", "kl", "eaa", "gaa", "gaa_normalised", "aalv")  # of figure 1
_RUN, _PLACE = ("layers", "rule"), ("graph", "q", "variant")  # what rows of tables stand for
FEW = 3  # replicas: of two, an interval says nothing


def _record(item: str, dataset: str, metric: str, values: Any, **setting: Any) -> Record:
    of = {"method": "ba_bfl", **setting}
    return record_of("ba-bfl", item, dataset, metric, values, **of)


def toy(item: str, done: Done) -> Iterator[Record]:
    """Figure 1: the barycenters of N(0, 1) and N(2, 1/4), ours and the paper's."""
    for rule in DIVERGENCES:
        ours, theirs = barycenter_of(rule, *TOY), FIGURE_1.get(rule, (None, None))
        for which, value, printed in zip(("mean", "variance"), ours, theirs, strict=True):
            yield _record(item, "toy", which, value, rule=rule, paper_value=printed)


def splits(item: str, done: Done) -> Iterator[Record]:
    """Figure 2: the fewest and the most rows of a node."""
    for name, arrays in done.items():
        total = arrays["counts"].sum(1)
        for of, value in (("least", total.min()), ("most", total.max())):
            yield _record(item, name, "rows", value, of=of)


def _measures(arrays: Arrays) -> dict[str, np.ndarray]:
    """Of the last round: the merged models' quality and the local ones' fairness; or its time."""
    if "accuracy" not in arrays:
        return {"seconds_a_round": arrays["seconds_a_round"]}
    merged = ("accuracy", "ece", "ece_fine", "nll", "brier")
    found = {name: arrays[name][:, -1].mean(-1) for name in merged}
    for whose in ("local", "own"):
        fair = metrics.fairness(arrays[f"{whose}_accuracy"][:, -1], arrays["sizes"])
        found |= {f"{whose}_mean": fair.mean, f"{whose}_worst": fair.worst}
    return {**found, **({"ood": arrays["ood"]} if "ood" in arrays else {})}


# What each item shows of the runs that it shares with others.
SHOWN = {
    "table-1": ("accuracy", "ece_fine", "ece", "nll", "brier", "ood"),
    "figure-3": ("ece_fine", "nll"),
    "figure-4": ("seconds_a_round",),
    "figure-5": ("local_mean", "local_worst", "own_mean", "own_worst"),
    "longer": ("accuracy", "ece_fine", "ece", "nll", "brier", "ood", "local_worst", "own_mean"),
}


def runs(item: str, done: Done) -> Iterator[Record]:
    """What an item shows of each run, by number of layers and rule."""
    for name, arrays in done.items():
        dataset, n, rule = name.split(" ", 2)
        measures = _measures(arrays)
        for metric in SHOWN.get(item, SHOWN["table-1"]):
            if metric in measures:
                of = {"layers": int(n), "rule": rule}
                yield _record(item, dataset, metric, measures[metric], **of)


def graphs(item: str, done: Done) -> Iterator[Record]:
    """Accuracy, calibration and the worst local model, by graph, loss and rule."""
    for name, arrays in done.items():
        where, _, variant = name.partition("|")
        graph, q = where.split()
        measures = _measures(arrays)
        for metric in ("accuracy", "ece", "nll", "local_worst"):
            of = {"graph": graph, "q": float(q), "variant": variant}
            yield _record(item, "fashion_mnist", metric, measures[metric], **of)


def _value(record: Record | None) -> str:
    digits = {"seconds_a_round": ".3g", "rows": ".0f"}.get(record.metric if record else "", ".3f")
    return mean_text(record, digits, FEW)


def toy_table(item: str, records: Sequence[Record]) -> list[Grid]:
    """Ours beside the paper's."""
    by = by_fields(records, "rule", "metric")

    def text(rule: str, column: tuple[str, str]) -> str:
        record = by[rule, column[0]]
        if column[1] == "ours":
            return f"{record.value:.6g}"
        return "" if record.paper_value is None else f"{record.paper_value:g}"

    whose = ("ours", "paper")
    columns = {(m, who): f"{m}\n{who}" for m in ("mean", "variance") for who in whose}
    return [laid("rule", {rule: NAMES[rule] for rule, _ in by}, columns, text)]


def split_table(item: str, records: Sequence[Record]) -> list[Grid]:
    """A row a data set."""
    by = by_fields(records, "dataset", "of")
    columns = {"least": "fewest rows\nof a node", "most": "most"}
    rows = {name: SETS[name] for name, _ in by}
    return [laid("set", rows, columns, lambda name, of: _value(by[name, of]))]


def _measured(head: str, records: Sequence[Record], rows: dict[Any, str], *keys: str) -> Grid:
    """A row a setting of some keys, a column a measure."""
    by = by_fields(records, *keys, "metric")
    columns = {r.metric: MEASURES[r.metric][1] for r in records}
    return laid(head, rows, columns, lambda at, metric: _value(by.get((*at, metric))))


def run_tables(item: str, records: Sequence[Record]) -> list[Grid]:
    """A table for each data set: a row for each number of layers and rule."""
    grids = []
    for name in dict.fromkeys(r.dataset for r in records):
        # not all sets have strange images of their shape beside them
        here = [r for r in records if r.dataset == name]
        rows = {(n, rule): f"{n} {_named(rule)}" for n, rule in sorted(by_fields(here, *_RUN))}
        grids.append(_measured(f"{SETS[name]}\nBayesian layers, rule", here, rows, *_RUN))
    return grids


def _named(rule: str) -> str:
    return NAMES.get(rule) or f"{NAMES[rule.split()[0]]}, the paper's start"


def graph_table(item: str, records: Sequence[Record]) -> list[Grid]:
    """A row a graph, loss and rule."""
    places = by_fields(records, *_PLACE)
    rows = {(g, q, v): f"{GRAPHS[g]}, {q:g}, {NAMES[v]}" for g, q, v in places}
    return [_measured("graph, q, method", records, rows, *_PLACE)]
