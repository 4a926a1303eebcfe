"""Claims of papers, graded by intervals over repetitions: held, not held or undecided.

A claim is a sentence and a predicate over estimates: `less`, `within`, `falls`, and `every` or
`at_least` of several. It is held where the 95 % interval lies on the claimed side, not held where
it lies on the other, and undecided where it holds both, or where one repetition gives no interval.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from peerwise.papers.items import settings_of
from peerwise.study.results import Claim, Record

Grade = Literal["held", "not held", "undecided"]
HELD: Grade = "held"
NOT_HELD: Grade = "not held"
UNDECIDED: Grade = "undecided"
ONCE = "one repetition: no interval"
NAMED = 4  # so many exceptions of a counted claim are named


class Estimate(NamedTuple):
    """A mean over repetitions and how sure it is."""

    mean: float
    error: float | None  # of the mean; None where there is one repetition
    freedom: float = math.inf  # degrees of freedom that the error has
    values: tuple[float, ...] = ()  # one a repetition, where they are known

    @property
    def half(self) -> float | None:
        """Half of the 95 % interval of the mean."""
        return None if self.error is None else float(stdtrit(self.freedom, 0.975)) * self.error

    def __format__(self, digits: str) -> str:
        half, spec = self.half, digits or ".3f"
        return f"{self.mean:{spec}}" + ("" if half is None else f" ±{half:{spec.lstrip('+')}}")


def sample(values: Sequence[float]) -> Estimate:
    """The estimate that values give, one a repetition."""
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return Estimate(mean, None, values=tuple(values))
    return Estimate(mean, float(np.std(values, ddof=1)) / math.sqrt(n), n - 1, tuple(values))


def estimate(record: Record) -> Estimate:
    """The estimate of a record; a KeyError where it has no number."""
    if record.value is None:
        raise KeyError(record.metric)
    if record.values:
        # what is shown may be a median, or of all nodes at once: its spread is that of the values
        return sample(record.values)._replace(mean=record.value)
    if record.std is None or record.reps < 2:
        return Estimate(record.value, None)
    return Estimate(record.value, record.std / math.sqrt(record.reps), record.reps - 1)


def total(*terms: tuple[float, Estimate], plus: float = 0.0) -> Estimate:
    """A sum of estimates, each times a number: paired by repetition where all know theirs.

    Otherwise errors are independent, with the degrees of freedom of Welch and Satterthwaite.
    """
    mean = plus + sum(weight * one.mean for weight, one in terms)
    lengths = {len(one.values) for _, one in terms}
    if len(lengths) == 1 and lengths != {0}:
        rows = [weight * np.asarray(one.values) for weight, one in terms]
        return sample(np.sum(rows, axis=0) + plus)._replace(mean=mean)
    if any(one.error is None for _, one in terms):
        return Estimate(mean, None)
    parts = [((weight * (one.error or 0.0)) ** 2, one.freedom) for weight, one in terms]
    variance = sum(part for part, _ in parts)
    spread = sum(part**2 / freedom for part, freedom in parts)
    return Estimate(mean, math.sqrt(variance), variance**2 / spread if spread else math.inf)


def average(estimates: Iterable[Estimate]) -> Estimate:
    """The mean of estimates."""
    every_one = list(estimates)
    return total(*((1 / len(every_one), one) for one in every_one))


class Verdict(NamedTuple):
    """How a claim is graded, and what that rests on."""

    grade: Grade
    reason: str = ""


def exact(holds: bool) -> Verdict:
    """The verdict on what is computed and has no spread."""
    return Verdict(HELD if holds else NOT_HELD)


def _below_zero(one: Estimate) -> Verdict:
    half = one.half
    if half is None:
        return Verdict(UNDECIDED, ONCE)
    if one.mean + half < 0:
        return Verdict(HELD)
    return (
        Verdict(NOT_HELD) if one.mean - half > 0 else Verdict(UNDECIDED, "the interval holds zero")
    )


def less(a: Estimate | float, b: Estimate | float, margin: float = 0.0) -> Verdict:
    """Whether a is less than b, or than b and a margin."""
    numbers = [(1.0, a), (-1.0, b)]
    terms = [(weight, one) for weight, one in numbers if isinstance(one, Estimate)]
    plain = sum(weight * one for weight, one in numbers if not isinstance(one, Estimate))
    return _below_zero(total(*terms, plus=plain - margin))


def within(a: Estimate, b: Estimate | float, margin: float) -> Verdict:
    """Whether a and b are no more than a margin apart: the whole interval is on one side of it."""
    return every((less(a, b, margin), less(b, a, margin)))


def p_value(one: Estimate) -> float:
    """The p-value of a two-sided t test that the mean is 0; NaN where it has no interval."""
    if one.error is None:
        return math.nan
    if one.error == 0:
        return 0.0 if one.mean else 1.0
    return 2 * float(stdtr(one.freedom, -abs(one.mean) / one.error))


def falls(values: Sequence[Estimate]) -> Verdict:
    """Whether each value is less than the one before."""
    return every(less(after, before) for before, after in pairwise(values))


def every(verdicts: Iterable[Verdict]) -> Verdict:
    """Held where all are; not held where any is not."""
    all_of = list(verdicts)
    return at_least(len(all_of), all_of)


def at_least(count: float, verdicts: Iterable[Verdict]) -> Verdict:
    """Held where so many are held; not held where so many cannot be, whatever is undecided."""
    all_of = list(verdicts)
    held, open_ = (sum(v.grade == grade for v in all_of) for grade in (HELD, UNDECIDED))
    reasons = dict.fromkeys(v.reason for v in all_of if v.grade == UNDECIDED and v.reason)
    if held >= count:
        return Verdict(HELD)
    return Verdict(NOT_HELD) if held + open_ < count else Verdict(UNDECIDED, "; ".join(reasons))


def tally(verdicts: Mapping[str, Verdict]) -> str:
    """How many are held, undecided and not held, and which are not, where these are few."""
    named: dict[str, list[str]] = {HELD: [], UNDECIDED: [], NOT_HELD: []}
    for name, verdict in verdicts.items():
        named[verdict.grade].append(name)
    counts = ", ".join(f"{len(names)} {grade}" for grade, names in named.items() if names)
    exceptions = [
        f"; {grade}: {', '.join(names[:NAMED])}" + (", ..." if len(names) > NAMED else "")
        for grade, names in reversed(named.items())
        if names and grade != HELD
    ]
    return f"{counts} of {len(verdicts)}{''.join(exceptions)}"


class Numbers:
    """The numbers of a run, found by their item, data set, metric and settings."""

    def __init__(self, records: Iterable[Record]):
        self.fields = [
            ({**r.setting, "item": r.item, "dataset": r.dataset, "metric": r.metric}, r)
            for r in records
            if r.value is not None
        ]

    def each(self, *keys: str, **only: Any) -> dict[Any, Estimate]:
        """Estimates by some fields, of those alone that have what `only` says; one key is plain."""
        every_one = {}
        for fields, record in self.fields:
            if all(fields.get(name) == value for name, value in only.items()):
                place = tuple(fields.get(key) for key in keys)
                every_one[place if len(keys) > 1 else place[0]] = estimate(record)
        return every_one

    def __call__(self, **only: Any) -> Estimate:
        """The estimate that has what `only` says; a KeyError where none was measured."""
        for fields, record in self.fields:
            if all(fields.get(name) == value for name, value in only.items()):
                return estimate(record)
        raise KeyError(str(only))

    def sets(self, **only: Any) -> list[str]:
        """The data sets of which there is a number."""
        return list(self.each("dataset", **only))


def sentences(paper: str) -> Callable[..., Claim]:
    """A function that grades a claim of a paper, whose words are in its `paper.toml`."""
    return partial(_claim, settings_of(paper)["claims"])


def _claim(
    words: Mapping[str, Mapping[str, str]], kind: str, verdict: Verdict, ours: str, **fields: Any
) -> Claim:
    """A claim with its grade; its words have fields in braces."""
    said = {key: text.format(**fields) for key, text in {"paper": "", **words[kind]}.items()}
    name = said.pop("name", kind)
    return Claim(name=name, **said, ours=ours, verdict=verdict.grade, reason=verdict.reason)


def measured(checks: Iterable[Callable[[], Claim]]) -> list[Claim]:
    """What checks give; one that asks for a number that was not measured is left out."""
    claimed = []
    for check in checks:
        with suppress(KeyError):
            claimed.append(check())
    return claimed


def listed(values: Mapping[Any, Any], digits: str = ".3f", named: str = "{}") -> str:
    """Names and numbers, one after the other."""
    return ", ".join(f"{named.format(name)} {value:{digits}}" for name, value in values.items())
