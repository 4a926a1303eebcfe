"""What metrics are computed from, checked: codes of classes and probabilities of rows."""

from typing import Any

import numpy as np

from peerwise.errors import BadData, BadSetting

ROUNDING = 1e-3  # how far from 1 the probabilities of a row may sum


def same_length(got: int, wanted: int, what: str, than: str = "rows in y") -> None:
    """Refuse another length than the one wanted."""
    if got != wanted:
        raise BadData(f"{what} has {got} entries but there are {wanted} {than}; give one for each")


def positive_number(value: Any, what: str) -> int:
    """A whole number that is 1 or more."""
    if not isinstance(value, int | np.integer) or value < 1:
        raise BadSetting(f"{what} must be a whole number, 1 or more, got {value}")
    return int(value)


def number_array(prob: Any, what: str) -> np.ndarray:
    """Probabilities as an array of numbers, of any shape."""
    try:
        return np.asarray(prob, float)
    except (TypeError, ValueError):
        raise BadData(f"{what} must be an array of probabilities, got {type(prob)}") from None


def checked_codes(y: Any, classes: int, what: str) -> np.ndarray:
    """One class code per row, of numbers that are 0 .. classes - 1."""
    given = np.asarray(y)
    if given.ndim != 1:
        raise BadData(f"{what} must be one code per row, got an array of shape {given.shape}")
    if not given.size:
        raise BadData(f"{what} has no rows to measure anything on")
    if given.dtype.kind not in "biuf":
        raise BadData(
            f"{what} must be class codes 0 to {classes - 1}, got {given[0]!r}; "
            f"pd.Categorical({what}, categories=classes).codes makes them from names"
        )
    wrong = np.flatnonzero(~((given >= 0) & (given < classes) & (given == np.floor(given))))
    if wrong.size:
        at = wrong[0]
        raise BadData(f"row {at} of {what} is {given[at]}; class codes are 0 to {classes - 1}")
    return given.astype(int)


def checked_probabilities(prob: np.ndarray, positive: int | None, m: int, what: str) -> np.ndarray:
    """p(y|x) [m, c], from that or from p(positive) [m]."""
    same_length(len(prob), m, what)
    tiny = 1e-6  # exp(log p) in single precision may pass 1 by this much
    fine = (prob >= -tiny) & (prob <= 1 + tiny)
    wrong = np.flatnonzero(~fine.reshape(m, -1).all(1))
    if wrong.size:
        raise BadData(f"row {wrong[0]} of {what} is {prob[wrong[0]]}; probabilities are 0 to 1")
    if prob.ndim == 1:
        return np.stack([1 - prob, prob] if positive else [prob, 1 - prob], 1)
    total = prob.sum(1)
    wrong = np.flatnonzero(abs(total - 1) > ROUNDING)
    if wrong.size:
        at = wrong[0]
        raise BadData(f"row {at} of {what} sums to {total[at]:.6g} over its classes; it must be 1")
    return prob
