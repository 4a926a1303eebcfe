"""Methods compared with statistics, paired by data set and repetition.

All functions take tidy values: a frame with the columns dataset, method, any factors, repetition,
metric and value. Demšar (2006), "Statistical comparisons of classifiers over multiple data sets",
is where signed ranks, Friedman's test and critical differences come from.
"""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.report.better import lower_is_better

KEYS = ("dataset", "method", "repetition", "metric", "value")
LEVEL = 0.95
RESAMPLES = 9999
FEWEST_PAIRS = 6  # five that all point one way have p = 2 / 2**5 = .0625
FEWEST_SETS = 3
PRECISION = 1e-6  # of the largest value: what differs by less is a tie


class Ranks(NamedTuple):
    """Mean ranks of methods over data sets; those closer than `critical` cannot be told apart."""

    mean: pd.Series  # by method, the best first
    sets: tuple[str, ...]
    p: float  # Friedman's test that all methods are alike; NaN for two methods
    critical: float  # Nemenyi's critical difference

    @property
    def groups(self) -> list[list[str]]:
        """The largest groups of methods whose ranks are within the critical difference."""
        names = [str(m) for m in self.mean.index]
        values = self.mean.to_numpy()
        groups: list[list[str]] = []
        for first, value in enumerate(values):
            last = int(np.searchsorted(values, value + self.critical + 1e-9))
            if last - first > 1 and not (groups and names[last - 1] in groups[-1]):
                groups.append(names[first:last])
        return groups


class Comparison(NamedTuple):
    """Methods compared by one metric."""

    metric: str
    lower: bool  # whether less is better
    baseline: str
    means: pd.DataFrame  # a line a data set and setting, a column a method
    stds: pd.DataFrame  # the same over repetitions; NaN for one
    against: pd.DataFrame  # a line a method: its differences to the baseline
    ranks: Ranks | None
    notes: list[str]  # what could not be compared or tested, and why


def factors_of(values: pd.DataFrame) -> list[str]:
    """The columns that say what was varied besides methods; those that name data sets do not."""
    sets = values["dataset"].astype(str)
    return [str(c) for c in values if c not in KEYS and not (values[c].astype(str) == sets).all()]


