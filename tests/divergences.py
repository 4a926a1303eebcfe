"""How far two Gaussian posteriors are apart: `core.Gaussian` or `combine.full.FullGaussian` parts.

Barycenters minimise these; they also measure how well the nodes of a network agree.
"""

from functools import partial

import jax.numpy as jnp

from peerwise.combine.full import FullGaussian
from peerwise.core import Array, Gaussian

# products in full precision: by default a GPU may round the factors
_dot = partial(jnp.matmul, precision="highest")


def kl(p: Gaussian | FullGaussian, q: Gaussian | FullGaussian) -> Array:
    """The Kullback-Leibler divergence of q from p, E_p log(p / q), in nats.

    >>> p, q = Gaussian(jnp.zeros(2), jnp.zeros(2)), Gaussian(jnp.ones(2), jnp.zeros(2))
    >>> float(kl(p, q))
    1.0
    """
    away = p.mean - q.mean
    if isinstance(p, Gaussian) and isinstance(q, Gaussian):
        ratio = p.log_variance - q.log_variance
        return (jnp.expm1(ratio) - ratio + away * away * jnp.exp(-q.log_variance)).sum() / 2
    ours, theirs = _covariance(p), _covariance(q)
    inverse = jnp.linalg.inv(theirs)
    logs = jnp.linalg.slogdet(theirs)[1] - jnp.linalg.slogdet(ours)[1]
    fit = jnp.trace(_dot(inverse, ours)) + _dot(_dot(away, inverse), away)
    return (fit + logs - away.shape[0]) / 2


def reverse_kl(p: Gaussian | FullGaussian, q: Gaussian | FullGaussian) -> Array:
    """The Kullback-Leibler divergence of p from q, E_q log(q / p), in nats."""
    return kl(q, p)


def squared_w2(p: Gaussian | FullGaussian, q: Gaussian | FullGaussian) -> Array:
    """The squared Wasserstein-2 distance: the least mean squared distance by which p is moved to q.

    >>> p, q = (Gaussian(jnp.zeros(2), jnp.full(2, 2 * jnp.log(sd))) for sd in (1, 3))
    >>> round(float(squared_w2(p, q)), 4)
    8.0
    """
    moved = jnp.square(p.mean - q.mean).sum()
    if isinstance(p, Gaussian) and isinstance(q, Gaussian):
        return moved + jnp.square(jnp.exp(p.log_variance / 2) - jnp.exp(q.log_variance / 2)).sum()
    ours, theirs = _covariance(p), _covariance(q)
    # the trace of (A^1/2 B A^1/2)^1/2, from L^T B L with A = L L^T, which has the same eigenvalues
    root = jnp.linalg.cholesky(ours)
    shared = jnp.linalg.eigvalsh(_dot(_dot(root.T, theirs), root))
    return moved + jnp.trace(ours + theirs) - 2 * jnp.sqrt(jnp.maximum(shared, 0)).sum()


def _covariance(p: Gaussian | FullGaussian) -> Array:
    if isinstance(p, FullGaussian):
        return p.covariance
    return jnp.diag(jnp.exp(p.log_variance))
