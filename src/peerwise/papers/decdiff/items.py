"""The experiments of "Coordination-free Decentralised Federated Learning on Complex Networks".

Valerio, Boldrini, Passarella, Kertesz, Karsai, Iniguez. Tables 2 to 4 and figures 5 and 6 are views
of the same runs: every method trains once for each data set. Below the paper's items come our own:
the missing cell of table 3 (virtual teacher with DecAvg), CFA with a full step, a common start, the
teacher's beta, and the teacher fed with probabilities (see `losses.linear_teacher`).
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from peerwise import metrics
from peerwise.papers.decdiff.claims import PAPER_TABLES, claims
from peerwise.papers.items import Figure, TaskPaper, at_hand
from peerwise.study.results import Record
from peerwise.study.tasks import Task

__all__ = ["ITEMS", "PAPER", "VARIANTS", "datasets", "table_of"]

Arrays = dict[str, np.ndarray]
SETS = ("mnist", "fashion_mnist", "emnist_letters")
SHARES = (0.5, 0.8, 0.9, 0.95)  # of the centralised accuracy

# What is trained, by name: method and loss.
VARIANTS: dict[str, dict[str, Any]] = {
    "centralised": {"method": "centralised"},
    "isolation": {"method": "isolation"},
    "fedavg": {"method": "fedavg"},
    "dechetero": {"method": "dechetero"},
    "cfa": {"method": "cfa"},
    "cfa-ge": {"method": "cfa-ge"},
    "decdiff": {"method": "decdiff"},
    "decdiff+vt": {"method": "decdiff", "loss": "virtual_teacher"},
    "dechetero+vt": {"method": "dechetero", "loss": "virtual_teacher"},
    "decavg": {"method": "decavg"},
    "cfa-1": {"method": "cfa-1"},
    "decdiff+vt .9": {"method": "decdiff", "loss": "virtual_teacher", "beta": 0.9},
    "decdiff+vt .95": {"method": "decdiff", "loss": "virtual_teacher", "beta": 0.95},
    "decdiff+linear": {"method": "decdiff", "loss": "linear_teacher"},
}
TABLE_2 = ("centralised", "isolation", "fedavg", "dechetero", "decavg", "cfa", "cfa-1", "cfa-ge",
           "decdiff+vt")  # fmt: skip
TABLE_3 = ("dechetero", "dechetero+vt", "decdiff", "decdiff+vt")
TABLE_4 = ("dechetero", "cfa", "cfa-ge", "decdiff", "decdiff+vt", "fedavg", "isolation")
BETA = ("decdiff", "decdiff+vt .9", "decdiff+vt .95", "decdiff+vt", "decdiff+linear")

# One epoch a round with five times the paper's learning rate goes as far in a round as the five
# epochs that are likely its own, and costs a fifth.
FULL: dict[str, dict[str, Any]] = {
    "mnist": {"net": "mlp", "rounds": 1000, "epochs": 1, "lr": 0.005, "momentum": 0.5,
              "replicas": 2, "every": 20},
    "fashion_mnist": {"net": "cnn", "rounds": 100, "epochs": 1, "lr": 0.005, "momentum": 0.9,
                      "replicas": 1, "every": 10, "aggregated": False},
    "emnist_letters": {"net": "cnn_dropout", "rounds": 100, "epochs": 1, "lr": 0.005,
                       "momentum": 0.9, "replicas": 1, "every": 10, "aggregated": False},
}  # fmt: skip
CENTRAL = {
    "mnist": 60,
    "fashion_mnist": 30,
    "emnist_letters": 30,
}  # epochs: it stands still by then
EXCHANGED = {"mnist": 256, "fashion_mnist": 64, "emnist_letters": 64}  # rows of a CFA-GE gradient
QUICK: dict[str, Any] = {"net": "mlp_64", "rounds": 40, "epochs": 1, "lr": 0.025, "momentum": 0.5,
                         "nodes": 20, "rows": 6000, "test_rows": 2000, "every": 5}  # fmt: skip


def _work(name: str, **arguments: Any) -> Task:
    return Task(f"peerwise.papers.decdiff.runs:{name}", arguments)


def _learn(name: str, variant: str, quick: bool, replicas: int | None) -> Task:
    told = {**(QUICK if quick else FULL[name]), **VARIANTS[variant]}
    told["replicas"] = replicas or (1 if quick else FULL[name]["replicas"])
    if variant == "centralised":
        told["rounds"] = min(told["rounds"], CENTRAL[name])
        told["every"] = max(1, told["rounds"] // 10)
    if variant == "cfa-ge":
        told["rows_asked"] = EXCHANGED[name]
    return _work("learn", data=name, **told)


def _tasks(*variants: str) -> Callable[[list[str], bool, int | None], dict[str, Task]]:
    def tasks(sets: list[str], quick: bool, replicas: int | None) -> dict[str, Task]:
        return {f"{s} {v}": _learn(s, v, quick, replicas) for s in sets for v in variants}

    return tasks


def _tasks_drop(sets: list[str], quick: bool, replicas: int | None) -> dict[str, Task]:
    name = next((s for s in ("mnist", "fashion_mnist") if s in sets), None)
    if name is None:
        return {}
    told: dict[str, Any] = {"net": "mlp", "nodes": 100, "rounds": 30}
    if quick:
        told = {"net": "mlp_64", "nodes": 30, "rounds": 10, "rows": 6000, "test_rows": 2000}
    told |= {"epochs": 5, "lr": 0.005, "way": "iid", "kind": "barabasi_albert", "every": 1}
    told |= {"replicas": replicas or 1, "begun": True}
    variants = ("centralised", "fedavg", "dechetero", "decdiff", "decdiff+vt")
    return {f"{name} {v}": _work("learn", data=name, **told, **VARIANTS[v]) for v in variants}


def _tasks_graph(sets: list[str], quick: bool, replicas: int | None) -> dict[str, Task]:
    return {"graph": _work("graph", nodes=QUICK["nodes"] if quick else 50)}


def _tasks_deal(sets: list[str], quick: bool, replicas: int | None) -> dict[str, Task]:
    told = {"nodes": QUICK["nodes"], "rows": QUICK["rows"]} if quick else {"nodes": 50}
    return {s: _work("allocation", data=s, **told) for s in sets}


def _record(item: str, dataset: str, metric: str, values: Any, **setting: Any) -> Record:
    values = np.asarray(values, float).ravel()
    values = values[~np.isnan(values)]
    variant = setting.get("variant")
    return Record(
        paper="decdiff",
        item=item,
        dataset=dataset,
        setting={"method": VARIANTS[variant]["method"] if variant else "decdiff", **setting},
        metric=metric,
        value=float(values.mean()) if values.size else None,
        std=float(values.std(ddof=1)) if values.size > 1 else None,
        reps=int(values.size),
        paper_value=PAPER_TABLES.get((item, dataset, variant, setting.get("share"))),
    )


def _final(arrays: Arrays) -> np.ndarray:
    """Mean accuracy of the nodes after the last round, of every replica."""
    return arrays["accuracy"][:, -1].mean(-1)


def _accuracies(item: str) -> Callable[[dict[str, Arrays]], list[Record]]:
    def records(done: dict[str, Arrays]) -> list[Record]:
        made = []
        for name, arrays in done.items():
            dataset, _, variant = name.partition(" ")
            made.append(_record(item, dataset, "accuracy", _final(arrays), variant=variant))
            if "aggregated_accuracy" in arrays:
                values = arrays["aggregated_accuracy"][:, -1].mean(-1)
                told = {"variant": variant, "stage": "aggregated"}
                made.append(_record(item, dataset, "aggregated_accuracy", values, **told))
        return made

    return records


def _times(done: dict[str, Arrays]) -> list[Record]:
    """Table 4; and how many bytes the network had sent by then."""
    made = []
    for name, arrays in done.items():
        dataset, _, variant = name.partition(" ")
        central = done.get(f"{dataset} centralised")
        if central is None or variant == "centralised":
            continue
        curve, goal = arrays["accuracy"].mean(-1), float(_final(central).mean())
        times = metrics.characteristic_times(curve, arrays["rounds"], goal, SHARES)
        for share, found in times.items():
            value = None if found.count == 0 else found.mean
            told = {"variant": variant, "share": share, "reached": f"{found.count}/{found.runs}"}
            one = _record("table-4", dataset, "rounds", [] if value is None else value, **told)
            made.append(one.model_copy(update={"reps": found.count}))
            sent = int(arrays["message_bytes"]) * int(arrays["messages"])
            if value is not None and sent:
                gigabytes = value * sent / 1e9
                made.append(_record("table-4", dataset, "gigabytes", gigabytes, **told))
    return made


def _drops(done: dict[str, Arrays]) -> list[Record]:
    """Figure 1: accuracy before and after the first aggregation, and in the end."""
    made = []
    for name, arrays in done.items():
        dataset, _, variant = name.partition(" ")
        stages = {"last round": arrays["accuracy"][:, -1].mean(-1)}
        if "aggregated_accuracy" in arrays:
            before = arrays["begun_accuracy"].mean(-1)
            after = arrays["aggregated_accuracy"][:, 0].mean(-1)
            stages |= {"trained alone": before, "first aggregation": after, "drop": before - after}
        for stage, values in stages.items():
            made.append(_record("figure-1", dataset, "accuracy", values, variant=variant, at=stage))
    return made


def _degrees(done: dict[str, Arrays]) -> list[Record]:
    made = []
    for arrays in done.values():
        degree = np.bincount(arrays["dst"], minlength=int(arrays["nodes"]))
        for kind, value in (("mean", degree.mean()), ("min", degree.min()), ("max", degree.max())):
            made.append(_record("figure-3", "graph", "degree", value, of=kind))
    return made


def _ginis(done: dict[str, Arrays]) -> list[Record]:
    made = []
    for name, arrays in done.items():
        made.append(_record("figure-4", name, "gini", arrays["gini"].mean(), of="classes, mean"))
        made.append(_record("figure-4", name, "gini", arrays["gini_of_totals"], of="node totals"))
    return made


def _losses(done: dict[str, Arrays]) -> list[Record]:
    """Figure 5: the lowest test loss, and how far above it the last is (overfitting)."""
    made = []
    for name, arrays in done.items():
        dataset, _, variant = name.partition(" ")
        curve = arrays["loss"].mean(-1)
        for at, values in (("lowest", curve.min(1)), ("last", curve[:, -1])):
            made.append(_record("figure-5", dataset, "loss", values, variant=variant, at=at))
    return made


def _boxes(done: dict[str, Arrays]) -> list[Record]:
    """Figure 6: spread of the nodes' accuracies after the last round."""
    made = []
    for name, arrays in done.items():
        dataset, _, variant = name.partition(" ")
        box = metrics.box(arrays["accuracy"][:, -1].reshape(-1))
        told = {
            "median": box["median"],
            "quartile range": box["q3"] - box["q1"],
            "worst": box["lowest"],
        }
        for of, value in told.items():
            made.append(_record("figure-6", dataset, "accuracy", value, variant=variant, of=of))
    return made


