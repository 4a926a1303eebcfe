"""What the Gossip-NB paper claims, and whether it held here."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from peerwise.papers import claims as shared
from peerwise.papers.claims import listed, measured, numbers
from peerwise.papers.gossip_nb.items import EPSILONS, NODES, SETS
from peerwise.study.results import Claim, Record

SMALL = [e for e in EPSILONS if e < 0.5]
Values = dict[Any, float]  # set, variant and epsilon -> accuracy


def claims(records: list[Record]) -> list[Claim]:
    """The paper's claims, each marked held or not, with the numbers behind it."""
    two, four, clamped = (
        numbers(records, "dataset", "variant", "epsilon", item=item)
        for item in ("figure-2", "figure-4", "clamping")
    )
    six = numbers(records, "counter", "round", item="figure-6")
    seven = numbers(records, "parameter", "round", item="figure-7")
    of_two = (_approaches, _saturates, _beats_central, _small_budgets)
    checks = [partial(check, two) for check in of_two]
    checks += [partial(_small_budgets_clamped, two, clamped), partial(_degrades, two)]
    checks += [partial(_sizes_do_not_matter, four), partial(_gossip_meets_federated, six)]
    return measured([*checks, partial(_std_last, seven)])


def _claim(name: str, text: str, rule: str, ours: str, held: Any) -> Claim:
    """The paper states what it claims, without numbers."""
    return shared.claim(name, text, rule, ours, "stated", held)


def _approaches(two: Values) -> Claim:
    sets = [s for s in SETS.values() if (s, "10", 10.0) in two]
    gaps = {s: two[s, "vanilla", "none"] - two[s, "10", 10.0] for s in sets}
    if not gaps:
        raise KeyError("10")
    return shared.claim(
        "approaches-vanilla",
        "Federated naive Bayes approaches naive Bayes without noise as epsilon grows",
        "at epsilon = 10 and N = 10 accuracy is at most 0.03 lower, on every set",
        listed(gaps),
        "stated of all sets",
        max(gaps.values()) <= 0.03,
    )


def _saturates(two: Values) -> Claim:
    gaps = {n: two["skin", "vanilla", "none"] - two["skin", str(n), 1.0] for n in NODES}
    return _claim(
        "skin-saturates",
        "On Skin an epsilon of 1 already gives the highest accuracy in all cases",
        "at most 0.01 below naive Bayes without noise, for every N",
        listed(gaps, named="N={}:"),
        max(gaps.values()) <= 0.01,
    )


def _beats_central(two: Values) -> Claim:
    def gain(n: int, epsilon: float) -> float:
        return two["accelerometer", str(n), epsilon] - two["accelerometer", "central", epsilon]

    apart = {n: min(gain(n, e) for e in EPSILONS) for n in NODES}
    return _claim(
        "accelerometer-above-central",
        "Federated is above centralised DP naive Bayes on Accelerometer for all epsilon",
        "mean accuracy at most 0.005 lower at any epsilon, for every N",
        listed(apart, "+.3f", "N={}: least gain"),
        min(apart.values()) >= -0.005,
    )


def _mean(values: Values, variant: str) -> float:
    """Mean accuracy on Adult over small budgets."""
    return float(np.mean([values["adult", variant, e] for e in SMALL]))


def _small_budgets(two: Values) -> Claim:
    central, mean = _mean(two, "central"), {n: _mean(two, str(n)) for n in NODES}
    return _claim(
        "adult-above-central",
        "Federated is above centralised DP naive Bayes on Adult for small epsilon",
        "mean accuracy over epsilon < 0.5 is higher for at least one N > 1",
        f"central {central:.3f}; {listed(mean, named='N={}:')}",
        any(mean[n] > central for n in NODES if n > 1),
    )


def _small_budgets_clamped(two: Values, clamped: Values) -> Claim:
    central, mean = _mean(two, "central"), {n: _mean(clamped, f"{n} node") for n in (100, 1000)}
    return _claim(
        "adult-above-central-clamped",
        "The same with counts made positive at the nodes, as the authors' code does",
        "mean accuracy over epsilon < 0.5 is higher for N = 100 and for N = 1000",
        f"central {central:.3f}; {listed(mean, named='N={}:')}",
        min(mean.values()) > central,
    )


def _degrades(two: Values) -> Claim:
    sets = [s for s in ("congressional_voting", "mushroom") if (s, "100", 1.0) in two]
    mean = {
        s: [
            float(np.mean([two[s, str(n), e] for e in EPSILONS]))
            for n in NODES
            if (s, str(n), 1.0) in two
        ]
        for s in sets
    }
    if not mean:
        raise KeyError("100")
    return _claim(
        "categorical-degrade",
        "With categorical features accuracy falls as the number of nodes grows",
        "mean accuracy over all epsilon falls from each N to the next",
        "; ".join(f"{s} " + ", ".join(f"{v:.3f}" for v in values) for s, values in mean.items()),
        all(a > b for v in mean.values() for a, b in pairwise(v)),
    )


def _sizes_do_not_matter(four: Values) -> Claim:
    apart = {
        kind: max(abs(four["adult", kind, e] - four["adult", "equal", e]) for e in EPSILONS)
        for kind in ("uniform", "exponential")
    }
    return _claim(
        "sizes",
        "Nodes of very different sizes do as well as equal ones",
        "mean accuracy differs by at most 0.03 at every epsilon (Adult, 1000 nodes)",
        listed(apart, named="{}:"),
        max(apart.values()) <= 0.03,
    )


def _gossip_meets_federated(six: Values) -> Claim:
    ours, federated = six["printed", 30], six[None, None]
    others = {c: six[c, 30] for c in ("total", "push_sum", "walk") if (c, 30) in six}
    clamped, goal = six.get(("clamped", 30)), six.get(("clamped", None))
    return _claim(
        "gossip-meets-federated",
        "After about 30 iterations gossip reaches Federated's accuracy",
        "median accuracy at iteration 30 is within 0.01 (Algorithm 4 as printed)",
        f"{ours:.3f} against {federated:.3f}; {listed(others)}"
        + (f"; clamped at nodes: {clamped:.3f} against {goal:.3f}" if clamped and goal else ""),
        abs(ours - federated) <= 0.01,
    )


def _std_last(seven: Values) -> Claim:
    if not seven:
        raise KeyError("std")
    last = max(t for _, t in seven)
    at = {kind: value for (kind, t), value in seven.items() if t == last}
    return _claim(
        "std-last",
        "Priors converge first, standard deviations last and worst",
        "after the last iteration the median relative deviation from Federated is largest for "
        "standard deviations and smallest for priors",
        listed(at, ".4f"),
        max(at, key=lambda k: at[k]) == "std" and min(at, key=lambda k: at[k]) == "prior",
    )
