"""Which lane does which steps of which node: plain data, fixed before anything is computed.

A node takes as many steps as it has batches, and the next node takes over its lane: all together
cost what their rows cost, and a round is as long as the longest training.
"""

import heapq
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from peerwise.core import Batched

TURNS = 32  # blocks of steps into which the longest training is cut where nodes differ in length
COARSE = 4  # groups within this size ratio draw their batches together
STEP = 8  # the fixed cost of a step, in nodes


class Layout(NamedTuple):
    """Where the rows and the steps of every node lie; nodes are in the order of their groups."""

    ends: list[int]  # of the groups, in nodes, from 0 on
    together: list[tuple[int, int]]  # start and stop of groups that draw batches together
    passes: int  # that follow each other without anything in between
    rows: int  # of the table of all rows; as a place in it, it means no row
    size: np.ndarray  # [n] rows of a node's padded shard
    start: np.ndarray  # [n] its first row in the table
    length: np.ndarray  # [n] its steps in those passes

    def alike(self, first: int, upto: int) -> list[tuple[int, int]]:
        """Start and stop of nodes of equal length among some nodes."""
        changes = first + 1 + np.flatnonzero(np.diff(self.length[first:upto]))
        return list(pairwise([first, *changes.tolist(), upto]))


class Lanes(NamedTuple):
    """Who works in which lane: nodes of different lengths, dealt to few lanes of like length."""

    node: np.ndarray  # [turns, lanes] which node; n: none
    block: np.ndarray  # [turns, lanes] which block, of a list of all nodes' blocks in order
    steps: int  # in a block
    n: int  # nodes
    one_each: bool  # every node has a lane of its own, in order, and one turn does it all


def layout_of(f: Batched, sizes: Sequence[int], counts: Sequence[int]) -> Layout:
    """The layout of work on groups with these rows for each node and these numbers of nodes."""
    passes = f.passes if f.after is None else 1
    size = np.repeat(sizes, counts)
    return Layout(
        ends=[0, *np.cumsum(counts).tolist()],
        together=drawn_together(sizes),
        passes=passes,
        rows=int(size.sum()),
        size=size,
        start=np.cumsum(size) - size,
        length=passes * np.repeat([f.batches(m) for m in sizes], counts),
    )


def drawn_together(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Start and stop of groups put together, of falling sizes.

    Work on weights alone is cheap, and every shape costs a compilation.

    >>> drawn_together([100, 60, 30, 20, 4])
    [(0, 3), (3, 4), (4, 5)]
    """
    cuts, first = [], 0
    while first < len(sizes):
        upto = first + sum(m * COARSE >= sizes[first] for m in sizes[first:])
        cuts.append((first, upto))
        first = upto
    return cuts


def deal_lanes(lengths: np.ndarray, most: int | None = None) -> Lanes:
    """Lanes for nodes of so many steps each: the longest first, each to the shortest lane.

    A step has a fixed cost, that of `STEP` more nodes, however few there are: fewer steps
    are worth some idle lanes. Nodes change places after blocks of steps, `TURNS` times at most
    in the longest node. `most`: no more lanes than that, where not every node may have one.

    >>> lanes = deal_lanes(np.array([6, 3, 3, 2]))
    >>> lanes.node.tolist(), lanes.steps
    ([[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 3, 4], [0, 3, 4], [0, 4, 4]], 1)
    >>> lanes = deal_lanes(np.array([7, 7, 7, 7]), most=3)
    >>> lanes.node.tolist(), lanes.steps
    ([[0, 1], [2, 3]], 7)
    """
    n, longest = len(lengths), max(int(lengths.max()), 1)
    steps = longest if (lengths == lengths[0]).all() else -(-longest // TURNS)
    blocks = -(-lengths // steps)
    fewest = -(-int(blocks.sum()) // int(max(blocks.max(), 1)))
    most = n if most is None else most
    even = -(-n // -(-n // most))  # equally many in every turn, if all are equally long
    tries = {max(1, int(fewest * more)) for more in (1, 1.1, 1.25, 1.5)} | {n}
    tries = {even} | {min(lanes, n, most) for lanes in tries}
    deals = [_dealt(blocks, lanes) for lanes in sorted(tries)]
    lanes = min(deals, key=lambda deal: _turns(blocks, deal) * (len(deal) + STEP))
    shape = max(_turns(blocks, lanes), 1), len(lanes)
    node, block = np.full(shape, n, np.int32), np.zeros(shape, np.int32)
    first = np.cumsum(blocks) - blocks
    for lane, nodes in enumerate(lanes):
        turn = 0
        for v in nodes:
            done = turn + blocks[v]
            node[turn:done, lane], block[turn:done, lane] = v, first[v] + np.arange(blocks[v])
            turn = done
    return Lanes(node, block, steps, n, np.array_equal(node, np.arange(n)[None]))


def _dealt(blocks: np.ndarray, lanes: int) -> list[list[int]]:
    """The nodes of each lane."""
    heap = [(0, lane) for lane in range(lanes)]
    nodes: list[list[int]] = [[] for _ in heap]
    for v in np.argsort(-blocks, kind="stable"):
        load, lane = heapq.heappop(heap)
        nodes[lane].append(int(v))
        heapq.heappush(heap, (load + int(blocks[v]), lane))
    return nodes


def _turns(blocks: np.ndarray, lanes: list[list[int]]) -> int:
    return max(int(blocks[nodes].sum()) for nodes in lanes)
