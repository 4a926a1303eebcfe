"""Convolutional networks of images that are flat rows: height x width x channels, channels last.

A convolution is written as patches times a matrix, or on a GPU as lines times a banded one. Nodes
train side by side under `vmap`, where XLA's own convolution becomes a grouped one, 2 to 3 times
slower on a CPU and on a GPU.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array
from peerwise.errors import BadSetting, UnknownName
from peerwise.nets.initial import check_init, draw, linear

FEW = 128  # channels times channels out, up to which a GPU multiplies lines instead of patches
PADDINGS = ("valid", "same")  # no edge around an image, or zeros that keep its size

Image: TypeAlias = tuple[int, int, int]  # height, width, channels


class Convolution(eqx.Module):
    """A convolution of stride 1 of one image: [h, w, channels] -> [h', w', out].

    >>> layer = Convolution(jax.random.key(0), 3, 8, 5, padding="same")
    >>> layer(jnp.zeros((12, 10, 3))).shape
    (12, 10, 8)
    """

    weight: Array  # [k, k, channels, out]
    bias: Array  # [out]
    padding: str = eqx.field(static=True)

    def __init__(
        self,
        key: Array,
        channels: int,
        out: int,
        kernel: int,
        padding: str = "valid",
        init: str = "he_uniform",
    ):
        if channels < 1 or out < 1 or kernel < 1:
            raise BadSetting(
                f"channels, out and kernel must be 1 or more: {channels}, {out}, {kernel}"
            )
        if padding not in PADDINGS:
            raise UnknownName("padding", padding, PADDINGS)
        shape = (kernel, kernel, channels, out)
        self.weight, self.bias = draw(key, shape, math.prod(shape[:3]), out, init)
        self.padding = padding

    def __call__(self, x: Array) -> Array:
        """The image convolved."""
        k, _, _, out = self.weight.shape
        if self.padding == "same":
            edge = ((k - 1) // 2, k // 2)
            x = jnp.pad(x, (edge, edge, (0, 0)))
        few = self.weight.shape[2] * out <= FEW
        product = banded if few and jax.default_backend() != "cpu" else patched
        return product(x, self.weight) + self.bias[None, None]


def patched(x: Array, weight: Array) -> Array:
    """A convolution as one product of an image's patches [h', w', k k channels]."""
    k, _, _, out = weight.shape
    h, w = x.shape[0] - k + 1, x.shape[1] - k + 1
    shifted = [x[i : i + h, j : j + w] for i in range(k) for j in range(k)]
    return jnp.concatenate(shifted, axis=-1) @ weight.reshape(-1, out)


def banded(x: Array, weight: Array) -> Array:
    """The same as a product of k whole lines of the image with a banded matrix.

    It multiplies many zeros and stores far less than patches, which take k k times the image: with
    few channels a GPU is some 2 to 3 times as fast.
    """
    k, _, _, out = weight.shape
    h, w = x.shape[0] - k + 1, x.shape[1] - k + 1
    place = np.arange(x.shape[1])[None, :, None] == np.arange(k)[:, None, None] + np.arange(w)
    band = jnp.einsum("jxv,ijco->ixcvo", jnp.asarray(place, weight.dtype), weight)
    lines = jnp.concatenate([x[i : i + h].reshape(h, -1) for i in range(k)], axis=-1)
    return (lines @ band.reshape(lines.shape[1], w * out)).reshape(h, w, out)


def max_pool(x: Array) -> Array:
    """The largest of every 2 x 2 pixels [h, w, c] -> [h/2, w/2, c]; an odd last edge is cut off.

    >>> max_pool(jnp.arange(15.0).reshape(3, 5, 1))[..., 0]
    Array([[6., 8.]], dtype=float32)
    """
    h, w, c = x.shape[0] // 2, x.shape[1] // 2, x.shape[2]
    return x[: 2 * h, : 2 * w].reshape(h, 2, w, 2, c).max((1, 3))


class Dropout(eqx.Module):
    """Numbers are 0 with probability `p` and else divided by 1 - p; all kept without a key.

    Unlike equinox's, it needs no switch between training and prediction, and draws in float32
    whatever the precision.
    """

    p: float = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not 0 <= self.p < 1:
            raise BadSetting(f"p of a dropout must be in [0, 1), got {self.p}")

    def __call__(self, x: Array, key: Array | None = None) -> Array:
        """What is left of x, or x itself without a key."""
        if key is None:
            return x
        kept = jax.random.uniform(key, x.shape, jnp.float32) >= self.p
        return jnp.where(kept, x / (1 - self.p), 0)


