"""The experiments of "BA-BFL: Barycentric Aggregation for Bayesian Federated Learning".

Jamoussi, Serra, Stavrou, Kountouris. Table 1 and figures 3 to 5 are views of the same runs: five
rules, one to three Bayesian layers, and FedAvg, which has none; but for figure 4, whose rounds are
timed by themselves. The text at hand lacks the numbers
of table 1: what is compared are the paper's claims. Our own: the paper's start of variances, longer
training, and the same barycenters over the neighbourhoods of graphs and links that lose messages.
"""

from typing import Any

from peerwise.papers.ba_bfl.printed import FIGURE_1
from peerwise.papers.items import (
    Description,
    Item,
    Paper,
    Reading,
    Scale,
    Table,
    Tasks,
    at_hand,
    deal_tasks,
    described,
    merged,
)
from peerwise.study.jobs import Task

SETS = ("fashion_mnist", "cifar10", "svhn_derived_20k")  # the last is a subset of SVHN
# The paper's rules.
RULES = ("aalv", "eaa", "gaa", "rkl", "w2")
# How many of the last layers are Bayesian.
LAYERS = (1, 2, 3)
TOY = ((0.0, 2.0), (1.0, 0.25), (0.5, 0.5))  # means, variances and weights of figure 1
# Networks of our own item, from sparse to dense, and rules on them.
GRAPHS: dict[str, Description] = {
    "tree": {"topology": "random_tree"},
    "ring": {"topology": "ring"},
    "er-0.3": {"topology": "erdos_renyi", "p": 0.3},
    "er-0.5": {"topology": "erdos_renyi", "p": 0.5},
    "complete": {"topology": "complete"},
}
ON_GRAPHS = {"rkl 2": ("rkl", 2), "w2 2": ("w2", 2), "decavg": ("rkl", 0)}

# The paper: 50 rounds of 50 epochs.
FULL: Description = {
    "net": {"name": "lenet"}, "method": {"epochs": 5},
    "run": {"rounds": 20, "record": 5, "repetitions": 2},
}  # fmt: skip
QUICK: Description = {
    "net": {"name": "mlp_200"}, "method": {"epochs": 2, "lr": 0.05},
    "split": {"train_rows": 4000, "test_rows": 1000},
    "run": {"rounds": 8, "record": 4, "repetitions": 1},
}  # fmt: skip
# Five times as many epochs in all, at either scale.
LONGER: Description = {"method": {"epochs": 10}, "run": {"rounds": 50, "record": 25}}
LONGER_QUICK: Description = {"method": {"epochs": 4}, "run": {"rounds": 20, "record": 10}}
LONGER_RULES = ("rkl", "w2")
MOVED = ("cifar10",)  # sets whose images are moved and mirrored in training
QUICK_RULES = ("rkl", "w2", "gaa")
TIMED_RULE = "rkl"  # of figure 4
_OWN = "peerwise.papers.ba_bfl.runs:"
MEASURED: list[Any] = ["calibration", f"{_OWN}fine_calibration", f"{_OWN}own_rows"]
OUTSIDE = {"fashion_mnist": "mnist"}  # a set of images of the same shape that are strange to it


# Rules by the paper's names and our colours; what it has not is marked.
STYLES = {
    "fedavg": ("FedAvg", "#111111"),
    "aalv": ("AALV", "#8a8a8a"),
    "eaa": ("EAA", "#009e73"),
    "gaa": ("GAA", "#e69f00"),
    "rkl": ("RKLB", "#c8102e"),
    "w2": ("WB", "#0072b2"),
    "kl": ("forward KL (ours)", "#8e44ad"),
    "gaa_normalised": ("GAA normalised (ours)", "#b9770e"),
    "rkl 2": ("RKLB, 2 Bayesian layers", "#c8102e"),
    "w2 2": ("WB, 2 Bayesian layers", "#0072b2"),
    "decavg": ("DecAvg, no Bayesian layer", "#111111"),
}
_NAMED = {rule: name for rule, (name, _) in STYLES.items()}
NAMES = {
    "dataset": {"fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10",
                "svhn_derived_20k": "SVHN (a subset)"},
    "rule": {**_NAMED, **{f"{r} paper init": f"{_NAMED[r]}, the paper's start" for r in RULES}},
    "variant": _NAMED,
    "graph": {"er-0.3": "random, .3", "er-0.5": "random, .5"},
    "metric": {
        "accuracy": "accu-\nracy", "ece": "ECE\n15", "ece_fine": "ECE\n100", "nll": "NLL",
        "brier": "Brier", "ood": "OOD\nAUROC", "seconds_a_round": "seconds\na round",
        "local_mean": "local\nmean", "local_worst": "local\nworst",
        "own_mean": "own rows\nmean", "own_worst": "own rows\nworst",
    },
}  # fmt: skip


