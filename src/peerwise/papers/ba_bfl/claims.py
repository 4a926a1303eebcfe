"""What the BA-BFL paper claims, and how that is graded here."""

from functools import partial
from itertools import combinations

from peerwise.papers.claims import (
    Estimate,
    Numbers,
    average,
    claim,
    every,
    exact,
    falls,
    less,
    listed,
    measured,
    tally,
    total,
    within,
)
from peerwise.study.results import Claim

LIKE = 0.02  # accuracies and calibration errors that differ by no more count as alike
LAYERS = (0, 1, 2, 3)
LONGER = "five times as much training (50 rounds of 10 epochs at full size)"


def claims(number: Numbers) -> list[Claim]:
    """The paper's claims, each graded; one that was not measured is left out."""
    sets = dict.fromkeys(d for (d, n) in number.each("dataset", "layers") if n is not None)
    by_layers = (_better, _falls, _fair)
    paper = [partial(c, number, name, False) for name in sets for c in (_alike, *by_layers, _costs)]
    longer = [partial(c, number, name, True) for name in sets for c in by_layers]
    return [*measured([partial(_toy, number), *paper]), *map(_as_longer, measured(longer))]


def _of_rules(
    number: Numbers, name: str, longer: bool, metric: str
) -> dict[int, dict[str, Estimate]]:
    """A metric by layers and rule, of the paper's items or the longer runs; all layers, or none."""
    items = ("longer",) if longer else ("table-1", "figure-3", "figure-4", "figure-5")
    cells: dict[int, dict[str, Estimate]] = {}
    for item in items:
        of = {"item": item, "metric": metric, "dataset": name}
        for (layers, rule), value in number.each("layers", "rule", **of).items():
            cells.setdefault(layers, {})[rule] = value
    if not set(cells) >= set(LAYERS):
        raise KeyError(metric)
    return cells


def _means(number: Numbers, name: str, longer: bool, metric: str) -> dict[int, Estimate]:
    """Means of the rules by number of Bayesian layers."""
    cells = _of_rules(number, name, longer, metric)
    return {n: average(cells[n].values()) for n in LAYERS}


def _row(values: dict[int, Estimate], digits: str = ".3f") -> str:
    return listed(values, digits, "n={}")


def _toy(number: Numbers) -> Claim:
    apart = [
        abs((r.value or 0) - r.paper_value)
        for fields, r in number.fields
        if fields["item"] == "figure-1" and r.paper_value is not None
    ]
    if not apart:
        raise KeyError("figure-1")
    return claim(
        "figure-1",
        "figure 1: barycenters of N(0, 1) and N(2, 1/4)",
        "means and variances as in the paper to 1e-6",
        f"largest difference {max(apart):.1e}",
        "figure 1",
        exact(max(apart) < 1e-6),
    )


def _as_longer(one: Claim) -> Claim:
    text = one.claim.replace(": ", f", {LONGER}: ", 1)
    return one.model_copy(update={"name": f"{one.name}, longer", "claim": text})


def _alike(number: Numbers, name: str, longer: bool) -> Claim:
    pairs = {}
    for what, metric in (("accuracy", "accuracy"), ("ECE", "ece_fine")):
        cells = _of_rules(number, name, longer, metric)
        for n in LAYERS[1:]:
            for (a, one), (b, other) in combinations(cells[n].items(), 2):
                apart = f"{what} n={n} {a} and {b} {one.mean - other.mean:+.3f}"
                pairs[apart] = within(one, other, LIKE)
    return claim(
        f"{name} alike",
        f"{name}: with as many Bayesian layers all rules perform alike",
        f"accuracy and ECE of any two rules at most {LIKE} apart, for every number of layers",
        f"pairs: {tally(pairs)}",
        "table 1",
        every(pairs.values()),
    )


def _better(number: Numbers, name: str, longer: bool) -> Claim:
    accuracy, ece, nll = (
        _means(number, name, longer, metric) for metric in ("accuracy", "ece_fine", "nll")
    )
    calm = [less(of[LAYERS[-1]], of[0]) for of in (ece, nll)]
    return claim(
        f"{name} calibrated",
        f"{name}: Bayesian layers calibrate better than FedAvg at a like accuracy",
        f"three layers: lower ECE and NLL, accuracy at most {LIKE} lower (mean of the rules)",
        f"ECE {_row(ece)}; NLL {_row(nll)}; accuracy {_row(accuracy)}",
        "table 1",
        every([*calm, less(accuracy[0], accuracy[LAYERS[-1]], LIKE)]),
    )


def _falls(number: Numbers, name: str, longer: bool) -> Claim:
    ece, nll = (_means(number, name, longer, metric) for metric in ("ece_fine", "nll"))
    return claim(
        f"{name} layers",
        f"{name}: the more Bayesian layers, the lower ECE and NLL",
        "both fall with every layer (mean of the rules)",
        f"ECE {_row(ece)}; NLL {_row(nll)}",
        "figure 3",
        every(falls(list(of.values())) for of in (ece, nll)),
    )


def _fair(number: Numbers, name: str, longer: bool) -> Claim:
    worst = _means(number, name, longer, "local_worst")
    rises = name == "cifar10"
    change = total((1.0, worst[LAYERS[-1]]), (-1.0, worst[1]))
    way = "rises" if rises else "falls"
    return claim(
        f"{name} fairness",
        f"{name}: fairness {way} with the number of Bayesian layers",
        f"accuracy of the worst local model {way} from one to three layers (mean of rules)",
        f"{_row(worst)}; {change:+.5f} from one to three",
        "figure 5",
        less(0.0, change) if rises else less(change, 0.0),
    )


def _costs(number: Numbers, name: str, longer: bool) -> Claim:
    seconds = _means(number, name, longer, "seconds_a_round")
    return claim(
        f"{name} cost",
        f"{name}: the more Bayesian layers, the longer a round",
        "a round takes longer with every layer more (reverse KL, timed three times)",
        _row(seconds, ".3g"),
        "figure 4",
        falls(list(seconds.values())[::-1]),
    )
