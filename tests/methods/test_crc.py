"""CRC and its references: Theorem 1, Algorithm 1 in plain NumPy, and what every knob does."""

from functools import cache, partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from peerwise import combine
from peerwise import topology as topologies
from peerwise.core import Shard
from peerwise.errors import BadSetting, UnknownName
from peerwise.methods import crc, isolated, ml, rc
from peerwise.models import naive_bayes
from peerwise.shards import pack, pooled
from peerwise.simulate import simulate
from peerwise.update import soft_error

CARDINALITIES, CLASSES = (0, 3, 0), 3
MODEL = naive_bayes(CARDINALITIES, CLASSES)
NODES, EACH, LR = 6, 10, 0.1
M0 = EACH / LR
ROUNDS = 12  # recorded; all runs record the same, so that runs of one method are one program


def rows(seed=0, m=NODES * EACH):
    """Rows that say something about their class; standardised, as the uniform start expects."""
    rng = np.random.default_rng(seed)
    y = np.arange(m) * CLASSES // m  # as many of each class, sorted
    codes = (y + (rng.random(m) < 0.5) * rng.integers(3, size=m)) % 3
    x = np.column_stack([rng.normal(0.8 * y), codes, rng.normal(-0.5 * y)])
    for i in (0, 2):
        x[:, i] = (x[:, i] - x[:, i].mean()) / x[:, i].std()
    return x, y


X, Y = rows()
ORDERS = {
    "iid": np.random.default_rng(1).permutation(len(Y)),
    "one class per node": np.argsort(Y, kind="stable"),
    "sorted by a feature": np.argsort(X[:, 0]),
}
SHARDS = {name: pack(X, Y, np.split(order, NODES)) for name, order in ORDERS.items()}
POOLED = pooled(X, Y, [np.arange(len(Y))])
COMPLETE, TREE = topologies.complete(NODES), topologies.random_tree(NODES)
OURS = crc(MODEL, m0=M0)
WITH_SELF = crc(MODEL, lr=LR, rows=NODES * EACH, nodes=NODES, include_self=True)
ISOLATED = isolated(MODEL, lr=LR)
CENTRAL = rc(MODEL, lr=LR)


def look(method, state):
    return state.value


def trained(method, shards, graph, rounds=ROUNDS):
    """A double-precision run: what was heard and learnt in the first rounds, and the end."""
    options = {"precision": "float64", "probe": look, "stages": ("combine", "adapt")}
    at = range(1, ROUNDS + 1)
    run = simulate(method, shards, graph, rounds, at=at, **options)
    as_numpy = partial(jax.tree.map, np.asarray)
    return SimpleNamespace(
        heard=as_numpy(run.history["combine"]),  # [t, n, c, q]
        learnt=as_numpy(run.history["adapt"]),
        value=as_numpy(run.state.value),
        memory=as_numpy(run.state.memory),
        messages=run.messages,
    )


def alone(method, rounds=ROUNDS):
    """A method on all rows, on one node."""
    return trained(method, POOLED, topologies.alone(1), rounds)


@cache
def central():
    return alone(CENTRAL, 40)


def uniform(m0, model=MODEL):
    with jax.enable_x64(True):
        return np.asarray(model.uniform(m0, np.float64))


def on_one_node(method, x, y, rounds=1):
    """What `rounds` of a method make of a single shard, without any network."""
    shard = Shard(x, y, np.ones(len(y)))
    with jax.enable_x64(True):
        key, adapt = jax.random.key(0), jax.jit(method.adapt)
        state = jax.jit(method.init)(key, shard)
        for _ in range(rounds):
            state = adapt(key, state, shard)
        return np.asarray(state.value)


@cache
def compiled(f):
    return jax.jit(jax.vmap(f))


def theta(values):
    """Parameters of statistics [..., c, q]."""
    with jax.enable_x64(True):
        flat = compiled(MODEL.theta)(values.reshape(-1, *values.shape[-2:])).weight
        return np.asarray(flat).reshape(values.shape)


def error(method, values, x=X, y=Y):
    """The mean 0-1 error of nodes' values on rows."""
    with jax.enable_x64(True):
        says = jax.jit(jax.vmap(lambda v: method.predict(jax.random.key(0), v, x).argmax(1)))
        return (np.asarray(says(values)) != y).mean()


def soft_errors(values):
    shard = Shard(X, Y, np.ones(len(Y)))
    with jax.enable_x64(True):
        return np.asarray(jax.jit(jax.vmap(lambda s: soft_error(MODEL, s, shard)))(values))


