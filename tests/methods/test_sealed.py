"""Sealed naive Bayes and calibration: what one curator would learn, each node a share of noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import assert_equal_runs
from peerwise import topology as topologies
from peerwise.channel import erasure
from peerwise.core import State
from peerwise.methods import rc, sealed_crc, sealed_nb, words
from peerwise.methods.private_crc import noise_multiplier
from peerwise.methods.sealed import RELEASES
from peerwise.models import naive_bayes
from peerwise.models.family import statistics
from peerwise.privacy.budget import Budget
from peerwise.privacy.design import design_of, noising
from peerwise.shards import pack, pooled
from peerwise.simulate import simulate
from peerwise.walk import walk

N, EACH, CLASSES, RELEASED = 4, 6, 2, 5
MODEL = naive_bayes((0, 3), CLASSES)
DESIGN = design_of(MODEL, (-3.0,), (3.0,))
OPEN, PRIVATE = Budget(), Budget(1.0, 1e-5)
RING = topologies.ring(N)
ROUNDS = 40


def rows():
    rng = np.random.default_rng(3)
    y = rng.integers(CLASSES, size=N * EACH)
    x = np.column_stack(
        [np.clip(y + rng.normal(size=len(y)), -3, 3), (y + rng.integers(2, size=len(y))) % 3]
    )
    return x, y, np.arange(N * EACH).reshape(N, EACH)


X, Y, OWNED = rows()
SHARDS = pack(X, Y, OWNED)


def nb(budget=OPEN, **options):
    return sealed_nb(MODEL, DESIGN, budget, N, **options)


def crc(budget=OPEN, releases=RELEASED, **options):
    return sealed_crc(MODEL, budget, N * EACH, N, ROUNDS, 3, releases=releases, **options)


def test_naive_bayes_is_that_of_all_rows_on_the_grid():
    run = simulate(nb(), SHARDS, RING, ROUNDS, precision="float64")
    with jax.enable_x64(True):
        exact = np.asarray(statistics(MODEL, X, Y, np.ones(len(Y))))
    learnt = np.asarray(run.state.value["statistics"]) * N
    assert (learnt == learnt[:1]).all()
    np.testing.assert_allclose(learnt[0], exact, atol=N * 9 * 2.0**-20)
    np.testing.assert_array_equal(run.state.value["sums"]["done"], np.ones(N))


def test_without_noise_and_clip_calibration_is_rc_round_by_round():
    """The iterate after t sums is RC's after t rounds; what predicts is the mean of the last."""
    run = simulate(crc(clip=1e4, lr=0.1), SHARDS, RING, ROUNDS, precision="float64")
    one = pooled(X, Y, OWNED)
    look = {"probe": lambda method, state: state.value, "at": range(1, RELEASED + 1)}
    ours = simulate(
        rc(MODEL, lr=0.1), one, topologies.alone(1), RELEASED, precision="float64", **look
    )
    path = np.asarray(ours.history["adapt"])[:, 0]
    last, mean = (np.asarray(run.state.value[k]) for k in ("statistics", "mean"))
    np.testing.assert_allclose(last, np.broadcast_to(path[-1], last.shape), atol=1e-2)
    half = path[RELEASED // 2 :].mean(0)
    np.testing.assert_allclose(mean, np.broadcast_to(half, mean.shape), atol=1e-2)
    assert np.abs(path[-1] - path[0]).max() > 0.1  # it moved by much more


def test_a_sum_worked_by_hand():
    """Two nodes of one row each: counts of classes, x about 0, x^2 - 4.5 and cells, in steps."""
    x, y = np.array([[2.0, 1.0], [-1.0, 0.0]]), np.array([1, 0])
    shards = pack(x, y, np.arange(2)[:, None])
    method = sealed_nb(MODEL, DESIGN, OPEN, 2)
    run = simulate(method, shards, topologies.ring(2), 10)
    step = method.adapt.grid.step
    total = words.as_integers(np.asarray(run.state.value["sums"]["total"])[0]).astype(np.int64)
    by_class = [[1, -1, 1 - 4.5, 1, 0, 0], [1, 2, 4 - 4.5, 0, 1, 0]]
    np.testing.assert_array_equal(total * step, np.concatenate(by_class))


@pytest.mark.parametrize("make", [nb, crc])
def test_noise_of_honest_members_is_that_of_one_release(make):
    method = make(PRIVATE, honest=0.75)
    grid = method.adapt.grid
    assert grid.honest == 3
    whole = np.sqrt(grid.honest) * grid.std * grid.step
    if make is crc:
        np.testing.assert_allclose(whole, 3.0 * noise_multiplier(1.0, 1e-5, RELEASED))
    else:
        scale = noising(DESIGN, 1.0, 1e-5, "gaussian").scale
        np.testing.assert_allclose(whole, np.tile(scale, CLASSES))


def test_each_node_adds_its_own_share():
    method = crc(PRIVATE)
    shard = jax.tree.map(
        lambda a: jnp.asarray(a, jnp.float32 if a.dtype.kind == "f" else None), SHARDS.of(0)
    )
    key = jnp.stack([jax.random.key(0), jax.random.key(0)])
    state = method.init(key, shard)
    made = jax.jit(jax.vmap(lambda k: method.adapt(k, state, shard).value["sums"]["term"]))
    noisy = words.as_integers(made(jax.random.split(jax.random.key(1), 2000))).astype(np.int64)
    exact = words.as_integers(crc().adapt(key[0], state, shard).value["sums"]["term"]).astype(
        np.int64
    )
    noise = (noisy - exact) / method.adapt.grid.std
    assert noise.std() == pytest.approx(1, rel=0.03)
    assert np.abs(noise.mean(0)).max() < 0.12


@pytest.mark.parametrize("make", [nb, crc])
def test_a_row_moves_a_real_term_by_no_more_than_the_noise_is_for(make):
    """Of the whole numbers that peers add up; also beside a model that noise has made odd."""
    rng = np.random.default_rng(1)
    sealed = make(PRIVATE).adapt
    odd = MODEL.uniform(5.0, jnp.float32) + 50 * rng.normal(size=(CLASSES, MODEL.size))
    state = State({"statistics": odd.astype(np.float32)}, {})
    x, y = X.copy(), Y.astype(np.int32)
    x[:, 0] = rng.uniform(-3, 3, len(x))
    full = sealed.exact(state, x, y)
    assert (full == np.rint(full)).all()
    for gone in range(0, len(y), 5):
        kept = np.arange(len(y)) != gone
        moved = (full - sealed.exact(state, x[kept], y[kept])) * sealed.grid.step
        if make is crc:
            assert np.sqrt((moved**2).sum()) <= 3.0
        else:
            assert (np.abs(moved) <= np.tile(DESIGN.reach, CLASSES)).all()


def test_void_rounds_use_up_releases_and_no_more_terms_than_paid_for_are_made():
    run = simulate(crc(PRIVATE), SHARDS, RING, 200)
    assert (np.asarray(run.state.value["sums"]["made"]) == RELEASED).all()
    assert (np.asarray(run.state.value["sums"]["done"]) == RELEASED).all()


def test_as_many_releases_as_fit_into_the_rounds():
    fits = [
        sealed_crc(MODEL, PRIVATE, 24, N, rounds, 3).adapt.sums.rounds for rounds in (1, 40, 10**4)
    ]
    assert fits == [1, 6, RELEASES]


CASES = {"nb": nb, "crc": crc}


@pytest.mark.bits
@pytest.mark.some("crc-1.0")
@pytest.mark.parametrize("epsilon", [1.0, np.inf])
@pytest.mark.parametrize("name", CASES)
def test_runtimes_agree_to_the_bit(name, epsilon):
    method = CASES[name](Budget(epsilon, 1e-5))
    options = {"seed": 5, "channel": erasure(0.8)}
    walked = walk(method, SHARDS, RING, 24, **options)
    assert_equal_runs(simulate(method, SHARDS, RING, 24, exact=True, **options), walked)
    assert int(walked.state.value["sums"]["done"].min()) > 0
