"""Metrics of weighted rows, and bootstrap intervals, many resamples at a time.

Drawing m rows with replacement is counting how often each was drawn. So a metric takes weights
[b, m], one line per resample, and gives one value per line; what it needs to sort is sorted once.
"""

from collections.abc import Callable, Sequence

import numpy as np

# Names of the metrics, in the order of the tables.
METRICS = (
    "balanced_accuracy",
    "error",
    "log_loss",
    "auroc",
    "auprc",
    "sensitivity",
    "specificity",
    "precision",
)
OF_POSITIVE = ("sensitivity", "specificity", "precision")  # these need a class of interest
LOWER_IS_BETTER = ("error", "log_loss")

CELLS = 1 << 20  # weights held at a time, 8 MiB: bounds memory at about ten such arrays

Score = Callable[[np.ndarray], np.ndarray]


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole, NaN where there is nothing to divide by."""
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)


def _mean_of_defined(values: np.ndarray) -> np.ndarray:
    """The mean over the last axis of what is not NaN; NaN where nothing is left."""
    return _ratio(np.nansum(values, -1), (~np.isnan(values)).sum(-1))


def _curve(score: np.ndarray, label: np.ndarray) -> Score:
    """A function of weights [b, m] that gives AUROC and average precision, [2, b]."""
    order = np.argsort(-score, kind="stable")
    ranked = score[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    hit = label[order].astype(float)

    def tied(weight: np.ndarray) -> np.ndarray:  # rows of equal score are one threshold
        return weight if len(starts) == len(order) else np.add.reduceat(weight, starts, axis=1)

    def areas(weight: np.ndarray) -> np.ndarray:
        weight = np.take(weight, order, axis=1)
        positive = tied(weight * hit)
        negative = tied(weight) - positive
        true, false = positive.cumsum(1), negative.cumsum(1)  # flagged at each threshold
        pairs = true[:, -1] * false[:, -1]
        share = true / np.maximum(true + false, np.finfo(float).tiny)
        false -= negative / 2  # a tie is half a mistake
        mistakes = np.einsum("bg,bg->b", positive, false)
        area = np.einsum("bg,bg->b", positive, share)
        return np.stack([_ratio(pairs - mistakes, pairs), _ratio(area, true[:, -1])])

    return areas


def scorer(
    y: np.ndarray,
    prob: np.ndarray,
    positive: int | None,
    threshold: float,
    metrics: Sequence[str] = METRICS,
) -> Score:
    """A function of weights [b, m] that gives each metric of the weighted rows, [metrics, b].

    A row is taken for `positive` at p >= threshold when there are two classes, otherwise for its
    likeliest class. log p is kept above log(2.2e-16), as scikit-learn does.
    """
    m, c = prob.shape
    held = y[:, None] == np.arange(c)
    if c == 2 and positive is not None:
        predicted = np.where(prob[:, positive] >= threshold, positive, 1 - positive)
    else:
        predicted = prob.argmax(1)
    loss = -np.log(np.clip(prob[np.arange(m), y], np.finfo(float).eps, 1))
    columns = [held, held & (predicted == y)[:, None], loss[:, None]]
    if positive is not None:
        flag = prob[:, [positive]] >= threshold
        columns += [flag & held[:, [positive]], flag & ~held[:, [positive]]]
    table = np.concatenate(columns, axis=1, dtype=float)
    curves: list[Score] = []
    if "auroc" in metrics or "auprc" in metrics:
        of = np.flatnonzero(held.any(0)) if positive is None else [positive]
        curves = [_curve(prob[:, k], held[:, k]) for k in of]

    def score(weight: np.ndarray) -> np.ndarray:
        sums = weight @ table
        total, of_class, right = weight.sum(1), sums[:, :c], sums[:, c : 2 * c]
        value = {
            # undefined for a single class
            "balanced_accuracy": np.where(
                (of_class > 0).sum(1) > 1, _mean_of_defined(_ratio(right, of_class)), np.nan
            ),
            "error": _ratio(total - right.sum(1), total),
            "log_loss": _ratio(sums[:, 2 * c], total),
        }
        if positive is not None:
            ill, true, false = of_class[:, positive], sums[:, -2], sums[:, -1]
            value["sensitivity"] = _ratio(true, ill)
            value["specificity"] = _ratio(total - ill - false, total - ill)
            value["precision"] = _ratio(true, true + false)
        if curves:
            areas = np.stack([curve(weight) for curve in curves], -1)
            value["auroc"], value["auprc"] = _mean_of_defined(areas)
        return np.stack([value[name] for name in metrics])

    return score


def resample(score: Score, m: int, times: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The metrics of m rows as they are [k], and of `times` draws of m of them [k, times].

    The draws depend on m and the seed alone: two models scored together are compared in pairs.
    """
    rng = np.random.default_rng(seed)
    size = max(1, CELLS // m)

    def counts(b: int) -> np.ndarray:
        cells = rng.integers(m, size=(b, m), dtype=np.int64)
        cells += m * np.arange(b)[:, None]
        return np.bincount(cells.ravel(), minlength=b * m).reshape(b, m).astype(float)

    chunks = [score(counts(min(size, times - done))) for done in range(0, times, size)]
    scores = np.concatenate([score(np.ones((1, m))), *chunks], axis=1)
    return scores[:, 0], scores[:, 1:]


def interval(draws: np.ndarray, level: float) -> tuple[float, float]:
    """The middle `level` of the draws that are defined; NaN when fewer than half of them are."""
    defined = draws[~np.isnan(draws)]
    if not defined.size or 2 * defined.size < draws.size:
        return np.nan, np.nan
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
