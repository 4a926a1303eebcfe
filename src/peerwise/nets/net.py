"""What a neural classifier is to a method: weights, and a function of weights and rows.

A user's own net is any function from a key to an equinox module that maps one row to a number a
class. Its inexact arrays are the weights that nodes train and tell each other; everything else
must be the same whatever the key.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from peerwise.core import Array, Tree
from peerwise.errors import BadSetting

__all__ = ["Net", "network_of"]


class Net(NamedTuple):
    """A neural classifier of rows of `features` numbers. The same function gives the same net."""

    init: Callable[[Array], Tree]  # key -> weights
    logits: Callable[[Tree, Array], Array]  # weights, x [m, d] -> [m, c]
    features: int
    classes: int
    size: int  # how many weights


@cache
def network_of(make: Callable[[Array], Any], features: int, classes: int) -> Net:
    """The net that `make(key)` builds, checked to give a number for every class."""
    module = make(jax.random.key(0))
    weights, rest = eqx.partition(module, eqx.is_inexact_array)
    row = jax.ShapeDtypeStruct((features,), np.float32)
    try:
        out = jax.eval_shape(module, row)
    except (TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise BadSetting(f"the net cannot take a row of {features} numbers: {reason}") from None
    if out.shape != (classes,):
        raise BadSetting(
            f"the net must give a number for each of the {classes} classes, got shape {out.shape}"
        )

    def init(key: Array) -> Tree:
        return eqx.filter(make(key), eqx.is_inexact_array)

    def logits(weights: Tree, x: Array) -> Array:
        return jax.vmap(eqx.combine(weights, rest))(x)

    size = sum(int(np.prod(a.shape)) for a in jax.tree.leaves(weights))
    return Net(init, logits, features, classes, size)
