"""Weigh rules: how much a node listens to itself and to each slot of its inbox.

A rule returns weights that need not sum to one. Slots of link weight 0 are silenced by the runtime.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import jax.numpy as jnp

from peerwise.core import Array, Inbox
from peerwise.errors import BadSetting, UnknownName

__all__ = ["alone", "cfa", "data_size", "equal", "metropolis", "worst"]

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


QUANTILES = ("count", "lower", "linear", "higher")


@cache
def worst(alpha: float = 0.3, quantile: str = "count", note: str = "loss") -> Weigh:
    """Only those whose loss is at or above the value at risk, each the same (CVaR-CVaR).

    Losses are what the senders attach and the node's own (`note`). The value at risk is the
    smallest of the ceil(alpha x heard) largest ("count"), or the (1 - alpha)-quantile of all with
    that interpolation; equal losses are kept together, so that the worst is always among them.
    """
    if not 0 < alpha <= 1:
        raise BadSetting(
            f"alpha, the share of worst losses, must be above 0 and at most 1, got {alpha}"
        )
    if quantile not in QUANTILES:
        raise UnknownName("quantile", quantile, QUANTILES)

    def weigh(own: dict[str, Array], inbox: Inbox) -> tuple[Array, Array]:
        heard = jnp.append(inbox.weight > 0, True)
        losses = jnp.append(inbox.note[note], own[note].astype(inbox.note[note].dtype))
        losses = jnp.where(heard & ~jnp.isnan(losses), losses, jnp.inf)
        rising, many = jnp.sort(losses), heard.sum()
        place = (many - 1) * (1 - alpha)
        low, high = jnp.floor(place).astype(jnp.int32), jnp.ceil(place).astype(jnp.int32)
        # 0.3 x 10 must count as 3 in any precision
        least = many - jnp.ceil(alpha * many - 1e-4).astype(jnp.int32)
        at_risk = {
            "count": rising[least],
            "lower": rising[low],
            "higher": rising[high],
            "linear": rising[low] + (rising[high] - rising[low]) * (place - low),
        }[quantile]
        chosen = (heard & (losses >= at_risk)).astype(inbox.weight.dtype)
        return chosen[-1], chosen[:-1]

    weigh.note = note  # type: ignore[attr-defined]  # what senders must attach
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
