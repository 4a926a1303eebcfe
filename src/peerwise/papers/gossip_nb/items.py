"""The experiments of "Towards a Realistic Decentralized Naive Bayes with Differential Privacy".

The paper prints figures and no tables; its claims are checked, each with the numbers. Below its
figures come experiments of our own: what clamping at nodes does, skewed rows, attackers, and
private calibration (CRC) at the same budget.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from peerwise import data
from peerwise.errors import UnknownName
from peerwise.papers.gossip_nb.claims import EPSILONS, NODES, SETS, claims
from peerwise.papers.items import Figure, TaskPaper
from peerwise.study.results import Record
from peerwise.study.tasks import Task

__all__ = ["ITEMS", "PAPER", "datasets"]

TRIALS, QUICK_TRIALS = 1000, 50
ROWS = {  # of training, by which configurations are left out
    **{"accelerometer": 137_700, "adult": 32_561, "congressional_voting": 391},
    **{"mushroom": 7_311, "skin": 220_551, "spect_heart": 80},
}
NUMERIC = ("accelerometer", "adult", "skin")
SKEWS = ("iid", "feature_drift", "label_sorted", "dirichlet", "clusters")
Arrays = dict[str, np.ndarray]


def _work(name: str, **arguments: Any) -> Task:
    return Task(f"peerwise.papers.gossip_nb.runs:{name}", arguments)


def _trials(quick: bool, trials: int | None) -> int:
    return trials or (QUICK_TRIALS if quick else TRIALS)


def _tasks_2(sets: list[str], quick: bool, trials: int | None) -> dict[str, Task]:
    many = _trials(quick, trials)
    tasks = {}
    for name in sets:
        tasks[f"{name} central"] = _work("central", data=name, epsilons=EPSILONS, trials=many)
        for n in NODES:
            if 2 * n <= ROWS[name]:
                told = {"data": name, "nodes": n, "epsilons": EPSILONS, "trials": many}
                tasks[f"{name} {n}"] = _work("accuracy", **told)
    return tasks


def _tasks_3(sets: list[str], quick: bool, trials: int | None) -> dict[str, Task]:
    many = min(_trials(quick, trials), 20)
    return {
        name: _work("sensitivity", data=name, nodes=[10, 100], trials=many)
        for name in sets
        if name in NUMERIC
    }


def _tasks_4(sets: list[str], quick: bool, trials: int | None) -> dict[str, Task]:
    if "adult" not in sets:
        return {}
    told = {"data": "adult", "nodes": 1000, "epsilons": EPSILONS}
    many = _trials(quick, trials)
    return {
        f"adult {sizes}": _work("accuracy", **told, trials=many, **_sizes(sizes))
        for sizes in ("equal", "uniform", "exponential")
    }


def _sizes(kind: str) -> dict[str, str]:
    return {} if kind == "equal" else {"sizes": kind}  # equal is Figure 2's: the same task


def _tasks_5(sets: list[str], quick: bool, trials: int | None) -> dict[str, Task]:
    runs = min(_trials(quick, trials), 4 if quick else 40)
    return {n: _work("threshold", data=n, runs=runs) for n in sets if n in ("adult", "skin")}


def _tasks_6(sets: list[str], quick: bool, trials: int | None) -> dict[str, Task]:
    if "adult" not in sets:
        return {}
    told: dict[str, Any] = {"data": "adult", "nodes": 1000, "epsilon": float(10**0.5)}
    size = {"rounds": 50, "test_rows": 2000} if quick else {"rounds": 100}
    counters = ("printed", "push_sum") if quick else ("printed", "total", "push_sum", "walk")
    tasks = {f"adult {c}": _work("gossip", **told, **size, counter=c) for c in counters}
    few = {"rounds": size["rounds"], "test_rows": 2000 if quick else 4000}
    clamped = _work("gossip", **told, **few, counter="printed", clamp_at_node=True)
    return {**tasks, "adult clamped": clamped}


def _tasks_7(sets: list[str], quick: bool, trials: int | None) -> dict[str, Task]:
    return {k: t for k, t in _tasks_6(sets, quick, trials).items() if k == "adult printed"}


def _tasks_clamping(sets: list[str], quick: bool, trials: int | None) -> dict[str, Task]:
    many = min(_trials(quick, trials), 20 if quick else 100)
    tasks = {}
    for name in (s for s in sets if s in ("adult", "mushroom")):
        for n in (100, 1000):
            told = {"data": name, "nodes": n, "epsilons": EPSILONS, "trials": many}
            tasks[f"{name} {n} model"] = _work("accuracy", **told)
            tasks[f"{name} {n} node"] = _work("clamping", **told)
        tasks[f"{name} bias"] = _work("bias", data=name, nodes=1000, epsilon=1.0, trials=10)
    return tasks


def _tasks_skew(sets: list[str], quick: bool, trials: int | None) -> dict[str, Task]:
    names = [s for s in sets if s in ("adult", "mushroom", "skin")]
    return {
        f"{name} {skew} {method} {epsilon}": _work(
            "skewed", data=name, partition=skew, epsilon=epsilon, method=method
        )
        for name in (names[:1] if quick else names)
        for skew in SKEWS
        for method in ("gossip_nb", "federated_nb")
        for epsilon in (None, 1.0)
    }


def _tasks_crc(sets: list[str], quick: bool, trials: int | None) -> dict[str, Task]:
    names = [s for s in sets if s in ("adult", "skin", "accelerometer")]
    tasks = {}
    for name in names[:1] if quick else names:
        for epsilon in (0.1, 0.3, 1.0, 3.0, 10.0, None):
            told = {"data": name, "epsilon": epsilon}
            tasks[f"{name} federated_nb {epsilon}"] = _work(
                "private_calibration", **told, method="federated_nb"
            )
            for rounds in (8, 32):
                tasks[f"{name} private_crc-{rounds} {epsilon}"] = _work(
                    "private_calibration", **told, method="private_crc", rounds=rounds
                )
    return tasks


def _tasks_attack(sets: list[str], quick: bool, trials: int | None) -> dict[str, Task]:
    if "adult" not in sets:
        return {}
    told = {"data": "adult", "nodes": 100, "trials": 3 if quick else 10}
    return {f"adult {e}": _work("attacked", **told, epsilon=e) for e in (None, 10.0)}


def _record(item: str, dataset: str, metric: str, values: Any, **setting: Any) -> Record:
    values = np.asarray(values, float).ravel()
    return Record(
        paper="gossip-nb",
        item=item,
        dataset=dataset,
        setting={"method": "federated_nb", **setting},
        metric=metric,
        value=float(values.mean()) if values.size else None,
        std=float(values.std()) if values.size > 1 else None,
        reps=int(values.size),
    )


def _accuracies(item: str) -> Callable[[dict[str, Arrays]], list[Record]]:
    """Records of tasks named "set variant" that hold accuracies [epsilons, trials]."""

    def records(done: dict[str, Arrays]) -> list[Record]:
        made = []
        for name, arrays in done.items():
            if "accuracy" not in arrays:
                continue
            dataset, _, variant = name.partition(" ")
            for epsilon, values in zip(EPSILONS, arrays["accuracy"], strict=True):
                told = {"variant": variant, "epsilon": epsilon}
                made.append(_record(item, dataset, "accuracy", values, **told))
            if "vanilla" in arrays:
                plain = arrays["vanilla"][:1]
                made.append(
                    _record(item, dataset, "accuracy", plain, variant="vanilla", epsilon="none")
                )
        return made

    return records


def _records_3(done: dict[str, Arrays]) -> list[Record]:
    return [
        _record("figure-3", name, "median_sensitivity", arrays[n][50], nodes=int(n[1:]))
        for name, arrays in done.items()
        for n in arrays
    ]


def _records_5(done: dict[str, Arrays]) -> list[Record]:
    made = []
    for name, arrays in done.items():
        accuracy = arrays["accuracy"]
        last = [row[~np.isnan(row)][-1] for row in accuracy]
        best = np.nanmax(accuracy, axis=1)
        for kept, values in (("1", accuracy[:, 0]), ("all", last), ("best", best)):
            made.append(_record("figure-5", name, "accuracy", values, kept=kept))
    return made


def _records_6(done: dict[str, Arrays]) -> list[Record]:
    made = []
    for name, arrays in done.items():
        dataset, _, counter = name.partition(" ")
        told: dict[str, Any] = {"method": "gossip_nb", "counter": counter}
        rounds = len(arrays["accuracy"])
        for t in sorted({1, 5, 10, 30, 50, 100} & set(range(1, rounds + 1))):
            median = np.median(arrays["accuracy"][t - 1])
            made.append(_record("figure-6", dataset, "accuracy", median, **told, round=t))
        told = {"counter": counter} if counter == "clamped" else {}
        made.append(_record("figure-6", dataset, "accuracy", arrays["federated"], **told))
    return made


def _apart(arrays: Arrays, kind: str, t: int) -> float:
    """How far the median parameters of a kind are from Federated's after t rounds, relatively."""
    ours, theirs = arrays[kind][1, t - 1], arrays[f"federated_{kind}"]
    return float(np.median(np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1e-12)))


