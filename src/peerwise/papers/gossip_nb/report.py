"""Numbers and tables of the Gossip-NB experiments."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from peerwise.papers.gossip_nb.items import EPSILONS
from peerwise.papers.items import Arrays, Done
from peerwise.papers.records import record_of
from peerwise.report.grid import Grid
from peerwise.study.results import Record

# Items as tables: what stands in a row and in a column.
LAYOUT = {
    "figure-2": (("dataset", "variant"), "epsilon"),
    "figure-3": (("dataset",), "nodes"),
    "figure-4": (("dataset", "variant"), "epsilon"),
    "figure-5": (("dataset",), "kept"),
    "figure-6": (("dataset", "method", "counter"), "round"),
    "figure-7": (("dataset", "parameter"), "round"),
    "clamping": (("dataset", "variant", "where"), "epsilon"),
    "skew": (("dataset", "method", "epsilon"), "partition"),
    "private-crc": (("dataset", "method"), "epsilon"),
    "attack": (("dataset", "epsilon", "kind", "share"), "rule"),
}


def _grid(item: str, records: Sequence[Record]) -> tuple[list[Any], dict[tuple[str, ...], Any]]:
    rows, column = LAYOUT[item]
    columns: dict[Any, None] = {}
    cells: dict[tuple[str, ...], Any] = {}
    for r in records:
        of = {"dataset": r.dataset, **r.setting}
        if of.get("variant") is not None:
            of["variant"] = _named(str(of["variant"]))
        label = tuple(str(of[k]) for k in rows if of.get(k) is not None)
        label += (r.metric,) if r.metric in ("bias",) else ()
        place = of.get(column, "")
        columns[place] = None
        cells.setdefault(label, {})[place] = r
    return list(columns), cells


def _named(variant: str) -> str:
    """A variant as the figure's legend has it."""
    known = {"vanilla": "no noise", "central": "centralised DP"}
    first = variant.split(" ")[0]
    return f"N = {variant}" if first.isdigit() else known.get(variant, variant)


def _head(column: Any) -> str:
    return f"{column:.3g}" if isinstance(column, float) else str(column)


def _cell(record: Record | None) -> str:
    if record is None or record.value is None:
        return ""
    return f"{record.value:.3f}" + (f" ±{record.std:.3f}" if record.std else "")


def by_layout(item: str, records: Sequence[Record]) -> list[Grid]:
    """Mean and standard deviation over trials, laid out as `LAYOUT` says."""
    columns, cells = _grid(item, records)
    head = [f"{records[0].metric.replace('_', ' ')} by {LAYOUT[item][1]}", *map(_head, columns)]
    rows = [[" ".join(at), *(_cell(row.get(c)) for c in columns)] for at, row in cells.items()]
    return [Grid(head, rows)]


def _record(item: str, dataset: str, metric: str, values: Any, **setting: Any) -> Record:
    of = {"method": "federated_nb", **setting}
    return record_of("gossip-nb", item, dataset, metric, values, ddof=0, **of)


def accuracies(item: str, done: Done) -> Iterator[Record]:
    """Records of tasks named "set variant" that hold accuracies [epsilons, trials]."""
    for name, arrays in done.items():
        if "accuracy" not in arrays:
            continue
        dataset, _, variant = name.partition(" ")
        for epsilon, values in zip(EPSILONS, arrays["accuracy"], strict=True):
            of = {"variant": variant, "epsilon": epsilon}
            yield _record(item, dataset, "accuracy", values, **of)
        if "vanilla" in arrays:
            of = {"variant": "vanilla", "epsilon": "none"}
            yield _record(item, dataset, "accuracy", arrays["vanilla"][:1], **of)


def sensitivities(item: str, done: Done) -> Iterator[Record]:
    """The median sensitivity, by size of the network."""
    for name, arrays in done.items():
        for n, quantiles in arrays.items():
            yield _record(item, name, "median_sensitivity", quantiles[50], nodes=int(n[1:]))


