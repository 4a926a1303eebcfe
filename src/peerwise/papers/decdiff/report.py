"""Numbers and tables of the DecDiff experiments, ours beside the paper's."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from peerwise import metrics
from peerwise.papers.decdiff.figures import NAMES, SETS, by_variant
from peerwise.papers.decdiff.items import QUIET, table_of
from peerwise.papers.decdiff.printed import PAPER_TABLES, SHARES
from peerwise.papers.items import Arrays, Done
from peerwise.papers.records import by_fields, record_of
from peerwise.report.grid import Grid, laid, mean_text
from peerwise.study.results import Record

COST = 0.9  # the share at which table 4 also tells traffic
DIGITS = {"accuracy": ".4f", "loss": ".3f", "gini": ".3f", "degree": ".3g"}


def _record(item: str, dataset: str, metric: str, values: Any, **setting: Any) -> Record:
    variant = setting.get("variant")
    method = variant.split()[0].partition("+")[0] if variant else "decdiff"
    printed = PAPER_TABLES.get((item, dataset, variant, setting.get("share")))
    of = {"method": method, **setting}
    return record_of("decdiff", item, dataset, metric, values, paper_value=printed, **of)


def _final(arrays: Arrays) -> np.ndarray:
    """Mean accuracy of the nodes after the last round, of every replica."""
    return arrays["accuracy"][:, -1].mean(-1)


def accuracies(item: str, done: Done) -> Iterator[Record]:
    """Accuracy after the last round, also between aggregation and training."""
    for dataset, variant, arrays in by_variant(done):
        yield _record(item, dataset, "accuracy", _final(arrays), variant=variant)
        if "aggregated_accuracy" in arrays:
            values = arrays["aggregated_accuracy"][:, -1].mean(-1)
            of = {"variant": variant, "stage": "aggregated"}
            yield _record(item, dataset, "aggregated_accuracy", values, **of)


def times(item: str, done: Done) -> Iterator[Record]:
    """Table 4; and how many bytes the network had sent by then."""
    for dataset, variant, arrays in by_variant(done):
        central = done.get(f"{dataset} centralised")
        if central is None or variant == "centralised":
            continue
        curve, goal = arrays["accuracy"].mean(-1), float(_final(central).mean())
        times = metrics.characteristic_times(curve, arrays["rounds"], goal, SHARES)
        for share, reached in times.items():
            value = None if reached.count == 0 else reached.mean
            of = {"variant": variant, "share": share, "reached": f"{reached.count}/{reached.runs}"}
            one = _record(item, dataset, "rounds", [] if value is None else value, **of)
            yield one.model_copy(update={"reps": reached.count})
            sent = int(arrays["message_bytes"]) * int(arrays["messages"])
            if value is not None and sent:
                gigabytes = value * sent / 1e9
                yield _record(item, dataset, "gigabytes", gigabytes, **of)


def drops(item: str, done: Done) -> Iterator[Record]:
    """Figure 1: accuracy before and after the first aggregation, and in the end."""
    for dataset, variant, arrays in by_variant(done):
        stages = {"last round": _final(arrays)}
        if "aggregated_accuracy" in arrays:
            before = arrays["begun_accuracy"].mean(-1)
            after = arrays["aggregated_accuracy"][:, 0].mean(-1)
            stages |= {"trained alone": before, "first aggregation": after, "drop": before - after}
        for stage, values in stages.items():
            yield _record(item, dataset, "accuracy", values, variant=variant, at=stage)


def degrees(item: str, done: Done) -> Iterator[Record]:
    """Figure 3: how many neighbours nodes have."""
    for arrays in done.values():
        degree = np.bincount(arrays["dst"], minlength=int(arrays["nodes"]))
        for kind, value in (("mean", degree.mean()), ("min", degree.min()), ("max", degree.max())):
            yield _record(item, "graph", "degree", value, of=kind)


def ginis(item: str, done: Done) -> Iterator[Record]:
    """Figure 4: Gini indices."""
    for name, arrays in done.items():
        yield _record(item, name, "gini", arrays["gini"].mean(), of="classes, mean")
        yield _record(item, name, "gini", arrays["gini_of_totals"], of="node totals")


def losses(item: str, done: Done) -> Iterator[Record]:
    """Figure 5: the lowest test loss, and how far above it the last is (overfitting)."""
    for dataset, variant, arrays in by_variant(done):
        curve = arrays["loss"].mean(-1)
        for at, values in (("lowest", curve.min(1)), ("last", curve[:, -1])):
            yield _record(item, dataset, "loss", values, variant=variant, at=at)


def boxes(item: str, done: Done) -> Iterator[Record]:
    """Figure 6: spread of the nodes' accuracies after the last round."""
    for dataset, variant, arrays in by_variant(done):
        box = metrics.box(arrays["accuracy"][:, -1].reshape(-1))
        quartiles = box["q3"] - box["q1"]
        spread = {"median": box["median"], "quartile range": quartiles, "worst": box["lowest"]}
        for of, value in spread.items():
            yield _record(item, dataset, "accuracy", value, variant=variant, of=of)