def _records_7(done: dict[str, Arrays]) -> list[Record]:
    return [
        _record("figure-7", name.partition(" ")[0], "deviation", _apart(arrays, kind, t),
                method="gossip_nb", parameter=kind, round=t)
        for name, arrays in done.items()
        for kind in ("prior", "category", "mean", "std")
        if kind in arrays
        for t in sorted({10, 30, arrays[kind].shape[1]})
        if t <= arrays[kind].shape[1]
    ]  # fmt: skip


def _records_bias(done: dict[str, Arrays]) -> list[Record]:
    made = _accuracies("clamping")({k: v for k, v in done.items() if not k.endswith("bias")})
    for name, arrays in done.items():
        if name.endswith("bias"):
            rare = arrays["exact"] < np.quantile(arrays["exact"], 0.25)
            for kind in ("plain", "clamped"):
                drift = (arrays[kind] - arrays["exact"])[rare].mean()
                told = {"where": kind, "nodes": 1000, "epsilon": 1.0}
                made.append(_record("clamping", name.partition(" ")[0], "bias", drift, **told))
    return made


def _errors(item: str, *keys: str) -> Callable[[dict[str, Arrays]], list[Record]]:
    """Records of tasks that are named by their data set and the values of `keys`."""

    def records(done: dict[str, Arrays]) -> list[Record]:
        made = []
        for name, arrays in done.items():
            dataset, *values = name.split(" ")
            told = dict(zip(keys, values, strict=True))
            made.append(_record(item, dataset, "test_error", arrays["error"].mean(-1), **told))
        return made

    return records


