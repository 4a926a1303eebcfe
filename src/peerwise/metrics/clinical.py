"""What a clinician asks of a classifier: how good, for whom, how sure, and is joining worth it.

Classes are codes 0 .. c-1 with names. Intervals (`metrics/intervals.py`) hold from 20 rows on: how
often they cover is in docs/models.md.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.metrics.bootstrap import (
    LOWER_IS_BETTER,
    METRICS,
    OF_POSITIVE,
    resample,
    scorer,
)
from peerwise.metrics.checks import (
    checked_codes,
    checked_probabilities,
    number_array,
    same_length,
)
from peerwise.metrics.intervals import (
    NONE,
    Interval,
    area,
    mean_of_proportions,
    of_terms,
    paired,
    placements,
    proportion,
    skewed_mean,
    trials,
)


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
    _settings(threshold, bootstrap, level)
    p = number_array(prob, "prob")
    names, of = _classes(p, classes, positive, "prob")
    codes = checked_codes(y, len(names), "y")
    p = checked_probabilities(p, of, len(codes), "prob")
    metrics = _metrics(of)
    index, lines = [], []
    for column, value, rows in _groups(subgroups, len(codes)):
        scored = _Scored(codes[rows], p[rows], of, threshold)
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
    names = _names(classes)
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
    _settings(threshold, bootstrap, level)
    p = number_array(prob, "prob")
    if p.ndim not in (2, 3) or not len(p):
        raise BadData(f"prob must be [nodes, rows, classes] or [nodes, rows], got {p.shape}")
    n, m = p.shape[:2]
    labels = [str(i) for i in range(n)] if nodes is None else [str(name) for name in nodes]
    same_length(len(labels), n, "nodes", "nodes in prob")
    if rows is not None:
        same_length(len(rows), n, "rows", "nodes in prob")
    names, of = _classes(p[0], classes, positive, "prob")
    codes = checked_codes(y, len(names), "y")
    same_length(m, len(codes), "prob")
    lines = []
    for i, label in enumerate(labels):
        own = np.arange(m) if rows is None else _row_numbers(rows[i], m, label)
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
    for _, name, rows in _split("site", _column(site, len(pair.y), "site")):
        diff = _compare(pair, rows, how)
        verdict = _too_few(pair, rows, diff, fewest, fewest_cases)
        if verdict is None:
            verdict = "join" if diff.low > 0 else "stay" if diff.high < 0 else "unclear"
        index.append(name)
        lines.append((diff.rows, *diff[1:6], diff.rests_on, verdict))
    columns = ["rows", "local", "network", "gain", "low", "high", "rests_on", "verdict"]
    return pd.DataFrame(lines, pd.Index(index, name="site"), columns)


# --- one model


class _Scored(NamedTuple):
    """Rows and what a model says of them."""

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


def _intervals(
    scored: _Scored, metrics: Sequence[str], level: float, times: int, seed: int
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


def _of_recalls(scored: _Scored, level: float) -> Interval:
    counts = scored.counts()
    if len(counts) < 2:
        return NONE
    right = scored.predicted() == scored.y
    shares = np.array([right[scored.y == k].mean() for k in np.unique(scored.y)])
    return mean_of_proportions(shares, counts, level)


def _of_areas(scored: _Scored, level: float, times: int, seed: int) -> tuple[Interval, Interval]:
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


# --- two models on the same rows


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
    _settings(how.threshold, how.bootstrap, how.level)
    if metric not in METRICS:
        raise UnknownName("metric", str(metric), METRICS)
    (one, ours), (other, theirs) = ((what, number_array(p, what)) for what, p in models.items())
    if ours.shape != theirs.shape:
        raise BadData(f"{one} is {ours.shape} and {other} is {theirs.shape}; score the same rows")
    names, of = _classes(ours, classes, positive, one)
    if metric not in _metrics(of):
        raise BadData(f"{metric} of {len(names)} classes needs a class of interest: give positive")
    codes = checked_codes(y, len(names), "y")
    ours = checked_probabilities(ours, of, len(codes), one)
    return _Pair(codes, ours, checked_probabilities(theirs, of, len(codes), other), of, names)


def _compare(pair: _Pair, rows: np.ndarray, how: _How) -> Difference:
    models = [
        _Scored(pair.y[rows], p[rows], pair.positive, how.threshold)
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


# --- checks of the arguments


def _metrics(positive: int | None) -> list[str]:
    return [name for name in METRICS if positive is not None or name not in OF_POSITIVE]


def _settings(threshold: float, bootstrap: int, level: float) -> None:
    if not 0 <= threshold <= 1:
        raise BadSetting(f"threshold must be a probability, 0 to 1, got {threshold}")
    if not isinstance(bootstrap, int | np.integer) or bootstrap < 0:
        raise BadSetting(f"bootstrap must be a number of resamples, 0 for none, got {bootstrap}")
    if not 0 < level < 1:
        raise BadSetting(f"level must be between 0 and 1, such as 0.95, got {level}")


def _names(classes: Sequence[Any]) -> list[str]:
    names = [str(name) for name in classes]
    if len(names) < 2:
        raise BadData(f"there must be at least two classes, got {names}")
    if len(set(names)) < len(names):
        raise BadData(f"the names of classes must differ, got {names}")
    return names


def _classes(
    prob: np.ndarray, classes: Sequence[Any] | None, positive: Any, what: str
) -> tuple[list[str], int | None]:
    """The names of the classes, and the code of the one of interest; names come before codes."""
    if prob.ndim not in (1, 2):
        raise BadData(f"{what} must be [rows, classes] or [rows], got {prob.shape}")
    c = 2 if prob.ndim == 1 else prob.shape[1]
    if c < 2:
        raise BadData(f"{what} is {prob.shape}; give a column for each class, or one dimension")
    names = [str(k) for k in range(c)] if classes is None else _names(classes)
    if len(names) != c:
        raise BadData(f"{what} has {c} classes but {len(names)} are named: {', '.join(names)}")
    if positive is None:
        return names, 1 if c == 2 else None
    if str(positive) in names:
        return names, names.index(str(positive))
    if isinstance(positive, int | np.integer) and 0 <= positive < c:
        return names, int(positive)
    raise UnknownName("positive class", str(positive), names)


def _row_numbers(rows: Any, m: int, node: str) -> np.ndarray:
    given = np.asarray(rows)
    if given.ndim != 1 or not given.size:
        raise BadData(f"node '{node}' has no rows of its own to be measured on")
    if given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= m:
        raise BadData(f"the rows of node '{node}' must be row numbers 0 to {m - 1}")
    return given


def _column(values: Any, m: int, what: str) -> pd.Series:
    if np.ndim(values) != 1:
        raise BadData(f"{what} must be one name per row, got shape {np.shape(values)}")
    same_length(len(values), m, what)
    return pd.Series(values)


Group = tuple[str, str, np.ndarray]


def _split(name: str, column: pd.Series) -> Iterator[Group]:
    """The rows of each value, in the order of the values; rows without one are "missing"."""
    kinds = column.astype("category").cat
    codes = kinds.codes.to_numpy()
    for code, value in [*enumerate(kinds.categories), (-1, "missing")]:
        rows = np.flatnonzero(codes == code)
        if rows.size:
            yield name, str(value), rows


def _groups(subgroups: Any, m: int) -> Iterator[Group]:
    """All rows, then the rows of each value of each column."""
    columns: list[tuple[str, pd.Series]] = []
    if isinstance(subgroups, pd.DataFrame):
        columns = [(str(k), _column(v, m, f"subgroup '{k}'")) for k, v in subgroups.items()]
    elif subgroups is not None:
        name = getattr(subgroups, "name", None) or "subgroup"
        columns = [(str(name), _column(subgroups, m, "subgroups"))]
    yield "all", "all", np.arange(m)
    for name, column in columns:
        yield from _split(name, column)
