"""Queries, sensitivities and how a budget is shared."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.models import naive_bayes
from peerwise.privacy.budget import Queries, check_epsilon, scales, split, split_gaussian
from peerwise.privacy.sensitivity import bounded, clip, local, warn_local

MIXED = Queries((3, 0, 2, 0), classes=2)  # numbers and categories interleaved


def test_queries_follow_the_columns_of_naive_bayes():
    # rows | x1, x3 | x1^2, x3^2 | three categories | two categories
    assert MIXED.column.tolist() == [0, 1, 2, 3, 4, 5, 5, 5, 6, 6]
    assert len(MIXED) == 1 + 2 + 2 * 2
    assert MIXED.released.tolist() == [2, 2, 2, 2, 2, 6, 4]
    assert MIXED.numeric.tolist() == [1, 3]


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("cardinalities", [(3, 0, 2, 0), (0,), (4, 2), (0, 5, 0, 0)])
def test_queries_have_the_size_of_the_model(cardinalities, missing):
    queries = Queries(cardinalities, 3, missing)
    assert queries.size == naive_bayes(cardinalities, 3, missing).size == len(queries.column)
    assert queries.column.max() == len(queries) - 1


def test_one_row_changes_what_the_queries_say():
    """Brute force: the statistics of one row, query by query, never exceed the sensitivity."""
    model = naive_bayes((3, 0, 2, 0), 2)
    low, high = np.array([-2.0, 0.0]), np.array([1.0, 3.0])
    worst = np.zeros(len(MIXED))
    for row in itertools.product(range(3), (-2.0, 0.5, 1.0), range(2), (0.0, 1.0, 3.0)):
        change = np.abs(np.asarray(model.features(jnp.array([row])))[0])
        worst = np.maximum(worst, np.bincount(MIXED.column, change))
    claimed = bounded(MIXED, low, high)
    first = [np.flatnonzero(MIXED.column == i)[0] for i in range(len(MIXED))]
    np.testing.assert_allclose(claimed[first], worst)  # a histogram changes by 1 in one place
    np.testing.assert_allclose(claimed, [1, 2, 3, 4, 9, 1, 1, 1, 1, 1])


def test_even_is_equation_16():
    np.testing.assert_allclose(split(1.4, MIXED, bounded(MIXED, -1, 1)), np.full(7, 0.2))


@pytest.mark.parametrize("high", [1.0, [0.3, 7.0]])
def test_optimal_has_the_smallest_total_variance(high):
    sensitivity = bounded(MIXED, -0.1, high)

    def variance(epsilon):
        return 2 * MIXED.classes * (scales(sensitivity, epsilon, MIXED) ** 2).sum()

    best = split(2.0, MIXED, sensitivity, "optimal")
    assert best.sum() == pytest.approx(2.0)

    def loss(z):
        return np.log(variance(2.0 * np.exp(z) / np.exp(z).sum()))

    found = minimize(loss, np.zeros(len(MIXED)), method="BFGS", options={"gtol": 1e-8})
    assert variance(best) == pytest.approx(np.exp(found.fun), rel=1e-6)
    np.testing.assert_allclose(best, 2.0 * np.exp(found.x) / np.exp(found.x).sum(), rtol=1e-3)
    assert variance(best) < variance(split(2.0, MIXED, sensitivity))


def test_optimal_gaussian_has_the_smallest_total_variance():
    sensitivity = bounded(MIXED, -0.1, [0.3, 7.0])

    def variance(multiplier):
        return ((sensitivity * multiplier[MIXED.column]) ** 2).sum()

    best = split_gaussian(3.0, MIXED, sensitivity, "optimal")
    assert (best**-2).sum() == pytest.approx(1 / 9)
    rng = np.random.default_rng(0)
    for share in rng.dirichlet(np.ones(len(MIXED)), 300):
        assert variance(best) <= variance(3.0 / np.sqrt(share)) * (1 + 1e-12)
    nudged = 3.0 / np.sqrt(np.maximum(9 / best**2 + [1e-3, -1e-3, 0, 0, 0, 0, 0], 1e-9))
    assert variance(best) < variance(nudged)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, float("nan"), float("inf")])
def test_a_budget_must_be_positive_and_finite(epsilon):
    with pytest.raises(BadSetting, match="greater than 0"):
        split(epsilon, MIXED, np.ones(MIXED.size))


def test_infinity_is_for_where_noise_is_off():
    share = split(float("inf"), MIXED, np.ones(MIXED.size), noise_off=True)
    assert not scales(np.ones(MIXED.size), share, MIXED).any()
    with pytest.raises(BadSetting):
        check_epsilon(float("nan"), noise_off=True)


def test_an_unknown_rule_names_the_nearest():
    with pytest.raises(UnknownName, match="optimal"):
        split(1.0, MIXED, np.ones(MIXED.size), "optimum")


def test_missing_bounds_are_an_error():
    for low, high in [(None, 1.0), (-1.0, np.inf), ([-1.0], 1.0), (-1.0, [1.0, np.nan])]:
        with pytest.raises(BadSetting, match=r"missing|not finite"):
            bounded(MIXED, low, high)
    with pytest.raises(BadSetting, match="below"):
        bounded(MIXED, 1.0, [2.0, 1.0])
    with pytest.raises(BadSetting, match="cardinalities"):
        Queries((), 2)


@pytest.mark.parametrize("xp", [np, jnp])
def test_clip_moves_numbers_and_counts_them(xp):
    x = xp.asarray([[9.0, 5.0, 1.0], [2.0, -3.0, 1.0], [2.0, float("nan"), 7.0]])
    clipped, outside = clip(x, (3, 0, 0), [-1.0, 0.0], [1.0, 2.0])
    np.testing.assert_array_equal(clipped, [[9, 1, 1], [2, -1, 1], [2, np.nan, 2]])
    assert int(outside) == 3
    assert isinstance(clipped, np.ndarray) == (xp is np)
    _, outside = clip(x, (3, 0, 0), -1.0, 2.0, weight=xp.asarray([1.0, 1.0, 0.0]))
    assert int(outside) == 2


def test_clip_works_under_jit_and_refuses_another_shape():
    made = jax.jit(lambda x: clip(x, (0, 0), -1.0, 1.0))(jnp.full((3, 2), 4.0))
    assert int(made[1]) == 6
    with pytest.raises(BadData, match="clipped"):
        clip(np.zeros((2, 3)), (0, 0), -1.0, 1.0)


def test_local_is_the_largest_value_of_a_class_at_the_node():
    x = jnp.array([[0.0, -3.0], [1.0, 2.0], [1.0, 50.0], [0.0, 4.0]])
    y, weight = jnp.array([0, 0, 2, 2]), jnp.array([1.0, 1.0, 0.0, 1.0])  # the third is padding
    found = local(x, y, weight, (2, 0), 3)
    np.testing.assert_allclose(found, [[1, 3, 9, 1, 1], [1, 0, 0, 1, 1], [1, 4, 16, 1, 1]])


def test_local_works_for_many_nodes_at_once_and_for_none_of_a_class():
    x = jnp.stack([jnp.ones((2, 1)), 3 * jnp.ones((2, 1))])
    y, weight = jnp.array([[0, 1], [0, -1]]), jnp.ones((2, 2))
    found = jax.jit(jax.vmap(lambda x, y, w: local(x, y, w, (0,), 2)))(x, y, weight)
    np.testing.assert_allclose(found[:, :, 1], [[1, 1], [3, 0]])
    share = split(1.0, Queries((0,), 2), found[1], "optimal")
    assert np.isfinite(scales(found[1], share, Queries((0,), 2))).all()
    assert local(jnp.zeros((0, 1)), jnp.zeros(0, int), jnp.zeros(0), (0,), 2)[:, 1].max() == 0


def test_local_warns_once():
    warn_local.cache_clear()
    with pytest.warns(UserWarning, match="not differential privacy"):
        warn_local()
    warn_local()  # a second warning would be an error here
