"""Channels one after the other."""

from typing import Annotated, Any

import jax
from jax.tree_util import Partial

from peerwise.channel.loss import Channel, Sent
from peerwise.core import Array, Links
from peerwise.declare import Named, declares
from peerwise.errors import BadSetting


def _in_turn(
    before: tuple[Channel, ...],
    late: Channel | None,
    after: tuple[Channel, ...],
    key: Array,
    t: Array,
    links: Links,
    sent: Sent | None = None,
) -> Links:
    # each channel draws its own random numbers
    keys = [jax.random.fold_in(key, i) for i in range(len(before) + 1 + len(after))]

    def so_far(s: Array, links: Links) -> Links:
        links = links if sent is None else sent(s, links)
        for i, channel in enumerate(before):
            links = channel(keys[i], s, links)
        return links

    if late is None:
        links = so_far(t, links)
    elif before or sent is not None:
        links = late.draw(keys[len(before)], t, links, so_far)
    else:
        links = late(keys[0], t, links)
    for i, channel in enumerate(after, len(before) + 1):
        links = channel(keys[i], t, links)
    return links


@declares("channel", name="both")
def _both(
    *, channels: Annotated[tuple[Any, ...], Named("channel"), "channels, in their order"] = ()
) -> Channel:
    """Channels one after the other: a message arrives if it gets through all of them."""
    return both(*channels)


def both(*channels: Channel) -> Channel:
    """Channels one after the other: a message arrives if it gets through all of them.

    At most one of them may be late. Those before it act in the round in which a message is sent,
    those after it in the round in which it arrives: both(churn(), delay(2)) needs both ends up when
    it is sent, both(delay(2), churn()) when it arrives. Each draws its own random numbers, and a
    message lost before it reaches a `random_delay` overtakes no other.

    >>> from peerwise.channel import churn, delay, erasure
    >>> both(churn(), erasure(0.9), delay(2)).lag
    2
    """
    for channel in channels:
        if not isinstance(channel, Channel):
            raise BadSetting(f"both takes channels, such as both(churn(), delay(2)), got {channel}")
    late = [i for i, channel in enumerate(channels) if channel.lag]
    if len(late) > 1:
        lags = " and ".join(str(channels[i].lag) for i in late)
        raise BadSetting(
            f"one channel at most may be late, got lags of {lags} rounds: put the delays together "
            "into one"
        )
    at = late[0] if late else len(channels)
    lasts = [channel.rounds for channel in channels if channel.rounds is not None]
    turns = channels[:at], channels[at] if late else None, channels[at + 1 :]
    return Channel(
        Partial(_in_turn, *turns),
        lag=channels[at].lag if late else 0,
        rounds=min(lasts, default=None),
        named=tuple(nodes for channel in channels for nodes in channel.named),
    )
