"""The pieces of work: many draws of the noise at once, and networks that calibrate."""

import math
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise import learner
from peerwise.core import Array, Tree
from peerwise.models.family import Model, log_joint, statistics
from peerwise.models.registry import model_for
from peerwise.papers.items import Arrays, Description
from peerwise.papers.privacy.runs import rows_of, scores, tenths
from peerwise.privacy.aware import denoised
from peerwise.privacy.design import Design, default_delta, noising
from peerwise.privacy.shares import honest_members

AWARE = ("released",)  # functions whose numbers change with the noise-aware models


def released(
    data: str,
    nodes: int,
    epsilons: list[float],
    draws: int,
    bound: float,
    test_rows: int,
    honest: float,
) -> Arrays:
    """Accuracy and AUC [2, epsilons, draws] of the noise-aware model of a sum over all rows.

    One node is a curator, whose noise is of the kind with less variance. Of more the noise is the
    sum of their Gaussian shares, drawn in one. The grid is left out: it is finer than float32.
    """
    rows = rows_of(data, bound, test_rows)
    turns = tenths(len(rows.y) * 10 // 9)
    model = model_for(rows.schema, "naive_bayes")
    design = Design(model, -bound, bound)
    delta = default_delta(len(rows.y))
    scored, clean = np.empty((2, len(epsilons), draws)), []
    more = 1.0 if nodes == 1 else nodes / honest_members(nodes, honest, nodes)
    with jax.enable_x64(True):
        for turn in range(turns):
            rows = rows_of(data, bound, test_rows, turn)
            weight = jnp.ones(len(rows.y))
            exact = statistics(model, jnp.asarray(rows.x), jnp.asarray(rows.y), weight)
            test = jnp.asarray(rows.x_test), jnp.asarray(rows.y_test)
            clean.append(scores(_log_odds(model, exact, test[0]), test[1]))
            for i, epsilon in enumerate(epsilons):
                noise = noising(design, epsilon, delta, "best" if nodes == 1 else "gaussian")
                keys = jax.random.split(jax.random.key(i), draws)[turn::turns]
                scale = jnp.asarray(noise.scale * math.sqrt(more))
                run = _compiled(model, design, noise.kind == "gaussian")
                found = run(keys, exact, scale, jnp.asarray(noise.variance * more), test)
                scored[:, i, turn::turns] = np.asarray(found).T
    kind = "curator" if nodes == 1 else "sealed"
    return {kind: scored, "none": np.mean(jax.device_get(clean), 0)}


def _log_odds(model: Model, s: Tree, x: Array) -> Array:
    joint = log_joint(model, s, x)
    return joint[:, 1] - joint[:, 0]


@cache
def _compiled(model: Model, design: Design, gaussian: bool) -> Any:
    draw = jax.random.normal if gaussian else jax.random.laplace

    @jax.jit
    def run(keys: Array, exact: Tree, scale: Array, variance: Array, test: Any) -> Array:
        lines, _ = design.coordinates(exact)

        def one(key: Array) -> Array:
            noisy = design.raw(lines + scale[None] * draw(key, lines.shape), None)
            known = denoised(design, variance, noisy)
            return scores(_log_odds(model, known, test[0]), test[1])

        return jax.lax.map(one, keys)

    return run


def errors(description: Description) -> Arrays:
    """Test error after the last round, a mean over nodes for each repetition."""
    outcome = learner.run(learner.cell(description))
    return {"error": outcome.values["test_error"][:, -1].mean(-1)}
