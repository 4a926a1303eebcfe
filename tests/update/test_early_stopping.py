"""Rows kept for validation, epochs of one's own, gradients over all rows, dropout."""

from dataclasses import replace
from functools import cache, partial
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerwise import topology as topologies
from peerwise.core import Shard
from peerwise.errors import BadSetting
from peerwise.methods.neural import isolated_net
from peerwise.nets import network_of
from peerwise.nets.conv import Dropout
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.update.losses import cross_entropy, virtual_teacher
from peerwise.update.objective import gradient
from peerwise.update.sgd import trainer
from peerwise.update.training import Training


def linear(key):
    return eqx.nn.Linear(3, 4, key=key)


NET = network_of(linear, 3, 4)
LOSS = cross_entropy()
KEY = jax.random.key(0)
WEIGHTS = NET.init(jax.random.key(7))
M = 17


def shard(m=M, padded=0, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=m + padded)
    x = rng.normal(size=(m + padded, 3)) + np.eye(4)[y][:, :3]
    x[m:] = 1e6  # padding must not matter
    weight = np.arange(m + padded) < m
    return Shard(jnp.asarray(x, jnp.float32), jnp.asarray(y), jnp.asarray(weight, jnp.float32))


@cache
def compiled(newest=False, net=NET, **options):
    """Training of `epochs` epochs; `newest`: the last weights instead of the best."""
    local = trainer(net, LOSS, Training(**options))
    train = replace(local.train, end=lambda now: now) if newest else local.train

    @jax.jit
    def trained(weights, rows, epochs):
        return train(KEY, weights, local.optimiser(weights), epochs, None, rows)

    return trained


def trained(rows, *, weights=WEIGHTS, newest=False, net=NET, own=None, **options):
    epochs = jnp.asarray(own or options.get("epochs", 1), jnp.int32)
    return compiled(newest, net, **options)(weights, rows, epochs)


def flat(tree):
    return np.concatenate([np.asarray(a).ravel() for a in jax.tree.leaves(tree)])


@partial(jax.jit, static_argnums=(2, 3))
def mean_loss(weights, rows, net=NET, loss=LOSS):
    return loss(net.logits(weights, rows.x), rows.y).mean()


slope_of = jax.jit(jax.grad(mean_loss), static_argnums=(2, 3))


def some(rows, which):
    return Shard(*(a[np.asarray(which)] for a in rows))


def is_held_out(m, share):
    """Every 1/share-th row."""
    whole = np.floor(np.arange(m + 1) * share + 1e-9)
    return np.diff(whole) > 0


# --- rows for validation


def test_changing_a_row_changes_the_weights_unless_it_is_for_validation():
    """Patience never ends, and the newest weights are looked at: no epoch is chosen by a loss."""
    options = {"epochs": 3, "validation": 0.4, "patience": 9, "batch": 4, "lr": 0.1}
    rows = shard()
    first = flat(trained(rows, newest=True, **options).weights)
    for i in range(M):
        other = rows._replace(y=rows.y.at[i].set((rows.y[i] + 1) % 4))
        moved = (flat(trained(other, newest=True, **options).weights) != first).any()
        assert moved == (not is_held_out(M, 0.4)[i]), i


@pytest.mark.bits
def test_after_one_epoch_validation_has_nothing_to_choose_from():
    options = {"validation": 0.25, "batch": 4, "lr": 0.1}
    rows = shard()
    other = rows._replace(y=jnp.where(is_held_out(M, 0.25), (rows.y + 1) % 4, rows.y))
    one, two = trained(rows, **options), trained(other, **options)
    np.testing.assert_array_equal(flat(one.weights), flat(two.weights))
    assert float(one.stopping[1]) != float(two.stopping[1])  # the loss on them was looked at


