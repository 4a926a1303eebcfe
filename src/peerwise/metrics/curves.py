"""Learning curves over replicas: when a goal is reached, how sure a mean is, at what traffic."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit  # quantiles of Student's t, without loading all of scipy.stats

from peerwise.errors import BadData, BadSetting


class Reached(NamedTuple):
    """When runs reached a goal: the mean round of those that did, and how many did."""

    mean: float  # NaN when none did
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    runs: int


def characteristic_time(accuracy: Any, rounds: Any, goal: float) -> Reached:
    """The first recorded round with accuracy >= goal, as a mean over the runs that have one.

    `accuracy` [runs, r] is a mean over nodes at the recorded `rounds` [r]; NaN reaches nothing.
    The mean leaves out runs that never get there, so it flatters a method of which few do: print
    the count with it, as table IV of the DecDiff paper should.

    >>> characteristic_time([[0.2, 0.6, 0.5], [0.1, 0.2, 0.7], [0.1, 0.2, 0.3]], [1, 5, 9], 0.6)
    Reached(mean=7.0, count=2, runs=3)
    """
    held, at = np.asarray(accuracy), np.asarray(rounds)
    if held.ndim != 2 or at.shape != held.shape[1:]:
        raise BadData(
            f"accuracy must be [runs, rounds] with a column for each recorded round, got"
            f" {held.shape} for rounds of shape {at.shape}; give a single run as accuracy[None]"
        )
    if np.any(np.diff(at) <= 0):
        raise BadData("rounds must increase; sort them, and the columns of accuracy with them")
    if np.isnan(goal):
        raise BadSetting("goal must be an accuracy, got nan")
    # a Python float takes the precision of the accuracies: 0.9 in single precision reaches 0.9
    first = [at[row][0] for row in held >= float(goal) if row.any()]
    return Reached(float(np.mean(first)) if first else np.nan, len(first), len(held))


def characteristic_times(
    accuracy: Any,
    rounds: Any,
    reference: float,
    shares: Sequence[float] = (0.5, 0.8, 0.9, 0.95),
) -> dict[float, Reached]:
    """`characteristic_time` to each share of the reference, the centralised model's accuracy.

    >>> characteristic_times([[0.2, 0.6, 0.7]], [1, 5, 9], 0.8, shares=(0.5, 0.95))
    {0.5: Reached(mean=5.0, count=1, runs=1), 0.95: Reached(mean=nan, count=0, runs=1)}
    """
    if not 0 < reference <= 1:
        raise BadSetting(f"reference must be an accuracy above 0 and up to 1, got {reference}")
    if bad := [share for share in shares if not share > 0]:
        raise BadSetting(f"shares must be greater than 0, got {bad[0]}")
    goals = {share: float(share) * float(reference) for share in shares}
    return {share: characteristic_time(accuracy, rounds, goal) for share, goal in goals.items()}


def confidence(values: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Mean over replicas (first axis) and half the width of its interval by Student's t.

    The half width of a single replica is NaN: one run does not tell how much runs differ.

    >>> mean, half = confidence([0.7, 0.8, 0.9])
    >>> print(f"{mean:.3f} ± {half:.3f}")
    0.800 ± 0.248
    """
    if not 0 < level < 1:
        raise BadSetting(f"level must lie between 0 and 1, got {level}")
    held = np.asarray(values, float)
    if not held.ndim or not len(held):
        raise BadData("there are no replicas to take a mean of; give at least one")
    n, mean = len(held), held.mean(0)
    if n == 1:
        return mean, np.full_like(mean, np.nan)[()]
    return mean, stdtrit(n - 1, (1 + level) / 2) * held.std(0, ddof=1) / np.sqrt(n)


def traffic(rounds: Any, message_bytes: float, messages_per_round: float) -> np.ndarray:
    """Bytes that the whole network has sent up to each recorded round, to plot accuracy against.

    `messages_per_round` counts directed links: two for each neighbours' edge when all send to all
    neighbours, n when each node sends to one.

    >>> traffic([0, 1, 10], message_bytes=400, messages_per_round=6).tolist()
    [0, 2400, 24000]
    """
    at = np.asarray(rounds)
    if np.any(at < 0) or message_bytes < 0 or messages_per_round < 0:
        raise BadSetting("rounds, message_bytes and messages_per_round must be 0 or more")
    # 32 bits end at 2 GB
    return at.astype(np.int64) * (message_bytes * messages_per_round)


def box(values: Any) -> dict[str, np.ndarray]:
    """What a box plot over the nodes (last axis) shows, by Tukey's rule.

    Whiskers end at the farthest values within 1.5 interquartile ranges of the box, and never
    inside it. `outliers` [..., n] has the values beyond them at their nodes' places, else NaN.

    >>> shown = box([0.1, 0.7, 0.8, 0.8, 0.9])
    >>> {name: float(shown[name]) for name in ("lowest", "whisker_low", "q1", "median")}
    {'lowest': 0.1, 'whisker_low': 0.7, 'q1': 0.7, 'median': 0.8}
    >>> shown["outliers"].tolist()
    [0.1, nan, nan, nan, nan]
    """
    held = np.asarray(values, float)
    if not held.ndim or not held.shape[-1]:
        raise BadData(f"values must have a value for each node, got shape {held.shape}")
    if not np.isfinite(held).all():
        raise BadData("values must be finite; leave out the nodes that have none")
    q1, median, q3 = np.percentile(held, [25, 50, 75], axis=-1)
    reach = 1.5 * (q3 - q1)
    inside = (held >= (q1 - reach)[..., None]) & (held <= (q3 + reach)[..., None])
    # a quartile between two values may have no value between it and its fence
    low = np.minimum(np.where(inside, held, np.inf).min(-1), q1)
    high = np.maximum(np.where(inside, held, -np.inf).max(-1), q3)
    return {
        "median": median,
        "q1": q1,
        "q3": q3,
        "whisker_low": low,
        "whisker_high": high,
        "outliers": np.where(inside, np.nan, held),
        "lowest": held.min(-1),
        "highest": held.max(-1),
    }
