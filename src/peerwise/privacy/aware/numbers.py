"""Means and covariances of numbers, from noisy sums."""

from functools import partial, reduce

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array
from peerwise.privacy.aware.kinds import Kinds, Seen
from peerwise.privacy.aware.shrink import positive, shrinkage, unclear


def means_of(seen: Seen, kinds: Kinds, counted: Array) -> tuple[Array, Array]:
    """Means of numbers [c, d], and the variances of what is not known of them.

    `counted` [c, q] are the rows that have an entry.
    """
    at, share = kinds.first, seen.share
    n, r = counted[:, at], seen.reach[at][None]
    sums = seen.lines[:, at]
    mean = sums / (n * r)
    noise = (seen.noise[at][None] / r**2 + mean**2 * seen.unsure) / n**2
    whole = jnp.clip(sums.sum(0) / (n.sum(0) * r[0]), -1, 1)[None]
    apart = mean - (share * mean).sum(0)[None]
    believed = shrinkage(apart, noise, share, seen.freedom, seen.rows.sum(), kinds.features)
    mean, left = jnp.where(noise > 0, whole + believed * apart, mean), believed * noise
    # within the bounds, and no nearer to them than noise lets one say
    inside = positive(mean + 1, left) - 1
    inside = jnp.where(noise > 0, 1 - positive(1 - inside, left), mean)
    return seen.middle[at][None] + r * jnp.clip(inside, -1, 1), r**2 * left


def pooled(
    sums: Array, v: Array, n: Array, kinds: Kinds, mean: Array, mean_unsure: Array,
    middle: Array, half: Array,
) -> Array:  # fmt: skip
    """The covariances that classes share [r], from sums over all of them.

    `half` is half the range of every number.
    """
    total = n.sum(0)
    moment = sums / total + middle
    between = (n * mean[:, kinds.left] * mean[:, kinds.right]).sum(0) / total
    return _valid(moment - between, v / total**2, kinds, half, mean_unsure.mean(0), total.max())


def covariances_of(
    seen: Seen, kinds: Kinds, counted: Array, mean: Array, mean_unsure: Array
) -> Array:
    """Covariances of every class [c, r], drawn towards those that all share."""
    at, left, right, square = kinds.second, kinds.left, kinds.right, kinds.square
    lines, v, n, share = seen.lines[:, at], seen.noise[at], counted[:, at], seen.share
    middle, half = seen.middle[at], seen.reach[kinds.first]
    whole = pooled(lines.sum(0), v * len(lines), n, kinds, mean, mean_unsure, middle, half)
    own = lines / n + middle[None] - mean[:, left] * mean[:, right]
    noise = (v[None] + (lines / n) ** 2 * seen.unsure) / n**2
    unit = jnp.maximum(whole[square], 1e-30)
    apart = own - (share * own).sum(0)[None]
    believed = shrinkage(
        apart, noise, share, seen.freedom, seen.rows.sum(), kinds.features, unit[left] * unit[right]
    )
    cov = jnp.where(noise > 0, whole[None] + believed * apart, own)
    var = positive(cov[:, square], (believed * noise)[:, square])
    var = jnp.minimum(var, half[None] ** 2) + mean_unsure
    rows = seen.rows.sum()
    cov = cov.at[:, square].set(_drawn(own[:, square], noise[:, square], var, mean_unsure, rows))
    if (left == right).all():
        return cov
    return _beside(cov, believed * noise, whole, kinds, rows)


def _drawn(own: Array, noise: Array, better: Array, unsure: Array, rows: Array) -> Array:
    """Variances: the better ones where the own may be noise, the own where they are clear."""
    doubt = unclear(own, noise + unsure**2, rows)
    own = jnp.where(noise > 0, jnp.maximum(own, 0), own)
    return own + jnp.where(noise > 0, doubt, 0) * (better - own)


