"""The conditional value at risk: its definitions agree, and its slopes are right."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from peerwise.errors import BadSetting
from peerwise.methods.diffusion import cta
from peerwise.nets import network_of
from peerwise.update.risk import tail

NET = network_of(lambda key: eqx.nn.Linear(3, 4, key=key), 3, 4)
seeds = st.integers(0, 2**16)
shares = st.floats(0.05, 1.0)


def cvar(losses, alpha):
    """The mean of the worst share of losses, by sorting; one at the border counts in part."""
    worst = -np.sort(-losses)
    share = np.clip(alpha * worst.size - np.arange(worst.size), 0, 1)
    return (share * worst).sum() / (alpha * worst.size)


@given(seed=seeds, alpha=shares)
def test_by_sorting_is_the_variational_definition(seed, alpha):
    losses = np.random.default_rng(seed).exponential(size=7)

    def objective(t):
        return t + np.maximum(losses - t, 0).mean() / alpha

    best = min(objective(t) for t in losses)  # piecewise linear: least at one of the losses
    assert cvar(losses, alpha) == pytest.approx(best, abs=1e-9)
    found = minimize_scalar(objective, bounds=(0, losses.max()), method="bounded")
    assert cvar(losses, alpha) <= found.fun + 1e-9


def test_all_of_the_losses_is_their_mean_and_few_are_the_worst():
    losses = np.array([3.0, 1.0, 2.0])
    assert cvar(losses, 1.0) == pytest.approx(2.0)
    assert cvar(losses, 0.01) == pytest.approx(3.0)


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize(("alpha", "gamma"), [(0.1, 0.0), (0.7, 0.3), (1.0, 1.0)])
def test_slopes_against_finite_differences(alpha, gamma, smooth):
    rng = np.random.default_rng(7)
    t, loss = rng.normal(), rng.exponential() + 0.1
    if abs(loss - t) < 1e-3:
        t -= 1.0  # not at the kink
    with jax.enable_x64(True):
        risk = tail(alpha, smooth, gamma)
        by_t, by_loss = jax.grad(risk, argnums=(0, 1))(jnp.asarray(t), jnp.asarray(loss))
        h = 1e-6
        slope = (risk(t + h, loss) - risk(t - h, loss)) / (2 * h)
        np.testing.assert_allclose(by_t, slope, atol=1e-6)
        slope = (risk(t, loss + h) - risk(t, loss - h)) / (2 * h)
        np.testing.assert_allclose(by_loss, slope, atol=1e-6)


def test_slopes_as_the_equations_have_them():
    """Equation 5: the loss pulls by sigma(f - t) / alpha, the threshold by 1 minus that."""
    alpha, t, loss = 0.3, 0.4, 1.1
    by_t, by_loss = jax.grad(tail(alpha), argnums=(0, 1))(jnp.float32(t), jnp.float32(loss))
    pull = 1 / (1 + np.exp(-(loss - t))) / alpha
    assert by_loss == pytest.approx(pull, rel=1e-5)
    assert by_t == pytest.approx(1 - pull, rel=1e-5)


def test_at_the_fixed_point_of_the_threshold_a_lone_node_takes_the_plain_step():
    """t = f - logit(alpha): the factor of the gradient is one, so that only mixed t is aware."""
    alpha, loss = 0.3, 0.8
    t = loss - np.log(alpha / (1 - alpha))
    by_t, by_loss = jax.grad(tail(alpha), argnums=(0, 1))(jnp.float32(t), jnp.float32(loss))
    assert by_loss == pytest.approx(1, rel=1e-5)
    assert by_t == pytest.approx(0, abs=1e-5)


def test_a_share_of_the_mean_is_mixed_in():
    plain, mixed = tail(0.5, False), tail(0.5, False, 0.25)
    t, loss = jnp.float32(1.0), jnp.float32(2.0)
    assert mixed(t, loss) == pytest.approx(0.75 * plain(t, loss) + 0.25 * 2.0)
    assert tail(0.5, False, 1.0)(t, loss) == pytest.approx(2.0)


@pytest.mark.parametrize("alpha", [0, -0.1, 1.01, float("nan")])
def test_a_share_outside_0_and_1_is_refused(alpha):
    with pytest.raises(BadSetting, match="alpha"):
        cta(NET, alpha=alpha)


def test_a_share_of_the_mean_outside_0_and_1_is_refused():
    with pytest.raises(BadSetting, match="gamma"):
        cta(NET, gamma=1.5)
