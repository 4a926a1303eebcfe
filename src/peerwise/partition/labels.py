"""Drift in p(y): rows in the order of their class, or one class for each node."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le

from peerwise.declare import declares
from peerwise.errors import BadData, BadSetting
from peerwise.partition.rows import Rows, apportion, by_class, checked, cut, deal
from peerwise.partition.ways import first_component


@declares("partition")
def label_sorted(rng: np.random.Generator, x: np.ndarray, y: np.ndarray, sizes: np.ndarray) -> Rows:
    """Rows in the order of their class, dealt in chunks; a chunk may straddle classes.

    >>> x, y = np.zeros((4, 1)), np.array([1, 0, 1, 0])
    >>> sorted(sorted(rows.tolist()) for rows in
    ...        label_sorted(np.random.default_rng(0), x, y, np.array([2, 2])))
    [[0, 2], [1, 3]]
    """
    sizes = checked(x, y, sizes)
    used = rng.permutation(len(y))[: sizes.sum()]
    return deal(rng, used[by_class(np.asarray(y)[used])], sizes)


@declares("partition")
def mixed(
    rng: np.random.Generator,
    x: np.ndarray,
    y: np.ndarray,
    sizes: np.ndarray,
    *,
    homo_ratio: Annotated[
        float, Ge(0), Le(1), "share of a node's rows drawn from all classes"
    ] = 0.0,
    shuffled: Annotated[bool, "nodes take their chunks in a random order"] = False,
) -> Rows:
    """A part `homo_ratio` of each node's rows at random, the others in the order of their class.

    The split "mix" of CLIMB ("An Agnostic Approach to Federated Learning with Class Imbalance",
    Shen et al.), which the CVaR-CTA paper takes with ratio 0: rows sorted by class and cut, the
    first chunk to node 0 and so on. On a line or a ring neighbours then hold like classes and
    unlike ones are far apart; `shuffled` gives the chunks to the nodes in random order, which at
    ratio 0 is `label_sorted`. Ratio 1 is `iid`. The part at random is rounded down for each node;
    CLIMB takes it from the top of the file, here it is drawn.

    >>> x, y = np.zeros((4, 1)), np.array([1, 0, 1, 0])
    >>> [sorted(rows.tolist()) for rows in
    ...  mixed(np.random.default_rng(0), x, y, np.array([2, 2]))]
    [[1, 3], [0, 2]]
    """
    sizes = checked(x, y, sizes)
    alike = np.floor(homo_ratio * sizes + 1e-9).astype(np.int64)  # 0.29 * 100 is below 29
    used = rng.permutation(len(y))[: sizes.sum()]
    drawn, rest = cut(used[: alike.sum()], alike), used[alike.sum() :]
    rest = rest[by_class(np.asarray(y)[rest])]
    chunks = deal(rng, rest, sizes - alike) if shuffled else cut(rest, sizes - alike)
    return [np.concatenate(both) for both in zip(drawn, chunks, strict=True)]


@declares("partition")
def sole_holder(
    rng: np.random.Generator,
    x: np.ndarray,
    y: np.ndarray,
    sizes: np.ndarray,
    *,
    label: Annotated[int, Ge(0), "the class that node 0 alone holds"] = 0,
    share: Annotated[float, Gt(0), Le(1), "share of node 0's rows in this class"] = 0.5,
) -> Rows:
    """Node 0 alone holds a class, `share` of its rows; all else at random among the other classes.

    It shows what becomes of that class if node 0 is seldom heard.

    >>> x, y = np.zeros((8, 1)), np.array([0, 1, 2, 1, 0, 2, 1, 2])
    >>> rows = sole_holder(np.random.default_rng(0), x, y, np.array([2, 2, 2]))
    >>> [int((y[held] == 0).sum()) for held in rows]
    [1, 0, 0]
    """
    sizes, y = checked(x, y, sizes), np.asarray(y)
    if not sizes[0]:
        raise BadSetting("node 0 is to hold a class and has no rows; give it 1 or more")
    rare = max(1, int(np.floor(share * sizes[0])))
    held, others = (rng.permutation(np.flatnonzero(mask)) for mask in (y == label, y != label))
    if rare > held.size or sizes.sum() - rare > others.size:
        raise BadData(
            f"node 0 needs {rare} rows of class {label} and there are {held.size}, all together "
            f"{sizes.sum() - rare} of the other classes and there are {others.size}; take fewer "
            "rows for each node, another label or another share"
        )
    rest = sizes.copy()
    rest[0] -= rare
    dealt = cut(others[: rest.sum()], rest)
    return [np.concatenate([held[:rare], dealt[0]]), *dealt[1:]]


def _classes_of_nodes(rng: np.random.Generator, y: np.ndarray, nodes: int) -> np.ndarray:
    """One class for each node: a class has as large a part of the nodes as of the rows."""
    classes, counts = np.unique(y, return_counts=True)
    given = apportion(counts, nodes)
    if nodes >= classes.size:
        while (given == 0).any():  # at most once for each class
            given[np.argmax(given)] -= 1
            given[np.argmin(given)] += 1
    return rng.permutation(np.repeat(classes, given))


def _one_class(
    rng: np.random.Generator, y: np.ndarray, sizes: np.ndarray, order: np.ndarray | None
) -> Rows:
    """Rows of one class for each node, at random or in chunks along `order` [m]."""
    label = _classes_of_nodes(rng, y, sizes.size)
    rows = [np.zeros(0, np.int64)] * sizes.size
    for c in np.unique(label):
        nodes = np.flatnonzero(label == c)
        pool = np.flatnonzero(y == c)
        needed = sizes[nodes].sum()
        if needed > pool.size:
            raise BadData(
                f"class {c} needs {needed} rows for its {nodes.size} nodes and has {pool.size}; "
                "take fewer rows for each node, or label_sorted, where a node may hold two classes"
            )
        used = rng.permutation(pool)[:needed]
        if order is not None:
            used = used[np.argsort(order[used], kind="stable")]
        for node, chunk in zip(nodes, deal(rng, used, sizes[nodes]), strict=True):
            rows[node] = chunk
    return rows


@declares("partition")
def label_drift(rng: np.random.Generator, x: np.ndarray, y: np.ndarray, sizes: np.ndarray) -> Rows:
    """Drift in p(y): every node holds one class.

    A class has nodes in proportion to its rows, by largest remainder, and at least one where there
    are as many nodes as classes. Its rows are drawn anew from the table to fill the sizes, so even
    sizes that add up to all rows can ask for more of a class than there is (`BadData`).

    >>> x, y = np.zeros((4, 1)), np.array([1, 0, 1, 0])
    >>> sorted(y[rows].tolist() for rows in
    ...        label_drift(np.random.default_rng(0), x, y, np.array([2, 2])))
    [[0, 0], [1, 1]]
    """
    return _one_class(rng, np.asarray(y), checked(x, y, sizes), None)


@declares("partition")
def label_feature_drift(
    rng: np.random.Generator, x: np.ndarray, y: np.ndarray, sizes: np.ndarray
) -> Rows:
    """Drift in p(x, y): as `label_drift`, the rows of a class cut along the first component.

    The component is that of the whole table.

    >>> x, y = np.arange(4.0)[:, None], np.array([0, 0, 0, 0])
    >>> sorted(sorted(rows.tolist()) for rows in
    ...        label_feature_drift(np.random.default_rng(0), x, y, np.array([2, 2])))
    [[0, 1], [2, 3]]
    """
    return _one_class(rng, np.asarray(y), checked(x, y, sizes), first_component(x))
