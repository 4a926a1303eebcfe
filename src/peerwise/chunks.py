"""A list of many arrays that lie one after the other in one: a million nodes' row numbers."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np


class Chunks(Sequence[np.ndarray]):
    """Reads as a list of arrays; none of them exists before it is asked for.

    >>> rows = Chunks(np.arange(5), np.array([2, 0, 3]))
    >>> [r.tolist() for r in rows], len(rows)
    ([[0, 1], [], [2, 3, 4]], 3)
    """

    def __init__(self, flat: np.ndarray, sizes: np.ndarray):
        self.flat, self.sizes = flat, np.asarray(sizes, np.int64)
        self._ends = np.cumsum(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    @overload
    def __getitem__(self, place: int) -> np.ndarray: ...

    @overload
    def __getitem__(self, place: slice) -> list[np.ndarray]: ...

    def __getitem__(self, place: int | slice) -> np.ndarray | list[np.ndarray]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(f"there are {len(self)} chunks, and no chunk {place}")
        place %= len(self)
        end = self._ends[place]
        return self.flat[end - self.sizes[place] : end]

    def __iter__(self) -> Iterator[np.ndarray]:
        begin = 0
        for end in self._ends.tolist():
            yield self.flat[begin:end]
            begin = end


def joined(arrays: Any) -> np.ndarray:
    """All arrays of a list as one; those of `Chunks` are one already."""
    if isinstance(arrays, Chunks):
        return arrays.flat
    none = np.zeros(0, np.int64)  # there may be no array
    return np.concatenate([none, *(np.asarray(a, dtype=np.int64) for a in arrays)])


def lengths(arrays: Any) -> np.ndarray:
    """The length of each array of a list."""
    if isinstance(arrays, Chunks):
        return arrays.sizes
    return np.array([len(a) for a in arrays], np.int64)
