"""Label skew by draws: each node's class mix, or each class's spread over the nodes, is random."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from peerwise.declare import declares
from peerwise.errors import BadData, BadSetting
from peerwise.partition.rows import Rows, apportion, by_class, checked, cut, sized
from peerwise.partition.skew import gini_by_class

DRAWS = 1000  # of a whole allocation before `zipf` and `dirichlet_by_class` give up


def _positive(alpha: float) -> None:
    if not 0 < alpha < np.inf:
        raise BadSetting(f"alpha must be above 0 and finite, got {alpha!r}")


@declares("partition")
def dirichlet(
    rng: np.random.Generator,
    x: np.ndarray,
    y: np.ndarray,
    sizes: np.ndarray,
    *,
    alpha: Annotated[float, Gt(0), "concentration: small is skewed"] = 0.5,
) -> Rows:
    """Label skew: every node draws its class mix from Dirichlet(alpha x the class frequencies).

    Frequencies are those of the rows dealt. A small alpha gives nodes of one class, a large one
    i.i.d. nodes. Nodes are served in random order; one that finds a class used up takes from what
    is left, in proportion.

    >>> x, y = np.zeros((4, 1)), np.array([1, 0, 1, 0])
    >>> [len(rows) for rows in dirichlet(np.random.default_rng(0), x, y, np.array([1, 3]))]
    [1, 3]
    """
    _positive(alpha)
    sizes = checked(x, y, sizes)
    used = rng.permutation(len(y))[: sizes.sum()]
    _, code = np.unique(y, return_inverse=True)
    classes = code.max(initial=0) + 1
    left = np.bincount(code[used], minlength=classes)  # rows of each class not yet dealt
    prior = left / max(left.sum(), 1)
    order = used[by_class(code[used])]
    start, owed = np.cumsum(left) - left, np.zeros(left.size)
    rows = [np.zeros(0, np.int64)] * sizes.size
    for node in rng.permutation(sizes.size):
        mix = rng.dirichlet(np.maximum(alpha * prior, 1e-100))  # 0 is not allowed
        # Rounded at random, and what one node got too little of the next gets: else rounding errors
        # would add up in what is left for the last.
        due = mix * sizes[node] + owed
        upto = np.maximum.accumulate(np.floor(np.cumsum(due) + rng.random()))
        share = np.diff(np.clip(upto, 0, sizes[node]), prepend=0)
        owed = due - share
        take = np.minimum(share.astype(np.int64), left)
        take += rng.multivariate_hypergeometric(left - take, sizes[node] - take.sum())
        rows[node] = np.concatenate([order[s : s + k] for s, k in zip(start, take, strict=True)])
        start, left = start + take, left - take
    return rows


@declares("partition")
def dirichlet_by_class(
    rng: np.random.Generator,
    x: np.ndarray,
    y: np.ndarray,
    sizes: np.ndarray,
    *,
    alpha: Annotated[float, Gt(0), "concentration: small is skewed"] = 0.5,
    least: Annotated[int, Ge(0), "rows that every node gets at least"] = 10,
) -> Rows:
    """Skew in classes and sizes: the nodes' shares of each class are a draw from Dirichlet(alpha).

    The split of "Practical one-shot federated learning" (Li, He, Song), which the BA-BFL paper
    takes. Classes are dealt in turn; a node that already holds its even part of all rows gets none
    of the next ones, and the whole is drawn again until each node has `least` rows or more.

    Of `sizes` only the number of nodes and the sum count.

    >>> x, y = np.zeros((900, 1)), np.arange(900) % 3
    >>> rows = dirichlet_by_class(np.random.default_rng(0), x, y, np.full(9, 100))
    >>> sum(len(r) for r in rows), min(len(r) for r in rows) >= 10
    (900, True)
    """
    _positive(alpha)
    sizes = checked(x, y, sizes)
    nodes, total = sizes.size, int(sizes.sum())
    if nodes * least > total:
        raise BadSetting(
            f"{nodes} nodes of {least} rows or more need {nodes * least} rows, got {total}; "
            "take fewer nodes, more rows or a smaller `least`"
        )
    used = rng.permutation(len(y))[:total]
    classes, code = np.unique(y, return_inverse=True)
    held = np.bincount(code[used], minlength=classes.size)  # rows of each class that are dealt
    given = _spread(rng, held, nodes, alpha, least)
    dealt = [cut(used[code[used] == c], given[:, c]) for c in range(classes.size)]
    return [np.concatenate(parts) for parts in zip(*dealt, strict=True)]


def _spread(
    rng: np.random.Generator, held: np.ndarray, nodes: int, alpha: float, least: int
) -> np.ndarray:
    """Rows of each class at each node [n, c], `held` [c] of each class, `least` or more a node."""
    fewest = []
    for _ in range(DRAWS):
        given = np.zeros((nodes, held.size), np.int64)
        for c in np.flatnonzero(held):
            # Nodes below their part; as rows are left, there are some. A Dirichlet draw for all,
            # with zeros for the full ones and scaled to 1 again, has the law of one for these.
            below = np.flatnonzero(given.sum(1) * nodes < held.sum())
            share = rng.dirichlet(np.full(below.size, max(alpha, 1e-100)))  # 0 is not allowed
            upto = np.floor(np.cumsum(share)[:-1] * held[c]).astype(np.int64)
            given[below, c] = np.diff(np.minimum(upto, held[c]), prepend=0, append=held[c])
        fewest.append(int(given.sum(1).min()))
        if fewest[-1] >= least:
            return given
    raise BadSetting(
        f"none of {DRAWS} draws gave each of {nodes} nodes {least} rows or more: at best one had "
        f"{max(fewest)}; take fewer nodes, more rows, a larger alpha or a smaller `least`"
    )


def truncated_zipf(
    rng: np.random.Generator, shape: tuple[int, ...], alpha: float = 1.26, largest: int = 1000
) -> np.ndarray:
    """Draws from Zipf's law cut off at `largest`: k = 1, 2, ... is as likely as k^-alpha.

    >>> truncated_zipf(np.random.default_rng(0), (5,), largest=1).tolist()
    [1, 1, 1, 1, 1]
    """
    weight = np.arange(1, largest + 1, dtype=float) ** -alpha
    return rng.choice(weight.size, shape, p=weight / weight.sum()) + 1


@declares("partition")
def zipf(
    rng: np.random.Generator,
    x: np.ndarray,
    y: np.ndarray,
    sizes: np.ndarray,
    *,
    alpha: Annotated[float, Gt(0), "exponent of the Zipf law"] = 1.26,
    largest: Annotated[int, Ge(1), "where the law is cut off"] = 1000,
    gini: Annotated[
        tuple[float, float] | None, "range of the mean Gini index of a class; none: any"
    ] = (0.7, 0.85),
    least: Annotated[int, Ge(0), "rows of each class that every node gets at least"] = 1,
) -> Rows:
    """Skew in classes and sizes: a node's share of each class is a draw from a truncated Zipf law.

    The allocation of the DecDiff paper (section V, 3). Classes are dealt independently of each
    other, each node gets `least` rows of every class or more, and the whole is drawn again until
    the Gini index by class, averaged over classes, lies in `gini`; None takes the first draw. The
    paper leaves open where the law is cut off and which Gini it means: 1000 and this one give its
    range, while that of the nodes' totals is near 0.4 (`gini_by_class`, `gini_of_totals`).

    Of `sizes` only the number of nodes and the sum count: how many rows a node gets follows from
    the draw. Where the table has more rows, each class is thinned in proportion.

    >>> x, y = np.zeros((900, 1)), np.arange(900) % 3
    >>> rows = zipf(np.random.default_rng(0), x, y, np.full(30, 30))
    >>> sum(len(r) for r in rows), min(len(np.unique(y[r])) for r in rows)
    (900, 3)
    """
    sizes = checked(x, y, sizes)
    if gini is not None and not 0 <= gini[0] <= gini[1] <= 1:
        raise BadSetting(f"gini must be a lowest and a highest value between 0 and 1, got {gini!r}")
    classes, code = np.unique(y, return_inverse=True)
    held = apportion(np.bincount(code), int(sizes.sum()))  # rows of each class that are dealt
    needed = sizes.size * least
    if (held < needed).any():
        rare = int(np.argmin(held))
        raise BadData(
            f"class {classes[rare]} has {held[rare]} of the {sizes.sum()} rows dealt, and "
            f"{sizes.size} nodes of {least} or more need {needed}; deal more rows, take fewer "
            "nodes or a smaller `least`, or leave the class out"
        )
    given = _skewed(rng, held, sizes.size, alpha, largest, gini, least)
    dealt = [
        cut(rng.permutation(np.flatnonzero(code == c))[: held[c]], given[:, c])
        for c in range(classes.size)
    ]
    return [np.concatenate(parts) for parts in zip(*dealt, strict=True)]


def _skewed(
    rng: np.random.Generator,
    held: np.ndarray,
    nodes: int,
    alpha: float,
    largest: int,
    gini: tuple[float, float] | None,
    least: int,
) -> np.ndarray:
    """Rows of each class at each node [n, c], `held` [c] of each class, with a Gini in range."""

    def draw() -> np.ndarray:
        shares = truncated_zipf(rng, (held.size, nodes), alpha, largest)
        given = [sized(share, int(m), least) for share, m in zip(shares, held, strict=True)]
        return np.stack(given, axis=1)

    if gini is None or not held.any():
        return draw()
    low, high = gini
    here = held > 0  # a class without rows has no index
    # A class is most unequal where one node holds all that the others need not have.
    limit = (1 - 1 / nodes) * float(np.mean(1 - nodes * least / held[here]))
    few = f"{nodes} nodes of {least} rows or more of each class can reach {limit:.2f} at most"
    if low > limit:
        raise BadSetting(
            f"a mean Gini index of {low} or more is out of reach: {few}; "
            "take more nodes or rows, or a lower range: gini = [0.0, 1.0] takes any"
        )
    seen = []
    for _ in range(DRAWS):
        given = draw()
        seen.append(float(gini_by_class(given)[here].mean()))
        if low <= seen[-1] <= high:
            return given
    if max(seen) < low:
        mend = f"{few}, and few nodes seldom come near: take more nodes or rows, a larger `largest`"
    else:
        mend = "take a smaller `largest`" if min(seen) > high else "the range is narrow: widen it"
    raise BadSetting(
        f"none of {DRAWS} draws had a mean Gini index between {low} and {high}; they had "
        f"{min(seen):.2f} to {max(seen):.2f}; {mend}, or take another range: "
        "gini = [0.0, 1.0] takes any"
    )
