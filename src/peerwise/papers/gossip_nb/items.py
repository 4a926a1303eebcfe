"""The experiments of the Gossip-NB paper: how what `paper.toml` says is put together."""

from typing import Any

import numpy as np

from peerwise.papers import items as paper
from peerwise.papers.items import Description, Reading, Scale, Tasks
from peerwise.study.jobs import Task

SETTINGS = paper.settings_of("gossip-nb")
SETS, NODES, ROWS = SETTINGS["sets"], SETTINGS["nodes"], SETTINGS["rows"]
EPSILONS = [float(e) for e in 10.0 ** np.arange(-2, 1.25, 0.5)]  # privacy budgets: half decades
TRIALS, QUICK_TRIALS = 1000, 50
GOSSIPED = [float(10**0.5), float(10**2.5)]  # budgets of figures 6 and 7


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
        if name in SETTINGS["numeric"]
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
    """Gossip at the paper's budget and at one at which Federated learns."""
    if "adult" not in sets:
        return {}
    size = {"rounds": 40, "test_rows": 500} if scale.quick else {"rounds": 100}
    seeds = scale.times(100, 3)
    counters = ("printed", "push_sum") if scale.quick else ("printed", "total", "push_sum", "walk")
    tasks = {}
    for epsilon in GOSSIPED[:1] if scale.quick else GOSSIPED:
        shared: dict[str, Any] = {"data": "adult", "nodes": 1000, "epsilon": epsilon, **size}
        for counter in counters:
            task = _work("gossip", **shared, seeds=seeds, counter=counter)
            tasks[f"adult {counter} {epsilon:.3g}"] = task
        clamped = _work("gossip", **shared, seeds=seeds, counter="printed", clamp_at_node=True)
        tasks[f"adult clamped {epsilon:.3g}"] = clamped
    return tasks


def _tasks_7(sets: list[str], scale: Scale) -> Tasks:
    return {k: t for k, t in _tasks_6(sets, scale).items() if "printed" in k}


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
    own = {"data": {"source": name}, "method": {"name": method}, "privacy": {"epsilon": epsilon}}
    return _work("errors", description=paper.merged(SETTINGS["learnt"], own, *more))


def _tasks_skew(sets: list[str], scale: Scale) -> Tasks:
    names = [s for s in sets if s in ("adult", "mushroom", "skin")]
    networks: dict[str, Description] = {
        "gossip_nb": {"network": {"topology": "complete", "push": True}},
        "federated_nb": {},
    }
    tasks = {}
    for name in names[:1] if scale.quick else names:
        for skew in SETTINGS["skews"]:
            dealt = {"data": {"typing": "manifest"}, "split": {"partition": skew, "rows": 100}}
            for method, network in networks.items():
                for epsilon in (None, 1.0):
                    task = _learn(name, method, epsilon, dealt, network)
                    tasks[f"{name} {skew} {method} {epsilon}"] = task
    return tasks


def _tasks_crc(sets: list[str], scale: Scale) -> Tasks:
    names = [s for s in sets if s in ("adult", "skin", "accelerometer")]
    rows: Description = {"split": {"rows": 400}}
    tasks = {}
    for name in names[:1] if scale.quick else names:
        for epsilon in (0.1, 0.3, 1.0, 3.0, 10.0, None):
            tasks[f"{name} federated_nb {epsilon}"] = _learn(name, "federated_nb", epsilon, rows)
            for rounds in (8, 32):
                long = {"run": {"rounds": rounds}}
                task = _learn(name, "private_crc", epsilon, rows, SETTINGS["calibrated"], long)
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
_ERROR = (Reading("test_error", lambda a: a["error"].mean(-1)),)
RUNS = {
    "figure-2": _tasks_2,
    "figure-3": _tasks_3,
    "figure-4": _tasks_4,
    "figure-5": _tasks_5,
    "figure-6": _tasks_6,
    "figure-7": _tasks_7,
    "clamping": _tasks_clamping,
    "skew": _tasks_skew,
    "private-crc": _tasks_crc,
    "attack": _tasks_attack,
}
datasets = paper.at_hand(SETS)

# What `peerwise reproduce gossip-nb/...` runs.
PAPER = paper.Paper.of(
    "gossip-nb", datasets, runs=RUNS, reads={"skew": _ERROR, "private-crc": _ERROR}, names=NAMES
)
ITEMS = PAPER.items
