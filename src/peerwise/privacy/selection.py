"""Features chosen privately, so that the budget is spent on those that matter.

Every node ranks the features by its own rows and votes; the votes are summed over the network, and
only the features with the most votes are asked about afterwards ("Towards a Realistic Decentralized
Naive Bayes with Differential Privacy", Giaretta et al., section 6). A vote is one feature, drawn
from the node's own top k rather than from the others with odds e^epsilon to 1 (the exponential
mechanism of McSherry and Talwar, 2007, whose quality is 1 in the top k and 0 elsewhere). One row
may change the whole top k, but any two tops have the same number of members and so the same
normaliser, and the chances of a vote differ by e^epsilon at most: a vote costs epsilon, exactly.
Noise on all entries of the top k instead would have to cover 2k changes at once.

Among d features and n nodes, one of every node's top k stands out by about epsilon sqrt(n / d)
standard deviations. It pays where features are many, nodes are many and rows at each are few.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array
from peerwise.errors import BadSetting
from peerwise.models.block import check_arguments
from peerwise.privacy.budget import check_epsilon


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
    bins: int = 8,
    corrected: bool = True,
) -> Array:
    """The mutual information of each feature with the class [d], in nats; for the node itself only.

    Categories as they are; numbers in `bins` equal parts of public `bounds` (low, high), one for
    all numeric features or one for each in order. Missing values and classes count nowhere. Few
    rows make every feature look informative, by (r - 1)(c - 1) / 2m nats for r categories and c
    classes that occur; `corrected` subtracts it (Miller, 1955), or features of many categories
    would win everywhere. Pure JAX: a `vmap` over nodes gives [n, d].
    """
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
    table = table.at[here, code, label].add(mass)
    rows = table.sum((1, 2))
    p = table / jnp.where(rows > 0, rows, 1)[:, None, None]
    apart = p.sum(2, keepdims=True) * p.sum(1, keepdims=True)
    score = jnp.where(p > 0, p * jnp.log(jnp.where(p > 0, p / jnp.where(p > 0, apart, 1), 1)), 0)
    score = score.sum((1, 2))
    if not corrected:
        return score
    spare = ((table.sum(2) > 0).sum(1) - 1) * ((table.sum(1) > 0).sum(1) - 1)
    return score - jnp.where(rows > 0, spare / (2 * jnp.where(rows > 0, rows, 1)), 0)


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
