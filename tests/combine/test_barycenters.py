"""Barycenters of Gaussians: figure 1 of BA-BFL, what they minimise, limits, bad input."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.optimize import minimize

from divergences import kl, reverse_kl, squared_w2
from peerwise.combine import (
    FullGaussian,
    alpha_barycenter,
    alpha_barycenter_of,
    barycenter,
    barycenter_of,
    full_barycenter,
    full_barycenter_of,
)
from peerwise.combine.apply import one_node
from peerwise.combine.barycenter import BARYCENTERS
from peerwise.combine.full import FULL
from peerwise.core import Gaussian, Inbox
from peerwise.declare import build, canonical
from peerwise.errors import BadSetting, UnknownName

seeds = st.integers(0, 2**32 - 1)
PAIR = [0.0, 2.0], [1.0, 0.25], [0.5, 0.5]
DIVERGENCES = {"rkl": reverse_kl, "w2": squared_w2, "kl": kl}

FIGURE_1 = {
    "eaa": (1, 0.625),
    "gaa": (1, 0.3125),
    "gaa_normalised": (1, 0.625),  # the authors' code: at equal weights that of EAA
    "aalv": (1, 0.5),
    "rkl": (1.6, 0.4),
    "w2": (1, 0.5625),
    "kl": (1, 1.625),
}


def test_figure_1():
    assert FIGURE_1.keys() == BARYCENTERS.keys()
    for name, expected in FIGURE_1.items():
        assert barycenter_of(name, *PAIR) == pytest.approx(expected, rel=1e-12), name
    assert alpha_barycenter_of(0, *PAIR) == pytest.approx(FIGURE_1["rkl"], rel=1e-12)
    assert alpha_barycenter_of(1, *PAIR) == pytest.approx(FIGURE_1["kl"], rel=1e-12)
    mean, variance, weights = map(np.array, PAIR)
    for name in FULL:
        m, c = full_barycenter_of(name, mean[:, None], variance[:, None, None], weights)
        assert (m[0], c[0, 0]) == pytest.approx(FIGURE_1[name], rel=1e-12), name


def independent(seed, k=4, d=3):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(k))
    return 2 * rng.normal(size=(k, d)), np.exp(rng.normal(size=(k, d))), weights


def dependent(seed, k=3, d=3):
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(k, d, d + 2))
    covariance = factors @ factors.swapaxes(1, 2) / (d + 2)
    return 2 * rng.normal(size=(k, d)), covariance, rng.dirichlet(np.ones(k))


# --- divergences, beside formulas written in NumPy


def kl_by_hand(m, a, n, b):
    fit = np.trace(np.linalg.solve(b, a)) + (m - n) @ np.linalg.solve(b, m - n)
    return (fit - m.size + np.log(np.linalg.det(b) / np.linalg.det(a))) / 2


def w2_by_hand(m, a, n, b):
    root = sqrtm(a)
    return ((m - n) ** 2).sum() + np.trace(a + b - 2 * np.real(sqrtm(root @ b @ root)))


BY_HAND = {
    "kl": kl_by_hand,
    "rkl": lambda m, a, n, b: kl_by_hand(n, b, m, a),
    "w2": w2_by_hand,
}


@pytest.mark.parametrize("name", DIVERGENCES)
def test_divergences_as_numpy_has_them(name):
    for seed in range(4):
        mean, covariance, _ = dependent(seed, k=2)
        of_variance, variance, _ = independent(seed, k=2)
        with jax.enable_x64(True):
            p, q = (FullGaussian(*map(jnp.asarray, g)) for g in zip(mean, covariance, strict=True))
            r, s = (
                Gaussian(jnp.asarray(m), jnp.log(jnp.asarray(v)))
                for m, v in zip(of_variance, variance, strict=True)
            )
            full, mixed, diagonal = (
                float(DIVERGENCES[name](*pair)) for pair in ((p, q), (p, s), (r, s))
            )
        a, b = (np.diag(v) for v in variance)
        expected = BY_HAND[name](mean[0], covariance[0], mean[1], covariance[1])
        assert full == pytest.approx(expected, rel=1e-9)
        expected = BY_HAND[name](mean[0], covariance[0], of_variance[1], b)
        assert mixed == pytest.approx(expected, rel=1e-9)
        expected = BY_HAND[name](of_variance[0], a, of_variance[1], b)
        assert diagonal == pytest.approx(expected, rel=1e-9)


# --- what they minimise


BELOW = np.tril_indices(3, -1)


def independent_of(z):
    """A Gaussian from any six numbers."""
    return Gaussian(z[:3], z[3:])


def full_of(z):
    """A Gaussian from any nine: its mean, the logarithms and the rest of a Cholesky factor."""
    factor = jnp.diag(jnp.exp(z[3:6])).at[BELOW].set(z[6:])
    return FullGaussian(z[:3], factor @ factor.T)


def found_by_search(name, of, start, posteriors, weights):
    """The cost, and what a general optimiser makes of it; derivatives are JAX's."""

    def cost(z, posteriors, weights):
        return weights @ jax.vmap(DIVERGENCES[name], (0, None))(posteriors, of(z))

    with jax.enable_x64(True):
        value = compiled(name, of, cost)
        found = minimize(
            lambda z: tuple(np.asarray(a, float) for a in value(z, posteriors, weights)),
            start,
            jac=True,
            method="BFGS",
            options={"gtol": 1e-8, "maxiter": 500},
        )
        return lambda z: float(value(z, posteriors, weights)[0]), found


