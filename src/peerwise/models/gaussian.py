"""Gaussian features that are independent given the class, with variances of each class or one.

Moments are about the public center and scale that features are standardised by. A variance is never
smaller than `SMALLEST_VARIANCE`: calibration may push a second moment below the squared mean.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array
from peerwise.models.block import Block, Coefficients, places
from peerwise.models.entries import Entries, factors, side_by_side

SMALLEST_VARIANCE = 1e-3  # of the unit variance of a standardised feature
LOG_2PI = float(np.log(2 * np.pi))


def diagonal(
    columns: Sequence[int],
    width: int,
    *,
    shared: bool,
    missing: bool,
    least: float = SMALLEST_VARIANCE,
) -> Block:
    """Features that are independent given the class; `width` is the number of columns of x.

    Statistics of a class: sums of x and x^2, and with `missing` the rows that have a value. With
    `shared` variances, the sums of x^2 are stored once.
    """
    cols, d = places(columns), len(columns)
    every = d == width
    first, second = slice(0, d), slice(d, 2 * d)
    count = slice(d, 2 * d) if shared else slice(2 * d, 3 * d)

    def numbers(x: Array) -> tuple[Array, Array]:
        z = x if every else x[:, cols]
        if not missing:
            return z, z
        known = ~jnp.isnan(z)
        return jnp.where(known, z, 0), known.astype(z.dtype)

    def features(x: Array) -> Array:
        z, known = numbers(x)
        parts = [z] if shared else [z, z * z]
        return jnp.concatenate([*parts, known] if missing else parts, 1)

    def common(x: Array) -> Array:
        z, _ = numbers(x)
        return z * z

    def parameters(n: Array, floor: Array, s: Array, sums: Array) -> tuple[dict[str, Array], Array]:
        guards = jnp.zeros((), int)
        if missing:
            guards += (s[:, count] < floor).sum()
            n = jnp.maximum(s[:, count], floor)
        mean = s[:, first] / n
        if shared:
            total = n.sum(0)
            raw = sums / total - (n * mean * mean).sum(0) / total
        else:
            raw = s[:, second] / n - mean * mean
        guards += (raw < least).sum()
        var = jnp.maximum(raw, least)
        return {"mean": mean, "var": jnp.broadcast_to(var, mean.shape)}, guards

    def coefficients(p: dict[str, Array]) -> Coefficients:
        mean, var = p["mean"], p["var"]
        constant = -(jnp.log(var) + mean * mean / var + LOG_2PI) / 2
        slopes = [mean / var] if shared else [mean / var, -0.5 / var]
        curve = -0.5 / var[0] if shared else None
        if missing:
            return Coefficients(0.0, jnp.concatenate([*slopes, constant], 1), curve)
        return Coefficients(constant.sum(1, keepdims=True), jnp.concatenate(slopes, 1), curve)

    def terms(p: dict[str, Array], x: Array) -> tuple[float, Array]:
        z = x[:, None, cols]
        mean, var = p["mean"][None], p["var"][None]
        density = -(jnp.log(var) + (z - mean) ** 2 / var + LOG_2PI) / 2
        return 0.0, jnp.where(jnp.isnan(z), 0, density)

    def sample(key: Array, p: dict[str, Array], y: Array) -> Array:
        noise = jax.random.normal(key, (y.shape[0], d), p["mean"].dtype)
        return p["mean"][y] + jnp.sqrt(p["var"][y]) * noise

    def pseudo(rows: Array, mean: Array, var: Array, cell: Array) -> tuple[Array, Array | None]:
        mean, square = rows * mean[cols], rows * (mean[cols] ** 2 + var[cols])
        own = [mean] if shared else [mean, square]
        own += [jnp.broadcast_to(rows, (d,))] if missing else []
        return jnp.concatenate(own), square if shared else None

    def entries() -> tuple[Entries, Entries | None]:
        none = np.full(d, -1, np.int32)
        known = np.arange(d) + count.start if missing else none
        squares = factors(cols, cols, known)
        parts = [factors(cols, none, known)] + ([] if shared else [squares])
        parts += [factors(none, none)] if missing else []
        columns = side_by_side(parts)
        return columns, squares if shared else None

    size = ((1 if shared else 2) + missing) * d
    return Block(
        columns=cols,
        size=size,
        features=features,
        parameters=parameters,
        coefficients=coefficients,
        describe=dict,
        terms=terms,
        sample=sample,
        pseudo=pseudo,
        shared=d if shared else 0,
        common=common if shared else None,
        entries=entries,
    )
