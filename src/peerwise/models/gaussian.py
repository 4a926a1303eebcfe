"""Gaussian features: independent given the class, or with a full covariance; of each class or one.

Moments are about the public center and scale that features are standardised by. A variance or an
eigenvalue of a covariance is never smaller than `SMALLEST_VARIANCE`, which keeps possible what
calibration may push beyond (a second moment below the square of the mean).
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array
from peerwise.models.block import Block, Coefficients, places

__all__ = ["SMALLEST_VARIANCE", "diagonal", "full"]

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

    size = ((1 if shared else 2) + missing) * d
    return Block(
        cols,
        size,
        features,
        parameters,
        coefficients,
        lambda p: dict(p),
        terms,
        sample,
        pseudo,
        d if shared else 0,
        common if shared else None,
    )


def full(columns: Sequence[int], *, shared: bool, missing: bool, shrinkage: float) -> Block:
    """Features with a covariance of each class, or with one `shared` by all classes.

    Statistics of a class: sums of x and of x_i x_j, i <= j, stored once; shared, they are stored
    once for all classes. `shrinkage` moves a covariance towards the multiple of the identity that
    has the same trace. With `missing`, a row with a missing number counts in no sum (rows that
    have all numbers are counted on their own), but `terms` uses the numbers that it has.
    """
    cols, d = places(columns), len(columns)
    i, j = (places(a) for a in np.triu_indices(d))
    r = len(i)
    where = np.zeros((d, d), np.int32)  # the place of x_i x_j
    where[i, j] = where[j, i] = np.arange(r)
    twice = np.where(i == j, 1.0, 2.0)  # x_i x_j stands for x_j x_i too
    start = int(missing)
    first, second = slice(start, start + d), slice(start + d, start + d + r)

    def numbers(x: Array) -> tuple[Array, Array]:
        z = x[:, cols]
        if not missing:
            return z, z[:, :0]
        known = ~jnp.isnan(z).any(1, keepdims=True)
        return jnp.where(known, z, 0), known.astype(z.dtype)

    def features(x: Array) -> Array:
        z, known = numbers(x)
        return jnp.concatenate([known, z] if shared else [known, z, z[:, i] * z[:, j]], 1)

    def common(x: Array) -> Array:
        z, _ = numbers(x)
        return z[:, i] * z[:, j]

    def parameters(n: Array, floor: Array, s: Array, sums: Array) -> tuple[dict[str, Array], Array]:
        guards = jnp.zeros((), int)
        if missing:
            guards += (s[:, 0] < floor).sum()
            n = jnp.maximum(s[:, :1], floor)
        mean = s[:, first] / n
        if shared:
            share = n / n.sum()
            between = jnp.matmul((share * mean).T, mean, precision="highest")
            raw = ((sums / n.sum())[where] - between)[None]
        else:
            raw = (s[:, second] / n)[:, where] - mean[:, :, None] * mean[:, None, :]
        if shrinkage:
            size = jnp.trace(raw, axis1=1, axis2=2)[:, None, None] / d
            raw = (1 - shrinkage) * raw + shrinkage * size * jnp.eye(d, dtype=raw.dtype)[None]
        value, vector = jnp.linalg.eigh(raw)
        guards += (value < SMALLEST_VARIANCE).sum()
        return {
            "mean": mean,
            "value": jnp.maximum(value, SMALLEST_VARIANCE),
            "vector": vector,
        }, guards

    def times(p: dict[str, Array], value: Array) -> Array:
        """The matrix with the eigenvectors of the covariance and other eigenvalues."""
        vector = p["vector"]
        return jnp.matmul(vector * value[:, None, :], vector.mT, precision="highest")

    def coefficients(p: dict[str, Array]) -> Coefficients:
        mean = p["mean"]
        precision = times(p, 1 / p["value"])  # [c or 1, d, d]
        slope = jnp.matmul(precision, mean[:, :, None], precision="highest")[..., 0]
        volume = jnp.log(p["value"]).sum(1, keepdims=True)
        constant = -(volume + (mean * slope).sum(1, keepdims=True) + d * LOG_2PI) / 2
        curve = -0.5 * precision[:, i, j] * jnp.asarray(twice, mean.dtype)[None]
        parts = [slope] if shared else [slope, curve]
        bias: Array | float = 0.0
        if missing:
            parts = [constant, *parts]
        else:
            bias = constant
        return Coefficients(bias, jnp.concatenate(parts, 1), curve[0] if shared else None)

    def covariance(p: dict[str, Array]) -> Array:
        return times(p, p["value"])

    def terms(p: dict[str, Array], x: Array) -> tuple[Array, Array]:
        mean, cov = p["mean"], covariance(p)
        cov = jnp.broadcast_to(cov, (mean.shape[0], d, d))
        eye = jnp.eye(d, dtype=cov.dtype)

        def row(z: Array) -> tuple[Array, Array]:
            """Known numbers are Gaussian with their part of mean and covariance."""
            known = ~jnp.isnan(z)
            apart = jnp.where(known[None], z[None] - mean, 0)  # [c, d]
            part = jnp.where((known[:, None] & known[None])[None], cov, eye[None])
            lower = jnp.linalg.cholesky(part)
            solved = jax.scipy.linalg.cho_solve((lower, True), apart[..., None])[..., 0]
            volume = 2 * jnp.log(jnp.diagonal(lower, axis1=1, axis2=2)).sum(1)
            return -(volume + known.sum() * LOG_2PI) / 2, -apart * solved / 2

        return jax.lax.map(row, x[:, cols], batch_size=256)

    def sample(key: Array, p: dict[str, Array], y: Array) -> Array:
        noise = jax.random.normal(key, (y.shape[0], d), p["mean"].dtype)
        half = p["vector"] * jnp.sqrt(p["value"])[:, None, :]  # half @ half.T is the covariance
        half = jnp.broadcast_to(half, (p["mean"].shape[0], d, d))[y]
        return p["mean"][y] + jnp.matmul(half, noise[:, :, None], precision="highest")[..., 0]

    def describe(p: dict[str, Array]) -> dict[str, Array]:
        cov = covariance(p)
        return {"mean": p["mean"], "cov": cov[0] if shared else cov}

    def pseudo(rows: Array, mean: Array, var: Array, cell: Array) -> tuple[Array, Array | None]:
        mean, var = mean[cols], var[cols]
        square = rows * (mean[i] * mean[j] + jnp.where(i == j, var[i], 0))
        own = [rows * mean] if shared else [rows * mean, square]
        own = [rows[None], *own] if missing else own
        return jnp.concatenate(own), square if shared else None

    return Block(
        cols,
        start + d + (0 if shared else r),
        features,
        parameters,
        coefficients,
        describe,
        terms,
        sample,
        pseudo,
        r if shared else 0,
        common if shared else None,
        not missing,
    )
