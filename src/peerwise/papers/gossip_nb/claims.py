"""What the Gossip-NB paper claims, and how that is graded here."""

from functools import partial
from typing import Any

from peerwise.papers import claims as grade
from peerwise.papers.claims import Estimate, Numbers, average, every, less, listed, total
from peerwise.papers.gossip_nb.items import EPSILONS, NODES, SETS
from peerwise.study.results import Claim

_claim = grade.sentences("gossip-nb")
SMALL = [e for e in EPSILONS if e < 0.5]


def claims(number: Numbers) -> list[Claim]:
    """The paper's claims, each graded, with the numbers behind it."""
    checks = (_approaches, _saturates, _beats_central, _small_budgets, _small_budgets_clamped,
              _degrades, _sizes_do_not_matter, _gossip_meets_federated, _std_last)  # fmt: skip
    return grade.measured(partial(check, number) for check in checks)


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
    ours = listed(gaps)
    verdict = every(less(gap, 0.03) for gap in gaps.values())
    return _claim("approaches-vanilla", verdict, ours)


def _saturates(number: Numbers) -> Claim:
    gaps = {n: _below(number, "skin", n, 1.0) for n in NODES}
    ours = listed(gaps, named="N={}:")
    verdict = every(less(gap, 0.01) for gap in gaps.values())
    return _claim("skin-saturates", verdict, ours)


def _beats_central(number: Numbers) -> Claim:
    def gain(n: int, epsilon: float) -> Estimate:
        ours, central = (_of(number, "accelerometer", v, epsilon) for v in (n, "central"))
        return total((1.0, ours), (-1.0, central))

    gains = {n: [gain(n, e) for e in EPSILONS] for n in NODES}
    least = {n: min(of, key=lambda one: one.mean) for n, of in gains.items()}
    ours = listed(least, "+.3f", "N={}: least gain")
    verdict = every(less(-0.005, one) for of in gains.values() for one in of)
    return _claim("accelerometer-above-central", verdict, ours)


def _mean(number: Numbers, variant: Any, item: str = "figure-2") -> Estimate:
    """Mean accuracy on Adult over small budgets."""
    return average(_of(number, "adult", variant, e, item) for e in SMALL)


def _small_budgets(number: Numbers) -> Claim:
    central, mean = _mean(number, "central"), {n: _mean(number, n) for n in NODES}
    ours = f"central {central:.3f}; {listed(mean, named='N={}:')}"
    verdict = grade.at_least(1, [less(central, mean[n]) for n in NODES if n > 1])
    return _claim("adult-above-central", verdict, ours)


def _small_budgets_clamped(number: Numbers) -> Claim:
    central = _mean(number, "central")
    mean = {n: _mean(number, f"{n} node", "clamping") for n in (100, 1000)}
    ours = f"central {central:.3f}; {listed(mean, named='N={}:')}"
    verdict = every(less(central, one) for one in mean.values())
    return _claim("adult-above-central-clamped", verdict, ours)


def _degrades(number: Numbers) -> Claim:
    run = number.each("dataset", "variant", item="figure-2", epsilon=1.0)
    sets = [s for s in ("congressional_voting", "mushroom") if (s, "100") in run]
    mean = {
        s: [average(_of(number, s, n, e) for e in EPSILONS) for n in NODES if (s, str(n)) in run]
        for s in sets
    }
    if not mean:
        raise KeyError("100")
    ours = "; ".join(f"{s} " + ", ".join(f"{v:.3f}" for v in values) for s, values in mean.items())
    verdict = every(grade.falls(values) for values in mean.values())
    return _claim("categorical-degrade", verdict, ours)


def _sizes_do_not_matter(number: Numbers) -> Claim:
    def pair(kind: str, epsilon: float) -> tuple[Estimate, Estimate]:
        return (_of(number, "adult", kind, epsilon, "figure-4"),
                _of(number, "adult", "equal", epsilon, "figure-4"))  # fmt: skip

    pairs = {kind: [pair(kind, e) for e in EPSILONS] for kind in ("uniform", "exponential")}
    most = {kind: max(abs(a.mean - b.mean) for a, b in of) for kind, of in pairs.items()}
    ours = listed(most, named="{}: up to")
    verdict = every(grade.within(a, b, 0.03) for of in pairs.values() for a, b in of)
    return _claim("sizes", verdict, ours)


def _gossip_meets_federated(number: Numbers) -> Claim:
    six = number.each("epsilon", "counter", "round", item="figure-6")
    sentences, verdicts = [], []
    for epsilon in dict.fromkeys(budget for budget, _, _ in six):
        at = {(counter, t): value for (e, counter, t), value in six.items() if e == epsilon}
        printed, federated = at["printed", 30], at["printed", "Federated"]
        others = {c: at[c, 30] for c in ("total", "push_sum", "walk", "clamped") if (c, 30) in at}
        sentences.append(
            f"epsilon {epsilon}: {printed:.3f} against {federated:.3f}; {listed(others)}"
        )
        if ("clamped", "Federated") in at:
            sentences[-1] += f" against {at['clamped', 'Federated']:.3f}"
        verdicts.append(grade.within(printed, federated, 0.01))
    if not verdicts:
        raise KeyError("printed")
    return _claim("gossip-meets-federated", every(verdicts), ". ".join(sentences))


def _std_last(number: Numbers) -> Claim:
    seven = number.each("epsilon", "parameter", "round", item="figure-7")
    if not seven:
        raise KeyError("std")
    last, sentences, verdicts = max(t for _, _, t in seven), [], []
    for epsilon in dict.fromkeys(budget for budget, _, _ in seven):
        at = {k: value for (e, k, t), value in seven.items() if (e, t) == (epsilon, last)}
        others = [kind for kind in at if kind not in ("prior", "std")]
        sentences.append(f"epsilon {epsilon}: {listed(at, '.4f')}")
        verdicts += [less(at[k], at["std"]) for k in others]
        verdicts += [less(at["prior"], at[k]) for k in others]
    return _claim("std-last", every(verdicts), "; ".join(sentences))
