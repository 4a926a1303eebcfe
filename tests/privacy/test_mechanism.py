"""Noise has the law that it claims."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, get_epsilon_gaussian
from dp_accounting.pld import PLDAccountant
from scipy import stats

from peerwise.errors import BadSetting, UnknownName
from peerwise.privacy.mechanism import (
    Tape,
    gaussian,
    gaussian_sigma,
    laplace,
    summed_laplace,
    vetted,
)

KEY = jax.random.key(7)
LAWS = {"laplace": stats.laplace, "gaussian": stats.norm}


@pytest.mark.parametrize(("draw", "law"), [(laplace, stats.laplace), (gaussian, stats.norm)])
def test_simulated_noise_has_its_law_and_scale(draw, law):
    drawn = np.asarray(draw(KEY, jnp.full((50_000,), 2.5)), float)
    assert stats.kstest(drawn, law(scale=2.5).cdf).pvalue > 0.001
    assert law.fit(drawn, floc=0)[1] == pytest.approx(2.5, rel=0.02)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_vetted_noise_has_its_law_and_scale(kind):
    scale = np.repeat([0.5, 40.0], 8_000)
    noise = vetted(kind, np.full(scale.shape, 3.0), scale) - 3.0
    for one in (0.5, 40.0):
        here = noise[scale == one]
        # unseeded: a threshold that fails once in a hundred million runs
        assert stats.kstest(here, LAWS[kind](scale=one).cdf).pvalue > 1e-8
        assert LAWS[kind].fit(here, floc=0)[1] == pytest.approx(one, rel=0.08)


@pytest.mark.full
@pytest.mark.parametrize("nodes", [1, 3, 40])
def test_summed_laplace_is_the_sum_over_nodes(nodes):
    one = np.asarray(summed_laplace(KEY, nodes, jnp.full((20_000,), 1.5)), float)
    rng = np.random.default_rng(3)
    many = rng.laplace(scale=1.5, size=(nodes, 20_000)).sum(0)
    assert stats.ks_2samp(one, many).pvalue > 0.001
    assert one.var() == pytest.approx(nodes * 2 * 1.5**2, rel=0.1)


def test_simulated_noise_names_its_dtype_and_follows_its_scale():
    scale = jnp.array([[0.0, 1.0], [2.0, 0.0]])
    drawn = laplace(KEY, scale)
    assert drawn.dtype == jnp.float32
    np.testing.assert_array_equal(drawn == 0, scale == 0)
    with jax.enable_x64(True):
        assert laplace(KEY, scale).dtype == jnp.float64
        np.testing.assert_array_equal(laplace(KEY, scale, dtype=jnp.float32), drawn)
    batch = jax.jit(jax.vmap(lambda k: summed_laplace(k, 5, scale)))(jax.random.split(KEY, 3))
    assert batch.shape == (3, 2, 2)
    with pytest.raises(BadSetting, match="nodes"):
        summed_laplace(KEY, 0, scale)


def test_vetted_is_never_the_same_twice():
    assert not np.array_equal(*(vetted("laplace", np.zeros(8), 1.0) for _ in range(2)))


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf])
def test_vetted_refuses_a_scale_that_hides_nothing(scale):
    with pytest.raises(BadSetting, match="scale"):
        vetted("laplace", np.zeros(2), np.array([1.0, scale]))


def test_vetted_without_noise_must_be_asked_for():
    values = np.array([1.0, 2.0])
    np.testing.assert_array_equal(vetted("gaussian", values, 0.0, off=True), values)


def test_vetted_refuses_other_kinds_and_values_that_are_not_numbers():
    with pytest.raises(UnknownName, match="laplace"):
        vetted("laplase", np.zeros(1), 1.0)
    with pytest.raises(BadSetting, match="finite"):
        vetted("laplace", np.array([np.nan]), 1.0)


def test_a_tape_replays_and_ends():
    tape = Tape([np.array([0.5, -0.5]), np.array([1.0])])
    np.testing.assert_array_equal(tape("laplace", np.array([1.0, 1.0]), 1.0), [1.5, 0.5])
    with pytest.raises(BadSetting, match="shape"):
        tape("laplace", np.zeros(3), 1.0)
    assert tape.left == 1
    assert tape("gaussian", np.zeros(1), 1.0) == 1.0
    with pytest.raises(BadSetting, match="used up"):
        tape("laplace", np.zeros(1), 1.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-8])
def test_gaussian_sigma_is_the_smallest(epsilon, delta):
    sigma = gaussian_sigma(3.0, epsilon, delta) / 3.0
    # Balle and Wang, theorem 8
    upper, lower = 0.5 / sigma - epsilon * sigma, -0.5 / sigma - epsilon * sigma
    reached = stats.norm.cdf(upper) - np.exp(epsilon) * stats.norm.cdf(lower)
    assert reached == pytest.approx(delta, rel=1e-4)
    assert get_epsilon_gaussian(sigma, delta) == pytest.approx(epsilon, rel=1e-6)
    exact = PLDAccountant().compose(GaussianDpEvent(sigma)).get_epsilon(delta)
    assert exact == pytest.approx(epsilon, rel=1e-2)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.1), (np.nan, 0.1), (np.inf, 0.1), (1.0, 0.0), (1.0, 1.0)]
)
def test_gaussian_sigma_refuses_what_makes_no_sense(epsilon, delta):
    with pytest.raises(BadSetting):
        gaussian_sigma(1.0, epsilon, delta)
