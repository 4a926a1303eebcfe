"""What all partitions have in common: checked sizes, chunks, whole numbers in proportion."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from peerwise.chunks import Chunks
from peerwise.errors import BadData, BadSetting

Rows: TypeAlias = Sequence[np.ndarray]  # for each node, the numbers of its rows


def checked(x: np.ndarray, y: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The sizes as an array, checked against the table."""
    sizes = np.asarray(sizes)
    if sizes.ndim != 1 or not sizes.size or sizes.dtype.kind not in "iu" or sizes.min() < 0:
        raise BadSetting(f"sizes must be one whole number, 0 or more, for each node, got {sizes}")
    if np.ndim(x) != 2 or np.shape(y) != np.shape(x)[:1]:
        raise BadData(f"x must be [m, d] and y [m], got {np.shape(x)} and {np.shape(y)}")
    if not len(y):
        raise BadData("there are no rows to deal; the table is empty")
    if sizes.sum() > len(y):
        raise BadSetting(
            f"the nodes ask for {sizes.sum()} rows and there are {len(y)}; "
            "take fewer nodes or fewer rows for each"
        )
    return sizes.astype(np.int64)


def cut(rows: np.ndarray, sizes: np.ndarray) -> Rows:
    """Chunks of ordered rows, the first to the first node."""
    return Chunks(rows[: sizes.sum()], sizes)


def deal(rng: np.random.Generator, rows: np.ndarray, sizes: np.ndarray) -> Rows:
    """Cut ordered rows into chunks and give them to the nodes in random order."""
    order = rng.permutation(sizes.size)
    # where each node's chunk begins: as far as the chunks of those before it in this order reach
    begin = np.empty_like(sizes)
    begin[order] = np.cumsum(sizes[order]) - sizes[order]
    if sizes.size and (sizes == sizes[0]).all():
        place = begin // max(int(sizes[0]), 1)
        return cut(rows[: sizes.sum()].reshape(sizes.size, -1)[place].reshape(-1), sizes)
    first = np.cumsum(sizes) - sizes
    return cut(rows[np.arange(sizes.sum()) + np.repeat(begin - first, sizes)], sizes)


def by_class(y: np.ndarray) -> np.ndarray:
    """The order of rows by class; in linear time where classes are few, as they are."""
    y = np.asarray(y)
    if y.dtype.kind in "iu" and y.size and y.min() >= 0 and y.max() < 1 << 16:
        y = y.astype(np.uint16)  # which NumPy sorts by its digits
    return np.argsort(y, kind="stable")


def apportion(share: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers in proportion to `share` that add up to `total`, by largest remainder."""
    exact = share / share.sum() * total
    given: np.ndarray = np.floor(exact).astype(np.int64)
    given[np.argsort(given - exact, kind="stable")[: total - given.sum()]] += 1
    return given


def sized(share: np.ndarray, rows: int, minimum: int) -> np.ndarray:
    """Sizes in proportion to `share`; nodes that would fall below the minimum get the minimum."""
    sizes = np.full(share.size, minimum)
    free = np.ones(share.size, bool)  # nodes above the minimum; each turn may find more below it
    while free.any():
        rest = rows - minimum * int(np.count_nonzero(~free))
        low = free & (share * rest < minimum * share[free].sum())
        if not low.any():
            sizes[free] = apportion(share[free], rest)
            break
        free &= ~low
    return sizes
