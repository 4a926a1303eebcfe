"""The experiments of "BA-BFL: Barycentric Aggregation for Bayesian Federated Learning".

Jamoussi, Serra, Stavrou, Kountouris. Table 1 and figures 3 to 5 are views of the same runs: five
rules, one to three Bayesian layers, and FedAvg, which has none; but for figure 4, whose rounds are
timed by themselves. The text at hand lacks the numbers
of table 1: what is compared are the paper's claims. Our own: the paper's start of variances, longer
training, and the same barycenters over the neighbourhoods of graphs and links that lose messages.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from peerwise import metrics
from peerwise.combine.barycenter import BARYCENTERS, barycenter_of
from peerwise.papers.ba_bfl.claims import claims
from peerwise.papers.items import Figure, TaskPaper, at_hand
from peerwise.study.results import Record
from peerwise.study.tasks import Task

__all__ = ["ITEMS", "LAYERS", "PAPER", "RULES", "TOY", "datasets"]

Arrays = dict[str, np.ndarray]
SETS = ("fashion_mnist", "cifar10", "svhn_derived_20k")  # the last is a subset of SVHN
# The paper's rules.
RULES = ("aalv", "eaa", "gaa", "rkl", "w2")
# How many of the last layers are Bayesian.
LAYERS = (1, 2, 3)
TOY = ((0.0, 2.0), (1.0, 0.25), (0.5, 0.5))  # means, variances and weights of figure 1
# Networks of our own item, from sparse to dense, and rules on them.
DENSITY = ("tree", "ring", "er-0.3", "er-0.5", "complete")
ON_GRAPHS = {"rkl 2": ("rkl", 2), "w2 2": ("w2", 2), "decavg": ("rkl", 0)}
FIGURE_1 = {"eaa": (1, 0.625), "gaa": (1, 0.3125), "aalv": (1, 0.5), "rkl": (1.6, 0.4),
            "w2": (1, 0.5625)}  # fmt: skip

# The paper: 50 rounds of 50 epochs.
FULL: dict[str, Any] = {"net": "lenet", "rounds": 20, "epochs": 5, "replicas": 2, "every": 5}
QUICK: dict[str, Any] = {"net": "mlp_200", "rounds": 8, "epochs": 2, "replicas": 1, "every": 4,
                         "rows": 4000, "test_rows": 1000, "lr": 0.05}  # fmt: skip
# Five times as many epochs in all, at either scale.
LONGER: dict[str, Any] = {"rounds": 50, "epochs": 10, "every": 25}
LONGER_QUICK: dict[str, Any] = {"rounds": 20, "epochs": 4, "every": 10}
LONGER_RULES = ("rkl", "w2")
MOVED = ("cifar10",)  # sets whose images are moved and mirrored in training
QUICK_SETS = 1  # so many sets in a quick run
QUICK_RULES = ("rkl", "w2", "gaa")
TIMED_RULE = "rkl"  # of figure 4


def _work(name: str, **arguments: Any) -> Task:
    return Task(f"peerwise.papers.ba_bfl.runs:{name}", arguments)


def _learn(name: str, rule: str, layers: int, quick: bool, runs: int | None, **more: Any) -> Task:
    told = {**(QUICK if quick else FULL), **more}
    told["replicas"] = runs or told["replicas"]
    if name in MOVED:
        told["moved"] = True
    return _work("learn", data=name, rule=rule, layers=layers, **told)


def _tasks(sets: list[str], quick: bool, runs: int | None) -> dict[str, Task]:
    """FedAvg, and every rule with one to three Bayesian layers."""
    made = {}
    for name in sets[:QUICK_SETS] if quick else sets:
        made[f"{name} 0 fedavg"] = _learn(name, "rkl", 0, quick, runs)
        for n in LAYERS:
            for rule in QUICK_RULES if quick else RULES:
                made[f"{name} {n} {rule}"] = _learn(name, rule, n, quick, runs)
    return made


def _tasks_pace(sets: list[str], quick: bool, runs: int | None) -> dict[str, Task]:
    """Figure 4: rounds of FedAvg and of one rule by layers, timed with nothing beside them."""
    scale = QUICK if quick else FULL
    told = {name: scale[name] for name in ("net", "epochs", "rows") if name in scale}
    made = {}
    for name in sets[:QUICK_SETS] if quick else sets:
        more = told | ({"moved": True} if name in MOVED else {})
        for n in (0, *LAYERS):
            called = f"{name} {n} {TIMED_RULE if n else 'fedavg'}"
            made[called] = _work("pace", data=name, rule=TIMED_RULE, layers=n, **more)
    return made


def _tasks_init(sets: list[str], quick: bool, runs: int | None) -> dict[str, Task]:
    """Variances that begin as in the paper's code, under the clamp, beside ours."""
    if "fashion_mnist" not in sets:
        return {}
    return {
        f"fashion_mnist 3 {rule}{' paper init' if paper else ''}": _learn(
            "fashion_mnist", rule, 3, quick, runs, **({"paper_init": True} if paper else {})
        )
        for paper in (False, True)
        for rule in (QUICK_RULES if quick else RULES)
    }


