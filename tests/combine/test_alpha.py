"""Alpha-barycenters: theorem 1 and remark 1 of BA-BFL on a line, their Gaussians, their limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from peerwise.combine import alpha_barycenter_of, barycenter_of

seeds = st.integers(0, 2**32 - 1)
ALPHAS = (-2.0, -0.5, 0.3, 0.5, 1.0, 2.0)
PAIR = np.array([0.0, 2.0]), np.array([1.0, 0.25]), np.array([0.5, 0.5])
X = np.linspace(-14, 16, 6001)


def integral(f):
    return np.trapezoid(f, X)


def log_normals(mean, variance, x=X):
    squares = (x - mean[:, None]) ** 2 / variance[:, None]
    return -(squares + np.log(2 * np.pi * variance)[:, None]) / 2


def log_sum(alpha, mean, variance, weights, x=X):
    """log of (sum_k w_k p_k^alpha)^(1 / alpha)."""
    powers = np.log(weights)[:, None] + alpha * log_normals(mean, variance, x)
    return logsumexp(powers, axis=0) / alpha


def exact(alpha, *posteriors):
    """The log-density of theorem 1 on a line, and its integral before it was divided by it."""
    log_f = log_sum(alpha, *posteriors)
    total = integral(np.exp(log_f))
    return log_f - np.log(total), total


def alpha_divergence(alpha, log_p, log_q):
    if alpha == 1:
        return integral(np.exp(log_p) * (log_p - log_q))
    return (1 - integral(np.exp(alpha * log_p + (1 - alpha) * log_q))) / (alpha * (1 - alpha))


def cost(alpha, log_q, mean, variance, weights):
    return weights @ [
        alpha_divergence(alpha, log_p, log_q) for log_p in log_normals(mean, variance)
    ]


def pair(found):
    return tuple(float(a) for a in found)


def some(seed, k=3):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1.5, k), np.exp(rng.normal(0, 0.5, k)), rng.dirichlet(np.full(k, 3.0))


def another(rng, log_f, size):
    """A log-density near another: some waves are added."""
    waves = sum(
        rng.normal() * np.sin(rng.uniform(0.2, 3) * X + rng.uniform(0, 7)) for _ in range(4)
    )
    log_g = log_f + size * waves
    return log_g - np.log(integral(np.exp(log_g)))


@pytest.mark.parametrize("alpha", ALPHAS)
@given(seed=seeds, size=st.sampled_from([1e-2, 0.3, 1.0]))
def test_theorem_1_no_density_is_nearer(alpha, seed, size):
    posteriors = some(seed)
    f, _ = exact(alpha, *posteriors)
    least = cost(alpha, f, *posteriors)
    other = another(np.random.default_rng(seed), f, size)
    assert cost(alpha, other, *posteriors) > least


@pytest.mark.parametrize("alpha", [a for a in ALPHAS if a != 1])
@settings(max_examples=10)
@given(seed=seeds)
def test_equation_7_the_cost_is_a_constant_and_the_way_to_the_barycenter(alpha, seed):
    posteriors = some(seed)
    f, total = exact(alpha, *posteriors)
    q = another(np.random.default_rng(seed), f, 0.5)
    scale = total**alpha
    parts = (1 - scale) / (alpha * (1 - alpha)) + scale * alpha_divergence(alpha, f, q)
    assert cost(alpha, q, *posteriors) == pytest.approx(parts, rel=1e-8, abs=1e-10)


def moments(f, x=X):
    mean = np.trapezoid(x * f, x)
    return mean, np.trapezoid((x - mean) ** 2 * f, x)


def away_from_gaussian(alpha):
    """Total variation between the barycenter of figure 1's pair and the Gaussian of its moments."""
    f = np.exp(exact(alpha, *PAIR)[0])
    m, v = moments(f)
    return integral(np.abs(f - np.exp(-((X - m) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v))) / 2


def test_remark_1_only_at_zero_is_it_gaussian():
    distance = {alpha: away_from_gaussian(alpha) for alpha in (-1, -0.1, -1e-4, 1e-4, 0.1, 0.5, 1)}
    expected = {-1: 0.0904, -0.1: 0.0194, 0.1: 0.0340, 0.5: 0.1898, 1: 0.1947}
    assert {a: distance[a] for a in expected} == pytest.approx(expected, abs=5e-4)
    assert max(distance[-1e-4], distance[1e-4]) < 5e-5


@pytest.mark.some("0.5")
@pytest.mark.parametrize("alpha", ALPHAS)
@given(seed=seeds, size=st.sampled_from([1e-3, 0.1, 1.0]))
@settings(max_examples=10)
def test_its_gaussian_is_the_nearest_gaussian(alpha, seed, size):
    """E_f log(f / q) is least at the moments of f."""
    posteriors = some(seed)
    f = np.exp(exact(alpha, *posteriors)[0])
    m, v = alpha_barycenter_of(alpha, *posteriors)
    rng = np.random.default_rng(seed)
    n, u = m + size * rng.normal(), v * np.exp(size * rng.normal())

    def loss(m, v):
        return integral(f * ((X - m) ** 2 / v + np.log(v))) / 2

    assert loss(n, u) > loss(m, v)


# --- the quadrature


def by_brute_force(alpha, mean, variance, weights):
    """Moments on a line of half a million points, close together around each posterior."""
    width = np.sqrt(variance)
    around = [m + s * np.linspace(-10, 10, 4001) for m, s in zip(mean, width, strict=True)]
    wide = np.linspace((mean - 10 * width).min(), (mean + 10 * width).max(), 200_001)
    x = np.unique(np.concatenate([*around, wide]))
    log_f = log_sum(alpha, mean, variance, weights, x)
    f = np.exp(log_f - log_f.max())
    return moments(f / np.trapezoid(f, x), x)


@pytest.mark.some("0.5")
@pytest.mark.parametrize("alpha", [-1.0, -1e-3, 1e-3, 0.2, 0.5, 2.0])
def test_moments_as_by_brute_force(alpha):
    """Two to ten posteriors, some far apart: 1 to 20 times the width of a usual one."""
    rng = np.random.default_rng(0)
    for spread in (1, 5, 20):
        for k in (2, 10):
            mean = spread * rng.normal(size=k)
            variance, weights = np.exp(rng.normal(0, 1.5, k)), rng.dirichlet(np.ones(k))
            m, v = alpha_barycenter_of(alpha, mean, variance, weights)
            n, u = by_brute_force(alpha, mean, variance, weights)
            assert abs(m - n) < 1e-5 * np.sqrt(u)
            assert v == pytest.approx(u, rel=1e-5)


def test_posteriors_of_very_different_widths():
    """A needle beside a haystack, which evenly spaced points would miss."""
    posteriors = np.array([0.0, 3.0]), np.array([1.0, 1e-8]), np.array([0.5, 0.5])
    for alpha in (0.5, 0.999):
        m, v = alpha_barycenter_of(alpha, *posteriors)
        assert (m, v) == pytest.approx(by_brute_force(alpha, *posteriors), rel=1e-4)


@given(seed=seeds)
@settings(max_examples=10)
def test_coordinates_have_nothing_to_do_with_each_other(seed):
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(size=(3, 2, 2)), np.exp(rng.normal(size=(3, 2, 2)))
    weights = rng.dirichlet(np.ones(3))
    m, v = alpha_barycenter_of(0.5, mean, variance, weights)
    n, u = alpha_barycenter_of(0.5, mean[:, 1, 0], variance[:, 1, 0], weights)
    assert (m[1, 0], v[1, 0]) == pytest.approx(pair((n, u)), rel=1e-12)


# --- limits


@pytest.mark.full
@pytest.mark.parametrize(("limit", "name"), [(0, "rkl"), (1, "kl")])
@given(seed=seeds)
@settings(max_examples=10)
def test_limits(limit, name, seed):
    """The closed form at the limit, and the quadrature at a distance proportional to its step."""
    posteriors = some(seed)
    target = pair(barycenter_of(name, *posteriors))
    assert pair(alpha_barycenter_of(limit, *posteriors)) == pytest.approx(target, rel=1e-12)
    for way in (-1, 1):
        near, nearer = (
            pair(alpha_barycenter_of(limit + way * h, *posteriors)) for h in (1e-3, 1e-6)
        )
        assert near == pytest.approx(target, rel=0.1, abs=0.05)
        assert nearer == pytest.approx(target, rel=1e-4, abs=5e-5)


def test_larger_alphas_are_wider():
    """From the overlap of the posteriors to all that any of them holds likely."""
    alphas = (-5, -1, -0.1, 0, 0.1, 0.5, 1, 2)
    variances = [float(alpha_barycenter_of(alpha, *PAIR)[1]) for alpha in alphas]
    assert variances == sorted(variances)


def test_sure_posteriors_have_the_mean_of_powers_of_their_weights():
    """Far apart, p_k^alpha do not overlap: f -> sum_k w_k^(1 / alpha) p_k, and not the mean by w_k.

    So for 0 < alpha < 1 the deterministic limit is not the weighted mean, as the paper has it for
    alpha -> 0, but leans to the heavier.
    """
    mean, weights = np.array([0.0, 1.0]), np.array([0.8, 0.2])
    for alpha in (0.5, 0.9):
        power = weights ** (1 / alpha)
        m, v = alpha_barycenter_of(alpha, mean, np.full(2, 1e-8), weights)
        p = power[1] / power.sum()
        assert (m, v) == pytest.approx((p, p * (1 - p)), rel=1e-6)
    assert alpha_barycenter_of(0, mean, np.full(2, 1e-8), weights)[0] == pytest.approx(0.2)
    assert alpha_barycenter_of(1, mean, np.full(2, 1e-8), weights)[0] == pytest.approx(0.2)
