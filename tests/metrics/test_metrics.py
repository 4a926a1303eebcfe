"""What is read off a running network, against scikit-learn and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score

from peerwise import metrics
from peerwise import topology as topologies
from peerwise.core import Method, State
from peerwise.errors import BadData, UnknownName
from peerwise.methods import crc
from peerwise.models import log_posterior, naive_bayes, statistics
from peerwise.shards import pack
from peerwise.simulate import simulate

MODEL = naive_bayes((0, 0), 3)
METHOD = crc(MODEL, m0=100.0)
NODES = 4


def rows(seed=0, m=70):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=m)
    return rng.normal(y[:, None] - 1, 1, (m, 2)), y


def models(nodes=NODES):
    """Nodes that each learnt from rows of their own."""
    return np.stack(
        [
            np.asarray(statistics(MODEL, jnp.asarray(x, jnp.float32), y, np.ones(len(y), "f")))
            for x, y in (rows(100 + v, 30) for v in range(nodes))
        ]
    )


VALUES = models()


def seen(probe, value=None, method=METHOD):
    value = VALUES if value is None else value
    return jax.tree.map(np.asarray, probe(method, State(jnp.asarray(value), {})))


def said(x, value):
    """log p(y|x) of one node."""
    return np.asarray(log_posterior(MODEL, value, jnp.asarray(x, jnp.float32)))


# --- 0-1 and soft error


@pytest.mark.parametrize("weighted", [False, True])
def test_error_is_one_minus_the_accuracy_of_scikit_learn(weighted):
    x, y = rows()
    weight = np.random.default_rng(1).uniform(0, 3, len(y)) if weighted else None
    got = seen(metrics.errors("test", x, y, weight))
    assert set(got) == {"test_error", "test_soft_error", "test_log_loss"}
    for v in range(NODES):
        log_prob = said(x, VALUES[v])
        accuracy = accuracy_score(y, log_prob.argmax(1), sample_weight=weight)
        assert got["test_error"][v] == pytest.approx(1 - accuracy, abs=1e-6)
        right = np.exp(log_prob[np.arange(len(y)), y])
        soft = np.average(1 - right, weights=weight)
        assert got["test_soft_error"][v] == pytest.approx(soft, abs=1e-5)
        surprise = np.average(-log_prob[np.arange(len(y)), y], weights=weight)
        assert got["test_log_loss"][v] == pytest.approx(surprise, rel=1e-4)
    assert 0 < got["test_error"].min() < got["test_error"].max() < 1  # a case worth testing


@pytest.mark.parametrize("m", [1, 16, 23])
def test_rows_that_do_not_fill_a_block_count_all_the_same(m, monkeypatch):
    x, y = rows(2, m)
    whole = seen(metrics.errors("t", x, y))
    monkeypatch.setattr(metrics.probes, "BLOCK", 8)
    cut = seen(metrics.errors("t", x, y))
    for name in whole:
        np.testing.assert_allclose(cut[name], whole[name], atol=1e-6)
    accuracy = accuracy_score(y, said(x, VALUES[0]).argmax(1))
    assert cut["t_error"][0] == pytest.approx(1 - accuracy, abs=1e-6)


def test_a_weight_counts_as_repetition():
    x, y = rows(3, 12)
    times = np.arange(12) % 4
    weighted = seen(metrics.errors("t", x, y, times))
    repeated = seen(metrics.errors("t", np.repeat(x, times, 0), np.repeat(y, times)))
    for name in weighted:
        np.testing.assert_allclose(weighted[name], repeated[name], atol=1e-6)


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_model_that_has_broken_down_is_wrong_about_everything(broken):
    x, y = rows()
    y = np.zeros_like(y)  # argmax of NaN would be class 0, and right
    value = VALUES.copy()
    value[1] = broken
    got = seen(metrics.errors("t", x, y), value)
    fine = seen(metrics.errors("t", x, y))
    assert got["t_error"][1] == pytest.approx(1)
    assert got["t_soft_error"][1] == pytest.approx(1)
    others = [0, 2, 3]
    np.testing.assert_array_equal(got["t_error"][others], fine["t_error"][others])


def test_a_perfect_and_a_hopeless_model():
    def predict(key, value, x):
        other = (value + x[:, 0].astype(jnp.int32)) % 3
        return jnp.log(jax.nn.one_hot(other, 3))

    x = np.arange(30.0)[:, None] % 3
    method = METHOD._replace(predict=predict)
    got = seen(metrics.errors("t", x, x[:, 0].astype(int)), np.array([0, 1]), method)
    np.testing.assert_allclose(got["t_error"], [0, 1], atol=1e-6)
    np.testing.assert_allclose(got["t_soft_error"], [0, 1], atol=1e-6)


def test_probes_of_equal_names_are_equal_programs():
    a, b, c = (metrics.errors(name, *rows(s)) for name, s in [("a", 0), ("a", 1), ("c", 0)])
    assert jax.tree.structure(a) == jax.tree.structure(b)
    assert jax.tree.structure(a) != jax.tree.structure(c)


# --- errors by class


def fixed(says):
    """A method whose node v says class says[v][i] of row i."""

    def predict(key, value, x):
        return jnp.log(jax.nn.one_hot(value[x[:, 0].astype(jnp.int32)], 3) + 1e-6)

    return METHOD._replace(predict=predict), np.asarray(says)


def test_class_errors_by_hand():
    """Rows of classes 0 0 0 0 1 1; a third class has none."""
    x, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 0, 1, 1])
    method, value = fixed([[0, 0, 0, 0, 1, 1], [0, 2, 0, 0, 2, 0], [1, 1, 1, 1, 1, 0]])
    got = seen(metrics.errors("t", x, y, classes=3), value, method)["t_class_error"]
    expected = [[0, 0, np.nan], [1 / 4, 1, np.nan], [1, 1 / 2, np.nan]]
    np.testing.assert_allclose(got, expected, atol=1e-6)
    weight = np.array([1, 3, 0, 0, 5, 0])
    got = seen(metrics.errors("t", x, y, weight, classes=3), value, method)["t_class_error"]
    np.testing.assert_allclose(got[1:], [[3 / 4, 1, np.nan], [1, 0, np.nan]], atol=1e-6)


@pytest.mark.parametrize("block", [8, 1024])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_weighted_mean_of_class_errors_is_the_error(block, weighted):
    x, y = rows(4, 29)
    weight = np.random.default_rng(1).uniform(0, 3, len(y)) if weighted else np.ones(len(y))
    got = seen(metrics.errors("t", x, y, weight, block=block, classes=3))
    share = np.bincount(y, weight, 3) / weight.sum()
    assert got["t_class_error"].shape == (NODES, 3)
    np.testing.assert_allclose(got["t_class_error"] @ share, got["t_error"], atol=1e-5)
    plain = seen(metrics.errors("t", x, y, weight, block=block))
    assert set(got) - set(plain) == {"t_class_error"}
    for name in plain:
        np.testing.assert_array_equal(got[name], plain[name])


def test_a_model_that_has_broken_down_is_wrong_about_every_class():
    x, y = rows()
    value = VALUES.copy()
    value[1] = np.nan
    got = seen(metrics.errors("t", x, y, classes=3), value)["t_class_error"]
    np.testing.assert_allclose(got[1], 1, atol=1e-5)
    assert (got[0] < 1).all()


# --- consensus, guards, several probes


def test_equal_nodes_are_at_distance_zero():
    same = np.broadcast_to(VALUES[0], VALUES.shape)
    assert seen(metrics.consensus(), same)["consensus_distance"] == pytest.approx(0, abs=1e-6)


@given(seed=st.integers(0, 2**32 - 1), factor=st.floats(0.01, 100))
def test_consensus_distance_is_relative(seed, factor):
    value = 5 + np.random.default_rng(seed).normal(size=(NODES, 2, 3)).astype("f")
    flat = value.reshape(NODES, -1).astype(float)
    mean = flat.mean(0)
    expected = np.sqrt(((flat - mean) ** 2).sum(1).mean()) / np.linalg.norm(mean)
    got = seen(metrics.consensus(), value * np.float32(factor))["consensus_distance"]
    assert got == pytest.approx(expected, rel=1e-4)


def test_consensus_looks_at_all_leaves():
    value = {"a": jnp.ones((2, 3)), "b": jnp.asarray([[1.0], [3.0]])}
    got = metrics.consensus()(METHOD, State(value, {}))["consensus_distance"]
    assert got == pytest.approx(1 / np.sqrt(3 + 4), rel=1e-6)


@pytest.mark.full
@pytest.mark.bits
def test_probes_together_record_what_each_does():
    x, y = rows(5, 20)
    shards = pack(*rows(6, 12), np.split(np.arange(12), NODES))
    test, train = metrics.errors("test", x, y), metrics.errors("train", *rows(6, 12))
    both = metrics.together(test, train, metrics.guards(), metrics.consensus(), own_probe)
    tree = topologies.random_tree(NODES)
    run = simulate(METHOD, shards, tree, 3, probe=both, at=[1, 3])
    history = run.history["adapt"]
    assert set(history) == {
        *("test_error", "test_soft_error", "test_log_loss"),
        *("train_error", "train_soft_error", "train_log_loss"),
        *("guards", "consensus_distance", "count"),
    }
    assert history["guards"].shape == history["test_error"].shape == (2, NODES)
    alone = simulate(METHOD, shards, tree, 3, probe=test).history["adapt"]["test_error"]
    np.testing.assert_array_equal(history["test_error"][1], alone[0])
    np.testing.assert_array_equal(history["guards"][1], run.state.memory["guards"])


def own_probe(method: Method, state: State):
    return {"count": state.value[..., 0].sum(-1)}


# --- what is computed from what was seen


def test_federated_weights():
    """Equation 4: every row counts alike, or every node does."""
    owner = np.array([0, 1, 1, 1, 7])
    np.testing.assert_array_equal(metrics.federated_weights(owner), np.ones(5))
    by_node = metrics.federated_weights(owner, "nodes")
    np.testing.assert_allclose(by_node, [1, 1 / 3, 1 / 3, 1 / 3, 1])
    np.testing.assert_allclose([by_node[owner == v].sum() for v in (0, 1, 7)], 1)


@pytest.mark.parametrize("kind", ["rows", "nodes"])
def test_federated_error_is_the_mean_of_the_nodes_own_errors(kind):
    x, y = rows(8, 40)
    owner = np.repeat([0, 1, 2], [30, 8, 2])
    got = seen(metrics.errors("fed", x, y, metrics.federated_weights(owner, kind)))["fed_error"]
    wrong = said(x, VALUES[0]).argmax(1) != y
    local = [wrong[owner == v].mean() for v in range(3)]
    share = [30 / 40, 8 / 40, 2 / 40] if kind == "rows" else [1 / 3] * 3
    assert got[0] == pytest.approx(np.dot(local, share), abs=1e-6)


def test_an_unknown_kind_of_weights_is_refused():
    with pytest.raises(UnknownName, match="did you mean 'nodes'"):
        metrics.federated_weights(np.zeros(3), "node")


def test_errors_on_no_rows_are_refused():
    with pytest.raises(BadData, match="no test rows"):
        metrics.errors("test", np.zeros((0, 2)), np.zeros(0))