def _tasks_longer(sets: list[str], quick: bool, runs: int | None) -> dict[str, Task]:
    """As many rounds as the paper has, with a fifth of its epochs, for two of the rules."""
    told = LONGER_QUICK if quick else LONGER
    made = {}
    for name in sets[:QUICK_SETS] if quick else sets:
        made[f"{name} 0 fedavg"] = _learn(name, "rkl", 0, quick, runs or 1, **told)
        for n in LAYERS:
            for rule in LONGER_RULES[:1] if quick else LONGER_RULES:
                made[f"{name} {n} {rule}"] = _learn(name, rule, n, quick, runs or 1, **told)
    return made


def _tasks_graph(sets: list[str], quick: bool, runs: int | None) -> dict[str, Task]:
    if "fashion_mnist" not in sets:
        return {}
    graphs = DENSITY[1::2] if quick else DENSITY
    runs = runs or 1
    made = {
        f"{graph} 1.0|{name}": _learn("fashion_mnist", rule, n, quick, runs, graph=graph)
        for graph in graphs
        for name, (rule, n) in ON_GRAPHS.items()
    }
    lossy = "ring" if quick else "er-0.3"
    for name, (rule, n) in ON_GRAPHS.items():
        told = {"graph": lossy, "q": 0.3}
        made[f"{lossy} 0.3|{name}"] = _learn("fashion_mnist", rule, n, quick, runs, **told)
    return made


def _tasks_split(sets: list[str], quick: bool, runs: int | None) -> dict[str, Task]:
    told = {"rows": QUICK["rows"]} if quick else {}
    return {s: _work("allocation", data=s, **told) for s in sets}


def _no_tasks(sets: list[str], quick: bool, runs: int | None) -> dict[str, Task]:
    return {}


def _record(item: str, dataset: str, metric: str, values: Any, **setting: Any) -> Record:
    values = np.asarray(values, float).ravel()
    return Record(
        paper="ba-bfl",
        item=item,
        dataset=dataset,
        setting={"method": "ba_bfl", **setting},
        metric=metric,
        value=float(values.mean()) if values.size else None,
        std=float(values.std(ddof=1)) if values.size > 1 else None,
        reps=int(values.size),
    )


def _toy(done: dict[str, Arrays]) -> list[Record]:
    """Figure 1: the barycenters of N(0, 1) and N(2, 1/4), ours and the paper's."""
    made = []
    for rule in BARYCENTERS:
        found = barycenter_of(rule, *TOY)
        for which, value in zip(("mean", "variance"), found, strict=True):
            one = _record("figure-1", "toy", which, value, rule=rule)
            printed = FIGURE_1.get(rule, (None, None))[which == "variance"]
            made.append(one.model_copy(update={"paper_value": printed}))
    return made


