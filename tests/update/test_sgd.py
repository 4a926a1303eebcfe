"""Local training: losses, batches, padding, and an exact step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerwise.core import Shard
from peerwise.errors import BadSetting
from peerwise.nets import mlp, network_of
from peerwise.update.losses import cross_entropy, linear_teacher, soft_labels, virtual_teacher
from peerwise.update.sgd import trainer
from peerwise.update.training import Training

NET = network_of(mlp(3, 4, (5,)), 3, 4)
KEY = jax.random.key(0)


def shard(m=23, padded=0, seed=0):
    rng = np.random.default_rng(seed)
    weight = np.concatenate([np.ones(m), np.zeros(padded)])
    total = m + padded
    x = rng.normal(size=(total, 3))
    x[m:] = 1e6  # padding must not matter
    return Shard(
        jnp.asarray(x, jnp.float32),
        jnp.asarray(rng.integers(4, size=total)),
        jnp.asarray(weight, jnp.float32),
    )


def trained(rows, key=KEY, **options):
    local = trainer(NET, cross_entropy(), Training(**options))
    weights = NET.init(jax.random.key(7))
    epochs = local.epochs(jax.random.key(8))
    return local.train(key, weights, local.optimiser(weights), epochs, None, rows)


# --- losses


@given(seed=st.integers(0, 2**16), beta=st.floats(0.3, 1.0))
def test_gradients_of_the_virtual_teacher_against_finite_differences(seed, beta):
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        logits, y = jnp.asarray(rng.normal(size=(2, 4))), jnp.asarray([1, 3])
        for loss in (virtual_teacher(4, beta), linear_teacher(4, beta)):
            gradient = jax.grad(lambda z, loss=loss: loss(z, y).sum())(logits)
            way = rng.normal(size=logits.shape)
            h = 1e-5
            slope = (loss(logits + h * way, y).sum() - loss(logits - h * way, y).sum()) / (2 * h)
            np.testing.assert_allclose((gradient * way).sum(), slope, rtol=1e-5, atol=1e-8)


def test_the_virtual_teacher_is_label_smoothing():
    """Cross-entropy with smoothed labels, less the entropy of the labels."""
    logits = jax.random.normal(KEY, (5, 4))
    y = jnp.array([0, 1, 2, 3, 0])
    told = soft_labels(y, 4, 0.9)
    np.testing.assert_allclose(told.sum(1), 1, rtol=1e-6)
    smooth = optax.softmax_cross_entropy(logits, told)
    entropy = -(told * jnp.log(told)).sum(1)
    np.testing.assert_allclose(virtual_teacher(4, 0.9)(logits, y), smooth - entropy, rtol=1e-5)
    np.testing.assert_allclose(
        virtual_teacher(4, 1.0)(logits, y), cross_entropy()(logits, y), rtol=1e-6
    )


def test_the_linear_teacher_has_bounded_gradients():
    logits = jnp.array([[200.0, 0, 0, 0]])
    wrong = jnp.array([1])
    steep = jax.jit(jax.grad(lambda z: virtual_teacher(4)(z, wrong).sum()))(logits)
    flat = jax.jit(jax.grad(lambda z: linear_teacher(4)(z, wrong).sum()))(logits)
    assert np.abs(steep).max() > 0.9
    assert np.abs(flat).max() < 1e-6


# --- training


def test_one_full_batch_is_one_step_of_gradient_descent():
    rows = shard(10)
    found = trained(rows, batch=32, lr=0.1, momentum=0.0)
    weights = NET.init(jax.random.key(7))

    def mean_loss(w):
        return cross_entropy()(NET.logits(w, rows.x), rows.y).mean()

    gradient = jax.jit(jax.grad(mean_loss))(weights)
    for a, w, g in zip(
        *(jax.tree.leaves(t) for t in (found.weights, weights, gradient)), strict=True
    ):
        np.testing.assert_allclose(a, w - 0.1 * g, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.loss, mean_loss(weights), rtol=1e-5)
    assert found.steps == 1


@pytest.mark.some("3")
@pytest.mark.parametrize("padded", [0, 3, 40])
def test_padding_changes_nothing_but_the_order(padded):
    """With one batch an epoch order does not matter either."""
    plain = trained(shard(16), batch=64, epochs=3, lr=0.1)
    blank = [jnp.zeros((padded, *a.shape[1:]), a.dtype) for a in shard(16)]
    longer = Shard(*(jnp.concatenate(pair) for pair in zip(shard(16), blank, strict=True)))
    wide = trained(longer, batch=64, epochs=3, lr=0.1)
    for a, b in zip(jax.tree.leaves(plain.weights), jax.tree.leaves(wide.weights), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert plain.steps == wide.steps == 3


@pytest.mark.some("23-30")
@pytest.mark.parametrize(("m", "padded"), [(23, 0), (23, 30), (1, 9), (8, 0)])
def test_steps_are_counted_by_rows_and_not_by_padding(m, padded):
    found = trained(shard(m, padded), batch=8, epochs=2)
    assert found.steps == 2 * -(-m // 8)
    assert all(np.isfinite(a).all() for a in jax.tree.leaves(found.weights))


def test_a_node_without_rows_keeps_its_weights():
    empty = shard(5)._replace(weight=jnp.zeros(5))
    for options in ({"epochs": 2}, {"steps": 3}):
        found = trained(empty, **options)
        first = jax.tree.leaves(NET.init(jax.random.key(7)))
        for a, b in zip(jax.tree.leaves(found.weights), first, strict=True):
            np.testing.assert_array_equal(a, b)
        assert found.steps == 0


def test_every_row_is_seen_once_an_epoch():
    """With linear gradients and tiny steps an epoch adds up every row's gradient once."""
    rows = shard(20, 12)
    weights = NET.init(jax.random.key(7))
    real = Shard(*(a[:20] for a in rows))

    def total(w):
        return cross_entropy()(NET.logits(w, real.x), real.y).sum()

    found = trained(rows, batch=5, lr=1e-5, momentum=0.0)
    moved = jax.tree.map(lambda a, b: (b - a) / 1e-5, weights, found.weights)
    for a, g in zip(jax.tree.leaves(moved), jax.tree.leaves(jax.grad(total)(weights)), strict=True):
        np.testing.assert_allclose(a, -g / 5, rtol=0.05, atol=0.05)


