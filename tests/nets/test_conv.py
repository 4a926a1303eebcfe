"""Convolutional nets: against XLA's own convolution and pool, weights by hand, dropout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from peerwise.errors import BadSetting, UnknownName
from peerwise.nets import cnn, conv, lenet, network_of
from peerwise.nets.conv import Convolution, Dropout, banded, max_pool, patched

KEY = jax.random.key(4)


def xla_convolution(layer, x):
    """The same layer as XLA convolves it."""
    out = lax.conv_general_dilated(
        x[None],
        layer.weight,
        (1, 1),
        layer.padding.upper(),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return out[0] + layer.bias[None, None]


@pytest.mark.some("3-3")
@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kernel", [2, 3])
def test_a_convolution_is_xlas_in_value_and_gradient(padding, channels, kernel):
    with jax.enable_x64(True):
        layer = Convolution(KEY, channels, 4, kernel, padding, init="pytorch")
        layer = jax.tree.map(lambda a: a.astype(jnp.float64), layer)
        x = jax.random.normal(KEY, (6, 5, channels), jnp.float64)

        def all_of(run):
            """The image that comes out and the gradients of a number made of it."""

            def total(layer, x):
                out = run(layer, x)
                return jnp.sin(out).sum(), out

            gradient, out = jax.jit(jax.grad(total, (0, 1), has_aux=True))(layer, x)
            return [out, *jax.tree.leaves(gradient)]

        found, expected = (all_of(run) for run in (Convolution.__call__, xla_convolution))
        assert len(found) == 4
        assert found[0].dtype == jnp.float64
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.some("1-3", "5-1")
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_lines_times_a_banded_matrix_are_patches_times_a_matrix(channels, kernel):
    with jax.enable_x64(True):
        x = jax.random.normal(KEY, (6, 9, channels), jnp.float64)
        weight = jax.random.normal(KEY, (kernel, kernel, channels, 4), jnp.float64)

        def all_of(product):
            run = jax.value_and_grad(lambda x, w: jnp.sin(product(x, w)).sum(), (0, 1))
            whole = jax.jit(lambda x, w: (product(x, w), run(x, w)))
            return jax.tree.leaves(whole(x, weight))

        for a, b in zip(all_of(banded), all_of(patched), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_a_gpu_takes_lines_where_channels_are_few(monkeypatch):
    layer, large = Convolution(KEY, 6, 16, 5), Convolution(KEY, 32, 64, 3)
    x, wide = jax.random.normal(KEY, (9, 9, 6)), jax.random.normal(KEY, (9, 9, 32))
    before = layer(x), large(wide)
    taken = []
    monkeypatch.setattr(conv, "banded", lambda *a: taken.append(a) or banded(*a))
    layer(x)
    assert not taken  # on a CPU never
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    np.testing.assert_allclose(layer(x), before[0], rtol=1e-5, atol=1e-5)
    assert len(taken) == 1
    np.testing.assert_array_equal(large(wide), before[1])
    assert len(taken) == 1


@pytest.mark.parametrize("shape", [(6, 4, 1), (7, 5, 3)])
def test_a_max_pool_is_xlas_and_cuts_odd_edges_off(shape):
    x = jax.random.normal(KEY, shape)
    expected = lax.reduce_window(x, -jnp.inf, lax.max, (2, 2, 1), (2, 2, 1), "VALID")
    assert expected.shape == (3, 2, shape[2])
    np.testing.assert_array_equal(max_pool(x), expected)


def test_rows_are_images_with_channels_last():
    """A 1 x 1 convolution that reads one channel gives that channel back."""
    layer = Convolution(KEY, 3, 1, 1)
    assert layer.weight.shape == (1, 1, 3, 1)
    image = np.arange(12.0, dtype=np.float32).reshape(2, 2, 3)
    layer = jax.tree.map(jnp.zeros_like, layer)
    layer = jax.tree.unflatten(
        jax.tree.structure(layer), [layer.weight.at[0, 0, 2, 0].set(1.0), layer.bias]
    )
    np.testing.assert_array_equal(layer(image)[..., 0], [[2, 5], [8, 11]])


# --- the nets


def test_the_papers_cnn_has_its_weights():
    net = network_of(cnn((28, 28), 10), 784, 10)
    by_hand = (9 * 32 + 32) + (9 * 32 * 64 + 64) + (9216 * 128 + 128) + (128 * 10 + 10)
    assert net.size == by_hand == 1_199_882
    assert network_of(cnn((28, 28), 10, dropout=True), 784, 10).size == by_hand


@pytest.mark.parametrize("side", [28, 32])
def test_lenet_has_its_weights_with_the_edge_and_without(side):
    net = network_of(lenet((side, side), 10), side * side, 10)
    by_hand = (
        (25 * 6 + 6) + (25 * 6 * 16 + 16) + (400 * 120 + 120) + (120 * 84 + 84) + (84 * 10 + 10)
    )
    assert net.size == by_hand == 61_706


@pytest.mark.parametrize(("make", "least"), [(cnn, 6), (lenet, 12)])
def test_the_least_image_and_one_of_three_channels_and_two_sides_fit(make, least):
    network_of(make((least, least), 2), least * least, 2)
    network_of(make((least + 1, 33, 3), 2), (least + 1) * 33 * 3, 2)


@pytest.mark.full
def test_nodes_side_by_side_compute_what_each_computes_alone():
    net = network_of(cnn((8, 8), 3), 64, 3)
    weights = [net.init(jax.random.key(k)) for k in range(2)]
    together = jax.tree.map(lambda *a: jnp.stack(a), *weights)
    x = jax.random.normal(KEY, (2, 4, 64))

    def loss(weights, x):
        return jax.nn.logsumexp(net.logits(weights, x), axis=1).sum()

    side_by_side = jax.jit(jax.vmap(jax.value_and_grad(loss)))(together, x)
    alone = jax.jit(jax.value_and_grad(loss))
    for i in range(2):
        for a, b in zip(
            *map(jax.tree.leaves, (side_by_side, alone(weights[i], x[i]))), strict=True
        ):
            np.testing.assert_allclose(a[i], b, rtol=2e-5, atol=2e-5)


def test_lenet_gives_the_same_side_by_side_and_alone():
    net = network_of(lenet((12, 12), 3), 144, 3)
    weights = [net.init(jax.random.key(k)) for k in range(2)]
    together = jax.tree.map(lambda *a: jnp.stack(a), *weights)
    x = jax.random.normal(KEY, (2, 4, 144))
    found = jax.jit(jax.vmap(net.logits))(together, x)
    alone = jax.jit(net.logits)
    for i in range(2):
        np.testing.assert_allclose(found[i], alone(weights[i], x[i]), rtol=2e-5, atol=2e-5)


def test_the_same_arguments_give_the_same_function():
    assert cnn((8, 8), 3) is cnn([8, 8, 1], 3, "he_uniform")
    assert cnn((8, 8), 3) is not cnn((8, 8), 3, dropout=True)
    assert lenet((12, 12), 3) is lenet((12, 12, 1), 3)
    assert lenet((12, 12), 3) is not lenet((12, 12), 3, "pytorch")


# --- initial weights


@pytest.mark.parametrize("init", ["he_uniform", "pytorch"])
def test_weights_begin_in_the_range_of_a_patch(init):
    layer = Convolution(KEY, 8, 64, 3, init=init)
    inputs = 3 * 3 * 8
    limit = np.sqrt(6 / inputs) if init == "he_uniform" else 1 / np.sqrt(inputs)
    weight, bias = np.asarray(layer.weight), np.asarray(layer.bias)
    assert np.abs(weight).max() <= limit
    assert weight.std() == pytest.approx(limit / np.sqrt(3), rel=0.03)
    assert bias.any() == (init == "pytorch")
    assert np.abs(bias).max() <= limit


def test_every_layer_of_a_net_begins_as_told():
    for make, side in ((cnn, 8), (lenet, 12)):
        he, torch = (make((side, side), 3, init)(KEY) for init in ("he_uniform", "pytorch"))
        biases = [[a for a in jax.tree.leaves(net) if a.ndim == 1] for net in (he, torch)]
        assert not any(np.any(b) for b in biases[0])
        assert all(np.any(b) for b in biases[1])


def test_precision_does_not_change_what_a_net_begins_with():
    plain = jax.tree.leaves(lenet((12, 12), 3)(KEY))
    with jax.enable_x64(True):
        wide = jax.tree.leaves(lenet((12, 12), 3)(KEY))
    for a, b in zip(plain, wide, strict=True):
        np.testing.assert_array_equal(a, b)


# --- dropout


@pytest.mark.parametrize("p", [0.25, 0.5])
def test_dropout_keeps_its_share_and_the_mean(p):
    out = np.asarray(Dropout(p)(jnp.ones(40_000), KEY))
    std = np.sqrt(p * (1 - p) / 40_000)
    assert (out > 0).mean() == pytest.approx(1 - p, abs=4 * std)
    assert out.mean() == pytest.approx(1, abs=4 * std / (1 - p))
    np.testing.assert_allclose(np.unique(out), [0, 1 / (1 - p)], rtol=1e-6)


def test_dropout_is_off_without_a_key_and_at_0():
    x = jax.random.normal(KEY, (7,))
    np.testing.assert_array_equal(Dropout(0.5)(x), x)
    np.testing.assert_array_equal(Dropout(0.0)(x, KEY), x)


def test_the_net_with_dropout_without_a_key_is_the_net_without():
    plain, noisy = (network_of(cnn((8, 8), 3, dropout=d), 64, 3) for d in (False, True))
    assert (plain.noisy, noisy.noisy) == (False, True)
    x = jax.random.normal(KEY, (5, 64))
    a, b = plain.init(KEY), noisy.init(KEY)
    np.testing.assert_array_equal(plain.logits(a, x), noisy.logits(b, x))
    np.testing.assert_array_equal(plain.logits(a, x, KEY), plain.logits(a, x))


def test_with_a_key_rows_and_keys_differ_and_the_same_key_gives_the_same():
    net = network_of(cnn((8, 8), 3, dropout=True), 64, 3)
    weights, x = net.init(KEY), jnp.ones((4, 64))
    first, again, other = (np.asarray(net.logits(weights, x, jax.random.key(k))) for k in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert len(np.unique(first, axis=0)) == 4  # equal rows, each with draws of its own
    assert len(np.unique(np.asarray(net.logits(weights, x)), axis=0)) == 1


def test_both_dropouts_act_and_what_they_drop_has_no_gradient():
    net = network_of(cnn((8, 8), 3, dropout=True), 64, 3)
    weights = net.init(KEY)

    def loss(weights, key):
        return net.logits(weights, jnp.ones((1, 64)), key).sum()

    still, moved = (jax.jit(jax.grad(loss))(weights, key) for key in (None, jax.random.key(0)))
    for layer, p in (("hidden", 0.25), ("last", 0.5)):
        # An input of the layer that is dropped moves no weight of it; others were at work before.
        before, after = (np.asarray(getattr(g, layer).weight != 0).any(0) for g in (still, moved))
        kept = after[before].mean()
        assert kept == pytest.approx(1 - p, abs=4 * np.sqrt(p * (1 - p) / before.sum()))


# --- refusals


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: cnn((5, 28), 10), BadSetting, "6 x 6 or larger"),
        (lambda: lenet((28, 11), 10), BadSetting, "12 x 12 or larger"),
        (lambda: cnn((784,), 10), BadSetting, r"\(height, width\)"),
        (lambda: lenet((28, 28, 0), 10), BadSetting, "1 or more"),
        (lambda: cnn((28, 28), 0), BadSetting, "1 or more"),
        (lambda: cnn((28, 28), 10, "he-uniform"), UnknownName, "he_uniform"),
        (lambda: Convolution(KEY, 1, 4, 3, "vaild"), UnknownName, "did you mean 'valid'"),
        (lambda: Convolution(KEY, 1, 4, 3, init="torch"), UnknownName, "pytorch"),
        (lambda: Convolution(KEY, 0, 4, 3), BadSetting, "1 or more"),
        (lambda: Dropout(1.0), BadSetting, r"\[0, 1\)"),
        (lambda: network_of(lenet((12, 12), 3), 145, 3), BadSetting, "a row of 145 numbers"),
    ],
)
def test_what_does_not_fit_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()
