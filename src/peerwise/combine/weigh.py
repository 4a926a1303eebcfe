"""Rules that take a weighted mean: how much a node listens to itself and to each neighbour.

A rule's `weigh` returns weights that need not sum to one. The runtime silences slots of link weight
0. A `weigh` function names what senders must attach in its attribute `note`, and the kind of links
that it needs in `links`. A server knows no node by itself: it gives `weigh` a note of zeros for the
node's own and takes the weights of the slots alone. A rule whose slots depend on the node has
`on_server` (inbox -> w[k]); one that gives the node a share of its own marks it as `own_share` and
is refused there.
"""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

import jax.numpy as jnp
from annotated_types import Gt, Le

from peerwise.core import Array, Inbox, Mean, Slots
from peerwise.declare import Named, declares, gives
from peerwise.errors import BadSetting

Weigh: TypeAlias = Callable[[dict[str, Array], Inbox], tuple[Array, Array]]
Share: TypeAlias = Annotated[float, Gt(0), Le(1)]
Rule: TypeAlias = Annotated[Any, Named("rule"), "how a node combines what it heard"]
IncludeSelf: TypeAlias = Annotated[
    bool, "the node counts among those it heard (always on a server)"
]

gives("rule", Mean, Slots)


@declares("rule")
@cache
def equal(*, include_self: IncludeSelf = False) -> Mean:
    """Every neighbour heard counts the same, and so does the node itself when `include_self`."""

    def weigh(note: dict[str, Array], inbox: Inbox) -> tuple[Array, Array]:
        one = jnp.ones_like(inbox.weight)
        return jnp.asarray(float(include_self), inbox.weight.dtype), one

    return Mean(weigh)


@declares("rule")
@cache
def data_size(*, include_self: IncludeSelf = True) -> Mean:
    """A neighbour counts by its number of rows (`note["size"]`) times the link's trust."""

    def weigh(note: dict[str, Array], inbox: Inbox) -> tuple[Array, Array]:
        return note["size"] * float(include_self), inbox.weight * inbox.note["size"]

    return _mean(weigh, note="size")


@declares("rule")
@cache
def cfa(
    *, epsilon: Annotated[Share | None, "length of the step; none: 1 / (neighbours heard)"] = None
) -> Mean:
    """A step of length epsilon towards the mean of the neighbours by data size and trust.

    Consensus-based federated averaging (Savazzi et al. 2020). None: 1 / (neighbours heard), as the
    DecDiff paper has it.
    """

    def weigh(note: dict[str, Array], inbox: Inbox) -> tuple[Array, Array]:
        heard = inbox.weight > 0
        share = jnp.where(heard, inbox.weight * inbox.note["size"], 0)
        share = share / jnp.maximum(share.sum(), 1e-30)
        many = jnp.maximum(heard.sum(), 1).astype(inbox.weight.dtype)
        step = 1 / many if epsilon is None else jnp.full_like(many, epsilon)
        return 1 - step, step * share

    return _mean(weigh, note="size", own_share=True)


@declares("rule")
@cache
def worst(
    *,
    alpha: Annotated[Share, "the share of worst losses that counts"] = 0.3,
    quantile: Annotated[
        Literal["count", "lower", "linear", "higher"], "how the share becomes a threshold"
    ] = "count",
) -> Mean:
    """Equal weights for losses at or above the value at risk, none for others (CVaR-CVaR).

    Losses are what the senders attach and the node's own. The value at risk is the smallest of the
    ceil(alpha x heard) largest ("count"), or the (1 - alpha)-quantile of all with
    that interpolation; equal losses are kept together, so that the worst is always among them.
    """

    def chosen(losses: Array, heard: Array) -> Array:
        losses = jnp.where(heard & ~jnp.isnan(losses), losses, jnp.inf)
        rising, many = jnp.sort(losses), heard.sum()
        place = (many - 1) * (1 - alpha)
        # (11 - 1) x (1 - 0.9) must be 1, and 0.3 x 10 count as 3, in any precision
        place = jnp.where(jnp.abs(place - jnp.round(place)) < 1e-4, jnp.round(place), place)
        low, high = jnp.floor(place).astype(jnp.int32), jnp.ceil(place).astype(jnp.int32)
        least = many - jnp.ceil(alpha * many - 1e-4).astype(jnp.int32)
        at_risk = {
            "count": rising[least],
            "lower": rising[low],
            "higher": rising[high],
            "linear": rising[low] + (rising[high] - rising[low]) * (place - low),
        }[quantile]
        return heard & (losses >= at_risk)

    def weigh(own: dict[str, Array], inbox: Inbox) -> tuple[Array, Array]:
        losses = jnp.append(inbox.note["loss"], own["loss"].astype(inbox.note["loss"].dtype))
        weight = chosen(losses, jnp.append(inbox.weight > 0, True)).astype(inbox.weight.dtype)
        return weight[-1], weight[:-1]

    def on_server(inbox: Inbox) -> Array:
        return chosen(inbox.note["loss"], inbox.weight > 0).astype(inbox.weight.dtype)

    return _mean(weigh, note="loss", on_server=on_server)


@declares("rule", needs=("metropolis",))
@cache
def metropolis() -> Mean:
    """The links' own weights; the node itself gets the rest to one, lost messages included.

    Needs links whose weights sum to at most one, as `topology.metropolis` gives them. Where every
    message arrives, the mixing matrix is then doubly stochastic and no node counts more for having
    more neighbours. Where messages are lost, what a node hears still sums to one, but what a node
    is worth to all others does not: a message may arrive on one way of an edge only. On a server
    the mean is over what arrived.
    """

    def weigh(note: dict[str, Array], inbox: Inbox) -> tuple[Array, Array]:
        return jnp.maximum(1 - inbox.weight.sum(), 0), inbox.weight

    return _mean(weigh, links="metropolis")


@declares("rule")
@cache
def alone() -> Mean:
    """The node listens to itself only."""

    def weigh(note: dict[str, Array], inbox: Inbox) -> tuple[Array, Array]:
        return jnp.ones((), inbox.weight.dtype), jnp.zeros_like(inbox.weight)

    return Mean(weigh)


def weights_of(rule: Mean | Slots) -> Weigh:
    """How a rule weighs, where that is all it does; another would be used in part."""
    if not isinstance(rule, Mean) or rule != Mean(rule.weigh):
        raise BadSetting(
            "weigh must be a rule that weighs and takes the mean: alone, cfa, data_size, equal, "
            "metropolis or worst"
        )
    return rule.weigh


def _mean(weigh: Any, **marks: Any) -> Mean:
    for name, value in marks.items():
        setattr(weigh, name, value)
    return Mean(weigh)
