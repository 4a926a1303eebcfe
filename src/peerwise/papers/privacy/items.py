"""What is run for the study of utility: one piece of work for each data set and number of nodes."""

from peerwise.papers import items as paper
from peerwise.papers.items import Scale, Tasks
from peerwise.study.jobs import Task

SETTINGS = paper.settings_of("privacy")
EPSILONS = [float(e) for e in SETTINGS["epsilons"]]
RUNS = "peerwise.papers.privacy.runs"


def _shared(scale: Scale) -> dict[str, object]:
    draws = scale.times(SETTINGS["draws"], SETTINGS["quick_draws"])
    return {"epsilons": EPSILONS, "draws": draws, "bound": SETTINGS["bound"],
            "test_rows": SETTINGS["test_rows"]}  # fmt: skip


def _utility(sets: list[str], scale: Scale) -> Tasks:
    tasks: Tasks = {}
    for name in sets:
        for n in SETTINGS["nodes"]:
            if n <= SETTINGS["rows"][name]:
                tasks[f"{name} {n}"] = Task(
                    f"{RUNS}:released", {"data": name, "nodes": n, **_shared(scale)}
                )
    for name in sorted(sets, key=lambda name: SETTINGS["columns"][name]):  # what takes longest last
        tasks[f"{name} diffprivlib"] = Task(f"{RUNS}:theirs", {"data": name, **_shared(scale)})
    return tasks


def _models(sets: list[str], scale: Scale) -> Tasks:
    return {
        f"{name} {model} {n}": Task(
            f"{RUNS}:released", {"data": name, "nodes": n, "model": model, **_shared(scale)}
        )
        for name in sets
        if name in SETTINGS["numbers"]["sets"]
        for model in SETTINGS["models"]
        for n in SETTINGS["numbers"]["nodes"]
    }


datasets = paper.at_hand(SETTINGS["sets"])

# What `peerwise reproduce privacy/...` runs.
PAPER = paper.Paper.of("privacy", datasets, runs={"utility": _utility, "models": _models})
ITEMS = PAPER.items
