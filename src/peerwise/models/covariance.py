"""Gaussian features with a full covariance: one of each class, or one shared by all classes.

Statistics of a class: sums of x and of x_i x_j, i <= j, stored once; shared, the products are
stored once for all classes. An eigenvalue is never smaller than `SMALLEST_VARIANCE`.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array
from peerwise.models.block import Block, Coefficients, places
from peerwise.models.entries import Entries, factors, side_by_side
from peerwise.models.gaussian import LOG_2PI, SMALLEST_VARIANCE


class _Kind(NamedTuple):
    """Which features, and what is fixed about their covariance."""

    columns: np.ndarray  # [d] of x
    d: int
    i: np.ndarray  # [r] of the products x_i x_j
    j: np.ndarray
    place: np.ndarray  # [d, d] where x_i x_j lies among the products
    shared: bool
    missing: bool
    shrinkage: float


def full(columns: Sequence[int], *, shared: bool, missing: bool, shrinkage: float) -> Block:
    """Features with a covariance of each class, or with one `shared` by all classes.

    `shrinkage` moves a covariance towards the multiple of the identity that has the same trace.
    With `missing`, a row with a missing number counts in no sum (rows that have all numbers are
    counted on their own), but `terms` uses the numbers that it has.
    """
    d = len(columns)
    i, j = (places(a) for a in np.triu_indices(d))
    place = np.zeros((d, d), np.int32)
    place[i, j] = place[j, i] = np.arange(len(i))
    kind = _Kind(places(columns), d, i, j, place, shared, missing, shrinkage)
    return Block(
        columns=kind.columns,
        size=missing + d + (0 if shared else len(i)),
        features=partial(_features, kind),
        parameters=partial(_parameters, kind),
        coefficients=partial(_coefficients, kind),
        describe=partial(_describe, kind),
        terms=partial(_terms, kind),
        sample=_sample,
        pseudo=partial(_pseudo, kind),
        shared=len(i) if shared else 0,
        common=partial(_products, kind) if shared else None,
        linear=not missing,
        entries=partial(_entries, kind),
    )


def _entries(kind: _Kind) -> tuple[Entries, Entries | None]:
    count, none = (0 if kind.missing else -1), np.full(kind.d, -1, np.int32)
    products = factors(kind.columns[kind.i], kind.columns[kind.j], count)
    parts = [factors(none[:1], none[:1])] if kind.missing else []
    parts += [factors(kind.columns, none, count)] + ([] if kind.shared else [products])
    return side_by_side(parts), products if kind.shared else None


def _numbers(kind: _Kind, x: Array) -> tuple[Array, Array]:
    """Features, zeros in a row where any is missing, and which rows have them all [m, 0 or 1]."""
    z = x[:, kind.columns]
    if not kind.missing:
        return z, z[:, :0]
    known = ~jnp.isnan(z).any(1, keepdims=True)
    return jnp.where(known, z, 0), known.astype(z.dtype)


def _features(kind: _Kind, x: Array) -> Array:
    z, known = _numbers(kind, x)
    products = [] if kind.shared else [z[:, kind.i] * z[:, kind.j]]
    return jnp.concatenate([known, z, *products], 1)


def _products(kind: _Kind, x: Array) -> Array:
    z, _ = _numbers(kind, x)
    return z[:, kind.i] * z[:, kind.j]


def _parameters(
    kind: _Kind, n: Array, floor: Array, s: Array, sums: Array
) -> tuple[dict[str, Array], Array]:
    """Means [c, d], eigenvalues and eigenvectors of the covariances, and how many guards acted."""
    guards = jnp.zeros((), int)
    if kind.missing:
        guards += (s[:, 0] < floor).sum()
        n, s = jnp.maximum(s[:, :1], floor), s[:, 1:]
    mean = s[:, : kind.d] / n
    if kind.shared:
        share = n / n.sum()
        between = jnp.matmul((share * mean).T, mean, precision="highest")
        raw = ((sums / n.sum())[kind.place] - between)[None]
    else:
        raw = (s[:, kind.d :] / n)[:, kind.place] - mean[:, :, None] * mean[:, None, :]
    if kind.shrinkage:
        size = jnp.trace(raw, axis1=1, axis2=2)[:, None, None] / kind.d
        eye = jnp.eye(kind.d, dtype=raw.dtype)[None]
        raw = (1 - kind.shrinkage) * raw + kind.shrinkage * size * eye
    value, vector = jnp.linalg.eigh(raw)
    guards += (value < SMALLEST_VARIANCE).sum()
    value = jnp.maximum(value, SMALLEST_VARIANCE)
    return {"mean": mean, "value": value, "vector": vector}, guards


def _matrix(p: dict[str, Array], value: Array) -> Array:
    """The matrix with the eigenvectors of the covariance and these eigenvalues [c or 1, d, d]."""
    vector = p["vector"]
    return jnp.matmul(vector * value[:, None, :], vector.mT, precision="highest")


def _coefficients(kind: _Kind, p: dict[str, Array]) -> Coefficients:
    mean, precision = p["mean"], _matrix(p, 1 / p["value"])
    slope = jnp.matmul(precision, mean[:, :, None], precision="highest")[..., 0]
    volume = jnp.log(p["value"]).sum(1, keepdims=True)
    constant = -(volume + (mean * slope).sum(1, keepdims=True) + kind.d * LOG_2PI) / 2
    twice = np.where(kind.i == kind.j, 1.0, 2.0)  # x_i x_j stands for x_j x_i too
    curve = -0.5 * precision[:, kind.i, kind.j] * jnp.asarray(twice, mean.dtype)[None]
    parts = [slope] if kind.shared else [slope, curve]
    shared = curve[0] if kind.shared else None
    if kind.missing:
        return Coefficients(0.0, jnp.concatenate([constant, *parts], 1), shared)
    return Coefficients(constant, jnp.concatenate(parts, 1), shared)


def _terms(kind: _Kind, p: dict[str, Array], x: Array) -> tuple[Array, Array]:
    mean, cov = p["mean"], _matrix(p, p["value"])
    cov = jnp.broadcast_to(cov, (mean.shape[0], kind.d, kind.d))
    eye = jnp.eye(kind.d, dtype=cov.dtype)

    def row(z: Array) -> tuple[Array, Array]:
        """Known numbers are Gaussian with their part of mean and covariance."""
        known = ~jnp.isnan(z)
        apart = jnp.where(known[None], z[None] - mean, 0)  # [c, d]
        part = jnp.where((known[:, None] & known[None])[None], cov, eye[None])
        lower = jnp.linalg.cholesky(part)
        solved = jax.scipy.linalg.cho_solve((lower, True), apart[..., None])[..., 0]
        volume = 2 * jnp.log(jnp.diagonal(lower, axis1=1, axis2=2)).sum(1)
        return -(volume + known.sum() * LOG_2PI) / 2, -apart * solved / 2

    return jax.lax.map(row, x[:, kind.columns], batch_size=256)


def _sample(key: Array, p: dict[str, Array], y: Array) -> Array:
    mean = p["mean"]
    noise = jax.random.normal(key, (y.shape[0], mean.shape[1]), mean.dtype)
    half = p["vector"] * jnp.sqrt(p["value"])[:, None, :]  # half @ half.T is the covariance
    half = jnp.broadcast_to(half, (mean.shape[0], *half.shape[1:]))[y]
    return mean[y] + jnp.matmul(half, noise[:, :, None], precision="highest")[..., 0]


def _describe(kind: _Kind, p: dict[str, Array]) -> dict[str, Array]:
    cov = _matrix(p, p["value"])
    return {"mean": p["mean"], "cov": cov[0] if kind.shared else cov}


def _pseudo(
    kind: _Kind, rows: Array, mean: Array, var: Array, cell: Array
) -> tuple[Array, Array | None]:
    i, j, mean, var = kind.i, kind.j, mean[kind.columns], var[kind.columns]
    square = rows * (mean[i] * mean[j] + jnp.where(i == j, var[i], 0))
    count = [rows[None]] if kind.missing else []
    if kind.shared:
        return jnp.concatenate([*count, rows * mean]), square
    return jnp.concatenate([*count, rows * mean, square]), None
