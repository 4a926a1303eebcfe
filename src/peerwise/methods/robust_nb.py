"""Federated naive Bayes that withstands some malicious nodes.

"Towards a Realistic Decentralized Naive Bayes with Differential Privacy" (Giaretta et al., section
6) leaves it open: a median of sums says nothing, because sums grow with a node's rows. Here nodes
send averages instead (class shares, means, second moments and category shares given the class),
and medians or trimmed means (Yin et al., 2018) are taken of these. A node with hardly any rows of
a class abstains. The price: all who vote count the same, however many rows
they hold, and what most nodes never see (a category in fewer than half of the shards) has median
0. A model with a larger `smallest_share` softens that.
"""

import math
from functools import cache
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from annotated_types import Ge, Lt

from peerwise.core import Array, Inbox, Message, Method, Range, Shard, Slots, State, Tree
from peerwise.declare import declares
from peerwise.errors import BadSetting, UnknownName
from peerwise.methods.releasing import Release, release
from peerwise.models.family import Model, log_posterior
from peerwise.privacy.budget import Queries

RULES = ("median", "trimmed_mean", "mean")  # of the nodes' values, coordinate by coordinate
# Labels flipped; statistics times 1000; noise; labels flipped and times 1000.
ATTACKS = ("inverted", "scaled", "random", "dominant")
FACTOR = 1000.0  # of the attacks "scaled" and "dominant"
NOISE = 100.0  # of the attack "random": its standard deviation over the largest entry


def relative(s: Array) -> tuple[Array, Array]:
    """Statistics [..., c, q] without their size, and the size [...].

    Column 0 holds the shares of the classes, the others means over the rows of the class.
    Negative counts, which noise makes, are 0; a class without rows has zeros.
    """
    count = jnp.maximum(s[..., :1], 0)
    size = count.sum((-2, -1))
    there = size[..., None, None] > 0
    share = jnp.where(there, count / jnp.where(there, size[..., None, None], 1), 0)
    mean = jnp.where(count > 0, s[..., 1:] / jnp.where(count > 0, count, 1), 0)
    return jnp.concatenate([share, mean], -1), size


def aggregate(
    model: Model,
    shares: Array,
    sizes: Array,
    *,
    rule: str = "median",
    trim: float = 0.1,
    fewest: float = 2.0,
    heard: Array | None = None,
) -> Array:
    """Statistics [c, q] aggregated from nodes' `relative` statistics [n, c, q] and sizes [n].

    `rule`: "median", "trimmed_mean" without the share `trim` at either end (rounded up), "mean".
    A node votes on a class if it has at least `fewest` rows of it; where no node has, all that
    have any vote. Second moments are taken about the aggregated mean, from each node's own
    pair of moments: two separate medians could make a variance negative. `heard` [n] says which
    entries were heard; one that is not finite is left out.
    """
    _check(rule, trim, fewest)
    queries = Queries(model.cardinalities, model.classes)
    numbers = len(queries.numeric)
    there = jnp.isfinite(shares).all((1, 2)) & jnp.isfinite(sizes)
    there = there if heard is None else there & heard
    shares = jnp.where(there[:, None, None], shares, 0)
    sizes = jnp.where(there, sizes, 0)
    count = shares[..., 0] * sizes[:, None]
    votes = count >= max(fewest, 0)
    some = count > 0
    votes = jnp.where((votes & some).any(0)[None], votes, True) & some

    def middle(values: Array, who: Array) -> Array:
        return _middle(values, jnp.broadcast_to(who, values.shape), rule, trim)

    holds = there & (sizes > 0)
    prior = jnp.maximum(middle(shares[..., 0], holds[:, None]), 0)
    prior = prior / jnp.maximum(prior.sum(), jnp.finfo(prior.dtype).tiny)
    size = holds.sum() * middle(sizes, holds)
    x, square, cells = jnp.split(shares[..., 1:], [numbers, 2 * numbers], -1)
    mean = middle(x, votes[..., None])
    var = middle(square - (2 * x - mean[None]) * mean[None], votes[..., None])
    cell = middle(cells, votes[..., None])
    line = jnp.concatenate([mean, var + mean**2, cell], 1)
    rows = (prior * size)[:, None]
    return jnp.concatenate([rows, rows * line], 1)


def _middle(values: Array, here: Array, rule: str, trim: float) -> Array:
    """The mean of the entries [n, ...] that are here, without some at either end, by the rule.

    A median is the mean that leaves out the most. Without any entry it is 0.
    """
    count = here.sum(0)
    most = jnp.maximum(count - 1, 0) // 2
    if rule == "mean":
        cut = jnp.zeros_like(most)
    elif rule == "median":
        cut = most
    else:  # rounded up, but not for a rounding error
        share = jnp.ceil(trim * count.astype(values.dtype) - 1e-3).astype(most.dtype)
        cut = jnp.minimum(share, most)
    rank = jnp.arange(len(values)).reshape(-1, *[1] * (values.ndim - 1))
    kept = (rank >= cut[None]) & (rank < (count - cut)[None])
    ordered = jnp.sort(jnp.where(here, values, jnp.inf), 0)
    return jnp.where(kept, ordered, 0).sum(0) / jnp.maximum(kept.sum(0), 1)


