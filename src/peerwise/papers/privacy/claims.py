"""What the study is meant to show, and how that is graded."""

from collections.abc import Mapping

from peerwise.papers.claims import (
    HELD,
    NOT_HELD,
    Estimate,
    Numbers,
    Verdict,
    every,
    exact,
    less,
    p_value,
    sentences,
    tally,
    total,
)
from peerwise.papers.privacy.report import METRICS
from peerwise.report.comparison import holm
from peerwise.study.results import Claim

_claim = sentences("privacy")
LEAST = 0.82  # AUC on Adult
LEVEL = 0.05  # of all tests of a claim together


def not_below(one: Estimate, other: Estimate) -> Verdict:
    """Held unless the whole interval of the difference lies below 0."""
    below = less(one, other).grade == HELD
    return Verdict(NOT_HELD if below else HELD)


def claims(number: Numbers) -> list[Claim]:
    """The claims that numbers speak to."""
    claims = []
    for metric in METRICS:
        for name, item, kinds, fields in (
            ("aware-not-below-plain", "utility", ("aware", "plain"), ("dataset", "nodes")),
            ("tenths", "tenths", ("aware", "plain"), ("dataset", "nodes")),
            ("untouched", "untouched", ("aware", "plain"), ("dataset", "nodes")),
            ("aware-not-below-diffprivlib", "utility", ("aware", "diffprivlib"), ("dataset",)),
            ("other-models", "models", ("aware", "plain"), ("dataset", "model", "nodes")),
        ):
            of = {"item": item, "metric": metric}
            only = {} if "nodes" in fields else {"nodes": "1"}
            ours, theirs = (
                number.each(*fields, "epsilon", **of, **only, kind=kind) for kind in kinds
            )
            if not ours or not theirs:
                continue
            pairs = {
                " ".join(map(str, place)): (ours[place], theirs[place])
                for place in ours
                if place in theirs
            }
            verdicts = {place: not_below(*pair) for place, pair in pairs.items()}
            counted = f"{tally(verdicts)}; {_together(pairs)}"
            claims.append(_claim(name, every(verdicts.values()), counted, metric=metric))
    return [*claims, *_adult(number)]


def _together(pairs: Mapping[str, tuple[Estimate, Estimate]]) -> str:
    """Which are below in tests that all together find one by mistake once in twenty times."""
    apart = {place: total((1.0, one), (-1.0, other)) for place, (one, other) in pairs.items()}
    corrected = holm([p_value(one) for one in apart.values()])
    below = [
        place
        for (place, one), p in zip(apart.items(), corrected, strict=True)
        if one.mean < 0 and p < LEVEL
    ]
    return f"below after Holm's correction: {', '.join(below) or 'none'}"


def _adult(number: Numbers) -> list[Claim]:
    try:
        one = number(
            item="utility", dataset="adult", nodes="100", kind="aware", epsilon=0.3, metric="auc"
        )
    except KeyError:
        return []
    return [_claim("adult", exact(one.mean >= LEAST), f"{one.mean:.3f}")]
