"""How many rows each node gets."""

import numpy as np

from peerwise.declare import declares
from peerwise.errors import BadSetting
from peerwise.partition.rows import sized
from peerwise.topology.links import whole


def _room(nodes: int, rows: int, minimum: int) -> None:
    needed = whole("nodes", nodes, 1) * whole("minimum", minimum, 0)
    if needed > whole("rows", rows, 1):
        raise BadSetting(
            f"{nodes} nodes of {minimum} rows or more need {needed} rows, got {rows}; "
            "take fewer nodes or a smaller minimum"
        )


def equal_sizes(nodes: int, rows: int) -> np.ndarray:
    """Equally many rows for each node; the first ones have one more where they do not divide.

    >>> equal_sizes(3, 10).tolist()
    [4, 3, 3]
    """
    _room(nodes, rows, 1)
    return rows // nodes + (np.arange(nodes) < rows % nodes)


@declares("sizes", name="equal")
def _equal(rng: np.random.Generator, nodes: int, rows: int, minimum: int = 2) -> np.ndarray:
    """Equally many rows for each node."""
    _room(nodes, rows, minimum)
    return equal_sizes(nodes, rows)


@declares("sizes", name="uniform")
def uniform_sizes(rng: np.random.Generator, nodes: int, rows: int, minimum: int = 2) -> np.ndarray:
    """Sizes in proportion to draws from U[1, 10], `minimum` or more, `rows` in all.

    >>> int(uniform_sizes(np.random.default_rng(0), 5, 100).sum())
    100
    """
    _room(nodes, rows, minimum)
    return sized(rng.uniform(1, 10, nodes), rows, minimum)


@declares("sizes", name="exponential")
def exponential_sizes(
    rng: np.random.Generator, nodes: int, rows: int, minimum: int = 2
) -> np.ndarray:
    """Sizes in proportion to draws from an exponential law, `minimum` or more, `rows` in all.

    >>> int(exponential_sizes(np.random.default_rng(0), 5, 100).sum())
    100
    """
    _room(nodes, rows, minimum)
    return sized(rng.exponential(size=nodes), rows, minimum)


@declares("sizes", name="log_uniform")
def log_uniform_sizes(
    rng: np.random.Generator, nodes: int, rows: int, minimum: int = 2
) -> np.ndarray:
    """Sizes in proportion to draws whose logarithm is uniform, `minimum` or more, `rows` in all.

    The draws are between the minimum and a fifth of the rows.

    >>> int(log_uniform_sizes(np.random.default_rng(0), 5, 100).sum())
    100
    """
    _room(nodes, rows, minimum)
    low = max(minimum, 1)
    return sized(np.exp(rng.uniform(np.log(low), np.log(max(rows / 5, low)), nodes)), rows, minimum)
