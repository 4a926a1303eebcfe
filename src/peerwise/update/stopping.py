"""Risk-based calibration that stops by itself: when the soft error no longer falls."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from peerwise.core import Array, Shard, Tree
from peerwise.models.family import Model
from peerwise.update.calibrate import calibrate, soft_error


class Calibration(NamedTuple):
    """What calibration ends with."""

    statistics: Tree  # of the iterate with the lowest soft error
    soft_error: Array  # [iterations + 1] from the start on; infinite where it had stopped
    best: Array  # which iterate that is
    iterations: Array  # how many were made


@cache
def calibrated(model: Model, iterations: int) -> Callable[..., Calibration]:
    """statistics, rows, watched rows, tolerance, patience -> `Calibration`.

    Calibrates on `rows` until the soft error on `watched` has not fallen by `tolerance` for
    `patience` iterations, and keeps the best.
    """
    update = calibrate(model)

    def run(s: Tree, rows: Shard, watched: Shard, tolerance: Any, patience: Any) -> Calibration:
        first = soft_error(model, s, watched)
        trace = jnp.full(iterations + 1, jnp.inf, first.dtype).at[0].set(first)
        zero = jnp.zeros((), jnp.int32)

        def go_on(carry: Any) -> Array:
            t, since = carry[0], carry[1]
            return (t < iterations) & (since < patience)

        def iterate(carry: Any) -> Any:
            t, since, s, best, least, at, trace = carry
            s, _ = update(s, rows)
            soft = soft_error(model, s, watched)
            better = soft < least
            since = jnp.where(soft < least - tolerance, 0, since + 1)
            best = jax.tree.map(lambda a, b: jnp.where(better, a, b), s, best)
            at = jnp.where(better, t + 1, at)
            least = jnp.minimum(soft, least)
            return t + 1, since, s, best, least, at, trace.at[t + 1].set(soft)

        start = (zero, zero, s, s, first, zero, trace)
        t, _, _, best, _, at, trace = jax.lax.while_loop(go_on, iterate, start)
        return Calibration(best, trace, at, t)

    return jax.jit(run)
