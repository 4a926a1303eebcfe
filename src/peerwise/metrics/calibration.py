"""How far a classifier's probabilities can be believed: calibration, scores and uncertainty.

Functions of true classes y [m], as codes, and p(y|x) [m, c] of any model. The confidence of a row
is the largest of its probabilities. Logarithms are natural.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr

from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.metrics.bootstrap import scorer
from peerwise.metrics.checks import (
    checked_codes,
    checked_probabilities,
    number_array,
    positive_number,
    same_length,
)
from peerwise.metrics.probes import LEAST

BINNINGS = ("width", "mass")


class Reliability(NamedTuple):
    """What a reliability diagram shows: rows in bins of their confidence."""

    edges: np.ndarray  # [bins + 1]
    confidence: np.ndarray  # [bins] mean of the rows of a bin; NaN where there are none
    accuracy: np.ndarray  # [bins] share of them that are right; NaN where there are none
    count: np.ndarray  # type: ignore[assignment]  # [bins]; hides tuple.count, which nobody needs

    @property
    def ece(self) -> float:
        """How far confidence is from accuracy, as a mean over rows."""
        apart = np.where(self.count > 0, abs(self.accuracy - self.confidence), 0)
        return float(apart @ self.count / self.count.sum())


def reliability(y: Any, prob: Any, bins: int = 15, binning: str = "width") -> Reliability:
    """Accuracy against confidence, in bins of equal width or of equal mass.

    Bins of equal width (a, b] divide 0 to 1 (Guo et al. 2017). Those of equal mass hold equally
    many rows, give or take one, and are no more than there are rows; they span the confidences
    that occur. Rows of equal confidence there count as their mean, whichever bins they fall in:
    the order of the rows does not matter.

    >>> y, prob = [0, 0, 1], [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]
    >>> shown = reliability(y, prob, bins=2)
    >>> shown.edges.tolist(), shown.count.tolist(), shown.accuracy.round(2).tolist()
    ([0.0, 0.5, 1.0], [0, 3], [nan, 0.67])
    """
    bins = positive_number(bins, "bins")
    if binning not in BINNINGS:
        raise UnknownName("binning", binning, BINNINGS)
    codes, p = _rows(y, prob)
    sure, right = p.max(1), (p.argmax(1) == codes).astype(float)
    if binning == "width":
        edges = np.linspace(0, 1, bins + 1)
        place = np.searchsorted(edges[1:-1], sure)
    else:
        bins = min(bins, len(sure))
        _, group = np.unique(sure, return_inverse=True)
        right = (np.bincount(group, right) / np.bincount(group))[group]
        order = np.argsort(sure)
        sure, right = sure[order], right[order]
        place = np.arange(len(sure)) * bins // len(sure)
        first = np.flatnonzero(np.diff(place)) + 1
        edges = np.concatenate([sure[:1], (sure[first - 1] + sure[first]) / 2, sure[-1:]])
    count = np.bincount(place, minlength=bins)
    whole = np.where(count > 0, count, np.nan)
    sure, right = (np.bincount(place, values, bins) / whole for values in (sure, right))
    return Reliability(edges, sure, right, count)


def binned(bins: Any, into: int = 20) -> Reliability:
    """The diagram of bins that `probes.calibration` kept [bins, 3], put together to fewer.

    Counts are shares of the rows. Fewer bins must divide those that were kept.
    """
    kept = np.asarray(bins, float)
    if len(kept) % positive_number(into, "into"):
        raise BadSetting(f"{len(kept)} bins cannot be put together to {into}; take a divisor")
    count, sure, right = kept.reshape(into, -1, 3).sum(1).T
    whole = np.where(count > 0, count, np.nan)
    return Reliability(np.linspace(0, 1, into + 1), sure / whole, right / whole, count)


def ece(y: Any, prob: Any, bins: int = 15, binning: str = "width") -> float:
    """Expected calibration error: |accuracy - confidence| of the bins, as a mean over rows.

    Bins are those of `reliability`. It is biased upwards where bins hold few rows: compare models
    by the same rows and bins.

    >>> round(ece([0, 0, 1], [[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]], bins=2), 4)
    0.0667
    """
    return reliability(y, prob, bins, binning).ece


def nll(y: Any, prob: Any, floor: float = LEAST, added: float = 0.0) -> float:
    """Negative log-likelihood, the mean of -log p(y|x).

    A probability counts as at least `floor`; with 0, a certain and wrong model has an infinite
    mean. `added` is added to every probability first (the BA-BFL paper adds 1e-8).
    """
    if not 0 <= floor < 1 or not 0 <= added < 1:
        raise BadSetting(f"floor and added must be 0 or more and below 1, got {floor}, {added}")
    codes, p = _rows(y, prob)
    with np.errstate(divide="ignore"):
        return float(-np.log(np.maximum(p[np.arange(len(p)), codes] + added, floor)).mean())


def brier(y: Any, prob: Any) -> float:
    """Brier score: squared distance of p(y|x) from the truth, summed over classes, 0 to 2.

    Of two classes it is twice what scikit-learn gives for the positive one.
    """
    codes, p = _rows(y, prob)
    return float(((p - (codes[:, None] == np.arange(p.shape[1]))) ** 2).sum(1).mean())


def entropy(prob: Any) -> np.ndarray:
    """Predictive entropy of each row [m]: 0 for a model that is sure, log c for one that guesses.

    >>> entropy([[1, 0], [0.5, 0.5]]).round(3).tolist()
    [0.0, 0.693]
    """
    return entr(_probabilities(prob, "prob")).sum(1)


def ood_auroc(inside_prob: Any, outside_prob: Any) -> float:
    """How well predictive entropy tells rows of another data set (outside) from those of its own.

    The probability that a row from outside has the higher entropy (a tie counts as half): 1 when
    the model knows what it does not know, 0.5 when it cannot tell.
    """
    known, other = (
        _probabilities(prob, what)
        for prob, what in ((inside_prob, "inside_prob"), (outside_prob, "outside_prob"))
    )
    c = known.shape[1]
    if c != other.shape[1]:
        raise BadData(
            f"inside_prob has {c} classes and outside_prob {other.shape[1]}; use one model"
        )
    score = entr(np.concatenate([known, other])).sum(1) / np.log(c)
    label = np.repeat([0, 1], [len(known), len(other)])
    areas = scorer(label, np.stack([1 - score, score], 1), 1, 0.5, ["auroc"])
    return float(areas(np.ones((1, len(label))))[0, 0])


def _probabilities(prob: Any, what: str) -> np.ndarray:
    p = number_array(prob, what)
    if p.ndim != 2 or p.shape[1] < 2:
        raise BadData(f"{what} must be [rows, classes] of two or more classes, got {p.shape}")
    if not len(p):
        raise BadData(f"{what} has no rows to measure anything on")
    return checked_probabilities(p, None, len(p), what).clip(0, 1)


def _rows(y: Any, prob: Any) -> tuple[np.ndarray, np.ndarray]:
    p = _probabilities(prob, "prob")
    codes = checked_codes(y, p.shape[1], "y")
    same_length(len(p), len(codes), "prob")
    return codes, p
