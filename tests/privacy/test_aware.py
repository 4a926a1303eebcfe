"""Models that know their noise: exact without it, valid with any, better than those that do not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise import topology as topologies
from peerwise.methods import federated_nb, gossip_nb
from peerwise.methods.releasing import release
from peerwise.models.family import log_posterior, statistics
from peerwise.models.registry import model_for
from peerwise.privacy import public_schema
from peerwise.privacy.aware import denoised
from peerwise.privacy.aware.shrink import positive
from peerwise.privacy.design import Design, default_delta, noising
from peerwise.shards import pack
from peerwise.simulate import simulate

NUMBERS = {f"x{i}": (-1.0, 1.0) for i in range(3)}
MIXED = NUMBERS | {"c": ("a", "b", "d")}
KINDS = {
    "naive_bayes": MIXED, "shared_naive_bayes": MIXED, "lda": MIXED, "qda": MIXED,
    "bernoulli": {f"b{i}": (0.0, 1.0) for i in range(4)},
    "multinomial": {f"w{i}": (0.0, 8.0) for i in range(4)},
}  # fmt: skip


def made(name, m=600, seed=0):
    """A model, its design, and rows of two classes that differ in every feature."""
    columns = KINDS[name]
    schema = public_schema(columns, ("no", "yes"))
    model = model_for(schema, name)
    rng = np.random.default_rng(seed)
    y = (rng.random(m) < 0.4).astype(np.int32)
    if name == "bernoulli":
        x = (rng.random((m, 4)) < np.where(y, 0.7, 0.3)[:, None]).astype(float)
    elif name == "multinomial":
        x = rng.poisson(np.where(y[:, None], [3, 1, 1, 1], [1, 1, 3, 1])).clip(0, 8).astype(float)
    else:
        x = np.clip(rng.normal(np.where(y, 0.3, -0.3)[:, None], 0.4, (m, 3)), -1, 1)
        x = np.concatenate([x, (rng.random((m, 1)) + y[:, None] * 0.8).clip(0, 1.99)], 1)
        x[:, 3] = np.floor(x[:, 3] * 1.5)
    low = np.array([c[0] for c in columns.values() if not isinstance(c[0], str)])
    high = np.array([c[1] for c in columns.values() if not isinstance(c[0], str)])
    return model, Design(model, low, high), x, y


def noisy(design, exact, epsilon, seed, nodes=1):
    how = noising(design, epsilon, default_delta(600))
    rng = np.random.default_rng(seed)
    lines, sums = (None if a is None else np.asarray(a) for a in design.coordinates(exact))
    q = design.lines
    draw = rng.normal if how.kind == "gaussian" else rng.laplace
    lines = lines + draw(0, 1, lines.shape) * how.scale[:q] * np.sqrt(nodes)
    if sums is not None:
        sums = sums + draw(0, 1, sums.shape) * how.scale[q:] * np.sqrt(nodes)
    return design.raw(lines, sums), how.variance * nodes


@pytest.mark.parametrize("name", KINDS)
def test_without_noise_statistics_come_back_and_with_any_they_are_valid_and_better(name):
    with jax.enable_x64(True):
        model, design, x, y = made(name)
        exact = statistics(model, jnp.asarray(x), jnp.asarray(y), jnp.ones(len(y)))
        clean = jax.jit(lambda v, s: denoised(design, v, s))
        same = clean(jnp.zeros(design.size), exact)
        for a, b in zip(jax.tree.leaves(same), jax.tree.leaves(exact), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
        _, _, x_test, y_test = made(name, 2000, seed=1)
        right = jax.jit(lambda s: log_posterior(model, s, jnp.asarray(x_test)).argmax(1))

        def accuracy(s):
            return float((np.asarray(right(s)) == y_test).mean())

        plain, aware = [], []
        for seed in range(12):
            for epsilon in (0.02, 0.3):
                s, variance = noisy(design, exact, epsilon, seed)
                better = clean(jnp.asarray(variance), jax.tree.map(jnp.asarray, s))
                assert all(bool(jnp.isfinite(a).all()) for a in jax.tree.leaves(better))
                theta = model.theta(better)
                assert bool(jnp.isfinite(theta.weight).all())
                plain.append(accuracy(s))
                aware.append(accuracy(better))
        assert np.mean(aware) >= np.mean(plain) - 0.01


@pytest.mark.long("shared_naive_bayes", "lda")
@pytest.mark.parametrize("name", ["naive_bayes", "shared_naive_bayes", "lda", "qda"])
def test_with_little_noise_numbers_come_back_as_they_were_released(name):
    """Not nearly so: what is left of a correction that falls as noise^2 turns ranks about."""
    with jax.enable_x64(True):
        _, _, x, y = made(name, 100_000)
        model = model_for(public_schema(NUMBERS, ("no", "yes")), name)
        design = Design(model, -np.ones(3), np.ones(3))
        together = np.random.default_rng(1).normal(0, 0.2, (len(y), 1)) * y[:, None]
        rows = jnp.asarray(np.clip(x[:, :3] + together, -1, 1))  # of one class they are correlated
        exact = statistics(model, rows, jnp.asarray(y), jnp.ones(len(y)))
        s, variance = noisy(design, exact, 5.0, seed=3)
        better = denoised(design, jnp.asarray(variance), jax.tree.map(jnp.asarray, s))
        for found, released, without in zip(*map(jax.tree.leaves, (better, s, exact)), strict=True):
            np.testing.assert_allclose(found, released, rtol=1e-9)
            assert np.abs(without - released).max() > 1  # and there was noise


@pytest.mark.long("shared_naive_bayes", "lda")
@pytest.mark.parametrize("name", ["naive_bayes", "shared_naive_bayes", "lda", "qda"])
def test_as_noise_vanishes_a_model_tends_to_the_plain_one(name):
    """With cells that are empty in one class, which the plain model gives its least share."""
    with jax.enable_x64(True):
        model, design, x, y = made(name, 5000)
        x[:, 3] = np.where(y == 1, x[:, 3], np.minimum(x[:, 3], 1))
        rows = jnp.asarray(x)
        exact = statistics(model, rows, jnp.asarray(y), jnp.ones(len(y)))
        odds = jax.jit(lambda s: jnp.ptp(log_posterior(model, s, rows), 1))
        clean = jax.jit(lambda v, s: denoised(design, v, s))
        released, variance = noisy(design, exact, 100.0, seed=2)
        apart = []
        for t in (1, 1e-3, 1e-6):
            s = jax.tree.map(lambda a, b, t=t: a + t * (b - a), exact, released)
            better = clean(jnp.asarray(t**2 * variance), s)
            apart.append(float(jnp.abs(odds(better) - odds(exact)).max()))
        assert apart[0] < 3
        assert apart[-1] < 1e-5, apart


def test_where_noise_hides_a_direction_of_a_rare_class_it_varies_there_as_all_classes_do():
    """Neither as noise says, nor as much as noise could make it."""
    with jax.enable_x64(True):
        model = model_for(public_schema(NUMBERS, ("no", "yes")), "qda")
        design = Design(model, -np.ones(3), np.ones(3))
        rng = np.random.default_rng(0)
        y = (rng.random(40_000) < 0.02).astype(np.int32)
        x = rng.normal(0, 0.25, (len(y), 1)) + rng.normal(0, 0.025, (len(y), 3))
        exact = statistics(model, jnp.asarray(x), jnp.asarray(y), jnp.ones(len(y)))
        across = jnp.array([1.0, 0.0, -1.0]) / np.sqrt(2)  # in which numbers hardly vary
        ratios = []
        for seed in range(8):
            s, variance = noisy(design, exact, 1.0, seed)
            better = denoised(design, jnp.asarray(variance), jnp.asarray(s))
            own, rare = (across @ c @ across for c in model.describe(better)["cov"])
            ratios.append(float(rare / own))
        assert 0.3 < np.median(ratios) < 3, ratios


def test_noise_alone_does_not_look_like_a_difference_between_classes_of_unequal_size():
    """A class of few rows has the larger noise in its shares; all cells tell nothing here."""
    with jax.enable_x64(True):
        schema = public_schema({f"c{i}": tuple("abcdefghij") for i in range(8)}, ("no", "yes"))
        model = model_for(schema, "naive_bayes")
        design = Design(model, np.empty(0), np.empty(0))
        rng = np.random.default_rng(0)
        y = (rng.random(4000) < 0.1).astype(np.int32)
        x = np.floor(10 * rng.random((4000, 8)))
        exact = statistics(model, jnp.asarray(x), jnp.asarray(y), jnp.ones(len(y)))
        clean = jax.jit(lambda v, s: denoised(design, v, s))
        larger = []
        for seed in range(20):
            s, variance = noisy(design, exact, 0.05, seed)
            better = clean(jnp.asarray(variance), jnp.asarray(s))
            found = log_posterior(model, better, jnp.asarray(x[:500])).argmax(1)
            larger.append(float((np.asarray(found) == 0).mean()))
        assert np.mean(larger) > 0.98


def test_what_is_not_negative_is_seen_as_what_it_is_on_average():
    value = jnp.array([5.0, 0.0, -2.0, -100.0])
    found = np.asarray(positive(value, jnp.ones(4)))
    np.testing.assert_allclose(found, [5.0, 0.798, 0.373, 0.033], atol=2e-3)
    assert positive(jnp.array(-1.0), jnp.array(0.0)) == 0


@pytest.mark.parametrize("counter", ["federated", "total"])
def test_methods_predict_with_models_that_know_their_noise(counter):
    """The same release and estimate, another model of it."""
    model, _, x, y = made("naive_bayes", 400)
    shards = pack(x.astype(np.float32), y, np.array_split(np.arange(400), 4))
    shared = {"epsilon": 1.0, "bounds": (-1.0, 1.0), "mechanism": "gaussian", "delta": 1e-5}
    found = []
    for knows in (False, True):
        draw = release(model, **shared, knows=knows)
        if counter == "federated":
            method, graph = federated_nb(model, draw, 4), topologies.server(4)
        else:
            method, graph = gossip_nb(model, draw, None, 4, counter="total"), topologies.ring(4)
        run = simulate(method, shards, graph, 2)
        value = jax.tree.map(lambda a: a[0], run.state.value)
        found.append((value, method.predict(jax.random.key(0), value, jnp.asarray(x[:50]))))
    for a, b in zip(jax.tree.leaves(found[0][0]), jax.tree.leaves(found[1][0]), strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.abs(np.asarray(found[0][1]) - np.asarray(found[1][1])).max() > 0.01
    assert np.isfinite(np.asarray(found[1][1])).all()


def test_an_unknown_delta_is_small_beside_one_row():
    assert default_delta(None) == 1e-6
    for rows in (1, 500, 10**4, 12_345, 10**7):
        assert default_delta(rows) <= 1 / (10 * rows)
        assert default_delta(rows) <= 1e-5
