"""A range for numbers whose bounds are not public, itself released with noise."""

import math
from typing import Any

import numpy as np

from peerwise.data.each_row import numbers_of
from peerwise.errors import BadData, BadSetting
from peerwise.privacy.budget import as_number, check_epsilon, check_person_rows
from peerwise.privacy.ledger import Ledger, check_ledger, unit_hidden
from peerwise.privacy.mechanism import Noise, check_noise, vetted

LARGEST = 1e6  # in size, of numbers about which nothing else is known
CHANCE = 0.05  # that noise alone makes any empty bin look occupied


def private_bounds(
    values: Any,
    *,
    epsilon: float,
    ledger: Ledger | None = None,
    largest: float = LARGEST,
    halvings: int = 40,
    share: float = 0.98,
    noise: Noise = vetted,
    data: str = "values",
    person_rows: int = 1,
    person: str | None = None,
) -> tuple[float, float]:
    """A range that covers about `share` of one column's values, found with epsilon-private noise.

    Values are counted in bins that halve from `largest` (public: what no value should exceed)
    towards 0 on both sides, which one row changes by 1 in one place. Bins no fuller than noise
    could make them count as empty (Karwa and Vadhan, 2018); if all do, because rows are too few
    for this epsilon, the range is as wide as it can be. `ledger` is charged before noise is drawn.
    With `person_rows`, at most so many values are of one person, and what is hidden is whether the
    person is there; `person` is the column that tells persons apart, which the ledger names.
    """
    check_ledger(ledger)
    check_noise(noise)
    epsilon = check_epsilon(epsilon)
    scale = check_person_rows(person_rows) / epsilon
    largest, share = as_number("largest", largest), as_number("share", share)
    if not 0 < largest < math.inf:
        raise BadSetting(f"largest must be finite and greater than 0, got {largest}")
    if not 0 < share < 1 or not isinstance(halvings, int | np.integer) or halvings < 1:
        raise BadSetting(
            "share must be between 0 and 1 and halvings a whole number, 1 or more, got "
            f"{share} and {halvings!r}"
        )
    positive = largest * 0.5 ** np.arange(halvings, -1, -1.0)
    edges = np.concatenate([-positive[::-1], positive])
    known = _numbers(values)
    known = np.clip(known[~np.isnan(known)], -largest, largest)
    counts = np.histogram(known, edges)[0].astype(float)
    if ledger is not None:
        details = {"largest": largest, "halvings": halvings, "share": share, "scale": scale}
        about = {"of": "bounds", "unit": unit_hidden(person_rows, person)}
        ledger.charge("laplace", details | about, epsilon, data=data)
    noisy = noise("laplace", counts, scale)
    # the largest of k Laplace draws exceeds this with probability CHANCE or less
    threshold = math.log(len(counts) / (2 * CHANCE)) * scale
    kept = np.where(noisy > threshold, noisy, 0.0)
    if not kept.any():
        return -float(largest), float(largest)
    spare = kept.sum() * (1 - share) / 2
    first = int(np.argmax(np.cumsum(kept) > spare))
    last = len(kept) - 1 - int(np.argmax(np.cumsum(kept[::-1]) > spare))
    return float(edges[first]), float(edges[last + 1])


def _numbers(values: Any) -> np.ndarray:
    """Values as floats, each by itself, as a release reads them: what is none is missing."""
    if values is None or isinstance(values, str):
        raise BadData(f"the values of a column must be numbers, got {values!r}")
    if hasattr(values, "dtype"):
        cells = np.asarray(values)
        return numbers_of(values if cells.ndim == 1 else cells.ravel())
    cells = np.asarray(values, object)
    return numbers_of(cells.ravel())