# --- Theorem 1


@pytest.mark.parametrize("partition", SHARDS)
def test_theorem_1(partition):
    """On a complete graph with self, m0 = m/(lr n): theta(s_bar_v^t) = theta(s_g^(t-1))."""
    got = theta(trained(WITH_SELF, SHARDS[partition], COMPLETE).heard)
    iterates = np.concatenate([uniform(len(Y) / LR)[None, None], central().learnt])
    expected = theta(iterates[:-1])  # [t, 1, c, q]
    assert np.abs(expected[-1] - expected[0]).max() > 0.1  # it did learn something
    np.testing.assert_allclose(got, np.broadcast_to(expected, got.shape), rtol=1e-10, atol=1e-10)


def test_theorem_1_on_a_server():
    """A server is the complete graph with self, computed once for all."""
    run = trained(OURS, SHARDS["one class per node"], topologies.server(NODES))
    got, expected = theta(run.heard[-1]), theta(central().learnt[-2])
    np.testing.assert_allclose(got, np.broadcast_to(expected, got.shape), rtol=1e-10, atol=1e-10)


def test_without_self_it_is_not_the_centralised_method():
    """Theorem 1 needs what it says it needs."""
    heard = trained(OURS, SHARDS["one class per node"], COMPLETE).heard
    assert np.abs(theta(heard[5]) - theta(central().learnt[4])).max() > 1e-3


# --- Algorithm 1


def plain_rc(x, y, lr, rounds, start):
    """Algorithm 1 as a loop over NumPy arrays; returns the statistics of every iterate."""
    m = len(y)
    onehot = [x[:, [i]] == np.arange(r) for i, r in enumerate(CARDINALITIES) if r]
    numbers = x[:, [i for i, r in enumerate(CARDINALITIES) if not r]]
    phi = np.hstack([np.ones((m, 1)), numbers, numbers**2, *onehot])
    target = np.eye(CLASSES)[y]
    s = target.T @ phi / lr if start == "ml" else np.zeros((CLASSES, phi.shape[1]))
    if start == "uniform":
        s += np.r_[1, 0, 0, 1, 1, np.ones(3) / 3] * m / lr / CLASSES
    iterates = [s]
    for _ in range(rounds):
        n, mean = s[:, :1], s[:, 1:3] / s[:, :1]
        var = s[:, 3:5] / n - mean**2
        log_joint = np.log(n / n.sum()).T + onehot[0] @ np.log(s[:, 5:] / n).T
        for c in range(CLASSES):
            z = (numbers - mean[c]) ** 2 / var[c] + np.log(2 * np.pi * var[c])
            log_joint[:, c] -= z.sum(1) / 2
        p = np.exp(log_joint - log_joint.max(1, keepdims=True))
        s = s + (target - p / p.sum(1, keepdims=True)).T @ phi
        iterates.append(s)
    return np.array(iterates)


@pytest.mark.parametrize("start", ["uniform", "ml"])
def test_rc_is_algorithm_1(start):
    run = central() if start == "uniform" else alone(rc(MODEL, lr=LR, start=start))
    expected = plain_rc(X, Y, LR, ROUNDS, start)[1:]
    assert run.memory["guards"].item() == 0  # the plain loop has none
    np.testing.assert_allclose(run.learnt[:, 0], expected, atol=1e-11 * np.abs(expected).max())


def test_a_larger_lr_is_a_larger_step():
    slow, fast = central().learnt[0] * LR, alone(rc(MODEL, lr=2.0)).learnt[0] * 2.0
    start = uniform(len(Y))  # worth one step each, relative to their m0
    np.testing.assert_allclose(fast - start, 20 * (slow - start), atol=1e-12)
    assert np.abs(slow - start).max() > 0.1


def test_calibration_lowers_the_soft_error():
    before, after = soft_errors(np.stack([uniform(1.0), central().value[0]]))
    assert before == pytest.approx(1 - 1 / CLASSES)  # the uniform start
    assert after < before - 0.1


