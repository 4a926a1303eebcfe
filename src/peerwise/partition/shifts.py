"""Rows that nodes see or label differently: skew of features, concept drift and concept shift.

The BA-BFL paper's introduction lists five kinds of heterogeneity. Two are who holds which rows:
skew of labels (a partition) and of quantity (`sizes`). The other three change the rows, as here.
Numbers move by parts of their standard deviation over all nodes' rows, so that units do not matter;
category codes and columns that do not vary stay as they are, and missing values stay missing.

No row may belong to two nodes. A row of no node stays. Without cardinalities (0: a number) all
columns are numbers.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from annotated_types import Ge, Le

from peerwise.declare import declares
from peerwise.errors import BadData, BadSetting

STRONGEST = 10.0  # exp(10 a) is still a number in float32 for every normal draw a that occurs


@declares("shift", name="none")
def unshifted(
    rng: np.random.Generator,
    x: np.ndarray,
    y: np.ndarray,
    owned: Sequence[np.ndarray],
    cardinalities: Sequence[int] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """Rows as they are, the same at every node."""
    return x, y


@declares("shift")
def feature_skew(
    rng: np.random.Generator,
    x: np.ndarray,
    y: np.ndarray,
    owned: Sequence[np.ndarray],
    cardinalities: Sequence[int] = (),
    *,
    strength: Annotated[
        float, Ge(0), Le(STRONGEST), "how much nodes differ; 0 changes nothing"
    ] = 0.5,
) -> tuple[np.ndarray, np.ndarray]:
    """Drift in p(x): every node measures every number with a scale and an offset of its own.

    As instruments that are calibrated differently do: deviations from the mean are multiplied by
    exp(strength a) and strength b standard deviations are added, with a and b normal draws for each
    node and column. Unlike noise this loses no information: it could be undone.

    >>> x, y = np.array([[1.0, 0.0], [3.0, 1.0]]), np.array([0, 1])
    >>> seen, _ = feature_skew(np.random.default_rng(0), x, y, [np.array([0, 1])], (0, 2))
    >>> seen.round(2).tolist()  # the second column holds codes
    [[0.87, 0.0], [3.0, 1.0]]
    """
    x = _copied(x, owned)
    columns, mean, std = _numbers(x, owned, cardinalities, "feature_skew", strength)
    for rows in owned:
        scale = np.expm1(strength * rng.normal(size=columns.size))  # 0: unchanged to the last bit
        offset = strength * std * rng.normal(size=columns.size)
        here = np.ix_(rows, columns)
        x[here] += ((x[here] - mean) * scale + offset).astype(x.dtype)
    return x, np.array(y)


@declares("shift")
def concept_drift(
    rng: np.random.Generator,
    x: np.ndarray,
    y: np.ndarray,
    owned: Sequence[np.ndarray],
    cardinalities: Sequence[int] = (),
    *,
    strength: Annotated[
        float, Ge(0), Le(STRONGEST), "how much nodes differ; 0 changes nothing"
    ] = 0.5,
) -> tuple[np.ndarray, np.ndarray]:
    """Drift in p(x | y): what a class looks like differs between nodes.

    The numbers of a class are moved by strength b standard deviations, with b a normal draw for
    each node, class and column. No change of a node's units could undo it, unlike `feature_skew`.

    >>> x, y = np.array([[1.0], [1.0], [3.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> owned = [np.array([0, 2]), np.array([1, 3])]
    >>> seen, _ = concept_drift(np.random.default_rng(0), x, y, owned)
    >>> seen.round(2).ravel().tolist()  # class 0 at node 0 and 1, class 1 at node 0 and 1
    [1.06, 1.32, 2.93, 3.05]
    """
    x, y = _copied(x, owned), np.array(y)
    columns, _, std = _numbers(x, owned, cardinalities, "concept_drift", strength)
    classes, code = np.unique(y, return_inverse=True)
    for rows in owned:
        offset = strength * std * rng.normal(size=(classes.size, columns.size))
        x[np.ix_(rows, columns)] += offset[code[rows]].astype(x.dtype)
    return x, y


@declares("shift")
def concept_shift(
    rng: np.random.Generator,
    x: np.ndarray,
    y: np.ndarray,
    owned: Sequence[np.ndarray],
    cardinalities: Sequence[int] = (),
    *,
    strength: Annotated[float, Ge(0), Le(1), "share of nodes that confuse classes"] = 0.2,
    classes: Annotated[int, Ge(2), "how many classes such a node confuses"] = 2,
) -> tuple[np.ndarray, np.ndarray]:
    """Drift in p(y | x): some nodes take a few classes for each other.

    They are a share `strength` of the nodes, rounded up and drawn at random. Each draws `classes`
    of all classes and gives every row of one the label of the next, and of the last that of the
    first: 2 are swapped. It is a share of nodes, not of rows: labels that are wrong at random
    would be noise, alike at all nodes. Nor all nodes: with two classes they would agree again.

    >>> x, y = np.zeros((4, 1)), np.array([0, 1, 0, 1])
    >>> owned = [np.array([0, 1]), np.array([2, 3])]
    >>> concept_shift(np.random.default_rng(0), x, y, owned, strength=0.5)[1].tolist()
    [1, 0, 0, 1]
    """
    x, y = _copied(x, owned), np.array(y)
    known, code = np.unique(y, return_inverse=True)
    if classes > known.size:
        raise BadSetting(
            f"concept_shift takes {classes} classes for each other and the rows have {known.size}; "
            "take fewer"
        )
    wrong = int(np.ceil(strength * len(owned) - 1e-9))  # 0.1 * 30 is above 3
    for node in rng.permutation(len(owned))[:wrong]:
        labels = known.copy()
        taken = rng.choice(known.size, classes, replace=False)
        labels[taken] = known[np.roll(taken, -1)]
        y[owned[node]] = labels[code[owned[node]]]
    return x, y


def _copied(x: np.ndarray, owned: Sequence[np.ndarray]) -> np.ndarray:
    """A copy that can hold any number."""
    if not len(owned):
        raise BadSetting("there are no nodes whose rows to shift")
    x = np.array(x)
    return x if x.dtype.kind == "f" else x.astype(float)


def _numbers(
    x: np.ndarray,
    owned: Sequence[np.ndarray],
    cardinalities: Sequence[int],
    name: str,
    strength: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns of numbers that vary, with mean and standard deviation over the rows of all nodes."""
    if len(cardinalities) not in (0, x.shape[1]):
        raise BadData(
            f"x has {x.shape[1]} columns and there are {len(cardinalities)} cardinalities"
        )
    columns = np.arange(x.shape[1])
    if len(cardinalities):
        columns = np.flatnonzero(np.equal(cardinalities, 0))
    if not columns.size and strength:
        raise BadData(f"{name} moves numbers, and all columns are categories; take concept_shift")
    # Node by node, so that double precision needs little memory.
    parts = [np.ix_(rows, columns) for rows in owned]
    count = np.maximum(sum((~np.isnan(x[part])).sum(0) for part in parts), 1)
    mean = sum(np.nansum(x[part], 0, dtype=float) for part in parts) / count
    square = sum(np.nansum((x[part] - mean) ** 2, 0) for part in parts)
    std = np.sqrt(square / count)
    varies = std > 1e-12 * np.abs(mean)  # not exactly 0: the mean is rounded
    return columns[varies], mean[varies], std[varies]
