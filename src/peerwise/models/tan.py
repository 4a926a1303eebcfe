"""Tree-augmented naive Bayes: every categorical feature may depend on one other.

Friedman, Geiger and Goldszmidt, "Bayesian network classifiers" (1997). The tree is the spanning
tree of largest conditional mutual information I(X_i; X_j | Y), found from the counts of all pairs
of categories (Chow and Liu). Counts add up, so a network that adds its counts exactly agrees on
one tree: an array of parents that every node holds before it learns.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np

from peerwise.core import Array
from peerwise.declare import declares
from peerwise.errors import BadSetting
from peerwise.models.block import assemble, check_arguments, places
from peerwise.models.family import Model, Phase
from peerwise.models.gaussian import diagonal
from peerwise.models.nominal import nominal, topological


@cache
def structure(cardinalities: tuple[int, ...], classes: int) -> Phase:
    """What `tan` takes from rows: the tree that the counts of all pairs of categories give."""
    pairs = pair_counts(cardinalities, classes)

    def options(sums: np.ndarray) -> dict[str, Any]:
        return {"parents": tuple(chow_liu(sums, cardinalities).tolist())}

    # a row is in one cell of the table of each pair
    reach = math.sqrt(max(len(_pairs(cardinalities)[0]), 1))
    return Phase(lambda shard: pairs(*shard), options, reach=reach)


@declares("model", agrees=structure)
def tan(
    cardinalities: Sequence[int],
    classes: int,
    missing: bool = False,
    *,
    parents: Annotated[
        tuple[int, ...] | None, "the parent column of each column, or -1; none: from the rows"
    ] = None,
) -> Model:
    """p(y) prod_i p(x_i | x_parent(i), y); numbers are Gaussian, independent given the class.

    `parents` has an entry for every column of x: the column of its parent, or -1. See `chow_liu`.
    A missing category is summed out exactly; in the counts a pair needs both of its categories.

    >>> tan((2, 3, 0), 2, parents=(-1, 0, -1)).size  # 1 + (x, x^2) + 2 + 3 * 2
    11
    """
    cardinalities, classes = check_arguments(cardinalities, classes)
    if parents is None:
        raise BadSetting(
            "tan needs its structure: give parents, a column for every column or -1 "
            "(models.tan.chow_liu finds them from pair_counts)"
        )
    given = tuple(int(p) for p in parents)
    if len(given) != len(cardinalities):
        raise BadSetting(f"parents must have {len(cardinalities)} entries, got {len(given)}")
    for i, p in enumerate(given):
        if p != -1 and not (0 <= p < len(given) and cardinalities[p] and cardinalities[i]):
            raise BadSetting(
                f"parent {p} of column {i}: both must be categorical columns (-1 is no parent)"
            )
    try:
        topological(given)
    except ValueError as error:
        raise BadSetting(str(error)) from None
    return _tan(cardinalities, classes, bool(missing), given)


@cache
def _tan(
    cardinalities: tuple[int, ...], classes: int, missing: bool, parents: tuple[int, ...]
) -> Model:
    numeric = [i for i, r in enumerate(cardinalities) if r == 0]
    named = [i for i, r in enumerate(cardinalities) if r > 0]
    above = [named.index(parents[i]) if parents[i] >= 0 else -1 for i in named]
    blocks = [
        diagonal(numeric, len(cardinalities), shared=False, missing=missing),
        nominal(named, [cardinalities[i] for i in named], above, missing=missing),
    ]
    return assemble("tan", cardinalities, classes, blocks)


@cache
def _pairs(cardinalities: tuple[int, ...]) -> tuple[list[tuple[int, int]], list[slice]]:
    """Pairs of categorical columns in order, and where their tables lie."""
    named = [i for i, r in enumerate(cardinalities) if r > 0]
    pairs = [(a, b) for place, a in enumerate(named) for b in named[place + 1 :]]
    ends = np.cumsum([0, *(cardinalities[a] * cardinalities[b] for a, b in pairs)]).tolist()
    return pairs, [slice(a, b) for a, b in itertools.pairwise(ends)]


@cache
def pair_counts(
    cardinalities: tuple[int, ...], classes: int
) -> Callable[[Array, Array, Array], Array]:
    """x, y, weight -> rows of each class in each pair of categories [c, p], raw sums.

    A missing category counts in no pair. Tables come in the order of (0, 1), (0, 2), ..., (1, 2),
    ..., each row by row.
    """
    named = [i for i, r in enumerate(cardinalities) if r > 0]
    column = places(np.repeat(named, [cardinalities[i] for i in named]))
    level = np.concatenate([np.arange(cardinalities[i]) for i in named]) if named else np.zeros(0)
    start = dict(
        zip(named, np.cumsum([0, *(cardinalities[i] for i in named)]).tolist(), strict=False)
    )
    pairs, _ = _pairs(cardinalities)
    left = [start[a] + np.repeat(np.arange(cardinalities[a]), cardinalities[b]) for a, b in pairs]
    right = [start[b] + np.tile(np.arange(cardinalities[b]), cardinalities[a]) for a, b in pairs]
    i = places(np.concatenate(left) if pairs else [])
    j = places(np.concatenate(right) if pairs else [])

    def count(x: Array, y: Array, weight: Array) -> Array:
        hot = (x[:, column] == level[None].astype(x.dtype)).astype(x.dtype)  # [m, e]
        target = jax.nn.one_hot(y, classes, dtype=x.dtype) * weight.astype(x.dtype)[:, None]

        def table(rows: Array) -> Array:
            return jnp.matmul((hot * rows[:, None]).T, hot, precision="highest")[i, j]

        return jax.vmap(table, in_axes=1)(target)

    return count


def information(pairs: np.ndarray, cardinalities: Sequence[int]) -> dict[tuple[int, int], float]:
    """I(X_i; X_j | Y) in nats for each pair of categorical columns, from `pair_counts`."""
    cardinalities = tuple(cardinalities)
    nats = {}
    for (a, b), part in zip(*_pairs(cardinalities), strict=True):
        table = np.asarray(pairs, float)[:, part].reshape(-1, cardinalities[a], cardinalities[b])
        rows, columns = table.sum(2, keepdims=True), table.sum(1, keepdims=True)
        total = table.sum((1, 2), keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(table) + np.log(total) - np.log(rows) - np.log(columns)
        known = table.sum()
        # rounded, so that equal pairs are equal on every machine and chow_liu's ties are the same
        nats[a, b] = round((table * np.where(table > 0, ratio, 0)).sum() / max(known, 1e-300), 12)
    return nats


def chow_liu(pairs: np.ndarray, cardinalities: Sequence[int]) -> np.ndarray:
    """The parents [d] of the best tree, from the counts of all pairs; -1 for none.

    The first categorical column is the root. The same counts give the same tree everywhere: of
    equal pairs the first counts as the better one.

    >>> chow_liu(np.array([[9.0, 1, 1, 9]]), (2, 0, 2))
    array([-1, -1,  0], dtype=int32)
    """
    parents = np.full(len(cardinalities), -1, np.int32)
    graph = nx.Graph()
    for (a, b), bits in information(pairs, cardinalities).items():
        graph.add_edge(a, b, weight=bits)
    if graph:
        tree = nx.maximum_spanning_tree(graph)
        for parent, child in nx.bfs_edges(tree, min(graph), sort_neighbors=sorted):
            parents[child] = parent
    return parents
