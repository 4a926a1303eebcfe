"""Lead: relayed sums that are late, carried forward by the rate at which they grow.

What a node hears of another is as old as the way is long. Nodes whose rows differ take steps for
ever, which cancel in the sum of all but not while some are late, so that models stay away from
where all steps sum to 0. Here every node relays beside its sum how fast that has grown lately, and
each hop moves what it heard forward by the rounds it is late: a sum that grows evenly arrives as it
is now, whatever the distance. The price is a second vector in a message.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from peerwise.core import Array, Inbox, Shard, State, Tree
from peerwise.methods import relaying

RATE = "rate"  # what the rate is called among the sums
# Rounds over which a rate is averaged. A rate of few rounds follows every swing and makes it
# larger; one of many is late itself. docs/relay.md says how it was chosen.
SPAN = 100
# Rounds by which a hop carries forward at the most: who is silent for much longer learns alone, and
# its rate no longer holds. docs/relay.md says how it was chosen.
MOST = 16
REVISION = 2  # raised when sums are carried forward otherwise, so that kept cells run again


def still(sums: Tree) -> Tree:
    """The rate of sums that have not grown yet."""
    return jax.tree.map(jnp.zeros_like, sums)


def growing(rate: Tree, before: Tree, now: Tree) -> Tree:
    """The average rate over about the last `SPAN` rounds, after a round from `before` to `now`."""
    return jax.tree.map(
        lambda r, b, n: r + relaying.rounded(((n - b) - r) / SPAN), rate, before, now
    )


def listened(relay: relaying.Relay, inbox: Inbox, of: str, lead: float) -> relaying.Relay:
    """`relaying.listened`, with the sum named `of` of every part carried forward."""
    relay = relaying.in_time(relay, inbox.part)
    if lead:
        parts = jax.vmap(lambda part: _carried(part, relay["clock"], of, lead))(inbox.part)
        inbox = inbox._replace(part=parts)
    return relaying.heard(relay, inbox)


def reply(of: str, lead: float) -> Callable[[State, Shard, Inbox], Tree]:
    """`relaying.reply`, less the part that was added: carried forward, as it was then."""

    def answer(state: State, shard: Shard, heard: Inbox) -> Tree:
        relay, part = state.value["relay"], heard.part
        if lead and part is not None:
            part = _carried(part, relay["clock"] - 1, of, lead)
        return relaying.said(relay, part)

    return answer


def _carried(part: Tree, now: Array, of: str, lead: float) -> Tree:
    """A part whose sum `of` is as large as its rate says that it is by now."""
    sums = part["sum"]
    kind = part["nodes"].dtype
    ahead = relaying.once(lambda: lead * jnp.minimum(relaying.late(part, now), MOST).astype(kind))

    def moved(whole: Array, rate: Array) -> Array:
        return whole + relaying.rounded(ahead * rate)

    return {**part, "sum": {**sums, of: jax.tree.map(moved, sums[of], sums[RATE])}}
