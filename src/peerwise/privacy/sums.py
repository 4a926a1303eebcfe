"""Sums whose sensitivity is what the mathematics says it is, also in floating point.

The rounding of a floating-point sum depends on all rows, so that one row can change it by more
than its own value (Casacuberta, Shoemate, Vadhan, Wagaman, "Widespread underestimation of
sensitivity in differentially private libraries and how to fix it", 2022). Values on a coarse
binary grid add up without any rounding.
"""

from collections.abc import Callable

import numpy as np

from peerwise.errors import BadData

BITS = 24  # of the grid, below the largest value: finer than any noise that will be added
MOST = 2 ** (53 - BITS)  # rows whose sum double precision holds exactly
BLOCK = 1 << 14  # rows at a time, which keeps memory small


def exact_sums(
    features: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    classes: int,
    sensitivity: np.ndarray,
) -> np.ndarray:
    """The sums [c, q] of phi = features(x) over the rows of each class, free of rounding.

    phi is at most `sensitivity` [q] in size and stays so. Labels outside 0..c-1 count nowhere.
    """
    if len(x) > MOST:
        raise BadData(f"at most {MOST} rows can be summed exactly, got {len(x)}")
    _, exponent = np.frexp(sensitivity)  # sensitivity < 2^exponent
    most = np.floor(np.ldexp(sensitivity, BITS - exponent))
    total = np.zeros((classes, len(sensitivity)))
    for start in range(0, len(x), BLOCK):  # exact sums do not depend on how they are grouped
        rows = slice(start, start + BLOCK)
        steps = np.clip(np.rint(np.ldexp(features(x[rows]), BITS - exponent)), -most, most)
        total += (y[rows] == np.arange(classes)[:, None]).astype(float) @ steps
    return np.ldexp(total, exponent - BITS)
