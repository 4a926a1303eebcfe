"""The `Channel` type, and channels that lose messages independently of each other."""

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import signature
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Le
from jax.tree_util import Partial

from peerwise.core import Array, Links, on_device
from peerwise.declare import declares, gives
from peerwise.errors import BadSetting
from peerwise.topology import Topology

# What a late channel learns of those before it: round, links -> links that carried a message then
Sent: TypeAlias = Callable[[Array, Links], Links]


class Members(NamedTuple):
    """The nodes for which a channel has numbers; the topology must have them."""

    what: str
    senders: int | None  # nodes 0..senders-1; None = it does not tell senders apart
    receivers: int | None  # a server receives, as the last node
    some: bool = False  # the topology may have more of them

    def check(self, topology: Topology) -> None:
        """Refuse a topology whose nodes differ from these."""
        for kind, here, there in (
            ("send", self.senders, topology.n),
            ("receive", self.receivers, topology.n + topology.server),
        ):
            if here is None or here == there or (self.some and here < there):
                continue
            server = f" (a server as node {topology.n})" if there > topology.n else ""
            raise BadSetting(
                f"{self.what} has numbers for {here} nodes that {kind} and the topology has "
                f"{there}{server}; make them the same"
                if not self.some
                else f"{self.what} lets node {here - 1} {kind} and the topology has nodes 0 to "
                f"{there - 1} that do{server}; take the topology that was recorded"
            )


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Channel:
    """What the network does to the messages of a round.

    `draw` is a pytree: its numbers are arguments of a jitted run, so that another loss rate does
    not compile it again. The runtime keeps the messages of the last `lag` rounds.

    A late channel that you write yourself and use on a graph that changes, or put after another in
    `both`, takes a fourth argument, `sent` (else None): `sent(s, links)` are the links on which a
    message sent in round s reached this channel.
    """

    draw: Partial  # key, t, links -> links
    lag: int = field(default=0, metadata={"static": True})  # the largest age that draw gives
    rounds: int | None = field(default=None, metadata={"static": True})  # most rounds of a run
    named: tuple[Members, ...] = field(default=(), metadata={"static": True})

    def __call__(
        self, key: Array, t: Array | int, links: Links, before: Array | None = None
    ) -> Links:
        """The links of round t as they arrive; t counts from 0.

        `before` [e, lag + 1] is that of `topology.late_links`, where the graph changes.
        """
        arrived: Links = _through(self.draw, key, jnp.asarray(t, jnp.int32), links, before)
        return arrived

    def check(self, topology: Topology, rounds: int) -> None:
        """Refuse a run that this channel cannot serve, before anything is compiled."""
        if self.rounds is not None and rounds > self.rounds:
            raise BadSetting(
                f"the trace stops after round {self.rounds}; the run asks for {rounds}: ask for "
                "fewer rounds or record more"
            )
        for nodes in self.named:
            nodes.check(topology)
        changes = topology.links.src.shape[0] > 1
        if self.lag and changes and len(signature(self.draw).parameters) < 4:
            raise BadSetting(
                "a late channel needs a fourth argument, sent, on a graph that changes: it says on "
                "which links a message was sent (see Channel)"
            )


gives("channel", Channel)


@jax.jit  # one program instead of many small ones where the caller is not compiled
def _through(draw: Partial, key: Array, t: Array, links: Links, before: Array | None) -> Links:
    def sent(s: Array, links: Links) -> Links:
        weight: Any = before
        return links._replace(weight=weight[:, t - s].astype(links.weight.dtype))

    arrived: Links = draw(key, t, links) if before is None else draw(key, t, links, sent)
    return arrived


# Randomness is keyed by the two ends of a link (or by a node), never by position, and drawn in
# float32 whatever the precision of the run: a link has the same luck in every order, padding,
# runtime and precision. Drawn numbers are compared and nothing is computed from them: another
# program might round, say, their logarithm differently.


def keys(key: Array, *ids: Array) -> Array:
    """A key [e] for each row of ids [e]."""

    def one(*own: Array) -> Array:
        folded = key
        for i in own:
            folded = jax.random.fold_in(folded, i)
        return folded

    return jax.vmap(one)(*ids)


def draws(own: Array, when: Array | int, count: int | None = None) -> Array:
    """Uniform numbers [e] or [e, count] for a round or a period, from keys [e]."""
    shape = () if count is None else (count,)
    return jax.vmap(lambda k: jax.random.uniform(jax.random.fold_in(k, when), shape, jnp.float32))(
        own
    )


