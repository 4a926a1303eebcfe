"""What the BA-BFL paper claims, and whether it held here."""

from itertools import pairwise
from typing import TypeAlias

import numpy as np

from peerwise.study.results import Claim, Record

LIKE = 0.02  # accuracies and calibration errors that differ by no more count as alike
LAYERS = (1, 2, 3)
LONGER = "five times as much training (50 rounds of 10 epochs at full size)"

_Cells: TypeAlias = dict[int, dict[str, float]]  # Bayesian layers -> rule -> value


def _cells(records: list[Record], metric: str, dataset: str) -> _Cells:
    """A metric by layers and rule, from whichever of the given records has it."""
    cells: _Cells = {}
    for r in records:
        wanted = r.metric == metric and r.dataset == dataset and "layers" in r.setting
        if wanted and r.value is not None:
            cells.setdefault(r.setting["layers"], {})[r.setting["rule"]] = r.value
    return cells


def claims(records: list[Record]) -> list[Claim]:
    """The paper's claims, each marked held or not; one that was not measured is left out."""
    claimed: list[Claim] = []
    toy = [r for r in records if r.item == "figure-1" and r.paper_value is not None]
    if toy:
        apart = max(abs((r.value or 0) - (r.paper_value or 0)) for r in toy)
        claimed.append(
            Claim(
                name="figure-1",
                claim="figure 1: barycenters of N(0, 1) and N(2, 1/4)",
                rule="means and variances as in the paper to 1e-6",
                ours=f"largest difference {apart:.1e}",
                paper="figure 1",
                held=apart < 1e-6,
            )
        )
    # Other runs have the same layers and rules: in table 1's claims they would pass for its own.
    paper = [r for r in records if r.item not in ("init", "longer")]
    longer = [r for r in records if r.item == "longer"]
    for name in dict.fromkeys(r.dataset for r in paper if "layers" in r.setting):
        accuracy, ece = (_cells(paper, m, name) for m in ("accuracy", "ece_fine"))
        if _whole(accuracy) and _whole(ece):
            claimed.append(_alike(name, accuracy, ece))
        claimed += _by_layers(paper, name)
        seconds = _cells(paper, "seconds_a_round", name)
        if _whole(seconds):
            claimed.append(_costs(name, seconds))
    for name in dict.fromkeys(r.dataset for r in longer):
        claimed += [_as_longer(claim) for claim in _by_layers(longer, name)]
    return claimed


def _by_layers(records: list[Record], name: str) -> list[Claim]:
    """What is claimed of the number of layers, and so of any of the rules."""
    claimed = []
    accuracy, ece, nll = (_cells(records, m, name) for m in ("accuracy", "ece_fine", "nll"))
    worst = _cells(records, "local_worst", name)
    if _whole(accuracy) and _whole(ece) and _whole(nll):
        claimed.append(_better(name, accuracy, ece, nll))
    if _whole(ece) and _whole(nll):
        claimed.append(_falls(name, ece, nll))
    if _whole(worst):
        claimed.append(_fair(name, worst))
    return claimed


def _as_longer(claim: Claim) -> Claim:
    text = claim.claim.replace(": ", f", {LONGER}: ", 1)
    return claim.model_copy(update={"name": f"{claim.name}, longer", "claim": text})


def _whole(cells: _Cells) -> bool:
    return set(cells) >= {0, *LAYERS}


def _mean(cells: _Cells, n: int) -> float:
    return float(np.mean(list(cells[n].values())))


def _row(cells: _Cells, digits: str = ".3f") -> str:
    return ", ".join(f"n={n} {_mean(cells, n):{digits}}" for n in (0, *LAYERS))


def _alike(name: str, accuracy: _Cells, ece: _Cells) -> Claim:
    spans = {
        what: max(max(cells[n].values()) - min(cells[n].values()) for n in LAYERS)
        for what, cells in (("accuracy", accuracy), ("ECE", ece))
    }
    return Claim(
        name=f"{name} alike",
        claim=f"{name}: with as many Bayesian layers all rules perform alike",
        rule=f"accuracies and ECE of the rules at most {LIKE} apart, for every number of layers",
        ours=", ".join(f"{what} up to {span:.3f} apart" for what, span in spans.items()),
        paper="table 1",
        held=max(spans.values()) <= LIKE,
    )


def _better(name: str, accuracy: _Cells, ece: _Cells, nll: _Cells) -> Claim:
    n = max(LAYERS)
    calm = _mean(ece, n) < _mean(ece, 0) and _mean(nll, n) < _mean(nll, 0)
    kept = _mean(accuracy, n) >= _mean(accuracy, 0) - LIKE
    return Claim(
        name=f"{name} calibrated",
        claim=f"{name}: Bayesian layers calibrate better than FedAvg at a like accuracy",
        rule=f"three layers: lower ECE and NLL, accuracy at most {LIKE} lower (mean of the rules)",
        ours=f"ECE {_row(ece)}; NLL {_row(nll)}; accuracy {_row(accuracy)}",
        paper="table 1",
        held=calm and kept,
    )


def _falls(name: str, ece: _Cells, nll: _Cells) -> Claim:
    def falling(cells: _Cells) -> bool:
        values = [_mean(cells, n) for n in (0, *LAYERS)]
        return all(b < a for a, b in pairwise(values))

    return Claim(
        name=f"{name} layers",
        claim=f"{name}: the more Bayesian layers, the lower ECE and NLL",
        rule="both fall with every layer (mean of the rules)",
        ours=f"ECE {_row(ece)}; NLL {_row(nll)}",
        paper="figure 3",
        held=falling(ece) and falling(nll),
    )


def _costs(name: str, seconds: _Cells) -> Claim:
    return Claim(
        name=f"{name} cost",
        claim=f"{name}: the more Bayesian layers, the longer a round",
        rule="three layers take longer than none (reverse KL)",
        ours=_row(seconds, ".3g"),
        paper="figure 4",
        held=_mean(seconds, max(LAYERS)) > _mean(seconds, 0),
    )


def _fair(name: str, worst: _Cells) -> Claim:
    rises = name == "cifar10"
    change = _mean(worst, max(LAYERS)) - _mean(worst, 1)
    way = "rises" if rises else "falls"
    return Claim(
        name=f"{name} fairness",
        claim=f"{name}: fairness {way} with the number of Bayesian layers",
        rule=f"accuracy of the worst local model {way} from one to three layers (mean of rules)",
        ours=f"{_row(worst)}; {change:+.5f} from one to three",
        paper="figure 5",
        held=change > 0 if rises else change < 0,
    )