@pytest.mark.parametrize("share", [0.25, 1 / 3, 0.9])
def test_the_share_for_validation_is_evenly_spaced(share):
    """Whatever the number of rows: as many as the share rounded down, padding not counted."""
    for m in (1, 2, 3, 4, 9, 10, 11, M):
        found = trained(shard(m, M - m), validation=share, batch=4, lr=0.1)
        assert int(found.rows) == m - is_held_out(m, share).sum(), m
        assert is_held_out(m, share).sum() == int(m * share + 1e-9)
        assert int(found.steps) == -(-int(found.rows) // 4)


# --- stopping


def by_hand(rows, share, lr, epochs, patience):
    """Full batches, one step an epoch: the best weights, and how many steps were taken."""
    held = is_held_out(rows.x.shape[0], share)
    train, watched = some(rows, ~held), some(rows, held)
    weights = best = WEIGHTS
    least, waited, steps = np.inf, 0, 0
    while steps < epochs and waited < patience:
        weights = jax.tree.map(lambda w, g: w - lr * g, weights, slope_of(weights, train))
        steps += 1
        seen = float(mean_loss(weights, watched))
        waited = 0 if seen < least else waited + 1
        if seen < least:
            best, least = weights, seen
    return best, weights, steps, least


@pytest.mark.parametrize(("lr", "patience"), [(6.0, 1), (6.0, 3), (0.05, 1)])
def test_a_node_stops_after_so_many_epochs_without_a_lower_loss(lr, patience):
    rows = shard()
    options = {"validation": 0.25, "batch": 32, "momentum": 0.0, "epochs": 12}
    found = trained(rows, lr=lr, patience=patience, **options)
    best, newest, steps, least = by_hand(rows, 0.25, lr, 12, patience)
    assert int(found.steps) == steps
    np.testing.assert_allclose(flat(found.weights), flat(best), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.stopping[1], least, rtol=1e-4)
    if lr > 1:  # it got worse: stopped early, and not with the weights of the last step
        assert patience < steps < 12
        assert np.abs(flat(best) - flat(newest)).max() > 0.01
    else:
        assert steps == 12


@pytest.mark.bits
def test_a_node_without_rows_for_validation_trains_on():
    rows = shard(3, M - 3)  # of which a quarter is none
    options = {"epochs": 12, "batch": 32, "lr": 6.0}
    found = trained(rows, validation=0.25, **options)
    assert int(found.steps) == 12
    plain = trained(rows, **options)
    np.testing.assert_array_equal(flat(found.weights), flat(plain.weights))


def test_a_node_without_rows_keeps_its_weights():
    found = trained(shard(0, M), validation=0.25, epochs=12, batch=32, lr=6.0)
    assert int(found.steps) == 0
    np.testing.assert_array_equal(flat(found.weights), flat(WEIGHTS))


def test_with_patience_for_all_epochs_the_best_epoch_is_kept():
    rows = shard()
    options = {"validation": 0.25, "batch": 4, "lr": 1.0, "epochs": 12}
    found = trained(rows, patience=12, newest=True, **options)
    best, least, *_ = found.stopping
    watched = some(rows, is_held_out(M, 0.25))
    np.testing.assert_allclose(least, mean_loss(best, watched), rtol=1e-5)
    assert least < mean_loss(found.weights, watched)
    assert int(found.steps) == 12 * 4


# --- epochs of one's own


def test_an_optimiser_that_is_kept_is_that_of_the_best_epoch():
    given = {"epochs": 12, "lr": 3.0, "momentum": 0.9, "validation": 0.4, "patience": 12}
    given |= {"batch": 4, "keep": True}
    rows = shard()
    best = trained(rows, **given)
    runs = [trained(rows, newest=True, own=k, **given) for k in range(1, 13)]
    after = [k for k, run in enumerate(runs) if np.allclose(flat(run.weights), flat(best.weights))]
    assert after[0] < 11  # the last epoch is not the best, or nothing is tested
    np.testing.assert_allclose(flat(best.optimiser), flat(runs[after[0]].optimiser), rtol=1e-6)
    assert not np.allclose(flat(best.optimiser), flat(runs[-1].optimiser))


@pytest.mark.full
def test_every_node_draws_its_own_number_of_epochs_and_keeps_it():
    n, high = 24, 4
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n * 5, 3)).astype(np.float32), rng.integers(4, size=n * 5)
    data = pack(x, y, np.split(np.arange(n * 5), n))
    method = isolated_net(NET, epochs=(2, high), batch=2)

    def look(method, state):
        return state.memory["epochs"], state.memory["steps"]

    for seed in (0, 1):
        run = simulate(method, data, topologies.alone(n), 3, probe=look, at=[1, 2, 3], seed=seed)
        epochs, steps = (np.asarray(a) for a in run.history["adapt"])
        assert set(epochs.ravel().tolist()) == {2, 3, 4}
        assert (epochs == epochs[0]).all()
        np.testing.assert_array_equal(steps, [[2], [3], [4]] * epochs * 3)


