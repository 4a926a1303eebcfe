"""What the BA-BFL paper claims, and whether it held here."""

from functools import partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from peerwise.papers.claims import claim, measured, numbers
from peerwise.study.results import Claim, Record

LIKE = 0.02  # accuracies and calibration errors that differ by no more count as alike
LAYERS = (1, 2, 3)
LONGER = "five times as much training (50 rounds of 10 epochs at full size)"

_Cells: TypeAlias = dict[int, dict[str, float]]  # Bayesian layers -> rule -> value


def _cells(records: list[Record], dataset: str, *metrics: str) -> list[_Cells]:
    """Metrics by layers and rule, from whichever of the records has them; all layers, or none."""
    found = []
    for metric in metrics:
        cells: _Cells = {}
        values = numbers(records, "layers", "rule", metric=metric, dataset=dataset)
        for (layers, rule), value in values.items():
            cells.setdefault(layers, {})[rule] = value
        if not set(cells) >= {0, *LAYERS}:
            raise KeyError(metric)
        found.append(cells)
    return found


def claims(records: list[Record]) -> list[Claim]:
    """The paper's claims, each marked held or not; one that was not measured is left out."""
    # Other runs have the same layers and rules: in table 1's claims they would pass for its own.
    paper = [r for r in records if r.item not in ("init", "longer")]
    longer = [r for r in records if r.item == "longer"]
    checks = [partial(_toy, records)]
    for name in dict.fromkeys(r.dataset for r in paper if "layers" in r.setting):
        checks += [partial(c, paper, name) for c in (_alike, *_BY_LAYERS, _costs)]
    sets = dict.fromkeys(r.dataset for r in longer)
    more = [partial(c, longer, name) for name in sets for c in _BY_LAYERS]
    return [*measured(checks), *map(_as_longer, measured(more))]


def _toy(records: list[Record]) -> Claim:
    toy = [r for r in records if r.item == "figure-1" and r.paper_value is not None]
    if not toy:
        raise KeyError("figure-1")
    apart = max(abs((r.value or 0) - (r.paper_value or 0)) for r in toy)
    return claim(
        "figure-1",
        "figure 1: barycenters of N(0, 1) and N(2, 1/4)",
        "means and variances as in the paper to 1e-6",
        f"largest difference {apart:.1e}",
        "figure 1",
        apart < 1e-6,
    )


def _as_longer(claim: Claim) -> Claim:
    text = claim.claim.replace(": ", f", {LONGER}: ", 1)
    return claim.model_copy(update={"name": f"{claim.name}, longer", "claim": text})


def _mean(cells: _Cells, n: int) -> float:
    return float(np.mean(list(cells[n].values())))


def _row(cells: _Cells, digits: str = ".3f") -> str:
    return ", ".join(f"n={n} {_mean(cells, n):{digits}}" for n in (0, *LAYERS))


def _alike(records: list[Record], name: str) -> Claim:
    both = dict(
        zip(("accuracy", "ECE"), _cells(records, name, "accuracy", "ece_fine"), strict=True)
    )
    spans = {
        what: max(max(cells[n].values()) - min(cells[n].values()) for n in LAYERS)
        for what, cells in both.items()
    }
    return claim(
        f"{name} alike",
        f"{name}: with as many Bayesian layers all rules perform alike",
        f"accuracies and ECE of the rules at most {LIKE} apart, for every number of layers",
        ", ".join(f"{what} up to {span:.3f} apart" for what, span in spans.items()),
        "table 1",
        max(spans.values()) <= LIKE,
    )


def _better(records: list[Record], name: str) -> Claim:
    accuracy, ece, nll = _cells(records, name, "accuracy", "ece_fine", "nll")
    n = max(LAYERS)
    calm = _mean(ece, n) < _mean(ece, 0) and _mean(nll, n) < _mean(nll, 0)
    kept = _mean(accuracy, n) >= _mean(accuracy, 0) - LIKE
    return claim(
        f"{name} calibrated",
        f"{name}: Bayesian layers calibrate better than FedAvg at a like accuracy",
        f"three layers: lower ECE and NLL, accuracy at most {LIKE} lower (mean of the rules)",
        f"ECE {_row(ece)}; NLL {_row(nll)}; accuracy {_row(accuracy)}",
        "table 1",
        calm and kept,
    )


def _falls(records: list[Record], name: str) -> Claim:
    ece, nll = _cells(records, name, "ece_fine", "nll")

    def falling(cells: _Cells) -> bool:
        values = [_mean(cells, n) for n in (0, *LAYERS)]
        return all(b < a for a, b in pairwise(values))

    return claim(
        f"{name} layers",
        f"{name}: the more Bayesian layers, the lower ECE and NLL",
        "both fall with every layer (mean of the rules)",
        f"ECE {_row(ece)}; NLL {_row(nll)}",
        "figure 3",
        falling(ece) and falling(nll),
    )


def _costs(records: list[Record], name: str) -> Claim:
    (seconds,) = _cells(records, name, "seconds_a_round")
    return claim(
        f"{name} cost",
        f"{name}: the more Bayesian layers, the longer a round",
        "three layers take longer than none (reverse KL)",
        _row(seconds, ".3g"),
        "figure 4",
        _mean(seconds, max(LAYERS)) > _mean(seconds, 0),
    )


def _fair(records: list[Record], name: str) -> Claim:
    (worst,) = _cells(records, name, "local_worst")
    rises = name == "cifar10"
    change = _mean(worst, max(LAYERS)) - _mean(worst, 1)
    way = "rises" if rises else "falls"
    return claim(
        f"{name} fairness",
        f"{name}: fairness {way} with the number of Bayesian layers",
        f"accuracy of the worst local model {way} from one to three layers (mean of rules)",
        f"{_row(worst)}; {change:+.5f} from one to three",
        "figure 5",
        change > 0 if rises else change < 0,
    )


# What is claimed of the number of layers, and so of any of the rules.
_BY_LAYERS = (_better, _falls, _fair)
