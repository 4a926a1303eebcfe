"""The experiments of "Coordination-free Decentralised Federated Learning on Complex Networks".

Valerio, Boldrini, Passarella, Kertesz, Karsai, Iniguez. Tables 2 to 4 and figures 5 and 6 are views
of the same runs: every method trains once for each data set. Below the paper's items come our own:
the missing cell of table 3 (virtual teacher with DecAvg), CFA with a full step, a common start, the
teacher's beta, and the teacher fed with probabilities (see `losses.linear_teacher`).
"""

from functools import partial
from typing import Any

from peerwise.papers.decdiff.printed import SETS
from peerwise.papers.items import (
    Description,
    Plan,
    Scale,
    TaskItem,
    TaskPaper,
    Tasks,
    at_hand,
    deal_tasks,
    merged,
)
from peerwise.study.jobs import Task

_TEACHER = {"loss": "virtual_teacher"}
# What is trained, by name: method and loss.
VARIANTS: dict[str, dict[str, Any]] = {
    "centralised": {"name": "pooled_net"},
    "isolation": {"name": "isolated_net"},
    "fedavg": {"name": "fedavg"},
    "dechetero": {"name": "decavg"},
    "cfa": {"name": "cfa"},
    "cfa-ge": {"name": "cfa_ge"},
    "decdiff": {"name": "decdiff"},
    "decdiff+vt": {"name": "decdiff", **_TEACHER},
    "dechetero+vt": {"name": "decavg", **_TEACHER},
    "decavg": {"name": "decavg", "start": "common"},
    "cfa-1": {"name": "cfa", "epsilon": 1.0},
    "decdiff+vt .9": {"name": "decdiff", **_TEACHER, "beta": 0.9},
    "decdiff+vt .95": {"name": "decdiff", **_TEACHER, "beta": 0.95},
    "decdiff+linear": {"name": "decdiff", "loss": "linear_teacher"},
}
TABLE_2 = ("centralised", "isolation", "fedavg", "dechetero", "decavg", "cfa", "cfa-1", "cfa-ge",
           "decdiff+vt")  # fmt: skip
TABLE_3 = ("dechetero", "dechetero+vt", "decdiff", "decdiff+vt")
TABLE_4 = ("dechetero", "cfa", "cfa-ge", "decdiff", "decdiff+vt", "fedavg", "isolation")
BETA = ("decdiff", "decdiff+vt .9", "decdiff+vt .95", "decdiff+vt", "decdiff+linear")
DROPS = ("centralised", "fedavg", "dechetero", "decdiff", "decdiff+vt")
QUIET = ("centralised", "isolation")  # they aggregate nothing

_BOTH = {"stages": ["combine", "adapt"]}
# One epoch a round with five times the paper's learning rate goes as far in a round as the five
# epochs that are likely its own, and costs a fifth.
FULL: dict[str, Description] = {
    "mnist": {"net": "mlp", "method": {"momentum": 0.5},
              "run": {"rounds": 1000, "record": 20, "repetitions": 2, **_BOTH}},
    "fashion_mnist": {"net": "cnn", "method": {"momentum": 0.9},
                      "run": {"rounds": 100, "record": 10, "repetitions": 1}},
    "emnist_letters": {"net": "cnn_dropout", "method": {"momentum": 0.9},
                       "split": {"test_rows": 20_800},
                       "run": {"rounds": 100, "record": 10, "repetitions": 1}},
}  # fmt: skip
CENTRAL = {"mnist": 60, "fashion_mnist": 30, "emnist_letters": 30}  # epochs: it stands still then
EXCHANGED = {"mnist": 256, "fashion_mnist": 64, "emnist_letters": 64}  # rows of a CFA-GE gradient
FEW: Description = {"train_rows": 6000, "test_rows": 2000}  # rows of a quick run
QUICK: Description = {
    "net": "mlp_64", "split": {"nodes": 20, **FEW}, "method": {"lr": 0.025, "momentum": 0.5},
    "network": {"p": 0.5}, "run": {"rounds": 40, "record": 5, "repetitions": 1, **_BOTH},
}  # fmt: skip


def _dealt(name: str) -> Description:
    """A set as the paper deals it, to 50 nodes of one random graph."""
    return {
        "data": {"source": name, "scale": "all"},
        "split": {"partition": "zipf", "nodes": 50, "rows": "all", "test": "own"},
        "network": {"topology": "erdos_renyi", "p": 0.2, "fixed": True},
    }


def _learn(dealt: Description, size: Description, variant: str, scale: Scale, **more: Any) -> Task:
    """A task that trains a variant at some size on rows that are dealt in some way."""
    often = scale.repetitions or size["run"]["repetitions"]
    run: Description = {"early": True, "metrics": ["consensus"], "repetitions": often}
    if variant == "centralised":
        run["stages"] = ["adapt"]
    usual: Description = {"method": {"epochs": 1, "lr": 0.005, "batch": 32}}
    description = merged(dealt, usual, size, {"method": VARIANTS[variant], "run": run})
    return Task("peerwise.papers.decdiff.runs:learn", {"description": description, **more})


