"""Links that fail in bursts and nodes that come and go: spells of good and of bad rounds."""

from typing import Annotated, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from annotated_types import Ge, Le, Lt
from jax.tree_util import Partial

from peerwise.channel.loss import Channel, draws, keep, keys, luck
from peerwise.core import Array, Links, on_device
from peerwise.declare import declares
from peerwise.errors import BadSetting
from peerwise.topology.links import whole

BLOCK = 16  # rounds in a block

Mean: TypeAlias = Annotated[float, Ge(1), Lt(np.inf)]  # length of a spell in rounds

# Two-state Markov chains as a pure function of (key, t). In every round a chain keeps its state, or
# with probability r renews it: it draws a new state from the stationary law, good with probability
# p. Then P(good -> bad) = r (1 - p), which is 1 / the mean length of a good spell, and likewise for
# bad, so that r = 1 / good + 1 / bad and p = good / (good + bad). The state in round t is the one
# drawn at the last renewal up to t, which must be searched. The search ends before round 0, where
# every chain draws its first state from the stationary law: nothing is approximated.
#
# To search fast, rounds are grouped into blocks. One random number of a block says whether it has a
# renewal and which state its last renewal drew; if it has one, no earlier block matters. A second
# number says in which round of the block the last renewal is; each round before it renews with
# probability r, and no round after it.


class _Law(NamedTuple):
    """A chain as thresholds for uniform random numbers, all scalars but `within`."""

    renew: Array  # r: a round renews the state
    renew_good: Array  # r p: and the new state is good
    block: Array  # 1 - (1 - r)^BLOCK: a block renews
    block_good: Array  # and its last renewal draws good
    within: Array  # [BLOCK - 1] the last renewal of a block is at most 0, 1, ... before its end
    share: Array  # p: the share of good rounds


def _law(names: tuple[str, str], good: float, bad: float) -> _Law:
    """The chain whose spells have these mean lengths."""
    r, p = 1 / good + 1 / bad, good / (good + bad)
    if r > 1 + 1e-9:
        raise BadSetting(
            f"{names[0]}={good:g} and {names[1]}={bad:g} rounds would alternate faster than chance:"
            f" 1 / {names[0]} + 1 / {names[1]} must be at most 1, so make one of them longer "
            "(2 and 2 is a coin thrown in every round)"
        )
    r = min(r, 1.0)
    gone = (1 - r) ** np.arange(1, BLOCK + 1)  # P(no renewal in so many rounds)
    block = 1 - gone[-1]
    numbers = r, r * p, block, block * p, (1 - gone[:-1]) / block, p
    return _Law(*(on_device(x, np.float32) for x in numbers))


def _good(law: _Law, key: Array, t: Array, *ids: Array) -> Array:
    """Which of the chains are in a good spell in round t; ids [e] tell them apart."""
    own, t = keys(key, *ids), jnp.maximum(t, 0)
    b, j = t // BLOCK, jnp.arange(BLOCK)[None]

    u, end = draws(own, 2 * b, BLOCK + 1), draws(own, 2 * b + 1)
    u, place = u[:, :BLOCK], u[:, BLOCK:]
    last = BLOCK - 1 - (place >= law.within[None]).sum(1, keepdims=True)
    renewed = (j == last) | ((j < last) & (u < law.renew))
    renewed = renewed & (j <= t % BLOCK) & (end < law.block)[:, None]
    drawn = jnp.where(j == last, (end < law.block_good)[:, None], u < law.renew_good)
    newest = BLOCK - 1 - jnp.argmax(renewed[:, ::-1], 1)
    state = jnp.take_along_axis(drawn, newest[:, None], 1)[:, 0]

    def back(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        b, settled, state = carry
        end, first = draws(own, 2 * b + 1), b < 0  # block -1 stands for all that was before round 0
        good = end < jnp.where(first, law.share, law.block_good)
        return b - 1, settled | first | (end < law.block), jnp.where(settled, state, good)

    begin = b - 1, renewed.any(1), state
    return jax.lax.while_loop(lambda carry: ~carry[1].all(), back, begin)[2]


def _burst(
    law: _Law,
    q_good: Array,
    q_bad: Array,
    key: Array,
    t: Array,
    links: Links,
) -> Links:
    spells, arrivals = (jax.random.fold_in(key, i) for i in range(2))
    good = _good(law, spells, t, links.src, links.dst)
    return keep(links, luck(arrivals, t, links) < jnp.where(good, q_good, q_bad))


def _churn(law: _Law, steady: Array, key: Array, t: Array, links: Links) -> Links:
    ends = jnp.concatenate([links.src, links.dst])
    up = _good(law, key, t, ends) | (ends[:, None] == steady[None]).any(1)
    return keep(links, up[: links.src.size] & up[links.src.size :])


@declares("channel")
def bursty(
    *,
    good: Annotated[Mean, "mean length of a good spell in rounds"] = 20.0,
    bad: Annotated[Mean, "mean length of a bad spell in rounds"] = 5.0,
    q_good: Annotated[float, Ge(0), Le(1), "probability of arrival in a good spell"] = 1.0,
    q_bad: Annotated[float, Ge(0), Le(1), "probability of arrival in a bad spell"] = 0.0,
) -> Channel:
    """Every directed link has good and bad spells: Gilbert (1960), Elliott (1963).

    `good` and `bad` are the mean lengths of the spells in rounds, which are geometric; in a good
    one a message arrives with probability `q_good`, in a bad one with `q_bad`. Over a long time
    (good q_good + bad q_bad) / (good + bad) of the messages arrive, and the same share in
    expectation in every round: links start in the stationary law. They are independent, even the
    two directions of an edge; a link to a server is like any other.

    >>> bursty(good=10, bad=2).lag
    0
    """
    law = _law(("good", "bad"), good, bad)
    return Channel(Partial(_burst, law, *(on_device(q, np.float32) for q in (q_good, q_bad))))


@declares("channel")
def churn(
    *,
    up: Annotated[Mean, "mean time that a node is up, in rounds"] = 50.0,
    down: Annotated[Mean, "mean time that a node is down, in rounds"] = 10.0,
    steady: Annotated[tuple[int, ...], "nodes that are always up"] = (),
) -> Channel:
    """Nodes come and go; a link works when both its ends are up.

    `up` and `down` are mean times in rounds, which are geometric; at any time up / (up + down) of
    the nodes are up. A node that is down hears nobody and nobody hears it; it still learns alone.
    Nodes in `steady` are always up. A server is node n and goes down like the others, unless it is
    named there: churn(steady=n).

    >>> churn(up=20, down=5, steady=[0, 3]).draw.args[1].tolist()
    [0, 3]
    """
    law = _law(("up", "down"), up, down)
    nodes = [whole("a steady node", node, 0) for node in steady]
    return Channel(Partial(_churn, law, on_device(nodes, np.int32)))
