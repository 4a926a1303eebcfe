"""By how much what was seen under noise is believed."""

import math
from typing import Any

import jax
import jax.numpy as jnp

from peerwise.core import Array

SPREAD = 2.0  # how much features differ in what they tell: standard deviation over mean
TELL = 1.0  # what all features together tell of the class, before anything was seen: see `real`


def positive(value: Array, variance: Array) -> Array:
    """The mean of a number that is not negative, given the number plus Gaussian noise.

    A uniform prior on all numbers that are not negative; without noise max(value, 0).
    """
    noisy = variance > 0
    deviation = jnp.sqrt(jnp.where(noisy, variance, 1))
    z = jnp.clip(value / deviation, -30, 30)
    hazard = jnp.exp(jax.scipy.stats.norm.logpdf(z) - jax.scipy.stats.norm.logcdf(z))
    seen = jnp.maximum(value, -30 * deviation)
    return jnp.where(noisy, seen + deviation * hazard, jnp.maximum(value, 0))


def shrinkage(
    apart: Array, noise: Array, share: Array, freedom: Any, rows: Any, many: int, size: Any = 1.0
) -> Array:
    """By how much differences between classes are believed [c, j], 0 to 1.

    `apart` [c, j] are differences from the mean of all classes, `noise` [c, j] their variances by
    noise, `share` [c, 1] the shares of the classes, `freedom` how many independent differences an
    entry stands for, `rows` how many rows there are, `many` how many features, `size` [j] the unit
    of the variance.
    """
    expected = (share * noise).sum(0) - (share**2 * noise).sum(0)
    total = (share * apart**2).sum(0)
    size = size + jnp.zeros_like(total)
    true = size * real((total - expected) / size, expected / size, freedom, many)
    believed = true[None] / (true[None] + noise)
    doubt = by_noise(total, expected, size, freedom, rows)[None]
    return jnp.where(noise > 0, 1 - doubt * (1 - believed), 1.0)


def real(seen: Array, error: Array, freedom: Any, many: int) -> Array:
    """The variance of each feature's differences that is not noise, in its unit [j].

    Estimated from the feature (`seen`, by noise alone of size `error`) and, as far as that is
    uncertain, from all features together; and that, as far as it is uncertain, is exponential, all
    features together having the mean TELL: the more (`many`) there are, the less each tells.
    """
    weight = freedom / (error**2 + 1e-30)
    weight = weight / weight.sum()
    chance = 2 * (weight**2 * error**2 / freedom).sum()
    common = positive((weight * seen).sum() - chance * many / TELL, chance)
    common = jnp.maximum(common, 1e-12)
    doubt = 2 * (error + common) ** 2 / freedom
    believed = (SPREAD * common) ** 2 / ((SPREAD * common) ** 2 + doubt + 1e-30)
    return jnp.maximum(common + believed * (seen - common), common / 4)


def by_noise(total: Array, expected: Array, size: Array, freedom: Any, rows: Any) -> Array:
    """The probability that a difference is noise alone [j]: what noise cannot explain is left.

    The likelihood ratio of the best real variance up to `size`, against one chance in as many as
    there are features and Schwarz's price of a parameter (1978), half the logarithm of the rows.
    """
    error = jnp.maximum(expected, 1e-30)
    ratio = total / error
    best = jnp.clip(ratio, 1.0, 1 + size / error)
    odds = freedom / 2 * (ratio * (1 - 1 / best) - jnp.log(best))
    price = math.log(total.shape[0]) + jnp.log(jnp.maximum(rows, 1.0)) / 2
    return jax.nn.sigmoid(price - odds)


def unclear(value: Array, variance: Array, rows: Any) -> Array:
    """The probability that a number that is not negative is noise alone; beside `by_noise`.

    It falls as exp(-z^2 / 2), so that what is multiplied by it is gone where a number is clear.
    """
    square = jnp.maximum(value, 0)[None] ** 2
    error = jnp.broadcast_to(variance, value.shape)[None]
    return by_noise(square, error, square, 1, rows)[0]
