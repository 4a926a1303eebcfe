"""What is run: naive Bayes for each data set and number of nodes, calibration for each epsilon."""

from peerwise.papers import items as paper
from peerwise.papers.items import Description, Scale, Tasks
from peerwise.study.jobs import Task

SETTINGS = paper.settings_of("sealed")
EPSILONS = [float(e) for e in SETTINGS["epsilons"]]
RUNS = "peerwise.papers.sealed.runs"


def _utility(sets: list[str], scale: Scale) -> Tasks:
    shared = {k: SETTINGS[k] for k in ("epsilons", "bound", "test_rows", "honest")}
    shared["draws"] = scale.times(SETTINGS["draws"], SETTINGS["quick_draws"])
    return {
        f"{name} {n}": Task(f"{RUNS}:released", {"data": name, "nodes": n, **shared})
        for name in sets
        if name in SETTINGS["rows"]
        for n in [1, *SETTINGS["nodes"]]
        if n <= SETTINGS["rows"][name]
    }  # fmt: skip


def _calibration(sets: list[str], scale: Scale) -> Tasks:
    setup = SETTINGS["calibrated"]
    shared: Description = setup["quick" if scale.quick else "learnt"]
    if scale.repetitions is not None:
        shared = paper.merged(shared, {"run": {"repetitions": scale.repetitions}})
    tasks: Tasks = {}
    for name in sets:
        rows = {"data": {"source": name}}
        for epsilon in setup["sets"].get(name, ()):
            budget = {"privacy": {} if epsilon == "none" else {"epsilon": epsilon}}
            own: Description = {"method": "sealed_crc"}
            tasks[f"{name} sealed_crc {epsilon}"] = _errors(shared, rows, budget, own)
            own = {"method": {"name": "private_crc", "lr": 0.2, "clip": 3.0}}
            short = {"run": {"rounds": 32}}
            tasks[f"{name} private_crc {epsilon}"] = _errors(shared, rows, budget, own, short)
        if name in setup["sets"]:
            own, short = {"method": {"name": "rc", "lr": 0.2}}, {"run": {"rounds": 64}}
            alone = {k: v for k, v in shared.items() if k != "network"}
            tasks[f"{name} rc none"] = _errors(alone, rows, own, short)
    return tasks


def _errors(*parts: Description) -> Task:
    return paper.described(f"{RUNS}:errors", *parts)


datasets = paper.at_hand(SETTINGS["sets"])

# What `peerwise reproduce sealed/...` runs.
PAPER = paper.Paper.of("sealed", datasets, runs={"utility": _utility, "calibration": _calibration})
ITEMS = PAPER.items
