"""What the Gossip-NB paper claims, and whether it held here."""

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np

from peerwise.papers.gossip_nb.items import EPSILONS, NODES, SETS
from peerwise.study.results import Claim, Record


def _table(records: list[Record], item: str) -> dict[tuple[str, str, Any], float]:
    return {
        (r.dataset, str(r.setting.get("variant")), r.setting.get("epsilon")): r.value
        for r in records
        if r.item == item and r.value is not None
    }


def _claim(name: str, claim: str, rule: str, ours: str, paper: str, held: Any) -> Claim:
    return Claim(name=name, claim=claim, rule=rule, ours=ours, paper=paper, held=bool(held))


def claims(records: list[Record]) -> list[Claim]:
    """The paper's claims, each marked held or not, with the numbers behind it."""
    two, clamped = _table(records, "figure-2"), _table(records, "clamping")
    checks: list[Callable[[], Claim | None]] = [
        lambda: _approaches(two),
        lambda: _saturates(two),
        lambda: _beats_central(two),
        lambda: _small_budgets(two),
        lambda: _small_budgets_clamped(two, clamped),
        lambda: _degrades(two),
        lambda: _sizes_do_not_matter(_table(records, "figure-4")),
        lambda: _gossip_meets_federated(records),
        lambda: _std_last(records),
    ]
    claimed = []
    for check in checks:
        with suppress(KeyError):  # a number that it needs could not be had: it is not measured
            claimed.append(check())
    return [claim for claim in claimed if claim is not None]


def _approaches(two: dict[Any, float]) -> Claim | None:
    sets = [s for s in SETS.values() if (s, "10", 10.0) in two]
    if not sets:
        return None
    gaps = {s: two[s, "vanilla", "none"] - two[s, "10", 10.0] for s in sets}
    ours = ", ".join(f"{s} {gap:.3f}" for s, gap in gaps.items())
    return _claim(
        "approaches-vanilla",
        "Federated naive Bayes approaches naive Bayes without noise as epsilon grows",
        "at epsilon = 10 and N = 10 accuracy is at most 0.03 lower, on every set",
        ours, "stated of all sets", max(gaps.values()) <= 0.03,
    )  # fmt: skip


def _saturates(two: dict[Any, float]) -> Claim | None:
    if ("skin", "vanilla", "none") not in two:
        return None
    gaps = {n: two["skin", "vanilla", "none"] - two["skin", str(n), 1.0] for n in NODES}
    return _claim(
        "skin-saturates",
        "On Skin an epsilon of 1 already gives the highest accuracy in all cases",
        "at most 0.01 below naive Bayes without noise, for every N",
        ", ".join(f"N={n}: {gap:.3f}" for n, gap in gaps.items()),
        "stated", max(gaps.values()) <= 0.01,
    )  # fmt: skip


def _beats_central(two: dict[Any, float]) -> Claim | None:
    if ("accelerometer", "central", 1.0) not in two:
        return None
    apart = {
        n: min(
            two["accelerometer", str(n), e] - two["accelerometer", "central", e] for e in EPSILONS
        )
        for n in NODES
    }
    return _claim(
        "accelerometer-above-central",
        "Federated is above centralised DP naive Bayes on Accelerometer for all epsilon",
        "mean accuracy at most 0.005 lower at any epsilon, for every N",
        ", ".join(f"N={n}: least gain {gain:+.3f}" for n, gain in apart.items()),
        "stated", min(apart.values()) >= -0.005,
    )  # fmt: skip


def _small_budgets(two: dict[Any, float]) -> Claim | None:
    if ("adult", "central", 1.0) not in two:
        return None
    small = [e for e in EPSILONS if e < 0.5]
    mean = {n: np.mean([two["adult", str(n), e] for e in small]) for n in NODES}
    central = float(np.mean([two["adult", "central", e] for e in small]))
    above = [n for n in NODES if mean[n] > central]
    return _claim(
        "adult-above-central",
        "Federated is above centralised DP naive Bayes on Adult for small epsilon",
        "mean accuracy over epsilon < 0.5 is higher for at least one N > 1",
        f"central {central:.3f}; " + ", ".join(f"N={n}: {v:.3f}" for n, v in mean.items()),
        "stated", any(n > 1 for n in above),
    )  # fmt: skip