def _records_attack(done: dict[str, Arrays]) -> list[Record]:
    made = []
    for name, arrays in done.items():
        dataset, _, epsilon = name.partition(" ")
        for i in range(len(arrays["accuracy"])):
            told = {k: arrays[k][i].item() for k in ("rule", "kind", "share") if k in arrays}
            accuracy = arrays["accuracy"][i]
            found = _record("attack", dataset, "accuracy", accuracy, **told, epsilon=epsilon)
            over = {"std": float(arrays["std"][i]), "reps": int(arrays["trials"][i])}
            made.append(found.model_copy(update=over))
    return made


# Every figure of the paper, and experiments of our own.
ITEMS: dict[str, Figure] = {
    "figure-2": Figure(
        "Accuracy against epsilon",
        "Federated naive Bayes of N nodes, the centralised baseline of Vaidya et al., no noise",
        _tasks_2,
        _accuracies("figure-2"),
    ),
    "figure-3": Figure(
        "Local sensitivity",
        "of sums at a node, relative to one node with all rows",
        _tasks_3,
        _records_3,
    ),
    "figure-4": Figure(
        "Sizes of nodes",
        "Adult, 1000 nodes: equal, U[1, 10], Exp(2)",
        _tasks_4,
        _accuracies("figure-4"),
    ),
    "figure-5": Figure(
        "Leaving out noisy nodes",
        "log-uniform sizes and budgets; the relative error is known to an oracle only",
        _tasks_5,
        _records_5,
    ),
    "figure-6": Figure(
        "Gossip against iterations",
        "Adult, 1000 nodes, epsilon = 10^0.5: accuracy of the nodes and of Federated",
        _tasks_6,
        _records_6,
    ),
    "figure-7": Figure(
        "Parameters against iterations",
        "the same run: priors, categories, means, standard deviations",
        _tasks_7,
        _records_7,
    ),
    "clamping": Figure(
        "Clamping at nodes or at the model",
        "our own: what making counts positive before sending does (the authors' code does so)",
        _tasks_clamping,
        _records_bias,
    ),
    "skew": Figure(
        "Skewed rows",
        "our own: 50 nodes of 100 rows, bounded sensitivity; test error",
        _tasks_skew,
        _errors("skew", "partition", "method", "epsilon"),
    ),
    "private-crc": Figure(
        "Private calibration",
        "our own: CRC with T noised rounds beside Federated naive Bayes at the same budget "
        "(bounded sensitivity, 50 nodes of 400 rows, 6-regular); test error",
        _tasks_crc,
        _errors("private-crc", "method", "epsilon"),
    ),
    "attack": Figure(
        "Byzantine nodes",
        "our own: accuracy with 1, 5, 10 % of 100 nodes lying, by rule of aggregation",
        _tasks_attack,
        _records_attack,
    ),
}


def datasets(chosen: Iterable[str] | None = None) -> list[str]:
    """Which of the six sets are at hand, of those chosen."""
    here = {entry["name"] for entry in data.available()}
    if chosen is not None:
        chosen = list(chosen)
        known = [*SETS, *SETS.values()]
        for name in chosen:
            if name not in known:
                raise UnknownName("data set of the paper", name, known)
        return [d for name, d in SETS.items() if (d in chosen or name in chosen) and d in here]
    return [d for d in SETS.values() if d in here]


# What `peerwise reproduce gossip-nb/...` runs.
PAPER = TaskPaper("gossip-nb", ITEMS, datasets, claims)
