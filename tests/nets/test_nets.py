"""Nets: shapes, initial weights, and what is no net of these rows and classes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise.errors import BadSetting, UnknownName
from peerwise.nets import mlp, network_of


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


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: mlp(0, 2), BadSetting, "1 or more"),
        (lambda: mlp(4, 2, init="he-uniform"), UnknownName, "he_uniform"),
        (lambda: network_of(mlp(4, 3), 4, 5), BadSetting, "each of the 5 classes"),
        (lambda: network_of(mlp(4, 3), 7, 3), BadSetting, "a row of 7 numbers"),
    ],
)
def test_what_does_not_fit_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()