def _valid(
    cov: Array, noise: Array, kinds: Kinds, half: Array, unsure: Array, rows: Array
) -> Array:
    """Covariances [r] with positive variances within the bounds, and correlations as believed."""
    square = kinds.square
    flat = half**2 / 3  # of a number that is anywhere within its bounds
    raw, error = cov[square], noise[square]
    weight = flat**2 / (flat**2 + error)
    var = positive(flat + weight * (raw - flat), weight * error)
    var = _drawn(raw, error, jnp.minimum(var, half**2) + unsure, unsure, rows)
    across = kinds.left != kinds.right
    if not across.any():
        return jnp.zeros_like(cov).at[square].set(var)
    size = jnp.sqrt(jnp.maximum(var, 1e-30))
    unit = size[kinds.left] * size[kinds.right]
    one = jnp.ones((1, 1), cov.dtype)
    off = np.flatnonzero(across)
    # one pooled matrix against none: the differences are the correlations themselves
    rho, error = (cov / unit)[None, off], (noise / unit**2)[None, off]
    double = jnp.concatenate([rho, -rho]), jnp.concatenate([error, error])
    believed = shrinkage(*double, one / 2, 1.0, rows, kinds.features)[:1]
    believed_cov = (
        jnp.zeros_like(cov).at[square].set(var).at[off].set((believed * rho)[0] * unit[off])
    )
    left = jnp.zeros_like(cov).at[off].set((believed * error)[0] * unit[off] ** 2)
    return _regular(believed_cov, left, kinds, rows)


def _regular(cov: Array, unsure: Array, kinds: Kinds, rows: Array) -> Array:
    """Covariances [r] with no eigenvalue, once standardised, that noise alone may have made.

    Noise of deviation s in the entries moves one eigenvalue by s sqrt(2), and k that it mixes by up
    to 2 s sqrt(k): it mixes those that are not clear.
    """
    place, d = kinds.place, len(kinds.square)
    unit = _unit(cov, kinds)
    off = ~np.eye(d, dtype=bool)
    noise = jnp.where(off, unsure[place] / unit**2, 0).sum() / max(d * (d - 1), 1)
    value, vector = jnp.linalg.eigh(cov[place] / unit)
    mixed = unclear(value, 2 * noise, rows).sum()
    least = 2 * jnp.sqrt(noise * mixed)
    whole = jnp.matmul(vector * jnp.maximum(value, least)[None], vector.T, precision="highest")
    return jnp.where(noise > 0, (whole * unit)[kinds.left, kinds.right], cov)


def _beside(cov: Array, noise: Array, whole: Array, kinds: Kinds, rows: Array) -> Array:
    """Covariances of classes [c, r] that in directions which noise hides vary as all classes do.

    Where the shared covariance is the identity, an eigenvalue has, before anything was seen, an
    exponential law of mean 1, and becomes its mean given what was seen. Noise that mixes k
    directions spreads their eigenvalues by (k + 1) / 2 times the variance that it gives to one.
    """
    place, unit = kinds.place, _unit(whole, kinds)
    value, vector = jnp.linalg.eigh(whole[place] / unit)
    scale = jnp.sqrt(jnp.maximum(value, 1e-6 * value.max()))[None]
    size = jnp.sqrt(jnp.diagonal(unit))[:, None]
    to, back = vector / scale / size, vector * scale * size

    def times(*factors: Array) -> Array:
        return reduce(partial(jnp.matmul, precision="highest"), factors)

    def one(own: Array, error: Array) -> Array:
        value, vector = jnp.linalg.eigh(times(to.T, own[place], to))
        weight = times(to, vector) ** 2
        variance = 2 * (weight * times(error[place], weight)).sum(0)
        variance -= (weight**2 * error[kinds.square][:, None]).sum(0)
        mixed = jnp.maximum(unclear(value, variance, rows).sum(), 1)
        variance *= (1 + mixed) / 2
        better = positive(value - variance, variance)
        value += unclear(value, variance, rows) * (better - value)
        axes = times(back, vector)
        return times(axes * value[None], axes.T)[kinds.left, kinds.right]

    return jnp.where(noise > 0, jax.vmap(one)(cov, noise), cov)


def _unit(cov: Array, kinds: Kinds) -> Array:
    """Products of two deviations [d, d], the units of covariances."""
    size = jnp.sqrt(jnp.maximum(cov[kinds.square], 1e-30))
    return size[:, None] * size[None, :]
