"""How many rows each class has, from everything that was released."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from peerwise.core import Array
from peerwise.privacy.aware.kinds import Kinds
from peerwise.privacy.aware.shrink import positive, unclear


class Counts(NamedTuple):
    """Rows of every class."""

    prior: Array  # [c] as a model is to have them: drawn towards equal shares
    rows: Array  # [c] as sums go with them: by these they are divided
    unsure: Array  # the variance of what is not known of a count


def counts_of(lines: Array, v: Array, kinds: Kinds, reach: np.ndarray) -> Counts:
    """Counts from lines of sums [c, q] with noise of variance `v` [q].

    Some entries are counts: the rows, and the sum of every histogram. Every other sum is, but for
    what classes differ in, as many times as large in a class as the class is larger: a sum of
    x^2 - h^2/2 tells as much of the shares as a count of the same noise.
    """
    kind, classes = lines.dtype, lines.shape[0]
    first, error = _counted(lines, v, kinds)
    total = positive(first.sum(), classes * error)
    share, unsure = first / total, error / total**2
    others = _others(lines, v, kinds, reach)
    if others is not None:
        value, noise, unit = others[0] / total, others[1] / total**2, jnp.asarray(others[2], kind)
        share, unsure = _shares(share, unsure, value, noise, unit)
    noise = unsure * total**2
    apart = total * (share - share.mean())
    true = jnp.maximum((apart**2).sum() / max(classes - 1, 1) - noise, noise / 4)
    believed = jnp.where(noise > 0, true / (true + noise), 1.0)
    tiny = jnp.finfo(kind).tiny ** 0.5
    exact = jnp.maximum(first, tiny)
    prior = jnp.maximum(positive(total / classes + believed * apart, believed * noise), tiny)
    rows = jnp.maximum(positive(total * share, noise), tiny)
    doubt = jnp.where(noise > 0, unclear(exact, error, total), 0)  # a clear count is left alone
    return Counts(exact + doubt * (prior - exact), exact + doubt * (rows - exact), noise)


def _counted(lines: Array, v: Array, kinds: Kinds) -> tuple[Array, Array]:
    """Counts from the entries that are counts [c], and the variance of their noise."""
    value, noise = lines[:, :1], v[:1]
    if len(kinds.cells) and not len(kinds.counts):  # without gaps a histogram has every row
        member = kinds.member.astype(lines.dtype)
        value, noise = (
            jnp.concatenate([a, jnp.matmul(b, member, precision="highest")], -1)
            for a, b in ((value, lines[:, kinds.cells]), (noise, v[kinds.cells]))
        )
    weight = 1 / jnp.maximum(noise, 1e-30)
    weight = jnp.where(v[0] > 0, weight / weight.sum(), jnp.eye(len(noise))[0])
    return (value * weight[None]).sum(1), (weight**2 * noise).sum()


def _others(
    lines: Array, v: Array, kinds: Kinds, reach: np.ndarray
) -> tuple[Array, Array, np.ndarray] | None:
    """Entries that are no counts [c, j], their noise and their units [j]; cells about their mean.

    The sum of a histogram's cells is a count already.
    """
    value, noise, unit = [], [], []
    if len(kinds.cells):
        member = kinds.member.astype(lines.dtype)
        width = kinds.member.sum(0)[kinds.group]
        sums = jnp.matmul(lines[:, kinds.cells], member, precision="highest")
        value.append(lines[:, kinds.cells] - sums[:, kinds.group] / width.astype(lines.dtype)[None])
        noise.append(v[kinds.cells] * (1 - 1 / width).astype(lines.dtype))
        unit.append(np.ones(len(width)))
    numbers = np.concatenate([kinds.first, kinds.second, kinds.counts]).astype(np.int32)
    if len(numbers):
        value.append(lines[:, numbers])
        noise.append(v[numbers])
        unit.append(reach[numbers])
    if not unit:
        return None
    return jnp.concatenate(value, 1), jnp.concatenate(noise), np.concatenate(unit)


def _shares(
    share: Array, unsure: Array, value: Array, noise: Array, unit: Array
) -> tuple[Array, Array]:
    """Shares of classes from those of counts and from other sums, by their precision.

    value [c, j] = share [c] * pooled [j] + what is real in the difference + noise. The pooled value
    is the sum over classes, so that its own noise is taken off the products.
    """
    classes = len(share)
    pooled = value.sum(0)
    strength = jnp.maximum(pooled**2 - classes * noise, 0)
    trust = strength / jnp.maximum(pooled**2, 1e-30)
    left = ((value - share[:, None] * pooled[None]) ** 2).sum(0) / unit**2
    chance = noise * (1 - 2 * share[:, None] + classes * share[:, None] ** 2).sum(0)
    chance = (chance + classes * strength * unsure) / unit**2
    precision = 1 / jnp.maximum(chance, 1e-12) ** 2
    precision = precision / precision.sum()
    doubt = 2 * (precision**2 * chance**2).sum() / max(classes - 1, 1)
    apart = positive((precision * (left - chance)).sum(), doubt) / classes * unit**2
    # beside a count: 0 where counts have no noise
    weight = unsure / jnp.maximum(noise + apart, 1e-30) * trust
    bottom = 1 + (weight * strength).sum()
    better = (share + (weight[None] * (pooled[None] * value - noise[None])).sum(1)) / bottom
    error = weight**2 * (pooled**2 * (noise + apart) + classes * noise**2)
    return better, (unsure + error.sum()) / bottom**2
