"""Dense networks."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax

from peerwise.core import Array
from peerwise.errors import BadSetting
from peerwise.nets.initial import check_init, linear


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
    check_init(init)
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
        return _Dense(
            [linear(k, *pair, init) for k, pair in zip(keys, pairwise(sizes), strict=True)]
        )

    return make
