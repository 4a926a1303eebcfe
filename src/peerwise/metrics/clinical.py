"""What a clinician asks of a classifier: how good is it, for whom, and how sure is that?

Classes are codes 0 .. c-1 with names. Intervals (`metrics/intervals.py`) hold from 20 rows on: how
often they cover is in docs/models.md. `joining` compares two classifiers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from peerwise.errors import BadData
from peerwise.metrics.arguments import (
    check_settings,
    classes_of,
    groups,
    metrics_of,
    names_of,
    row_numbers,
)
from peerwise.metrics.bootstrap import OF_POSITIVE, resample
from peerwise.metrics.checks import checked_codes, checked_probabilities, number_array, same_length
from peerwise.metrics.intervals import (
    NONE,
    Interval,
    area,
    mean_of_proportions,
    proportion,
    skewed_mean,
    trials,
)
from peerwise.metrics.scored import Scored


def report(
    y: Any,
    prob: Any,
    *,
    classes: Sequence[Any] | None = None,
    positive: Any = None,
    threshold: float = 0.5,
    subgroups: Any = None,
    bootstrap: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Each metric of one model with its interval, for all rows and for each subgroup.

    `y` is [m] codes; `prob` is [m, c] p(y|x), or [m] p(positive) of two classes. `positive` is
    the name or code of the class of interest: the last of two by default, none of more than two,
    where AUROC and AUPRC are then means over classes (one against the rest). With two classes a
    row is taken for positive at p >= threshold; with more, balanced accuracy and error go by the
    likeliest class. `subgroups` is a column of names or a frame of several, in the order of the
    rows. A metric that is undefined for some rows, as AUROC is for one class, is NaN. `bootstrap`
    says how many resamples the log loss has; 0 leaves out all intervals.
    """
    check_settings(threshold, bootstrap, level)
    p = number_array(prob, "prob")
    names, of = classes_of(p, classes, positive, "prob")
    codes = checked_codes(y, len(names), "y")
    p = checked_probabilities(p, of, len(codes), "prob")
    metrics = metrics_of(of)
    index, lines = [], []
    for column, value, rows in groups(subgroups, len(codes)):
        scored = Scored(codes[rows], p[rows], of, threshold)
        ends = _intervals(scored, metrics, level, bootstrap, seed)
        line: dict[str, float] = {"rows": len(rows)}
        if of is not None:
            line["positives"] = int((codes[rows] == of).sum())
        for name, here in zip(metrics, scored.values(metrics), strict=True):
            line[name] = float(here)
            line[f"{name}_low"], line[f"{name}_high"] = ends[name]
        index.append((column, value))
        lines.append(line)
    return pd.DataFrame(lines, pd.MultiIndex.from_tuples(index, names=["column", "value"]))


def confusion(y: Any, predicted: Any, classes: Sequence[Any]) -> pd.DataFrame:
    """How often each true class (rows) was taken for each class (columns); every class is shown."""
    names = names_of(classes)
    c = len(names)
    true, guess = checked_codes(y, c, "y"), checked_codes(predicted, c, "predicted")
    same_length(len(guess), len(true), "predicted")
    counts = np.bincount(true * c + guess, minlength=c * c).reshape(c, c)
    return pd.DataFrame(
        counts, pd.Index(names, name="true"), pd.Index(names, name="predicted"), dtype=int
    )


def by_node(
    y: Any,
    prob: Any,
    *,
    nodes: Sequence[Any] | None = None,
    rows: Sequence[Any] | None = None,
    classes: Sequence[Any] | None = None,
    positive: Any = None,
    threshold: float = 0.5,
    bootstrap: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """`report`'s line for all rows, for the model of each node; the index is the node's name.

    `prob` is [n, m, c], or [n, m] p(positive) of two classes. Every model is scored on every row,
    or on its own where `rows` has one array of row numbers per node.
    """
    check_settings(threshold, bootstrap, level)
    p = number_array(prob, "prob")
    if p.ndim not in (2, 3) or not len(p):
        raise BadData(f"prob must be [nodes, rows, classes] or [nodes, rows], got {p.shape}")
    n, m = p.shape[:2]
    labels = [str(i) for i in range(n)] if nodes is None else [str(name) for name in nodes]
    same_length(len(labels), n, "nodes", "nodes in prob")
    if rows is not None:
        same_length(len(rows), n, "rows", "nodes in prob")
    names, of = classes_of(p[0], classes, positive, "prob")
    codes = checked_codes(y, len(names), "y")
    same_length(m, len(codes), "prob")
    lines = []
    for i, label in enumerate(labels):
        own = np.arange(m) if rows is None else row_numbers(rows[i], m, label)
        try:
            line = report(
                codes[own],
                p[i][own],
                classes=names,
                positive=None if of is None else names[of],
                threshold=threshold,
                bootstrap=bootstrap,
                level=level,
                seed=seed,
            )
        except BadData as error:
            raise BadData(f"node '{label}': {error}") from None
        lines.append(line)
    table = pd.concat(lines)
    table.index = pd.Index(labels, name="node")
    return table


def _intervals(
    scored: Scored, metrics: Sequence[str], level: float, times: int, seed: int
) -> dict[str, Interval]:
    """The interval of each metric; NaN where it is undefined, and without resamples."""
    if not times:
        return dict.fromkeys(metrics, NONE)
    value = dict(zip(metrics, scored.values(metrics).tolist(), strict=True))
    ends = {
        name: proportion(value[name], scored.rests_on(name), level)
        for name in metrics
        if name in ("error", *OF_POSITIVE)
    }
    ends["balanced_accuracy"] = _of_recalls(scored, level)
    ends["auroc"], ends["auprc"] = _of_areas(scored, level, times, seed)
    ends["log_loss"] = skewed_mean(scored.log_loss(), level, times, seed)
    return ends


def _of_recalls(scored: Scored, level: float) -> Interval:
    counts = scored.counts()
    if len(counts) < 2:
        return NONE
    right = scored.predicted() == scored.y
    shares = np.array([right[scored.y == k].mean() for k in np.unique(scored.y)])
    return mean_of_proportions(shares, counts, level)


def _of_areas(scored: Scored, level: float, times: int, seed: int) -> tuple[Interval, Interval]:
    """Of AUROC and AUPRC; of means over classes, the means of the ends, as if they moved as one."""
    classes = np.unique(scored.y) if scored.positive is None else [scored.positive]
    of_roc, of_pr = [], []
    for k in classes:
        roc, pr = scored._replace(positive=int(k)).values(["auroc", "auprc"]).tolist()
        positives = int((scored.y == k).sum())
        of_roc.append(area(roc, positives, len(scored.y) - positives, level))
        of_pr.append(proportion(pr, positives, level))
    if scored.positive is not None:
        draws = resample(scored.score(["auprc"]), len(scored.y), times, seed)[1][0]
        of_pr = [proportion(pr, trials(pr, draws, positives), level)]
    roc, pr = (np.mean(ends, 0) for ends in (of_roc, of_pr))
    return (float(roc[0]), float(roc[1])), (float(pr[0]), float(pr[1]))
