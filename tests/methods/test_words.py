"""Integers modulo 2^64 as pairs of words, against Python's integers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise.methods import words

M = 2**64
EDGES = [0, 1, 2**16, 2**32 - 1, 2**32, 2**63 - 1, 2**63, M - 1, M - 2**32]
rng = np.random.default_rng(0)
SOME = np.array(EDGES + rng.integers(0, M, 20, dtype=np.uint64).tolist(), np.uint64)
A, B = (g.reshape(-1) for g in np.meshgrid(SOME, SOME))


def integers(array):
    return [int(v) for v in words.as_integers(array)]


def test_sums_differences_and_many_terms_wrap_around():
    a, b = words.as_words(A), words.as_words(B)
    pairs = list(zip(A.tolist(), B.tolist(), strict=True))
    assert integers(jax.jit(words.plus)(a, b)) == [(x + y) % M for x, y in pairs]
    assert integers(jax.jit(words.minus)(a, b)) == [(x - y) % M for x, y in pairs]
    many = np.stack([a] * 300 + [b] * 77)
    assert integers(jax.jit(words.summed)(many)) == [(300 * x + 77 * y) % M for x, y in pairs]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_whole_numbers_go_there_and_back(kind):
    x = np.array([0, 1, -1, 5e4, -7e5, 2.0**24, -(2.0**31), 2.0**40 + 2.0**20, -(2.0**61)], kind)
    with jax.enable_x64(kind is np.float64):
        made = words.from_real(jnp.asarray(x))
        np.testing.assert_array_equal(words.to_real(made, kind), x)
    assert integers(made) == [int(v) % M for v in x.tolist()]
    assert integers(words.from_real(jnp.asarray([np.nan, 1e30, -1e30], np.float32))) == [
        0, 2**62, M - 2**62,
    ]  # fmt: skip


def test_bytes_are_those_of_little_endian_integers():
    assert words.as_words(SOME).tobytes() == SOME.astype("<u8").tobytes()
    assert words.as_words(np.array([-2])).tolist() == [[2**32 - 2, 2**32 - 1]]


def test_sets():
    everybody = words.everybody(70)
    assert everybody.shape == (3,)
    each = jax.vmap(lambda i: words.bit(i, 3))(jnp.arange(70, dtype=jnp.uint32))
    np.testing.assert_array_equal(each.sum(0, dtype=np.uint32), everybody)
    np.testing.assert_array_equal(words.union(each), everybody)
    assert int(words.size_of(everybody)) == 70
