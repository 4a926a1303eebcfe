"""The initial weights of a layer, in one place for every kind of layer.

Draws are float32 whatever the precision, so that a run in float64 begins with the same weights.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from peerwise.core import Array
from peerwise.errors import UnknownName

INITS = ("he_uniform", "pytorch")  # how weights begin


def check_init(init: str) -> None:
    """Refuse an initialisation that is not in INITS."""
    if init not in INITS:
        raise UnknownName("initialisation", init, INITS)


def draw(key: Array, shape: tuple[int, ...], inputs: int, out: int, init: str) -> Any:
    """Weights of `shape` and biases [out] of a layer whose outputs each sum `inputs` numbers.

    "he_uniform": weights in +- sqrt(6 / inputs), biases 0. "pytorch": both in +- 1 / sqrt(inputs).
    """
    check_init(init)
    if init == "he_uniform":
        limit = math.sqrt(6 / inputs)
        weight = jax.random.uniform(key, shape, jnp.float32, -limit, limit)
        return weight, jnp.zeros((out,), jnp.float32)
    first, second = jax.random.split(key)
    limit = 1 / math.sqrt(inputs)
    weight = jax.random.uniform(first, shape, jnp.float32, -limit, limit)
    return weight, jax.random.uniform(second, (out,), jnp.float32, -limit, limit)


def linear(key: Array, inputs: int, out: int, init: str) -> eqx.nn.Linear:
    """A dense layer with initial weights as `init` says."""
    layer = eqx.filter_eval_shape(eqx.nn.Linear, inputs, out, key=key)  # draws nothing
    begun = draw(key, (out, inputs), inputs, out, init)
    return eqx.tree_at(lambda one: (one.weight, one.bias), layer, begun)
