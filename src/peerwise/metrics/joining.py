"""Two models on the same rows: which is better, and should a site join the network?"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from peerwise.errors import BadData, UnknownName
from peerwise.metrics.arguments import check_settings, classes_of, column_of, metrics_of, split
from peerwise.metrics.bootstrap import LOWER_IS_BETTER, METRICS, resample
from peerwise.metrics.checks import checked_codes, checked_probabilities, number_array
from peerwise.metrics.intervals import NONE, of_terms, paired
from peerwise.metrics.scored import Scored


class Difference(NamedTuple):
    """A metric of two models on the same rows; `gain` is above 0 when `theirs` is better."""

    metric: str
    ours: float
    theirs: float
    gain: float
    low: float
    high: float
    rows: int
    rests_on: int = 0  # rows that decide: of the rarer class, flagged, or all, by the metric


def difference(
    y: Any,
    ours: Any,
    theirs: Any,
    *,
    metric: str = "balanced_accuracy",
    classes: Sequence[Any] | None = None,
    positive: Any = None,
    threshold: float = 0.5,
    bootstrap: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Difference:
    """How much better `theirs` is than `ours` on the same rows, with a paired interval.

    Both models are scored on the same rows, so what is hard for both cancels. `rests_on` says how
    many rows decide; `bootstrap` resamples give AUPRC, precision and the means of areas their
    interval, and 0 leaves out all intervals. Arguments are
    those of `report`; `gain` is ours - theirs for error and log loss, where lower is better.
    """
    how = _How(metric, threshold, bootstrap, level, seed)
    pair = _pair(y, {"ours": ours, "theirs": theirs}, classes, positive, how)
    return _compare(pair, np.arange(len(pair.y)), how)


def should_join(
    y: Any,
    local: Any,
    network: Any,
    site: Any,
    *,
    metric: str = "balanced_accuracy",
    classes: Sequence[Any] | None = None,
    positive: Any = None,
    threshold: float = 0.5,
    fewest: int = 10,
    fewest_cases: int = 5,
    bootstrap: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Should my site join? For each site, its local model against the network's on its own rows.

    Row i of `local` and `network` is scored by the models of the site that holds row i. The
    verdict is "join" when the interval of the gain lies above 0, "stay" when it lies below,
    otherwise "unclear". There is none on fewer than `fewest` rows, or on fewer than `fewest_cases`
    of those that the metric rests on (`rests_on`): all rows for error and log loss, the positive
    (the other) rows for sensitivity (specificity), the flagged ones for precision, and the rarest
    class for the rest. It then says what is too few, or "one class only". Each site is judged by
    itself: of many sites with equal models, at most about 1 - level get a verdict by chance.
    """
    how = _How(metric, threshold, bootstrap, level, seed)
    pair = _pair(y, {"local": local, "network": network}, classes, positive, how)
    index, lines = [], []
    for _, name, rows in split("site", column_of(site, len(pair.y), "site")):
        diff = _compare(pair, rows, how)
        verdict = _too_few(pair, rows, diff, fewest, fewest_cases)
        if verdict is None:
            verdict = "join" if diff.low > 0 else "stay" if diff.high < 0 else "unclear"
        index.append(name)
        lines.append((diff.rows, *diff[1:6], diff.rests_on, verdict))
    columns = ["rows", "local", "network", "gain", "low", "high", "rests_on", "verdict"]
    return pd.DataFrame(lines, pd.Index(index, name="site"), columns)


class _How(NamedTuple):
    metric: str
    threshold: float
    bootstrap: int
    level: float
    seed: int


class _Pair(NamedTuple):
    y: np.ndarray
    ours: np.ndarray
    theirs: np.ndarray
    positive: int | None
    names: list[str]


def _pair(
    y: Any, models: dict[str, Any], classes: Sequence[Any] | None, positive: Any, how: _How
) -> _Pair:
    metric = how.metric
    check_settings(how.threshold, how.bootstrap, how.level)
    if metric not in METRICS:
        raise UnknownName("metric", str(metric), METRICS)
    (one, ours), (other, theirs) = ((what, number_array(p, what)) for what, p in models.items())
    if ours.shape != theirs.shape:
        raise BadData(f"{one} is {ours.shape} and {other} is {theirs.shape}; score the same rows")
    names, of = classes_of(ours, classes, positive, one)
    if metric not in metrics_of(of):
        raise BadData(f"{metric} of {len(names)} classes needs a class of interest: give positive")
    codes = checked_codes(y, len(names), "y")
    ours = checked_probabilities(ours, of, len(codes), one)
    return _Pair(codes, ours, checked_probabilities(theirs, of, len(codes), other), of, names)


def _compare(pair: _Pair, rows: np.ndarray, how: _How) -> Difference:
    models = [
        Scored(pair.y[rows], p[rows], pair.positive, how.threshold)
        for p in (pair.ours, pair.theirs)
    ]
    ours, theirs = (model.score([how.metric]) for model in models)
    sign = -1.0 if how.metric in LOWER_IS_BETTER else 1.0

    def score(weight: np.ndarray) -> np.ndarray:
        both = [ours(weight)[0], theirs(weight)[0]]
        return np.stack([*both, sign * (both[1] - both[0])])

    one, other, gain = map(float, score(np.ones((1, len(rows))))[:, 0])
    least = min(model.rests_on(how.metric) for model in models)
    low, high = NONE
    if how.bootstrap and not np.isnan(gain):
        before, after = (model.terms(how.metric) for model in models)
        if before is None or after is None:
            draws = resample(score, len(rows), how.bootstrap, how.seed)[1]
            low, high = paired(gain, draws[2], least, how.level)
        else:
            terms = [b - a for a, b in zip(before, after, strict=True)]
            low, high = of_terms(gain, terms, how.level)
    if how.metric != "log_loss":  # no gain is more than 1
        low, high = float(np.maximum(low, -1)), float(np.minimum(high, 1))
    return Difference(how.metric, one, other, gain, low, high, len(rows), least)


def _too_few(
    pair: _Pair, rows: np.ndarray, diff: Difference, fewest: int, fewest_cases: int
) -> str | None:
    """Why there is no verdict; None where there are rows enough."""
    if diff.rows < fewest:
        return "too few rows"
    counts = np.bincount(pair.y[rows], minlength=len(pair.names))
    if np.isnan(diff.gain) and (counts > 0).sum() < 2:
        return "one class only"
    if diff.rests_on >= fewest_cases and not np.isnan(diff.gain):
        return None
    if diff.metric == "precision":
        return "too few flagged"
    rarest = int(np.where(counts > 0, counts, counts.sum() + 1).argmin())
    if pair.positive is not None and counts[pair.positive] == diff.rests_on:
        rarest = pair.positive
    if pair.positive is not None and len(counts) > 2 and rarest != pair.positive:
        return f"too few not '{pair.names[pair.positive]}'"
    return f"too few '{pair.names[rarest]}'"
