"""Integers modulo 2^64 in programs that have no 64 bits: pairs of 32-bit words, the low one first.

An array of shape [..., 2] and type uint32 holds them; its bytes are those of little-endian 64-bit
integers (`as_integers`). Sums wrap around, so that they are exact whatever their order, and
negative numbers are written as two's complement.
"""

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array

HALF = np.uint32(0xFFFF)
MOST = 2**62  # larger numbers are cut off: sums of them may not wrap around
_TWO32 = 2.0**32


def plus(a: Array, b: Array) -> Array:
    """a + b modulo 2^64."""
    low = a[..., 0] + b[..., 0]
    carry = (low < a[..., 0]).astype(jnp.uint32)
    return jnp.stack([low, a[..., 1] + b[..., 1] + carry], -1)


def minus(a: Array, b: Array) -> Array:
    """a - b modulo 2^64."""
    low = a[..., 0] - b[..., 0]
    borrow = (a[..., 0] < b[..., 0]).astype(jnp.uint32)
    return jnp.stack([low, a[..., 1] - b[..., 1] - borrow], -1)


def summed(terms: Array) -> Array:
    """The sum over the first axis modulo 2^64; of at most 65,536 terms."""

    def halves(word: Array) -> tuple[Array, Array]:  # 16 bits each leave room for carries
        return (word & HALF).sum(0, dtype=jnp.uint32), (word >> 16).sum(0, dtype=jnp.uint32)

    (a, b), (c, d) = halves(terms[..., 0]), halves(terms[..., 1])
    b = b + (a >> 16)
    c = c + (b >> 16)
    d = d + (c >> 16)
    return jnp.stack([(a & HALF) | (b << 16), (c & HALF) | (d << 16)], -1)


def from_real(x: Array) -> Array:
    """Whole numbers of a floating-point type as words; NaN is 0, and beyond 2^62 is cut off."""
    size = jnp.minimum(jnp.abs(jnp.where(x == x, x, 0)), float(MOST))
    high = jnp.floor(size / _TWO32)
    low = size - high * _TWO32  # exact: a size has no more digits than its type
    return _signed(jnp.stack([low.astype(jnp.uint32), high.astype(jnp.uint32)], -1), x < 0)


def to_real(words: Array, dtype: jnp.dtype) -> Array:
    """Words as signed numbers of a floating-point type, rounded to it."""
    negative = words[..., 1] >> 31 > 0
    size = _signed(words, negative)
    real = size[..., 1].astype(dtype) * _TWO32 + size[..., 0].astype(dtype)
    return jnp.where(negative, -real, real)


def _signed(size: Array, negative: Array) -> Array:
    return jnp.where(negative[..., None], minus(jnp.zeros_like(size), size), size)


def as_integers(words: Array) -> np.ndarray:
    """Words as NumPy's 64-bit integers."""
    pairs = np.ascontiguousarray(np.asarray(words), "<u4")
    return pairs.view("<u8")[..., 0]


def as_words(integers: Array) -> np.ndarray:
    """NumPy's 64-bit integers, signed or not, as words."""
    whole = np.ascontiguousarray(np.asarray(integers).astype("<u8"))
    return whole[..., None].view("<u4")


def is_sum(words: Array) -> Array:
    """Whether numbers [..., 2] are between -2^62 and 2^62, as sums that leave room are."""
    return words[..., 1] + np.uint32(1 << 30) < np.uint32(1 << 31)


def bit(number: Array, words: int) -> Array:
    """A set of one, as bits of so many words."""
    place = jnp.arange(words, dtype=jnp.uint32)
    return jnp.where(place == number >> 5, jnp.uint32(1) << (number & 31), jnp.uint32(0))


def everybody(n: int) -> np.ndarray:
    """The set of 0 to n - 1, as bits of words."""
    flags = np.zeros(-(-n // 32) * 32, np.uint8)
    flags[:n] = 1
    return np.packbits(flags, bitorder="little").view("<u4").astype(np.uint32)


def size_of(members: Array) -> Array:
    """How many are in a set."""
    return jax.lax.population_count(members).sum(-1, dtype=jnp.int32)


def union(sets: Array) -> Array:
    """All that are in one of the sets [k, words] at least."""
    return jax.lax.reduce(sets, np.uint32(0), jax.lax.bitwise_or, (0,))
