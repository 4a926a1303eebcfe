"""What the entries of a model's statistics are: how far a row can move them follows from it."""

from typing import NamedTuple

import numpy as np


class Entries(NamedTuple):
    """Entry by entry of phi(x), or of psi(x): x_left * x_right, where -1 stands for the factor 1.

    Entries of one `group` with no factor are a histogram: a row is in one of them at most.
    `counted` is the entry of phi that counts the rows over which an entry is summed.
    """

    left: np.ndarray
    right: np.ndarray
    group: np.ndarray
    counted: np.ndarray

    def moved(self, groups: int, counts: int) -> "Entries":
        """The same behind so many groups and entries; entries counted by the class stay so."""
        count = np.where(self.counted < 0, 0, self.counted + counts)
        return self._replace(group=self.group + groups, counted=count)


def factors(left: np.ndarray, right: np.ndarray, count: np.ndarray | int = -1) -> Entries:
    """Entries that are a question each; -1 as the count is that of the class."""
    size = len(left)
    return Entries(
        np.asarray(left, np.int32),
        np.asarray(right, np.int32),
        np.arange(size, dtype=np.int32),
        np.broadcast_to(np.asarray(count, np.int32), (size,)),
    )


def histograms(feature: np.ndarray) -> Entries:
    """Cells; those of one feature hold each row once at most."""
    none = np.full(len(feature), -1, np.int32)
    return Entries(none, none, np.asarray(feature, np.int32), none)


def joined(parts: list[Entries]) -> Entries:
    """One after the other; groups of different parts are different."""
    moved, groups, size = [], 0, 0
    for part in parts:
        moved.append(part.moved(groups, size))
        groups += int(part.group.max(initial=-1)) + 1
        size += len(part.left)
    return Entries(*(np.concatenate(arrays) for arrays in zip(*moved, strict=True)))


def side_by_side(parts: list[Entries]) -> Entries:
    """Shared entries one after the other, whose counts are places in phi already."""
    groups = np.cumsum([0, *(int(p.group.max(initial=-1)) + 1 for p in parts)])
    moved = [p._replace(group=p.group + g) for p, g in zip(parts, groups, strict=False)]
    return Entries(*(np.concatenate(arrays) for arrays in zip(*moved, strict=True)))