def _dealt(name: str) -> Description:
    """A set as the paper deals it, class by class to ten nodes."""
    return {
        "data": {"source": name, "scale": "unit"},
        "split": {"partition": "dirichlet_by_class", "nodes": 10, "rows": "all", "test": "own"},
    }


def _described(name: str, rule: str, layers: int, scale: Scale, *more: Description) -> Description:
    strange = [{"name": f"{_OWN}entropies", "outside": OUTSIDE[name]}] if name in OUTSIDE else []
    measured = [*MEASURED, *strange]
    return merged(
        _dealt(name),
        {
            "method": {"name": "ba_bfl", "rule": {"name": "barycenter", "divergence": rule},
                       "batch": 64, "lr": 0.01, "momentum": 0.9, "weight_decay": 1e-5},
            "network": {"topology": "server", "fixed": True},
            "run": {"early": True, "stages": ["combine", "adapt"], "metrics": measured},
        },
        QUICK if scale.quick else FULL,
        {"net": {"init": "pytorch", "bayesian_layers": layers, "moved": name in MOVED}},
        *more,
    )  # fmt: skip


def _learn(name: str, rule: str, layers: int, scale: Scale, *more: Description) -> Task:
    often = {"run": {"repetitions": scale.repetitions}} if scale.repetitions else {}
    return described(f"{_OWN}learn", _described(name, rule, layers, scale, *more, often))


def _some(sets: list[str], scale: Scale) -> list[str]:
    return sets[:1] if scale.quick else sets


def _tasks(sets: list[str], scale: Scale) -> Tasks:
    """FedAvg, and every rule with one to three Bayesian layers."""
    return _by_layers(sets, scale, QUICK_RULES if scale.quick else RULES)


def _by_layers(sets: list[str], scale: Scale, rules: tuple[str, ...], *more: Description) -> Tasks:
    tasks = {}
    for name in _some(sets, scale):
        tasks[f"{name} 0 fedavg"] = _learn(name, "rkl", 0, scale, *more)
        for n in LAYERS:
            for rule in rules:
                tasks[f"{name} {n} {rule}"] = _learn(name, rule, n, scale, *more)
    return tasks


