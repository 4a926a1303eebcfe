"""Generative classifiers with a closed form: statistics s(x, y), parameters theta(s), log p(x, y).

Every model here is an exponential family with s(x, y) = e_y (x) phi(x), so that log p(x, y) is
linear in phi(x). Where all classes share parameters (one covariance, say), statistics psi(x) that
do not depend on y are stored once beside them. Statistics are raw sums: they add, subtract and
scale. Guards live in theta only.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from peerwise.core import Array, Shard, Tree
from peerwise.declare import gives
from peerwise.models.entries import Entries


class Theta(NamedTuple):
    """Parameters as the coefficients of log p(x, y) = weight_y . phi(x) + shared . psi(x)."""

    weight: Array  # [c, q]
    guards: Array  # how many entries theta had to change to make them valid
    shared: Array = None  # [r] coefficients of psi(x); None if classes share no parameters


class Phase(NamedTuple):
    """A sum over all rows that nodes must know before they can compute a model's statistics."""

    count: Callable[[Shard], Tree]  # a node's rows -> its term of the sum
    options: Callable[[Any], dict[str, Any]]  # the sum over all nodes -> options of the model
    public: bool = False  # whether simulated nodes simply know it, like center and scale
    # the most by which one row changes all sums together, in the L2 norm; None: unknown
    reach: float | None = None


class Model(NamedTuple):
    """A family of generative classifiers. Two models made with the same arguments are the same.

    Statistics s are an array [c, q]; with shared statistics {"classes": [c, q], "shared": [r]}.
    """

    name: str
    classes: int
    size: int  # q, the length of phi(x)
    features: Callable[[Array], Array]  # x [m, d] -> phi [m, q]
    theta: Callable[[Tree], Theta]  # s -> coefficients
    uniform: Callable[[Any, Any], Tree]  # m0, dtype -> s with uniform p(y|x), worth m0 rows
    describe: Callable[[Tree], dict[str, Array]]  # s -> parameters as a textbook writes them
    # s, x -> what the class [m, c] and each feature [m, c, d] add to log p(x, y); a missing value
    # (NaN) is summed or integrated out, exactly, and adds nothing
    terms: Callable[[Tree, Array], tuple[Array, Array]]
    sample: Callable[[Array, Tree, int], tuple[Array, Array]]  # key, s, m -> x [m, d], y [m]
    # rows, mean [d], var [d], cell -> conjugate prior statistics: see `assemble`
    prior: Callable[..., Tree]
    shared: int = 0  # r, the length of psi(x)
    common: Callable[[Array], Array] | None = None  # x [m, d] -> psi [m, r]
    linear: bool = True  # False: rows with missing values need `terms`
    wants: str = "standardised"  # what numeric columns must hold; also "counts" or "binary"
    cardinalities: tuple[int, ...] = ()  # categories of each column of x; 0 for a number
    # what the entries of phi and psi are; None: the most by which a row changes them is unknown
    entries: Callable[[], tuple[Entries, Entries | None]] | None = None


gives("model", Model)


def by_class(s: Tree) -> Array:
    """The part of statistics [c, q] that has a line for every class; its column 0 counts rows."""
    return s["classes"] if isinstance(s, dict) else s


def moved(s: Tree, change: Array) -> Tree:
    """Statistics with `change` [c, q] added to the lines of the classes."""
    return {**s, "classes": s["classes"] + change} if isinstance(s, dict) else s + change


def statistics(model: Model, x: Array, y: Array, weight: Array) -> Tree:
    """s(X, Y): the weighted sum of e_y (x) phi(x), and of psi(x), over the rows.

    A label outside 0..c-1 marks a row without one, which counts nowhere.
    """
    target = jax.nn.one_hot(y, model.classes, dtype=x.dtype) * weight.astype(x.dtype)[:, None]
    return soft_statistics(model, x, target)


def soft_statistics(model: Model, x: Array, target: Array) -> Tree:
    """The statistics of rows that belong to each class in part: target [m, c]."""
    lines = jnp.matmul(target.T, model.features(x), precision="highest")
    if model.common is None:
        return lines
    shared = jnp.matmul(target.sum(1), model.common(x), precision="highest")
    return {"classes": lines, "shared": shared}


def log_joint(model: Model, s: Tree, x: Array) -> Array:
    """log p(x, y) [m, c] under theta(s)."""
    if not model.linear:
        of_class, of_features = model.terms(s, x)
        return of_class + of_features.sum(-1)
    theta = model.theta(s)
    joint = jnp.matmul(model.features(x), theta.weight.T, precision="highest")
    if model.common is None:
        return joint
    return joint + jnp.matmul(model.common(x), theta.shared, precision="highest")[:, None]


def log_posterior(model: Model, s: Tree, x: Array) -> Array:
    """log p(y | x) [m, c] under theta(s)."""
    if not model.linear:
        return jax.nn.log_softmax(log_joint(model, s, x))
    # what the classes share cancels
    return jax.nn.log_softmax(
        jnp.matmul(model.features(x), model.theta(s).weight.T, precision="highest")
    )