def test_epochs_fill_their_range_evenly():
    draw = jax.jit(jax.vmap(trainer(NET, LOSS, Training(epochs=(2, 5))).epochs))
    drawn = np.asarray(draw(jax.random.split(KEY, 4000)))
    assert np.bincount(drawn, minlength=7)[[0, 1, 6]].tolist() == [0, 0, 0]
    np.testing.assert_allclose(np.bincount(drawn)[2:] / 4000, 0.25, atol=0.03)
    always = jax.jit(jax.vmap(trainer(NET, LOSS, Training(epochs=3)).epochs))
    assert (np.asarray(always(jax.random.split(KEY))) == 3).all()


# --- the gradient over all rows


@pytest.mark.parametrize("at_once", [4, 256])
def test_a_gradient_over_all_rows_is_that_of_their_mean_loss(at_once, monkeypatch):
    monkeypatch.setattr("peerwise.update.objective.ROWS", at_once)
    loss, turn = virtual_teacher(4), jnp.int32(5)
    slope = gradient(NET, loss)
    assert slope.batches(M) == (5 if at_once == 4 else 1)
    called = jax.jit(slope)
    for m in (M, 9, 1):
        rows = shard(m, M - m)
        found = flat(called(WEIGHTS, turn, jnp.asarray(True), rows))
        expected = flat(slope_of(WEIGHTS, some(rows, np.arange(m)), NET, loss))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    # of nothing, or not wanted
    broken = jax.tree.map(lambda a: jnp.full_like(a, jnp.nan), WEIGHTS)
    for weights, whether, m in ((WEIGHTS, True, 0), (WEIGHTS, False, M), (broken, False, 9)):
        assert not flat(called(weights, turn, jnp.asarray(whether), shard(m, M - m))).any()


@cache
def limited(limit):
    slope = gradient(NET, LOSS, limit)

    @jax.jit
    def places(turn, rows):
        begun = slope.begin(WEIGHTS, turn, jnp.asarray(True), rows)
        return slope.places(begun, 0, rows).reshape(-1)

    return jax.jit(slope), jax.vmap(places, (0, None))


@given(m=st.integers(1, M), limit=st.sampled_from((1, 5, 16, 24)))
def test_with_a_limit_every_row_has_its_turn(m, limit):
    places = np.asarray(limited(limit)[1](jnp.arange(M), shard(m, M - m)))[:m]  # of m turns
    assert ((places < m) | (places == M)).all()
    drawn = [sorted(turn[turn < M].tolist()) for turn in places]
    for rows in drawn:
        assert len(set(rows)) == len(rows) == min(m, limit)  # no row twice
        apart = np.diff([*rows, rows[0] + m])
        assert apart.max() - apart.min() <= 1  # evenly spaced
    used = np.bincount(np.concatenate(drawn), minlength=m)
    assert (used == min(m, limit)).all()
    assert limit >= m or all(a != b for a, b in pairwise(drawn))  # others in every turn


