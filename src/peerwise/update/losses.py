"""What local training minimises: losses of logits and labels, one number a row."""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, TypeAlias

import jax
import jax.numpy as jnp
from annotated_types import Gt, Le

from peerwise.core import Array
from peerwise.declare import Named, declares
from peerwise.errors import BadSetting

Loss: TypeAlias = Callable[[Array, Array], Array]  # logits [m, c], labels [m] -> [m]
LossOption: TypeAlias = Annotated[Any, Named("loss"), "what training minimises"]
Beta: TypeAlias = Annotated[float, Gt(0), Le(1), "how sure the teacher is of the label"]


@declares("loss")
@cache
def cross_entropy() -> Loss:
    """-log p(y | x)."""

    def loss(logits: Array, y: Array) -> Array:
        log_prob = jax.nn.log_softmax(logits)
        return -jnp.take_along_axis(log_prob, y[:, None], 1)[:, 0]

    return loss


def soft_labels(y: Array, classes: int, beta: float, dtype: Array = jnp.float32) -> Array:
    """The virtual teacher's labels [m, c]: beta for the label, the rest shared by the others."""
    hot = jax.nn.one_hot(y, classes, dtype=dtype)
    return hot * beta + (1 - hot) * ((1 - beta) / (classes - 1))


def _check(beta: float, classes: int) -> None:
    if classes < 2:
        raise BadSetting(f"a virtual teacher needs two classes or more, got {classes}")
    if not 1 / classes < beta <= 1:
        raise BadSetting(f"beta must be above 1/{classes} and at most 1, got {beta}")


@declares("loss")
@cache
def virtual_teacher(classes: int, *, beta: Beta = 0.99) -> Loss:
    """KL(teacher || p): the soft labels of a teacher that is right with probability `beta`.

    Equation 8 of the DecDiff paper, read as label smoothing: cross-entropy with soft labels minus
    their entropy, which has no gradient. With beta = 1 it is cross-entropy.
    """
    _check(beta, classes)

    def loss(logits: Array, y: Array) -> Array:
        labels = soft_labels(y, classes, beta, logits.dtype)
        known = jnp.where(labels > 0, labels * jnp.log(jnp.where(labels > 0, labels, 1)), 0)
        return (known - labels * jax.nn.log_softmax(logits)).sum(1)

    return loss


@declares("loss")
@cache
def linear_teacher(classes: int, *, beta: Beta = 0.99) -> Loss:
    """-sum of teacher x p: a KL loss that is given probabilities for their logarithms.

    An ablation: a public implementation of the virtual teacher does so. Its gradients are bounded.
    """
    _check(beta, classes)

    def loss(logits: Array, y: Array) -> Array:
        return -(soft_labels(y, classes, beta, logits.dtype) * jax.nn.softmax(logits)).sum(1)

    return loss
