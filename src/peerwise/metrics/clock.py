"""Seconds that a network would take: a simulated wall clock of a real deployment.

A node sends when it has finished the round before; a message takes the latency of its link and its
bytes over the link's bandwidth; a node that has heard all its neighbours of the round computes, and
then its round is over. Nobody waits for anybody else, so that fast parts of a network run ahead of
slow ones, by as many rounds as they are links apart.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from annotated_types import Ge, Gt
from scipy.special import ndtri

from peerwise.declare import declares

Edges = tuple[np.ndarray, np.ndarray]  # src and dst of every message of a round, sorted by dst
Links = tuple[np.ndarray, np.ndarray, np.ndarray]  # and the seconds that each takes


class Clock(NamedTuple):
    """What links and nodes of a deployment are like; medians, and how far they spread."""

    latency: float
    bandwidth: float | None
    compute: float
    latency_spread: float
    bandwidth_spread: float
    compute_spread: float

    def links(self, n: int, edges: Edges, size: float, seed: int) -> np.ndarray:
        """Seconds that a message of so many bytes takes on each link; the same both ways."""
        low, high = np.minimum(*edges).astype(np.uint64), np.maximum(*edges).astype(np.uint64)
        pair = high * np.uint64(n + 1) + low
        seconds = self.latency * _spread(pair, seed, 1, self.latency_spread)
        if self.bandwidth is not None:
            rate = self.bandwidth * _spread(pair, seed, 2, self.bandwidth_spread)
            seconds = seconds + size / rate
        return seconds

    def nodes(self, n: int, seed: int) -> np.ndarray:
        """Seconds that each node computes in a round."""
        return self.compute * _spread(np.arange(n, dtype=np.uint64), seed, 3, self.compute_spread)

    def seconds(
        self,
        n: int,
        edges: Callable[[int], Edges],
        at: Sequence[int],
        size: float,
        *,
        seed: int = 0,
        server: bool = False,
    ) -> np.ndarray:
        """When each node has finished each of the rounds `at`, [len(at), n].

        `edges(t)` are the messages of round t, counted from 0; the same object where nothing
        changes. With `server` they go up to it, and it answers all once the last has arrived.

        >>> chain = np.array([1, 0, 2, 1]), np.array([0, 1, 1, 2])
        >>> Clock(2.0, None, 1.0, 0.0, 0.0, 0.0).seconds(3, lambda t: chain, [1, 2], 8.0).tolist()
        [[3.0, 3.0, 3.0], [6.0, 6.0, 6.0]]
        """
        before: list[Any] = [None, None]

        def links(t: int) -> Links:
            if edges(t) is not before[0]:
                before[:] = edges(t), (*edges(t), self.links(n, edges(t), size, seed))
            return before[1]

        return finished(n, links, self.nodes(n, seed), at, server=server)


def finished(
    n: int,
    links: Callable[[int], Links],
    compute: np.ndarray,
    at: Sequence[int],
    *,
    server: bool = False,
) -> np.ndarray:
    """When each node has finished each of the rounds `at`, [len(at), n].

    `links(t)` are those of round t, counted from 0, sorted by receiver.
    """
    now = np.zeros(n)
    wanted, seen = {r: i for i, r in enumerate(at)}, np.zeros((len(at), n))
    for t in range(max(at, default=0)):
        src, dst, cost = links(t)
        arrived = now[src] + cost
        if server:
            now = arrived.max() + cost + compute
        else:
            heard = now.copy()
            if dst.size:
                begins = np.flatnonzero(np.diff(dst, prepend=-1))
                who = dst[begins]
                heard[who] = np.maximum(heard[who], np.maximum.reduceat(arrived, begins))
            now = heard + compute
        if t + 1 in wanted:
            seen[wanted[t + 1]] = now
    return seen


def _spread(number: np.ndarray, seed: int, stream: int, sigma: float) -> np.ndarray:
    """A log-normal factor of median 1 for each number, the same whenever it is asked for."""
    if not sigma:
        return np.ones(number.size)
    salt = np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64)[0]
    with np.errstate(over="ignore"):  # numbers of 64 bits, mixed (splitmix64)
        z = number * np.uint64(0x9E3779B97F4A7C15) + salt
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    uniform = ((z >> np.uint64(11)).astype(float) + 0.5) / 2**53
    return np.exp(sigma * ndtri(uniform))


@declares("metric")
def clock(
    *,
    latency: Annotated[float, Ge(0), "seconds that a message is on its way, however small"] = 0.05,
    bandwidth: Annotated[
        float | None, Gt(0), "bytes a second of a link; none: size does not matter"
    ] = None,
    compute: Annotated[float, Ge(0), "seconds that a node computes in a round"] = 0.0,
    latency_spread: Annotated[
        float, Ge(0), "of links: standard deviation of the logarithm; 0: all alike"
    ] = 0.0,
    bandwidth_spread: Annotated[float, Ge(0), "of links, in the same way"] = 0.0,
    compute_spread: Annotated[float, Ge(0), "of nodes, in the same way"] = 0.0,
) -> Clock:
    """Seconds that a real network of such links and nodes would have taken so far: `seconds`.

    A round of a node ends when it has heard its neighbours of that round and has computed. Every
    message arrives: the clock is for channels that lose and delay nothing.
    """
    return Clock(latency, bandwidth, compute, latency_spread, bandwidth_spread, compute_spread)
