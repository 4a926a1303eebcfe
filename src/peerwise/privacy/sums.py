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
    bits: int = BITS,
) -> np.ndarray:
    """The sums [c, q] of phi = features(x) over the rows of each class, free of rounding.

    phi is at most `sensitivity` [q] in size and stays so. Labels outside 0..c-1 count nowhere. The
    grid has so many `bits` below the sensitivity.
    """
    if len(x) > MOST:
        raise BadData(f"at most {MOST} rows can be summed exactly, got {len(x)}")
    _, exponent = np.frexp(sensitivity)  # sensitivity < 2^exponent
    most = np.floor(np.ldexp(sensitivity, bits - exponent))
    total = np.zeros((classes, len(sensitivity)))
    for start in range(0, len(x), BLOCK):  # exact sums do not depend on how they are grouped
        rows = slice(start, start + BLOCK)
        steps = np.clip(np.rint(np.ldexp(features(x[rows]), bits - exponent)), -most, most)
        total += (y[rows] == np.arange(classes)[:, None]).astype(float) @ steps
    return np.ldexp(total, exponent - bits)


def exact_update(
    features: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    clip: float,
    bits: int = BITS,
) -> np.ndarray:
    """The sum over rows of (e_y - p(y | x)) (x) phi, each row clipped in the L2 norm; [c, q].

    phi = features(x); p is the posterior of a log-linear model with `weight` [c, q]. What a row
    adds is a function of the row alone to the last bit: nothing is reduced along rows in floating
    point, and steps of a grid are whole numbers. So one row more or less moves the sum by `clip` at
    most, whatever the others are. Rows with a label outside 0..c-1 count nowhere.
    """
    if len(x) > MOST:
        raise BadData(f"at most {MOST} rows can be summed exactly, got {len(x)}")
    classes, size = weight.shape
    _, exponent = np.frexp(clip)
    # rounding to the grid lengthens a row by half a step in every number, at most
    step = 2.0 ** (int(exponent) - bits)
    within = clip * (1 - 1e-9) - np.sqrt(classes * size) / 2 * step
    weight = np.asarray(weight, float)
    total = np.zeros((classes, size))
    for start in range(0, len(x), BLOCK):
        part = slice(start, start + BLOCK)
        own = np.asarray(features(x[part]), float)
        known = (y[part] >= 0) & (y[part] < classes)
        wrong = _wrong(weight, own, y[part])
        norm = np.sqrt(_sum(wrong * wrong) * _sum((own * own).T))
        kept = np.where(known, np.minimum(1, within / np.maximum(norm, 1e-300)), 0) / step
        for c in range(classes):
            steps = np.rint((wrong[c] * kept)[:, None] * own)
            total[c] += np.nan_to_num(steps, nan=0.0, posinf=0.0, neginf=0.0).sum(0)
    return total * step


def _wrong(weight: np.ndarray, phi: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Target minus posterior [c, m], each column from its row alone."""
    joint = np.stack([_sum((phi * line).T) for line in weight])
    joint = np.exp(joint - joint.max(0))
    prob = joint / _sum(joint)
    return (y == np.arange(len(weight))[:, None]) - prob


def _sum(terms: np.ndarray) -> np.ndarray:
    """The sum over the first axis, always in the same order: BLAS takes one by the size."""
    total = np.zeros(terms.shape[1])
    for term in terms:
        total = total + term
    return total