# Every item of the paper, and experiments of our own.
ITEMS: dict[str, Figure] = {
    "table-2": Figure(
        "Accuracy",
        "mean accuracy of the nodes after the last round; ± is the 95 % interval over replicas",
        _tasks(*TABLE_2),
        _accuracies("table-2"),
    ),
    "table-3": Figure(
        "Loss and aggregation",
        "cross-entropy or virtual teacher, DecAvg or DecDiff; the second is not in the paper",
        _tasks(*TABLE_3),
        _accuracies("table-3"),
    ),
    "table-4": Figure(
        "Characteristic times",
        "rounds until a share of the centralised accuracy, mean over the replicas that reach it",
        _tasks("centralised", *TABLE_4),
        _times,
    ),
    "figure-1": Figure(
        "The first aggregation",
        "i.i.d. rows on a Barabasi-Albert graph: what averaging destroys",
        _tasks_drop,
        _drops,
    ),
    "figure-3": Figure(
        "The graph", "one Erdos-Renyi graph in all runs, p = 0.2", _tasks_graph, _degrees
    ),
    "figure-4": Figure(
        "Who holds what", "rows of each class at each node, Zipf 1.26", _tasks_deal, _ginis
    ),
    "figure-5": Figure(
        "Test loss against rounds",
        "mean over the nodes of one replica; a loss that rises again is overfitting",
        _tasks(*TABLE_4),
        _losses,
    ),
    "figure-6": Figure(
        "Accuracy of single nodes", "after the last round", _tasks(*TABLE_4), _boxes
    ),
    "beta": Figure(
        "How sure the teacher is",
        "our own: DecDiff with cross-entropy, the virtual teacher at three betas, and the loss "
        "that is linear in probabilities",
        _tasks(*BETA),
        _accuracies("beta"),
    ),
}


def table_of(item: str) -> tuple[str, ...]:
    """The variants of an item in the order in which it shows them."""
    return {"table-2": TABLE_2, "table-3": TABLE_3, "beta": BETA}.get(item, TABLE_4)


def datasets(chosen: Iterable[str] | None = None) -> list[str]:
    """Which of the three sets are at hand, of those chosen."""
    return at_hand(SETS, chosen)


# What `peerwise reproduce decdiff/...` runs.
PAPER = TaskPaper("decdiff", ITEMS, datasets, claims)
