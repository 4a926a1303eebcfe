"""Slot rules: combinations that need to see every message beside the others."""

from collections.abc import Callable
from functools import cache, partial
from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge

from peerwise.core import Array, Inbox, Slots, Tree
from peerwise.declare import declares


def heard_values(shares: Array, own: Tree, messages: Tree) -> Tree:
    """All values [k + 1, ...], the node's own last; those of share 0 are replaced.

    The value of the largest share takes their place, so that whatever is computed from them before
    the weight 0 silences it is finite.
    """
    largest = jnp.argmax(shares)

    def leaf(ours: Array, theirs: Array) -> Array:
        values = jnp.concatenate([theirs, ours[None]])
        return jnp.where(_column(shares > 0, ours.ndim), values, values[largest][None])

    return jax.tree.map(leaf, own, messages)


def weighted_mean(shares: Array, values: Array) -> Array:
    """The mean of values [k, ...] with shares [k] that sum to one."""
    return (_column(shares.astype(values.dtype), values.ndim - 1) * values).sum(0)


def _column(per_slot: Array, ndim: int) -> Array:
    return per_slot.reshape((-1,) + (1,) * ndim)


def _sorted_heard(heard: Array, own: Array, messages: Array) -> Array:
    """Own and heard values in rising order along axis 0; what was not heard ends up last."""
    column = (-1,) + (1,) * own.ndim
    values = jnp.concatenate([messages, own[None]])
    return jnp.sort(jnp.where(heard.reshape(column), values, jnp.inf), axis=0)


def _coordinate_wise(leaf: Callable[[Array, Array, Array], Array]) -> Slots:
    def rule(own: Tree, inbox: Inbox) -> Tree:
        heard = jnp.append(inbox.weight > 0, True)
        return jax.tree.map(partial(leaf, heard), own, inbox.value)

    return Slots(rule)


@declares("rule")
@cache
def median() -> Slots:
    """Coordinate-wise median of the node's own value and those heard."""

    def leaf(heard: Array, own: Array, messages: Array) -> Array:
        values, count = _sorted_heard(heard, own, messages), heard.sum()
        return (values[(count - 1) // 2] + values[count // 2]) / 2

    return _coordinate_wise(leaf)


@declares("rule")
@cache
def trimmed_mean(
    *, trim: Annotated[int, Ge(0), "how many values are left out at either end"] = 1
) -> Slots:
    """Coordinate-wise mean without the `trim` largest and smallest values.

    Yin et al. (2018), over the node itself and the neighbours heard.
    A node that hears too few to trim keeps its own value.
    """

    def leaf(heard: Array, own: Array, messages: Array) -> Array:
        rank = jnp.arange(heard.size)
        kept = (rank >= trim) & (rank < heard.sum() - trim)
        values = _sorted_heard(heard, own, messages)
        column = (-1,) + (1,) * own.ndim
        total = jnp.where(kept.reshape(column), values, 0).sum(0)
        return jnp.where(kept.any(), total / jnp.maximum(kept.sum(), 1), own)

    return _coordinate_wise(leaf)
