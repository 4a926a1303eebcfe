"""Expectation-maximisation: learn also from rows whose label, or some of whose values, are missing.

Dempster, Laird and Rubin (1977); with labels for some rows, Nigam et al. (2000). The E-step gives
a row without a label to every class by p(y | x), the M-step is theta(s). A missing value of a
naive Bayes feature drops out of both exactly, so only labels need iterations.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array, Shard, Tree
from peerwise.errors import BadData, BadSetting
from peerwise.models.family import Model, by_class, log_joint, soft_statistics, statistics


class Expectation(NamedTuple):
    """What EM ends with."""

    statistics: Tree  # s(X, Y) with the expected labels, and the prior's
    log_likelihood: np.ndarray  # of the observed data under the parameters of each iteration


@cache
def expected(model: Model) -> Callable[[Tree, Shard], tuple[Tree, Array]]:
    """statistics, shard -> expected statistics under theta(s), log-likelihood of what is observed.

    Rows with a label outside 0..c-1 have none. Rows without a label are worth their weight too.
    """
    if not model.linear:
        raise BadSetting(
            f"EM with missing values is for naive Bayes, not for {model.name}: "
            "a row's missing numbers depend on the others there"
        )

    def step(s: Tree, shard: Shard) -> tuple[Tree, Array]:
        joint = log_joint(model, s, shard.x)  # [m, c]
        weight = shard.weight.astype(joint.dtype)
        known = jax.nn.one_hot(shard.y, model.classes, dtype=joint.dtype)
        labelled = known.any(1)
        target = jnp.where(labelled[:, None], known, jax.nn.softmax(joint)) * weight[:, None]
        evidence = jnp.where(labelled, (joint * known).sum(1), jax.nn.logsumexp(joint, axis=1))
        return soft_statistics(model, shard.x, target), (evidence * weight).sum()

    return step


def _log_density(model: Model, s: Tree, prior: Tree) -> Array:
    """log p(theta(s)) under the prior, up to a constant: that of its pseudo-rows."""
    theta = model.theta(s)
    of_classes = (theta.weight * by_class(prior)).sum()
    return of_classes if model.common is None else of_classes + theta.shared @ prior["shared"]


@cache
def _compiled(model: Model) -> Any:
    step = expected(model)

    @jax.jit
    def run(start: Tree, prior: Tree, shard: Shard, trace: Array, tolerance: Array) -> Any:
        def go_on(carry: Any) -> Array:
            _, trace, t, last, before = carry
            moving = last - before > tolerance * jnp.maximum(jnp.abs(last), 1)
            return (t < trace.shape[0]) & ((t < 2) | moving)

        def iterate(carry: Any) -> Any:
            s, trace, t, last, _ = carry
            sums, evidence = step(s, shard)
            rising = evidence + _log_density(model, s, prior)
            s = jax.tree.map(jnp.add, sums, prior)
            return s, trace.at[t].set(evidence), t + 1, rising, last

        least = jnp.full((), -jnp.inf, trace.dtype)
        begin = (start, trace, jnp.zeros((), jnp.int32), least, least)
        return jax.lax.while_loop(go_on, iterate, begin)[:3]

    return run


def em(
    model: Model,
    x: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None = None,
    *,
    prior: Tree = None,
    start: Tree = None,
    iterations: int = 200,
    tolerance: float = 1e-9,
) -> Expectation:
    """Fit a model to rows of which some have no label (-1), in double precision.

    Starts from the labelled rows (and the prior), or from `start`. Stops when the logarithm of
    likelihood times prior gains less than `tolerance` of itself; it never falls unless a guard of
    theta acts. The likelihood alone may fall where there is a prior.
    """
    if iterations < 1:
        raise BadSetting(f"iterations must be 1 or more, got {iterations}")
    y = np.asarray(y, np.int32)
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, float)
    if not len(x) == len(y) == len(weight):
        raise BadData(f"{len(x)} rows have {len(y)} labels and {len(weight)} weights; give as many")
    run = _compiled(model)
    if start is None:
        absent = [c for c in range(model.classes) if not weight[y == c].sum() > 0]
        if absent:
            raise BadData(
                f"class {absent[0]} has no labelled row to start from; label one, or give `start`"
            )
    with jax.enable_x64(True):
        shard = Shard(jnp.asarray(x, float), jnp.asarray(y), jnp.asarray(weight))
        if prior is None:
            prior = jax.tree.map(jnp.zeros_like, model.uniform(1.0, float))
        if start is None:
            known = statistics(model, shard.x, shard.y, jnp.asarray(weight * (y >= 0)))
            start = jax.tree.map(jnp.add, known, prior)
        trace = jnp.full(iterations, -jnp.inf)
        s, trace, t = run(start, prior, shard, trace, jnp.asarray(tolerance, float))
        return Expectation(jax.tree.map(np.asarray, s), np.asarray(trace)[: int(t)])
