"""Rows packed by node: equal shapes for arrays, without padding every node to the largest."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from peerwise.core import Shard
from peerwise.errors import BadData

__all__ = ["Group", "Shards", "pack", "pooled", "roomy"]

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
    """The next of few sizes: rows padded to it, many tables need few compiled programs.

    >>> [roomy(m) for m in (1, 32, 33, 100)]
    [32, 32, 48, 108]
    """
    size = 32
    while size < rows:
        size = size * 3 // 2
    return size


def pack(x: np.ndarray, y: np.ndarray, rows: Sequence[np.ndarray]) -> Shards:
    """Deal `x[rows[v]], y[rows[v]]` to node v. A node may hold no rows; the network may not.

    >>> import numpy as np
    >>> shards = pack(np.zeros((7, 2)), np.zeros(7), [np.arange(5), np.array([5]), np.array([6])])
    >>> shards.n, [tuple(map(int, g.nodes)) for g in shards.groups]
    (3, [(0,), (1, 2)])
    """
    sizes = np.array([len(r) for r in rows], dtype=np.int64)
    if sizes.sum() == 0:
        raise BadData("no node holds any row: give at least one row to at least one node")
    flat = np.concatenate([np.asarray(r, dtype=np.int64) for r in rows])
    starts = np.cumsum(sizes) - sizes
    groups = []
    left = np.argsort(-sizes, kind="stable")
    while left.size:
        length = max(int(sizes[left[0]]), 1)
        count = int((sizes[left] * GROWTH > length).sum()) if length > 1 else left.size
        nodes = np.sort(left[: max(count, 1)])
        left = left[max(count, 1) :]
        column = np.arange(length)
        real = column < sizes[nodes][:, None]
        index = flat[np.where(real, starts[nodes][:, None] + column, 0)]
        weight = real.astype(x.dtype if np.issubdtype(x.dtype, np.floating) else np.float32)
        shard = Shard(x[index], y[index].astype(np.int32), weight)
        groups.append(Group(nodes.astype(np.int32), shard))
    return Shards(tuple(groups))


def pooled(x: np.ndarray, y: np.ndarray, rows: Sequence[np.ndarray]) -> Shards:
    """All rows of all nodes on one node: what a centralised learner would have."""
    return pack(x, y, [np.concatenate([np.asarray(r, dtype=np.int64) for r in rows])])
