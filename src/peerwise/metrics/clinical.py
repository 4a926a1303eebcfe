"""What a clinician asks of a classifier: how good, for whom, how sure, and is joining worth it.

Classes are codes 0 .. c-1 with names. Intervals are percentile bootstraps over rows (Efron and
Tibshirani 1993, chapter 13), drawn within each subgroup.
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
    interval,
    resample,
    scorer,
)
from peerwise.metrics.checks import (
    checked_codes,
    checked_probabilities,
    number_array,
    same_length,
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
    rows. A metric that is undefined for some rows, as AUROC is for one class, is NaN.
    """
    _settings(threshold, bootstrap, level)
    p = number_array(prob, "prob")
    names, of = _classes(p, classes, positive, "prob")
    codes = checked_codes(y, len(names), "y")
    p = checked_probabilities(p, of, len(codes), "prob")
    metrics = _metrics(of)
    index, lines = [], []
    for column, value, rows in _groups(subgroups, len(codes)):
        score = scorer(codes[rows], p[rows], of, threshold, metrics)
        point, draws = resample(score, len(rows), bootstrap, seed)
        line: dict[str, float] = {"rows": len(rows)}
        if of is not None:
            line["positives"] = int((codes[rows] == of).sum())
        for name, here, drawn in zip(metrics, point, draws, strict=True):
            line[name] = float(here)
            line[f"{name}_low"], line[f"{name}_high"] = interval(drawn, level)
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

    Both models are scored on the same resamples, so what is hard for both cancels. Arguments are
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
    bootstrap: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Should my site join? For each site, its local model against the network's on its own rows.

    Row i of `local` and `network` is scored by the models of the site that holds row i. The
    verdict is "join" when the interval of the gain lies above 0, "stay" when it lies below,
    otherwise "unclear"; "one class only" or "too few rows" when the metric is undefined or there
    are fewer rows than `fewest`, where resampling is falsely certain. Each site is judged
    by itself: of many sites with equal models, about 1 - level get a verdict by chance.
    """
    how = _How(metric, threshold, bootstrap, level, seed)
    pair = _pair(y, {"local": local, "network": network}, classes, positive, how)
    index, lines = [], []
    for _, name, rows in _split("site", _column(site, len(pair.y), "site")):
        diff = _compare(pair, rows, how)
        sure = not bootstrap or not np.isnan(diff.low)
        if diff.rows < fewest or np.isnan(diff.gain) or not sure:
            one = len(np.unique(pair.y[rows])) < 2
            verdict = "one class only" if one and diff.rows >= fewest else "too few rows"
        else:
            verdict = "join" if diff.low > 0 else "stay" if diff.high < 0 else "unclear"
        index.append(name)
        lines.append((diff.rows, diff.ours, diff.theirs, diff.gain, diff.low, diff.high, verdict))
    columns = ["rows", "local", "network", "gain", "low", "high", "verdict"]
    return pd.DataFrame(lines, pd.Index(index, name="site"), columns)


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
    return _Pair(codes, ours, checked_probabilities(theirs, of, len(codes), other), of)


def _compare(pair: _Pair, rows: np.ndarray, how: _How) -> Difference:
    ours, theirs = (
        scorer(pair.y[rows], p[rows], pair.positive, how.threshold, [how.metric])
        for p in (pair.ours, pair.theirs)
    )
    sign = -1.0 if how.metric in LOWER_IS_BETTER else 1.0

    def score(weight: np.ndarray) -> np.ndarray:
        both = [ours(weight)[0], theirs(weight)[0]]
        return np.stack([*both, sign * (both[1] - both[0])])

    point, draws = resample(score, len(rows), how.bootstrap, how.seed)
    one, other, gain = map(float, point)
    return Difference(how.metric, one, other, gain, *interval(draws[2], how.level), len(rows))


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
