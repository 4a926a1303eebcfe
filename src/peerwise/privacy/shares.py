"""Noise that a network makes together: each node adds a share, and only the sum is ever read.

Values are whole steps of a grid and are summed modulo 2^64. A node's share is discrete Gaussian
noise (Canonne, Kamath and Steinke 2020); the shares of H nodes add up to noise of sqrt(H) times the
deviation (Kairouz, Liu and Steinke 2021: for a deviation of several steps the difference from one
discrete Gaussian is beyond computing). Who colludes knows its own share and takes it off, so that
only the shares of honest members count: their number is what the charter assumes, and the ledger is
charged for the noise of these alone.
"""

import math
from typing import NamedTuple

import numpy as np

from peerwise.errors import BadSetting
from peerwise.privacy.sums import MOST

ROOM = 61  # bits that a sum of all terms, and that of all noise, may take: with a sign 2^63 is not
WHOLE = 53  # bits of a share, which is drawn in double precision: rounded, it hides no last bits
COARSEST = 4.0  # steps of a share's deviation: with fewer the sum of shares is no discrete Gaussian
FINEST = 24  # bits of a grid below what a row can do
MOST_OFTEN = 2**25  # rows of a node that adds to several sums
TAIL = 40.0  # deviations beyond which noise lies with a probability below 1e-300


class Grid(NamedTuple):
    """The steps in which values are counted, and the noise of one node in them."""

    step: np.ndarray  # [size] how much of a value is one
    std: np.ndarray  # [size] of a node's share, in steps; 0: no noise
    honest: int  # shares that add up to the whole noise

    @property
    def share(self) -> np.ndarray:
        """The variance of a node's share, in the units of the values."""
        return (self.std * self.step) ** 2


def honest_members(nodes: int, honest: float, least: int) -> int:
    """The honest members that every sum has, if a share `honest` of all nodes is.

    Up to nodes - least of them may be left out of a sum, all of them honest. Who reads a sum may be
    a member, honest or not, which takes off its own share: at most nodes - 1 count.
    """
    if not 0 < honest <= 1:
        raise BadSetting(f"honest must be above 0 and at most 1, got {honest}")
    if not nodes // 2 < least <= nodes:
        raise BadSetting(
            f"least must be more than half of the {nodes} nodes, or two parts of the network could "
            f"go on by themselves, got {least} nodes"
        )
    counted = min(math.floor(honest * nodes + 1e-9), max(nodes - 1, 1))
    left = counted - (nodes - least)
    if left < 1:
        raise BadSetting(
            f"a sum may leave out {nodes - least} of {nodes} nodes, so it may have none of the "
            f"{counted} honest ones; raise honest or least"
        )
    return left


def least_members(nodes: int, least: float) -> int:
    """How many members a sum must have, if it needs the share `least` of all nodes."""
    return max(math.ceil(least * nodes - 1e-9), 1)


def most_rows(sums: int = 1) -> int:
    """The rows that a node may have where so many sums are added up."""
    return MOST if sums == 1 else MOST_OFTEN


def bits_for(nodes: int, sums: int = 1) -> int:
    """Bits of a grid below what a row can do, so that no sum of any rows can overflow.

    Nor can so many `sums` over all nodes, added up, if no node has more than `most_rows`.
    """
    bits = ROOM - math.ceil(math.log2(nodes)) - math.ceil(math.log2(sums))
    bits -= int(math.log2(most_rows(sums)))
    if bits < 8:
        what, fewer = "a sum", "nodes"
        if sums > 1:
            what, fewer = f"{sums} sums together", "nodes or releases"
        raise BadSetting(f"{what} over {nodes} nodes could overflow 64 bits; take fewer {fewer}")
    return min(bits, FINEST)


def shared_noise(
    reach: np.ndarray, scale: np.ndarray, nodes: int, honest: int, sums: int = 1
) -> Grid:
    """The grid of values that one row moves by `reach` [size] at most, and a node's noise.

    `scale` is the deviation that the noise of `honest` nodes must have together, in each of `sums`.
    """
    _, exponent = np.frexp(reach)
    step = np.ldexp(1.0, exponent - bits_for(nodes, sums))
    std = np.asarray(scale, float) / math.sqrt(honest) / step
    noisy = std > 0
    if (std[noisy] < COARSEST).any():
        raise BadSetting("each node's noise is below the grid's step; lower epsilon")
    most = TAIL * std.max(initial=0)
    if most > 2.0**WHOLE or sums * nodes * most > 2.0**ROOM:
        raise BadSetting(
            "the noise of all nodes could overflow 64 bits; raise epsilon, or take fewer nodes"
        )
    return Grid(step, std, honest)