def _splits(done: dict[str, Arrays]) -> list[Record]:
    made = []
    for name, arrays in done.items():
        total = arrays["counts"].sum(1)
        for of, value in (("least", total.min()), ("most", total.max())):
            made.append(_record("figure-2", name, "rows", value, of=of))
    return made


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


def _runs(item: str) -> Callable[[dict[str, Arrays]], list[Record]]:
    def records(done: dict[str, Arrays]) -> list[Record]:
        made = []
        for name, arrays in done.items():
            dataset, n, rule = name.split(" ", 2)
            found = _measures(arrays)
            told = {"layers": int(n), "rule": rule}
            for metric in SHOWN.get(item, SHOWN["table-1"]):
                if metric in found:
                    made.append(_record(item, dataset, metric, found[metric], **told))
        return made

    return records


def _paces(done: dict[str, Arrays]) -> list[Record]:
    made = []
    for name, arrays in done.items():
        dataset, n, rule = name.split(" ", 2)
        told = {"layers": int(n), "rule": rule}
        seconds = arrays["seconds_a_round"]
        made.append(_record("figure-4", dataset, "seconds_a_round", seconds, **told))
    return made


def _graphs(done: dict[str, Arrays]) -> list[Record]:
    made = []
    for name, arrays in done.items():
        where, _, variant = name.partition("|")
        graph, q = where.split()
        found = _measures(arrays)
        for metric in ("accuracy", "ece", "nll", "local_worst"):
            told = {"graph": graph, "q": float(q), "variant": variant}
            made.append(_record("graph", "fashion_mnist", metric, found[metric], **told))
    return made


# Every table and figure of the paper, and experiments of our own.
ITEMS: dict[str, Figure] = {
    "figure-1": Figure(
        "Barycenters of two Gaussians", "N(0, 1) and N(2, 1/4), weights 1/2", _no_tasks, _toy,
        needs_data=False,
    ),
    "figure-2": Figure(
        "Who holds what", "Dirichlet .5 class by class over 10 nodes", _tasks_split, _splits
    ),
    "table-1": Figure(
        "Accuracy, calibration and uncertainty of the merged model",
        "after the last round, on a server; numbers of the paper's table are not at hand",
        _tasks,
        _runs("table-1"),
    ),
    "figure-3": Figure(
        "Calibration by Bayesian layers", "expected calibration error and log-loss", _tasks,
        _runs("figure-3"),
    ),
    "figure-4": Figure(
        "Cost by Bayesian layers", "seconds of a round of one replica, on a server", _tasks_pace,
        _paces,
    ),
    "figure-5": Figure(
        "Fairness by Bayesian layers",
        "local models on all test rows, and the merged model on nodes' own rows: mean and worst",
        _tasks,
        _runs("figure-5"),
    ),
    "init": Figure(
        "How variances begin",
        "our own: log-variances of -6, and of -9 under a clamp at -8 as in the paper's code",
        _tasks_init,
        _runs("init"),
    ),
    "longer": Figure(
        "Five times as much training",
        "our own: 50 rounds of 10 epochs, one replica, two of the rules",
        _tasks_longer,
        _runs("longer"),
    ),
    "graph": Figure(
        "Barycenters over neighbourhoods",
        "our own: Fashion-MNIST, sparse to dense graphs and 70 % loss, beside DecAvg",
        _tasks_graph,
        _graphs,
    ),
}  # fmt: skip


def datasets(chosen: Iterable[str] | None = None) -> list[str]:
    """Which of the three sets are at hand, of those chosen."""
    return at_hand(SETS, chosen)


# What `peerwise reproduce ba-bfl/...` runs.
PAPER = TaskPaper("ba-bfl", ITEMS, datasets, claims)