def thresholds(item: str, done: Done) -> Iterator[Record]:
    """Accuracy with the best node, with all, and with the best number of nodes."""
    for name, arrays in done.items():
        accuracy = arrays["accuracy"]
        last = [row[~np.isnan(row)][-1] for row in accuracy]
        best = np.nanmax(accuracy, axis=1)
        for kept, values in (("1", accuracy[:, 0]), ("all", last), ("best", best)):
            yield _record(item, name, "accuracy", values, kept=kept)


def gossip(item: str, done: Done) -> Iterator[Record]:
    """The nodes' median accuracy at some iterations, and Federated's."""
    for name, arrays in done.items():
        dataset, _, counter = name.partition(" ")
        of: dict[str, Any] = {"method": "gossip_nb", "counter": counter}
        rounds = len(arrays["accuracy"])
        for t in sorted({1, 5, 10, 30, 50, 100} & set(range(1, rounds + 1))):
            median = np.median(arrays["accuracy"][t - 1])
            yield _record(item, dataset, "accuracy", median, **of, round=t)
        of = {"counter": counter} if counter == "clamped" else {}
        yield _record(item, dataset, "accuracy", arrays["federated"], **of)


def _apart(arrays: Arrays, kind: str, t: int) -> float:
    """How far the median parameters of a kind are from Federated's after t rounds, relatively."""
    ours, theirs = arrays[kind][1, t - 1], arrays[f"federated_{kind}"]
    return float(np.median(np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-12)))


def parameters(item: str, done: Done) -> Iterator[Record]:
    """How far parameters are from Federated's at some iterations."""
    for name, arrays in done.items():
        for kind in [k for k in ("prior", "category", "mean", "std") if k in arrays]:
            rounds = arrays[kind].shape[1]
            for t in sorted(t for t in {10, 30, rounds} if t <= rounds):
                of = {"method": "gossip_nb", "parameter": kind, "round": t}
                yield _record(
                    item, name.partition(" ")[0], "deviation", _apart(arrays, kind, t), **of
                )


def clamping(item: str, done: Done) -> Iterator[Record]:
    """Accuracies, and how far the statistics of rare events drift."""
    yield from accuracies(item, {k: v for k, v in done.items() if not k.endswith("bias")})
    for name, arrays in done.items():
        if name.endswith("bias"):
            rare = arrays["exact"] < np.quantile(arrays["exact"], 0.25)
            for kind in ("plain", "clamped"):
                drift = (arrays[kind] - arrays["exact"])[rare].mean()
                of = {"where": kind, "nodes": 1000, "epsilon": 1.0}
                yield _record(item, name.partition(" ")[0], "bias", drift, **of)


def skew(item: str, done: Done) -> Iterator[Record]:
    """Test errors by partition, method and budget."""
    return _errors(item, done, "partition", "method", "epsilon")


def private_crc(item: str, done: Done) -> Iterator[Record]:
    """Test errors by method and budget."""
    return _errors(item, done, "method", "epsilon")


def _errors(item: str, done: Done, *keys: str) -> Iterator[Record]:
    """Records of tasks that are named by their data set and the values of `keys`."""
    for name, arrays in done.items():
        dataset, *values = name.split(" ")
        of = dict(zip(keys, values, strict=True))
        yield _record(item, dataset, "test_error", arrays["error"].mean(-1), **of)


def attacks(item: str, done: Done) -> Iterator[Record]:
    """Accuracy by rule, kind of attack and share of attackers."""
    for name, arrays in done.items():
        dataset, _, epsilon = name.partition(" ")
        for i in range(len(arrays["accuracy"])):
            of = {k: arrays[k][i].item() for k in ("rule", "kind", "share") if k in arrays}
            accuracy = arrays["accuracy"][i]
            record = _record(item, dataset, "accuracy", accuracy, **of, epsilon=epsilon)
            over = {"std": float(arrays["std"][i]), "reps": int(arrays["trials"][i])}
            yield record.model_copy(update=over)
