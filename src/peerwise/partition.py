"""Who holds which rows: ways to deal a table to the nodes, and how many rows each gets.

A partitioner is `name(rng, x, y, sizes)` and gives, for each node, the numbers of its rows: as many
as `sizes` says, and no row twice. Where the table has more rows than are asked for, the rows used
are a random draw, so that what all nodes hold together is an i.i.d. sample; where it has as many,
each is used once. (`label_drift` and `label_feature_drift` depart from this: see there.)
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from peerwise.errors import BadData, BadSetting

__all__ = [
    "PARTITIONS",
    "SIZES",
    "Partition",
    "clusters",
    "dirichlet",
    "equal_sizes",
    "exponential_sizes",
    "feature_drift",
    "first_component",
    "iid",
    "label_drift",
    "label_feature_drift",
    "label_sorted",
    "log_uniform_sizes",
    "uniform_sizes",
]

CLUSTERS = 100  # of rows at most: k-means takes time in proportion to them

Rows: TypeAlias = list[np.ndarray]  # for each node, the numbers of its rows
# Deals rows to nodes: rng, x [m, d], y [m], sizes [n] -> the rows of each node.
Partition: TypeAlias = Callable[[np.random.Generator, np.ndarray, np.ndarray, np.ndarray], Rows]


def _checked(x: np.ndarray, y: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The sizes as an array, if they and the table make sense."""
    sizes = np.asarray(sizes)
    if sizes.ndim != 1 or not sizes.size or sizes.dtype.kind not in "iu" or sizes.min() < 0:
        raise BadSetting(f"sizes must be one whole number, 0 or more, for each node, got {sizes}")
    if np.ndim(x) != 2 or np.shape(y) != np.shape(x)[:1]:
        raise BadData(f"x must be [m, d] and y [m], got {np.shape(x)} and {np.shape(y)}")
    if not len(y):
        raise BadData("there are no rows to deal; the table is empty")
    if sizes.sum() > len(y):
        raise BadSetting(
            f"the nodes ask for {sizes.sum()} rows and there are {len(y)}; "
            "take fewer nodes or fewer rows for each"
        )
    return sizes.astype(np.int64)


def _cut(rows: np.ndarray, sizes: np.ndarray) -> Rows:
    return np.split(rows, np.cumsum(sizes)[:-1])


def _deal(rng: np.random.Generator, rows: np.ndarray, sizes: np.ndarray) -> Rows:
    """Cut ordered rows into chunks and give them to the nodes in random order."""
    order = rng.permutation(sizes.size)
    chunks = _cut(rows, sizes[order])
    return [chunks[place] for place in np.argsort(order)]


def _standardised(x: np.ndarray) -> np.ndarray:
    """Columns of x with mean 0 and variance 1; NaN is at the mean and a constant column is 0."""
    try:
        z = np.array(x, float)
    except (TypeError, ValueError):
        raise BadData("x must hold numbers; encode its columns first") from None
    if z.ndim != 2 or not z.size:
        raise BadData(f"x must be [m, d] with rows and columns, got shape {z.shape}")
    unknown = ~np.isfinite(z)
    z[unknown] = 0
    largest = np.maximum(z.max(0), -z.min(0))
    z -= z.sum(0) / np.maximum((~unknown).sum(0), 1)
    z[unknown] = 0
    std = np.sqrt(np.einsum("ij,ij->j", z, z) / len(z))
    constant = std <= 1e-12 * largest  # not exactly 0: the mean is rounded
    z *= np.where(constant, 0, 1 / np.where(constant, 1, std))
    return z


def first_component(x: np.ndarray) -> np.ndarray:
    """The first principal component of standardised columns, one score per row of x [m, d].

    NaN counts as the mean of its column and a constant column counts for nothing. The sign is such
    that the heaviest loading is positive, so that the order of rows is the same everywhere.

    >>> first_component(np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0]])).round(3).tolist()
    [-1.225, 0.0, 1.225]
    """
    z = _standardised(x)
    _, vectors = np.linalg.eigh(z.T @ z)  # [d, d]: rows may be many
    loading = vectors[:, -1]
    score: np.ndarray = z @ (loading * np.sign(loading[np.argmax(np.abs(loading))]))
    return score


def iid(rng: np.random.Generator, x: np.ndarray, y: np.ndarray, sizes: np.ndarray) -> Rows:
    """Rows at random.

    >>> x, y = np.zeros((4, 1)), np.array([0, 0, 1, 1])
    >>> [len(rows) for rows in iid(np.random.default_rng(0), x, y, np.array([1, 2]))]
    [1, 2]
    """
    sizes = _checked(x, y, sizes)
    return _cut(rng.permutation(len(y))[: sizes.sum()], sizes)


