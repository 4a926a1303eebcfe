"""DecDiff's step: how far a node moves from its own value towards its neighbours' mean."""

from collections.abc import Callable
from functools import cache
from typing import Annotated, Literal, TypeAlias

import jax
import jax.numpy as jnp
from annotated_types import Ge

from peerwise.combine.weigh import data_size
from peerwise.core import Array, Mean, Tree
from peerwise.declare import declares

Norm: TypeAlias = Annotated[
    Literal["tensor", "global"], "distance of each tensor by itself, or of all together"
]
Softening: TypeAlias = Annotated[  # below 1 a step could overshoot the mean
    float, Ge(1), "softens the step: distance / (distance + s)"
]

Step: TypeAlias = Callable[[Tree, Tree], Tree]  # own, mean -> value


@cache
def toward(s: float = 1.0, norm: str = "tensor") -> Step:
    """DecDiff (equation 5): own + (mean - own) / (|mean - own| + s), never past the mean.

    A node at distance r moves r / (r + s) < 1 towards the mean: hardly more from afar than from
    near, so that what a node has learnt is not overwritten. `norm`: of each "tensor" by itself, or
    "global" over all of them.
    """

    def step(own: Tree, mean: Tree) -> Tree:
        apart = jax.tree.map(jnp.subtract, mean, own)
        squares = jax.tree.map(lambda a: (a * a).sum(), apart)
        if norm == "global":
            total = sum(jax.tree.leaves(squares))
            squares = jax.tree.map(lambda _: total, squares)

        def move(value: Array, way: Array, square: Array) -> Array:
            return value + way / (jnp.sqrt(square) + s).astype(way.dtype)

        return jax.tree.map(move, own, apart, squares)

    return step


@declares("rule")
@cache
def decdiff(*, s: Softening = 1.0, norm: Norm = "tensor") -> Mean:
    """A bounded step towards the neighbours' mean, by data size and trust (equation 5)."""
    return data_size(include_self=False)._replace(step=toward(s, norm))
