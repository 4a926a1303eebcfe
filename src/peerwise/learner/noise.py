"""What the noise of a description promises, in sentences that go with its results."""

import math
from collections.abc import Sequence

from peerwise.learner.sections import Cell

EPSILON = (
    "Epsilon is a node's budget for one row. This is a simulation: noise comes from the seed, "
    "errors are exact, and what it shows is no private release."
)
LOCAL = (
    'Warning: sensitivity = "local" is not differential privacy: the noise depends on the data, '
    "and epsilon bounds nothing."
)


def adds_noise(cell: Cell) -> bool:
    """Whether nodes release something with noise, and so spend a budget."""
    spends = cell.method.traits.releases != "nothing" and "privacy" in cell
    epsilon = cell["privacy"]["epsilon"] if spends else None
    return epsilon is not None and math.isfinite(epsilon)


def noise_notes(cells: Sequence[Cell]) -> list[str]:
    """What epsilon is for, and where it promises nothing; none where no cell adds noise."""
    private = [_is_private(cell) for cell in cells if adds_noise(cell)]
    notes = [EPSILON] if any(private) else []
    return notes if all(private) else [*notes, LOCAL]


def _is_private(cell: Cell) -> bool:
    """Whether noise is as large as any rows need; methods that draw their own know no other."""
    return cell["privacy"]["sensitivity"] != "local" or "draw" not in cell.method.facts
