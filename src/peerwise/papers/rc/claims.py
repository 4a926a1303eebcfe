"""What calibration is meant to do to every model, and whether it did."""

from typing import TypeAlias

import numpy as np

from peerwise.papers.rc.items import MODELS
from peerwise.study.results import Claim, Record

Values: TypeAlias = dict[tuple[str, str], float]  # data set and column -> mean


def claims(records: list[Record]) -> list[Claim]:
    """What the comparison says, each claim marked held or not with the exceptions named."""
    values: Values = {
        (r.dataset, str(r.setting["column"])): r.value
        for r in records
        if r.item == "compare" and r.value is not None
    }
    if not values:
        return []
    lowers = {
        "train_soft_error": "training soft error",
        "test_error": "test error",
        "test_log_loss": "test log-loss",
    }
    return [*(_lowers(values, *named) for named in lowers.items()), _best(values)]


def _counted(every: int, missed: list[str]) -> str:
    return f"{every - len(missed)} of {every}" + (f"; not: {', '.join(missed)}" if missed else "")


def _lowers(values: Values, metric: str, what: str) -> Claim:
    pairs: dict[str, tuple[float, float]] = {}
    for name in dict.fromkeys(name for name, _ in values):
        for model in MODELS:
            before, after = (values.get((name, f"{model} {m} {metric}")) for m in ("ml", "rc"))
            if before is not None and after is not None:
                pairs[f"{model} on {name}"] = before, after
    missed = [name for name, (before, after) in pairs.items() if not after < before]
    return Claim(
        name=f"rc-lowers-{metric}",
        claim=f"Calibration lowers the {what} of every model on every set",
        rule="RC's mean is below maximum likelihood's, for each model and set",
        ours=_counted(len(pairs), missed),
        paper="",
        held=not missed,
    )


def _best(values: Values) -> Claim:
    best: dict[str, float] = {}
    for (name, column), value in values.items():
        if column in {f"{model} rc test_error" for model in MODELS}:
            best[name] = min(value, best.get(name, np.inf))
    rival = {n: values.get((n, "logistic_regression test_error"), np.nan) for n in best}
    missed = [n for n in best if best[n] > rival[n] + 0.01]
    return Claim(
        name="best-of-ours",
        claim="The best calibrated model is as good as logistic regression",
        rule="its mean test error is at most 0.01 higher, on every set",
        ours=_counted(len(best), missed),
        paper="",
        held=not missed,
    )