def luck(key: Array, t: Array, links: Links) -> Array:
    """A uniform number [e] for every link in round t."""
    own = keys(jax.random.fold_in(key, t), links.src, links.dst)
    return jax.vmap(lambda k: jax.random.uniform(k, dtype=jnp.float32))(own)


def keep(links: Links, kept: Array) -> Links:
    """The links with weight 0 where `kept` is false; a node's link to itself is always kept."""
    kept = kept | (links.src == links.dst)
    return links._replace(weight=jnp.where(kept, links.weight, jnp.zeros_like(links.weight)))


def _unchanged(key: Array, t: Array, links: Links) -> Links:
    return links


def _erase(q: Array, key: Array, t: Array, links: Links) -> Links:
    if q.ndim:  # an axis of length 1 is the same for all
        rows, columns = (size - 1 for size in q.shape)
        q = q[jnp.minimum(links.src, rows), jnp.minimum(links.dst, columns)]
    return keep(links, luck(key, t, links) < q)


@declares("channel")
def perfect() -> Channel:
    """Every message arrives in its round.

    >>> perfect().lag
    0
    """
    return Channel(Partial(_unchanged))


@declares("channel")
def erasure(
    *,
    q: Annotated[Any, "probability that a message arrives"] = 1.0,
    by: Annotated[
        Literal["sender", "receiver"] | None,
        "whose probabilities an array of q holds (Python only)",
    ] = None,
) -> Channel:
    """Every directed link delivers with probability q, independently in each round.

    q is one number; or [n, n], where q[src, dst] is the link's own; or [n] with `by="sender"` or
    `by="receiver"`, one for each node. Links are independent, even the two directions of an edge.
    A node's message to itself always arrives (the diagonal of q is not read).

    A server only receives, as node n. By sender, [n] holds the probability that a node's message
    to it arrives; by receiver q is [n + 1], by link [n, n + 1], of which the last column counts.

    >>> float(erasure(0.25).draw.args[0])
    0.25
    >>> erasure([0.9, 0.5, 0.9], by="sender").draw.args[0].shape
    (3, 1)
    """
    given = _probabilities(q)
    _check_shape(given.shape, by)
    if given.ndim == 0:
        return Channel(Partial(_erase, on_device(given, np.float32)))
    senders, receivers = given.shape[0], given.shape[-1]
    if by is None:
        named = Members("q", senders, receivers)
    elif by == "sender":
        named, given = Members("q", senders, None), given[:, None]
    else:
        named, given = Members("q", None, receivers), given[None, :]
    return Channel(Partial(_erase, on_device(given, np.float32)), named=(named,))


@declares("channel")
def quiet_node(
    nodes: int,
    *,
    q: Annotated[float, Ge(0), Le(1), "probability that a message arrives"] = 1.0,
    quiet: Annotated[float, Ge(0), Le(1), "the same for messages from node 0"] = 0.05,
) -> Channel:
    """Every directed link delivers with probability q, and those from node 0 with `quiet`."""
    return erasure(q=np.where(np.arange(nodes) == 0, quiet, q), by="sender")


def _probabilities(q: Any) -> np.ndarray:
    try:
        given = np.asarray(q)
    except ValueError:  # rows of different lengths
        given = np.asarray("")
    if given.dtype.kind not in "biuf" or not given.size:
        raise BadSetting(f"q must be a number or an array of numbers, got {q!r}")
    wrong = np.argwhere(~((given >= 0) & (given <= 1))).tolist()
    if wrong:
        where = f" at {wrong[0]}" if given.ndim else ""
        raise BadSetting(
            "q, the probability of arrival, must be between 0 and 1, got "
            f"{given[tuple(wrong[0])]}{where}"
        )
    return given


def _check_shape(shape: tuple[int, ...], by: str | None) -> None:
    if by is not None and len(shape) != 1:
        raise BadSetting(f"by='{by}' needs one q for each node, [n], got the shape {shape}")
    if by is None and len(shape) == 1:
        raise BadSetting(
            f"q has {shape[0]} probabilities, one for each node: say by='sender' or by='receiver', "
            "or give [n, n] with q[src, dst]"
        )
    if len(shape) > 2 or (len(shape) == 2 and shape[1] - shape[0] not in (0, 1)):
        raise BadSetting(
            f"q must be a number, [n] or [n, n] (with a server [n, n + 1]), got the shape {shape}"
        )
