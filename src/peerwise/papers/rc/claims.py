"""What calibration is meant to do to every model, and whether it did."""

from typing import TypeAlias

import numpy as np

from peerwise.papers.claims import all_but, claim, numbers
from peerwise.papers.rc.items import MODELS
from peerwise.study.results import Claim, Record

Values: TypeAlias = dict[tuple[str, str], float]  # data set and column -> mean


def claims(records: list[Record]) -> list[Claim]:
    """What the comparison says, each claim marked held or not with the exceptions named."""
    values: Values = numbers(records, "dataset", "column", item="compare")
    if not values:
        return []
    lowers = {
        "train_soft_error": "training soft error",
        "test_error": "test error",
        "test_log_loss": "test log-loss",
    }
    return [*(_lowers(values, *named) for named in lowers.items()), _best(values)]


def _lowers(values: Values, metric: str, what: str) -> Claim:
    pairs: dict[str, tuple[float, float]] = {}
    for name in dict.fromkeys(name for name, _ in values):
        for model in MODELS:
            before, after = (values.get((name, f"{model} {m} {metric}")) for m in ("ml", "rc"))
            if before is not None and after is not None:
                pairs[f"{model} on {name}"] = before, after
    missed = [name for name, (before, after) in pairs.items() if not after < before]
    return claim(
        f"rc-lowers-{metric}",
        f"Calibration lowers the {what} of every model on every set",
        "RC's mean is below maximum likelihood's, for each model and set",
        all_but(len(pairs), missed),
        "",
        not missed,
    )


def _best(values: Values) -> Claim:
    best: dict[str, float] = {}
    for (name, column), value in values.items():
        if column in {f"{model} rc test_error" for model in MODELS}:
            best[name] = min(value, best.get(name, np.inf))
    rival = {n: values.get((n, "logistic_regression test_error"), np.nan) for n in best}
    missed = [n for n in best if best[n] > rival[n] + 0.01]
    return claim(
        "best-of-ours",
        "The best calibrated model is as good as logistic regression",
        "its mean test error is at most 0.01 higher, on every set",
        all_but(len(best), missed),
        "",
        not missed,
    )