def test_momentum_and_decay_are_those_of_pytorch():
    """v <- 0.5 v + (g + d w), w <- w - lr v, twice on one full batch."""
    rows = shard(12)
    found = trained(rows, batch=16, epochs=2, lr=0.1, momentum=0.5, weight_decay=0.01)
    w = NET.init(jax.random.key(7))
    v = jax.tree.map(jnp.zeros_like, w)

    def mean_loss(w):
        return cross_entropy()(NET.logits(w, rows.x), rows.y).mean()

    for _ in range(2):
        g = jax.tree.map(lambda a, b: a + 0.01 * b, jax.grad(mean_loss)(w), w)
        v = jax.tree.map(lambda a, b: 0.5 * a + b, v, g)
        w = jax.tree.map(lambda a, b: a - 0.1 * b, w, v)
    for a, b in zip(jax.tree.leaves(found.weights), jax.tree.leaves(w), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_by_steps_draws_as_many_batches_as_asked():
    found = trained(shard(23, 20), batch=4, steps=7)
    assert found.steps == 7


def test_training_lowers_the_loss():
    rows = shard(60)
    first = trained(rows, batch=16, epochs=1, lr=0.1).loss
    last = trained(rows, batch=16, epochs=60, lr=0.1).loss
    assert last < first - 0.1


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: virtual_teacher(4, 0.25), BadSetting, "beta"),
        (lambda: virtual_teacher(4, 1.1), BadSetting, "beta"),
        (lambda: virtual_teacher(1), BadSetting, "two classes"),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()
