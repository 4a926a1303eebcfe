"""The cells of histograms, from noisy ones."""

import math

import jax
import jax.numpy as jnp

from peerwise.core import Array
from peerwise.models.block import SMALLEST_SHARE
from peerwise.privacy.aware.kinds import Kinds, Seen
from peerwise.privacy.aware.shrink import by_noise, positive, real


def cells_of(seen: Seen, kinds: Kinds) -> Array:
    """The cells of histograms [c, k] for counts of classes, made consistent."""
    lines, rows, share = seen.lines, seen.rows[:, None], seen.share
    kind, group = lines.dtype, kinds.group
    member, v = kinds.member.astype(kind), seen.noise[kinds.cells]
    width = kinds.member.sum(0)

    def by_group(a: Array) -> Array:
        return jnp.matmul(a, member, precision="highest")

    counted = lines[:, kinds.cells]
    spare = (rows - by_group(counted)) / width.astype(kind)[None]
    counted = jnp.where((v > 0)[None], counted + spare[:, group], counted)
    noise = v[None] / rows**2 * (1 - 1 / width[group].astype(kind))[None]
    prob = counted / rows
    whole = positive(counted.sum(0) / rows.sum(), (share**2 * noise).sum(0))
    whole = whole / jnp.maximum(by_group(whole[None])[0], 1e-30)[group]
    unit = jnp.maximum(whole * (1 - whole), 1e-12)
    # what is real in a histogram is one number: its cells differ as a Dirichlet law has it
    total = by_group(unit[None])[0]
    mean = (share * prob).sum(0)[None]
    inside = by_group((share * (prob - mean) ** 2).sum(0)[None])[0] / total
    chance = by_group((share * (1 - share) * noise).sum(0)[None])[0] / total
    freedom = jnp.asarray((width - 1) * seen.freedom, kind)
    true = jnp.clip(real(inside - chance, chance, freedom, kinds.features), 1e-6, 0.99)
    clear = true * (1 - by_noise(inside, chance, 1.0, freedom, seen.rows.sum()))
    alpha = whole * (1 / jnp.maximum(clear, 1e-6) - 1)[group]
    prob = _sparse(prob, whole[None], (true[group] * unit)[None], noise, alpha[None])
    cells = prob / jnp.maximum(by_group(prob), 1e-30)[:, group] * rows
    return jnp.where((v > 0)[None], cells, counted)


def _sparse(seen: Array, whole: Array, true: Array, noise: Array, alpha: Array) -> Array:
    """Shares of cells: some cells of a class are empty, the others are about those of all classes.

    A spike at 0 beside a normal law, cut off at 0, of variance `true` about `whole`. A cell is in
    the spike as often as under a Dirichlet law with the parameter `alpha` a share is less than the
    smallest that there is: about SMALLEST_SHARE ** alpha.
    """
    normal = jax.scipy.stats.norm
    noise = jnp.maximum(noise, 1e-30)
    believed = true / (true + noise)
    value, left = whole + believed * (seen - whole), believed * noise
    slab = normal.logpdf(seen, whole, jnp.sqrt(true + noise))
    slab += normal.logcdf(value / jnp.sqrt(left)) - normal.logcdf(whole / jnp.sqrt(true))
    odds = jnp.clip(normal.logpdf(seen, 0, jnp.sqrt(noise)) - slab, -50, 50)
    least = math.log(SMALLEST_SHARE)
    chance = jnp.clip(jnp.exp(least * alpha), 1e-9, 1 - 1e-9)
    empty = jax.nn.sigmoid(odds + jnp.log(chance / (1 - chance)))
    # what counts is a logarithm: its mean, of which an empty cell is the least that there is
    full = jnp.log(jnp.maximum(positive(value, left), SMALLEST_SHARE))
    return jnp.exp(empty * least + (1 - empty) * full)