@declares("method", releases="once")
def robust_nb(
    model: Model,
    draw: Release | None = None,
    *,
    middle: Annotated[Literal["median", "trimmed_mean", "mean"], "how to merge values"] = "median",
    trim: Annotated[float, Ge(0), Lt(0.5), "share left out at either end by trimmed_mean"] = 0.1,
    fewest: Annotated[float, Ge(0), "rows of a class that a node needs to vote on it"] = 2.0,
) -> Method:
    """Naive Bayes from a robust mean of what a node and its neighbours release, in one round.

    For `topology.complete`, or any other: a node then merges its neighbourhood alone. Sizes
    and counts are those of the release `draw` (by default one without noise), so that noise covers
    them too. A node needs several rows of a class to say anything: with very small shards
    `federated_nb` is more accurate.
    """
    _check(middle, trim, fewest)
    plain = Queries(model.cardinalities, model.classes).size == model.size
    if model.name != "naive_bayes" or not plain:
        raise BadSetting(f"robust_nb needs naive_bayes without missing values, got {model.name}")
    return _robust(model, draw or release(model), middle, float(trim), float(fewest))


@cache
def _robust(model: Model, draw: Release, rule: str, trim: float, fewest: float) -> Method:
    def init(key: Array, shard: Shard) -> State:
        return State(*draw(key, shard))

    def message(key: Array, state: State) -> Message:
        shares, size = relative(state.value)
        return Message(shares, {"size": size})

    def listen(own: Array, inbox: Inbox) -> Array:
        shares, size = relative(own)
        everyone = jnp.concatenate([inbox.value, shares[None]])
        sizes = jnp.append(inbox.note["size"], size)
        heard = jnp.append(inbox.weight > 0, True)
        return aggregate(model, everyone, sizes, rule=rule, trim=trim, fewest=fewest, heard=heard)

    def adapt(key: Array, state: State, shard: Shard) -> State:
        return state

    def predict(key: Array, value: Tree, x: Array) -> Array:
        return log_posterior(model, value, x)

    ranges = (Range("note.size", 0),)
    return Method(init, message, Slots(listen), adapt, predict, ranges=ranges)


def corrupt(key: Array, value: Tree, kind: str) -> Tree:
    """What a malicious node sends instead: see `ATTACKS`.

    Arrays with a line for each class change; scalars sent along stay.
    """
    if kind not in ATTACKS:
        raise UnknownName("attack", kind, ATTACKS)

    def leaf(a: Array) -> Array:
        if a.ndim < 2:
            return a
        if kind == "random":
            drawn = jax.random.normal(key, a.shape, jnp.float32).astype(a.dtype)
            return NOISE * jnp.abs(a).max() * drawn
        flipped = a if kind == "scaled" else jnp.flip(a, -2)
        return flipped if kind == "inverted" else FACTOR * flipped

    return jax.tree.map(leaf, value)


def attacked(method: Method, share: float, kind: str, seed: int = 0) -> Method:
    """The method with a share of malicious nodes, which send what `corrupt` makes.

    Each node is malicious with probability `share`, by its own key and `seed`: a node does not
    know how many others are. Memory is {"malicious": flag, "method": the method's own memory}, so
    that a probe can look at honest nodes only. In all else a malicious node is honest.
    """
    if not 0 <= share <= 1:
        raise BadSetting(f"share must be between 0 and 1, got {share}")
    if kind not in ATTACKS:
        raise UnknownName("attack", kind, ATTACKS)
    if method.reply is not None:
        raise BadSetting("an attack is on what a node tells all neighbours; this method replies")
    return _attacked(method, float(share), kind, int(seed))


@cache
def _attacked(method: Method, share: float, kind: str, seed: int) -> Method:
    def inner(state: State) -> State:
        return State(state.value, state.memory["method"])

    def init(key: Array, shard: Shard) -> State:
        value, memory = method.init(key, shard)
        u = jax.random.uniform(jax.random.fold_in(key, seed), (), jnp.float32)
        return State(value, {"malicious": u < share, "method": memory})

    def message(key: Array, state: State) -> Message:
        sent = method.message(key, inner(state))
        lie = corrupt(key, sent.value, kind)
        bad = state.memory["malicious"]
        return sent._replace(value=jax.tree.map(lambda a, b: jnp.where(bad, a, b), lie, sent.value))

    def adapt(key: Array, state: State, shard: Shard) -> State:
        value, memory = method.adapt(key, inner(state), shard)
        return State(value, {**state.memory, "method": memory})

    return method._replace(init=init, message=message, adapt=adapt)


def _check(rule: str, trim: float, fewest: float) -> None:
    if rule not in RULES:
        raise UnknownName("robust rule", rule, RULES)
    if not 0 <= trim < 0.5:
        raise BadSetting(f"trim must be a share of the nodes, 0 or more and below 0.5, got {trim}")
    if not 0 <= fewest < math.inf:
        raise BadSetting(f"fewest must be 0 or more, got {fewest}")
