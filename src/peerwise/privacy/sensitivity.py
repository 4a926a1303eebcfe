"""How much one row can change each statistic of naive Bayes."""

import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array
from peerwise.errors import BadData, BadSetting
from peerwise.privacy.budget import Queries

Bound = float | Sequence[float] | np.ndarray


def bounded(queries: Queries, low: Bound, high: Bound) -> np.ndarray:
    """The sensitivity of each column [q] when numbers are clipped to public bounds.

    1 for counts, max(|low|, |high|) for sums of x and its square for sums of x^2. Bounds are in
    the units of x: one number for all numeric features, or one for each in order.
    """
    low, high = checked_bounds(len(queries.numeric), low, high)
    largest = np.maximum(np.abs(low), np.abs(high))
    reach = np.ones(queries.size)
    reach[queries.first] = largest
    reach[queries.second] = largest**2
    return reach


def clip(
    x: Array, cardinalities: Sequence[int], low: Bound, high: Bound, weight: Array | None = None
) -> tuple[Array, Array]:
    """Rows with every number moved into its bounds, and how many numbers were outside.

    Categories and missing numbers (NaN) stay as they are. Rows of weight 0 are not counted. The
    count is exact and not private: it is for the node itself.
    """
    xp: Any = jnp if isinstance(x, jax.Array) else np
    if x.ndim != 2 or x.shape[1] != len(cardinalities):
        raise BadData(f"x must be [m, {len(cardinalities)}] to be clipped, got {list(x.shape)}")
    if not xp.issubdtype(x.dtype, xp.floating):
        x = x.astype(float)  # whole numbers cannot be moved to bounds between them
    number = np.equal(cardinalities, 0)
    least, most = checked_bounds(int(number.sum()), low, high)
    # a column of categories gets bounds that no code is outside of
    floor, ceiling = np.full(len(number), -np.inf), np.full(len(number), np.inf)
    floor[number], ceiling[number] = least, most
    floor, ceiling = (xp.asarray(b, x.dtype)[None] for b in (floor, ceiling))
    outside = (x < floor) | (x > ceiling)
    if weight is not None:
        outside = outside & (weight > 0)[:, None]
    return xp.clip(x, floor, ceiling), outside.sum()


def local(
    x: Array,
    y: Array,
    weight: Array,
    cardinalities: Sequence[int],
    classes: int,
    missing: bool = False,
) -> Array:
    """The Gossip-NB paper's sensitivity [c, q], which depends on the rows and is not private.

    The largest |x|, and its square, among the node's own rows of a class; 0 where it has none of
    the class. Counts have 1. Pure JAX; rows of weight 0 are padding. Whoever offers it to a user
    calls `warn_local` first.
    """
    queries = Queries(tuple(cardinalities), classes, missing)
    real = (weight > 0) & (y >= 0) & (y < classes)
    size = jnp.abs(jnp.asarray(x)[:, queries.numeric])
    # 0 neither raises nor lowers a maximum of sizes
    size = jnp.where(real[:, None] & ~jnp.isnan(size), size, 0)
    top = jax.ops.segment_max(size, jnp.where(real, y, 0), classes)
    top = jnp.maximum(top, 0)  # a class without rows has -inf
    ones = jnp.ones((classes, queries.size), top.dtype)
    return ones.at[:, queries.first].set(top).at[:, queries.second].set(top**2)


@cache  # once in a process
def warn_local() -> None:
    """Warn, the first time in a process, that noise scaled by the rows' own maximum leaks it."""
    warnings.warn(
        "sensitivity 'local' scales noise by the largest value among a node's own rows: that "
        "reproduces the Gossip-NB paper but is not differential privacy, since the scale itself "
        "tells about single rows; give public bounds to be private",
        UserWarning,
        stacklevel=2,
    )


def checked_bounds(numbers: int, low: Any, high: Any) -> tuple[np.ndarray, np.ndarray]:
    """Public bounds of so many numbers; refused where one is missing, infinite or reversed."""
    limits = []
    for name, given in (("low", low), ("high", high)):
        try:
            bound = np.asarray(given, float)
        except (TypeError, ValueError):
            bound = np.array(np.nan)
        if bound.shape not in ((), (numbers,)):
            raise BadSetting(
                f"{name} must be one bound for all {numbers} numeric features or one for each, "
                f"got {bound.size}; give the missing bounds"
            )
        bound = np.broadcast_to(bound, (numbers,))
        if not np.isfinite(bound).all():
            place = int(np.argmin(np.isfinite(bound)))
            raise BadSetting(
                f"{name} of numeric feature {place} is missing or not finite: public bounds are "
                "what makes noise private; give them, or find them with private_bounds"
            )
        limits.append(bound)
    if not (limits[0] < limits[1]).all():
        place = int(np.argmin(limits[0] < limits[1]))
        raise BadSetting(
            f"low must be below high, got {limits[0][place]} and {limits[1][place]} for numeric "
            f"feature {place}"
        )
    return limits[0], limits[1]
