"""Nets: shapes, initial weights, names, keys, and what is no net of these rows and classes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise.errors import BadSetting, UnknownName
from peerwise.names import entries
from peerwise.nets import mlp, network, network_of


def test_the_papers_network_has_its_weights():
    net = network_of(mlp(784, 10), 784, 10)
    assert net.size == 784 * 512 + 512 + 512 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10
    assert net.logits(net.init(jax.random.key(0)), jnp.zeros((3, 784))).shape == (3, 10)


def test_he_uniform_weights_have_their_range_and_biases_are_0():
    layers = mlp(300, 5, (200,))(jax.random.key(1)).layers
    limit = np.sqrt(6 / 300)
    weight = np.asarray(layers[0].weight)
    assert np.abs(weight).max() <= limit
    assert weight.std() == pytest.approx(limit / np.sqrt(3), rel=0.02)
    assert (np.asarray(layers[0].bias) == 0).all()
    other = mlp(300, 5, (200,), init="pytorch")(jax.random.key(1)).layers[0]
    assert np.abs(np.asarray(other.weight)).max() <= 1 / np.sqrt(300)
    assert np.asarray(other.bias).any()


def test_the_same_arguments_give_the_same_net():
    assert mlp(4, 2, [3]) is mlp(4, 2, (3,))
    assert network_of(mlp(4, 2, (3,)), 4, 2) is network_of(mlp(4, 2, (3,)), 4, 2)
    net = network_of(mlp(4, 2, (3,)), 4, 2)
    first, second = (jax.tree.leaves(net.init(jax.random.key(k))) for k in (0, 1))
    assert not np.array_equal(first[0], second[0])


def test_logits_are_those_of_the_module_row_by_row():
    make = mlp(4, 3, (5,))
    net = network_of(make, 4, 3)
    key = jax.random.key(2)
    x = jax.random.normal(key, (6, 4))
    rows = jnp.stack([make(key)(row) for row in x])
    np.testing.assert_allclose(net.logits(net.init(key), x), rows, rtol=1e-6)


def test_any_module_of_a_user_is_a_net():
    def linear(key):
        return eqx.nn.Linear(4, 3, key=key)

    net = network_of(linear, 4, 3)
    assert net.size == 15


def test_pytorchs_weights_are_those_of_an_equinox_layer():
    key = jax.random.key(3)
    layer = mlp(4, 3, (), init="pytorch")(key).layers[0]
    other = eqx.nn.Linear(4, 3, key=jax.random.split(key, 1)[0])
    np.testing.assert_array_equal(layer.weight, other.weight)
    np.testing.assert_array_equal(layer.bias, other.bias)


# --- modules that take a key


class Dropping(eqx.Module):
    """A user's own net with equinox's dropout, which fails without a key or its switch."""

    layer: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(self, key):
        self.layer = eqx.nn.Linear(20, 3, key=key)
        self.dropout = eqx.nn.Dropout(0.5)

    def __call__(self, x, *, key):
        return self.layer(self.dropout(x, key=key))


def test_a_module_that_takes_a_key_gets_one_for_each_row_in_training_and_none_else():
    net = network_of(Dropping, 20, 3)
    assert net.noisy
    weights, x = net.init(jax.random.key(0)), jnp.ones((4, 20))
    predicted = np.asarray(net.logits(weights, x))
    plain = network_of(mlp(20, 3, ()), 20, 3)
    assert not plain.noisy
    np.testing.assert_allclose(predicted[0], weights.layer(x[0]), rtol=1e-6)
    assert len(np.unique(predicted, axis=0)) == 1
    trained = np.asarray(net.logits(weights, x, jax.random.key(1)))
    assert len(np.unique(trained, axis=0)) == 4
    split = jax.random.split(jax.random.key(1), 4)
    by_hand = [Dropping(jax.random.key(0))(row, key=k) for row, k in zip(x, split, strict=True)]
    np.testing.assert_allclose(trained, by_hand, rtol=1e-6)


def test_a_function_defined_anew_by_every_make_is_the_same_net():
    class Own(eqx.Module):
        layer: eqx.nn.Linear
        then: object = eqx.field(static=True)

        def __call__(self, x):
            return self.then(self.layer(x))

    def make(key):
        return Own(eqx.nn.Linear(4, 3, key=key), lambda x: 2 * x)

    net = network_of(make, 4, 3)
    trees = [net.init(jax.random.key(k)) for k in (0, 1)]
    assert jax.tree.structure(trees[0]) == jax.tree.structure(trees[1])
    assert net.logits(trees[1], jnp.ones((2, 4))).shape == (2, 3)


class Reordered(eqx.Module):
    """A net with an array that is no weight, and the same for all: NumPy's, fit for sizes."""

    layer: eqx.nn.Linear
    sizes: np.ndarray
    order: jax.Array

    def __call__(self, x):
        return self.layer(x[self.order].reshape(int(self.sizes[0]), -1)[:, 0])


