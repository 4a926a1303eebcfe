"""The experiments of the DecDiff paper: how what `paper.toml` says is put together."""

from math import isnan
from typing import Any

from peerwise.papers import items as paper
from peerwise.papers.items import Description, Plan, Reading, Scale, Tasks
from peerwise.study.jobs import Task

SETTINGS = paper.settings_of("decdiff")
SETS, SHARES, VARIANTS = SETTINGS["sets"], SETTINGS["shares"], SETTINGS["variants"]


def _dealt(name: str) -> Description:
    return paper.merged(SETTINGS["dealt"], {"data": {"source": name}})


def _learn(variant: str, scale: Scale, *parts: Description, **more: Any) -> Task:
    """A task that trains a variant on rows that are dealt in some way, at some size."""
    whole = paper.merged(*parts)
    often = scale.repetitions or whole["run"]["repetitions"]
    run: Description = {"early": True, "metrics": ["consensus"], "repetitions": often}
    if variant == "centralised":
        run["stages"] = ["adapt"]
    last = {"method": VARIANTS[variant]["method"], "run": run}
    return paper.described("peerwise.papers.decdiff.runs:learn", whole, last, **more)


def _tasks(item: str) -> Plan:
    def task(name: str, variant: str, scale: Scale) -> Task:
        full = dict(SETTINGS["full"][name])
        central, exchanged = full.pop("central"), full.pop("exchanged")
        size = SETTINGS["quick"] if scale.quick else full
        rounds = min(size["run"]["rounds"], central)
        own: dict[str, Description] = {
            "centralised": {"run": {"rounds": rounds, "record": max(1, rounds // 10)}},
            "cfa-ge": {"method": {"rows": exchanged}},
        }
        return _learn(variant, scale, _dealt(name), SETTINGS["usual"], size, own.get(variant, {}))

    variants = SETTINGS["items"][item]["variants"]
    return lambda sets, scale: {f"{s} {v}": task(s, v, scale) for s in sets for v in variants}


def _tasks_drop(sets: list[str], scale: Scale) -> Tasks:
    few = SETTINGS["drop_quick"] if scale.quick else {}
    return {
        f"{name} {v}": _learn(v, scale, {**_dealt(name), **SETTINGS["hubs"]}, SETTINGS["usual"],
                              SETTINGS["drop"], few, begun=True)
        for name in [s for s in ("mnist", "fashion_mnist") if s in sets][:1]
        for v in SETTINGS["items"]["figure-1"]["variants"]
    }  # fmt: skip


def _tasks_allocation(sets: list[str], scale: Scale) -> Tasks:
    """Nodes that learn alone, by how few images of a class a node has and where the law is cut."""
    tasks = {}
    for name in (s for s in sets if s in SETTINGS["allocated"]):
        full = {
            k: v for k, v in SETTINGS["full"][name].items() if k not in ("central", "exchanged")
        }
        size = SETTINGS["quick"] if scale.quick else paper.merged(full, SETTINGS["allocated"][name])
        for least, largest in SETTINGS["allocations"][: 2 if scale.quick else None]:
            law = {"name": "zipf", "least": least, "largest": largest}
            parts = _dealt(name), SETTINGS["usual"], size, {"split": {"partition": law}}
            tasks[f"{name} {least} {largest}"] = _learn("isolation", scale, *parts)
    return tasks


def _tasks_step(sets: list[str], scale: Scale) -> Tasks:
    """Steps of CFA-GE at a size for CPUs, beside what it is compared with."""
    often = {} if scale.quick else SETTINGS["stepped"]
    exchanged = {"method": {"rows": SETTINGS["full"]["mnist"]["exchanged"]}}
    parts = _dealt("mnist"), SETTINGS["usual"], SETTINGS["quick"], often
    return {
        f"mnist {v}": _learn(v, scale, *parts, exchanged if v.startswith("cfa-ge") else {})
        for v in SETTINGS["items"]["cfa-ge-step"]["variants"]
        if "mnist" in sets
    }


def _tasks_graph(sets: list[str], scale: Scale) -> Tasks:
    whole = paper.merged(SETTINGS["dealt"], SETTINGS["quick"] if scale.quick else {})
    # the graph is the same whatever the rows: two of the bundled digits for each node
    size = {"nodes": whole["split"]["nodes"], "rows": 2}
    return {"graph": paper.described("graph", {"split": size, "network": whole["network"]})}


def _last(arrays: Any) -> Any:
    """Mean accuracy of the nodes after the last round, of every replica."""
    return arrays["accuracy"][:, -1].mean(-1)


def _first(arrays: Any) -> Any:
    """The same after the first aggregation."""
    return arrays["aggregated_accuracy"][:, 0].mean(-1)


def _begun(arrays: Any) -> Any:
    """The same before it, when nodes have trained alone; None where nothing is aggregated."""
    return arrays["begun_accuracy"].mean(-1) if "aggregated_accuracy" in arrays else None


# What is read of a run; what sends nothing aggregates nothing.
ACCURACIES = (
    Reading("accuracy", _last),
    Reading("aggregated_accuracy", lambda a: a["aggregated_accuracy"][:, -1].mean(-1)
            if a["message_bytes"] else None),
)  # fmt: skip
READS = {
    **dict.fromkeys(("table-2", "table-3", "beta", "cfa-ge-step"), ACCURACIES),
    "figure-1": (
        Reading("accuracy", _last, {"at": "last round"}),
        Reading("accuracy", _begun, {"at": "trained alone"}),
        Reading("accuracy", _first, {"at": "first aggregation"}),
        Reading("accuracy", lambda a: a["begun_accuracy"].mean(-1) - _first(a), {"at": "drop"}),
    ),
    "figure-4": (
        Reading("gini", lambda a: a["gini"].mean(), {"of": "classes, mean"}),
        Reading("gini", lambda a: a["gini_of_totals"], {"of": "node totals"}),
    ),
    "allocation": (
        Reading("accuracy", _last),
        Reading("gini", lambda a: a["gini"]),
    ),
    "figure-5": (
        Reading("loss", lambda a: a["loss"].mean(-1).min(1), {"at": "lowest"}),
        Reading("loss", lambda a: a["loss"].mean(-1)[:, -1], {"at": "last"}),
    ),
}  # fmt: skip


def printed(item: str, fields: dict[str, Any]) -> float | None:
    """What the paper prints of a number."""
    if item == "allocation" and fields["metric"] == "accuracy":
        return float(SETTINGS["printed"]["table-2"]["isolation"][SETS.index(fields["dataset"])])
    row = SETTINGS["printed"].get(item, {}).get(fields.get("variant"))
    if row is None or fields["metric"] not in ("accuracy", "rounds"):
        return None
    value = row[SETS.index(fields["dataset"])]
    value = value[SHARES.index(fields["share"])] if item == "table-4" else value
    return None if isnan(value) else float(value)


datasets = paper.at_hand(SETS)
RUNS: dict[str, Plan] = {
    item: _tasks(item) for item, of in SETTINGS["items"].items() if "variants" in of
}
RUNS |= {"figure-1": _tasks_drop, "figure-3": _tasks_graph, "allocation": _tasks_allocation}
RUNS["cfa-ge-step"] = _tasks_step
RUNS["figure-4"] = paper.deal_tasks(_dealt, SETTINGS["quick"]["split"])

# What `peerwise reproduce decdiff/...` runs.
PAPER = paper.Paper.of("decdiff", datasets, runs=RUNS, reads=READS, printed=printed)
ITEMS = PAPER.items
