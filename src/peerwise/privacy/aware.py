"""Models from noisy statistics that know how much noise there is.

What is released is public, and so is the law of its noise; whatever is computed from both costs no
privacy. Counts are made positive and consistent, class means, variances and cells are drawn towards
those of all classes by as much as noise can explain their difference (empirical Bayes: Efron and
Morris, 1973), everything stays within the public bounds, and a variance has what is not known of
its mean added to it. Without noise the statistics come back as they are.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array, Tree
from peerwise.models.block import SMALLEST_SHARE
from peerwise.models.family import Model, Theta
from peerwise.privacy.design import Design

SPREAD = 2.0  # how much features differ in what they tell: standard deviation over mean
EMPTY = 0.2  # how often, before anything was seen, a cell of a class is empty


class Kinds(NamedTuple):
    """Which entries of phi are what, and of psi which products; places in phi."""

    first: np.ndarray  # sums of a number
    second: np.ndarray  # sums of products of two numbers
    counts: np.ndarray  # rows that have a number
    cells: np.ndarray  # of histograms
    group: np.ndarray  # the histogram of each cell, 0, 1, ...
    left: np.ndarray  # for every product, of phi or of psi: the place of its factors in `first`
    right: np.ndarray


def _kinds(design: Design) -> Kinds:
    lines, sums = design.entries
    width = np.bincount(lines.group)[lines.group]
    place = np.arange(len(lines.left))
    number = lines.left >= 0
    first = place[number & (lines.right < 0)]
    second = place[number & (lines.right >= 0)]
    cells = place[~number & (width > 1)]
    counts = place[~number & (width == 1) & (place > 0)]
    _, group = np.unique(lines.group[cells], return_inverse=True)
    of = {int(column): i for i, column in enumerate(lines.left[first])}
    products = sums if sums is not None else lines._replace(
        left=lines.left[second], right=lines.right[second]
    )  # fmt: skip
    left, right = (
        np.array([of[int(column)] for column in factor], np.int32)
        for factor in (products.left, products.right)
    )
    return Kinds(first, second, counts, cells, group.astype(np.int32), left, right)


def positive(value: Array, variance: Array) -> Array:
    """The mean of what is not negative and was seen as `value` with Gaussian noise.

    Without noise it is the value, or 0.
    """
    noisy = variance > 0
    deviation = jnp.sqrt(jnp.where(noisy, variance, 1))
    z = jnp.clip(value / deviation, -30, 30)  # beyond, noise does not matter or is all there is
    hazard = jnp.exp(jax.scipy.stats.norm.logpdf(z) - jax.scipy.stats.norm.logcdf(z))
    seen = jnp.maximum(value, -30 * deviation)
    return jnp.where(noisy, seen + deviation * hazard, jnp.maximum(value, 0))


def shrinkage(apart: Array, noise: Array, share: Array, freedom: Any, size: Any = 1.0) -> Array:
    """By how much differences from the pooled value are believed [c, j], 0 to 1.

    `apart` [c, j] are the differences, `noise` [c, j] their variances by noise, `share` [c, 1] the
    shares of the classes, `freedom` how many independent differences an entry stands for, `size`
    [j] the unit of its variance. What is real in an entry is estimated from the entry and, as far
    as that is uncertain, from all entries together.
    """
    expected = (share * noise).sum(0) - (share**2 * noise).sum(0)
    seen = ((share * apart**2).sum(0) - expected) / size
    error = expected / size
    weight = freedom / (error**2 + 1e-30)
    weight = weight / weight.sum()
    # of all together: no less than what chance alone would hide
    least = jnp.sqrt(2 * (weight**2 * error**2 / freedom).sum())
    common = jnp.maximum((weight * seen).sum(), least)
    doubt = 2 * (error + common) ** 2 / freedom
    believed = (SPREAD * common) ** 2 / ((SPREAD * common) ** 2 + doubt + 1e-30)
    real = size * jnp.maximum(common + believed * (seen - common), common / 4)
    return jnp.where(noise > 0, real[None] / (real[None] + noise), 1.0)


def denoised(design: Design, variance: np.ndarray, s: Tree) -> Tree:
    """Statistics from which a model is made, from noisy ones; `variance` [q + r] of their noise.

    The noise is that of the design's coordinates, summed over all nodes whose releases are in `s`.
    """
    kinds = _kinds(design)
    lines, sums = design.coordinates(s)
    kind = lines.dtype
    q, classes = design.lines, lines.shape[0]
    v = jnp.asarray(variance, kind)
    reach, middle = (jnp.asarray(a, kind) for a in (design.reach, design.middle))
    rows, unsure = _counts(lines, v, kinds, classes)
    share = (rows / rows.sum())[:, None]
    out = lines.at[:, 0].set(rows)
    counted = jnp.where(
        (design.count[None, :q] > 0),
        jnp.minimum(positive(lines[:, design.count[:q]], v[design.count[:q]][None]), rows[:, None]),
        rows[:, None],
    )
    counted = jnp.maximum(counted, jnp.finfo(kind).tiny ** 0.5)
    if len(kinds.counts):
        own = positive(lines[:, kinds.counts], v[kinds.counts][None])
        out = out.at[:, kinds.counts].set(jnp.minimum(own, rows[:, None]))
    mean = mean_unsure = lines[:, :0]
    if len(kinds.first):
        mean, mean_unsure = _means(lines, v, kinds, counted, share, unsure, reach, middle)
        out = out.at[:, kinds.first].set(counted[:, kinds.first] * mean)
    if len(kinds.left) and sums is None:
        at = kinds.second
        cov = _covariances(
            lines[:, at], v[at], counted[:, at], share, kinds, mean, mean_unsure, reach[at],
            middle[at], reach[kinds.first],
        )  # fmt: skip
        both = mean[:, kinds.left] * mean[:, kinds.right]
        out = out.at[:, at].set(counted[:, at] * (cov + both))
    if len(kinds.cells):
        out = out.at[:, kinds.cells].set(_cells(lines, v, kinds, rows, share))
    if sums is None:
        return out
    at = design.count[q:]
    known = jnp.where((at > 0)[None], counted[:, np.minimum(kinds.first[0], q - 1), None],
                      rows[:, None])  # fmt: skip
    known = jnp.broadcast_to(known, (classes, len(at)))
    cov = _pooled(sums, v[q:], known, kinds, mean, mean_unsure, reach[q:], middle[q:],
                  reach[kinds.first])  # fmt: skip
    both = (known * mean[:, kinds.left] * mean[:, kinds.right]).sum(0)
    return {"classes": out, "shared": known.sum(0) * cov + both}


def _counts(lines: Array, v: Array, kinds: Kinds, classes: int) -> tuple[Array, Array]:
    """Rows of every class, from all entries that count them, and the variance of their noise."""
    value, precision = [lines[:, 0]], [1 / jnp.maximum(v[0], 1e-30)]
    cells = len(kinds.cells)
    if cells and not len(kinds.counts):
        member = np.zeros((cells, int(kinds.group.max()) + 1))
        member[np.arange(cells), kinds.group] = 1
        sums = jnp.matmul(lines[:, kinds.cells], member.astype(lines.dtype), precision="highest")
        noise = jnp.matmul(v[kinds.cells], member.astype(lines.dtype), precision="highest")
        value += list(sums.T)
        precision += list(1 / jnp.maximum(noise, 1e-30))
    weight = jnp.stack(precision)
    noisy = jnp.where(v[0] > 0, 1.0, 0.0)
    weight = jnp.where(noisy > 0, weight / weight.sum(), jnp.eye(len(precision))[0])
    seen = (jnp.stack(value) * weight[:, None]).sum(0)
    noise = noisy / jnp.stack(precision).sum()
    total = positive(seen.sum(), classes * noise)
    apart = seen - seen.mean()
    real = jnp.maximum((apart**2).sum() / max(classes - 1, 1) - noise, noise / 4)
    believed = jnp.where(noise > 0, real / (real + noise), 1.0)
    rows = positive(total / classes + believed * apart, believed * noise)
    return jnp.maximum(rows, jnp.finfo(lines.dtype).tiny ** 0.5), noise


def _means(
    lines: Array, v: Array, kinds: Kinds, counted: Array, share: Array, unsure: Array,
    reach: Array, middle: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """Means of numbers [c, d], and the variances of what is not known of them."""
    at = kinds.first
    n, r = counted[:, at], reach[at][None]
    seen = lines[:, at] / (n * r)
    bounded = jnp.clip(seen, -1, 1)
    noise = (v[at][None] / r**2 + bounded**2 * unsure) / n**2
    whole = jnp.clip(lines[:, at].sum(0) / (n.sum(0) * r[0]), -1, 1)[None]
    believed = shrinkage(seen - whole, noise, share, max(lines.shape[0] - 1, 1))
    mean, left = whole + believed * (seen - whole), believed * noise
    # within the bounds, and no nearer to them than noise lets one say
    inside = positive(mean + 1, left) - 1
    inside = jnp.where(noise > 0, 1 - positive(1 - inside, left), mean)
    return middle[at][None] + r * jnp.clip(inside, -1, 1), r**2 * left


def _diagonal(kinds: Kinds) -> np.ndarray:
    """The place of the square of each number among the products."""
    square = np.flatnonzero(kinds.left == kinds.right)
    return square[np.argsort(kinds.left[square])]


def _pooled(
    sums: Array, v: Array, n: Array, kinds: Kinds, mean: Array, mean_unsure: Array,
    reach: Array, middle: Array, half: Array,
) -> Array:  # fmt: skip
    """The covariances that classes share [r], from sums over all of them."""
    total = n.sum(0)
    moment = sums / total + middle
    between = (n * mean[:, kinds.left] * mean[:, kinds.right]).sum(0) / total
    return _valid(moment - between, v / total**2, kinds, half, mean_unsure.mean(0))


def _valid(cov: Array, noise: Array, kinds: Kinds, half: Array, unsure: Array) -> Array:
    """Covariances [r] with positive variances within the bounds, and correlations as believed."""
    square = _diagonal(kinds)
    flat = half**2 / 3  # of a number that is anywhere within its bounds
    raw, error = cov[square], noise[square]
    weight = flat**2 / (flat**2 + error)
    var = positive(flat + weight * (raw - flat), weight * error)
    var = jnp.where(error > 0, jnp.minimum(var, half**2), raw) + unsure
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
    believed = shrinkage(*double, one / 2, 1.0)[:1]
    made = jnp.zeros_like(cov).at[square].set(var).at[off].set((believed * rho)[0] * unit[off])
    left = jnp.zeros_like(cov).at[off].set((believed * error)[0] * unit[off] ** 2)
    return _regular(made, left, kinds)


def _regular(cov: Array, unsure: Array, kinds: Kinds) -> Array:
    """Covariances [r] with no eigenvalue, once standardised, that noise alone may have made.

    Noise of deviation s in the entries of a d x d matrix moves eigenvalues by up to 2 s sqrt(d).
    """
    square = _diagonal(kinds)
    d = len(square)
    place = np.zeros((d, d), np.int32)
    place[kinds.left, kinds.right] = place[kinds.right, kinds.left] = np.arange(len(kinds.left))
    size = jnp.sqrt(jnp.maximum(cov[square], 1e-30))
    unit = size[:, None] * size[None, :]
    off = ~np.eye(d, dtype=bool)
    noise = jnp.where(off, unsure[place] / unit**2, 0).sum() / max(d * (d - 1), 1)
    least = 2 * jnp.sqrt(noise * d)
    value, vector = jnp.linalg.eigh(cov[place] / unit)
    whole = jnp.matmul(vector * jnp.maximum(value, least)[None], vector.T, precision="highest")
    return jnp.where(noise > 0, (whole * unit)[kinds.left, kinds.right], cov)


def _covariances(
    lines: Array, v: Array, n: Array, share: Array, kinds: Kinds, mean: Array, mean_unsure: Array,
    reach: Array, middle: Array, half: Array,
) -> Array:  # fmt: skip
    """Covariances of every class [c, r], drawn towards those that all share."""
    left, right = kinds.left, kinds.right
    whole = _pooled(lines.sum(0), v * lines.shape[0], n, kinds, mean, mean_unsure, reach, middle,
                    half)  # fmt: skip
    seen = lines / n + middle[None] - mean[:, left] * mean[:, right]
    noise = v[None] / n**2
    square = _diagonal(kinds)
    unit = jnp.maximum(whole[square], 1e-30)
    size = unit[left] * unit[right]
    believed = shrinkage(seen - whole[None], noise, share, max(len(lines) - 1, 1), size)
    cov = whole[None] + believed * (seen - whole[None])
    own = positive(cov[:, square], (believed * noise)[:, square])
    own = jnp.where(noise[:, square] > 0, jnp.minimum(own, half[None] ** 2), cov[:, square])
    cov = cov.at[:, square].set(own + mean_unsure)
    if (left == right).all():
        return cov
    return jax.vmap(lambda one, unsure: _regular(one, unsure, kinds))(cov, believed * noise)


def _cells(lines: Array, v: Array, kinds: Kinds, rows: Array, share: Array) -> Array:
    """The cells of histograms [c, k] for counts of classes, made consistent."""
    kind, at, group = lines.dtype, kinds.cells, kinds.group
    groups = int(group.max()) + 1
    member = np.zeros((len(at), groups))
    member[np.arange(len(at)), group] = 1
    width = member.sum(0)
    member = member.astype(kind)

    def by_group(a: Array) -> Array:
        return jnp.matmul(a, member, precision="highest")

    seen, noisy = lines[:, at], (v[at] > 0)[None]
    spare = (rows[:, None] - by_group(seen)) / width.astype(kind)[None]
    seen = jnp.where(noisy, seen + spare[:, group], seen)
    noise = v[at][None] / rows[:, None] ** 2 * (1 - 1 / width[group].astype(kind))[None]
    prob = seen / rows[:, None]
    whole = positive(seen.sum(0) / rows.sum(), (share**2 * noise).sum(0))
    whole = whole / jnp.maximum(by_group(whole[None])[0], 1e-30)[group]
    apart = prob - whole[None]
    unit = jnp.maximum(whole * (1 - whole), 1e-12)
    # what is real in a histogram is one number: its cells differ as a Dirichlet law has it
    total = by_group(unit[None])[0]
    inside = by_group((share * apart**2).sum(0)[None])[0] / total
    chance = by_group((share * noise).sum(0)[None])[0] / total
    believed = _of_histograms(inside, chance, share, width, lines.shape[0])
    real = (believed[group] * unit)[None]
    weight = jnp.where(noise > 0, real / (real + noise), 1.0)
    prob = whole[None] + weight * apart
    prob = _sparse(prob, weight * noise, whole[None])
    cells = prob / jnp.maximum(by_group(prob), 1e-30)[:, group] * rows[:, None]
    return jnp.where(noisy, cells, seen)


def _sparse(value: Array, variance: Array, typical: Array) -> Array:
    """As `positive`, where what is seen may as well be 0: many a cell of a class is empty.

    A spike at 0, as likely as not, beside a uniform law up to twice what is typical. With much
    noise the spike is never believed; with little, a cell within it is taken as empty.
    """
    deviation = jnp.sqrt(jnp.where(variance > 0, variance, 1))
    z = jnp.clip(value / deviation, -30, 30)
    odds = jax.scipy.stats.norm.logpdf(z) - jax.scipy.stats.norm.logcdf(z)
    odds += jnp.log(jnp.maximum(2 * typical, 1e-30) / deviation)
    odds += jnp.log(EMPTY / (1 - EMPTY))
    empty = jnp.where(variance > 0, jax.nn.sigmoid(odds), 0)
    seen = positive(value, variance)
    # what counts is a logarithm: its mean, of which an empty cell is the least that there is
    mean = jnp.exp(
        empty * math.log(SMALLEST_SHARE) + (1 - empty) * jnp.log(jnp.maximum(seen, SMALLEST_SHARE))
    )
    return jnp.where(variance > 0, mean, seen)


def _of_histograms(
    seen: Array, chance: Array, share: Array, width: np.ndarray, classes: int
) -> Array:
    """What is real of the differences in each histogram, as a share of its variance."""
    freedom = jnp.asarray((width - 1) * max(classes - 1, 1), seen.dtype)
    error = chance * (1 - (share**2).sum())
    real = seen - error
    weight = freedom / (error**2 + 1e-30)
    weight = weight / weight.sum()
    least = jnp.sqrt(2 * (weight**2 * error**2 / freedom).sum())
    common = jnp.maximum((weight * real).sum(), least)
    doubt = 2 * (error + common) ** 2 / freedom
    believed = (SPREAD * common) ** 2 / ((SPREAD * common) ** 2 + doubt + 1e-30)
    return jnp.maximum(common + believed * (real - common), common / 4)


class Noise(NamedTuple):
    """What is known of the noise in one node's release."""

    design: Design
    variance: np.ndarray  # [q + r] in the design's coordinates


class Noised:
    """A release, as methods draw it, that tells how much noise is in it."""

    def __init__(self, draw: Any, noise: Noise | None):
        self._draw, self.noise = draw, noise

    def __call__(self, key: Array, shard: Any) -> tuple[Tree, dict[str, Array]]:
        """Noisy statistics and scalars about them."""
        made: tuple[Tree, dict[str, Array]] = self._draw(key, shard)
        return made


@cache
def aware(model: Model, draw: Any, nodes: int | None) -> Model:
    """A model of statistics that are the mean of the releases `draw` of so many nodes.

    The model itself where it is not known how much noise there is.
    """
    noise = getattr(draw, "noise", None)
    if noise is None or nodes is None:
        return model
    variance = noise.variance * nodes

    def clean(s: Tree) -> Tree:
        whole = jax.tree.map(lambda a: a * nodes, s)
        return denoised(noise.design, variance, whole)

    def theta(s: Tree) -> Theta:
        return model.theta(clean(s))

    return model._replace(
        theta=theta,
        describe=lambda s: model.describe(clean(jax.tree.map(jnp.asarray, s))),
        terms=lambda s, x: model.terms(clean(s), x),
        sample=lambda key, s, m: model.sample(key, clean(s), m),
    )