def holm(p: Sequence[float]) -> np.ndarray:
    """P-values corrected by Holm's step-down method for so many tests; NaN is no test.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    raw = np.asarray(p, float)
    tested = np.flatnonzero(~np.isnan(raw))
    order = tested[np.argsort(raw[tested], kind="stable")]
    steps = (len(order) - np.arange(len(order))) * raw[order]
    corrected = np.full(raw.shape, np.nan)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected


def even(differences: Any, values: Any) -> Any:
    """Differences in millionths of the largest value, whole numbers: less is rounding, and a tie.

    Means over nodes are of single precision, where equal errors can differ in the eighth digit.
    """
    largest = float(np.max(np.abs(values), initial=0))
    return (differences / (PRECISION * largest or 1.0)).round() + 0.0  # no -0


def signed_rank(differences: np.ndarray) -> float:
    """The p-value of Wilcoxon's signed-rank test; NaN for fewer than two pairs.

    Pairs without a difference are left out, as Wilcoxon did; where all are, p is 1. The test is
    exact up to 50 pairs, or 13 where differences are tied.
    """
    if len(differences) < 2:
        return float("nan")
    held = differences[differences != 0]
    if not len(held):
        return 1.0
    tied = len(np.unique(np.abs(held))) < len(held)
    method: object = "exact" if len(held) <= 50 else "asymptotic"
    if tied:
        method = stats.PermutationMethod() if len(held) <= 13 else "asymptotic"
    return float(stats.wilcoxon(held, method=method).pvalue)


def bootstrap(differences: np.ndarray, level: float = LEVEL, seed: int = 0) -> tuple[float, float]:
    """The interval of a mean difference by the BCa bootstrap; NaN for fewer than two pairs."""
    if len(differences) < 2:
        return float("nan"), float("nan")
    if np.ptp(differences) < 1e-12:  # nothing to resample
        return float(differences[0]), float(differences[0])
    ends = stats.bootstrap(
        (differences,), np.mean, n_resamples=RESAMPLES, confidence_level=level, rng=seed
    ).confidence_interval
    return float(ends.low), float(ends.high)


def paired(values: pd.DataFrame, metric: str) -> pd.DataFrame:
    """A line a data set, setting and repetition, a column a method; NaN where a method is absent.

    A method without a value of a factor, because it does not depend on it, stands beside all of
    the factor's values.
    """
    factors = factors_of(values)
    rows = values[(values["metric"] == metric) & np.isfinite(values["value"])]
    for factor in factors:
        known = rows[rows[factor].notna()]
        levels = known[["dataset", factor]].drop_duplicates()
        free = rows[rows[factor].isna()].drop(columns=factor).merge(levels, on="dataset")
        rows = pd.concat([known, free]) if len(free) else rows
    keys = ["dataset", *factors, "repetition"]
    wide = rows.set_index([*keys, "method"])["value"].groupby(level=[*keys, "method"], sort=False)
    table = wide.mean().unstack("method", sort=False)
    methods = [m for m in dict.fromkeys(values["method"]) if m in table]
    return table[methods].sort_index(level="repetition", sort_remaining=False, kind="stable")


def best_of(wide: pd.DataFrame, lower: bool) -> str:
    """The method with the best mean over the pairs that all methods have, or over its own."""
    common = wide.dropna()
    means = (common if len(common) else wide).mean()
    return str(means.idxmin() if lower else means.idxmax())


def differences(wide: pd.DataFrame, baseline: str, lower: bool) -> pd.DataFrame:
    """A line a method: its pairs with the baseline, mean difference, interval, tests and wins.

    A difference is the method's value less the baseline's; a win is a pair in which the method
    is the better one.
    """
    lines = []
    others = [m for m in wide.columns if m != baseline]
    for method in others:
        both = wide[[method, baseline]].dropna()
        d = (both[method] - both[baseline]).to_numpy()
        low, high = bootstrap(d)
        steps = even(d, both.to_numpy())
        better = -steps if lower else steps
        lines.append(
            {
                "method": method,
                "pairs": len(d),
                "value": both[method].mean(),
                "baseline": both[baseline].mean(),
                "difference": d.mean() if len(d) else np.nan,
                "low": low,
                "high": high,
                "p": signed_rank(steps),
                "wins": int((better > 0).sum()),
                "ties": int((better == 0).sum()),
                "losses": int((better < 0).sum()),
            }
        )
    table = pd.DataFrame(lines).set_index("method")
    table["p_holm"] = holm(table["p"].tolist())
    return table


def ranked(wide: pd.DataFrame, lower: bool) -> Ranks | None:
    """Mean ranks over the data sets that all methods share; None for fewer than three of them.

    A data set counts once: with the mean over the settings and repetitions that all methods have.
    """
    blocks = wide.dropna().groupby(level="dataset", sort=False).mean()
    n, k = blocks.shape
    if n < FEWEST_SETS or k < 2:
        return None
    ranks = even(blocks if lower else -blocks, blocks.to_numpy()).rank(axis=1)
    p = float("nan")
    if k > 2:
        alike = bool((ranks.std(axis=1) == 0).all())
        p = 1.0 if alike else float(stats.friedmanchisquare(*ranks.to_numpy().T).pvalue)
    q = float(stats.studentized_range.ppf(LEVEL, k, np.inf)) / np.sqrt(2)
    critical = q * np.sqrt(k * (k + 1) / (6 * n))
    mean = ranks.mean().sort_values(kind="stable")
    return Ranks(mean, tuple(map(str, blocks.index)), p, float(critical))


def compare(
    values: pd.DataFrame,
    metric: str | None = None,
    *,
    to: str | None = None,
    better: str | None = None,
) -> Comparison:
    """Compare methods by a metric (test error by default) with a baseline, the best by default.

    `better` is "lower" or "higher"; it must be given for a metric whose name does not say it.
    """
    known = list(dict.fromkeys(values["metric"]))
    metric = metric or ("test_error" if "test_error" in known else known[0])
    if metric not in known:
        raise UnknownName("metric", metric, known)
    lower = _direction(metric, better)
    wide = paired(values, metric)
    if len(wide.columns) < 2:
        only = ", ".join(map(str, wide.columns)) or "no method"
        raise BadData(
            f"a comparison needs two methods or more, but only {only} has values of {metric}; "
            "give a run of several methods, or several runs"
        )
    if to is not None and to not in wide:
        raise UnknownName("method", to, map(str, wide.columns))
    baseline = to or best_of(wide, lower)
    against = differences(wide, baseline, lower)
    of_setting = wide.groupby(level=[n for n in wide.index.names if n != "repetition"], sort=False)
    ranks = ranked(wide, lower)
    notes = [*_dropped(values, metric), *_absent(wide), *_untested(wide, against, baseline)]
    notes += _unranked(wide, ranks)
    return Comparison(
        metric, lower, baseline, of_setting.mean(), of_setting.std(), against, ranks, notes
    )


def _direction(metric: str, better: str | None) -> bool:
    if better not in (None, "lower", "higher"):
        raise UnknownName("direction", better, ["lower", "higher"])
    if better is not None:
        return better == "lower"
    lower = lower_is_better(metric)
    if lower is None:
        raise BadSetting(
            f"the name {metric} does not show whether higher or lower is better: add "
            "--better lower or --better higher"
        )
    return lower


def _dropped(values: pd.DataFrame, metric: str) -> list[str]:
    of_metric = values[values["metric"] == metric]
    count = int((~np.isfinite(of_metric["value"])).sum())
    return [f"{count} of {len(of_metric)} values are not finite and are left out."] if count else []


def _absent(wide: pd.DataFrame) -> list[str]:
    """Which methods lack which data sets, or some settings or repetitions of them."""
    notes = []
    sets = wide.notna().groupby(level="dataset", sort=False)
    some, every = sets.any(), sets.all()
    for method in wide.columns:
        gone = [str(s) for s in wide.index.unique("dataset") if not some.loc[s, method]]
        part = [str(s) for s in every.index if some.loc[s, method] and not every.loc[s, method]]
        if gone:
            notes.append(f"{method} was not run on {', '.join(gone)}.")
        if part:
            notes.append(f"{method} lacks some settings or repetitions of {', '.join(part)}.")
    if notes:
        notes.append("Methods are compared on what both of a pair have.")
    return notes


def _untested(wide: pd.DataFrame, against: pd.DataFrame, baseline: str) -> list[str]:
    """Which differences cannot be tested, or cannot be significant whatever they are."""
    if (against["pairs"] <= 1).all():
        return [
            "Nothing can be tested: there is no more than one pair, of one data set and "
            "repetition. Run more repetitions."
        ]
    notes = []
    for method, line in against.iterrows():
        differ = int(line["wins"] + line["losses"])
        if line["pairs"] <= 1:
            pairs = "no pair" if not line["pairs"] else "one pair only"
            notes.append(f"{method} has {pairs} in common with {baseline}: no test.")
        elif 0 < differ < FEWEST_PAIRS:
            notes.append(
                f"{method} and {baseline} differ in {differ} pair{'s' * (differ > 1)}: with fewer "
                f"than {FEWEST_PAIRS}, the signed-rank test cannot reach p < .05."
            )
        elif differ and len(against) * 2.0 ** (1 - differ) >= 1 - LEVEL:
            notes.append(
                f"{method} and {baseline} differ in {differ} pairs, too few for p < .05 after the "
                f"correction for {len(against)} tests."
            )
    return notes


def _unranked(wide: pd.DataFrame, ranks: Ranks | None) -> list[str]:
    sets = len(wide.index.unique("dataset"))
    if ranks is not None and len(ranks.sets) < sets:
        return [f"Ranks are over {len(ranks.sets)} of {sets} data sets, which all methods have."]
    if ranks is None and sets >= FEWEST_SETS:
        return [f"No ranks: fewer than {FEWEST_SETS} data sets have values of all methods."]
    return []


def gathered(runs: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The values of several runs, by the runs' names, as one frame.

    A method that two runs hold for the same data set and setting is called `method (run)`; runs of
    one method on different data sets complete each other.
    """
    common = set.intersection(*(set(v["metric"]) for v in runs.values()))
    if not common:
        each = "; ".join(f"{n}: {', '.join(dict.fromkeys(v['metric']))}" for n, v in runs.items())
        raise BadData(f"the runs have no metric in common ({each})")
    factors = _same_factors(runs)
    labels = labelled(runs)
    frames = []
    for name, values in runs.items():
        held = values[values["metric"].isin(common)]
        held = held.assign(method=[labels[name, m] for m in held["method"]])
        frames.append(held[["dataset", "method", *factors, "repetition", "metric", "value"]])
    return pd.concat(frames, ignore_index=True)


def _same_factors(runs: Mapping[str, pd.DataFrame]) -> list[str]:
    """What the runs vary; they must vary the same."""
    varied = {name: factors_of(v) for name, v in runs.items()}
    for (one, first), (two, second) in permutations(varied.items(), 2):
        more = sorted(set(first) - set(second))
        if more:
            raise BadData(
                f"{one} varies {', '.join(more)} and {two} does not, so their numbers form no "
                "pairs; compare runs that vary the same"
            )
    return next(iter(varied.values()))


def labelled(runs: Mapping[str, pd.DataFrame]) -> dict[tuple[str, Any], str]:
    """The label of a run's method: with the run's name if another run has the method, too."""
    holders: dict[tuple[str, ...], set[str]] = {}
    for name, values in runs.items():
        columns = ["method", "dataset", *factors_of(values)]
        for key in values[columns].drop_duplicates().itertuples(index=False):
            holders.setdefault(tuple(map(str, key)), set()).add(name)
    twice = {(name, k[0]) for k, names in holders.items() if len(names) > 1 for name in names}
    return {
        (name, method): f"{method} ({name})" if (name, str(method)) in twice else str(method)
        for name, values in runs.items()
        for method in values["method"].unique()
    }