def _tasks_pace(sets: list[str], scale: Scale) -> Tasks:
    """Figure 4: rounds of FedAvg and of one rule by layers, timed with nothing beside them."""
    once: Description = {"run": {"repetitions": 1, "metrics": []}, "split": {"test_rows": 1}}
    return {
        f"{name} {n} {TIMED_RULE if n else 'fedavg'}": described(
            f"{_OWN}pace", _described(name, TIMED_RULE, n, scale, once)
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
        for rule in (QUICK_RULES if scale.quick else RULES)
        for start, more in starts.items()
        if name in sets
    }


def _tasks_longer(sets: list[str], scale: Scale) -> Tasks:
    """As many rounds as the paper has, with a fifth of its epochs, for two of the rules."""
    rules = LONGER_RULES[:1] if scale.quick else LONGER_RULES
    once = {"run": {"repetitions": 1}}
    return _by_layers(sets, scale, rules, LONGER_QUICK if scale.quick else LONGER, once)


def _tasks_graph(sets: list[str], scale: Scale) -> Tasks:
    lossy = "ring" if scale.quick else "er-0.3"
    places = [(graph, 1.0) for graph in (list(GRAPHS)[1::2] if scale.quick else GRAPHS)]
    tasks = {}
    for graph, q in [*places, (lossy, 0.3)] if "fashion_mnist" in sets else []:
        channel: dict[str, Any] = {} if q == 1 else {"channel": "erasure", "q": q}
        network = {"network": {**GRAPHS[graph], **channel}, "run": {"repetitions": 1}}
        for name, (rule, n) in ON_GRAPHS.items():
            tasks[f"fashion_mnist {graph} {q}|{name}"] = _learn(
                "fashion_mnist", rule, n, scale, network
            )
    return tasks


LEGEND = (
    "means of replicas, ± 95 % interval over three or more; ECE with 15 and with 100 bins; OOD: "
    "how well entropy tells another set's images"
)
PACE = (
    "median of three times, nothing measured on the way; only meant where nothing else ran on the "
    "device"
)

_ROWS = (
    Reading("rows", lambda a: a["counts"].sum(1).min(), {"of": "least"}),
    Reading("rows", lambda a: a["counts"].sum(1).max(), {"of": "most"}),
)
_SIZES = Table(("dataset",), ("of",), head="set", digits={"rows": ".0f"},
               names={"of": {"least": "fewest rows\nof a node"}})  # fmt: skip
_TOY = Table(("rule",), ("metric",), head="rule", digits={"mean": ".6g", "variance": ".6g"},
             paper="g")  # fmt: skip
_BY_LAYERS = Table(("layers", "rule"), ("metric",), ("dataset",),
                   "{dataset}\nBayesian layers, rule", " ", {"seconds_a_round": ".3g"}, 3)  # fmt: skip
_ON_GRAPHS = Table(("graph", "q", "variant"), ("metric",), head="graph, q, method", least=3)
_RUN, _PLACE = "{dataset} {layers:d} {rule}", "{dataset} {graph} {q:f}|{variant}"

# Every table and figure of the paper, and experiments of our own.
ITEMS: dict[str, Item] = {
    "figure-1": Item(
        "Barycenters of two Gaussians", "N(0, 1) and N(2, 1/4), weights 1/2",
        reads="toy", tables=(_TOY,), figure="toy", needs_data=False,
    ),
    "figure-2": Item(
        "Who holds what", "Dirichlet .5 class by class over 10 nodes",
        deal_tasks(_dealt, QUICK["split"]), "{dataset}", _ROWS, (_SIZES,),
        "papers.figures:allocation",
    ),
    "table-1": Item(
        "Accuracy, calibration and uncertainty of the merged model",
        "after the last round, on a server; numbers of the paper's table are not at hand",
        _tasks, _RUN, "runs", (_BY_LAYERS,), "by_layers", LEGEND,
    ),
    "figure-3": Item(
        "Calibration by Bayesian layers", "expected calibration error and log-loss",
        _tasks, _RUN, "runs", (_BY_LAYERS,), "by_layers", LEGEND,
    ),
    "figure-4": Item(
        "Cost by Bayesian layers", "seconds of a round of one replica, on a server",
        _tasks_pace, _RUN, "runs", (_BY_LAYERS,), "by_layers", PACE,
    ),
    "figure-5": Item(
        "Fairness by Bayesian layers",
        "local models on all test rows, and the merged model on nodes' own rows: mean and worst",
        _tasks, _RUN, "runs", (_BY_LAYERS,), "by_layers", LEGEND,
    ),
    "init": Item(
        "How variances begin",
        "our own: log-variances of -6, and of -9 under a clamp at -8 as in the paper's code",
        _tasks_init, _RUN, "runs", (_BY_LAYERS,), legend=LEGEND,
    ),
    "longer": Item(
        "Five times as much training",
        "our own: 50 rounds of 10 epochs, one replica, two of the rules",
        _tasks_longer, _RUN, "runs", (_BY_LAYERS,), "by_layers", LEGEND,
    ),
    "graph": Item(
        "Barycenters over neighbourhoods",
        "our own: Fashion-MNIST, sparse to dense graphs and 70 % loss, beside DecAvg",
        _tasks_graph, _PLACE, "runs", (_ON_GRAPHS,), "graphs", LEGEND,
    ),
}  # fmt: skip


datasets = at_hand(SETS)


def printed(item: str, fields: dict[str, Any]) -> float | None:
    """What figure 1 says; the text at hand lacks the numbers of table 1."""
    both = FIGURE_1.get(fields.get("rule", "")) if item == "figure-1" else None
    return (
        dict(zip(("mean", "variance"), both, strict=True)).get(fields["metric"]) if both else None
    )


# What `peerwise reproduce ba-bfl/...` runs.
PAPER = Paper("ba-bfl", ITEMS, datasets, NAMES, printed)
