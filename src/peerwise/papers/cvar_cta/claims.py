"""What the CVaR-CTA paper claims, whether it held here, and what its controls say."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

from peerwise.papers.claims import claim, listed, measured, numbers
from peerwise.study.results import Claim, Record

FAILED = 0.5  # an accuracy below counts as not having solved the problem


class _Panel(NamedTuple):
    """Where a panel of figure 2 is among the records."""

    item: str
    title: str
    arrival: tuple[float, ...]
    paper: dict[str, str]  # methods by the paper's names -> the variant with its step
    controls: dict[str, tuple[str, ...]]  # risk-aware variant -> CTA with its steps


_MNIST = {"CTA": "cta", "Average-CVaR": "average-cvar", "CVaR-CVaR": "cvar-cvar small"}
_FASHION = {"CTA": "cta", "Average-CVaR": "average-cvar", "CVaR-CVaR": "cvar-cvar"}
_NAMED = {
    "average-cvar": "Average-CVaR",
    "cvar-cvar": "CVaR-CVaR",
    "cvar-cvar small": "CVaR-CVaR with a tenth of the step",
    "cta": "CTA",
    "cta/a": "CTA step / alpha",
    "cta small": "CTA",
    "cta/a small": "CTA step / alpha",
}
_LONG: tuple[str, ...] = ("cta", "cta/a")
_CONTROLS: dict[str, tuple[str, ...]] = {"average-cvar": _LONG, "cvar-cvar": _LONG}
_PANELS = (
    _Panel("figure-2a", "2a, MNIST on a line", (1.0, 0.3), _MNIST,
           {**_CONTROLS, "cvar-cvar small": ("cta small", "cta/a small")}),
    _Panel("figure-2b", "2b, MNIST on a ring", (1.0, 0.3), _MNIST,
           {**_CONTROLS, "cvar-cvar small": ("cta small", "cta/a small")}),
    _Panel("figure-2c", "2c, Fashion-MNIST on a ring", (1.0, 0.3), _FASHION, _CONTROLS),
    _Panel("figure-2d", "2d, Fashion-MNIST on a random graph", (0.3,), _FASHION, _CONTROLS),
)  # fmt: skip

_Numbers: TypeAlias = dict[tuple[str, str, float], float]  # item, variant, q -> accuracy


def claims(records: list[Record]) -> list[Claim]:
    """The paper's claims, each marked held or not; one that was not measured is left out."""
    accuracies = [r for r in records if "q" in r.setting]
    number: _Numbers = numbers(accuracies, "item", "variant", "q", metric="accuracy")
    checks: list[Callable[[], Claim]] = []
    for panel in _PANELS:
        checks += [partial(_order, number, panel, q) for q in panel.arrival]
        checks += [partial(_reliable, number, panel)] if 1.0 in panel.arrival else []
        if panel.item == "figure-2c":
            checks += [partial(_only_one_learns, number, panel, q) for q in panel.arrival]
        controls = [(v, q) for q in panel.arrival for v in panel.controls]
        checks += [partial(_control, number, panel, q, variant) for variant, q in controls]
    return measured(checks)


def _order(number: _Numbers, panel: _Panel, q: float) -> Claim:
    values = {name: number[panel.item, v, q] for name, v in panel.paper.items()}
    return claim(
        f"{panel.item} order q={q:g}",
        f"{panel.title}, q = {q:g}: CVaR-CVaR > Average-CVaR > CTA",
        "higher mean accuracy after the last round, each with the paper's step",
        listed(values),
        f"figure {panel.item[-2:]}",
        values["CVaR-CVaR"] > values["Average-CVaR"] > values["CTA"],
    )


def _reliable(number: _Numbers, panel: _Panel) -> Claim:
    pairs = {
        name: (number[panel.item, v, 1.0], number[panel.item, v, 0.3])
        for name, v in panel.paper.items()
        # where a method learns nothing the paper does not compare
        if not (panel.item == "figure-2c" and name != "CVaR-CVaR")
    }
    return claim(
        f"{panel.item} reliable",
        f"{panel.title}: links that lose nothing are better than links that lose 70 %",
        "higher mean accuracy with q = 1 than with q = .3, every method named",
        ", ".join(f"{name} {a:.3f} and {b:.3f}" for name, (a, b) in pairs.items()),
        f"figure {panel.item[-2:]}",
        all(a > b for a, b in pairs.values()),
    )


def _only_one_learns(number: _Numbers, panel: _Panel, q: float) -> Claim:
    values = {name: number[panel.item, v, q] for name, v in panel.paper.items()}
    return claim(
        f"{panel.item} fails q={q:g}",
        f"{panel.title}, q = {q:g}: CTA and Average-CVaR fail, CVaR-CVaR learns",
        f"the first two below {FAILED}, CVaR-CVaR above",
        listed(values),
        f"figure {panel.item[-2:]}",
        max(values["CTA"], values["Average-CVaR"]) < FAILED < values["CVaR-CVaR"],
    )


def _control(number: _Numbers, panel: _Panel, q: float, variant: str) -> Claim:
    risk_aware = number[panel.item, variant, q]
    plain = {_NAMED[c]: number[panel.item, c, q] for c in panel.controls[variant]}
    return claim(
        f"{panel.item} control {variant} q={q:g}",
        f"{panel.title}, q = {q:g}: what {_NAMED[variant]} gains is not its step",
        "(our control) more accurate than CTA with the same step and with that step / alpha",
        f"{risk_aware:.3f}; {listed(plain)}",
        "not in the paper",
        risk_aware > max(plain.values()),
    )