@pytest.mark.full
@pytest.mark.bits
def test_the_best_iterate_has_the_lowest_soft_error():
    """With a huge step the soft error goes up and down, and the last iterate is not the best."""
    iterates = np.concatenate([uniform(len(Y) / 2)[None], alone(rc(MODEL, lr=2.0)).learnt[:, 0]])
    soft = soft_errors(iterates)
    lowest = soft.argmin()
    assert 0 < lowest < ROUNDS
    method = rc(MODEL, lr=2.0, iterate="best")
    run = alone(method)
    np.testing.assert_array_equal(run.value["best"][0], iterates[lowest])
    np.testing.assert_array_equal(run.value["now"][0], iterates[-1])
    assert run.memory["soft"][0] == pytest.approx(soft[lowest], abs=1e-12)
    for t in range(1, ROUNDS + 1):  # at any time, of the iterates so far
        np.testing.assert_array_equal(
            run.learnt["best"][t - 1, 0], iterates[soft[: t + 1].argmin()]
        )
    best, last = (
        error(rc(MODEL, lr=2.0), run.value["best"]),
        error(rc(MODEL, lr=2.0), run.value["now"]),
    )
    assert error(method, run.value) == best != last  # it predicts with the best


def test_ml_are_the_statistics_of_the_rows():
    got = on_one_node(ml(MODEL), X, Y, rounds=3)
    np.testing.assert_allclose(got, plain_rc(X, Y, 1.0, 0, "ml")[0], rtol=1e-12)


# --- small cases by hand


def test_two_rounds_of_two_nodes_by_hand():
    """One feature of two categories, two classes, m0 = 8: p(y|x) = 1/2 in both rounds.

    Node 0 holds one row (x=0, y=0), node 1 two rows (x=1, y=1). Start of a class: 4 rows, 2 of
    each category. Every row moves half a row from one class to the other.
    """
    shards = pack(np.array([[0.0], [1], [1]]), np.array([0, 1, 1]), [[0], [1, 2]])
    run = trained(crc(naive_bayes((2,), 2), m0=8.0), shards, topologies.chain(2))
    first = [[[4.5, 2.5, 2], [3.5, 1.5, 2]], [[3, 2, 1], [5, 2, 3]]]
    # they swap: node 0 calibrates what node 1 had, where x=0 is as likely in both classes still
    second = [[[3.5, 2.5, 1], [4.5, 1.5, 3]], [[3.5, 2.5, 1], [4.5, 1.5, 3]]]
    np.testing.assert_allclose(run.learnt[:2], [first, second], atol=1e-12)


def test_one_gaussian_row_by_hand():
    """A row x = 2 of class 0: half of (1, x, x^2) moves from class 1 to class 0."""
    shards = pack(np.array([[2.0], [0.0]]), np.array([0, 1]), [[0], [1]])
    run = trained(crc(naive_bayes((0,), 2), m0=10.0), shards, topologies.chain(2))
    expected = [[[5.5, 1, 7], [4.5, -1, 3]], [[4.5, 0, 5], [5.5, 0, 5]]]
    np.testing.assert_allclose(run.learnt[0], expected, atol=1e-12)


def test_two_iterations_are_two_calibrations_between_messages():
    twice = on_one_node(crc(MODEL, m0=M0, iterations=2), X, Y)
    np.testing.assert_allclose(twice, on_one_node(OURS, X, Y, rounds=2), rtol=1e-12)


# --- m0, lr and unequal shards


@pytest.mark.bits
def test_lr_is_a_way_to_say_m0():
    """m0 = m/(lr n): the statistics start equal, and nothing else depends on it."""
    by_lr, by_m0 = crc(MODEL, lr=0.125, rows=60, nodes=6), crc(MODEL, m0=60 / (0.125 * 6))
    np.testing.assert_array_equal(on_one_node(by_lr, X, Y, 3), on_one_node(by_m0, X, Y, 3))


@pytest.mark.parametrize("m0", [100.0, 25.0])
def test_a_node_moves_statistics_by_its_rows_over_m0(m0):
    """Four times the rows are four times the move, whose share of m0 is what m0 decides."""
    x, y = X[::8], Y[::8]
    method = crc(MODEL, m0=m0)
    moved = on_one_node(method, x, y) - uniform(m0)
    more = on_one_node(method, np.tile(x, (4, 1)), np.tile(y, 4)) - uniform(m0)
    np.testing.assert_allclose(more, 4 * moved, atol=1e-12)
    everywhere = plain_rc(x, np.zeros(len(y), int), 1.0, 0, "ml")[0][0]
    here = plain_rc(x, y, 1.0, 0, "ml")[0]
    np.testing.assert_allclose(moved, here - everywhere / CLASSES, atol=1e-12)


