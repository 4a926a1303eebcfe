"""Dense networks."""

import math
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from peerwise.core import Array
from peerwise.errors import BadSetting, UnknownName

__all__ = ["INITS", "mlp"]

INITS = ("he_uniform", "pytorch")  # how weights begin


def mlp(
    features: int, classes: int, hidden: Sequence[int] = (512, 256, 128), init: str = "he_uniform"
) -> Callable[[Array], Any]:
    """Layers of rectified linear units; the hidden sizes are the DecDiff paper's.

    `init`: "he_uniform" (weights in +- sqrt(6 / inputs), biases 0) or "pytorch" (both in
    +- 1 / sqrt(inputs)). The same arguments give the same function.

    >>> net = mlp(784, 10)
    >>> [layer.weight.shape for layer in net(jax.random.key(0)).layers]
    [(512, 784), (256, 512), (128, 256), (10, 128)]
    """
    if features < 1 or classes < 1 or any(h < 1 for h in hidden):
        raise BadSetting(f"sizes of layers must be 1 or more: {features}, {hidden}, {classes}")
    if init not in INITS:
        raise UnknownName("initialisation", init, INITS)
    return _mlp((int(features), *(int(h) for h in hidden), int(classes)), init)


class _Dense(eqx.Module):
    layers: list[eqx.nn.Linear]

    def __call__(self, x: Array) -> Array:
        for layer in self.layers[:-1]:
            x = jax.nn.relu(layer(x))
        return self.layers[-1](x)


@cache
def _mlp(sizes: tuple[int, ...], init: str) -> Callable[[Array], Any]:
    def make(key: Array) -> Any:
        keys = jax.random.split(key, len(sizes) - 1)
        layers = [
            eqx.nn.Linear(*pair, key=k) for pair, k in zip(pairwise(sizes), keys, strict=True)
        ]
        if init == "he_uniform":
            layers = [_he_uniform(layer, k) for layer, k in zip(layers, keys, strict=True)]
        return _Dense(layers)

    return make


def _he_uniform(layer: Any, key: Array) -> Any:
    limit = math.sqrt(6 / layer.in_features)
    weight = jax.random.uniform(key, layer.weight.shape, layer.weight.dtype, -limit, limit)
    bias = jnp.zeros_like(layer.bias)
    return eqx.tree_at(lambda one: (one.weight, one.bias), layer, (weight, bias))