def cnn(
    shape: Sequence[int], classes: int, init: str = "he_uniform", dropout: bool = False
) -> Callable[[Array], Any]:
    """Two convolutions 3 x 3 of 32 and 64, a max-pool, 128 dense units.

    The DecDiff paper's net for Fashion-MNIST, PyTorch's example for MNIST. With `dropout` (.25
    after the pool, .5 after the dense units) the paper's net for EMNIST. `shape` is (height,
    width) or (height, width, channels); `init` as for `mlp`. The same arguments give the same
    function.

    >>> cnn((28, 28), 10)(jax.random.key(0)).hidden.weight.shape
    (128, 9216)
    """
    return _cnn(_checked(shape, classes, init, least=6), int(classes), init, bool(dropout))


def lenet(shape: Sequence[int], classes: int, init: str = "he_uniform") -> Callable[[Array], Any]:
    """LeNet-5: two convolutions 5 x 5 of 6 and 16, a max-pool after each, 120 and 84 dense units.

    LeCun et al. (1998), with rectified linear units and max-pools as is usual today. It is for
    images of 32 x 32: smaller ones, such as those of 28 x 28, the first convolution pads with
    zeros ("same"). Arguments as for `cnn`.

    >>> lenet((28, 28), 10)(jax.random.key(0)).dense[0].weight.shape
    (120, 400)
    """
    return _lenet(_checked(shape, classes, init, least=12), int(classes), init)


def _checked(shape: Sequence[int], classes: int, init: str, least: int) -> Image:
    """The shape with its channels, which must leave something for the last layers."""
    check_init(init)
    if len(shape) not in (2, 3):
        raise BadSetting(
            "a convolutional net needs images of shape (height, width) or (height, width, "
            f"channels), got {tuple(shape)}"
        )
    h, w, c = (int(size) for size in (*shape, 1)[:3])
    if min(h, w) < least:
        raise BadSetting(
            f"images must be {least} x {least} or larger for this net, got {h} x {w}: take larger "
            "images or another net"
        )
    if c < 1 or classes < 1:
        raise BadSetting(f"channels and classes must be 1 or more: {c}, {classes}")
    return h, w, c


class _Cnn(eqx.Module):
    first: Convolution
    second: Convolution
    hidden: eqx.nn.Linear
    last: eqx.nn.Linear
    shape: Image = eqx.field(static=True)

    def pooled(self, x: Array) -> Array:
        x = jax.nn.relu(self.first(x.reshape(self.shape)))
        return max_pool(jax.nn.relu(self.second(x))).reshape(-1)

    def __call__(self, x: Array) -> Array:
        return self.last(jax.nn.relu(self.hidden(self.pooled(x))))


class _DropoutCnn(_Cnn):
    def __call__(self, x: Array, key: Array | None = None) -> Array:
        first, second = (None, None) if key is None else jax.random.split(key)
        x = Dropout(0.25)(self.pooled(x), first)
        return self.last(Dropout(0.5)(jax.nn.relu(self.hidden(x)), second))


@cache
def _cnn(shape: Image, classes: int, init: str, dropout: bool) -> Callable[[Array], Any]:
    h, w, c = shape
    flat = (h - 4) // 2 * ((w - 4) // 2) * 64

    def make(key: Array) -> Any:
        keys = jax.random.split(key, 4)
        return (_DropoutCnn if dropout else _Cnn)(
            Convolution(keys[0], c, 32, 3, init=init),
            Convolution(keys[1], 32, 64, 3, init=init),
            linear(keys[2], flat, 128, init),
            linear(keys[3], 128, classes, init),
            shape,
        )

    return make


class _LeNet(eqx.Module):
    first: Convolution
    second: Convolution
    dense: list[eqx.nn.Linear]
    shape: Image = eqx.field(static=True)

    def __call__(self, x: Array) -> Array:
        x = max_pool(jax.nn.relu(self.first(x.reshape(self.shape))))
        x = max_pool(jax.nn.relu(self.second(x))).reshape(-1)
        for layer in self.dense[:-1]:
            x = jax.nn.relu(layer(x))
        return self.dense[-1](x)


@cache
def _lenet(shape: Image, classes: int, init: str) -> Callable[[Array], Any]:
    h, w, c = shape
    padding, cut = ("same", 0) if min(h, w) < 32 else ("valid", 4)
    flat = ((h - cut) // 2 - 4) // 2 * (((w - cut) // 2 - 4) // 2) * 16

    def make(key: Array) -> Any:
        keys = jax.random.split(key, 5)
        return _LeNet(
            Convolution(keys[0], c, 6, 5, padding, init),
            Convolution(keys[1], 6, 16, 5, init=init),
            [
                linear(keys[2], flat, 120, init),
                linear(keys[3], 120, 84, init),
                linear(keys[4], 84, classes, init),
            ],
            shape,
        )

    return make
