"""The mask graph: which pairs of members share a secret.

Honest members that hang together through one another, without colluders, hide all but their sum.
So every member has k partners drawn at random from all, whoever its neighbours in the network are:
along a tree one colluder would cut honest members apart.
"""

import hashlib
from collections.abc import Sequence
from math import comb, exp, inf, lgamma, log

import numpy as np

from peerwise.errors import BadSetting

ALL_PAIRS = 64  # up to so many members each is paired with every other: it costs less than a ms
CHANCE = 2.0**-40  # that honest members fall apart, where pairs are drawn


def mask_graph(members: Sequence[str], seed: bytes, k: int) -> dict[str, tuple[str, ...]]:
    """By member: its k partners, in a graph that all who have the seed draw alike.

    A random regular graph by pairing (Steger and Wormald, 1999). Its numbers come from SHAKE-256,
    so that no version of a library draws another.
    """
    n = len(members)
    check_partners(n, k)
    if len(set(members)) < n:
        raise BadSetting("a member comes twice; each has one key")
    names = sorted(members)  # the order in which somebody lists them must not matter
    if k == n - 1:
        return {a: tuple(b for b in names if b != a) for a in names}
    partners: dict[str, list[str]] = {name: [] for name in names}
    for i, j in _drawn(n, k, seed):
        partners[names[i]].append(names[j])
        partners[names[j]].append(names[i])
    return {name: tuple(sorted(others)) for name, others in partners.items()}


def check_partners(n: int, k: int) -> None:
    """Refuse a number of partners that no graph of n members has."""
    if n < 2:
        raise BadSetting(f"a sealed sum needs 2 members or more, got {n}")
    if not 1 <= k < n:
        raise BadSetting(f"partners must be from 1 to {n - 1} for {n} members, got {k}")
    if n * k % 2 or (k == 1 and n > 2):
        raise BadSetting(f"{n} members cannot have {k} partners each; give {k + 1}")


def _drawn(n: int, k: int, seed: bytes) -> list[tuple[int, int]]:
    """The pairs of a random k-regular graph: ends paired at random, those that do not fit again."""
    for attempt in range(1000):
        edges: set[tuple[int, int]] = set()
        ends = np.repeat(np.arange(n), k)
        for turn in range(1000):
            if not len(ends):
                return sorted(edges)
            ends = ends[_order(len(ends), seed, attempt, turn)]
            left = []
            for a, b in ends.reshape(-1, 2).tolist():
                pair = (min(a, b), max(a, b))
                if a == b or pair in edges:
                    left += [a, b]
                else:
                    edges.add(pair)
            if len(left) == len(ends) and not _can_go_on(left, edges):
                break
            ends = np.array(left, int)
    raise BadSetting(f"no graph of {n} members with {k} partners each was found; give another k")


def _can_go_on(left: list[int], edges: set[tuple[int, int]]) -> bool:
    """Whether any two of the ends that are left may still be paired."""
    rest = sorted(set(left))
    return any((a, b) not in edges for i, a in enumerate(rest) for b in rest[i + 1 :])


def _order(size: int, seed: bytes, attempt: int, turn: int) -> np.ndarray:
    """A random order of so many things."""
    text = b"peerwise mask graph %d %d " % (attempt, turn) + seed
    drawn = np.frombuffer(hashlib.shake_256(text).digest(8 * size), "<u8")
    return np.argsort(drawn, kind="stable")


def partners_wanted(n: int, colluders: int) -> int:
    """How many partners each member has by default, if so many of the members collude.

    All others up to `ALL_PAIRS` members: then any two honest ones are partners. With more, the
    least even number for which the expected number of honest members or groups that are cut off
    is below `CHANCE`; all others, too, where that is more than half of them, because graphs of
    nearly all pairs are hard to draw.
    """
    if not 0 <= colluders <= n - 2:
        raise BadSetting(f"of {n} members from 0 to {n - 2} may collude, got {colluders}")
    if n <= ALL_PAIRS:
        return n - 1
    for k in range(4, n // 2 + 1, 2):
        if expected_parts(n, colluders, k) <= CHANCE:
            return k
    return n - 1


def expected_parts(n: int, colluders: int, k: int) -> float:
    """The expected number of groups of honest members that no honest partner joins to the others.

    It bounds the probability that there is one. A member that stands alone is exact:
    C(colluders, k) / C(n - 1, k) for each. Larger groups are as in a random pairing of ends, which
    a random graph resembles. 0 where every two members are partners.
    """
    honest = n - colluders
    if k == n - 1 or honest < 2:
        return 0.0
    total = honest * comb(colluders, k) / comb(n - 1, k)
    for s in range(2, honest // 2 + 1):
        more = exp(min(_cut_off(s, honest, colluders, k), 700.0))
        total += more
        if s > 2 and more < 1e-6 * total:  # the larger, the less likely
            break
    return total


def _cut_off(s: int, honest: int, colluders: int, k: int) -> float:
    """Log of the expected number of groups of s honest members that meet no other honest one.

    Of their ends, 2j are paired within the group and the others with ends of colluders.
    """
    inside, outside, all_ends = k * s, k * colluders, k * (honest + colluders)
    # in a graph without double pairs a group of s holds at most s (s - 1) / 2
    most = min(inside // 2, s * (s - 1) // 2)
    ways = -inf
    for j in range(most + 1):
        met = inside - 2 * j
        if met > outside:
            continue
        term = _log_comb(inside, met) + _log_pairings(2 * j) + lgamma(outside + 1)
        term += _log_pairings(all_ends - inside - met) - lgamma(outside - met + 1)
        ways = max(ways, term) + log(1 + exp(-abs(ways - term))) if ways > -inf else term
    return ways - _log_pairings(all_ends) + _log_comb(honest, s)


def _log_comb(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def _log_pairings(ends: int) -> float:
    """Log of the number of ways to pair an even number of ends."""
    half = ends // 2
    return lgamma(ends + 1) - lgamma(half + 1) - half * log(2)
