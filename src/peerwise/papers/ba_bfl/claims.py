"""What the BA-BFL paper claims, and how that is graded here."""

from functools import partial
from itertools import combinations
from typing import Any

from peerwise.papers import claims as grade
from peerwise.papers.claims import Estimate, Numbers, every, falls, less
from peerwise.study.results import Claim

LIKE = 0.02  # accuracies and calibration errors that differ by no more count as alike
LAYERS = (0, 1, 2, 3)
LONGER = ", five times as much training (50 rounds of 10 epochs at full size)"
_claim = grade.sentences("ba-bfl")


def claims(number: Numbers) -> list[Claim]:
    """The paper's claims, each graded; one that was not measured is left out."""
    sets = dict.fromkeys(d for (d, n) in number.each("dataset", "layers") if n is not None)
    by_layers = (_better, _falls, _fair)
    paper = [partial(c, number, name, False) for name in sets for c in (_alike, *by_layers, _costs)]
    longer = [partial(c, number, name, True) for name in sets for c in by_layers]
    return grade.measured([partial(_toy, number), *paper, *longer])


def _about(name: str, longer: bool) -> dict[str, Any]:
    both = {"more": ", longer", "training": LONGER} if longer else {"more": "", "training": ""}
    return {"set": name, **both}


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
    return {n: grade.average(cells[n].values()) for n in LAYERS}


def _row(values: dict[int, Estimate], digits: str = ".3f") -> str:
    return grade.listed(values, digits, "n={}")


def _toy(number: Numbers) -> Claim:
    apart = [
        abs((r.value or 0) - r.paper_value)
        for fields, r in number.fields
        if fields["item"] == "figure-1" and r.paper_value is not None
    ]
    if not apart:
        raise KeyError("figure-1")
    verdict = grade.exact(max(apart) < 1e-6)
    return _claim("figure-1", verdict, f"largest difference {max(apart):.1e}")


def _alike(number: Numbers, name: str, longer: bool) -> Claim:
    pairs = {}
    for what, metric in (("accuracy", "accuracy"), ("ECE", "ece_fine")):
        cells = _of_rules(number, name, longer, metric)
        for n in LAYERS[1:]:
            for (a, one), (b, other) in combinations(cells[n].items(), 2):
                apart = f"{what} n={n} {a} and {b} {one.mean - other.mean:+.3f}"
                pairs[apart] = grade.within(one, other, LIKE)
    return _claim("alike", every(pairs.values()), f"pairs: {grade.tally(pairs)}", set=name)


def _better(number: Numbers, name: str, longer: bool) -> Claim:
    accuracy, ece, nll = (
        _means(number, name, longer, metric) for metric in ("accuracy", "ece_fine", "nll")
    )
    calm = [less(of[LAYERS[-1]], of[0]) for of in (ece, nll)]
    verdict = every([*calm, less(accuracy[0], accuracy[LAYERS[-1]], LIKE)])
    ours = f"ECE {_row(ece)}; NLL {_row(nll)}; accuracy {_row(accuracy)}"
    return _claim("calibrated", verdict, ours, **_about(name, longer))


def _falls(number: Numbers, name: str, longer: bool) -> Claim:
    ece, nll = (_means(number, name, longer, metric) for metric in ("ece_fine", "nll"))
    verdict = every(falls(list(of.values())) for of in (ece, nll))
    return _claim("layers", verdict, f"ECE {_row(ece)}; NLL {_row(nll)}", **_about(name, longer))


def _fair(number: Numbers, name: str, longer: bool) -> Claim:
    worst = _means(number, name, longer, "local_worst")
    change = grade.total((1.0, worst[LAYERS[-1]]), (-1.0, worst[1]))
    rises = name == "cifar10"
    verdict = less(0.0, change) if rises else less(change, 0.0)
    ours, way = f"{_row(worst)}; {change:+.5f} from one to three", "rises" if rises else "falls"
    return _claim("fairness", verdict, ours, way=way, **_about(name, longer))


def _costs(number: Numbers, name: str, longer: bool) -> Claim:
    seconds = _means(number, name, longer, "seconds_a_round")
    return _claim("cost", falls(list(seconds.values())[::-1]), _row(seconds, ".3g"), set=name)
