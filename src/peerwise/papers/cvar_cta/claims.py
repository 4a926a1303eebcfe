"""How the claims of the CVaR-CTA paper are graded, and what its controls say."""

from collections.abc import Callable
from functools import partial
from typing import Any

from peerwise.papers import claims as grade
from peerwise.papers.claims import Estimate, Numbers, every, less, listed
from peerwise.papers.cvar_cta.items import PANELS, SETTINGS
from peerwise.study.results import Claim

FAILED = 0.5  # an accuracy below counts as not having solved the problem
_STEPS = {"average-cvar": ("cta", "cta/a"), "cvar-cvar": ("cta", "cta/a")}
_SMALL = {"cvar-cvar small": ("cta small", "cta/a small")}
_NAMED = {
    "average-cvar": "Average-CVaR",
    "cvar-cvar": "CVaR-CVaR",
    "cvar-cvar small": "CVaR-CVaR with a tenth of the step",
}
_claim = grade.sentences("cvar-cta")


def claims(number: Numbers) -> list[Claim]:
    """The paper's claims, each graded; one that was not measured is left out."""
    checks: list[Callable[[], Claim]] = []
    for item, panel in PANELS.items():
        checks += [partial(_order, number, item, q) for q in panel.arrival]
        checks += [partial(_reliable, number, item)] if 1.0 in panel.arrival else []
        if item == "figure-2c":
            checks += [partial(_fails, number, item, q) for q in panel.arrival]
        controls = {**_STEPS, **(_SMALL if panel.data == "mnist" else {})}
        checks += [
            partial(_control, number, item, q, variant, plain)
            for q in panel.arrival
            for variant, plain in controls.items()
        ]
    return grade.measured(checks)


def _place(item: str) -> dict[str, Any]:
    title = SETTINGS["items"][item]["title"].rpartition(" of ")[0]
    return {"item": item, "panel": item[-2:], "place": f"{item[-2:]}, {title}"}


def _accuracy(number: Numbers, item: str, q: float, variant: str) -> Estimate:
    return number(item=item, variant=variant, q=q, metric="accuracy")


def _methods(number: Numbers, item: str, q: float) -> dict[str, Estimate]:
    """Accuracies by the paper's names, each with the paper's step."""
    worst = "cvar-cvar small" if PANELS[item].data == "mnist" else "cvar-cvar"
    variants = {"CTA": "cta", "Average-CVaR": "average-cvar", "CVaR-CVaR": worst}
    return {name: _accuracy(number, item, q, v) for name, v in variants.items()}


def _order(number: Numbers, item: str, q: float) -> Claim:
    values = _methods(number, item, q)
    verdict = grade.falls([values[name] for name in ("CVaR-CVaR", "Average-CVaR", "CTA")])
    return _claim("order", verdict, listed(values), q=q, **_place(item))


def _reliable(number: Numbers, item: str) -> Claim:
    sure, lossy = (_methods(number, item, q) for q in (1.0, 0.3))
    # where a method learns nothing the paper does not compare
    named = [name for name in sure if item != "figure-2c" or name == "CVaR-CVaR"]
    ours = ", ".join(f"{name} {sure[name]:.3f} and {lossy[name]:.3f}" for name in named)
    verdict = every(less(lossy[name], sure[name]) for name in named)
    return _claim("reliable", verdict, ours, **_place(item))


def _fails(number: Numbers, item: str, q: float) -> Claim:
    values = _methods(number, item, q)
    fail = [less(values[name], FAILED) for name in ("CTA", "Average-CVaR")]
    verdict = every([*fail, less(FAILED, values["CVaR-CVaR"])])
    return _claim("fails", verdict, listed(values), q=q, **_place(item))


def _control(number: Numbers, item: str, q: float, variant: str, plain: tuple[str, str]) -> Claim:
    risk_aware = _accuracy(number, item, q, variant)
    cta = [_accuracy(number, item, q, v) for v in plain]
    ours = f"{risk_aware:.3f}; CTA {cta[0]:.3f}, CTA step / alpha {cta[1]:.3f}"
    verdict, named = every(less(one, risk_aware) for one in cta), _NAMED[variant]
    return _claim("control", verdict, ours, q=q, variant=variant, method=named, **_place(item))
