"""The experiments of the CVaR-CTA paper.

"Risk-Aware Decentralized Federated Learning with Intermittent Communications" (Theodoropoulos,
Mavrokefalidis, Berberidis). Its figure 2 has four panels and no numbers: what is compared are its
claims. Below the paper's items come our own: the share alpha, the order of steps, a class that only
a seldom heard node holds, and what loss does to other methods.
"""

from typing import Any, NamedTuple

from peerwise.papers.items import (
    Description,
    Item,
    Paper,
    Plan,
    Reading,
    Scale,
    Table,
    Tasks,
    at_hand,
    described,
    merged,
)
from peerwise.study.jobs import Task

SETS = ("mnist", "fashion_mnist")
ALPHA = 0.3  # the paper gives none; its authors' earlier code has .3 on MNIST
STEP = 1e-3  # the paper's, but for CVaR-CVaR on MNIST
SMALL = 1e-4  # the paper's for CVaR-CVaR on MNIST
SWEEP = (0.1, 0.5, 0.9)  # beside ALPHA
ARRIVAL = (1.0, 0.3)


class Panel(NamedTuple):
    """A panel of figure 2."""

    data: str
    graph: str
    nodes: int
    arrival: tuple[float, ...]  # that the paper shows


# The panels of figure 2 by item.
PANELS = {
    "figure-2a": Panel("mnist", "line", 5, ARRIVAL),
    "figure-2b": Panel("mnist", "ring", 20, ARRIVAL),
    "figure-2c": Panel("fashion_mnist", "ring", 20, ARRIVAL),
    "figure-2d": Panel("fashion_mnist", "erdos_renyi", 20, (0.3,)),
}


def _graph(name: str, nodes: int) -> Description:
    """A graph by our name for it. The paper does not say how dense its random graph is."""
    known: dict[str, Description] = {
        "line": {"topology": "chain"},
        "ring": {"topology": "ring"},
        "erdos_renyi": {"topology": "erdos_renyi", "p": min(5 / nodes, 0.5)},
        "tree": {"topology": "random_tree"},
    }
    return {**known[name], "fixed": True}


_AVERAGE = {"name": "average_cvar", "lr": STEP, "alpha": ALPHA}
_WORST = {"name": "cvar_cvar", "lr": STEP, "alpha": ALPHA}
# a method of another paper that begins alike everywhere, as CTA does
_DECDIFF = {"name": "decdiff", "loss": "virtual_teacher", "beta": 0.95, "start": "common"}
# What is trained, by name. "/a" is the control: the step that CVaR takes at most.
VARIANTS: dict[str, dict[str, Any]] = {
    "cta": {"name": "cta", "lr": STEP},
    "cta/a": {"name": "cta", "lr": STEP / ALPHA},
    "average-cvar": _AVERAGE,
    "cvar-cvar": _WORST,
    "cta small": {"name": "cta", "lr": SMALL},
    "cta/a small": {"name": "cta", "lr": SMALL / ALPHA},
    "cvar-cvar small": {**_WORST, "lr": SMALL},
    "cta atc": {"name": "cta", "lr": STEP, "order": "atc"},
    "average-cvar atc": {**_AVERAGE, "order": "atc"},
    "cvar-cvar atc": {**_WORST, "order": "atc"},
    "average-cvar hard": {**_AVERAGE, "smooth": False},
    "cvar-cvar hard": {**_WORST, "smooth": False},
    "decdiff+vt": _DECDIFF,
}
for _alpha in SWEEP:
    VARIANTS |= {
        f"cta/a {_alpha}": {"name": "cta", "lr": STEP / _alpha},
        f"average-cvar {_alpha}": {**_AVERAGE, "alpha": _alpha},
        f"cvar-cvar {_alpha}": {**_WORST, "alpha": _alpha},
    }

