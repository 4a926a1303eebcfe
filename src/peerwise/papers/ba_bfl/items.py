"""The experiments of the BA-BFL paper: how what `paper.toml` says is put together."""

from typing import Any

from peerwise.papers import items as paper
from peerwise.papers.items import Description, Plan, Reading, Scale, Tasks

SETTINGS = paper.settings_of("ba-bfl")
SETS, RULES, LAYERS, GRAPHS = (
    SETTINGS["sets"],
    SETTINGS["rules"],
    SETTINGS["layers"],
    SETTINGS["graphs"],
)
_OWN = "peerwise.papers.ba_bfl.runs:"
MEASURED: list[Any] = ["calibration", f"{_OWN}fine_calibration", f"{_OWN}own_rows"]


def _dealt(name: str) -> Description:
    return paper.merged(SETTINGS["dealt"], {"data": {"source": name}})


def _described(name: str, rule: str, layers: int, scale: Scale, *more: Description) -> Description:
    outside = SETTINGS["outside"].get(name)
    strange = [{"name": f"{_OWN}entropies", "outside": outside}] if outside else []
    net = {"init": "pytorch", "bayesian_layers": layers, "moved": name in SETTINGS["moved"]}
    barycenter = {"name": "barycenter", "divergence": rule}
    own = {"method": {"rule": barycenter}, "run": {"metrics": [*MEASURED, *strange]}}
    size = SETTINGS["quick"] if scale.quick else SETTINGS["full"]
    return paper.merged(_dealt(name), SETTINGS["usual"], own, size, {"net": net}, *more)


def _learn(name: str, rule: str, layers: int, scale: Scale, *more: Description) -> Any:
    often = {"run": {"repetitions": scale.repetitions}} if scale.repetitions else {}
    return paper.described(f"{_OWN}learn", _described(name, rule, layers, scale, *more, often))


def _some(sets: list[str], scale: Scale) -> list[str]:
    return sets[:1] if scale.quick else sets


def _rules(scale: Scale) -> list[str]:
    rules: list[str] = SETTINGS["quick_rules"] if scale.quick else RULES
    return rules


def _tasks(sets: list[str], scale: Scale) -> Tasks:
    """FedAvg, and every rule with one to three Bayesian layers."""
    return _by_layers(sets, scale, _rules(scale))


def _by_layers(sets: list[str], scale: Scale, rules: list[str], *more: Description) -> Tasks:
    tasks = {}
    for name in _some(sets, scale):
        tasks[f"{name} 0 fedavg"] = _learn(name, "rkl", 0, scale, *more)
        for n in LAYERS:
            for rule in rules:
                tasks[f"{name} {n} {rule}"] = _learn(name, rule, n, scale, *more)
    return tasks


def _tasks_pace(sets: list[str], scale: Scale) -> Tasks:
    """Figure 4: rounds of FedAvg and of one rule by layers, timed with nothing beside them."""
    rule = SETTINGS["timed_rule"]
    return {
        f"{name} {n} {rule if n else 'fedavg'}": paper.described(
            f"{_OWN}pace", _described(name, rule, n, scale, SETTINGS["paced"])
        )
        for name in _some(sets, scale)
        for n in (0, *LAYERS)
    }


def _tasks_init(sets: list[str], scale: Scale) -> Tasks:
    """Variances that begin as in the paper's code, under the clamp, beside ours."""
    name = "fashion_mnist"
    starts: dict[str, list[Description]] = {"": [], " paper init": [{"net": {"paper_init": True}}]}
    return {
        f"{name} 3 {rule}{start}": _learn(name, rule, 3, scale, *more)
        for rule in _rules(scale)
        for start, more in starts.items()
        if name in sets
    }


def _tasks_longer(sets: list[str], scale: Scale) -> Tasks:
    """As many rounds as the paper has, with a fifth of its epochs, for two of the rules."""
    rules = SETTINGS["longer_rules"][: 1 if scale.quick else 2]
    return _by_layers(sets, scale, rules, SETTINGS["longer"]["quick" if scale.quick else "full"])