PROGRAMS = {}


def compiled(name, of, cost):
    """One program for each divergence and kind of Gaussian."""
    return PROGRAMS.setdefault((name, of), jax.jit(jax.value_and_grad(cost)))


@pytest.mark.parametrize("name", DIVERGENCES)
def test_an_optimiser_finds_no_better_independent_gaussian(name):
    for seed in range(5):
        mean, variance, weights = independent(seed)
        start = np.random.default_rng(seed).normal(size=6)
        posteriors = Gaussian(mean, np.log(variance))
        cost, found = found_by_search(name, independent_of, start, posteriors, weights)
        m, v = barycenter_of(name, mean, variance, weights)
        ours = np.append(m, np.log(v))
        np.testing.assert_allclose(found.x, ours, atol=1e-5)
        with jax.enable_x64(True):
            assert cost(ours) <= found.fun + 1e-12


@pytest.mark.full  # `make test`: independent/test_independent_rules.py
@pytest.mark.parametrize("name", DIVERGENCES)
def test_an_optimiser_finds_no_better_full_gaussian(name):
    for seed in range(5):
        mean, covariance, weights = dependent(seed)
        posteriors = FullGaussian(mean, covariance)
        cost, found = found_by_search(name, full_of, np.zeros(9), posteriors, weights)
        m, c = full_barycenter_of(name, mean, covariance, weights)
        factor = np.linalg.cholesky(c)
        ours = np.concatenate([m, np.log(np.diag(factor)), factor[BELOW]])
        np.testing.assert_allclose(found.x, ours, atol=1e-5)
        with jax.enable_x64(True):
            assert cost(ours) <= found.fun + 1e-12


@pytest.mark.parametrize("name", DIVERGENCES)
@given(seed=seeds, scale=st.sampled_from([1e-3, 0.1, 1.0]))
def test_any_other_gaussian_is_farther(name, seed, scale):
    mean, covariance, weights = dependent(seed)
    m, c = full_barycenter_of(name, mean, covariance, weights)
    rng = np.random.default_rng(seed)
    turn = np.eye(3) + scale * rng.normal(size=(3, 3))

    def cost(n, b):
        return sum(
            w * BY_HAND[name](*p, n, b) for w, *p in zip(weights, mean, covariance, strict=True)
        )

    assert cost(m + scale * rng.normal(size=3), turn @ c @ turn.T) > cost(m, c)


