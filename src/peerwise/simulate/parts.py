"""Which nodes go to which device: parts that few links cross, all of one shape.

Plain NumPy and the same in every process, so that all processes have the same tables.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import breadth_first_order, reverse_cuthill_mckee

from peerwise.errors import BadSetting, UnknownName, extra
from peerwise.shards import Shards
from peerwise.simulate.nodes import Blocks
from peerwise.topology import Topology

# Of another number of nodes side by side XLA may sum in another order. On a CPU, blocks of nodes
# whose size does not depend on the number of parts keep bits the same.
LEAST, MOST, SHARE = 16, 512, 64  # places of a part; nodes in a block, and at most 1 in SHARE
CUTS = ("auto", "order", "metis")


class Division(NamedTuple):
    """The place of every node: nodes of like rows and degree lie together in every part."""

    part: np.ndarray  # [n]
    place: np.ndarray  # [n] in its part
    numbers: np.ndarray  # [parts, p] the node at each place; n: none
    group: np.ndarray  # [p] whose rows have the shape of those at each place (`Shards.groups`)
    bucket: np.ndarray  # [p] the same of the slots (`Topology.table`)
    blocks: Blocks  # how many nodes work side by side on a CPU

    @property
    def n(self) -> int:
        """How many nodes there are."""
        return self.part.size

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return self.numbers.shape[0]

    @property
    def order(self) -> np.ndarray:
        """Where each node lies among the places of all parts."""
        return (self.part * self.numbers.shape[1] + self.place).astype(np.int32)

    def __hash__(self) -> int:
        return id(self)


def divide(topology: Topology, shards: Shards, parts: int, cut: str = "auto") -> Division:
    """Nodes in as many parts, of equally many nodes (by one at most, METIS: by a few in a hundred).

    `cut`: "order" takes nodes in their order, "metis" asks METIS; "auto" takes a tree branch by
    branch, and of another graph the better of its own order and that of Cuthill and McKee.
    """
    n = topology.n
    check_cut(cut)
    check_count(parts, n)
    part = _parts_of(topology, parts, cut)
    group, bucket = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for i, held in enumerate(shards.groups):
        group[np.asarray(held.nodes)] = i
    buckets = 1 if topology.server else len(topology.table)
    if buckets > 1:
        for i, (nodes, _) in enumerate(topology.table):
            bucket[np.asarray(nodes)] = i
    kind = group * buckets + bucket
    count = np.zeros((len(shards.groups) * buckets, parts), np.int64)
    np.add.at(count, (kind, part), 1)
    room = count.max(1)  # places of a kind in every part
    links = block_of(topology.links.src.shape[-1])
    blocks = Blocks(_blocks(group, len(shards.groups)), _blocks(bucket, buckets), links)
    square = room.reshape(-1, buckets)  # a view
    for i, block in enumerate(blocks.groups):
        square[i, -1] += max(0, block - int(square[i].sum()))
    for i, block in enumerate(blocks.buckets):
        square[-1, i] += max(0, block - int(square[:, i].sum()))
    room[room.argmax()] += max(0, LEAST - int(room.sum()))
    order = np.lexsort((kind, part))  # stable: by number within
    new = np.append(True, np.diff(part[order] * room.size + kind[order]) != 0)
    first = np.flatnonzero(new)
    rank = np.arange(n) - np.repeat(first, np.diff(np.append(first, n)))
    place = np.empty(n, np.int64)
    place[order] = (np.cumsum(room) - room)[kind[order]] + rank
    numbers = np.full((parts, int(room.sum())), n, np.int32)
    numbers[part, place] = np.arange(n)
    kinds = np.repeat(np.arange(room.size), room)
    return Division(part, place, numbers, kinds // buckets, kinds % buckets, blocks)


def _blocks(kind: np.ndarray, kinds: int) -> tuple[int, ...]:
    return tuple(block_of(int(count)) for count in np.bincount(kind, minlength=kinds))


def block_of(nodes: int) -> int:
    """The next power of two down from a share of the nodes, 1 at least."""
    return 1 << int(np.log2(np.clip(nodes // SHARE, 1, MOST)))


def check_cut(cut: str) -> None:
    """Refuse an unknown way to cut."""
    if cut not in CUTS:
        raise UnknownName("way to cut a network", cut, CUTS)


def check_count(parts: int, n: int) -> None:
    """Refuse more parts than nodes."""
    if parts > n:
        raise BadSetting(
            f"{parts} devices cannot share {n} node{'s'[: n > 1]}: each needs one at least; take "
            "fewer devices"
        )


def crossing(part: np.ndarray, src: np.ndarray, dst: np.ndarray) -> int:
    """How many links join nodes of different parts."""
    return int((part[src] != part[dst]).sum())


def _parts_of(topology: Topology, parts: int, cut: str) -> np.ndarray:
    """The part of each node."""
    n, own = topology.n, np.arange(topology.n)
    if cut == "order" or topology.server:
        return _in_order(own, parts)
    src, dst = _all_links(topology)
    matrix = coo_array((np.ones(src.size, np.int32), (src, dst)), (n, n)).tocsr()
    matrix = (matrix + matrix.T).tocsr()  # METIS and the orders below need both directions
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    if cut == "metis":
        return _metis(matrix, parts)
    if matrix.nnz == 2 * (n - 1):
        order, parent = breadth_first_order(matrix, 0)
        if order.size == n:
            return _in_order(_branches(order, parent), parts)
    near = reverse_cuthill_mckee(matrix.astype(np.int32), symmetric_mode=True)
    tries = [_in_order(order, parts) for order in (own, near)]
    return min(tries, key=lambda part: crossing(part, src, dst))


def _in_order(order: np.ndarray, parts: int) -> np.ndarray:
    """Equal runs of an order."""
    part = np.empty(order.size, np.int64)
    part[order] = np.arange(order.size) * parts // order.size
    return part


def _all_links(topology: Topology) -> tuple[np.ndarray, np.ndarray]:
    """The links of all graphs, each as often as it is there."""
    src, dst, weight = (np.asarray(a).reshape(-1) for a in topology.links[:3])
    there = weight > 0
    if topology.before is not None:
        there |= (np.asarray(topology.before) > 0).any(-1).reshape(-1)
    return src[there], dst[there]


def _metis(matrix: csr_array, parts: int) -> np.ndarray:
    pymetis = extra("pymetis")
    links = pymetis.CSRAdjacency(matrix.indptr, matrix.indices)
    _, part = pymetis.part_graph(parts, links, eweights=matrix.data.astype(int))
    part = np.asarray(part, np.int64)
    if np.unique(part).size < parts:
        raise BadSetting(
            f"METIS left some of {parts} parts without a node: take fewer devices, or the cut "
            "'auto'"
        )
    return part


def _branches(order: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """A tree's nodes, branch after branch, the largest last: few links cross any place in it.

    At most log2(n) do. `order` and `parent` are those of a walk in breadth from node 0.
    """
    n = order.size
    where = np.empty(n, np.int64)
    where[order] = np.arange(n)
    above = where[parent[order[1:]]]  # of the nodes of the walk but the first
    levels = []  # begin and end of each depth in the walk
    begin, end = 0, 1
    while end < n:
        levels.append((begin, end))
        begin, end = end, int(np.searchsorted(above, end)) + 1
    levels.append((begin, n))
    size = np.ones(n, np.int64)  # of each branch, by place in the walk
    for begin, end in levels[:0:-1]:
        np.add.at(size, above[begin - 1 : end - 1], size[begin:end])
    at = np.zeros(n, np.int64)
    for begin, end in levels[1:]:
        up, own = above[begin - 1 : end - 1], size[begin:end]
        by = np.lexsort((own, up))
        total = np.cumsum(own[by])
        first = np.append(True, np.diff(up[by]) != 0)
        before = np.maximum.accumulate(np.where(first, total - own[by], 0))
        at[begin + by] = at[up[by]] + 1 + total - own[by] - before
    result = np.empty(n, np.int64)
    result[at] = order
    return result