def _printed(item: str, dataset: str, variant: str, share: float | None = None) -> str:
    value = PAPER_TABLES.get((item, dataset, variant, share))
    return "" if value is None else f"{value:.4f}" if share is None else f"{value:.2f}"


def _named(item: str, variant: str) -> str:
    return NAMES[variant] + (" β=.99" if item == "beta" and variant == "decdiff+vt" else "")


def _transposed(head: str, names: Sequence[str], columns: dict[str, list[str]]) -> Grid:
    rows = [[name, *(column[i] for column in columns.values())] for i, name in enumerate(names)]
    return Grid([head, *columns], rows)


def _sets(records: Sequence[Record]) -> list[str]:
    """The data sets that were run, in the paper's order."""
    return [name for name in SETS if any(r.dataset == name for r in records)]


def accuracy_table(item: str, records: Sequence[Record]) -> list[Grid]:
    """Variants by data sets: ours, the paper's, and ours between aggregation and training."""
    cells = by_fields(records, "dataset", "variant", "metric")
    variants = table_of(item)
    columns = {}
    for name in _sets(records):
        ours = [mean_text(cells.get((name, v, "accuracy")), ".4f") for v in variants]
        columns[f"{SETS[name]}\nours"] = ours
        theirs = [_printed(item, name, v) for v in variants]
        if any(theirs):
            columns[f"{SETS[name]}\npaper"] = theirs
        between = [
            "" if v in QUIET else mean_text(cells.get((name, v, "aggregated_accuracy")), ".4f")
            for v in variants
        ]
        if any(between):
            columns[f"{SETS[name]}\nafter aggregation"] = between
    return [_transposed("method", [_named(item, v) for v in variants], columns)]


def times_tables(item: str, records: Sequence[Record]) -> list[Grid]:
    """A table for each data set."""
    return [_times(records, name) for name in _sets(records)]


def _times(records: Sequence[Record], dataset: str) -> Grid:
    """Rounds to shares of the centralised accuracy, ours and the paper's, on one data set."""
    here = [r for r in records if r.dataset == dataset]
    cells = by_fields(here, "variant", "share", "metric")

    def ours(record: Record | None, digits: str = ".1f") -> str:
        if record is None:
            return ""
        if record.value is None:
            return "-"
        few = record.setting["reached"]
        reached, runs = few.split("/")
        return f"{record.value:{digits}}" + ("" if reached == runs else f" ({few})")

    variants = table_of("table-4")
    columns = {}
    for share in SHARES:
        columns[f"{share:.0%}\nours"] = [ours(cells.get((v, share, "rounds"))) for v in variants]
        theirs = [_printed("table-4", dataset, v, share) or "-" for v in variants]
        columns[f"{share:.0%}\npaper"] = theirs
    cost = [ours(cells.get((v, COST, "gigabytes")), ".0f") for v in variants]
    if any(cost):
        columns[f"GB sent to {COST:.0%}\nours"] = cost
    return _transposed(SETS[dataset], [NAMES[v] for v in variants], columns)


def number_table(item: str, records: Sequence[Record]) -> list[Grid]:
    """The numbers behind a figure: a row a variant, or a data set where methods play no part."""
    columns: dict[str, str] = {}
    cells: dict[str, dict[str, str]] = {}
    for r in records:
        variant, kind = r.setting.get("variant"), r.setting.get("at") or r.setting.get("of")
        name = SETS.get(r.dataset, r.dataset)
        row, column = (NAMES[variant], f"{name}\n{kind}") if variant else (name, str(kind))
        columns[column] = column
        value = "" if r.value is None else f"{r.value:{DIGITS[r.metric]}}"
        cells.setdefault(row, {})[column] = value
    rows = {row: row for row in cells}
    return [laid(records[0].metric, rows, columns, lambda row, c: cells[row].get(c, ""))]
