"""Rows with a model's predictions, and what a metric of them rests on."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from peerwise.metrics.bootstrap import scorer
from peerwise.metrics.intervals import placements


class Scored(NamedTuple):
    """Rows and a model's predictions for them."""

    y: np.ndarray
    prob: np.ndarray
    positive: int | None
    threshold: float

    def score(self, metrics: Sequence[str]) -> Any:
        """A function of weights [b, m] that gives each metric, [metrics, b]."""
        return scorer(self.y, self.prob, self.positive, self.threshold, metrics)

    def values(self, metrics: Sequence[str]) -> np.ndarray:
        """Each metric of the rows."""
        values: np.ndarray = self.score(metrics)(np.ones((1, len(self.y))))[:, 0]
        return values

    def flagged(self) -> int:
        """How many rows are taken for positive."""
        return int((self.prob[:, self.positive or 0] >= self.threshold).sum())

    def counts(self) -> np.ndarray:
        """The rows of each class that has any."""
        counts = np.bincount(self.y)
        return counts[counts > 0]

    def predicted(self) -> np.ndarray:
        """The class that each row is taken for."""
        if self.prob.shape[1] > 2 or self.positive is None:
            return self.prob.argmax(1)
        flagged = self.prob[:, self.positive] >= self.threshold
        return np.where(flagged, self.positive, 1 - self.positive)

    def log_loss(self) -> np.ndarray:
        """Minus the logarithm of each row's p(y | x)."""
        right = self.prob[np.arange(len(self.y)), self.y]
        return -np.log(np.clip(right, np.finfo(float).eps, 1))

    def terms(self, metric: str) -> list[np.ndarray] | None:
        """Samples, one for all rows or one a class, whose means vary as the metric does.

        None for a metric that is no such sum: AUPRC, precision, a mean of areas.
        """
        right = (self.predicted() == self.y).astype(float)
        if metric in ("error", "log_loss"):
            return [1 - right if metric == "error" else self.log_loss()]
        if metric == "balanced_accuracy":
            kinds = np.unique(self.y)
            return [right[self.y == k] / len(kinds) for k in kinds]
        if self.positive is None or metric not in ("auroc", "sensitivity", "specificity"):
            return None
        ill, score = self.y == self.positive, self.prob[:, self.positive]
        if metric == "auroc":
            return [placements(score[ill], score[~ill]), -placements(score[~ill], score[ill])]
        return [(score >= self.threshold)[ill if metric == "sensitivity" else ~ill] * 1.0]

    def rests_on(self, metric: str) -> int:
        """How many rows decide a metric."""
        if metric in ("error", "log_loss"):
            return len(self.y)
        positives = int((self.y == self.positive).sum())
        negatives = len(self.y) - positives
        if metric == "precision":
            return self.flagged()
        if metric in ("sensitivity", "specificity"):
            return positives if metric == "sensitivity" else negatives
        return int(self.counts().min()) if self.positive is None else min(positives, negatives)
