"""Features chosen privately, so that the budget is spent on those that matter.

Every node ranks the features by its own rows and votes; the votes are summed over the network, and
only the features with the most votes are asked about afterwards ("Towards a Realistic Decentralized
Naive Bayes with Differential Privacy", Giaretta et al., section 6). A vote is one feature, drawn
from the node's own top k rather than from the others with odds e^epsilon to 1 (the exponential
mechanism of McSherry and Talwar, 2007, whose quality is 1 in the top k and 0 elsewhere). One row
may change the whole top k, but any two tops have the same number of features and so the same
normaliser, and the chances of a vote differ by e^epsilon at most: a vote costs epsilon, exactly.
Noise on all entries of the top k instead would have to cover 2k changes at once.

Where only the sum over the network can be read (`methods.sealed`), nodes need not vote: they add up
how many rows of each class have each value (`class_counts`), and the features that tell most of the
class by the noised sum are kept (`scored`).

Among d features and n nodes, one of every node's top k stands out by about epsilon sqrt(n / d)
standard deviations. It pays where features are many, nodes are many and rows at each are few.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array
from peerwise.errors import BadSetting
from peerwise.models.block import check_arguments
from peerwise.privacy.budget import check_epsilon

BINS = 8  # equal parts of a number's bounds


def budgets(epsilon: float, share: float = 0.3) -> tuple[float, float]:
    """The budget of the vote and that of the statistics, which together are `epsilon`.

    Both are about the same rows, so they add up (sequential composition).

    >>> budgets(1.0, share=0.25)
    (0.25, 0.75)
    """
    epsilon = check_epsilon(epsilon)
    if not 0 < share < 1:
        raise BadSetting(f"share, what of the budget votes cost, must be in 0 to 1, got {share}")
    vote = epsilon * share
    return vote, epsilon - vote


def local_scores(
    x: Array,
    y: Array,
    weight: Array,
    cardinalities: Sequence[int],
    classes: int,
    bounds: tuple[Any, Any] | None = None,
    *,
    bins: int = BINS,
    corrected: bool = True,
) -> Array:
    """The mutual information of each feature with the class [d], in nats; for the node itself only.

    Categories as they are; numbers in `bins` equal parts of public `bounds` (low, high), one for
    all numeric features or one for each in order. Missing values and classes count nowhere. Few
    rows make every feature look informative, by (r - 1)(c - 1) / 2m nats for r categories and c
    classes that occur; `corrected` subtracts it (Miller, 1955), or features of many categories
    would win everywhere. Pure JAX: a `vmap` over nodes gives [n, d].
    """
    table = _tables(x, y, weight, cardinalities, classes, bounds, bins)
    score = _information(table)
    if not corrected:
        return score
    rows = table.sum((1, 2))
    spare = ((table.sum(2) > 0).sum(1) - 1) * ((table.sum(1) > 0).sum(1) - 1)
    return score - jnp.where(rows > 0, spare / (2 * jnp.where(rows > 0, rows, 1)), 0)


def _tables(
    x: Array,
    y: Array,
    weight: Array,
    cardinalities: Sequence[int],
    classes: int,
    bounds: tuple[Any, Any] | None,
    bins: int,
) -> Array:
    """How many rows of each class each value of each feature has [d, most values, c]."""
    cardinalities, classes = check_arguments(cardinalities, classes)
    number = np.equal(cardinalities, 0)
    low, high = _limits(int(number.sum()), bounds)
    if bins < 2:
        raise BadSetting(f"bins must be 2 or more, got {bins}")
    if x.ndim != 2 or x.shape[1] != len(cardinalities):
        raise BadSetting(f"x must be [m, {len(cardinalities)}], got {list(x.shape)}")
    levels = np.where(number, bins, cardinalities)
    x = jnp.asarray(x)
    x = x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(float)
    start, width = np.zeros(len(number)), np.ones(len(number))
    start[number], width[number] = low, (high - low) / bins
    top = jnp.asarray(levels - 1.0, x.dtype)[None]
    place = (x - jnp.asarray(start, x.dtype)[None]) / jnp.asarray(width, x.dtype)[None]
    # numbers beyond their bounds are clipped to them; categories beyond theirs are missing
    place = jnp.where(number[None], jnp.clip(jnp.floor(place), 0, top), place)
    known = (place >= 0) & (place <= top) & ((y >= 0) & (y < classes))[:, None]
    code = jnp.where(known, place, 0).astype(jnp.int32)
    mass = jnp.where(known, weight.astype(x.dtype)[:, None], 0)
    table = jnp.zeros((len(number), int(levels.max()), classes), x.dtype)
    here = np.arange(len(number), dtype=np.int32)[None]
    label = jnp.clip(y, 0, classes - 1).astype(jnp.int32)[:, None]
    return table.at[here, code, label].add(mass)


def _information(table: Any) -> Any:
    """The mutual information [d] of counts [d, values, c], in nats."""
    xp = jnp if isinstance(table, jax.Array) else np
    rows = table.sum((1, 2))
    p = table / xp.where(rows > 0, rows, 1)[:, None, None]
    apart = p.sum(2, keepdims=True) * p.sum(1, keepdims=True)
    score = xp.where(p > 0, p * xp.log(xp.where(p > 0, p / xp.where(p > 0, apart, 1), 1)), 0)
    return score.sum((1, 2))


@cache
def class_counts(
    cardinalities: tuple[int, ...],
    classes: int,
    low: tuple[float, ...],
    high: tuple[float, ...],
    bins: int = BINS,
) -> Callable[[Array, Array, Array], Array]:
    """x, y, weight -> rows of each class with each value of each feature [values of all, c].

    As `local_scores` counts them. A row is in one line of each feature at most.
    """
    place = _places(cardinalities, bins)

    def count(x: Array, y: Array, weight: Array) -> Array:
        return _tables(x, y, weight, cardinalities, classes, (low, high), bins)[place]

    return count


def scored(
    counts: np.ndarray, cardinalities: Sequence[int], noise: float, bins: int = BINS
) -> np.ndarray:
    """The mutual information of each feature with the class [d], from noised `class_counts`.

    What lies within two deviations of 0 is nothing. Noise makes features look informative, those
    of many values most: what it adds on average is taken off, as `local_scores` does for the chance
    in rows, of which a count has the variance of its own size. Rounded, so that equal ones are
    equal on every machine.
    """
    place = _places(cardinalities, bins)
    table = np.zeros((len(cardinalities), int(place[1].max(initial=0)) + 1, counts.shape[1]))
    table[place] = np.where(counts > 2 * noise, counts, 0.0)
    there = (table > 0).astype(float)

    def chance(*axes: int) -> np.ndarray:  # variance over mean of sums of cells, added up
        total, cells = (a.sum(axes, keepdims=True) for a in (table, there))
        each = np.where(total > 0, (total + noise**2 * cells) / np.where(total > 0, total, 1), 0)
        return np.asarray(each.sum((1, 2)))

    rows = table.sum((1, 2))
    spare = chance() - chance(1) - chance(2) + chance(1, 2)
    score = _information(table) - spare / (2 * np.where(rows > 0, rows, 1))
    return np.round(score, 12)


def _places(cardinalities: Sequence[int], bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Of every value of every feature: its feature, and which of its values it is."""
    levels = np.where(np.equal(cardinalities, 0), bins, cardinalities)
    feature = np.repeat(np.arange(len(levels)), levels)
    value = np.arange(len(feature)) - np.repeat(np.cumsum(levels) - levels, levels)
    return feature.astype(np.int32), value.astype(np.int32)  # as JAX indexes


