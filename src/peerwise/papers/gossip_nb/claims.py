"""What the Gossip-NB paper claims, and how that is graded here."""

from functools import partial
from typing import Any

from peerwise.papers.claims import (
    Estimate,
    Numbers,
    Verdict,
    at_least,
    average,
    claim,
    every,
    falls,
    less,
    listed,
    measured,
    total,
    within,
)
from peerwise.papers.gossip_nb.items import EPSILONS, NODES, SETS
from peerwise.study.results import Claim

SMALL = [e for e in EPSILONS if e < 0.5]


def claims(number: Numbers) -> list[Claim]:
    """The paper's claims, each graded, with the numbers behind it."""
    checks = (_approaches, _saturates, _beats_central, _small_budgets, _small_budgets_clamped,
              _degrades, _sizes_do_not_matter, _gossip_meets_federated, _std_last)  # fmt: skip
    return measured(partial(check, number) for check in checks)


def _claim(name: str, text: str, rule: str, ours: str, verdict: Verdict) -> Claim:
    """The paper states what it claims, without numbers."""
    return claim(name, text, rule, ours, "stated", verdict)


def _of(number: Numbers, name: str, variant: Any, epsilon: Any, item: str = "figure-2") -> Estimate:
    return number(item=item, dataset=name, variant=str(variant), epsilon=epsilon, metric="accuracy")


def _vanilla(number: Numbers, name: str) -> float:
    """Accuracy without noise, which is computed once and has no spread."""
    return _of(number, name, "vanilla", "none").mean


def _below(number: Numbers, name: str, variant: Any, epsilon: float) -> Estimate:
    """How far an accuracy is below that without noise."""
    return total((-1.0, _of(number, name, variant, epsilon)), plus=_vanilla(number, name))


def _approaches(number: Numbers) -> Claim:
    run = number.sets(item="figure-2", variant="10", epsilon=10.0)
    gaps = {name: _below(number, name, 10, 10.0) for name in SETS.values() if name in run}
    if not gaps:
        raise KeyError("10")
    return _claim(
        "approaches-vanilla",
        "Federated naive Bayes approaches naive Bayes without noise as epsilon grows",
        "at epsilon = 10 and N = 10 accuracy is at most 0.03 lower, on every set",
        listed(gaps),
        every(less(gap, 0.03) for gap in gaps.values()),
    )


def _saturates(number: Numbers) -> Claim:
    gaps = {n: _below(number, "skin", n, 1.0) for n in NODES}
    return _claim(
        "skin-saturates",
        "On Skin an epsilon of 1 already gives the highest accuracy in all cases",
        "at most 0.01 below naive Bayes without noise, for every N",
        listed(gaps, named="N={}:"),
        every(less(gap, 0.01) for gap in gaps.values()),
    )


def _beats_central(number: Numbers) -> Claim:
    def gain(n: int, epsilon: float) -> Estimate:
        ours, central = (_of(number, "accelerometer", v, epsilon) for v in (n, "central"))
        return total((1.0, ours), (-1.0, central))

    gains = {n: [gain(n, e) for e in EPSILONS] for n in NODES}
    least = {n: min(of, key=lambda one: one.mean) for n, of in gains.items()}
    return _claim(
        "accelerometer-above-central",
        "Federated is above centralised DP naive Bayes on Accelerometer for all epsilon",
        "accuracy at most 0.005 lower at any epsilon, for every N",
        listed(least, "+.3f", "N={}: least gain"),
        every(less(-0.005, one) for of in gains.values() for one in of),
    )


def _mean(number: Numbers, variant: Any, item: str = "figure-2") -> Estimate:
    """Mean accuracy on Adult over small budgets."""
    return average(_of(number, "adult", variant, e, item) for e in SMALL)


def _small_budgets(number: Numbers) -> Claim:
    central, mean = _mean(number, "central"), {n: _mean(number, n) for n in NODES}
    return _claim(
        "adult-above-central",
        "Federated is above centralised DP naive Bayes on Adult for small epsilon",
        "accuracy over epsilon < 0.5 is higher for at least one N > 1",
        f"central {central:.3f}; {listed(mean, named='N={}:')}",
        at_least(1, [less(central, mean[n]) for n in NODES if n > 1]),
    )


def _small_budgets_clamped(number: Numbers) -> Claim:
    central = _mean(number, "central")
    mean = {n: _mean(number, f"{n} node", "clamping") for n in (100, 1000)}
    return _claim(
        "adult-above-central-clamped",
        "The same with counts made positive at the nodes, as the authors' code does",
        "accuracy over epsilon < 0.5 is higher for N = 100 and for N = 1000",
        f"central {central:.3f}; {listed(mean, named='N={}:')}",
        every(less(central, one) for one in mean.values()),
    )


def _degrades(number: Numbers) -> Claim:
    run = number.each("dataset", "variant", item="figure-2", epsilon=1.0)
    sets = [s for s in ("congressional_voting", "mushroom") if (s, "100") in run]
    mean = {
        s: [average(_of(number, s, n, e) for e in EPSILONS) for n in NODES if (s, str(n)) in run]
        for s in sets
    }
    if not mean:
        raise KeyError("100")
    return _claim(
        "categorical-degrade",
        "With categorical features accuracy falls as the number of nodes grows",
        "accuracy over all epsilon falls from each N to the next",
        "; ".join(f"{s} " + ", ".join(f"{v:.3f}" for v in values) for s, values in mean.items()),
        every(falls(values) for values in mean.values()),
    )


def _sizes_do_not_matter(number: Numbers) -> Claim:
    def pair(kind: str, epsilon: float) -> tuple[Estimate, Estimate]:
        return (_of(number, "adult", kind, epsilon, "figure-4"),
                _of(number, "adult", "equal", epsilon, "figure-4"))  # fmt: skip

    pairs = {kind: [pair(kind, e) for e in EPSILONS] for kind in ("uniform", "exponential")}
    most = {kind: max(abs(a.mean - b.mean) for a, b in of) for kind, of in pairs.items()}
    return _claim(
        "sizes",
        "Nodes of very different sizes do as well as equal ones",
        "accuracy differs by at most 0.03 at every epsilon (Adult, 1000 nodes)",
        listed(most, named="{}: up to"),
        every(within(a, b, 0.03) for of in pairs.values() for a, b in of),
    )


def _gossip_meets_federated(number: Numbers) -> Claim:
    six = number.each("counter", "round", item="figure-6")
    ours, federated = six["printed", 30], six[None, None]
    others = {c: six[c, 30] for c in ("total", "push_sum", "walk", "clamped") if (c, 30) in six}
    return _claim(
        "gossip-meets-federated",
        "After about 30 iterations gossip reaches Federated's accuracy",
        "median accuracy at iteration 30 is within 0.01 (Algorithm 4 as printed)",
        f"{ours:.3f} against {federated:.3f}; {listed(others)}"
        + (f" against {six['clamped', None]:.3f}" if ("clamped", None) in six else ""),
        within(ours, federated, 0.01),
    )


def _std_last(number: Numbers) -> Claim:
    seven = number.each("parameter", "round", item="figure-7")
    if not seven:
        raise KeyError("std")
    last = max(t for _, t in seven)
    at = {kind: value for (kind, t), value in seven.items() if t == last}
    others = [kind for kind in at if kind not in ("prior", "std")]
    return _claim(
        "std-last",
        "Priors converge first, standard deviations last and worst",
        "after the last iteration the median relative deviation from Federated is largest for "
        "standard deviations and smallest for priors",
        listed(at, ".4f"),
        every(v for k in others for v in (less(at[k], at["std"]), less(at["prior"], at[k]))),
    )
