"""Categorical features: independent given the class, or each given the class and a parent."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array
from peerwise.models.block import Block, Coefficients, places
from peerwise.models.entries import histograms


def topological(parents: Sequence[int]) -> list[int]:
    """Features in an order in which parents come before their children; -1 is no parent.

    >>> topological((1, 2, -1))
    [2, 1, 0]
    """
    order: list[int] = []
    while len(order) < len(parents):
        ready = [i for i, p in enumerate(parents) if i not in order and (p < 0 or p in order)]
        if not ready:
            raise ValueError(f"parents {tuple(parents)} form a circle")
        order += ready
    return order


def nominal(
    columns: Sequence[int],
    levels: Sequence[int],
    parents: Sequence[int],
    *,
    missing: bool,
    by_rows: bool = False,
) -> Block:
    """Categories 0..levels-1 in `columns`; `parents` are places in that list, -1 for none.

    Statistics of a class: rows in each category of a feature without a parent, rows in each pair
    of categories of a feature and its parent. A category outside 0..levels-1 is a missing one.
    With `by_rows`, cells are divided by the rows of the class and not by their own sum, which
    differs where noise was added.
    """
    cols, k = places(columns), len(columns)
    child = np.array([p >= 0 for p in parents], bool)
    above = places([max(p, 0) for p in parents])  # the place of the parent, anything for a root
    spread = places([levels[p] if p >= 0 else 1 for p in parents])  # categories of the parent
    own = places(levels)
    widths = own * spread
    feature = np.repeat(np.arange(k, dtype=np.int32), widths)  # the feature behind each entry
    code = places(np.concatenate([np.arange(w) for w in widths]) if k else [])
    # entries that sum to one: a feature's, for each category of its parent
    starts = np.concatenate([[0], np.cumsum(spread)[:-1]]).astype(np.int32)
    group = (starts[feature] + code % spread[feature]).astype(np.int32) if k else code
    member = np.zeros((len(code), int(spread.sum())))
    member[np.arange(len(code)), group] = 1
    of_feature = np.zeros((len(code), k))
    of_feature[np.arange(len(code)), feature] = 1
    tree = bool(child.any())
    order = topological(parents)
    blocks = [np.flatnonzero(feature == f) for f in range(k)]

    def codes(x: Array) -> Array:
        """The entry of each feature [m, k]; one that matches none where a category is missing."""
        z = x[:, cols]
        if not tree:
            return z
        known = (z >= 0) & (z < own[None].astype(z.dtype)) & (z == jnp.floor(z))
        parent = jnp.where(child[None], z[:, above], 0)
        both = known & (known[:, above] | ~child[None])
        return jnp.where(both, z * spread[None].astype(z.dtype) + parent, -1)

    def features(x: Array) -> Array:
        return (codes(x)[:, feature] == code[None].astype(x.dtype)).astype(x.dtype)

    def parameters(n: Array, floor: Array, s: Array, sums: Array) -> tuple[dict[str, Array], Array]:
        cell = jnp.maximum(s, floor)
        total = jnp.matmul(cell, member.astype(s.dtype), precision="highest")
        return {"prob": cell / (n if by_rows else total[:, group])}, (s < floor).sum()

    def coefficients(p: dict[str, Array]) -> Coefficients:
        return Coefficients(0.0, jnp.log(p["prob"]))

    def table(prob: Array, f: int) -> Array:
        """p(x_f | parent, y) [c, levels, levels of the parent or 1]."""
        return prob[:, places(blocks[f])].reshape(prob.shape[0], levels[f], int(spread[f]))

    def describe(p: dict[str, Array]) -> dict[str, Array]:
        tables = [table(p["prob"], f) for f in range(k)]
        named = {int(columns[f]): tables[f] if child[f] else tables[f][..., 0] for f in range(k)}
        return {"prob": named}

    def terms(p: dict[str, Array], x: Array) -> tuple[float, Array]:
        if tree:
            return 0.0, _through_tree(p["prob"], x)
        entries = jnp.where(features(x)[:, None] > 0, jnp.log(p["prob"])[None], 0)
        return 0.0, jnp.matmul(entries, of_feature.astype(x.dtype), precision="highest")

    def _through_tree(prob: Array, x: Array) -> Array:
        """Sum-product from the leaves up: a missing category is summed out.

        What children add about a missing parent is counted with that parent.
        """
        z = x[:, cols]
        # of the children of f: log p(what is below f | x_f, y) [m, c, levels]
        below: list[Array] = [0.0] * k
        heard: list[Array] = [jnp.zeros(())] * k
        for f in reversed(order):
            entry = jnp.log(table(prob, f))[None] + _columns(below[f])  # [m or 1, c, levels, up]
            here = z[:, f, None] == np.arange(levels[f])[None].astype(z.dtype)  # [m, levels]
            known = here.any(1)
            allowed = (here | ~known[:, None])[:, None, :, None]
            up = jax.nn.logsumexp(jnp.where(allowed, entry, -jnp.inf), axis=2)  # [m, c, up]
            parent = parents[f]
            if parent < 0:
                heard[f] = up[..., 0]
                continue
            there = z[:, parent, None] == np.arange(levels[parent])[None].astype(z.dtype)
            seen = there.any(1)[:, None]
            heard[f] = jnp.where(seen, jnp.where(there[:, None], up, 0).sum(-1), 0)
            # where the parent is known it is counted above already
            below[parent] = below[parent] + jnp.where(seen[..., None], 0, up)
        return jnp.stack(heard, -1)

    def _columns(values: Array | float) -> Array | float:
        return values if isinstance(values, float) else values[..., None]

    def sample(key: Array, p: dict[str, Array], y: Array) -> Array:
        drawn: list[Array] = [jnp.zeros(())] * k
        for f, own_key in zip(order, jax.random.split(key, max(k, 1))[:k], strict=True):
            parent = drawn[parents[f]] if child[f] else jnp.zeros_like(y)
            chance = table(p["prob"], f)[y, :, parent]  # [m, levels]
            drawn[f] = jax.random.categorical(own_key, jnp.log(chance))
        return jnp.stack(drawn, 1).astype(p["prob"].dtype)

    def pseudo(rows: Array, mean: Array, var: Array, cell: Array | None) -> tuple[Array, None]:
        if cell is not None:
            return jnp.full((len(code),), cell, rows.dtype), None
        return rows / jnp.asarray(widths[feature], rows.dtype), None

    return Block(
        cols,
        len(code),
        features,
        parameters,
        coefficients,
        describe,
        terms,
        sample,
        pseudo,
        linear=not (tree and missing),
        entries=lambda: (histograms(feature), None),
    )