def chances(top: Array, epsilon: float) -> Array:
    """The probability of a vote for each feature [d]: e^epsilon to 1 for those in the top [d].

    >>> chances(jnp.array([1.0, 0.0, 0.0]), math.log(2)).tolist()
    [0.5, 0.25, 0.25]
    """
    return jax.nn.softmax(check_epsilon(epsilon) * jnp.asarray(top))


def select(key: Array, scores: Array, k: int, epsilon: float) -> Array:
    """A node's vote [d]: 1 for one feature, probably of its top k by `scores` [d], 0 for others.

    It is epsilon-private whatever the scores are and however much a row can change them; of
    scores that are equal, chance decides. An epsilon of infinity is a vote without privacy, with
    1 for every feature of the top k. Seeded floating-point draws are for simulation only.
    """
    epsilon = check_epsilon(epsilon, noise_off=True)
    scores = jnp.asarray(scores)
    k = _check_k(k, scores.shape)
    shuffle, draw = jax.random.split(key)
    order = jax.random.permutation(shuffle, scores.shape[0])
    best = order[jax.lax.top_k(scores[order], k)[1]]
    top = jnp.zeros_like(scores).at[best].set(1)
    if math.isinf(epsilon):
        return top
    vote = jax.random.choice(draw, scores.shape[0], p=chances(top, epsilon))
    return jnp.zeros_like(scores).at[vote].set(1)


def chosen(votes: Array, k: int) -> np.ndarray:
    """The k features with the most votes, in their order; the first of those that are equal.

    `votes` [d] is the sum over the network. What is done with votes costs no further privacy.

    >>> chosen(np.array([3.0, 9.0, 1.0, 5.0]), 2).tolist()
    [1, 3]
    """
    votes = np.asarray(votes)
    k = _check_k(k, votes.shape)
    return np.sort(np.argsort(-votes, kind="stable")[:k])


def _check_k(k: int, shape: tuple[int, ...]) -> int:
    if len(shape) != 1:
        raise BadSetting(f"one number for each feature is needed, got shape {list(shape)}")
    if isinstance(k, bool) or int(k) != k or not 1 <= k <= shape[0]:
        raise BadSetting(f"k must be a whole number of features, 1 to {shape[0]}, got {k}")
    return int(k)


def _limits(numbers: int, bounds: tuple[Any, Any] | None) -> tuple[np.ndarray, np.ndarray]:
    if numbers == 0:
        return np.zeros(0), np.zeros(0)
    if bounds is None:
        raise BadSetting(f"{numbers} numeric features need public bounds (low, high)")
    low, high = (np.asarray(b, float) for b in bounds)
    if low.shape not in ((), (numbers,)) or high.shape not in ((), (numbers,)):
        raise BadSetting(f"bounds must be one pair, or one for each of {numbers} numeric features")
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise BadSetting(f"bounds must be finite, low below high, got {bounds}")
    return low, high
