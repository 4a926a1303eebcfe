"""Models assembled from blocks: groups of features that are independent given the class."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array, Tree
from peerwise.errors import BadSetting
from peerwise.models.entries import Entries, factors, joined, side_by_side
from peerwise.models.family import Model, Theta

SMALLEST_SHARE = 1e-6  # of all rows: a class or a category is never rarer than this


class Coefficients(NamedTuple):
    """What a block adds to the coefficients of log p(x, y)."""

    bias: Array | float  # [c, 1], of the constant 1
    weight: Array  # [c, size]
    shared: Array | None = None  # [shared]


class Block(NamedTuple):
    """Some columns of x, given the class independent of all others."""

    columns: np.ndarray  # [k] which columns of x
    size: int  # how many statistics a class has
    features: Callable[[Array], Array]  # x [m, d] -> [m, size]
    # class counts [c, 1], smallest count, s [c, size], shared s [r] -> parameters, guards
    parameters: Callable[[Array, Array, Array, Array], tuple[dict[str, Array], Array]]
    coefficients: Callable[[dict[str, Array]], Coefficients]
    describe: Callable[[dict[str, Array]], dict[str, Array]]
    # parameters, x -> what it adds to log p(x, y): [m, c] as a whole and [m, c, k] by column
    terms: Callable[[dict[str, Array], Array], tuple[Array | float, Array]]
    sample: Callable[[Array, dict[str, Array], Array], Array]  # key, parameters, y -> [m, k]
    # rows, mean [d], var [d], cell -> statistics of a class, shared statistics
    pseudo: Callable[[Any, Array, Array, Any], tuple[Array, Array | None]]
    shared: int = 0
    common: Callable[[Array], Array] | None = None  # x [m, d] -> [m, shared]
    linear: bool = True
    # of phi and of psi; counts are places in the block's own phi, -1 that of the class
    entries: Callable[[], tuple[Entries, Entries | None]] | None = None


def smallest(counts: Array, share: float = SMALLEST_SHARE) -> Array:
    """The least that a count may be: a share of all, so that scaling statistics changes nothing.

    Without any rows it is tiny, yet far from where products underflow.
    """
    return jnp.maximum(share * jnp.abs(counts).sum(), jnp.finfo(counts.dtype).tiny ** 0.5)


def places(which: Any) -> np.ndarray:
    """Indices for traced code: JAX 0.10 takes 64 bits in one precision and refuses the other."""
    return np.asarray(which).astype(np.int32)


def check_arguments(cardinalities: Sequence[int], classes: int) -> tuple[tuple[int, ...], int]:
    """The arguments that every model has, checked and hashable."""
    if classes < 1:
        raise BadSetting(f"classes must be 1 or more, got {classes}")
    if not len(cardinalities) or min(cardinalities) < 0:
        raise BadSetting(
            f"cardinalities must be 0 (a number) or a number of categories, got {cardinalities}"
        )
    return tuple(int(r) for r in cardinalities), int(classes)


def _cuts(sizes: Sequence[int], start: int) -> list[slice]:
    ends = np.cumsum([start, *sizes]).tolist()
    return [slice(a, b) for a, b in itertools.pairwise(ends)]


def assemble(
    name: str,
    cardinalities: tuple[int, ...],
    classes: int,
    blocks: Sequence[Block],
    wants: str = "standardised",
    share: float = SMALLEST_SHARE,
) -> Model:
    """p(y) prod_b p(x_b | y), every column of x in one of the blocks; `share` is the least count.

    `prior(rows, mean, var, cell, dtype)` of the model gives every class `rows` pseudo-rows with
    that mean and variance of each column, spread evenly over categories, or `cell` of them in each
    category. As statistics this is the conjugate prior: symmetric Dirichlet distributions for
    classes and categories, normal-inverse-gamma or -Wishart for Gaussian features, with `rows`
    as the weight of both their means and their variances.
    """
    blocks = [b for b in blocks if len(b.columns)]
    columns = len(cardinalities)
    size = 1 + sum(b.size for b in blocks)
    shared = sum(b.shared for b in blocks)
    own, common = _cuts([b.size for b in blocks], 1), _cuts([b.shared for b in blocks], 0)
    order = np.argsort(np.concatenate([b.columns for b in blocks])).astype(np.int32)

    def features(x: Array) -> Array:
        one = jnp.ones((x.shape[0], 1), x.dtype)
        return jnp.concatenate([one, *(b.features(x) for b in blocks)], 1)

    def psi(x: Array) -> Array:
        return jnp.concatenate([b.common(x) for b in blocks if b.common is not None], 1)

    def guarded(s: Tree) -> tuple[Array, list[dict[str, Array]], Array]:
        """Class counts, parameters of every block, and how many had to be guarded."""
        lines, sums = (s["classes"], s["shared"]) if shared else (s, s[0, :0])
        rows = lines[:, :1]
        floor = smallest(rows, share)
        n = jnp.maximum(rows, floor)
        guards = (rows < floor).sum()
        fitted = []
        for b, own_cut, common_cut in zip(blocks, own, common, strict=True):
            parameters, acted = b.parameters(n, floor, lines[:, own_cut], sums[common_cut])
            fitted.append(parameters)
            guards += acted
        return n, fitted, guards.astype(jnp.int32)

    def theta(s: Tree) -> Theta:
        n, fitted, guards = guarded(s)
        parts = [b.coefficients(p) for b, p in zip(blocks, fitted, strict=True)]
        bias = jnp.log(n / n.sum()) + sum(p.bias for p in parts)
        weight = jnp.concatenate([bias, *(p.weight for p in parts)], 1)
        if not shared:
            return Theta(weight, guards)
        return Theta(
            weight, guards, jnp.concatenate([p.shared for p in parts if p.shared is not None])
        )

    def terms(s: Tree, x: Array) -> tuple[Array, Array]:
        n, fitted, _ = guarded(s)
        of_class = jnp.broadcast_to(jnp.log(n / n.sum()).T, (x.shape[0], classes))
        parts = []
        for b, p in zip(blocks, fitted, strict=True):
            whole, by_column = b.terms(p, x)
            of_class = of_class + whole
            parts.append(by_column)
        return of_class, jnp.concatenate(parts, -1)[..., order]

    def sample(key: Array, s: Tree, m: int) -> tuple[Array, Array]:
        n, fitted, _ = guarded(s)
        keys = jax.random.split(key, len(blocks) + 1)
        y = jax.random.categorical(keys[0], jnp.log(n[:, 0]), shape=(m,))
        drawn = [b.sample(k, p, y) for b, p, k in zip(blocks, fitted, keys[1:], strict=True)]
        return jnp.concatenate(drawn, 1)[:, order], y

    def prior(
        rows: Any, mean: Any = 0.0, var: Any = 1.0, cell: Any = None, dtype: Any = float
    ) -> Tree:
        rows = jnp.asarray(rows, dtype)
        mean = jnp.broadcast_to(jnp.asarray(mean, dtype), (columns,))
        var = jnp.broadcast_to(jnp.asarray(var, dtype), (columns,))
        counts = [b.pseudo(rows, mean, var, cell) for b in blocks]
        line = jnp.concatenate([rows[None], *(own for own, _ in counts)]).astype(dtype)
        lines = jnp.tile(line[None], (classes, 1))
        if not shared:
            return lines
        sums = jnp.concatenate([common for _, common in counts if common is not None])
        return {"classes": lines, "shared": (classes * sums).astype(dtype)}

    def uniform(m0: Any, dtype: Any) -> Tree:
        return prior(jnp.asarray(m0, dtype) / classes, dtype=dtype)

    def describe(s: Tree) -> dict[str, Array]:
        n, fitted, _ = guarded(jax.tree.map(jnp.asarray, s))
        described: dict[str, Array] = {"prior": (n / n.sum())[:, 0]}
        for b, p in zip(blocks, fitted, strict=True):
            described |= b.describe(p)
        return described

    def entries() -> tuple[Entries, Entries | None]:
        parts = [b.entries() for b in blocks if b.entries is not None]
        ones = factors(np.array([-1]), np.array([-1]))
        lines = joined([ones, *(columns for columns, _ in parts)])
        both = [
            sums._replace(counted=np.where(sums.counted < 0, 0, sums.counted + cut.start))
            for (_, sums), cut in zip(parts, own, strict=True)
            if sums is not None
        ]
        return lines, side_by_side(both) if both else None

    return Model(
        name,
        classes,
        size,
        features,
        theta,
        uniform,
        describe,
        terms,
        sample,
        prior,
        shared,
        psi if shared else None,
        all(b.linear for b in blocks),
        wants,
        cardinalities,
        entries if all(b.entries is not None for b in blocks) else None,
    )
