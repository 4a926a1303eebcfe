"""Bayesian layers: what they draw, what they cost, and how they begin."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from peerwise.core import Gaussian
from peerwise.errors import BadSetting
from peerwise.nets import (
    bayesian,
    bayesian_network,
    cnn,
    divergence,
    lenet,
    mlp,
    network,
    network_of,
)
from peerwise.nets.bayes import BayesianLinear
from peerwise.nets.net import log_probabilities

KEY = jax.random.key(0)


def layer(seed=0, shape=(3, 4), clamped=False):
    rng = np.random.default_rng(seed)
    weight = Gaussian(jnp.asarray(rng.normal(size=shape)), jnp.asarray(rng.normal(-1, 1, shape)))
    return BayesianLinear(weight, jnp.asarray(rng.normal(size=shape[0])), clamped)


def test_draws_of_a_layer_have_the_moments_of_draws_of_its_weights():
    """Local reparameterisation: noise on what comes out is noise on the weights."""
    one = layer()
    x = jnp.array([0.5, -1.0, 2.0, 0.0])
    keys = jax.random.split(KEY, 20_000)
    drawn = jax.jit(jax.vmap(lambda k: BayesianLinear(one.weight, one.bias, noise=k)(x)))(keys)
    spread = jnp.exp(one.weight.log_variance / 2)
    weights = one.weight.mean[None] + spread[None] * jax.random.normal(
        jax.random.key(1), (20_000, *spread.shape)
    )
    other = weights @ x + one.bias[None]
    np.testing.assert_allclose(drawn.mean(0), other.mean(0), atol=0.05)
    np.testing.assert_allclose(drawn.std(0), other.std(0), rtol=0.03)
    np.testing.assert_allclose(one(x), one.weight.mean @ x + one.bias, rtol=1e-6)


def test_a_layer_that_is_given_zeros_has_a_slope():
    bias = layer().bias

    def out(weight):
        return BayesianLinear(weight, bias, noise=KEY)(jnp.zeros(4)).sum()

    slope = jax.jit(jax.grad(out))(layer().weight)
    assert all(np.isfinite(a).all() for a in slope)


@pytest.mark.parametrize("prior", [None, layer(1)])
def test_the_divergence_is_that_of_many_draws(prior):
    one = layer()
    mean, spread = (np.asarray(a, float) for a in one.weight)
    draws = mean + np.exp(spread / 2) * np.random.default_rng(0).normal(size=(200_000, 3, 4))
    center, width = (0.0, 0.0) if prior is None else map(np.asarray, prior.weight)
    under = norm.logpdf(draws, mean, np.exp(spread / 2)) - norm.logpdf(
        draws, center, np.exp(np.asarray(width) / 2)
    )
    found = float(divergence(one, prior))
    assert found == pytest.approx(under.sum((1, 2)).mean(), rel=0.02)
    assert float(divergence(one, one)) == pytest.approx(0, abs=1e-5)


def test_its_gradient_is_that_of_finite_differences():
    one, other = layer(), layer(1)

    def of(mean, spread, center, width):
        prior = BayesianLinear(Gaussian(center, width), other.bias)
        return divergence(BayesianLinear(Gaussian(mean, spread), one.bias), prior)

    with jax.enable_x64(True):
        at = [jnp.asarray(np.asarray(a, float)) for a in (*one.weight, *other.weight)]
        for i in range(4):
            found = jax.grad(of, argnums=i)(*at)
            step = np.zeros((3, 4))
            step[1, 2] = 1e-6
            up, down = ([*at[:i], at[i] + s, *at[i + 1 :]] for s in (step, -step))
            slope = (of(*up) - of(*down)) / 2e-6
            np.testing.assert_allclose(found[1, 2], slope, rtol=1e-5)


@pytest.mark.some("make-2")
@pytest.mark.parametrize(
    ("make", "most"), [(mlp(6, 3, (5, 4)), 3), (lenet((12, 12), 3), 3), (cnn((6, 6), 3), 2)]
)
def test_the_last_layers_of_any_net_become_bayesian(make, most):
    plain = make(KEY)
    for n in range(most + 1):
        net = bayesian(make, n)(KEY)
        layers = [
            part
            for part in jax.tree.leaves(net, is_leaf=lambda p: isinstance(p, BayesianLinear))
            if isinstance(part, BayesianLinear)
        ]
        assert len(layers) == n
        more = sum(a.size for a in jax.tree.leaves(net) if hasattr(a, "size"))
        count = sum(a.size for a in jax.tree.leaves(plain) if hasattr(a, "size"))
        assert more == count + sum(one.weight.mean.size for one in layers)
    with pytest.raises(BadSetting, match=f"{most} dense layers"):
        bayesian(make, most + 1)(KEY)


def test_without_noise_it_is_the_net_that_it_was_made_of():
    make = mlp(6, 3, (5,))
    x = jnp.arange(6.0)
    np.testing.assert_allclose(bayesian(make, 2)(KEY)(x), make(KEY)(x), rtol=1e-6)
    assert bayesian(make, 0) is make


@pytest.mark.full
def test_prediction_is_the_mean_of_the_draws_probabilities():
    net = bayesian_network(mlp(4, 3, (5,)), 4, 3, layers=2, samples=7)
    weights, x = net.init(KEY), jax.random.normal(jax.random.key(1), (6, 4))
    weights = jax.tree.map(lambda a: a + 3.0 if float(a.max()) == -6 else a, weights)  # more spread
    keys = jax.random.split(KEY, 7)
    draws = jnp.stack([jax.nn.softmax(net.logits(weights, x, k)) for k in keys])
    found = log_probabilities(net, weights, x, KEY)
    np.testing.assert_allclose(jnp.exp(found), draws.mean(0), rtol=1e-5)
    assert float(draws.std(0).max()) > 0.01
    np.testing.assert_allclose(jnp.exp(found).sum(1), 1, rtol=1e-5)


def test_the_papers_start_does_not_learn_its_variances_and_ours_does():
    """Log-variances of -9 under a clamp at -8 have no slope (the paper's code)."""
    x, y = jnp.ones((8, 4)), jnp.zeros(8, int)
    for paper in (True, False):
        net = bayesian_network(mlp(4, 3, ()), 4, 3, layers=1, paper_init=paper)
        weights = net.init(KEY)

        def loss(w, net=net):
            rows = jax.nn.log_softmax(net.logits(w, x, KEY))
            return -jnp.take_along_axis(rows, y[:, None], 1).mean() + divergence(w) / 8

        slope = jax.jit(jax.grad(loss))(weights)
        (found,) = [
            part
            for part in jax.tree.leaves(slope, is_leaf=lambda p: isinstance(p, Gaussian))
            if isinstance(part, Gaussian)
        ]
        assert bool((found.log_variance == 0).all()) is paper
        assert float(abs(found.mean).min()) > 0


def test_nonsense_is_refused():
    with pytest.raises(BadSetting, match="0 or more"):
        bayesian(mlp(4, 3, ()), -1)
    with pytest.raises(BadSetting, match="samples must be 1 or more"):
        network("mlp_64", (4,), 3, bayesian_layers=1, samples=0)
    with pytest.raises(BadSetting, match="takes a key"):
        network_of(mlp(4, 3, ()), 4, 3, 5)