def _small_budgets_clamped(two: dict[Any, float], clamped: dict[Any, float]) -> Claim | None:
    if ("adult", "central", 1.0) not in two or ("adult", "1000 node", 1.0) not in clamped:
        return None
    small = [e for e in EPSILONS if e < 0.5]
    central = float(np.mean([two["adult", "central", e] for e in small]))
    mean = {n: np.mean([clamped["adult", f"{n} node", e] for e in small]) for n in (100, 1000)}
    return _claim(
        "adult-above-central-clamped",
        "The same with counts made positive at the nodes, as the authors' code does",
        "mean accuracy over epsilon < 0.5 is higher for N = 100 and for N = 1000",
        f"central {central:.3f}; " + ", ".join(f"N={n}: {v:.3f}" for n, v in mean.items()),
        "stated", min(mean.values()) > central,
    )  # fmt: skip


def _degrades(two: dict[Any, float]) -> Claim | None:
    sets = [s for s in ("congressional_voting", "mushroom") if (s, "100", 1.0) in two]
    if not sets:
        return None
    mean = {
        s: [
            float(np.mean([two[s, str(n), e] for e in EPSILONS]))
            for n in NODES
            if (s, str(n), 1.0) in two
        ]
        for s in sets
    }
    ours = "; ".join(f"{s} " + ", ".join(f"{v:.3f}" for v in values) for s, values in mean.items())
    return _claim(
        "categorical-degrade",
        "With categorical features accuracy falls as the number of nodes grows",
        "mean accuracy over all epsilon falls from each N to the next",
        ours, "stated", all(a > b for v in mean.values() for a, b in pairwise(v)),
    )  # fmt: skip


def _sizes_do_not_matter(four: dict[Any, float]) -> Claim | None:
    if ("adult", "equal", 1.0) not in four:
        return None
    apart = {
        kind: max(abs(four["adult", kind, e] - four["adult", "equal", e]) for e in EPSILONS)
        for kind in ("uniform", "exponential")
    }
    return _claim(
        "sizes",
        "Nodes of very different sizes do as well as equal ones",
        "mean accuracy differs by at most 0.03 at every epsilon (Adult, 1000 nodes)",
        ", ".join(f"{kind}: {gap:.3f}" for kind, gap in apart.items()),
        "stated", max(apart.values()) <= 0.03,
    )  # fmt: skip


def _gossip_meets_federated(records: list[Record]) -> Claim | None:
    six = [r for r in records if r.item == "figure-6" and r.value is not None]
    at = {(r.setting.get("counter"), r.setting.get("round")): r.value for r in six}
    clamped, goal = at.get(("clamped", 30)), at.get(("clamped", None))
    federated = at.get((None, None))
    ours = at.get(("printed", 30))
    if federated is None or ours is None:
        return None
    others = [f"{c} {at[c, 30]:.3f}" for c in ("total", "push_sum", "walk") if (c, 30) in at]
    return _claim(
        "gossip-meets-federated",
        "After about 30 iterations gossip reaches Federated's accuracy",
        "median accuracy at iteration 30 is within 0.01 (Algorithm 4 as printed)",
        f"{ours:.3f} against {federated:.3f}; " + ", ".join(others)
        + (f"; clamped at nodes: {clamped:.3f} against {goal:.3f}" if clamped and goal else ""),
        "stated", abs(ours - federated) <= 0.01,
    )  # fmt: skip


def _std_last(records: list[Record]) -> Claim | None:
    seven = {
        (r.setting["parameter"], r.setting["round"]): r.value
        for r in records
        if r.item == "figure-7" and r.value is not None
    }
    if not seven:
        return None
    last = max(t for _, t in seven)
    at = {kind: seven[kind, last] for kind, t in seven if t == last}
    return _claim(
        "std-last",
        "Priors converge first, standard deviations last and worst",
        "after the last iteration the median relative deviation from Federated is largest for "
        "standard deviations and smallest for priors",
        ", ".join(f"{kind} {value:.4f}" for kind, value in at.items()),
        "stated",
        at and max(at, key=lambda k: at[k]) == "std" and min(at, key=lambda k: at[k]) == "prior",
    )
