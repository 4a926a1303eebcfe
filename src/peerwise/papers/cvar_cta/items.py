"""The experiments of the CVaR-CTA paper: how what `paper.toml` says is put together."""

from typing import NamedTuple

from peerwise.papers import items as paper
from peerwise.papers.items import Description, Plan, Reading, Scale, Tasks
from peerwise.study.jobs import Task

SETTINGS = paper.settings_of("cvar-cta")
ALPHA, STEP, SMALL, SWEEP = (
    SETTINGS["alpha"],
    SETTINGS["step"],
    SETTINGS["small"],
    tuple(SETTINGS["sweep"]),
)
VARIANTS = {v: of["method"] for v, of in SETTINGS["variants"].items() if "method" in of}
QUICK_STEPS = 10  # times as long
LOSSES = tuple(round(0.1 * k, 1) for k in range(10))  # of our figure
SPARED = {False: 2_700, True: 220}  # rows of a node where the others have all but one class


class Panel(NamedTuple):
    """A panel of figure 2."""

    data: str
    graph: str
    nodes: int
    arrival: list[float] = []  # that the paper shows  # noqa: RUF012


# The panels of figure 2 by item.
PANELS = {item: Panel(**of["panel"]) for item, of in SETTINGS["items"].items() if "panel" in of}


def method_of(variant: str) -> Description:
    """A method with its step and alpha, which the last word of a variant may change."""
    method, _, last = variant.partition(" ")
    alpha = float(last) if last in map(str, SWEEP) else ALPHA
    step = SMALL if last == "small" else STEP
    if method == "decdiff+vt":
        return VARIANTS[variant]
    of = {"lr": step / alpha} if method == "cta/a" else {"lr": step}
    return {**VARIANTS[variant], **of, **({} if method.startswith("cta") else {"alpha": alpha})}


def _graph(name: str, nodes: int) -> Description:
    """A graph by our name for it."""
    known: dict[str, Description] = {
        "line": {"topology": "chain"},
        "ring": {"topology": "ring"},
        "erdos_renyi": {"topology": "erdos_renyi", "p": min(5 / nodes, 0.5)},
        "tree": {"topology": "random_tree"},
    }
    return known[name]


def _work(name: str, *descriptions: Description) -> Task:
    return paper.described(f"peerwise.papers.cvar_cta.runs:{name}", *descriptions)


def _learn(
    panel: Panel, q: float, variant: str, scale: Scale, *more: Description, lr: float | None = None
) -> Task:
    """A variant in the place of a panel."""
    method = {**method_of(variant), **({} if lr is None else {"lr": lr})}
    if scale.quick and lr is None:
        method["lr"] *= QUICK_STEPS
    size = SETTINGS["quick"] if scale.quick else SETTINGS["full"][panel.data]
    often = scale.repetitions or paper.merged(size, *more)["run"]["repetitions"]
    place = {
        "data": {"source": panel.data},
        "split": {"nodes": panel.nodes},
        "network": {**_graph(panel.graph, panel.nodes), "q": q},
    }
    last = {"method": method, "run": {"repetitions": often}}
    return _work("learn", SETTINGS["usual"], place, size, *more, last)


def _among(variants: list[str], items: tuple[str, ...], arrival: list[float]) -> Plan:
    """Tasks of some variants on panels of figure 2; items share those that they have in common."""

    def tasks(sets: list[str], scale: Scale) -> Tasks:
        return {
            f"{PANELS[i].data} {PANELS[i].graph} {q}|{v}": _learn(PANELS[i], q, v, scale)
            for i in items
            for q in arrival
            for v in variants
            if PANELS[i].data in sets
        }

    return tasks