@pytest.mark.parametrize("name", FULL)
@given(seed=seeds)
def test_full_covariances_that_are_diagonal(name, seed):
    mean, variance, weights = independent(seed)
    diagonal = np.stack([np.diag(v) for v in variance])
    m, c = full_barycenter_of(name, mean, diagonal, weights)
    n, v = barycenter_of(name, mean, variance, weights)
    np.testing.assert_allclose(m, n, rtol=1e-10, atol=1e-12)
    if name == "kl":  # the spread of the means has directions of its own
        np.testing.assert_allclose(np.diag(c), v, rtol=1e-10)
    else:
        np.testing.assert_allclose(c, np.diag(v), rtol=1e-10, atol=1e-12)


def test_a_wasserstein_barycenter_is_a_fixed_point():
    """Agueh and Carlier: S = sum_k w_k (S^1/2 S_k S^1/2)^1/2, equation (10) of the paper."""
    for seed in range(5):
        mean, covariance, weights = dependent(seed, k=6, d=5)
        _, c = full_barycenter_of("w2", mean, covariance, weights)
        root = np.real(sqrtm(c))
        mixed = sum(
            w * np.real(sqrtm(root @ a @ root)) for w, a in zip(weights, covariance, strict=True)
        )
        np.testing.assert_allclose(mixed, c, atol=1e-9)


# --- posteriors that are known for sure, or nearly


@pytest.mark.parametrize("width", [1e-2, 1e-6, 1e-12])
def test_equally_sure_posteriors_have_the_weighted_mean(width):
    mean, variance, weights = independent(1)
    for name in BARYCENTERS:
        m, v = barycenter_of(name, mean, np.full_like(variance, width), weights)
        np.testing.assert_allclose(m, weights @ mean, rtol=1e-12)
        assert (v <= width * (1 + 1e-9)).all() or name == "kl"


def test_unequally_sure_posteriors_have_not():
    """However sure both are: reverse Kullback-Leibler goes by the ratio, which stays."""
    for width in (1, 1e-6, 1e-12):
        m, v = barycenter_of("rkl", [0.0, 2.0], [width, width / 4], [0.5, 0.5])
        assert (m, v) == pytest.approx((1.6, 0.4 * width), rel=1e-12)


# --- as rules


def gaussians(seed, k=None, d=4, dtype="f"):
    rng = np.random.default_rng(seed)
    shape = () if k is None else (k,)
    factor = rng.normal(size=(*shape, 3, 5))
    value = {
        "sure": rng.normal(size=(*shape, d)),
        "weights": Gaussian(rng.normal(size=(*shape, d)), rng.normal(-2, 1, size=(*shape, d))),
        "whole": FullGaussian(rng.normal(size=(*shape, 3)), factor @ factor.swapaxes(-1, -2) / 5),
    }
    return jax.tree.map(lambda a: a.astype(dtype), value)


RULES = {name: barycenter(name) for name in BARYCENTERS}
RULES |= {f"alpha {alpha:g}": alpha_barycenter(alpha) for alpha in (-0.5, 0.0, 0.5, 1.0)}
RULES |= {f"full {name}": full_barycenter(name) for name in FULL}
every_rule = pytest.mark.parametrize("name", RULES)
K = 4


def inbox_of(seed, name, weight, dtype="f"):
    """The node's own value and what it heard; rules that know no covariances are given none."""
    own, value = gaussians(seed, dtype=dtype), gaussians(seed + 1, K, dtype=dtype)
    if not name.startswith("full"):
        del own["whole"], value["whole"]
    size = np.arange(1, K + 1).astype(dtype)
    notes = {"size": size}, np.asarray(weight, dtype), np.zeros(K, np.int32)
    return own, {"size": np.asarray(2, dtype)}, Inbox(value, *notes)


@cache
def program(name, hears_itself):
    return jax.jit(partial(one_node, RULES[name], hears_itself=hears_itself))


def applied(name, own, note, inbox, hears_itself=False):
    """As the runtimes do it: in one program."""
    return jax.tree.map(np.asarray, program(name, hears_itself)(own, note, inbox))


