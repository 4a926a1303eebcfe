"""Confidence intervals that hold for few rows, and for metrics at the end of their range.

A percentile bootstrap of 3 of 3 is [1, 1]. So proportions have Wilson's score interval (1927); a
mean of proportions the square-and-add combination of those (Zou and Donner 2008); AUROC Newcombe's
score interval (2006, method 5); AUPRC Wilson's with as many trials as positives (after Boyd, Eng
and Page 2013), or fewer where its resamples vary more; the log loss, a mean of skewed terms, the
bootstrap-t (Efron and Tibshirani 1993, section 12.5). A gain on the same rows has Student's
interval of its terms' differences, with Welch's degrees of freedom where classes vary apart, and
DeLong's terms for AUROC (1988); AUPRC, precision and means of areas take their standard error from
the bootstrap.
"""

import numpy as np
from scipy.special import ndtri, stdtrit  # quantiles, without loading all of scipy.stats

from peerwise.metrics.bootstrap import interval, resample

HALVINGS = 60
Interval = tuple[float, float]
NONE = (np.nan, np.nan)


def proportion(share: float, trials: float, level: float) -> Interval:
    """Wilson's interval of a share of so many trials; NaN without any."""
    if not trials > 0 or np.isnan(share):
        return NONE
    z2 = ndtri((1 + level) / 2) ** 2 / trials
    middle = share + z2 / 2
    half = np.sqrt(z2 * (share * (1 - share) + z2 / 4))
    low, high = (middle - half) / (1 + z2), (middle + half) / (1 + z2)
    return max(float(low), 0.0), min(float(high), 1.0)


def trials(share: float, draws: np.ndarray, most: int) -> float:
    """How many trials a share that varies as its resamples do is worth, at most so many."""
    spread = np.nanvar(draws) if (~np.isnan(draws)).any() else 0.0
    return min(most, share * (1 - share) / spread) if spread > 0 and 0 < share < 1 else most


def mean_of_proportions(shares: np.ndarray, trials: np.ndarray, level: float) -> Interval:
    """The interval of the mean of independent shares: distances to their ends add in squares."""
    if not len(shares):
        return NONE
    ends = np.array([proportion(p, n, level) for p, n in zip(shares, trials, strict=True)])
    below, above = (np.sqrt(((ends[:, k] - shares) ** 2).sum()) / len(shares) for k in (0, 1))
    return float(shares.mean() - below), float(shares.mean() + above)


def area(auroc: float, positives: int, negatives: int, level: float) -> Interval:
    """Newcombe's interval of an AUROC: where its distance is what chance allows at that value."""
    if np.isnan(auroc):
        return NONE
    z, pairs = ndtri((1 + level) / 2), positives * negatives
    more = (positives + negatives) / 2 - 1

    def possible(at: float) -> bool:
        spread = at * (1 - at) * (1 + more * ((1 - at) / (2 - at) + at / (1 + at))) / pairs
        return (auroc - at) ** 2 <= z * z * spread

    def end(far: float) -> float:
        near = auroc
        for _ in range(HALVINGS):
            middle = (near + far) / 2
            near, far = (middle, far) if possible(middle) else (near, middle)
        return near

    return end(0.0), end(1.0)


def skewed_mean(values: np.ndarray, level: float, times: int, seed: int) -> Interval:
    """The bootstrap-t interval of a mean; NaN for fewer than two values."""
    m = len(values)
    if m < 2:
        return NONE
    mean, error = values.mean(), values.std(ddof=1) / np.sqrt(m)
    if error == 0:
        return float(mean), float(mean)
    apart = np.stack([values - mean, (values - mean) ** 2], 1)

    def studentised(weight: np.ndarray) -> np.ndarray:
        first, second = (weight @ apart).T / m
        spread = np.sqrt(np.maximum(second - first**2, 0) / (m - 1))
        zero = spread <= 1e-9 * error  # the same value m times
        return (np.where(zero, np.nan, first) / np.where(zero, 1, spread))[None]

    low, high = interval(resample(studentised, m, times, seed)[1][0], level)
    return float(mean - high * error), float(mean - low * error)


def of_terms(gain: float, terms: list[np.ndarray], level: float) -> Interval:
    """Welch's interval of a gain whose error is a sum over samples; NaN for a sample of one."""
    if min(map(len, terms)) < 2:
        return NONE
    part = np.array([t.var(ddof=1) / len(t) for t in terms])
    if not part.sum() > 0:
        return gain, gain
    free = part.sum() ** 2 / (part**2 / [len(t) - 1 for t in terms]).sum()
    half = stdtrit(free, (1 + level) / 2) * np.sqrt(part.sum())
    return float(gain - half), float(gain + half)


def placements(score: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The share of `others` that each score lies above; a tie is half."""
    ranked = np.sort(others)
    below = np.searchsorted(ranked, score, "left") + np.searchsorted(ranked, score, "right")
    share: np.ndarray = below / (2 * len(others))
    return share


def paired(gain: float, draws: np.ndarray, rests_on: int, level: float) -> Interval:
    """The t interval of a gain that rests on so many rows; NaN for fewer than two.

    The spread of resamples is that of a sample of n without the division by n - 1.
    """
    defined = draws[~np.isnan(draws)]
    if rests_on < 2 or not defined.size or 2 * defined.size < draws.size:
        return NONE
    error = defined.std() * np.sqrt(rests_on / (rests_on - 1))
    half = stdtrit(rests_on - 1, (1 + level) / 2) * error
    return float(gain - half), float(gain + half)
