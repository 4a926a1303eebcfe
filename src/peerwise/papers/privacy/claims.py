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
    sentences,
    tally,
)
from peerwise.papers.privacy.report import METRICS
from peerwise.study.results import Claim

_claim = sentences("privacy")
LEAST = 0.82  # AUC on Adult


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
            verdicts = _verdicts(ours, theirs)
            claims.append(_claim(name, every(verdicts.values()), tally(verdicts), metric=metric))
    return [*claims, *_adult(number)]


def _verdicts(
    ours: Mapping[object, Estimate], theirs: Mapping[object, Estimate]
) -> Mapping[str, Verdict]:
    return {
        " ".join(map(str, place if isinstance(place, tuple) else (place,))): not_below(
            ours[place], theirs[place]
        )
        for place in ours
        if place in theirs
    }


def _adult(number: Numbers) -> list[Claim]:
    try:
        one = number(
            item="utility", dataset="adult", nodes="100", kind="aware", epsilon=0.3, metric="auc"
        )
    except KeyError:
        return []
    return [_claim("adult", exact(one.mean >= LEAST), f"{one.mean:.3f}")]
