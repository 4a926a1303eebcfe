"""An audit of a release: a lower bound on its epsilon from many draws."""

from collections.abc import Callable
from typing import Any

import numpy as np

from peerwise.errors import BadData, BadSetting

Event = Callable[[np.ndarray], np.ndarray]
THRESHOLDS = 200  # tried on the first half of the draws


def audit(
    sampler: Callable[[Any, int], np.ndarray],
    first: Any,
    second: Any,
    trials: int,
    confidence: float = 0.99,
    delta: float = 0.0,
) -> float:
    """A lower bound on a release's epsilon, with probability `confidence`; 0 if no event shows one.

    `sampler(data, trials)` draws `trials` numbers that are released on `data`; `first` and
    `second` differ in one row. An output that tells them apart (beyond a threshold, or equal to
    the most frequent value) is chosen on half of the draws, and its probabilities are bounded on
    the other half (Clopper and Pearson, 1934). If the bound is above the epsilon that is claimed,
    the claim is false; if it is below, nothing is proved.
    """
    if trials < 4:
        raise BadSetting(f"trials must be 4 or more, got {trials}")
    if not 0 < confidence < 1 or not 0 <= delta < 1:
        raise BadSetting(f"confidence and delta must be below 1, got {confidence} and {delta}")
    draws = [np.asarray(sampler(data, trials), float) for data in (first, second)]
    for drawn in draws:
        if drawn.shape != (trials,) or np.isnan(drawn).any():
            raise BadData(f"a sampler must return {trials} numbers, got shape {drawn.shape}")
    half = trials // 2
    seen, fresh = [d[:half] for d in draws], [d[half:] for d in draws]
    best, chosen = 0.0, None
    for event in _events(np.concatenate(seen)):
        for a, b in ((0, 1), (1, 0)):
            bound = _bound(event(seen[a]), event(seen[b]), confidence, delta)
            if bound > best:
                best, chosen = bound, (event, a, b)
    if chosen is None:
        return 0.0
    event, a, b = chosen
    return _bound(event(fresh[a]), event(fresh[b]), confidence, delta)


def _events(pooled: np.ndarray) -> list[Event]:
    """Outputs above or below a threshold, and the value that is drawn most often."""
    events: list[Event] = []
    for t in np.unique(np.quantile(pooled, np.linspace(0, 1, THRESHOLDS))).tolist():
        events += [lambda out, t=t: out > t, lambda out, t=t: out <= t]  # type: ignore[misc]
    values, counts = np.unique(pooled, return_counts=True)
    atom = values[np.argmax(counts)]
    return [*events, lambda out: out == atom]


def _bound(likely: np.ndarray, rare: np.ndarray, confidence: float, delta: float) -> float:
    """The least log((p - delta) / q) for the probabilities p and q of two series of outcomes."""
    from scipy.stats import beta  # slow to import, and only an audit needs it

    miss = (1 - confidence) / 2  # each of the two limits may fail
    hits, falls = int(likely.sum()), int(rare.sum())
    if hits == 0:
        return 0.0
    low = beta.ppf(miss, hits, len(likely) - hits + 1) - delta
    high = 1.0 if falls == len(rare) else beta.ppf(1 - miss, falls + 1, len(rare) - falls)
    return float(max(np.log(low / high), 0.0)) if low > 0 else 0.0