def _tasks_rare(sets: list[str], scale: Scale) -> Tasks:
    """Node 0 holds the digit 0 alone and is heard with probability .05; all others always."""
    tasks, setup = {}, SETTINGS["rare"]
    rounds = 200 if scale.quick else 300
    run = {"rounds": rounds, "record": rounds // 10, "repetitions": scale.times(3, 2)}
    held = paper.merged(setup["held"], {"split": {"rows": SPARED[scale.quick]}, "run": run})
    few = {"split": SETTINGS["quick"]["split"]} if scale.quick else {}
    for graph in ("ring", "erdos_renyi") if "mnist" in sets else ():
        panel = Panel("mnist", graph, 20)
        for variant in setup["variants"]:
            lr = setup["step"] * (4 if scale.quick else 1) / (ALPHA if variant == "cta/a" else 1)
            tasks[f"mnist {graph}|{variant}"] = _learn(panel, 1.0, variant, scale, held, lr=lr)
        for rule in ("equal", "worst"):
            among = {"name": rule, **({"include_self": True} if rule == "equal" else {})}
            place = {"method": {"rule": among}, "network": _graph(graph, 20)}
            task = _work("rare_statistics", setup["crc"], few, place, held)
            tasks[f"mnist {graph}|crc {rule}"] = task
    return tasks


def _tasks_loss(sets: list[str], scale: Scale) -> Tasks:
    """CRC and DecDiff over links that lose more and more."""
    tasks = {}
    data, size = ("digits", "quick") if scale.quick else ("letter", "full")
    for graph in ("tree", "erdos_renyi"):
        for lost in (0.0, 0.3, 0.6, 0.9) if scale.quick else LOSSES:
            q = round(1 - lost, 1)
            network = {**_graph(graph, 50), "fixed": False, "channel": "erasure", "q": q}
            for rounds in (64,) if scale.quick else (64, 256):
                tasks[f"{data} {graph} {lost}|crc {rounds}"] = _work(
                    "calibrate",
                    {
                        "data": {"source": data},
                        "split": {"nodes": 50, "rows": 20 if scale.quick else 50},
                        "network": network,
                        "run": {"rounds": rounds, "repetitions": scale.times(3, 1)},
                    },
                )
            if "mnist" in sets:
                panel, name = Panel("mnist", graph, 50), f"mnist {graph} {lost}|decdiff+vt"
                tasks[name] = _learn(panel, q, "decdiff+vt", scale, SETTINGS["loss"][size], lr=0.05)
    return tasks


READS = {
    "rare": (
        Reading("rare_class", lambda a: a["class_accuracy_of_others"][:, -1, 0]),
        Reading("accuracy", lambda a: a["accuracy"][:, -1, 1:].mean(-1)),
    ),
    "loss": (
        Reading("gap", lambda a: a["gap"].mean(-1)),
        Reading("accuracy", lambda a: a["accuracy"][:, -1].mean(-1)),
    ),
}
ON_FASHION = ["cta", "cta/a", "average-cvar", "cvar-cvar"]
ON_MNIST = [*ON_FASHION, "cta small", "cta/a small", "cvar-cvar small"]
_SWEPT = [
    f"{method}{'' if alpha == ALPHA else f' {alpha}'}"
    for method in ("cta/a", "average-cvar", "cvar-cvar")
    for alpha in sorted((*SWEEP, ALPHA))
]
RUNS = {
    item: _among(ON_MNIST if p.data == "mnist" else ON_FASHION, (item,), p.arrival)
    for item, p in PANELS.items()
}
RUNS |= {"alpha": _among(_SWEPT, ("figure-2a", "figure-2b"), [0.3])}
RUNS |= {"order": _among(SETTINGS["items"]["order"]["variants"], ("figure-2b",), [1.0, 0.3])}
RUNS |= {"rare": _tasks_rare, "loss": _tasks_loss}

datasets = paper.at_hand(SETTINGS["sets"])

# What `peerwise reproduce cvar-cta/...` runs.
PAPER = paper.Paper.of("cvar-cta", datasets, runs=RUNS, reads=READS)
ITEMS = PAPER.items
