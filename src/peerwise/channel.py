"""Which messages arrive, and when: a channel takes the links of a round and changes them.

A message that does not arrive is a link of weight 0; a late one has age > 0.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from peerwise.core import Array, Links
from peerwise.errors import BadSetting

__all__ = ["Channel", "delay", "erasure", "perfect"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Channel:
    """What the network does to the messages of a round.

    `draw` is a pytree: its numbers are arguments of a jitted run, so that another loss rate does
    not compile again. The runtime keeps the messages of `lag` rounds past.
    """

    draw: Partial  # key, t, links -> links
    lag: int = field(default=0, metadata={"static": True})  # the largest age that draw gives

    def __call__(self, key: Array, t: Array | int, links: Links) -> Links:
        """The links of round t as they arrive."""
        arrived: Links = self.draw(key, t, links)
        return arrived


def _channel(draw: Callable[..., Links], *numbers: Array, lag: int = 0) -> Channel:
    return Channel(Partial(draw, *numbers), lag)


def _unchanged(key: Array, t: Array | int, links: Links) -> Links:
    return links


@jax.jit  # one program instead of many small ones where the caller is not compiled
def _erase(q: Array, key: Array, t: Array | int, links: Links) -> Links:
    key = jax.random.fold_in(key, t)

    def arrives(src: Array, dst: Array) -> Array:
        # Keyed by the two ends, never by position, and in float32 whatever the precision of the
        # run: a link has the same luck in every order, padding, runtime and precision.
        own = jax.random.fold_in(jax.random.fold_in(key, src), dst)
        return jax.random.uniform(own, dtype=jnp.float32) < q

    kept = jax.vmap(arrives)(links.src, links.dst) | (links.src == links.dst)
    return links._replace(weight=jnp.where(kept, links.weight, jnp.zeros_like(links.weight)))


def _late(rounds: Array, key: Array, t: Array | int, links: Links) -> Links:
    weight = jnp.where(t >= rounds, links.weight, jnp.zeros_like(links.weight))
    return links._replace(weight=weight, age=jnp.full_like(links.age, rounds))


def perfect() -> Channel:
    """Every message arrives in its round.

    >>> perfect().lag
    0
    """
    return _channel(_unchanged)


def erasure(q: float = 1.0) -> Channel:
    """Every directed link delivers with probability q, anew each round.

    Links share no luck, not even the two directions of an edge. What a node says to itself always
    arrives.

    >>> float(erasure(0.25).draw.args[0])
    0.25
    """
    if not 0 <= q <= 1:
        raise BadSetting(f"q, the probability of arrival, must be between 0 and 1, got {q!r}")
    return _channel(_erase, jnp.asarray(q, jnp.float32))


def delay(rounds: int = 1) -> Channel:
    """Every message arrives `rounds` rounds late; until the first is due nothing arrives.

    >>> delay(2).lag
    2
    """
    if isinstance(rounds, bool) or not isinstance(rounds, int | np.integer) or rounds < 0:
        raise BadSetting(f"rounds must be a whole number, 0 or more, got {rounds!r}")
    return _channel(_late, jnp.asarray(rounds, jnp.int32), lag=int(rounds))
