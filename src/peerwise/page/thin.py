"""Less of much: as many rounds and nodes as a page can show, and numbers in few characters."""

import base64
from typing import Any

import numpy as np

POINTS = 240  # of a line
NUMBERS = 400_000  # of single nodes, in a whole page: about a megabyte
FEWEST_ROUNDS = 12  # that a slider should have, before nodes are left out


def places(count: int, most: int) -> np.ndarray:
    """At most so many of `count` places, evenly, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, max(most, 1))).round().astype(int))


def chosen_nodes(last: np.ndarray, most: int) -> np.ndarray:
    """At most so many nodes, evenly by their last value: the best and the worst are among them."""
    order = np.argsort(np.where(np.isfinite(last), last, np.inf), kind="stable")
    return np.sort(order[places(len(order), most)])


def room(series: int, nodes: int, rounds: int) -> tuple[int, int]:
    """How many nodes and rounds of each of so many series a page has room for."""
    each = max(NUMBERS // max(series, 1), 1)
    few = max(min(nodes, each // min(rounds, FEWEST_ROUNDS)), 1)
    return few, max(min(rounds, each // few), 1)


def packed(values: np.ndarray) -> dict[str, Any]:
    """Numbers as 16 bits each between the least and the most, in base 64; 65535 is none.

    >>> packed(np.array([[0.0, 0.5], [1.0, np.nan]]))
    {'lo': 0.0, 'hi': 1.0, 'shape': [2, 2], 'data': 'AAD/f/7///8='}
    """
    fine = np.isfinite(values)
    low, high = (float(f(values[fine])) if fine.any() else 0.0 for f in (np.min, np.max))
    steps = (np.where(fine, values, low) - low) / ((high - low) or 1.0) * 65534
    whole = np.where(fine, np.round(steps), 65535).astype("<u2")
    return {
        "lo": low,
        "hi": high,
        "shape": list(values.shape),
        "data": base64.b64encode(whole.tobytes()).decode(),
    }


def plain(values: Any, digits: int = 5) -> list[float | None]:
    """Numbers for JSON, which has no NaN."""
    numbers = np.asarray(values, float)
    return [float(f"{v:.{digits}g}") if np.isfinite(v) else None for v in numbers]
