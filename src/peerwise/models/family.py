"""Generative classifiers with a closed form: statistics s(x, y), parameters theta(s), log p(x, y).

Every model here is an exponential family with s(x, y) = e_y (x) phi(x), so that log p(x, y) is
linear in phi(x). Statistics are raw sums: they add, subtract and scale. Guards live in theta only.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from peerwise.core import Array

__all__ = ["Model", "Theta", "log_joint", "log_posterior", "statistics"]


class Theta(NamedTuple):
    """Parameters as the coefficients of log p(x, y) = weight_y . phi(x)."""

    weight: Array  # [c, q]
    guards: Array  # how many entries theta had to keep from being impossible


class Model(NamedTuple):
    """A family of generative classifiers. Two models made with the same arguments are the same."""

    name: str
    classes: int
    size: int  # q, the length of phi(x)
    features: Callable[[Array], Array]  # x [m, d] -> phi [m, q]
    theta: Callable[[Array], Theta]  # s [c, q] -> coefficients
    uniform: Callable[[Any, Any], Array]  # m0, dtype -> s with uniform p(y|x), worth m0 rows
    describe: Callable[[Array], dict[str, Array]]  # s -> parameters as a textbook writes them


def statistics(model: Model, x: Array, y: Array, weight: Array) -> Array:
    """s(X, Y) [c, q]: the weighted sum of e_y (x) phi(x) over the rows."""
    phi = model.features(x)
    target = jax.nn.one_hot(y, model.classes, dtype=phi.dtype) * weight.astype(phi.dtype)[:, None]
    return jnp.matmul(target.T, phi, precision="highest")


def log_joint(model: Model, s: Array, x: Array) -> Array:
    """log p(x, y) [m, c] under theta(s)."""
    return jnp.matmul(model.features(x), model.theta(s).weight.T, precision="highest")


def log_posterior(model: Model, s: Array, x: Array) -> Array:
    """log p(y | x) [m, c] under theta(s)."""
    return jax.nn.log_softmax(log_joint(model, s, x))
