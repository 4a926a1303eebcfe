"""What is run for the study of utility: one piece of work for each data set and number of nodes."""

from peerwise.papers import items as paper
from peerwise.papers.items import Scale, Tasks
from peerwise.study.jobs import Task

SETTINGS = paper.settings_of("privacy")
EPSILONS = [float(e) for e in SETTINGS["epsilons"]]
RUNS = "peerwise.papers.privacy.runs"


def _shared(scale: Scale, draws: int = SETTINGS["draws"]) -> dict[str, object]:
    return {"epsilons": EPSILONS, "draws": scale.times(draws, SETTINGS["quick_draws"]),
            "bound": SETTINGS["bound"], "test_rows": SETTINGS["test_rows"]}  # fmt: skip


def _released(sets: list[str], rows: dict[str, int], shared: dict[str, object]) -> Tasks:
    return {
        f"{name} {n}": Task(f"{RUNS}:released", {"data": name, "nodes": n, **shared})
        for name in sets
        for n in SETTINGS["nodes"]
        if n <= rows.get(name, 0)
    }


def _utility(sets: list[str], scale: Scale) -> Tasks:
    tasks = _released(sets, SETTINGS["rows"], _shared(scale))
    columns = SETTINGS["columns"]
    for name in sorted(set(sets) & set(columns), key=lambda name: columns[name]):  # longest last
        tasks[f"{name} diffprivlib"] = Task(f"{RUNS}:theirs", {"data": name, **_shared(scale)})
    return tasks


def _untouched(sets: list[str], scale: Scale) -> Tasks:
    others = SETTINGS["untouched"]
    return _released(sets, others["rows"], _shared(scale, others["draws"]))


def _tenths(sets: list[str], scale: Scale) -> Tasks:
    return _released(sets, SETTINGS["rows"], {**_shared(scale), "turns": SETTINGS["turns"]})


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
PAPER = paper.Paper.of(
    "privacy",
    datasets,
    runs={"utility": _utility, "tenths": _tenths, "untouched": _untouched, "models": _models},
)
ITEMS = PAPER.items
