"""Means and covariances of numbers, from noisy sums."""

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
    return jax.vmap(lambda one, unsure: _regular(one, unsure, kinds, rows))(cov, believed * noise)


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
    square = kinds.square
    d = len(square)
    place = np.zeros((d, d), np.int32)
    place[kinds.left, kinds.right] = place[kinds.right, kinds.left] = np.arange(len(kinds.left))
    size = jnp.sqrt(jnp.maximum(cov[square], 1e-30))
    unit = size[:, None] * size[None, :]
    off = ~np.eye(d, dtype=bool)
    noise = jnp.where(off, unsure[place] / unit**2, 0).sum() / max(d * (d - 1), 1)
    value, vector = jnp.linalg.eigh(cov[place] / unit)
    mixed = unclear(value, 2 * noise, rows).sum()
    least = 2 * jnp.sqrt(noise * mixed)
    whole = jnp.matmul(vector * jnp.maximum(value, least)[None], vector.T, precision="highest")
    return jnp.where(noise > 0, (whole * unit)[kinds.left, kinds.right], cov)
