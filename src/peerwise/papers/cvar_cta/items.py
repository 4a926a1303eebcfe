"""The experiments of the CVaR-CTA paper.

"Risk-Aware Decentralized Federated Learning with Intermittent Communications" (Theodoropoulos,
Mavrokefalidis, Berberidis). Its figure 2 has four panels and no numbers: what is compared are its
claims. Below the paper's items come our own: the share alpha, the order of steps, a class that only
a seldom heard node holds, and what loss does to other methods.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from peerwise.papers.cvar_cta.claims import claims
from peerwise.papers.items import Figure, TaskPaper, at_hand
from peerwise.study.results import Record
from peerwise.study.tasks import Task

__all__ = ["ALPHA", "ITEMS", "PANELS", "PAPER", "SWEEP", "VARIANTS", "datasets", "stage_of"]

Arrays = dict[str, np.ndarray]
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

# What is trained, by name: method and step. "/a" is the control: the step that CVaR takes at most.
VARIANTS: dict[str, dict[str, Any]] = {
    "cta": {"method": "cta", "lr": STEP},
    "cta/a": {"method": "cta", "lr": STEP / ALPHA},
    "average-cvar": {"method": "average-cvar", "lr": STEP, "alpha": ALPHA},
    "cvar-cvar": {"method": "cvar-cvar", "lr": STEP, "alpha": ALPHA},
    "cta small": {"method": "cta", "lr": SMALL},
    "cta/a small": {"method": "cta", "lr": SMALL / ALPHA},
    "cvar-cvar small": {"method": "cvar-cvar", "lr": SMALL, "alpha": ALPHA},
    "cta atc": {"method": "cta", "lr": STEP, "order": "atc"},
    "average-cvar atc": {"method": "average-cvar", "lr": STEP, "alpha": ALPHA, "order": "atc"},
    "cvar-cvar atc": {"method": "cvar-cvar", "lr": STEP, "alpha": ALPHA, "order": "atc"},
    "average-cvar hard": {
        "method": "average-cvar",
        "lr": STEP,
        "alpha": ALPHA,
        "smooth": False,
    },
    "cvar-cvar hard": {"method": "cvar-cvar", "lr": STEP, "alpha": ALPHA, "smooth": False},
    "decdiff+vt": {"method": "decdiff+vt"},
}
for _alpha in SWEEP:
    VARIANTS |= {
        f"cta/a {_alpha}": {"method": "cta", "lr": STEP / _alpha},
        f"average-cvar {_alpha}": {"method": "average-cvar", "lr": STEP, "alpha": _alpha},
        f"cvar-cvar {_alpha}": {"method": "cvar-cvar", "lr": STEP, "alpha": _alpha},
    }

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
FULL: dict[str, dict[str, Any]] = {
    "mnist": {"net": "mlp_200", "rounds": 900, "every": 30, "replicas": 10},
    "fashion_mnist": {"net": "lenet", "rounds": 3000, "every": 150, "replicas": 1,
                      "test_rows": 2000},
}  # fmt: skip
# On a CPU: fewer rows and rounds, smaller batches, longer steps.
QUICK: dict[str, Any] = {"net": "mlp_64", "rounds": 200, "steps": 5, "every": 20, "replicas": 2,
                         "rows": 5000, "test_rows": 1000, "batch": 20}  # fmt: skip
QUICK_STEPS = 10  # times as long
LOSSES = tuple(round(0.1 * k, 1) for k in range(10))  # of our figure


def _work(name: str, **arguments: Any) -> Task:
    return Task(f"peerwise.papers.cvar_cta.runs:{name}", arguments)


def _learn(
    panel: Panel, q: float, variant: str, quick: bool, runs: int | None, **more: Any
) -> Task:
    told = {**(QUICK if quick else FULL[panel.data]), **VARIANTS[variant], **more}
    if quick and "lr" not in more:
        told["lr"] *= QUICK_STEPS
    told["replicas"] = runs or told["replicas"]
    return _work("learn", data=panel.data, graph=panel.graph, nodes=panel.nodes, q=q, **told)


def _panel(item: str) -> Callable[[list[str], bool, int | None], dict[str, Task]]:
    panel = PANELS[item]
    variants = ON_MNIST if panel.data == "mnist" else ON_FASHION

    def tasks(sets: list[str], quick: bool, replicas: int | None) -> dict[str, Task]:
        if panel.data not in sets:
            return {}
        return {
            f"{panel.data} {panel.graph} {q}|{v}": _learn(panel, q, v, quick, replicas)
            for q in panel.arrival
            for v in variants
        }

    return tasks


def _among(
    variants: tuple[str, ...], items: tuple[str, ...], arrival: tuple[float, ...]
) -> Callable[[list[str], bool, int | None], dict[str, Task]]:
    """Tasks of some variants on panels of MNIST; figure 2 shares those that it has."""

    def tasks(sets: list[str], quick: bool, replicas: int | None) -> dict[str, Task]:
        if "mnist" not in sets:
            return {}
        return {
            f"mnist {PANELS[i].graph} {q}|{v}": _learn(PANELS[i], q, v, quick, replicas)
            for i in items
            for q in arrival
            for v in variants
        }

    return tasks


def _tasks_rare(sets: list[str], quick: bool, replicas: int | None) -> dict[str, Task]:
    """Node 0 holds the digit 0 alone and is heard with probability .05; all others always."""
    if "mnist" not in sets:
        return {}
    made = {}
    runs = replicas or (2 if quick else 3)
    told: dict[str, Any] = {"rounds": 200 if quick else 300, "quiet": 0.05}
    few = {"rows": 5000, "test_rows": 1000} if quick else {}
    net: dict[str, Any] = {**told, "every": told["rounds"] // 10, "way": "sole_holder"}
    for graph in ("ring", "erdos_renyi"):
        panel = Panel("mnist", graph, 20, (1.0,))
        for variant in (*RARE, "decdiff+vt"):
            # most rows are dealt evenly, so that longer steps do no harm
            lr = RARE_STEP * (4 if quick else 1) / (ALPHA if variant == "cta/a" else 1)
            made[f"{graph}|{variant}"] = _learn(panel, 1.0, variant, quick, runs, **net, lr=lr)
        for weigh in ("equal", "worst"):
            made[f"{graph}|crc {weigh}"] = _work(
                "rare_statistics", data="mnist", graph=graph, nodes=20, weigh=weigh,
                replicas=runs, **told, **few,
            )  # fmt: skip
    return made


def _tasks_loss(sets: list[str], quick: bool, replicas: int | None) -> dict[str, Task]:
    """CRC and DecDiff over links that lose more and more."""
    crc_data = "digits" if quick else "letter"
    made = {}
    for graph in ("tree", "erdos_renyi"):
        for loss in (0.0, 0.3, 0.6, 0.9) if quick else LOSSES:
            q = round(1 - loss, 1)
            for rounds in (64,) if quick else (64, 256):
                made[f"{crc_data} {graph} {q}|crc {rounds}"] = _work(
                    "calibrate", data=crc_data, graph=graph, q=q, rounds=rounds,
                    repetitions=replicas or (1 if quick else 3),
                    **({"rows": 20} if crc_data == "digits" else {}),
                )  # fmt: skip
            if "mnist" in sets:
                told: dict[str, Any] = {"net": "mlp_64", "rounds": 200, "every": 100,
                                        "rows": 10_000, "test_rows": 2000, "batch": 32,
                                        "replicas": replicas or 2}  # fmt: skip
                if quick:
                    told = {**QUICK, "rounds": 80, "every": 40, "replicas": replicas or 1}
                made[f"mnist {graph} {q}|decdiff+vt"] = _work(
                    "learn", data="mnist", method="decdiff+vt", graph=graph, nodes=50, q=q,
                    lr=0.05, way="zipf", **told,
                )  # fmt: skip
    return made


def _record(
    item: str, dataset: str, metric: str, values: Any, variant: str, **setting: Any
) -> Record:
    values = np.asarray(values, float).ravel()
    values = values[~np.isnan(values)]
    method = VARIANTS[variant]["method"] if variant in VARIANTS else variant.split()[0]
    return Record(
        paper="cvar-cta",
        item=item,
        dataset=dataset,
        setting={"method": method, "variant": variant, **setting},
        metric=metric,
        value=float(values.mean()) if values.size else None,
        std=float(values.std(ddof=1)) if values.size > 1 else None,
        reps=int(values.size),
    )


def stage_of(variant: str) -> str:
    """Which accuracy counts: after local steps, or after combining where that comes last."""
    return "combined_" if variant.endswith(" atc") else ""


def _networks(item: str) -> Callable[[dict[str, Arrays]], list[Record]]:
    """Accuracy after the last round: mean, worst node and class; how far models are apart."""

    def records(done: dict[str, Arrays]) -> list[Record]:
        made = []
        for name, arrays in done.items():
            where, _, variant = name.partition("|")
            dataset, graph, q = where.split()
            told = {"graph": graph, "q": float(q)}
            stage, other = stage_of(variant), "" if stage_of(variant) else "combined_"
            last = arrays[f"{stage}accuracy"][:, -1]
            for metric, values in (
                ("accuracy", last.mean(-1)),
                ("worst_node", last.min(-1)),
                ("worst_class", arrays[f"{stage}class_accuracy"][:, -1].min(-1)),
                ("other_stage", arrays[f"{other}accuracy"][:, -1].mean(-1)),
                ("consensus", arrays[f"{stage}consensus"][:, -1]),
            ):
                made.append(_record(item, dataset, metric, values, variant, **told))
        return made

    return records


def _rare(done: dict[str, Arrays]) -> list[Record]:
    """Accuracy of the nodes that are heard on the class that they have not, and on all."""
    made = []
    for name, arrays in done.items():
        graph, _, variant = name.partition("|")
        rare = arrays["class_accuracy_of_others"][:, -1, 0]
        whole = arrays["accuracy"][:, -1, 1:].mean(-1)
        for metric, values in (("rare_class", rare), ("accuracy", whole)):
            made.append(_record("rare", "mnist", metric, values, variant, graph=graph))
    return made


def _losses(done: dict[str, Arrays]) -> list[Record]:
    made = []
    for name, arrays in done.items():
        where, _, variant = name.partition("|")
        dataset, graph, q = where.split()
        told = {"graph": graph, "q": float(q)}
        if "gap" in arrays:
            made.append(_record("loss", dataset, "gap", arrays["gap"].mean(-1), variant, **told))
        else:
            values = arrays["accuracy"][:, -1].mean(-1)
            made.append(_record("loss", dataset, "accuracy", values, variant, **told))
    return made


def _figure(item: str) -> Figure:
    panel = PANELS[item]
    named = {"line": "a line", "ring": "a ring", "erdos_renyi": "a random graph"}[panel.graph]
    known = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}[panel.data]
    return Figure(
        f"{known} on {named} of {panel.nodes}",
        "rows sorted by class and cut; accuracy after the last round, mean of all nodes",
        _panel(item),
        _networks(item),
    )


# Every panel of figure 2, and experiments of our own.
ITEMS: dict[str, Figure] = {
    **{item: _figure(item) for item in PANELS},
    "alpha": Figure(
        "The share of worst losses",
        "our own: MNIST at q = .3, four alphas, and CTA with the step divided by alpha",
        _among(SWEPT, ("figure-2a", "figure-2b"), (0.3,)),
        _networks("alpha"),
    ),
    "order": Figure(
        "Adapt then combine, and the hard tail",
        "our own: MNIST on a ring; ATC is measured after combining",
        _among(ORDERS, ("figure-2b",), ARRIVAL),
        _networks("order"),
    ),
    "rare": Figure(
        "A class that only a seldom heard node holds",
        "our own: MNIST, 20 nodes; node 0 alone has the digit 0 and is heard with q = .05",
        _tasks_rare,
        _rare,
    ),
    "loss": Figure(
        "What loss does",
        "our own: gap of CRC to RC after 64 and 256 rounds, accuracy of DecDiff+VT after 200",
        _tasks_loss,
        _losses,
    ),
}


def datasets(chosen: Iterable[str] | None = None) -> list[str]:
    """Which of the two sets are at hand, of those chosen."""
    return at_hand(SETS, chosen)


# What `peerwise reproduce cvar-cta/...` runs.
PAPER = TaskPaper("cvar-cta", ITEMS, datasets, claims)
