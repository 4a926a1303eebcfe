"""Numeric features at mean 0 and standard deviation 1, with the units kept in the schema."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from peerwise.data.schema import Schema
from peerwise.errors import BadData

Array = npt.NDArray[Any]
BLOCK = 64  # columns worked on at once, so that double precision needs little memory


def standardise(x: Array, schema: Schema, rows: Array | None = None) -> tuple[Array, Schema]:
    """The same rows with each numeric feature at mean 0 and standard deviation 1 over x[rows].

    Missing values are ignored and a constant feature is only centered. Encoding the raw rows
    under the schema returned gives the x returned, also when x was standardised before.
    """
    if x.ndim != 2 or x.shape[1] != len(schema.features):
        raise BadData(f"x has shape {x.shape} but the schema has {len(schema.features)} features")
    sample = x if rows is None else x[rows]
    if len(sample) == 0:
        raise BadData("there are no rows to take center and scale from")
    center, scale = _moments(sample)
    numeric = np.array([f.kind == "numeric" for f in schema.features], dtype=bool)
    center, scale = np.where(numeric, center, 0.0), np.where(numeric, scale, 1.0)
    good = np.isfinite(center) & np.isfinite(scale)
    if not good.all():
        name = schema.features[int(np.argmin(good))].name
        raise BadData(f"the values of column '{name}' are too large; rescale or drop it")
    features = tuple(
        replace(f, center=f.center + f.scale * float(a), scale=f.scale * float(b))
        for f, a, b in zip(schema.features, center, scale, strict=True)
    )
    return rescaled(x, center, scale), replace(schema, features=features)


def rescaled(x: Array, center: Array, scale: Array) -> Array:
    """(x - center) / scale for each column, computed in double precision, in the dtype of x."""
    out = np.empty(x.shape, x.dtype if x.dtype.kind == "f" else np.float64)
    for start in range(0, x.shape[1], BLOCK):
        part = slice(start, start + BLOCK)
        out[:, part] = (x[:, part] - center[part]) / scale[part]
    return out


def under(x: Array, before: Schema, after: Schema) -> Array:
    """Rows of one schema under another: fewer of its features, or others units of theirs."""
    place = {f.name: j for j, f in enumerate(before.features)}
    kept = [place[f.name] for f in after.features]
    both = [(before.features[j], f) for j, f in zip(kept, after.features, strict=True)]
    center = np.array([(b.center - a.center) / a.scale for a, b in both])
    scale = np.array([b.scale / a.scale for a, b in both])
    x = x if kept == list(range(x.shape[1])) else x[:, kept]
    return rescaled(x, center, scale) if (center != 0).any() or (scale != 1).any() else x


def _moments(x: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of each column over the values that are not NaN."""
    center, scale = np.zeros(x.shape[1]), np.ones(x.shape[1])
    for start in range(0, x.shape[1], BLOCK):
        part = slice(start, start + BLOCK)
        block = x[:, part].astype(np.float64)
        here = ~np.isnan(block)
        count = np.maximum(here.sum(0), 1)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.where(here, block, 0).sum(0) / count
            apart = np.where(here, block - mean, 0)
            std = np.sqrt((apart**2).sum(0) / count)
            std = np.where(std > 0, std, _tiny(apart, count))
        low, high = np.fmin.reduce(block, axis=0), np.fmax.reduce(block, axis=0)
        # rounding gives equal values a standard deviation of 1e-17, so compare them instead
        varies = high > low
        center[part] = np.where(varies, mean, np.where(here.any(0), low, 0.0))
        scale[part] = np.where(varies & (std > 0), std, 1.0)
    return center, scale


def _tiny(apart: Array, count: Array) -> Array:
    """The standard deviation of columns so small that the squares of their values are 0."""
    most = np.abs(apart).max(0, initial=0)
    std: Array = most * np.sqrt(((apart / np.where(most > 0, most, 1)) ** 2).sum(0) / count)
    return std
