"""Models from noisy statistics that know how much noise there is.

What is released is public, and so is the law of its noise; whatever is computed from both costs no
privacy. Counts of classes are found from all that was released and made positive; class means,
variances and cells are drawn towards those of all classes by as much as noise can explain their
difference (empirical Bayes: Efron and Morris, 1973) and are left where it cannot; everything stays
within the public bounds, and a variance has what is not known of its mean added to it. Without
noise the statistics come back as they are.
"""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array, Tree
from peerwise.models.family import Model, Theta
from peerwise.privacy.aware.cells import cells_of
from peerwise.privacy.aware.counts import counts_of
from peerwise.privacy.aware.kinds import Seen, kinds_of
from peerwise.privacy.aware.numbers import covariances_of, means_of, pooled
from peerwise.privacy.aware.shrink import positive
from peerwise.privacy.design import Design

REVISION = 3  # raised when these models give other numbers, so that kept cells run again


def denoised(design: Design, variance: np.ndarray, s: Tree) -> Tree:
    """Statistics from which a model is made, from noisy ones; `variance` [q + r] of their noise.

    The noise is that of the design's coordinates, summed over all nodes whose releases are in `s`.
    """
    kinds, q = kinds_of(design), design.lines
    lines, sums = design.coordinates(s)
    kind = lines.dtype
    v = jnp.asarray(variance, kind)
    reach, middle = (jnp.asarray(a, kind) for a in (design.reach, design.middle))
    counts = counts_of(lines, v, kinds, design.reach)
    rows = counts.rows[:, None]
    seen = Seen(lines, v, counts.rows, counts.unsure, reach, middle)
    at = design.count[:q]
    own = jnp.minimum(positive(lines[:, at], v[at][None]), rows)
    counted = jnp.maximum(jnp.where((at > 0)[None], own, rows), jnp.finfo(kind).tiny ** 0.5)
    out = lines.at[:, 0].set(counts.rows)
    if len(kinds.counts):
        own = positive(lines[:, kinds.counts], v[kinds.counts][None])
        out = out.at[:, kinds.counts].set(jnp.minimum(own, rows))
    mean = unsure = lines[:, :0]
    if len(kinds.first):
        mean, unsure = means_of(seen, kinds, counted)
        out = out.at[:, kinds.first].set(counted[:, kinds.first] * mean)
    if len(kinds.left) and sums is None:
        cov = covariances_of(seen, kinds, counted, mean, unsure)
        both = mean[:, kinds.left] * mean[:, kinds.right]
        out = out.at[:, kinds.second].set(counted[:, kinds.second] * (cov + both))
    if len(kinds.cells):
        out = out.at[:, kinds.cells].set(cells_of(seen, kinds))
    scale = counts.prior[:, None] / rows  # sums go with one count of a class, the model has another
    if sums is None:
        return out * scale
    at = design.count[q:]
    known = jnp.where((at > 0)[None], counted[:, np.minimum(kinds.first[0], q - 1), None], rows)
    known = jnp.broadcast_to(known, (len(lines), len(at)))
    cov = pooled(sums, v[q:], known, kinds, mean, unsure, middle[q:], reach[kinds.first])
    known = known * scale
    both = (known * mean[:, kinds.left] * mean[:, kinds.right]).sum(0)
    return {"classes": out * scale, "shared": known.sum(0) * cov + both}


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
        released: tuple[Tree, dict[str, Array]] = self._draw(key, shard)
        return released


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