# The paper's names; what it has not is marked.
NAMES = {
    "dataset": {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"},
    "graph": {"line": "line of 5", "ring": "ring of 20", "erdos_renyi": "random graph",
              "tree": "random tree"},
    "variant": {
        "cta": "CTA",
        "cta/a": "CTA, step/α (control)",
        "average-cvar": "Average-CVaR",
        "cvar-cvar": "CVaR-CVaR",
        "cta small": "CTA η=.0001 (control)",
        "cta/a small": "CTA η=.0001/α (control)",
        "cvar-cvar small": "CVaR-CVaR η=.0001",
        "cta atc": "CTA, ATC (ours)",
        "average-cvar atc": "Average-CVaR, ATC (ours)",
        "cvar-cvar atc": "CVaR-CVaR, ATC (ours)",
        "average-cvar hard": "Average-CVaR, hard (ours)",
        "cvar-cvar hard": "CVaR-CVaR, hard (ours)",
        "decdiff+vt": "DecDiff+VT",
        "crc equal": "CRC",
        "crc worst": "CRC, worst soft errors (ours)",
        "crc 64": "CRC, 64 rounds",
        "crc 256": "CRC, 256 rounds",
        **{f"cta/a {a}": f"CTA, step/{a:g} (control)" for a in SWEEP},
        **{f"average-cvar {a}": f"Average-CVaR α={a:g}" for a in SWEEP},
        **{f"cvar-cvar {a}": f"CVaR-CVaR α={a:g}" for a in SWEEP},
    },
}  # fmt: skip

ON_MNIST = ("cta", "cta/a", "average-cvar", "cvar-cvar", "cta small", "cta/a small",
            "cvar-cvar small")  # fmt: skip
ON_FASHION = ("cta", "cta/a", "average-cvar", "cvar-cvar")
SWEPT = tuple(
    f"{method}{'' if alpha == ALPHA else f' {alpha}'}"
    for method in ("cta/a", "average-cvar", "cvar-cvar")
    for alpha in sorted((*SWEEP, ALPHA))
)
ORDERS = ("cta", "cta atc", "average-cvar", "average-cvar atc", "average-cvar hard", "cvar-cvar",
          "cvar-cvar atc", "cvar-cvar hard")  # fmt: skip
RARE = ("cta", "cta/a", "average-cvar", "cvar-cvar")
RARE_STEP = 0.05

# Fashion-MNIST: the paper's number of steps, but one run instead of ten.
FULL: dict[str, Description] = {
    "mnist": {"net": "mlp_200", "run": {"rounds": 900, "record": 30, "repetitions": 10}},
    "fashion_mnist": {"net": "lenet", "split": {"test_rows": 2000},
                      "run": {"rounds": 3000, "record": 150, "repetitions": 1}},
}  # fmt: skip
# On a CPU: fewer rows and rounds, smaller batches, longer steps.
FEW: Description = {"train_rows": 5000, "test_rows": 1000}
QUICK: Description = {
    "net": "mlp_64", "split": FEW, "method": {"steps": 5, "batch": 20},
    "run": {"rounds": 200, "record": 20, "repetitions": 2},
}  # fmt: skip
QUICK_STEPS = 10  # times as long
LOSSES = tuple(round(0.1 * k, 1) for k in range(10))  # of our figure
QUIET = 0.05  # how often the node is heard that alone holds a class
SPARED = {False: 2_700, True: 220}  # rows of a node where the others have all but one class


def _work(name: str, *descriptions: Description) -> Task:
    return described(f"peerwise.papers.cvar_cta.runs:{name}", *descriptions)


def _learn(
    panel: Panel, q: float, variant: str, scale: Scale, *more: Description, lr: float | None = None
) -> Task:
    """Rows sorted by class and cut; every link delivers with probability q."""
    method = {**VARIANTS[variant], **({} if lr is None else {"lr": lr})}
    if scale.quick and lr is None:
        method["lr"] *= QUICK_STEPS
    size = QUICK if scale.quick else FULL[panel.data]
    often = scale.repetitions or merged(size, *more)["run"]["repetitions"]
    return _work(
        "learn",
        {
            "data": {"source": panel.data, "scale": "unit"},
            "split": {"partition": "mixed", "nodes": panel.nodes, "rows": "all", "test": "own"},
            "method": {"steps": 10, "batch": 100, "momentum": 0.0},
            "network": {**_graph(panel.graph, panel.nodes), "channel": "erasure", "q": q},
            "run": {"early": True, "stages": ["combine", "adapt"],
                    "metrics": ["class_errors", "consensus"]},
        },
        size,
        *more,
        {"method": method, "run": {"repetitions": often}},
    )  # fmt: skip


def _among(
    variants: tuple[str, ...], items: tuple[str, ...], arrival: tuple[float, ...],
    data: str = "mnist",
) -> Plan:  # fmt: skip
    """Tasks of some variants on panels of figure 2; items share those that they have in common."""

    def tasks(sets: list[str], scale: Scale) -> Tasks:
        return {
            f"{data} {PANELS[i].graph} {q}|{v}": _learn(PANELS[i], q, v, scale)
            for i in items
            for q in arrival
            for v in variants
            if data in sets
        }

    return tasks


def _tasks_rare(sets: list[str], scale: Scale) -> Tasks:
    """Node 0 holds the digit 0 alone and is heard with probability .05; all others always."""
    tasks = {}
    rounds = 200 if scale.quick else 300
    held: Description = {
        "split": {"partition": "sole_holder", "rows": SPARED[scale.quick]},
        "run": {"rounds": rounds, "record": rounds // 10, "repetitions": scale.times(3, 2)},
    }
    for graph in ("ring", "erdos_renyi") if "mnist" in sets else ():
        panel = Panel("mnist", graph, 20, (1.0,))
        quiet: Description = {"network": {"channel": "quiet_node", "quiet": QUIET}}
        for variant in (*RARE, "decdiff+vt"):
            # most rows are dealt evenly, so that longer steps do no harm
            lr = RARE_STEP * (4 if scale.quick else 1) / (ALPHA if variant == "cta/a" else 1)
            tasks[f"mnist {graph}|{variant}"] = _learn(
                panel, 1.0, variant, scale, held, quiet, lr=lr
            )
        for rule in ("equal", "worst"):
            among = {"name": rule, **({"include_self": True} if rule == "equal" else {})}
            tasks[f"mnist {graph}|crc {rule}"] = _work(
                "rare_statistics",
                {
                    "data": {"source": "mnist", "scale": "unit"},
                    "split": {"nodes": 20, "test": "own", **(FEW if scale.quick else {})},
                    "method": {"name": "crc", "rule": among},
                    "network": {**_graph(graph, 20), "q": 1.0},
                    "run": {"early": True, "metrics": ["class_errors"]},
                },
                held,
                quiet,
            )
    return tasks


def _tasks_loss(sets: list[str], scale: Scale) -> Tasks:
    """CRC and DecDiff over links that lose more and more."""
    tasks = {}
    data = "digits" if scale.quick else "letter"
    size: Description = {
        "net": "mlp_64", "split": {"train_rows": 10_000, "test_rows": 2000},
        "method": {"batch": 32}, "run": {"rounds": 200, "record": 100, "repetitions": 2},
    }  # fmt: skip
    if scale.quick:
        size = {"run": {"rounds": 80, "record": 40, "repetitions": 1}}
    zipf: Description = {"split": {"partition": "zipf"}}
    for graph in ("tree", "erdos_renyi"):
        for loss in (0.0, 0.3, 0.6, 0.9) if scale.quick else LOSSES:
            q = round(1 - loss, 1)
            lossy = {"channel": "erasure", "q": q}
            for rounds in (64,) if scale.quick else (64, 256):
                tasks[f"{data} {graph} {q}|crc {rounds}"] = _work(
                    "calibrate",
                    {
                        "data": {"source": data},
                        "split": {"nodes": 50, "rows": 20 if scale.quick else 50},
                        "network": {**_graph(graph, 50), "fixed": False, **lossy},
                        "run": {"rounds": rounds, "repetitions": scale.times(3, 1)},
                    },
                )
            if "mnist" in sets:
                panel = Panel("mnist", graph, 50, ())
                name = f"mnist {graph} {q}|decdiff+vt"
                tasks[name] = _learn(panel, q, "decdiff+vt", scale, size, zipf, lr=0.05)
    return tasks


NETWORKS = (
    "accuracy: mean of all nodes after the last local steps, ± 95 % interval over three runs or "
    "more; other stage: after combining and before training (for ATC the other way round); spread: "
    "distance of the models from their mean / its norm; steps η = .001 unless said, ten times as "
    "long in a quick run"
)
_PLACE = "{dataset} {graph} {q:f}|{variant}"
_NETWORK = Table(
    ("variant",), ("metric",), ("dataset", "graph", "q"), "{dataset}, {graph}, q = {q}",
    digits={"consensus": ".2g"}, least=3, intervals=("accuracy",),
    names={"metric": {"worst_node": "worst\nnode", "worst_class": "worst\nclass",
                      "other_stage": "other\nstage", "consensus": "spread"}},
)  # fmt: skip


def _networks(title: str, about: str, runs: Plan, figure: str = "progress") -> Item:
    return Item(title, about, runs, _PLACE, "networks", (_NETWORK,), figure, NETWORKS)


def _figure(item: str) -> Item:
    panel = PANELS[item]
    variants = ON_MNIST if panel.data == "mnist" else ON_FASHION
    where = {"line": "a line", "ring": "a ring", "erdos_renyi": "a random graph"}[panel.graph]
    return _networks(
        f"{NAMES['dataset'][panel.data]} on {where} of {panel.nodes}",
        "rows sorted by class and cut; accuracy after the last round, mean of all nodes",
        _among(variants, (item,), panel.arrival, panel.data),
    )


# Every panel of figure 2, and experiments of our own.
ITEMS: dict[str, Item] = {
    **{item: _figure(item) for item in PANELS},
    "alpha": _networks(
        "The share of worst losses",
        "our own: MNIST at q = .3, four alphas, and CTA with the step divided by alpha",
        _among(SWEPT, ("figure-2a", "figure-2b"), (0.3,)),
        "alphas",
    ),
    "order": _networks(
        "Adapt then combine, and the hard tail",
        "our own: MNIST on a ring; ATC is measured after combining",
        _among(ORDERS, ("figure-2b",), ARRIVAL),
    ),
    "rare": Item(
        "A class that only a seldom heard node holds",
        "our own: MNIST, 20 nodes; node 0 alone has the digit 0 and is heard with q = .05",
        _tasks_rare,
        "{dataset} {graph}|{variant}",
        (
            Reading("rare_class", lambda a: a["class_accuracy_of_others"][:, -1, 0]),
            Reading("accuracy", lambda a: a["accuracy"][:, -1, 1:].mean(-1)),
        ),
        (Table(("variant",), ("graph", "metric"), head="method", least=3,
               names={"metric": {"rare_class": "its class", "accuracy": "all"}}),),
        "rare",
        legend="accuracy of the 19 other nodes on the digit 0, and on all digits",
    ),
    "loss": Item(
        "What loss does",
        "our own: gap of CRC to RC after 64 and 256 rounds, accuracy of DecDiff+VT after 200",
        _tasks_loss,
        _PLACE,
        (
            Reading("gap", lambda a: a["gap"].mean(-1)),
            Reading("accuracy", lambda a: a["accuracy"][:, -1].mean(-1)),
        ),
        (Table(("q",), ("graph", "variant"), head="lost", least=3,
               names={"q": lambda q: f"{1 - q:.0%}"}),),
        "losses",
        legend="CRC: error above that of RC on letter (quick: digits); DecDiff+VT: accuracy on "
        "MNIST",
    ),
}  # fmt: skip


datasets = at_hand(SETS)

# What `peerwise reproduce cvar-cta/...` runs.
PAPER = Paper("cvar-cta", ITEMS, datasets, NAMES)