def test_arrays_that_are_no_weights_stay_as_they_are():
    def make(key):
        order = jnp.array([1, 0, 3, 2])
        return Reordered(eqx.nn.Linear(2, 3, key=key), np.array([2, 2]), order)

    net = network_of(make, 4, 3)
    assert net.size == 9
    weights, x = net.init(jax.random.key(0)), jnp.arange(4.0)[None]
    assert len(jax.tree.leaves(weights)) == 2
    np.testing.assert_allclose(
        net.logits(weights, x)[0], weights.layer(jnp.array([1.0, 3.0])), rtol=1e-6
    )


class Fails(eqx.Module):
    """A dropout that cannot do without a key."""

    layer: eqx.nn.Linear

    def __call__(self, x, key):
        return self.layer(jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x, 0))


class Shuffled(eqx.Module):
    """Features in an order that is no weight: an array of integers drawn from the key."""

    layer: eqx.nn.Linear
    order: jax.Array

    def __call__(self, x):
        return self.layer(x[self.order])


class Swapped(eqx.Module):
    """A net that forgets to take a key for the dropout in it."""

    dropout: eqx.nn.Dropout

    def __call__(self, x):
        return self.dropout(x)


def _wider(key):
    return mlp(4, 3, (int(jax.random.randint(key, (), 2, 60)),))(key)


def _deeper(key):
    return mlp(4, 3, (5,) if jax.random.uniform(key) < 2 else (5, 5))(key)


_calls = iter(range(100))


def _stateful(key):
    return mlp(4, 3, (5 + next(_calls),))(key)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_wider, "different architectures are not supported"),
        (_deeper, "different architectures are not supported"),
        (_stateful, "different architectures are not supported"),
        (
            lambda key: Shuffled(eqx.nn.Linear(4, 3, key=key), jax.random.permutation(key, 4)),
            "arrays of integers",
        ),
        (lambda key: Fails(eqx.nn.Linear(4, 3, key=key)), "in prediction"),
        (lambda key: Swapped(eqx.nn.Dropout(0.5)), "a row of 4 numbers"),
        (lambda key: jnp.ones(3), "a function of a row"),
        (lambda key: jax.random.normal(key, (3, 4)).__matmul__, "fields of its module"),
        (lambda key: lambda x: (x, x), "each of the 3 classes"),
        (lambda key: lambda x: x.sum(), "each of the 3 classes"),
    ],
)
def test_what_is_no_net_is_refused(make, says):
    with pytest.raises(BadSetting, match=says):
        network_of(make, 4, 3)


# --- by name


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("mlp", 144 * 512 + 512 + 512 * 256 + 256 + 256 * 128 + 128 + 128 * 3 + 3),
        ("mlp_200", 144 * 200 + 200 + 200 * 200 + 200 + 200 * 3 + 3),
        ("mlp_64", 144 * 64 + 64 + 64 * 3 + 3),
        ("cnn", 9 * 32 + 32 + 9 * 32 * 64 + 64 + 16 * 64 * 128 + 128 + 128 * 3 + 3),
        ("cnn_dropout", 9 * 32 + 32 + 9 * 32 * 64 + 64 + 16 * 64 * 128 + 128 + 128 * 3 + 3),
        ("lenet", 156 + 2416 + 16 * 120 + 120 + 120 * 84 + 84 + 84 * 3 + 3),
    ],
)
def test_every_name_is_a_net_that_says_what_it_is(name, size):
    net = network(name, (12, 12), 3)
    assert (net.size, net.features, net.classes) == (size, 144, 3)
    assert net.noisy == (name == "cnn_dropout")
    assert network(name, [12, 12], 3, init="he_uniform") is net
    assert network(name, (12, 12), 3, init="pytorch") is not net
    assert entries("net")[name].about.endswith(".")


def test_every_net_with_a_name_is_tested_here():
    assert list(entries("net")) == ["cnn", "cnn_dropout", "lenet", "mlp", "mlp_200", "mlp_64"]


def test_plain_features_have_a_net_too():
    assert network("mlp_64", (7,), 2).features == 7


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: mlp(0, 2), BadSetting, "1 or more"),
        (lambda: mlp(4, 2, init="he-uniform"), UnknownName, "he_uniform"),
        (lambda: network_of(mlp(4, 3), 4, 5), BadSetting, "each of the 5 classes"),
        (lambda: network_of(mlp(4, 3), 7, 3), BadSetting, "a row of 7 numbers"),
        (lambda: network("mpl", (4,), 3), UnknownName, "did you mean 'mlp'"),
        (lambda: network("resnet", (4,), 3), UnknownName, "net 'resnet'"),
        (lambda: network("lenet", (4, 4), 3), BadSetting, "12 x 12"),
    ],
)
def test_what_does_not_fit_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()
