"""What a node releases once: its statistics with noise, for simulations.

"Towards a Realistic Decentralized Naive Bayes with Differential Privacy" (Giaretta, Marchioro,
Markatos, Girdzijauskas), Algorithm 2.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from peerwise.core import Array, Shard, Tree
from peerwise.errors import BadSetting, UnknownName
from peerwise.methods import relaying
from peerwise.models.family import Model, by_class, statistics
from peerwise.privacy.aware import Noise, Noised
from peerwise.privacy.budget import Queries, check_epsilon, scales, split
from peerwise.privacy.design import Design, Noising, noising
from peerwise.privacy.mechanism import gaussian, laplace
from peerwise.privacy.sensitivity import clip, local, warn_local

CLAMP = 1e-6  # the least count that a node sends, with `clamp_at_node`
Release = Callable[[Array, Shard], tuple[Tree, dict[str, Array]]]


@cache
def release(
    model: Model,
    *,
    epsilon: float | tuple[float, float] = math.inf,
    sensitivity: str = "bounded",
    bounds: tuple[Any, Any] | None = None,
    mechanism: str = "laplace",
    delta: float = 0.0,
    split: str = "even",
    clamp_at_node: bool = False,
    knows: bool = False,
) -> Release:
    """key, shard -> noisy statistics, and scalars about them (Algorithm 2), for simulation.

    `epsilon`: the node's budget, or (low, high) for one that each node draws log-uniformly;
    infinity is no noise. `sensitivity`: "bounded" with public `bounds` (low, high), to which
    numbers are clipped, or "local" (the paper's, which is not differential privacy: naive Bayes,
    Laplace noise, even shares). `mechanism`, `delta` and `split` are as in `privacy.noising`. Every
    class is noised, also one that the node lacks. `clamp_at_node` makes counts positive before they
    are sent, as the authors' code does; otherwise sums stay unbiased, and only the model built from
    them is made valid. `knows`: tell methods how much noise there is, for models that use it.
    """
    spread = epsilon if isinstance(epsilon, tuple) else (epsilon, epsilon)
    low_e, high_e = (check_epsilon(e, noise_off=True) for e in spread)
    if math.isinf(low_e):
        return _exact(model, bounds if sensitivity == "bounded" else None)
    if sensitivity == "local":
        return _local(model, low_e, high_e, split, mechanism, clamp_at_node)
    if sensitivity != "bounded":
        raise UnknownName("sensitivity", sensitivity, ["local", "bounded"])
    if bounds is None:
        raise BadSetting(
            "sensitivity 'bounded' needs public bounds (low, high) of the numbers; give them, or "
            "find them privately with privacy.private_bounds"
        )
    design = Design(model, *bounds)
    noise = noising(design, low_e, delta, mechanism, split)
    draw = _bounded(model, bounds, low_e, high_e, design, noise, clamp_at_node)
    known = knows and low_e == high_e and not clamp_at_node
    return Noised(draw, Noise(design, noise.variance) if known else None)


def _exact(model: Model, bounds: tuple[Any, Any] | None) -> Release:
    """A release without noise, of numbers within bounds where there are some."""

    def draw(key: Array, shard: Shard) -> tuple[Tree, dict[str, Array]]:
        x = shard.x if bounds is None else clip(shard.x, model.cardinalities, *bounds)[0]
        exact = statistics(model, x, shard.y, shard.weight)
        zero = jnp.zeros((), by_class(exact).dtype)
        return exact, {"size": shard.weight.sum(), "noise": zero, "epsilon": zero + jnp.inf}

    return draw


def _drawn_epsilon(key: Array, low: float, high: float, dtype: Any) -> Array:
    u = jax.random.uniform(key, (), jnp.float32).astype(dtype)
    return low * (high / low) ** u


def _bounded(
    model: Model,
    bounds: tuple[Any, Any],
    low_e: float,
    high_e: float,
    design: Design,
    mechanism: Noising,
    clamp_at_node: bool,
) -> Release:
    if mechanism.kind == "gaussian" and low_e != high_e:
        raise BadSetting("a budget that nodes draw is for Laplace noise; take mechanism laplace")
    q, clamps = design.lines, clamp_at_node and Queries(model.cardinalities, model.classes)
    noise_of = laplace if mechanism.kind == "laplace" else gaussian

    def draw(key: Array, shard: Shard) -> tuple[Tree, dict[str, Array]]:
        x, _ = clip(shard.x, model.cardinalities, *bounds)
        exact = statistics(model, x, shard.y, shard.weight)
        lines = by_class(exact)
        which, own = jax.random.split(key)
        drawn = _drawn_epsilon(which, low_e, high_e, lines.dtype)
        scale = jnp.asarray(mechanism.scale, lines.dtype) * (low_e / drawn)
        every = jnp.broadcast_to(scale[None, :q], lines.shape)
        first = noise_of(own, every, jnp.float32).astype(lines.dtype)
        more = noise_of(jax.random.fold_in(own, 1), scale[q:], jnp.float32).astype(lines.dtype)
        # in the statistics as they are: noise in a count is noise in what is about a middle
        noise = jax.tree.map(relaying.rounded, design.raw(first, more if model.shared else None))
        noisy = added(exact, noise)
        if clamps:
            noisy = clamped(noisy, clamps)
        about = {"size": shard.weight.sum(), "epsilon": drawn}
        return noisy, about | {"noise": _apart(by_class(noisy), by_class(exact))}

    return draw


def _apart(noisy: Array, exact: Array) -> Array:
    """The relative error of equation 28, which only an oracle knows."""
    return jnp.where(exact != 0, jnp.abs(noisy - exact) / jnp.abs(exact), 0).sum()


def _local(
    model: Model, low_e: float, high_e: float, split_rule: str, mechanism: str, clamp: bool
) -> Release:
    if model.name != "naive_bayes" or not model.cardinalities:
        raise BadSetting(
            f"sensitivity 'local' is for the statistics of naive_bayes, not of {model.name}"
        )
    if split_rule != "even" or mechanism != "laplace":
        raise BadSetting("sensitivity 'local' has Laplace noise and even shares: take 'bounded'")
    queries = Queries(model.cardinalities, model.classes)
    if queries.size != model.size:
        raise BadSetting("local noise for statistics with missing values is not offered")
    warn_local()
    share = split(1.0, queries, [1.0] * queries.size)

    def draw(key: Array, shard: Shard) -> tuple[Array, dict[str, Array]]:
        exact = statistics(model, shard.x, shard.y, shard.weight)
        which, noise = jax.random.split(key)
        drawn = _drawn_epsilon(which, low_e, high_e, exact.dtype)
        reach = never_silent(
            local(shard.x, shard.y, shard.weight, model.cardinalities, model.classes)
        )
        scale = scales(reach.astype(exact.dtype), jnp.asarray(share, exact.dtype), queries) / drawn
        noisy = exact + laplace(noise, scale, jnp.float32).astype(exact.dtype)
        if clamp:
            noisy = clamped(noisy, queries)
        about = {"size": shard.weight.sum(), "epsilon": drawn}
        return noisy, about | {"noise": _apart(noisy, exact)}

    return draw


def never_silent(reach: Array) -> Array:
    """Local sensitivities [..., c, q]; a class that the node lacks gets those of its other classes.

    Otherwise the sums of such a class would be sent as exact zeros and reveal that it is absent.
    """
    others = reach.max(-2, keepdims=True)
    return jnp.where(reach > 0, reach, jnp.where(others > 0, others, 1))


def clamped(s: Array, queries: Queries) -> Array:
    """Counts [..., q] at least 1e-6 and sums of squares at least 0, as the authors' code sends."""
    least = jnp.full(queries.size, CLAMP, s.dtype)
    least = least.at[queries.first].set(-jnp.inf).at[queries.second].set(0)
    return jnp.maximum(s, least.reshape(*[1] * (s.ndim - 1), -1))


def added(*parts: Tree) -> Tree:
    """The sum of trees, leaf by leaf."""
    return jax.tree.map(lambda *a: sum(a), *parts)
