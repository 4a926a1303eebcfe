"""What the CVaR-CTA paper claims, how it is graded here, and what its controls say."""

from collections.abc import Callable
from functools import partial

from peerwise.papers.claims import Estimate, Numbers, claim, every, falls, less, listed, measured
from peerwise.papers.cvar_cta.items import ITEMS, PANELS
from peerwise.study.results import Claim

FAILED = 0.5  # an accuracy below counts as not having solved the problem
_STEPS = {"average-cvar": ("cta", "cta/a"), "cvar-cvar": ("cta", "cta/a")}
_SMALL = {"cvar-cvar small": ("cta small", "cta/a small")}
_NAMED = {
    "average-cvar": "Average-CVaR",
    "cvar-cvar": "CVaR-CVaR",
    "cvar-cvar small": "CVaR-CVaR with a tenth of the step",
}


def claims(number: Numbers) -> list[Claim]:
    """The paper's claims, each graded; one that was not measured is left out."""
    checks: list[Callable[[], Claim]] = []
    for item, panel in PANELS.items():
        checks += [partial(_order, number, item, q) for q in panel.arrival]
        checks += [partial(_reliable, number, item)] if 1.0 in panel.arrival else []
        if item == "figure-2c":
            checks += [partial(_only_one_learns, number, item, q) for q in panel.arrival]
        controls = {**_STEPS, **(_SMALL if panel.data == "mnist" else {})}
        checks += [
            partial(_control, number, item, q, variant, plain)
            for q in panel.arrival
            for variant, plain in controls.items()
        ]
    return measured(checks)


def _place(item: str) -> str:
    return f"{item[-2:]}, {ITEMS[item].title.rpartition(' of ')[0]}"


def _accuracy(number: Numbers, item: str, q: float, variant: str) -> Estimate:
    return number(item=item, variant=variant, q=q, metric="accuracy")


def _methods(number: Numbers, item: str, q: float) -> dict[str, Estimate]:
    """Accuracies by the paper's names, each with the paper's step."""
    worst = "cvar-cvar small" if PANELS[item].data == "mnist" else "cvar-cvar"
    variants = {"CTA": "cta", "Average-CVaR": "average-cvar", "CVaR-CVaR": worst}
    return {name: _accuracy(number, item, q, v) for name, v in variants.items()}


def _order(number: Numbers, item: str, q: float) -> Claim:
    values = _methods(number, item, q)
    return claim(
        f"{item} order q={q:g}",
        f"{_place(item)}, q = {q:g}: CVaR-CVaR > Average-CVaR > CTA",
        "higher accuracy after the last round, each with the paper's step",
        listed(values),
        f"figure {item[-2:]}",
        falls([values[name] for name in ("CVaR-CVaR", "Average-CVaR", "CTA")]),
    )


def _reliable(number: Numbers, item: str) -> Claim:
    sure, lossy = (_methods(number, item, q) for q in (1.0, 0.3))
    # where a method learns nothing the paper does not compare
    named = [name for name in sure if item != "figure-2c" or name == "CVaR-CVaR"]
    return claim(
        f"{item} reliable",
        f"{_place(item)}: links that lose nothing are better than links that lose 70 %",
        "higher accuracy with q = 1 than with q = .3, every method named",
        ", ".join(f"{name} {sure[name]:.3f} and {lossy[name]:.3f}" for name in named),
        f"figure {item[-2:]}",
        every(less(lossy[name], sure[name]) for name in named),
    )


def _only_one_learns(number: Numbers, item: str, q: float) -> Claim:
    values = _methods(number, item, q)
    fail = [less(values[name], FAILED) for name in ("CTA", "Average-CVaR")]
    return claim(
        f"{item} fails q={q:g}",
        f"{_place(item)}, q = {q:g}: CTA and Average-CVaR fail, CVaR-CVaR learns",
        f"the first two below {FAILED}, CVaR-CVaR above",
        listed(values),
        f"figure {item[-2:]}",
        every([*fail, less(FAILED, values["CVaR-CVaR"])]),
    )


def _control(number: Numbers, item: str, q: float, variant: str, plain: tuple[str, str]) -> Claim:
    risk_aware = _accuracy(number, item, q, variant)
    cta = [_accuracy(number, item, q, v) for v in plain]
    return claim(
        f"{item} control {variant} q={q:g}",
        f"{_place(item)}, q = {q:g}: what {_NAMED[variant]} gains is not its step",
        "(our control) more accurate than CTA with the same step and with that step / alpha",
        f"{risk_aware:.3f}; CTA {cta[0]:.3f}, CTA step / alpha {cta[1]:.3f}",
        "not in the paper",
        every(less(one, risk_aware) for one in cta),
    )