def test_with_a_limit_the_gradient_is_that_of_the_rows_drawn():
    slope, places = limited(5)
    rows = shard(15, 2)
    turns = np.asarray(places(jnp.arange(M), rows))
    for turn in (0, 4):
        drawn = some(rows, turns[turn])
        found = slope(WEIGHTS, jnp.int32(turn), jnp.asarray(True), rows)
        expected = slope_of(WEIGHTS, drawn)
        np.testing.assert_allclose(flat(found), flat(expected), rtol=0, atol=1e-6)


# --- dropout


class _Noisy(eqx.Module):
    first: eqx.nn.Linear
    last: eqx.nn.Linear
    drop: Dropout

    def __call__(self, x, key=None):
        return self.last(self.drop(jax.nn.relu(self.first(x)), key))


def noisy(p):
    def make(key):
        one, two = jax.random.split(key)
        return _Noisy(eqx.nn.Linear(3, 8, key=one), eqx.nn.Linear(8, 4, key=two), Dropout(p))

    return make


NOISY, STILL = (network_of(noisy(p), 3, 4) for p in (0.5, 0.0))


@pytest.mark.full
def test_a_net_with_dropout_trains_and_is_another_than_without():
    rows = shard()
    begun, still = (net.init(jax.random.key(7)) for net in (NOISY, STILL))
    np.testing.assert_array_equal(flat(begun), flat(still))
    options = {"epochs": 40, "batch": 4, "lr": 0.1}
    found = trained(rows, weights=begun, net=NOISY, **options)
    plain = trained(rows, weights=still, net=STILL, **options)
    assert np.abs(flat(found.weights) - flat(plain.weights)).max() > 0.05
    before, after = (mean_loss(w, rows, NOISY) for w in (begun, found.weights))
    assert after < before - 0.1
    again = trained(rows, weights=begun, net=NOISY, **options)
    np.testing.assert_array_equal(flat(again.weights), flat(found.weights))


def test_every_step_drops_anew():
    """Of two steps on the same rows, so small that their gradients would be the same."""
    for net in (NOISY, STILL):
        begun = net.init(jax.random.key(7))
        options = {"weights": begun, "net": net, "batch": 32, "lr": 1e-3, "momentum": 0.0}
        done = [trained(shard(), epochs=(1, 2), own=own, **options) for own in (1, 2)]
        assert [int(d.steps) for d in done] == [1, 2]
        one, two = (flat(d.weights) for d in done)
        first, second = one - flat(begun), two - one
        same = np.abs(first - second).max() / np.abs(first).max()
        assert same > 0.3 if net is NOISY else same < 0.01


def test_gradients_for_others_and_validation_are_without_dropout():
    begun, rows = NOISY.init(jax.random.key(7)), shard()
    found = jax.jit(gradient(NOISY, LOSS))(begun, jnp.int32(0), jnp.asarray(True), rows)
    expected = flat(slope_of(begun, rows, NOISY))
    np.testing.assert_allclose(flat(found), expected, rtol=0, atol=1e-6)
    kept = trained(rows, weights=begun, net=NOISY, validation=0.25, batch=4)
    watched = some(rows, is_held_out(M, 0.25))
    np.testing.assert_allclose(kept.stopping[1], mean_loss(kept.weights, watched, NOISY), rtol=1e-5)


# --- refused


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"epochs": (3, 1)}, "epochs must be 1 or more"),
        ({"epochs": (0, 2)}, "epochs must be 1 or more"),
        ({"epochs": 0}, "epochs must be 1 or more"),
        ({"steps": 4, "epochs": 2}, "not both"),
        ({"steps": 4, "epochs": (1, 2)}, "not both"),
        ({"steps": 4, "validation": 0.2}, "not both"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, says):
    with pytest.raises(BadSetting, match=says):
        trainer(NET, LOSS, Training(**wrong))
