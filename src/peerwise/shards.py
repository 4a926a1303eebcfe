"""Rows packed by node: equal shapes for arrays, without padding every node to the largest."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from peerwise.chunks import joined, lengths
from peerwise.core import Shard, aligned
from peerwise.errors import BadData

__all__ = ["Group", "Shards", "pack", "pack_alike", "pooled", "roomy"]

GROWTH = 1.5  # a group holds shards down to 1/GROWTH of its largest: padding costs a third at most


class Group(NamedTuple):
    """Nodes of similar size, their rows padded to the largest among them."""

    nodes: Any  # [g] node numbers
    shard: Shard  # [g, m, ...]


class Shards(NamedTuple):
    """The rows of every node of a network."""

    groups: tuple[Group, ...]

    @property
    def n(self) -> int:
        """How many nodes there are."""
        return sum(len(group.nodes) for group in self.groups)

    @property
    def sizes(self) -> np.ndarray:
        """How many rows each node holds."""
        sizes = np.zeros(self.n)
        for group in self.groups:
            sizes[np.asarray(group.nodes)] = np.asarray(group.shard.weight).sum(-1)
        return sizes

    @property
    def rows(self) -> int:
        """How many rows there are in all."""
        return int(self.sizes.sum())

    def of(self, node: int) -> Shard:
        """The (padded) shard of one node."""
        for group in self.groups:
            (at,) = np.nonzero(np.asarray(group.nodes) == node)
            if at.size:
                return Shard(*(leaf[at[0]] for leaf in group.shard))
        raise BadData(f"there is no node {node}: the network has nodes 0 to {self.n - 1}")


def roomy(rows: int) -> int:
    """The next of few sizes: tables padded to it share a few compiled programs.

    >>> [roomy(m) for m in (1, 32, 33, 100)]
    [32, 32, 48, 108]
    """
    size = 32
    while size < rows:
        size = size * 3 // 2
    return size


def _cuts(sizes: np.ndarray) -> list[tuple[int, int, int]]:
    """Groups of nodes in order of falling size: start, stop, and the rows to which it is padded."""
    cuts, start = [], 0
    while start < sizes.size:
        length = max(int(sizes[start]), 1)
        count = int((sizes[start:] * GROWTH > length).sum()) if length > 1 else sizes.size - start
        cuts.append((start, start + max(count, 1), length))
        start = cuts[-1][1]
    return cuts


BLOCK = 1 << 20  # rows moved at a time: what is needed on the way stays small


def _grouped(
    x: np.ndarray,
    y: np.ndarray,
    rows: Sequence[np.ndarray],
    cuts: Sequence[tuple[int, int, int]],
) -> Shards:
    sizes, flat = lengths(rows), joined(rows)
    if sizes.sum() == 0:
        raise BadData("no node holds any row: give at least one row to at least one node")
    low, high = int(flat.min()), int(flat.max())
    if low < 0 or high >= len(x):
        odd = low if low < 0 else high
        raise BadData(f"there is no row {odd}: the table has rows 0 to {len(x) - 1}")
    starts = np.cumsum(sizes) - sizes
    order = np.argsort(-sizes, kind="stable")
    kind = x.dtype if np.issubdtype(x.dtype, np.floating) else np.dtype(np.float32)
    groups = []
    for start, stop, length in cuts:
        nodes = np.sort(order[start:stop])
        shape = nodes.size, length
        whole = bool((sizes[nodes] == length).all())
        if whole and nodes.size == sizes.size and _in_order(flat):
            # the table has the rows node by node: they need not be moved
            held, weight = x[: flat.size].reshape(*shape, *x.shape[1:]), aligned(shape, kind)
            weight[:] = 1
            labels = y[: flat.size].reshape(shape).astype(np.int32, copy=False)
        else:
            held, labels = aligned((*shape, *x.shape[1:]), x.dtype), aligned(shape, np.int32)
            weight = aligned(shape, kind)
            step = max(BLOCK // length, 1)
            for at in range(0, nodes.size, step):
                some = nodes[at : at + step]
                here = slice(at, at + some.size)
                index = starts[some][:, None] + np.arange(length)
                if whole:
                    index, weight[here] = flat[index], 1
                else:
                    real = np.arange(length) < sizes[some][:, None]
                    index, weight[here] = flat[np.where(real, index, 0)], real
                # without a mode it would first be written elsewhere; the bounds are checked above
                np.take(x, index, axis=0, out=held[here], mode="clip")
                labels[here] = y[index]
                if not whole:
                    held[here][~real] = 0  # padding, and not a row of another node
        groups.append(Group(nodes.astype(np.int32), Shard(held, labels, weight)))
    return Shards(tuple(groups))


def _in_order(flat: np.ndarray) -> bool:
    """Whether these are 0, 1, 2 and so on."""
    return not flat[0] and bool((flat[1:] - flat[:-1] == 1).all())


def pack(x: np.ndarray, y: np.ndarray, rows: Sequence[np.ndarray]) -> Shards:
    """Deal `x[rows[v]], y[rows[v]]` to node v. A node may hold no rows; the network may not.

    >>> import numpy as np
    >>> shards = pack(np.zeros((7, 2)), np.zeros(7), [np.arange(5), np.array([5]), np.array([6])])
    >>> shards.n, [tuple(map(int, g.nodes)) for g in shards.groups]
    (3, [(0,), (1, 2)])
    """
    return _grouped(x, y, rows, _cuts(-np.sort(-lengths(rows))))


def pack_alike(x: Any, y: Any, deals: Sequence[Sequence[np.ndarray]]) -> list[Shards]:
    """Rows dealt in several ways to as many nodes, in equal shapes: replicas run side by side.

    x and y are one table, or lists of as many as there are deals. The largest shards of all deals
    have one length, and so on down.

    >>> import numpy as np
    >>> a, b = np.split(np.arange(6), [5]), np.split(np.arange(6), [2])
    >>> [s.groups[0].shard.x.shape for s in pack_alike(np.zeros((6, 2)), np.zeros(6), [a, b])]
    [(1, 5, 2), (1, 5, 2)]
    """
    if len({len(rows) for rows in deals}) != 1:
        raise BadData("deals that run side by side must have as many nodes each")
    xs, ys = (t if isinstance(t, list) else [t] * len(deals) for t in (x, y))
    largest = np.max([-np.sort(-lengths(rows)) for rows in deals], axis=0)
    return [_grouped(*each, _cuts(largest)) for each in zip(xs, ys, deals, strict=True)]


def pooled(x: np.ndarray, y: np.ndarray, rows: Sequence[np.ndarray]) -> Shards:
    """All rows of all nodes on one node: what a centralised learner would have."""
    return pack(x, y, [joined(rows)])