@pytest.mark.parametrize("larger", [0, 1])
def test_a_larger_node_moves_the_result_more(larger):
    """Two nodes that contradict each other: all follow the one with more rows."""
    x = np.random.default_rng(0).normal(size=(50, 1))
    told = (x[:, 0] > 0).astype(int)
    sizes = [40, 10] if larger == 0 else [10, 40]
    parts = [np.arange(sizes[0]), 50 + np.arange(sizes[1])]
    shards = pack(np.concatenate([x, x]), np.concatenate([told, 1 - told]), parts)
    method = crc(naive_bayes((0,), 2), m0=500.0, include_self=True)
    value = trained(method, shards, topologies.chain(2), rounds=60).value
    for node in range(2):
        right = told if larger == 0 else 1 - told
        assert error(method, value[node : node + 1], x, right) < 0.2


def test_data_size_listens_more_to_the_larger_neighbour():
    shards = pack(X, Y, [[0], np.arange(1, 10), [10, 11]])
    run = trained(
        crc(MODEL, m0=50.0, rule="data_size", include_self=False), shards, topologies.chain(3)
    )
    said = run.learnt[0]  # the middle hears 1 row and 2 rows
    np.testing.assert_allclose(run.heard[1, 1], (1 * said[0] + 2 * said[2]) / 3, rtol=1e-12)


def test_weigh_rules_are_those_of_combine():
    def rule(**settings):
        return crc(MODEL, m0=1.0, **settings).combine

    own = combine.alone()
    assert rule() is combine.equal(include_self=False)
    assert rule(include_self=True) is combine.equal(include_self=True)
    assert rule(rule="data_size") is combine.data_size(include_self=True)
    assert rule(rule="data_size", include_self=False) is combine.data_size(include_self=False)
    assert rule(rule="metropolis") is combine.metropolis()
    assert rule(rule=own) is own


# --- alone, silent, empty


@pytest.mark.bits
def test_isolated_ignores_the_network():
    shards = SHARDS["iid"]
    graphs = [COMPLETE, topologies.server(NODES)]
    runs = [trained(ISOLATED, shards, graph).value for graph in graphs]
    np.testing.assert_array_equal(runs[1], runs[0])
    for v, part in enumerate(np.split(ORDERS["iid"], NODES)):
        expected = plain_rc(X[part], Y[part], LR, ROUNDS, "uniform")[-1]
        np.testing.assert_allclose(runs[0][v], expected, rtol=1e-10, atol=1e-10)


@pytest.mark.some("equal")
@pytest.mark.parametrize("weigh", ["equal", "data_size", "metropolis"])
def test_a_node_that_hears_nobody_goes_on_with_its_own(weigh):
    """As if there were no network: calibrating its own statistics round after round."""
    method = crc(MODEL, m0=M0, rule=weigh)
    silence = topologies.metropolis(topologies.alone(NODES))
    value = trained(method, SHARDS["iid"], silence).value
    for v, part in enumerate(np.split(ORDERS["iid"], NODES)):
        expected = plain_rc(X[part], Y[part], LR, ROUNDS, "uniform")[-1]
        np.testing.assert_allclose(value[v], expected, rtol=1e-10, atol=1e-10)


def test_a_network_of_one_node():
    run = alone(crc(MODEL, m0=len(Y) / LR))
    np.testing.assert_allclose(run.value, central().learnt[ROUNDS - 1], rtol=1e-12)
    assert run.messages == 0


@pytest.mark.parametrize("method", [OURS, ISOLATED, ml(MODEL)], ids=["crc", "isolated", "ml"])
def test_a_class_absent_from_a_shard_is_no_obstacle(method):
    value = trained(method, SHARDS["one class per node"], COMPLETE).value
    assert np.isfinite(value).all()
    with jax.enable_x64(True):
        says = jax.jit(jax.vmap(lambda v: method.predict(jax.random.key(0), v, X)))
        np.testing.assert_allclose(np.exp(says(value)).sum(-1), 1, rtol=1e-9)


def test_nodes_with_one_class_each_learn_all_classes_together():
    """Nearly as well as with all rows in one place, where each alone knows one class only."""
    shards = SHARDS["one class per node"]
    reference = error(CENTRAL, central().value)
    together = error(OURS, trained(OURS, shards, COMPLETE, 40).value)
    each = error(ISOLATED, trained(ISOLATED, shards, COMPLETE, 40).value)
    assert together < reference + 0.03
    assert each > 0.5 > reference + 0.2