def feature_drift(
    rng: np.random.Generator, x: np.ndarray, y: np.ndarray, sizes: np.ndarray
) -> Rows:
    """Drift in p(x): rows in the order of the first principal component, dealt in chunks.

    The component is that of the whole table.

    >>> x, y = np.array([[3.0], [1.0], [2.0], [0.0]]), np.zeros(4, int)
    >>> sorted(sorted(rows.tolist()) for rows in
    ...        feature_drift(np.random.default_rng(0), x, y, np.array([2, 2])))
    [[0, 2], [1, 3]]
    """
    sizes = _checked(x, y, sizes)
    used = rng.permutation(len(y))[: sizes.sum()]
    return _deal(rng, used[np.argsort(first_component(x)[used], kind="stable")], sizes)


def clusters(rng: np.random.Generator, x: np.ndarray, y: np.ndarray, sizes: np.ndarray) -> Rows:
    """Sample bias: rows in the order of their k-means cluster, dealt in chunks.

    There are as many clusters of the whole table as nodes, 100 at most. They follow each other
    along a way from centre to nearest centre, so that a chunk that straddles clusters holds rows
    of near ones; within a cluster the order is random. "Towards a Realistic Decentralized Naive
    Bayes with Differential Privacy" (Giaretta et al.), section 6. Columns are standardised, and
    category codes are taken as numbers.

    >>> x, y = np.array([[0.0], [9.0], [0.1], [9.1]]), np.zeros(4, int)
    >>> sorted(sorted(rows.tolist()) for rows in
    ...        clusters(np.random.default_rng(0), x, y, np.array([2, 2])))
    [[0, 2], [1, 3]]
    """
    from sklearn.cluster import MiniBatchKMeans  # takes a while, and other ways do without it
    from threadpoolctl import threadpool_limits

    sizes = _checked(x, y, sizes)
    used = rng.permutation(len(y))[: sizes.sum()]
    z = _standardised(x)
    k = min(sizes.size, len(z), CLUSTERS)
    means = MiniBatchKMeans(k, n_init=3, random_state=int(rng.integers(2**31)))
    with threadpool_limits(1):  # sums in one order give the same clusters everywhere
        found = means.fit(z)
    place = np.argsort(_way(found.cluster_centers_))  # of each cluster along the way
    return _deal(rng, used[np.argsort(place[found.labels_[used]], kind="stable")], sizes)


def _way(centres: np.ndarray) -> np.ndarray:
    """The numbers of points [k, d] from the outermost on, always to the nearest not yet seen."""
    left = np.ones(len(centres), bool)
    here = int(np.argmax(((centres - centres.mean(0)) ** 2).sum(1)))
    way = [here]
    while len(way) < len(centres):
        left[here] = False
        away = ((centres - centres[here]) ** 2).sum(1)
        here = int(np.argmin(np.where(left, away, np.inf)))
        way.append(here)
    return np.array(way)


def label_sorted(rng: np.random.Generator, x: np.ndarray, y: np.ndarray, sizes: np.ndarray) -> Rows:
    """Rows in the order of their class, dealt in chunks; a chunk may straddle classes.

    >>> x, y = np.zeros((4, 1)), np.array([1, 0, 1, 0])
    >>> sorted(sorted(rows.tolist()) for rows in
    ...        label_sorted(np.random.default_rng(0), x, y, np.array([2, 2])))
    [[0, 2], [1, 3]]
    """
    sizes = _checked(x, y, sizes)
    used = rng.permutation(len(y))[: sizes.sum()]
    return _deal(rng, used[np.argsort(np.asarray(y)[used], kind="stable")], sizes)


