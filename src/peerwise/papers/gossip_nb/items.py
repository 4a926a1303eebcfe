"""The experiments of "Towards a Realistic Decentralized Naive Bayes with Differential Privacy".

The paper prints figures and no tables; its claims are checked, each with the numbers. Below its
figures come experiments of our own: what clamping at nodes does, skewed rows, attackers, and
private calibration (CRC) at the same budget.
"""

from typing import Any

import numpy as np

from peerwise.papers.items import (
    Description,
    Item,
    Paper,
    Reading,
    Scale,
    Table,
    Tasks,
    at_hand,
    merged,
)
from peerwise.study.jobs import Task

# Privacy budgets: half decades.
EPSILONS = [float(e) for e in 10.0 ** np.arange(-2, 1.25, 0.5)]
NODES = (1, 10, 100, 1000)  # sizes of the network
# The paper's six data sets: its name -> ours.
SETS = {
    "Accelerometer": "accelerometer",
    "Adult": "adult",
    "Congressional Voting": "congressional_voting",
    "Mushroom": "mushroom",
    "Skin Segmentation": "skin",
    "SPECT Heart": "spect_heart",
}
TRIALS, QUICK_TRIALS = 1000, 50
ROWS = {  # of training, by which configurations are left out
    **{"accelerometer": 137_700, "adult": 32_561, "congressional_voting": 391},
    **{"mushroom": 7_311, "skin": 220_551, "spect_heart": 80},
}
NUMERIC = ("accelerometer", "adult", "skin")
SKEWS = ("iid", "feature_drift", "label_sorted", "dirichlet", "clusters")


def _work(name: str, **arguments: Any) -> Task:
    return Task(f"peerwise.papers.gossip_nb.runs:{name}", arguments)


def _tasks_2(sets: list[str], scale: Scale) -> Tasks:
    many = scale.times(TRIALS, QUICK_TRIALS)
    tasks = {}
    for name in sets:
        tasks[f"{name} central"] = _work("central", data=name, epsilons=EPSILONS, trials=many)
        for n in NODES:
            if 2 * n <= ROWS[name]:
                shared = {"data": name, "nodes": n, "epsilons": EPSILONS, "trials": many}
                tasks[f"{name} {n}"] = _work("accuracy", **shared)
    return tasks


def _tasks_3(sets: list[str], scale: Scale) -> Tasks:
    many = min(scale.times(TRIALS, QUICK_TRIALS), 20)
    return {
        name: _work("sensitivity", data=name, nodes=[10, 100], trials=many)
        for name in sets
        if name in NUMERIC
    }


def _tasks_4(sets: list[str], scale: Scale) -> Tasks:
    if "adult" not in sets:
        return {}
    shared = {"data": "adult", "nodes": 1000, "epsilons": EPSILONS}
    many = scale.times(TRIALS, QUICK_TRIALS)
    return {
        f"adult {sizes}": _work("accuracy", **shared, trials=many, **_sizes(sizes))
        for sizes in ("equal", "uniform", "exponential")
    }


def _sizes(kind: str) -> dict[str, str]:
    return {} if kind == "equal" else {"sizes": kind}  # equal is Figure 2's: the same task


def _tasks_5(sets: list[str], scale: Scale) -> Tasks:
    runs = min(scale.times(TRIALS, QUICK_TRIALS), 4 if scale.quick else 40)
    return {n: _work("threshold", data=n, runs=runs) for n in sets if n in ("adult", "skin")}


def _tasks_6(sets: list[str], scale: Scale) -> Tasks:
    if "adult" not in sets:
        return {}
    shared: dict[str, Any] = {"data": "adult", "nodes": 1000, "epsilon": float(10**0.5)}
    size = {"rounds": 50, "test_rows": 2000} if scale.quick else {"rounds": 100}
    counters = ("printed", "push_sum") if scale.quick else ("printed", "total", "push_sum", "walk")
    tasks = {f"adult {c}": _work("gossip", **shared, **size, counter=c) for c in counters}
    few = {"rounds": size["rounds"], "test_rows": 2000 if scale.quick else 4000}
    clamped = _work("gossip", **shared, **few, counter="printed", clamp_at_node=True)
    return {**tasks, "adult clamped": clamped}


def _tasks_7(sets: list[str], scale: Scale) -> Tasks:
    return {k: t for k, t in _tasks_6(sets, scale).items() if k == "adult printed"}


def _tasks_clamping(sets: list[str], scale: Scale) -> Tasks:
    many = min(scale.times(TRIALS, QUICK_TRIALS), 20 if scale.quick else 100)
    tasks = {}
    for name in (s for s in sets if s in ("adult", "mushroom")):
        for n in (100, 1000):
            shared = {"data": name, "nodes": n, "epsilons": EPSILONS, "trials": many}
            tasks[f"{name} {n} model"] = _work("accuracy", **shared)
            tasks[f"{name} {n} node"] = _work("clamping", **shared)
        tasks[f"{name} bias"] = _work("bias", data=name, nodes=1000, epsilon=1.0, trials=10)
    return tasks


def _learn(name: str, method: str, epsilon: float | None, *more: Description) -> Task:
    """Test errors of 50 nodes at a budget, three times."""
    usual: Description = {
        "data": {"source": name},
        "split": {"nodes": 50, "test_rows": 4000},
        "method": {"name": method},
        "privacy": {"epsilon": epsilon},
        "run": {"repetitions": 3},
    }
    return _work("errors", description=merged(usual, *more))


