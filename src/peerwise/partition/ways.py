"""Rows at random, or by what they look like: drift in p(x) and sample bias."""

import numpy as np

from peerwise.declare import declares
from peerwise.errors import BadData
from peerwise.partition.rows import Rows, checked, cut, deal

CLUSTERS = 100  # at most: k-means takes time in proportion to their number


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


@declares("partition")
def iid(rng: np.random.Generator, x: np.ndarray, y: np.ndarray, sizes: np.ndarray) -> Rows:
    """Rows at random.

    >>> x, y = np.zeros((4, 1)), np.array([0, 0, 1, 1])
    >>> [len(rows) for rows in iid(np.random.default_rng(0), x, y, np.array([1, 2]))]
    [1, 2]
    """
    sizes = checked(x, y, sizes)
    return cut(rng.permutation(len(y))[: sizes.sum()], sizes)


@declares("partition")
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
    sizes = checked(x, y, sizes)
    used = rng.permutation(len(y))[: sizes.sum()]
    return deal(rng, used[np.argsort(first_component(x)[used], kind="stable")], sizes)


@declares("partition")
def clusters(rng: np.random.Generator, x: np.ndarray, y: np.ndarray, sizes: np.ndarray) -> Rows:
    """Sample bias: rows in the order of their k-means cluster, dealt in chunks.

    There are as many clusters of the whole table as nodes, 100 at most. They follow each other
    along a path from centre to nearest centre, so that a chunk that straddles clusters holds rows
    of near ones; within a cluster the order is random. "Towards a Realistic Decentralized Naive
    Bayes with Differential Privacy" (Giaretta et al.), section 6. Columns are standardised, and
    category codes are taken as numbers.

    >>> x, y = np.array([[0.0], [9.0], [0.1], [9.1]]), np.zeros(4, int)
    >>> sorted(sorted(rows.tolist()) for rows in
    ...        clusters(np.random.default_rng(0), x, y, np.array([2, 2])))
    [[0, 2], [1, 3]]
    """
    from sklearn.cluster import MiniBatchKMeans  # slow to import and needed only here
    from threadpoolctl import threadpool_limits

    sizes = checked(x, y, sizes)
    used = rng.permutation(len(y))[: sizes.sum()]
    z = _standardised(x)
    k = min(sizes.size, len(z), CLUSTERS)
    means = MiniBatchKMeans(k, n_init=3, random_state=int(rng.integers(2**31)))
    with threadpool_limits(1):  # sums in one order give the same clusters everywhere
        fitted = means.fit(z)
    place = np.argsort(_way(fitted.cluster_centers_))  # of each cluster along the path
    return deal(rng, used[np.argsort(place[fitted.labels_[used]], kind="stable")], sizes)


def _way(centres: np.ndarray) -> np.ndarray:
    """An order of points [k, d]: the outermost first, then always the nearest of those left."""
    left = np.ones(len(centres), bool)
    here = int(np.argmax(((centres - centres.mean(0)) ** 2).sum(1)))
    way = [here]
    while len(way) < len(centres):
        left[here] = False
        away = ((centres - centres[here]) ** 2).sum(1)
        here = int(np.argmin(np.where(left, away, np.inf)))
        way.append(here)
    return np.array(way)
