"""Images changed at random each time a net trains on them, which keeps it from memorising them."""

from collections.abc import Callable, Sequence
from functools import cache

import jax
import jax.numpy as jnp

from peerwise.core import Array
from peerwise.errors import BadSetting


def crop_and_flip(shape: Sequence[int], edge: int = 4) -> Callable[[Array, Array], Array]:
    """key, flat images [m, d] -> each moved by up to `edge` pixels, half of them mirrored.

    What moves in is the image reflected at its border. `shape` is (height, width) or (height,
    width, channels). The usual augmentation of CIFAR-10.

    >>> crop_and_flip((8, 8))(jax.random.key(0), jnp.ones((3, 64))).shape
    (3, 64)
    """
    h, w, c = (int(size) for size in (*shape, 1, 1)[:3])
    if len(shape) not in (2, 3) or not 0 <= edge < min(h, w):
        raise BadSetting(
            "images of shape (height, width) or (height, width, channels) can be moved by fewer "
            f"pixels than they have: shape {tuple(shape)}, edge {edge}"
        )
    return _crop_and_flip((h, w, c), int(edge))


@cache
def _crop_and_flip(shape: tuple[int, int, int], edge: int) -> Callable[[Array, Array], Array]:
    around = ((edge, edge), (edge, edge), (0, 0))

    def one(key: Array, row: Array) -> Array:
        where, mirrored = jax.random.split(key)
        image = jnp.pad(row.reshape(shape), around, mode="reflect")
        top, left = jax.random.randint(where, (2,), 0, 2 * edge + 1, jnp.int32)
        image = jax.lax.dynamic_slice(image, (top, left, jnp.zeros_like(top)), shape)
        return jnp.where(jax.random.bernoulli(mirrored), image[:, ::-1], image).reshape(-1)

    def vary(key: Array, x: Array) -> Array:
        return jax.vmap(one)(jax.random.split(key, x.shape[0]), x)

    return vary
