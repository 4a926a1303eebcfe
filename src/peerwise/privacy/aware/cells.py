"""The cells of histograms, from noisy ones."""

import math

import jax
import jax.numpy as jnp

from peerwise.core import Array
from peerwise.models.block import SMALLEST_SHARE
from peerwise.privacy.aware.kinds import Kinds, Seen
from peerwise.privacy.aware.shrink import positive, real

EMPTY = 0.2  # how often, before anything was seen, a cell of a class is empty
STEPS = 20  # in which that is learnt from all cells


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
    spread = jnp.clip(real(inside - chance, chance, freedom, kinds.features), 1e-6, 0.99)
    true = (spread[group] * unit)[None]
    prob = _sparse(prob, whole[None], true, noise)
    cells = prob / jnp.maximum(by_group(prob), 1e-30)[:, group] * rows
    return jnp.where((v > 0)[None], cells, counted)


def _sparse(seen: Array, whole: Array, true: Array, noise: Array) -> Array:
    """Shares of cells: many a cell of a class is empty, the others are about those of all classes.

    A spike at 0 beside a normal law, cut off at 0, of variance `true` about `whole`; how many cells
    are in the spike is learnt from all of them (expectation maximisation).
    """
    normal = jax.scipy.stats.norm
    noise = jnp.maximum(noise, 1e-30)
    believed = true / (true + noise)
    value, left = whole + believed * (seen - whole), believed * noise
    slab = normal.logpdf(seen, whole, jnp.sqrt(true + noise))
    slab += normal.logcdf(value / jnp.sqrt(left)) - normal.logcdf(whole / jnp.sqrt(true))
    odds = jnp.clip(normal.logpdf(seen, 0, jnp.sqrt(noise)) - slab, -50, 50)

    def empty(share: Array) -> Array:
        return jax.nn.sigmoid(odds + jnp.log(share / (1 - share)))

    def learn(_: int, share: Array) -> Array:
        return jnp.clip(empty(share).mean(), 0.01, 0.9)

    share = jax.lax.fori_loop(0, STEPS, learn, jnp.asarray(EMPTY, seen.dtype))
    # what counts is a logarithm: its mean, of which an empty cell is the least that there is
    full = jnp.log(jnp.maximum(positive(value, left), SMALLEST_SHARE))
    return jnp.exp(empty(share) * math.log(SMALLEST_SHARE) + (1 - empty(share)) * full)
