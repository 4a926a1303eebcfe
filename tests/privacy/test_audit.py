"""The audit finds what is not private and clears what is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise.errors import BadData, BadSetting
from peerwise.privacy.audit import audit
from peerwise.privacy.budget import Queries, scales, split
from peerwise.privacy.mechanism import gaussian, gaussian_sigma, laplace, vetted
from peerwise.privacy.sensitivity import bounded, clip, local

TRIALS = 200_000
ONE = Queries((0,), 1)  # rows, a sum, a sum of squares


def release(rows, trials, epsilon, how, column):
    """One statistic of one number, drawn many times; `how` gives the sensitivity."""
    x = jnp.asarray(rows, float).reshape(-1, 1)
    if how == "bounded":
        x, _ = clip(x, (0,), -1.0, 2.0)
        sensitivity = jnp.asarray(bounded(ONE, -1.0, 2.0))
    else:
        count = jnp.ones(len(x))
        sensitivity = local(x, jnp.zeros(len(x), int), count, (0,), 1)[0]
    true = jnp.array([len(x), x.sum(), (x**2).sum()])[column]
    scale = scales(sensitivity, split(epsilon, ONE, sensitivity), ONE)[column]
    key = jax.random.key(len(rows) + column)
    return true + laplace(key, jnp.full((trials,), scale))


@pytest.mark.some("1.0")
@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_bounded_noise_keeps_its_promise_and_no_more(epsilon, column):
    found = audit(
        lambda rows, trials: release(rows, trials, 3 * epsilon, "bounded", column),
        [0.5, 9.0],
        [0.5],  # without the row that hits the bound
        TRIALS,
    )
    assert 0.85 * epsilon < found <= epsilon


@pytest.mark.some("1.0")
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_local_noise_breaks_its_promise(epsilon):
    """A class whose only row is large: without that row there is no noise at all."""
    found = audit(
        lambda rows, trials: release(rows, trials, 3 * epsilon, "local", 1), [40.0], [], TRIALS
    )
    assert found > 9  # as much as so many draws can show

    found = audit(  # and with others: without it the noise shrinks
        lambda rows, trials: release(rows, trials, 3 * epsilon, "local", 1),
        [40.0, 1.0],
        [1.0],
        TRIALS,
    )
    assert found > 1.5 * epsilon


@pytest.mark.parametrize("rule", ["even", "optimal"])
def test_all_statistics_together_cost_the_whole_budget(rule):
    """The likelihood ratio of everything that is released tells the most about one row."""
    queries = Queries((0, 3), 2)
    sensitivity = bounded(queries, -1.0, 2.0)
    scale = scales(sensitivity, split(1.5, queries, sensitivity, rule), queries)
    row = np.array([1, 2.0, 4.0, 0, 1, 0])  # in its class: the count, x, x^2, its category

    def sampler(there, trials):
        # the lines of the class and of another, which does not change
        noise = laplace(jax.random.key(there), jnp.asarray(np.tile(scale, (trials, 2, 1))))
        out = np.asarray(noise) + np.stack([row * there, 0 * row])
        ratio = np.abs(out[:, 0]) - np.abs(out[:, 0] - row)
        return (ratio / scale).sum(1)

    assert 0.75 < audit(sampler, 1, 0, TRIALS) <= 1.5


@pytest.mark.full
def test_vetted_noise_keeps_its_promise():
    found = audit(
        lambda true, trials: vetted("laplace", np.full(trials, true), 1.0),
        0.0,
        1.0,
        20_000,
        confidence=1 - 1e-9,  # unseeded: must not fail by chance
    )
    assert 0.5 < found <= 1.0


def test_gaussian_noise_keeps_its_promise():
    sigma = gaussian_sigma(1.0, 1.0, 1e-3)

    def sampler(true, trials):
        return true + gaussian(jax.random.key(int(true)), jnp.full((trials,), sigma))

    assert 0.2 < audit(sampler, 0.0, 1.0, TRIALS, delta=1e-3) <= 1.0


@pytest.mark.full  # `make test`: noise that keeps its promise, above
def test_equal_data_are_not_told_apart():
    rng = np.random.default_rng(0)
    found = [audit(lambda _, trials: rng.normal(size=trials), 0, 1, 2000) for _ in range(20)]
    assert sum(f > 0 for f in found) <= 1


def test_no_noise_is_found_out():
    found = audit(lambda true, trials: np.full(trials, true), 0.0, 1.0, 2000)
    assert found > 4


def test_wrong_samplers_and_settings_are_refused():
    with pytest.raises(BadData, match="sampler"):
        audit(lambda true, trials: np.zeros(3), 0, 1, 100)
    with pytest.raises(BadSetting, match="trials"):
        audit(lambda true, trials: np.zeros(trials), 0, 1, 2)
    with pytest.raises(BadSetting, match="confidence"):
        audit(lambda true, trials: np.zeros(trials), 0, 1, 100, confidence=1.0)
