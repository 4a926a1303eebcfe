"""What naive Bayes asks of a node's rows, and how a privacy budget is shared among the questions.

Two sets of rows are neighbours when one has one row more. A row changes the line of its own class
alone, so the same question about every class costs as much as about one (parallel composition);
questions about the same class add up (sequential composition). Section 3.1 of "Federated and
Gossip Naive Bayes"; where it says scale sensitivity / epsilon, it means epsilon of the query.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array
from peerwise.errors import BadSetting, UnknownName
from peerwise.models.block import check_arguments

RULES = ("even", "optimal")  # how a budget is shared among the queries


class Asked(Protocol):
    """Questions about rows: which question each column of what is released belongs to."""

    @property
    def column(self) -> np.ndarray:
        """The question of each column [q]."""
        ...

    @property
    def size(self) -> int:
        """How many columns there are."""
        ...

    def __len__(self) -> int: ...


class Budget(NamedTuple):
    """What a node may spend; an infinite epsilon is no noise."""

    epsilon: float = math.inf
    delta: float = 1e-5
    rows: int = 1  # that one person may have, where persons are hidden
    # what of it is for learning, the rest for what must be agreed first: shares of 1 / multiplier^2
    share: float = 1.0


@dataclass(frozen=True)
class Queries:
    """The 1 + |categorical| + 2 |numeric| questions that naive Bayes asks of every class.

    In the order of the statistics: rows, a sum of x for each number, a sum of x^2 for each number,
    a histogram for each categorical feature. With `missing`, numbers count their own rows, which
    is one question more for each.

    >>> Queries((0, 3), classes=2).column.tolist()  # rows; x; x^2; the three categories
    [0, 1, 2, 3, 3, 3]
    """

    cardinalities: Sequence[int]  # 0 for a number, else how many categories
    classes: int
    missing: bool = False

    def __post_init__(self) -> None:
        cardinalities, classes = check_arguments(self.cardinalities, self.classes)
        object.__setattr__(self, "cardinalities", cardinalities)
        object.__setattr__(self, "classes", classes)

    def __len__(self) -> int:
        return 1 + (3 if self.missing else 2) * len(self.numeric) + len(self.levels)

    @cached_property
    def numeric(self) -> np.ndarray:
        """Which columns of x are numbers."""
        return np.flatnonzero(np.equal(self.cardinalities, 0)).astype(np.int32)

    @cached_property
    def levels(self) -> np.ndarray:
        """How many categories each categorical feature has."""
        return np.array([r for r in self.cardinalities if r > 0], np.int32)

    @property
    def first(self) -> slice:
        """The columns of the statistics that hold sums of x."""
        return slice(1, 1 + len(self.numeric))

    @property
    def second(self) -> slice:
        """The columns of the statistics that hold sums of x^2."""
        return slice(1 + len(self.numeric), 1 + 2 * len(self.numeric))

    @cached_property
    def column(self) -> np.ndarray:
        """The query that each column of the statistics belongs to [q]."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.width)

    @cached_property
    def width(self) -> np.ndarray:
        """How many columns each query has: 1, or the categories of a feature."""
        single = len(self) - len(self.levels)
        return np.concatenate([np.ones(single, np.int32), self.levels])

    @property
    def released(self) -> np.ndarray:
        """How many values each query releases, all classes together."""
        return self.width * self.classes

    @property
    def size(self) -> int:
        """How many columns the statistics have."""
        return int(self.width.sum())


def check_epsilon(epsilon: float, *, noise_off: bool = False) -> float:
    """The budget as a float above 0; infinity only where the caller says that noise is off."""
    epsilon = as_number("epsilon", epsilon)
    if noise_off and epsilon == math.inf:
        return epsilon
    if not 0 < epsilon < math.inf:
        raise BadSetting(
            f"epsilon must be a finite number greater than 0, got {epsilon}"
            + ("; without noise nothing is private" if epsilon == math.inf else "")
        )
    return epsilon


def check_delta(delta: float, mechanism: str) -> float:
    """The delta of a mechanism as a float: 0 for Laplace noise, between 0 and 1 for Gaussian."""
    delta = as_number("delta", delta)
    if mechanism == "laplace" and delta != 0:
        raise BadSetting(f"Laplace noise has delta 0, got {delta}; leave it out or take gaussian")
    if mechanism == "gaussian" and not 0 < delta < 1:
        raise BadSetting(f"Gaussian noise needs delta between 0 and 1 (say 1e-6), got {delta}")
    return delta


def check_person_rows(rows: int) -> int:
    """How many rows of a person count, as a whole number: less than one would lessen the noise."""
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise BadSetting(f"person_rows must be a whole number, 1 or more, got {rows!r}")
    return int(rows)


def as_number(name: str, value: Any) -> float:
    """A setting as a float; what is no number is refused by its name."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise BadSetting(f"{name} must be a number, got {value!r}") from None


def split(
    epsilon: float,
    queries: Asked,
    sensitivity: Array,
    rule: str = "even",
    *,
    noise_off: bool = False,
) -> Array:
    """The epsilon of each query; they sum to `epsilon`.

    "even" is equation 16. "optimal" makes the total variance of Laplace noise smallest: with k_i
    values of sensitivity D_i, sum_i 2 k_i (D_i / e_i)^2 is least at e_i ~ (k_i D_i^2)^(1/3).
    `sensitivity` is [q], or [c, q] where classes differ.
    """
    epsilon = check_epsilon(epsilon, noise_off=noise_off)
    if math.isinf(epsilon):
        return np.full(len(queries), math.inf)
    return epsilon * _shares(queries, sensitivity, rule, 1 / 3)


def split_gaussian(
    multiplier: float, queries: Asked, sensitivity: Array, rule: str = "even"
) -> Array:
    """The noise multiplier of each query, so that all of them together have `multiplier`.

    A multiplier is standard deviation over sensitivity; releases of z_1, z_2, ... together are one
    of z with 1/z^2 = sum 1/z_i^2. "optimal" makes the total variance smallest.
    """
    return multiplier / _shares(queries, sensitivity, rule, 1 / 2) ** 0.5


def scales(sensitivity: Array, share: Array, queries: Asked) -> Array:
    """The scale of Laplace noise in each column, sensitivity / epsilon of its query.

    A column that no row can change needs no noise: its scale is 0.
    """
    xp = jnp if isinstance(sensitivity, jax.Array) or isinstance(share, jax.Array) else np
    own = xp.asarray(share)[queries.column]
    sensitivity = xp.asarray(sensitivity)
    own = own.reshape((1,) * (sensitivity.ndim - 1) + own.shape)
    moves = sensitivity > 0
    return xp.where(moves, sensitivity / xp.where(moves, own, 1), 0)


def _shares(queries: Asked, sensitivity: Array, rule: str, power: float) -> Array:
    """The share of each query: even, or its squared sensitivities summed, to a power."""
    if rule not in RULES:
        raise UnknownName("way to split a budget", rule, RULES)
    if rule == "even":
        return np.full(len(queries), 1 / len(queries))
    xp = jnp if isinstance(sensitivity, jax.Array) else np
    sensitivity = xp.atleast_2d(xp.asarray(sensitivity))
    if sensitivity.shape[-1] != queries.size:
        raise BadSetting(
            f"sensitivity must have {queries.size} columns, got {sensitivity.shape[-1]}"
        )
    member = (queries.column[:, None] == np.arange(len(queries))).astype(sensitivity.dtype)
    cost = (sensitivity**2).sum(0) @ member
    root = cost**power
    return root / root.sum()