def assert_trees(a, b, **tolerance):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, **tolerance)


@pytest.mark.some("full w2", "rkl", "alpha 0.5")
@every_rule
def test_a_rule_does_what_its_function_of_arrays_does(name):
    with jax.enable_x64(True):
        own, note, inbox = inbox_of(3, name, [0.5, 1, 0, 2], "d")
        new = applied(name, own, note, inbox)
    heard = [0, 1, 3]
    weights = np.array([0.5 * 1, 1 * 2, 2 * 4, 2])
    weights /= weights.sum()

    def everyone(a, b):
        return np.concatenate([np.asarray(b)[heard], np.asarray(a)[None]])

    values = jax.tree.map(everyone, own, inbox.value)
    np.testing.assert_allclose(new["sure"], weights @ values["sure"], rtol=1e-12)
    mean, variance = values["weights"].mean, np.exp(values["weights"].log_variance)
    if name.startswith("alpha"):
        expected = alpha_barycenter_of(float(name.split()[1]), mean, variance, weights)
    else:
        expected = barycenter_of(name.removeprefix("full "), mean, variance, weights)
    got = new["weights"].mean, np.exp(new["weights"].log_variance)
    assert_trees(got, expected, rtol=1e-9)
    if name.startswith("full"):
        expected = full_barycenter_of(name.removeprefix("full "), *values["whole"], weights)
        assert_trees(tuple(new["whole"]), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.some("full w2", "rkl", "alpha 0.5")
@every_rule
def test_slots_without_weight_have_no_say(name):
    own, note, inbox = inbox_of(5, name, [0, 1, 0, 2])
    clean = applied(name, own, note, inbox)
    for junk in (np.nan, np.inf, 1e30):
        dirty = jax.tree.map(np.copy, inbox.value)
        for leaf in jax.tree.leaves(dirty):
            leaf[[0, 2]] = junk
        spoilt = applied(name, own, note, inbox._replace(value=dirty))
        assert_trees(spoilt, clean, rtol=0)


@pytest.mark.some("full w2", "rkl")
@every_rule
@pytest.mark.parametrize("server", [False, True])
def test_a_node_that_hears_nobody_keeps_its_own_to_the_bit(name, server):
    own, note, inbox = inbox_of(7, name, np.zeros(K))
    assert_trees(applied(name, own, note, inbox, server), own, rtol=0)


@every_rule
def test_a_node_whose_message_is_in_a_slot_is_not_counted_again(name):
    own, note, inbox = inbox_of(8, name, np.ones(K))
    other = jax.tree.map(lambda a: a * np.float32(1.5), own)
    first, second = (applied(name, value, note, inbox, True) for value in (own, other))
    assert_trees(first, second, rtol=0)


@every_rule
def test_posteriors_that_agree_stay(name):
    own, note, inbox = inbox_of(9, name, np.ones(K))
    agreed = jax.tree.map(lambda a: np.broadcast_to(a, (K, *a.shape)), own)
    new = applied(name, own, note, inbox._replace(value=agreed))
    if name == "gaa":  # as many independent draws, averaged, vary less
        assert (new["weights"].log_variance < own["weights"].log_variance - 0.5).all()
        new["weights"] = new["weights"]._replace(log_variance=own["weights"].log_variance)
    assert_trees(new, own, rtol=1e-4, atol=1e-5)


def test_small_variances_survive_in_single_precision():
    """Beside mean^2 = 1 a variance of e^-18 is nothing: it once came out as e^-87."""
    own = Gaussian(np.ones(3, "f"), np.full(3, -18, "f"))
    agreed = jax.tree.map(lambda a: np.broadcast_to(a, (K, 3)), own)
    note, inbox = (
        {"size": np.float32(1)},
        Inbox(agreed, {"size": np.ones(K, "f")}, np.ones(K, "f"), 0),
    )
    for rule, off in ((barycenter("kl"), 4), (alpha_barycenter(1.0), 1e-4)):
        new = one_node(rule, own, note, inbox)
        np.testing.assert_allclose(new.log_variance, own.log_variance, atol=off)


def test_rules_are_made_once():
    for make in (alpha_barycenter, full_barycenter, barycenter):
        assert make() is make()


# --- bad input


@pytest.mark.parametrize(
    "of", [lambda *a: barycenter_of("w2", *a), lambda *a: alpha_barycenter_of(0.5, *a)]
)
@pytest.mark.parametrize(
    ("mean", "variance", "weights", "says"),
    [
        ([0.0, 2.0], [1.0, 0.0], [0.5, 0.5], "variances must be above 0, got 0"),
        ([0.0, 2.0], [1.0, -0.25], [0.5, 0.5], "variances must be above 0, got -0.25"),
        ([0.0, 2.0], [[1.0], [1.0]], [0.5, 0.5], "one shape, got \\(2,\\) and \\(2, 1\\)"),
        ([0.0, 2.0, 3.0], [1.0, 1.0, 1.0], [0.5, 0.5], "one weight for each posterior"),
        ([0.0, 2.0], [1.0, 1.0], [0.5, 0.6], "sum to one, got a sum of 1.1"),
        ([0.0, 2.0], [1.0, 1.0], [1.5, -0.5], "weights must be 0 or more"),
        ([0.0, np.nan], [1.0, 1.0], [0.5, 0.5], "finite"),
        ([0.0, 2.0], [1.0, np.inf], [0.5, 0.5], "finite"),
    ],
)
def test_what_makes_no_sense_is_refused(of, mean, variance, weights, says):
    with pytest.raises(BadSetting, match=says):
        of(mean, variance, weights)


EYES = np.stack([np.eye(2)] * 2)


@pytest.mark.parametrize(
    ("covariance", "weights", "says"),
    [
        (np.ones((2, 2)), [0.5, 0.5], "covariances \\[k, d, d\\], got \\(2, 2\\) and \\(2, 2\\)"),
        (EYES * [[0, 0], [0, 1]], [0.5, 0.5], "positive definite, one has the eigenvalue 0"),
        (-EYES, [0.5, 0.5], "positive definite, one has the eigenvalue -1"),
        (EYES + np.array([[0, 0.1], [0, 0]]), [0.5, 0.5], "symmetric, one is off by 0.1"),
        (EYES, [0.5, 0.4], "sum to one, got a sum of 0.9"),
        (EYES * np.nan, [0.5, 0.5], "finite"),
    ],
)
def test_covariances_that_make_no_sense_are_refused(covariance, weights, says):
    with pytest.raises(BadSetting, match=says):
        full_barycenter_of("rkl", np.zeros((2, 2)), covariance, weights)


@pytest.mark.parametrize("alpha", [np.nan, np.inf, -np.inf])
def test_an_alpha_that_is_no_number_is_refused(alpha):
    for call in (alpha_barycenter, lambda a: alpha_barycenter_of(a, *PAIR)):
        with pytest.raises(BadSetting, match="alpha must be a finite number"):
            call(alpha)


def test_unknown_barycenters_are_refused():
    with pytest.raises(UnknownName, match=r"unknown barycenter of full covariances 'w3'.*'w2'"):
        full_barycenter_of("w3", [[0.0]], [[[1.0]]], [1.0])
    with pytest.raises(BadSetting, match=r"divergence must be 'rkl', 'w2' or 'kl', got 'w3'"):
        full_barycenter("w3")
    with pytest.raises(BadSetting, match=r"divergence must be .* got 'rlk'; did you mean 'rkl'"):
        barycenter("rlk")


@pytest.mark.parametrize("weigh", ["median", "decdiff", "barycenter", "alpha_barycenter"])
@pytest.mark.parametrize("name", ["barycenter", "alpha_barycenter", "full_barycenter"])
def test_posteriors_are_weighted_by_a_rule_that_weighs_and_does_nothing_else(name, weigh):
    table = canonical("rule", {"name": name, "weigh": weigh})
    with pytest.raises(BadSetting, match="weigh must be a rule that weighs"):
        build("rule", table, {})
