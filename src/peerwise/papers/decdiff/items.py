"""The experiments of "Coordination-free Decentralised Federated Learning on Complex Networks".

Valerio, Boldrini, Passarella, Kertesz, Karsai, Iniguez. Tables 2 to 4 and figures 5 and 6 are views
of the same runs: every method trains once for each data set. Below the paper's items come our own:
the missing cell of table 3 (virtual teacher with DecAvg), CFA with a full step, a common start, the
teacher's beta, and the teacher fed with probabilities (see `losses.linear_teacher`).
"""

from typing import Any

from peerwise.papers.decdiff.printed import SETS, printed
from peerwise.papers.items import (
    Description,
    Item,
    Paper,
    Plan,
    Reading,
    Scale,
    Table,
    Tasks,
    at_hand,
    deal_tasks,
    described,
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
# The paper's names and our colours; what it has not is marked.
STYLES = {
    "centralised": ("Centralised", "#111111"),
    "isolation": ("ISOL", "#8a8a8a"),
    "fedavg": ("FED", "#e69f00"),
    "dechetero": ("DecHetero", "#0072b2"),
    "cfa": ("CFA", "#009e73"),
    "cfa-ge": ("CFA-GE", "#8e44ad"),
    "decdiff": ("DecDiff", "#ef8a7a"),
    "decdiff+vt": ("DecDiff+VT", "#c8102e"),
    "dechetero+vt": ("DecHetero+VT (ours)", "#0072b2"),
    "decavg": ("DecAvg common start (ours)", "#56b4e9"),
    "cfa-1": ("CFA ε=1 (ours)", "#5fc9a5"),
    "decdiff+vt .9": ("DecDiff+VT β=.9 (ours)", "#7a4b12"),
    "decdiff+vt .95": ("DecDiff+VT β=.95 (ours)", "#b9770e"),
    "decdiff+linear": ("DecDiff+linear (ours)", "#d63384"),
}
NAMES = {
    "dataset": {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST",
                "emnist_letters": "EMNIST Letters"},
    "variant": {variant: name for variant, (name, _) in STYLES.items()},
    "share": lambda share: f"{share:.0%}",
}  # fmt: skip
TABLE_2 = ("centralised", "isolation", "fedavg", "dechetero", "decavg", "cfa", "cfa-1", "cfa-ge",
           "decdiff+vt")  # fmt: skip
TABLE_3 = ("dechetero", "dechetero+vt", "decdiff", "decdiff+vt")
TABLE_4 = ("dechetero", "cfa", "cfa-ge", "decdiff", "decdiff+vt", "fedavg", "isolation")
BETA = ("decdiff", "decdiff+vt .9", "decdiff+vt .95", "decdiff+vt", "decdiff+linear")
DROPS = ("centralised", "fedavg", "dechetero", "decdiff", "decdiff+vt")

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
    variety = {"method": VARIANTS[variant], "run": run}
    return described("peerwise.papers.decdiff.runs:learn", dealt, usual, size, variety, **more)


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
    return {"graph": described("graph", {"split": size, "network": whole["network"]})}


def _last(arrays: Any) -> Any:
    """Mean accuracy of the nodes after the last round, of every replica."""
    return arrays["accuracy"][:, -1].mean(-1)


# What is read of a run; what sends nothing aggregates nothing.
ACCURACIES = (
    Reading("accuracy", _last),
    Reading("aggregated_accuracy", lambda a: a["aggregated_accuracy"][:, -1].mean(-1)
            if a["message_bytes"] else None),
)  # fmt: skip
STEPS = (
    Reading("accuracy", _last, {"at": "last round"}),
    Reading("accuracy", lambda a: a["begun_accuracy"].mean(-1)
            if "aggregated_accuracy" in a else None, {"at": "trained alone"}),
    Reading("accuracy", lambda a: a["aggregated_accuracy"][:, 0].mean(-1),
            {"at": "first aggregation"}),
    Reading("accuracy", lambda a: a["begun_accuracy"].mean(-1)
            - a["aggregated_accuracy"][:, 0].mean(-1), {"at": "drop"}),
)  # fmt: skip
LOSSES = (
    Reading("loss", lambda a: a["loss"].mean(-1).min(1), {"at": "lowest"}),
    Reading("loss", lambda a: a["loss"].mean(-1)[:, -1], {"at": "last"}),
)
GINIS = (
    Reading("gini", lambda a: a["gini"].mean(), {"of": "classes, mean"}),
    Reading("gini", lambda a: a["gini_of_totals"], {"of": "node totals"}),
)
_FOUR = {"accuracy": ".4f", "aggregated_accuracy": ".4f", "degree": ".3g"}
_METHODS = Table(("variant",), ("dataset", "metric"), head="method", digits=_FOUR, paper=".4f",
                 names={"metric": {"accuracy": "", "aggregated_accuracy": "after aggregation"}})  # fmt: skip
_BY_SET = Table(("variant",), ("dataset", "at|of"), digits=_FOUR, least=None)
_OF_SETS = Table(("dataset",), ("of",), digits=_FOUR, least=None)
_TIMES = Table(("variant",), ("share", "metric"), ("dataset",), "{dataset}", paper=".2f",
               digits={"rounds": ".1f", "gigabytes": ".0f"}, least=None,
               names={"metric": {"rounds": "", "gigabytes": "GB sent"}})  # fmt: skip
_SURE = {"variant": {**NAMES["variant"], "decdiff+vt": "DecDiff+VT β=.99"}}  # type: ignore[dict-item]

REPLICAS = "±: 95 % interval over replicas, none where one was run"
REACHED = (
    "ours: first recorded round; (k/n): k of n replicas reach it, the mean is theirs; -: none does"
)

# Every item of the paper, and experiments of our own.
ITEMS: dict[str, Item] = {
    "table-2": Item(
        "Accuracy",
        "mean accuracy of the nodes after the last round; ± is the 95 % interval over replicas",
        _tasks(*TABLE_2), reads=ACCURACIES, tables=(_METHODS,), figure="progress", legend=REPLICAS,
    ),
    "table-3": Item(
        "Loss and aggregation",
        "cross-entropy or virtual teacher, DecAvg or DecDiff; the second is not in the paper",
        _tasks(*TABLE_3), reads=ACCURACIES, tables=(_METHODS,), figure="progress", legend=REPLICAS,
    ),
    "table-4": Item(
        "Characteristic times",
        "rounds until a share of the centralised accuracy, mean over the replicas that reach it",
        _tasks("centralised", *TABLE_4), reads="times", tables=(_TIMES,), legend=REACHED,
    ),
    "figure-1": Item(
        "The first aggregation",
        "i.i.d. rows on a Barabasi-Albert graph: what averaging destroys",
        _tasks_drop, reads=STEPS, tables=(_BY_SET,), figure="drop",
    ),
    "figure-3": Item(
        "The graph", "one Erdos-Renyi graph in all runs, p = 0.2", _tasks_graph, "{dataset}",
        "degrees", (_OF_SETS,), "graph",
    ),
    "figure-4": Item(
        "Who holds what", "rows of each class at each node, Zipf 1.26",
        deal_tasks(_dealt, QUICK["split"]), "{dataset}", GINIS, (_OF_SETS,),
        "papers.figures:allocation",
    ),
    "figure-5": Item(
        "Test loss against rounds",
        "mean over the nodes of one replica; a loss that rises again is overfitting",
        _tasks(*TABLE_4), reads=LOSSES, tables=(_BY_SET,), figure="losses",
    ),
    "figure-6": Item(
        "Accuracy of single nodes", "after the last round",
        _tasks(*TABLE_4), reads="boxes", tables=(_BY_SET,), figure="boxes",
    ),
    "beta": Item(
        "How sure the teacher is",
        "our own: DecDiff with cross-entropy, the virtual teacher at three betas, and the loss "
        "that is linear in probabilities",
        _tasks(*BETA), reads=ACCURACIES, tables=(_METHODS._replace(names={**_METHODS.names, **_SURE}),),
        figure="progress", legend=REPLICAS,
    ),
}  # fmt: skip


datasets = at_hand(SETS)

# What `peerwise reproduce decdiff/...` runs.
PAPER = Paper("decdiff", ITEMS, datasets, NAMES, printed)
