"""What the entries of a design are: counts, sums of numbers, of products, cells of histograms."""

from typing import NamedTuple

import numpy as np

from peerwise.core import Array
from peerwise.privacy.design import Design


class Kinds(NamedTuple):
    """Which entries of phi are what, and of psi which products; places in phi."""

    first: np.ndarray  # sums of a number
    second: np.ndarray  # sums of products of two numbers
    counts: np.ndarray  # rows that have a number
    cells: np.ndarray  # of histograms
    group: np.ndarray  # the histogram of each cell, 0, 1, ...
    left: np.ndarray  # for every product, of phi or of psi: the place of its factors in `first`
    right: np.ndarray

    @property
    def member(self) -> np.ndarray:
        """Which cell belongs to which histogram [k, g], 0 or 1."""
        return (self.group[:, None] == np.arange(self.group.max() + 1)).astype(float)

    @property
    def features(self) -> int:
        """How many numbers and histograms there are."""
        return len(self.first) + len(np.unique(self.group))

    @property
    def square(self) -> np.ndarray:
        """The place of the square of each number among the products."""
        square = np.flatnonzero(self.left == self.right)
        return square[np.argsort(self.left[square])]

    @property
    def place(self) -> np.ndarray:
        """The place of the product of every two numbers among the products [d, d]."""
        place = np.zeros((len(self.first),) * 2, np.int32)
        place[self.left, self.right] = place[self.right, self.left] = np.arange(len(self.left))
        return place


class Seen(NamedTuple):
    """What was released, in coordinates, and what is known of the counts of classes."""

    lines: Array  # [c, q]
    noise: Array  # [q], the variance of the noise in each
    rows: Array  # [c], by which sums are divided
    unsure: Array  # the variance of what is not known of them
    reach: Array  # [q]
    middle: Array  # [q]

    @property
    def share(self) -> Array:
        """The shares of the classes [c, 1]."""
        return (self.rows / self.rows.sum())[:, None]

    @property
    def freedom(self) -> int:
        """How many independent differences there are between classes."""
        return max(self.lines.shape[0] - 1, 1)


def kinds_of(design: Design) -> Kinds:
    """The kinds of a design's entries."""
    lines, sums = design.entries
    width = np.bincount(lines.group)[lines.group]
    place = np.arange(len(lines.left))
    number = lines.left >= 0
    first = place[number & (lines.right < 0)]
    second = place[number & (lines.right >= 0)]
    cells = place[~number & (width > 1)]
    counts = place[~number & (width == 1) & (place > 0)]
    _, group = np.unique(lines.group[cells], return_inverse=True)
    of = {int(column): i for i, column in enumerate(lines.left[first])}
    products = sums if sums is not None else lines._replace(
        left=lines.left[second], right=lines.right[second]
    )  # fmt: skip
    left, right = (
        np.array([of[int(column)] for column in factor], np.int32)
        for factor in (products.left, products.right)
    )
    return Kinds(first, second, counts, cells, group.astype(np.int32), left, right)
