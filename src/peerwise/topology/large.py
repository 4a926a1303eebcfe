"""Edges of large random graphs, drawn by arrays: a million nodes in seconds.

Smaller graphs are drawn as they always were, so that a seed means the same graph; see `graphs`.
"""

import numpy as np
from scipy.sparse import csr_array

from peerwise.core import aligned

LARGE = 20_000  # nodes from which on graphs are drawn by arrays
BLOCK = 1 << 14  # nodes whose links are put in order at a time

Edges = tuple[np.ndarray, np.ndarray]


def both_ways(n: int, u: np.ndarray, v: np.ndarray) -> Edges:
    """The links (src, dst) of the edges u - v in both directions, by dst, then by src.

    In linear time once the edges are sorted, which random ones often are already: a receiver's
    links from lower numbers stand in the order of the edges, those from higher ones are counted
    into place, and each part goes after what comes before it.
    """
    kind = np.int32 if max(n, 2 * u.size) < 2**31 else np.int64
    u, v = (a.astype(kind, copy=False) for a in (u, v))
    low, high = np.minimum(u, v), np.maximum(u, v)
    rises = (high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))
    if not rises.all():
        codes = np.sort(high.astype(np.int64) * n + low)
        high = (codes // n).astype(kind)
        low = (codes - high * np.int64(n)).astype(kind)
    ends = np.append(kind(0), np.cumsum(np.bincount(high, minlength=n), dtype=kind))
    by_low = csr_array((np.zeros(low.size, np.int8), low, ends), (n, n)).tocsc()
    starts, upper = by_low.indptr, by_low.indices
    starts = starts.astype(kind, copy=False)
    src, dst = (aligned((2 * low.size,), kind) for _ in range(2))
    for a in range(0, n, BLOCK):  # what is needed on the way stays small
        b = min(a + BLOCK, n)
        here = slice(ends[a] + starts[a], ends[b] + starts[b])
        from_lower, from_higher = np.diff(ends[a : b + 1]), np.diff(starts[a : b + 1])
        # each goes after those of the other part that are for receivers up to its own
        after = np.repeat(starts[a:b] - starts[a], from_lower)
        src[here][np.arange(after.size) + after] = low[ends[a] : ends[b]]
        after = np.repeat(ends[a + 1 : b + 1] - ends[a], from_higher)
        src[here][np.arange(after.size) + after] = upper[starts[a] : starts[b]]
        dst[here] = np.repeat(np.arange(a, b, dtype=kind), from_lower + from_higher)
    return src, dst


def is_connected(n: int, src: np.ndarray, dst: np.ndarray) -> bool:
    """Whether links in both directions, sorted by receiver, join all nodes.

    Nodes take the lowest number of their neighbours, groups that have come together the lowest of
    all theirs, until nothing changes: a few passes over all links, of which the first needs only
    each node's first, which is from its lowest neighbour.
    """
    counts = np.bincount(dst, minlength=n)
    if not counts.all():
        return n == 1
    ends = np.append(0, np.cumsum(counts))
    group = _root(np.minimum(src[ends[:-1]], np.arange(n, dtype=src.dtype)))
    while group.any():
        lowest = np.arange(n, dtype=src.dtype)  # by group; a group is called by its lowest node
        for a in range(0, n, BLOCK):
            b = min(a + BLOCK, n)
            if group[a:b].any():
                theirs = group[src[ends[a] : ends[b]]]
                near = np.minimum.reduceat(theirs, ends[a:b] - ends[a])
                np.minimum.at(lowest, group[a:b], near)
        lowest = _root(lowest)
        if (lowest[group] == group).all():
            return False
        group = lowest[group]
    return True


def _root(above: np.ndarray) -> np.ndarray:
    """Whom each reaches in the end, going from one to the one above it, of a lower number."""
    while (above != (further := above[above])).any():
        above = further
    return above


def prufer_tree(sequence: np.ndarray) -> np.ndarray:
    """The edges [n - 1, 2] of the labelled tree with a Prüfer sequence, in linear time."""
    n = len(sequence) + 2
    degree = (np.bincount(sequence, minlength=n) + 1).tolist()
    parents, leaves = sequence.tolist(), []
    first = leaf = degree.index(1)  # the smallest leaf; `first` only ever goes up
    for parent in parents:
        leaves.append(leaf)
        degree[parent] -= 1
        if degree[parent] == 1 and parent < first:
            leaf = parent
        else:
            first += 1
            while degree[first] != 1:
                first += 1
            leaf = first
    leaves.append(leaf)
    return np.column_stack([np.array(leaves), np.append(sequence, n - 1)])


def distinct(rng: np.random.Generator, total: int, count: int) -> np.ndarray:
    """So many different numbers below `total`, of which they are a small part, sorted."""
    drawn = np.zeros(0, np.int64)
    while drawn.size < count:
        more = rng.integers(total, size=count - drawn.size)
        more.sort()
        twice = np.flatnonzero(more[1:] == more[:-1])
        more = np.delete(more, twice) if twice.size else more
        if not drawn.size:
            drawn = more
            continue
        at = np.searchsorted(drawn, more)
        new = drawn[np.minimum(at, drawn.size - 1)] != more
        drawn = np.insert(drawn, at[new], more[new])
    return drawn


def preferential(rng: np.random.Generator, n: int, m: int) -> Edges:
    """Nodes join a star of m + 1 one by one, with m edges to nodes in proportion to degree.

    The ends of all edges stand in a row, two to an edge, and a node that joins takes m places in
    it at random. A place holds a node that joined, or what an earlier edge took: followed back all
    at once, in as many steps as the longest such chain. A neighbour that a node takes
    twice is drawn again the second time.
    """
    new = np.repeat(np.arange(m + 1, n), m)  # the node that joins by each edge
    before = 2 * (m + (new - (m + 1)) * m)  # ends in the row when it joins
    place = rng.integers(before)
    while True:
        taken = _followed(place, m)
        again = _repeated(taken.reshape(-1, m))
        if not again.size:
            break
        place[again] = rng.integers(before[again])
    hub = np.zeros(m, np.int64)
    return np.append(hub, taken), np.append(np.arange(1, m + 1), new)


def _repeated(taken: np.ndarray) -> np.ndarray:
    """Where, counted through, a row holds what it holds before."""
    rows = np.flatnonzero((np.diff(np.sort(taken, axis=1), axis=1) == 0).any(1))
    order = np.argsort(taken[rows], axis=1, kind="stable")
    same = np.diff(np.take_along_axis(taken[rows], order, axis=1), axis=1) == 0
    return (taken.shape[1] * rows[:, None] + order[:, 1:])[same]


def _followed(place: np.ndarray, m: int) -> np.ndarray:
    """The node that stands at each place of the row of ends.

    Ends 0 to 2m - 1 are those of the star, hub first; after them, edge by edge, who joined and what
    it took.
    """
    at = place.copy()
    while True:
        back = (at >= 2 * m) & (at % 2 == 1)  # what an earlier edge took
        if not back.any():
            break
        at[back] = place[(at[back] - 2 * m) // 2]
    star = at < 2 * m
    joined = m + 1 + (at - 2 * m) // (2 * m)
    return np.where(star, np.where(at % 2 == 0, 0, at // 2 + 1), joined)


def pairing(rng: np.random.Generator, n: int, k: int) -> Edges:
    """A graph in which every node has k neighbours: ends paired at random, bad pairs again.

    A pair is bad if it joins a node to itself or is there already. Bad ones are mixed with as many
    good ones, so that there is always a way out.
    """
    u, v = rng.permutation(np.repeat(np.arange(n), k)).reshape(2, -1)
    while True:
        low, high = np.minimum(u, v), np.maximum(u, v)
        codes = high * n + low
        bad = u == v
        bad[_seen_before(codes)] = True
        if not bad.any():
            return low, high
        again = np.flatnonzero(bad)
        again = np.union1d(again, rng.integers(u.size, size=again.size + 1))
        ends = rng.permutation(np.append(u[again], v[again]))
        u[again], v[again] = ends.reshape(2, -1)


def _seen_before(codes: np.ndarray) -> np.ndarray:
    """Where a number stands that stands earlier, too; few do."""
    ordered = np.sort(codes)
    twice = np.unique(ordered[1:][np.diff(ordered) == 0])
    near = np.minimum(np.searchsorted(twice, codes), max(twice.size - 1, 0))
    where = np.flatnonzero(twice[near] == codes) if twice.size else np.zeros(0, np.int64)
    order = np.argsort(codes[where], kind="stable")
    return where[order[1:][np.diff(codes[where][order]) == 0]]
