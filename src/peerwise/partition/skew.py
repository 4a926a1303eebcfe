"""How unevenly rows are spread: counts of each class at each node, and their Gini index.

The DecDiff paper works where "the Gini index" is between 0.7 and 0.85 and does not say of what:
report both that of each class over the nodes and that of the nodes' totals.
"""

from collections.abc import Sequence

import numpy as np

from peerwise.errors import BadData


def gini(counts: np.ndarray) -> np.ndarray:
    """The Gini index of numbers, 0 or more, along the last axis: 0 where all are equal.

    The mean absolute difference of all pairs over twice the mean, so n numbers have (n - 1) / n at
    most, where one has everything. Numbers that are all 0 are equal.

    >>> gini(np.array([[5, 5, 5, 5], [0, 0, 0, 8], [0, 0, 0, 0]])).tolist()
    [0.0, 0.75, 0.0]
    """
    counts = np.asarray(counts, float)
    if not counts.ndim or not counts.shape[-1]:
        raise BadData(f"counts must hold one number or more, got shape {counts.shape}")
    if not (np.isfinite(counts) & (counts >= 0)).all():
        raise BadData("counts must be finite and 0 or more; leave out what is unknown or negative")
    ordered, n = np.sort(counts, axis=-1), counts.shape[-1]
    total = ordered.sum(-1)
    apart = (ordered * (2 * np.arange(n) - n + 1)).sum(-1)  # of all pairs, each counted once
    return np.maximum(np.asarray(apart / np.where(total > 0, n * total, 1)), 0)


def allocation(y: np.ndarray, rows: Sequence[np.ndarray], classes: int) -> np.ndarray:
    """How many rows of each class each node holds, [n, classes], with y [m] in 0 .. classes - 1.

    >>> allocation(np.array([0, 1, 1, 2]), [np.array([0, 1]), np.array([2])], 3).tolist()
    [[1, 1, 0], [0, 1, 0]]
    """
    y = np.asarray(y)
    if y.ndim != 1 or y.dtype.kind not in "iu" or ((y < 0) | (y >= classes)).any():
        raise BadData(
            f"y must be whole numbers from 0 to {classes - 1}, one for each row; "
            "number the classes first, as np.unique(y, return_inverse=True) does"
        )
    return np.array([np.bincount(y[r], minlength=classes) for r in rows]).reshape(-1, classes)


def gini_by_class(counts: np.ndarray) -> np.ndarray:
    """The Gini index over the nodes of each class, [classes], from counts [n, classes].

    >>> gini_by_class(np.array([[4, 0], [4, 6]])).tolist()
    [0.0, 0.5]
    """
    return gini(_table(counts).T)


def gini_of_totals(counts: np.ndarray) -> float:
    """The Gini index of how many rows the nodes hold, from counts [n, classes].

    >>> gini_of_totals(np.array([[4, 0], [0, 4]]))  # one class each, as many rows each
    0.0
    """
    return float(gini(_table(counts).sum(1)))


def _table(counts: np.ndarray) -> np.ndarray:
    table = np.asarray(counts)
    if table.ndim != 2:
        raise BadData(f"counts must be [nodes, classes], got shape {table.shape}")
    return table
