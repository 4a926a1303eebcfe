"""Which messages arrive, and when: a channel takes the links of a round and changes them.

A message that does not arrive is a link of weight 0; a late one has age > 0. A channel is a pure
function of the key and the round: it keeps nothing from round to round, so that a run can be
resumed or replayed from any round, and a link loses the same messages in every runtime.
"""

from peerwise.channel.late import delay, random_delay
from peerwise.channel.loss import Channel, erasure, perfect, quiet_node
from peerwise.channel.spells import bursty, churn
from peerwise.channel.tape import record, trace
from peerwise.channel.turns import both

__all__ = [
    "Channel",
    "both",
    "bursty",
    "churn",
    "delay",
    "erasure",
    "perfect",
    "quiet_node",
    "random_delay",
    "record",
    "trace",
]