def test_a_node_without_rows_passes_on_what_it_hears():
    shards = pack(X, Y, [np.arange(30), np.arange(0), np.arange(30, 60)])
    chain = topologies.chain(3)
    run = trained(OURS, shards, chain)
    np.testing.assert_array_equal(run.learnt[:, 1], run.heard[:, 1])
    assert np.abs(run.learnt[-1, 1] - run.learnt[0, 1]).max() > 0.1


@pytest.mark.parametrize("method", [ISOLATED, CENTRAL, OURS], ids=["isolated", "rc", "crc"])
def test_a_node_without_rows_learns_nothing_by_itself(method):
    first, later = (on_one_node(method, X[:0], Y[:0], rounds) for rounds in (0, 3))
    np.testing.assert_array_equal(first, later)
    assert error(method, first[None]) == pytest.approx(2 / 3)  # it says class 0 of everything


def test_missing_values_are_learnt_around():
    """A third of the entries unknown: the network still learns, and nothing is NaN."""
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.33, np.nan, X)
    method = crc(naive_bayes(CARDINALITIES, CLASSES, missing=True), m0=M0)
    shards = pack(holes, Y, np.split(ORDERS["iid"], NODES))
    value = trained(method, shards, TREE, rounds=40).value
    assert np.isfinite(value).all()
    assert error(method, value, holes) < 0.45  # a guess is wrong two times in three


# --- invariants


def test_calibration_keeps_the_total_count():
    """Rows only change class: the sum over classes of every moment stays where it began."""
    value = trained(OURS, SHARDS["one class per node"], COMPLETE).value
    start = uniform(M0).sum(0)
    np.testing.assert_allclose(value.sum(1), np.tile(start, (NODES, 1)), atol=1e-10)


def test_guards_are_counted_and_leave_the_statistics_alone():
    """A step so large that counts turn negative: counted, and the shared statistics stay raw."""
    wild = trained(crc(MODEL, m0=5.0), SHARDS["one class per node"], TREE)
    assert (wild.memory["guards"] > 0).any()
    assert (wild.value[..., 0] < 0).any()
    calm = trained(OURS, SHARDS["iid"], COMPLETE)
    assert (calm.memory["guards"] == 0).all()


# --- refused


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"m0": 0.0}, "m0 must be greater than 0 and at most"),
        ({"m0": -5.0}, "m0 must be greater than 0"),
        ({"m0": float("nan")}, "m0 must be greater than 0"),
        ({"lr": 0.0, "rows": 10, "nodes": 2}, "lr must be between 1e-09 and 1000"),
        ({"lr": -0.1, "rows": 10, "nodes": 2}, "lr must be between 1e-09 and 1000"),
        ({"lr": 0.1, "rows": 0, "nodes": 2}, "lr needs .* rows and nodes .* got 0 and 2"),
        ({"lr": 0.1, "rows": 10, "nodes": 0}, "lr needs .* rows and nodes .* got 10 and 0"),
        ({"lr": 0.1}, "lr needs .* rows and nodes .* got None and None; give them, or m0"),
        ({}, "lr needs .* give them, or m0"),
        ({"m0": 1.0, "iterations": 0}, "iterations must be 1 or more, got 0"),
        ({"m0": 1.0, "iterations": -1}, "iterations must be 1 or more"),
    ],
)
def test_settings_of_crc_that_make_no_sense(settings, says):
    with pytest.raises(BadSetting, match=says):
        crc(MODEL, **settings)


@pytest.mark.parametrize("method", [rc, isolated])
@pytest.mark.parametrize("lr", [0.0, -0.05, float("nan")])
def test_a_step_must_be_positive(method, lr):
    with pytest.raises(BadSetting, match="lr must be between 1e-09 and 1000"):
        method(MODEL, lr=lr)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: crc(MODEL, m0=1.0, rule="metropolys"), "did you mean 'metropolis'"),
        (lambda: rc(MODEL, start="unifrom"), "did you mean 'uniform'"),
        (lambda: rc(MODEL, iterate="bset"), "did you mean 'best'"),
        (lambda: isolated(MODEL, start="random"), "start must be 'uniform' or 'ml', got 'random'"),
    ],
)
def test_unknown_names_give_the_nearest(make, says):
    with pytest.raises((BadSetting, UnknownName), match=says):
        make()


def test_the_same_arguments_give_the_same_method():
    """Which is how the simulator knows that it has compiled it already."""
    assert crc(naive_bayes((0, 3, 0), 3), m0=7.0) is crc(MODEL, m0=7.0)
    assert rc(MODEL) is rc(MODEL)
    assert ml(MODEL) is ml(MODEL)