def _tasks_whole(sets: list[str], scale: Scale) -> Tasks:
    """FedAvg and two rules with one and with three Bayesian layers, trained as in the paper."""
    tasks, size = {}, {} if scale.quick else SETTINGS["whole"]
    for name in _some(sets, scale):
        tasks[f"{name} 0 fedavg"] = _learn(name, "rkl", 0, scale, size)
        for n in (LAYERS[0], LAYERS[-1]):
            for rule in SETTINGS["longer_rules"]:
                tasks[f"{name} {n} {rule}"] = _learn(name, rule, n, scale, size)
    return tasks


def _tasks_prior(sets: list[str], scale: Scale) -> Tasks:
    """What the prior is and how much it counts, at a size for CPUs; FedAvg beside."""
    setup, name = SETTINGS["prior"], "fashion_mnist"
    if name not in sets:
        return {}
    few = Scale(True, scale.repetitions)  # as large at either scale, but for what follows
    size = paper.merged(setup["small"], setup["quick"] if scale.quick else {})
    tasks = {f"{name} fedavg 0.0": _learn(name, setup["rule"], 0, few, size)}
    for prior, temperatures in setup["priors"].items():
        for temperature in temperatures[: 2 if scale.quick else None]:
            method = {"method": {"prior": prior, "temperature": temperature}}
            task = _learn(name, setup["rule"], setup["layers"], few, size, method)
            tasks[f"{name} {prior} {temperature}"] = task
    return tasks


def _tasks_graph(sets: list[str], scale: Scale) -> Tasks:
    lossy = "ring" if scale.quick else "er-0.3"
    places = [(graph, 1.0) for graph in (list(GRAPHS)[1::2] if scale.quick else GRAPHS)]
    tasks, name = {}, "fashion_mnist"
    for graph, q in [*places, (lossy, 0.3)] if name in sets else []:
        channel: dict[str, Any] = {} if q == 1 else {"channel": "erasure", "q": q}
        network = {"network": {**GRAPHS[graph], **channel}, "run": {"repetitions": 1}}
        for variant, of in SETTINGS["variants"].items():
            if "rule" in of:
                task = _learn(name, of["rule"], of["layers"], scale, network)
                tasks[f"{name} {graph} {q}|{variant}"] = task
    return tasks


def printed(item: str, fields: dict[str, Any]) -> float | None:
    """What figure 1 says; the text at hand lacks the numbers of table 1."""
    return SETTINGS["printed"].get(item, {}).get(fields.get("rule"), {}).get(fields["metric"])


READS = {
    "figure-2": (
        Reading("rows", lambda a: a["counts"].sum(1).min(), {"of": "least"}),
        Reading("rows", lambda a: a["counts"].sum(1).max(), {"of": "most"}),
    )
}
RUNS: dict[str, Plan] = {
    **dict.fromkeys(("table-1", "figure-3", "figure-5"), _tasks),
    "figure-2": paper.deal_tasks(_dealt, SETTINGS["quick"]["split"]),
    "figure-4": _tasks_pace,
    "init": _tasks_init,
    "longer": _tasks_longer,
    **dict.fromkeys(("whole", "reliability"), _tasks_whole),
    "prior": _tasks_prior,
    "graph": _tasks_graph,
}
_LABELS = {rule: of["label"] for rule, of in SETTINGS["variants"].items()}
_STARTS = {f"{rule} paper init": f"{_LABELS[rule]}, the paper's start" for rule in RULES}
datasets = paper.at_hand(SETS)

# What `peerwise reproduce ba-bfl/...` runs.
PAPER = paper.Paper.of("ba-bfl", datasets, runs=RUNS, reads=READS, printed=printed,
                       names={"rule": {**_LABELS, **_STARTS}})  # fmt: skip
ITEMS = PAPER.items
