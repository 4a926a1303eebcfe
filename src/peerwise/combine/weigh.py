"""Weigh rules: how much a node listens to itself and to each slot of its inbox.

A rule returns weights that need not sum to one. Slots of link weight 0 are silenced by the runtime.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import jax.numpy as jnp

from peerwise.core import Array, Inbox
from peerwise.errors import BadSetting

__all__ = ["alone", "cfa", "data_size", "equal", "metropolis"]

Weigh: TypeAlias = Callable[[dict[str, Array], Inbox], tuple[Array, Array]]


@cache
def equal(include_self: bool = False) -> Weigh:
    """Every neighbour heard counts the same, and so does the node itself when `include_self`."""

    def weigh(note: dict[str, Array], inbox: Inbox) -> tuple[Array, Array]:
        one = jnp.ones_like(inbox.weight)
        return jnp.asarray(float(include_self), inbox.weight.dtype), one

    return weigh


@cache
def data_size(include_self: bool = True) -> Weigh:
    """A neighbour counts by its number of rows (`note["size"]`) times the link's trust."""

    def weigh(note: dict[str, Array], inbox: Inbox) -> tuple[Array, Array]:
        return note["size"] * float(include_self), inbox.weight * inbox.note["size"]

    return weigh


@cache
def cfa(epsilon: float | None = None) -> Weigh:
    """A step of length epsilon towards the mean of the neighbours by data size and trust.

    Consensus-based federated averaging (Savazzi et al. 2020). None: 1 / (neighbours heard), as the
    DecDiff paper has it.
    """
    if epsilon is not None and not 0 < epsilon <= 1:
        raise BadSetting(f"epsilon must be above 0 and at most 1, got {epsilon}")

    def weigh(note: dict[str, Array], inbox: Inbox) -> tuple[Array, Array]:
        heard = inbox.weight > 0
        share = jnp.where(heard, inbox.weight * inbox.note["size"], 0)
        share = share / jnp.maximum(share.sum(), 1e-30)
        many = jnp.maximum(heard.sum(), 1).astype(inbox.weight.dtype)
        step = 1 / many if epsilon is None else jnp.full_like(many, epsilon)
        return 1 - step, step * share

    return weigh


@cache
def metropolis() -> Weigh:
    """The links' own weights; what they leave of one, lost messages included, is the node's own.

    Needs links whose weights sum to at most one, as `topology.metropolis` gives them: the mixing
    matrix is then doubly stochastic and no node counts more for having more neighbours.
    """

    def weigh(note: dict[str, Array], inbox: Inbox) -> tuple[Array, Array]:
        return jnp.maximum(1 - inbox.weight.sum(), 0), inbox.weight

    weigh.links = "metropolis"  # type: ignore[attr-defined]  # checked against the topology
    return weigh


@cache
def alone() -> Weigh:
    """The node listens to itself only."""

    def weigh(note: dict[str, Array], inbox: Inbox) -> tuple[Array, Array]:
        return jnp.ones((), inbox.weight.dtype), jnp.zeros_like(inbox.weight)

    return weigh
