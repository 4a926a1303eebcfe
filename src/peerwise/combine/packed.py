"""A tree whose scalars lie side by side: few arrays to move instead of many small ones."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from peerwise.core import Array, Tree


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Packed:
    """Rows of a tree: its arrays [e, ...], and the scalars of each type [e, s]."""

    arrays: tuple[Array, ...]
    # the structure of the tree, and for each leaf its array and, of a scalar, its column
    layout: tuple[Any, tuple[tuple[int, int | None], ...]] = field(metadata={"static": True})

    @property
    def tree(self) -> Tree:
        """The tree, of as many leading axes as the arrays now have."""
        structure, places = self.layout
        leaves = [self.arrays[i] if j is None else self.arrays[i][..., j] for i, j in places]
        return jax.tree.unflatten(structure, leaves)


def packed(tree: Tree) -> Packed:
    """The tree of arrays [e, ...] with its scalars [e] side by side."""
    leaves, structure = jax.tree.flatten(tree)
    scalars: dict[Any, list[int]] = {}
    for i, leaf in enumerate(leaves):
        if leaf.ndim == 1:
            scalars.setdefault(leaf.dtype, []).append(i)
    places: list[tuple[int, int | None]] = [(0, None)] * len(leaves)
    arrays: list[Array] = []
    for i, leaf in enumerate(leaves):
        if leaf.ndim != 1:
            places[i] = len(arrays), None
            arrays.append(leaf)
    for those in scalars.values():
        for column, i in enumerate(those):
            places[i] = len(arrays), column
        arrays.append(jnp.stack([leaves[i] for i in those], 1))
    return Packed(tuple(arrays), (structure, tuple(places)))