def _tasks_skew(sets: list[str], scale: Scale) -> Tasks:
    names = [s for s in sets if s in ("adult", "mushroom", "skin")]
    networks: dict[str, Description] = {
        "gossip_nb": {"network": {"topology": "complete", "push": True}},
        "federated_nb": {},
    }
    tasks = {}
    for name in names[:1] if scale.quick else names:
        for skew in SKEWS:
            dealt = {"data": {"typing": "manifest"}, "split": {"partition": skew, "rows": 100}}
            for method, network in networks.items():
                for epsilon in (None, 1.0):
                    task = _learn(name, method, epsilon, dealt, network)
                    tasks[f"{name} {skew} {method} {epsilon}"] = task
    return tasks


def _tasks_crc(sets: list[str], scale: Scale) -> Tasks:
    names = [s for s in sets if s in ("adult", "skin", "accelerometer")]
    rows: Description = {"split": {"rows": 400}}
    calibrated: Description = {
        "method": {"lr": 0.2, "clip": 3.0},
        "network": {"topology": "regular", "k": 6},
    }
    tasks = {}
    for name in names[:1] if scale.quick else names:
        for epsilon in (0.1, 0.3, 1.0, 3.0, 10.0, None):
            tasks[f"{name} federated_nb {epsilon}"] = _learn(name, "federated_nb", epsilon, rows)
            for rounds in (8, 32):
                long = {"run": {"rounds": rounds}}
                task = _learn(name, "private_crc", epsilon, rows, calibrated, long)
                tasks[f"{name} private_crc-{rounds} {epsilon}"] = task
    return tasks


def _tasks_attack(sets: list[str], scale: Scale) -> Tasks:
    if "adult" not in sets:
        return {}
    shared = {"data": "adult", "nodes": 100, "trials": 3 if scale.quick else 10}
    return {f"adult {e}": _work("attacked", **shared, epsilon=e) for e in (None, 10.0)}


def _variant(variant: str) -> str:
    """A variant as the figure's legend has it."""
    known = {"vanilla": "no noise", "central": "centralised DP"}
    return f"N = {variant}" if variant[0].isdigit() else known.get(variant, variant)


NAMES = {
    "variant": _variant,
    "epsilon": lambda epsilon: f"{epsilon:.3g}" if isinstance(epsilon, float) else epsilon,
}


def _table(column: str, *rows: str) -> tuple[Table, ...]:
    """Rows named by their data set and other fields, a column for each value of one."""
    named = {"accuracy": ""} if "metric" in rows else {}
    return (Table(("dataset", *rows), (column,), between=" ", names={"metric": named}),)


_BUDGETS = _table("epsilon", "variant")
_ERROR = (Reading("test_error", lambda a: a["error"].mean(-1)),)

# Every figure of the paper, and experiments of our own.
ITEMS: dict[str, Item] = {
    "figure-2": Item(
        "Accuracy against epsilon",
        "Federated naive Bayes of N nodes, the centralised baseline of Vaidya et al., no noise",
        _tasks_2, reads="accuracies", tables=_BUDGETS, figure="accuracy",
    ),
    "figure-3": Item(
        "Local sensitivity", "of sums at a node, relative to one node with all rows",
        _tasks_3, "{dataset}", "sensitivities", _table("nodes"), "sensitivity",
    ),
    "figure-4": Item(
        "Sizes of nodes", "Adult, 1000 nodes: equal, U[1, 10], Exp(2)",
        _tasks_4, reads="accuracies", tables=_BUDGETS, figure="sizes",
    ),
    "figure-5": Item(
        "Leaving out noisy nodes",
        "log-uniform sizes and budgets; the relative error is known to an oracle only",
        _tasks_5, "{dataset}", "thresholds", _table("kept"), "threshold",
    ),
    "figure-6": Item(
        "Gossip against iterations",
        "Adult, 1000 nodes, epsilon = 10^0.5: accuracy of the nodes and of Federated",
        _tasks_6, "{dataset} {counter}", "gossip", _table("round", "method", "counter"), "gossip",
    ),
    "figure-7": Item(
        "Parameters against iterations",
        "the same run: priors, categories, means, standard deviations",
        _tasks_7, "{dataset} {counter}", "parameters", _table("round", "parameter"), "parameters",
    ),
    "clamping": Item(
        "Clamping at nodes or at the model",
        "our own: what making counts positive before sending does (the authors' code does so)",
        _tasks_clamping, reads="clamping", tables=_table("epsilon", "variant", "where", "metric"),
    ),
    "skew": Item(
        "Skewed rows", "our own: 50 nodes of 100 rows, bounded sensitivity; test error",
        _tasks_skew, "{dataset} {partition} {method} {epsilon}", _ERROR,
        _table("partition", "method", "epsilon"),
    ),
    "private-crc": Item(
        "Private calibration",
        "our own: CRC with T noised rounds beside Federated naive Bayes at the same budget "
        "(bounded sensitivity, 50 nodes of 400 rows, 6-regular); test error",
        _tasks_crc, "{dataset} {method} {epsilon}", _ERROR, _table("epsilon", "method"),
    ),
    "attack": Item(
        "Byzantine nodes",
        "our own: accuracy with 1, 5, 10 % of 100 nodes lying, by rule of aggregation",
        _tasks_attack, "{dataset} {epsilon}", "attacks",
        _table("rule", "epsilon", "kind", "share"),
    ),
}  # fmt: skip


datasets = at_hand(SETS)

# What `peerwise reproduce gossip-nb/...` runs.
PAPER = Paper("gossip-nb", ITEMS, datasets, NAMES)