def _apportion(share: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers in proportion to `share` that add up to `total`, by largest remainder."""
    exact = share / share.sum() * total
    given: np.ndarray = np.floor(exact).astype(np.int64)
    given[np.argsort(given - exact, kind="stable")[: total - given.sum()]] += 1
    return given


def _classes_of_nodes(rng: np.random.Generator, y: np.ndarray, nodes: int) -> np.ndarray:
    """One class for each node: a class has as large a part of the nodes as of the rows."""
    classes, counts = np.unique(y, return_counts=True)
    given = _apportion(counts, nodes)
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
    rows: Rows = [np.zeros(0, np.int64)] * sizes.size
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
        for node, chunk in zip(nodes, _deal(rng, used, sizes[nodes]), strict=True):
            rows[node] = chunk
    return rows


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
    return _one_class(rng, np.asarray(y), _checked(x, y, sizes), None)


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
    return _one_class(rng, np.asarray(y), _checked(x, y, sizes), first_component(x))


def dirichlet(
    rng: np.random.Generator,
    x: np.ndarray,
    y: np.ndarray,
    sizes: np.ndarray,
    alpha: float = 0.5,
) -> Rows:
    """Label skew: every node draws its class mix from Dirichlet(alpha x the class frequencies).

    A small alpha gives nodes of one class, a large one i.i.d. nodes. Nodes are served in random
    order; one that finds a class used up takes from what is left, in proportion.

    >>> x, y = np.zeros((4, 1)), np.array([1, 0, 1, 0])
    >>> [len(rows) for rows in dirichlet(np.random.default_rng(0), x, y, np.array([1, 3]))]
    [1, 3]
    """
    if not 0 < alpha < np.inf:
        raise BadSetting(f"alpha must be above 0 and finite, got {alpha!r}")
    sizes = _checked(x, y, sizes)
    used = rng.permutation(len(y))[: sizes.sum()]
    _, code = np.unique(y, return_inverse=True)
    prior = np.bincount(code) / code.size
    order = used[np.argsort(code[used], kind="stable")]
    left = np.bincount(code[used], minlength=prior.size)  # rows of each class not yet dealt
    start = np.cumsum(left) - left
    rows: Rows = [np.zeros(0, np.int64)] * sizes.size
    for node in rng.permutation(sizes.size):
        mix = rng.dirichlet(np.maximum(alpha * prior, 1e-100))  # 0 is not allowed
        # Rounded at random, within 1: multinomial noise would add up in what the last nodes get.
        upto = np.minimum(np.floor(np.cumsum(mix) * sizes[node] + rng.random()), sizes[node])
        take = np.minimum(np.diff(upto, prepend=0).astype(np.int64), left)
        take += rng.multivariate_hypergeometric(left - take, sizes[node] - take.sum())
        rows[node] = np.concatenate([order[s : s + k] for s, k in zip(start, take, strict=True)])
        start, left = start + take, left - take
    return rows


def _whole(name: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise BadSetting(f"{name} must be a whole number, {least} or more, got {value!r}")
    return int(value)


def _sized(share: np.ndarray, rows: int, minimum: int) -> np.ndarray:
    """Sizes in proportion to `share`, but for nodes that would fall below the minimum."""
    sizes = np.full(share.size, minimum)
    free = np.ones(share.size, bool)  # nodes above the minimum; each turn may find more below it
    while free.any():
        rest = rows - minimum * int(np.count_nonzero(~free))
        low = free & (share * rest < minimum * share[free].sum())
        if not low.any():
            sizes[free] = _apportion(share[free], rest)
            break
        free &= ~low
    return sizes


def _room(nodes: int, rows: int, minimum: int) -> None:
    needed = _whole("nodes", nodes, 1) * _whole("minimum", minimum, 0)
    if needed > _whole("rows", rows, 1):
        raise BadSetting(
            f"{nodes} nodes of {minimum} rows or more need {needed} rows, got {rows}; "
            "take fewer nodes or a smaller minimum"
        )


def equal_sizes(nodes: int, rows: int) -> np.ndarray:
    """As many rows for each node; the first ones have one more where they do not divide.

    >>> equal_sizes(3, 10).tolist()
    [4, 3, 3]
    """
    _room(nodes, rows, 1)
    return rows // nodes + (np.arange(nodes) < rows % nodes)


def _equal(rng: np.random.Generator, nodes: int, rows: int, minimum: int = 2) -> np.ndarray:
    _room(nodes, rows, minimum)
    return equal_sizes(nodes, rows)


def uniform_sizes(rng: np.random.Generator, nodes: int, rows: int, minimum: int = 2) -> np.ndarray:
    """Sizes in proportion to draws from U[1, 10], `minimum` or more, `rows` in all.

    >>> int(uniform_sizes(np.random.default_rng(0), 5, 100).sum())
    100
    """
    _room(nodes, rows, minimum)
    return _sized(rng.uniform(1, 10, nodes), rows, minimum)


def exponential_sizes(
    rng: np.random.Generator, nodes: int, rows: int, minimum: int = 2
) -> np.ndarray:
    """Sizes in proportion to draws from an exponential law, `minimum` or more, `rows` in all.

    >>> int(exponential_sizes(np.random.default_rng(0), 5, 100).sum())
    100
    """
    _room(nodes, rows, minimum)
    return _sized(rng.exponential(size=nodes), rows, minimum)


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
    return _sized(
        np.exp(rng.uniform(np.log(low), np.log(max(rows / 5, low)), nodes)), rows, minimum
    )


# Partitions by name, called as f(rng, x, y, sizes).
PARTITIONS: dict[str, Partition] = {
    "iid": iid,
    "clusters": clusters,
    "feature_drift": feature_drift,
    "label_drift": label_drift,
    "label_feature_drift": label_feature_drift,
    "label_sorted": label_sorted,
    "dirichlet": dirichlet,
}

# How many rows each node gets, by name.
SIZES: dict[str, Callable[..., np.ndarray]] = {
    "equal": _equal,
    "uniform": uniform_sizes,
    "exponential": exponential_sizes,
    "log_uniform": log_uniform_sizes,
}  # called as f(rng, nodes, rows, minimum)
