"""Channels that deliver messages late."""

from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Gt, Le
from jax.tree_util import Partial

from peerwise.channel.loss import Channel, Sent, luck
from peerwise.core import Array, Links, on_device
from peerwise.declare import declares


def _aged(links: Links, weight: Array, age: Array) -> Links:
    """The links with these weights and ages; a node's message to itself is never late."""
    own = links.src == links.dst
    return links._replace(
        weight=jnp.where(own, links.weight, weight.astype(links.weight.dtype)),
        age=jnp.where(own, links.age, age.astype(links.age.dtype)),
    )


def _late(rounds: Array, key: Array, t: Array, links: Links, sent: Sent | None = None) -> Links:
    weight = links.weight if sent is None else sent(t - rounds, links).weight
    weight = jnp.where(t >= rounds, weight, jnp.zeros_like(weight))
    return _aged(links, weight, jnp.full_like(links.age, rounds))


def _random(
    within: Array, hold: Array, key: Array, t: Array, links: Links, sent: Sent | None = None
) -> Links:
    longest = within.shape[0]

    def newer(i: Any, heard: tuple[Array, Array]) -> tuple[Array, Array]:
        age = longest - i
        u = luck(key, t - age, links)
        late = (u[None] >= within[:, None]).sum(0)
        weight = links.weight if sent is None else sent(t - age, links).weight
        there = (late <= age) & (age <= t) & (weight > 0)
        fresh = jnp.where((late == age) | hold, weight, jnp.zeros_like(weight))
        return jnp.where(there, fresh, heard[0]), jnp.where(there, age, heard[1])

    nothing = jnp.zeros_like(links.weight), jnp.zeros(links.age.shape, jnp.int32)
    return _aged(links, *jax.lax.fori_loop(0, longest + 1, newer, nothing))


@declares("channel")
def delay(*, rounds: Annotated[int, Ge(0), "rounds that every message is late"] = 1) -> Channel:
    """Every message arrives `rounds` rounds late; until the first is due nothing arrives.

    A node's message to itself arrives at once.

    >>> delay(2).lag
    2
    """
    return Channel(Partial(_late, on_device(rounds, np.int32)), lag=rounds)


@declares("channel")
def random_delay(
    *,
    q: Annotated[float, Gt(0), Le(1), "probability of arrival in each round"] = 0.5,
    longest: Annotated[int, Ge(0), "rounds that a message is late at most"] = 8,
    hold: Annotated[bool, "the newest message is heard again in a silent round"] = False,
) -> Channel:
    """Every message is late by a random number of rounds, 0 to `longest`.

    In each round a message on its way arrives with probability q: it is d rounds late with a
    probability proportional to q (1 - q)^d (a truncated geometric law, drawn independently for
    each message and link). None is lost; put an `erasure` in front (see `both`) for that.

    The newest wins: a node hears the newest message that has arrived, in the round in which it
    arrives. One that was overtaken by a newer one is never heard, and a round in which nothing
    newer arrives is silent. With `hold` the newest is heard again in such a round, with the age
    that it has then, as long as that is at most `longest`.

    >>> random_delay(0.5, longest=3).lag
    3
    """
    law = q * (1 - q) ** np.arange(longest + 1)
    within = (np.cumsum(law) / law.sum())[:-1]  # P(late <= d), d < longest
    numbers = on_device(within, np.float32), on_device(hold)
    return Channel(Partial(_random, *numbers), lag=longest)