def _tasks(*variants: str) -> Plan:
    def task(name: str, variant: str, scale: Scale) -> Task:
        size = QUICK if scale.quick else FULL[name]
        if variant == "centralised":
            rounds = min(size["run"]["rounds"], CENTRAL[name])
            size = merged(size, {"run": {"rounds": rounds, "record": max(1, rounds // 10)}})
        if variant == "cfa-ge":
            size = merged(size, {"method": {"rows": EXCHANGED[name]}})
        return _learn(_dealt(name), size, variant, scale)

    return lambda sets, scale: {f"{s} {v}": task(s, v, scale) for s in sets for v in variants}


def _tasks_drop(sets: list[str], scale: Scale) -> Tasks:
    name = next((s for s in ("mnist", "fashion_mnist") if s in sets), None)
    if name is None:
        return {}
    size: Description = {"net": "mlp", "split": {"nodes": 100}, "run": {"rounds": 30}}
    if scale.quick:
        size = {"net": "mlp_64", "split": {"nodes": 30, **FEW}, "run": {"rounds": 10}}
    training = {"epochs": 5, "momentum": 0.5}
    run = {"record": 1, "repetitions": 1, **_BOTH}
    size = merged(size, {"split": {"partition": "iid"}, "method": training, "run": run})
    graph = {"topology": "barabasi_albert", "m": 2, "fixed": True}
    dealt = {**_dealt(name), "network": graph}
    return {f"{name} {v}": _learn(dealt, size, v, scale, begun=True) for v in DROPS}


def _tasks_graph(sets: list[str], scale: Scale) -> Tasks:
    whole = merged(_dealt(""), QUICK if scale.quick else {})
    # the graph is the same whatever the rows: two of the bundled digits for each node
    size = {"nodes": whole["split"]["nodes"], "rows": 2}
    description = {"split": size, "network": whole["network"]}
    return {"graph": Task("peerwise.papers.learning:graph", {"description": description})}


REPLICAS = "±: 95 % interval over replicas, none where one was run; blank: not run"
REACHED = (
    "ours: first recorded round; (k/n): k of n replicas reach it, the mean is theirs; "
    "-: none does; blank: not run"
)

_accuracies = partial(
    TaskItem, records="accuracies", tables="accuracy_table", figure="progress", legend=REPLICAS
)


def _numbers(title: str, about: str, tasks: Plan, records: str, figure: str) -> TaskItem:
    return TaskItem(title, about, tasks, records, "number_table", figure)


# Every item of the paper, and experiments of our own.
ITEMS: dict[str, TaskItem] = {
    "table-2": _accuracies(
        "Accuracy",
        "mean accuracy of the nodes after the last round; ± is the 95 % interval over replicas",
        _tasks(*TABLE_2),
    ),
    "table-3": _accuracies(
        "Loss and aggregation",
        "cross-entropy or virtual teacher, DecAvg or DecDiff; the second is not in the paper",
        _tasks(*TABLE_3),
    ),
    "table-4": TaskItem(
        "Characteristic times",
        "rounds until a share of the centralised accuracy, mean over the replicas that reach it",
        _tasks("centralised", *TABLE_4),
        "times",
        "times_tables",
        legend=REACHED,
    ),
    "figure-1": _numbers(
        "The first aggregation",
        "i.i.d. rows on a Barabasi-Albert graph: what averaging destroys",
        *(_tasks_drop, "drops", "drop"),
    ),
    "figure-3": _numbers(
        "The graph", "one Erdos-Renyi graph in all runs, p = 0.2", _tasks_graph, "degrees", "graph"
    ),
    "figure-4": _numbers(
        "Who holds what",
        "rows of each class at each node, Zipf 1.26",
        *(deal_tasks(_dealt, QUICK["split"]), "ginis", "allocation"),
    ),
    "figure-5": _numbers(
        "Test loss against rounds",
        "mean over the nodes of one replica; a loss that rises again is overfitting",
        *(_tasks(*TABLE_4), "losses", "losses"),
    ),
    "figure-6": _numbers(
        "Accuracy of single nodes", "after the last round", _tasks(*TABLE_4), "boxes", "boxes"
    ),
    "beta": _accuracies(
        "How sure the teacher is",
        "our own: DecDiff with cross-entropy, the virtual teacher at three betas, and the loss "
        "that is linear in probabilities",
        _tasks(*BETA),
    ),
}


def table_of(item: str) -> tuple[str, ...]:
    """The variants of an item in the order in which it shows them."""
    return {"table-2": TABLE_2, "table-3": TABLE_3, "beta": BETA}.get(item, TABLE_4)


datasets = partial(at_hand, SETS)  # those chosen -> which of the three sets are at hand

# What `peerwise reproduce decdiff/...` runs.
PAPER = TaskPaper("decdiff", "peerwise.papers.decdiff", ITEMS, datasets)
