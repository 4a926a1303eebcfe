"""Robust Federated naive Bayes: middles by hand, attacks on a planted problem, both runtimes."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise import topology as topologies
from peerwise.core import Inbox, Shard
from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.methods.gossip_nb import federated_nb, gossip_nb
from peerwise.methods.releasing import release
from peerwise.methods.robust_nb import (
    ATTACKS,
    RULES,
    aggregate,
    attacked,
    corrupt,
    relative,
    robust_nb,
)
from peerwise.models import naive_bayes, shared_naive_bayes
from peerwise.models.family import log_posterior, statistics
from peerwise.papers.gossip_nb.attack import attack
from peerwise.papers.gossip_nb.trials import Problem
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.walk import walk

CARDINALITIES = (0, 0, 3)
MODEL = naive_bayes(CARDINALITIES, 2, smallest_share=1e-3)
N, EACH = 50, 60


def rows(m, seed):
    """Two classes, 7 to 3, that two numbers and a category tell apart; means are not 0."""
    rng = np.random.default_rng(seed)
    y = (rng.random(m) < 0.3).astype(int)
    numbers = rng.normal(size=(m, 2)) + np.where(y[:, None] == 1, [2.0, -1.0], [0.0, 1.0])
    category = np.where(rng.random(m) < 0.6, y, rng.integers(3, size=m))
    return np.column_stack([numbers, category]), y


def split(n, each, seed=0):
    x, y = rows(n * each, seed)
    return Shard(x.reshape(n, each, 3), y.reshape(n, each), np.ones((n, each)))


sums = jax.jit(jax.vmap(lambda s: statistics(MODEL, *s)))
theta, describe = jax.jit(MODEL.theta), jax.jit(MODEL.describe)
posterior = jax.jit(partial(log_posterior, MODEL))
relative = jax.jit(relative)
aggregate = jax.jit(aggregate, static_argnums=0, static_argnames=("rule", "trim", "fewest"))


def stats_of(shards):
    return sums(jax.tree.map(jnp.asarray, shards))


X_TEST, Y_TEST = rows(4000, 99)


def accuracy(s):
    said = np.asarray(posterior(jnp.asarray(s), jnp.asarray(X_TEST))).argmax(-1)
    return (said == Y_TEST).mean()


# --- the middle, by hand


def test_relative_statistics_do_not_depend_on_the_rows():
    s = stats_of(split(3, 20))
    shares, size = relative(s)
    again, more = relative(7 * s)
    np.testing.assert_allclose(again, shares, rtol=1e-5)
    np.testing.assert_allclose(more, 7 * size)
    np.testing.assert_allclose(size, 20)
    np.testing.assert_allclose(shares[..., 0].sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(shares[..., 5:].sum(-1), 1, rtol=1e-6)  # a category for every row


def test_relative_statistics_of_nothing_and_of_negative_counts_are_zeros():
    shares, size = relative(jnp.array([[0.0, 0, 0, 0, 0], [-2.0, 1, 1, 1, 1]]))
    np.testing.assert_array_equal(shares, np.zeros((2, 5)))
    assert size == 0


SMALL = naive_bayes((0, 2), 2)
# class shares; mean, second moment, two categories. The fourth node hardly holds class 1.
SAID = np.array(
    [
        [[0.6, 1.0, 2.0, 0.5, 0.5], [0.4, 5.0, 26.0, 0.2, 0.8]],
        [[0.5, 2.0, 5.0, 0.7, 0.3], [0.5, 6.0, 38.0, 0.4, 0.6]],
        [[0.7, 4.0, 19.0, 0.9, 0.1], [0.3, 9.0, 83.0, 0.9, 0.1]],
        [[0.9, 3.0, 13.0, 0.6, 0.4], [0.1, 99.0, 9999.0, 0.0, 1.0]],
    ]
)
SIZES = np.array([10.0, 20.0, 30.0, 10.0])


def test_medians_by_hand_with_a_class_that_one_node_hardly_holds():
    got = np.asarray(aggregate(SMALL, jnp.asarray(SAID), jnp.asarray(SIZES)))
    prior = np.array([0.65, 0.35])  # medians of the shares, which happen to sum to one
    count = prior * 4 * 15  # four nodes of 15 rows, the median size
    np.testing.assert_allclose(got[:, 0], count, rtol=1e-6)
    np.testing.assert_allclose(got[:, 1] / count, [2.5, 6.0], rtol=1e-6)
    # about 2.5: 2 - 5 + 6.25, 5 - 10 + 6.25, 19 - 20 + 6.25, 13 - 15 + 6.25; about 6: 2, 2, 11
    variances = [(3.25 + 4.25) / 2, 2.0]
    np.testing.assert_allclose(got[:, 2] / count, np.array([2.5, 6.0]) ** 2 + variances, rtol=1e-5)
    np.testing.assert_allclose(got[:, 3:] / count[:, None], [[0.65, 0.35], [0.4, 0.6]], rtol=1e-6)


def test_trimmed_means_by_hand():
    got = aggregate(
        SMALL, jnp.asarray(SAID), jnp.asarray(SIZES), rule="trimmed_mean", trim=0.25, fewest=0
    )
    mean = got[:, 1] / got[:, 0]
    np.testing.assert_allclose(mean, [2.5, 7.5], rtol=1e-6)  # one off either end


def test_where_every_node_hardly_holds_a_class_those_that_have_any_vote():
    got = aggregate(SMALL, jnp.asarray(SAID), jnp.asarray(SIZES), fewest=100.0)
    everyone = aggregate(SMALL, jnp.asarray(SAID), jnp.asarray(SIZES), fewest=0.0)
    np.testing.assert_array_equal(got, everyone)


@pytest.mark.parametrize("rule", RULES)
def test_a_class_that_nobody_has_gets_nothing(rule):
    shares, sizes = relative(stats_of(split(5, 20)).at[:, 1].set(0))
    got = np.asarray(aggregate(MODEL, shares, sizes, rule=rule))
    np.testing.assert_array_equal(got[1], 0)
    assert np.isfinite(np.asarray(theta(jnp.asarray(got)).weight)).all()


@pytest.mark.parametrize("rule", RULES)
def test_who_is_not_heard_or_not_finite_has_no_say_and_order_does_not_matter(rule):
    shares, sizes = relative(stats_of(split(7, 20)))
    heard = np.array([True, False, True, True, False, True, True])
    expected = aggregate(MODEL, shares[heard], sizes[heard], rule=rule)
    junk = jnp.where(heard[:, None, None], shares, 1e30)
    np.testing.assert_allclose(
        aggregate(MODEL, junk, sizes, rule=rule, heard=jnp.asarray(heard)), expected, rtol=1e-6
    )
    nan = jnp.where(heard[:, None, None], shares, jnp.nan)
    np.testing.assert_allclose(aggregate(MODEL, nan, sizes, rule=rule), expected, rtol=1e-6)
    order = np.random.default_rng(0).permutation(7)
    np.testing.assert_array_equal(
        aggregate(MODEL, shares[order], sizes[order], rule=rule),
        aggregate(MODEL, shares, sizes, rule=rule),
    )


def test_the_mean_of_equal_shards_is_the_pooled_model_where_classes_are_even():
    """Nodes that hold a class in equal numbers: every mean over nodes is one over rows."""
    x, y = rows(4000, 3)
    m = 40 * 20
    picked = np.stack([np.flatnonzero(y == c)[:m].reshape(40, 20) for c in (0, 1)], 1)
    at = picked.reshape(40, 40)
    with jax.enable_x64(True):
        shards = Shard(x[at], y[at], np.ones(at.shape))
        stats = stats_of(shards)
        got = aggregate(MODEL, *relative(stats), rule="mean")
        np.testing.assert_allclose(got, stats.sum(0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_equal_shards_give_nearly_the_pooled_model(rule):
    stats = stats_of(split(N, EACH))
    got = aggregate(MODEL, *relative(stats), rule=rule)
    ours, theirs = describe(got), describe(stats.sum(0))
    np.testing.assert_allclose(ours["prior"], theirs["prior"], atol=0.02)
    np.testing.assert_allclose(ours["mean"], theirs["mean"], atol=0.06)
    np.testing.assert_allclose(ours["var"], theirs["var"], rtol=0.12)
    np.testing.assert_allclose(ours["prob"][2], theirs["prob"][2], atol=0.05)
    assert abs(accuracy(got) - accuracy(stats.sum(0))) < 0.005


def test_a_far_mean_does_not_spoil_the_variance():
    """Medians of first and second moments taken apart would: means are 1000 deviations out."""
    shards = split(N, EACH)
    moved = shards._replace(x=shards.x + np.array([1000.0, 1000.0, 0.0]))
    with jax.enable_x64(True):
        got = aggregate(MODEL, *relative(stats_of(moved)))
        here = aggregate(MODEL, *relative(stats_of(shards)))
        ours, theirs = describe(got), describe(here)
    np.testing.assert_allclose(ours["var"], theirs["var"], rtol=1e-6)
    np.testing.assert_allclose(ours["mean"], np.asarray(theirs["mean"]) + 1000, rtol=1e-9)


# --- attacks

HARM = 0.02  # of accuracy, that an attack on a robust rule may do here


def under_attack(stats, kind, rule, share=0.1):
    """Accuracy at the server, the first nodes being malicious."""
    bad = (jnp.arange(len(stats)) < share * len(stats))[:, None, None]
    keys = jax.random.split(jax.random.key(5), len(stats))
    send = jax.jit(jax.vmap(partial(corrupt, kind=kind)))
    if rule == "sum":
        return accuracy(jnp.where(bad, send(keys, stats), stats).sum(0))
    shares, sizes = relative(stats)
    said = jnp.where(bad, send(keys, shares), shares)
    return accuracy(aggregate(MODEL, said, sizes, rule=rule, trim=0.1))


@pytest.mark.some("median-", "mean-dominant")
@pytest.mark.parametrize("kind", ATTACKS)
@pytest.mark.parametrize("rule", ["median", "trimmed_mean"])
def test_one_malicious_node_in_ten_does_little_to_a_robust_rule(rule, kind):
    stats = stats_of(split(N, EACH))
    calm = accuracy(aggregate(MODEL, *relative(stats), rule=rule))
    assert calm > 0.9
    assert under_attack(stats, kind, rule) > calm - HARM


@pytest.mark.parametrize("kind", ["random", "dominant"])
def test_the_sum_breaks_down(kind):
    stats = stats_of(split(N, EACH))
    assert accuracy(stats.sum(0)) > 0.9
    assert under_attack(stats, kind, "sum") < 0.75


def test_a_single_dominant_node_turns_the_sum_round():
    assert under_attack(stats_of(split(N, EACH)), "dominant", "sum", share=0.02) < 0.3


@pytest.mark.parametrize("kind", ["scaled", "dominant"])
def test_the_mean_of_relative_statistics_is_not_robust(kind):
    assert under_attack(stats_of(split(N, EACH)), kind, "mean") < 0.75


def test_what_a_malicious_node_sends():
    value = {"estimate": jnp.array([[1.0, 2.0], [3.0, 4.0]]), "count": jnp.ones(())}
    key = jax.random.key(0)
    sent = {kind: corrupt(key, value, kind) for kind in ATTACKS}
    assert all(s["count"] == 1 for s in sent.values())
    np.testing.assert_array_equal(sent["inverted"]["estimate"], [[3, 4], [1, 2]])
    np.testing.assert_array_equal(sent["scaled"]["estimate"], [[1000, 2000], [3000, 4000]])
    np.testing.assert_array_equal(sent["dominant"]["estimate"], [[3000, 4000], [1000, 2000]])
    assert np.abs(sent["random"]["estimate"]).max() > 100


# --- as a method


def network(n, each, seed=0):
    x, y = rows(n * each, seed)
    return pack(x, y, np.split(np.arange(n * each), n))


@pytest.mark.some("median")
@pytest.mark.parametrize("rule", RULES)
def test_a_complete_graph_does_what_a_server_would(rule):
    n = 9
    method = robust_nb(MODEL, middle=rule, trim=0.2)
    run = simulate(method, network(n, 30), topologies.complete(n), 1, precision="float64")
    with jax.enable_x64(True):
        expected = aggregate(MODEL, *relative(stats_of(split(n, 30))), rule=rule, trim=0.2)
        for value in np.asarray(run.state.value):
            np.testing.assert_allclose(value, expected, rtol=1e-12)


@pytest.mark.bits
def test_a_slot_that_is_empty_has_no_say():
    method = robust_nb(MODEL)
    stats = stats_of(split(4, 30))
    shares, sizes = relative(stats)
    inbox = Inbox(
        shares[1:].at[1].set(jnp.nan),
        {"size": sizes[1:]},
        jnp.array([1.0, 0.0, 1.0]),
        jnp.zeros(3, int),
    )
    got = jax.jit(method.combine.rule)(stats[0], inbox)
    kept = np.array([1, 3, 0])
    np.testing.assert_array_equal(got, aggregate(MODEL, shares[kept], sizes[kept]))


NOISY = release(MODEL, epsilon=20.0, sensitivity="bounded", bounds=(-4, 6), split="optimal")


@pytest.mark.full  # `make test`: learner/test_every_name.py
@pytest.mark.bits
def test_both_runtimes_agree_with_noise_and_attackers():
    rule = "trimmed_mean"  # which holds what the others do
    method = attacked(robust_nb(MODEL, NOISY, middle=rule), 0.3, "scaled", seed=1)
    args = method, network(6, 20), topologies.complete(6), 1
    oracle = walk(*args, seed=3)
    exact = simulate(*args, seed=3, exact=True)
    together = simulate(*args, seed=3)
    for ours, theirs in zip(
        jax.tree.leaves(exact.state), jax.tree.leaves(oracle.state), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(together.state.value, oracle.state.value, rtol=2e-4, atol=2e-3)
    flags = np.asarray(oracle.state.memory["malicious"])
    assert flags.any()
    assert not flags.all()
    assert exact.message_bytes == oracle.message_bytes == 4 * (2 * MODEL.size + 1)


def honest_accuracy(run):
    honest = ~np.asarray(run.state.memory["malicious"])
    return honest, np.mean([accuracy(s) for s in np.asarray(run.state.value)[honest][:3]])


@pytest.mark.full  # `make test`: the experiment, below
@pytest.mark.parametrize("kind", ["random", "dominant"])
def test_honest_nodes_of_an_attacked_network_keep_their_accuracy(kind):
    n = 40
    args = network(n, EACH), topologies.complete(n), 1
    method = attacked(robust_nb(MODEL, NOISY), 0.1, kind, seed=2)
    honest, found = honest_accuracy(simulate(method, *args))
    assert 2 <= n - honest.sum() <= 8
    calm = simulate(robust_nb(MODEL, NOISY), *args)
    assert found > accuracy(np.asarray(calm.state.value)[0]) - HARM
    assert accuracy(np.asarray(calm.state.value)[0]) > 0.9


@pytest.mark.bits
def test_an_attack_reaches_other_methods_and_leaves_honest_messages_alone():
    n = 20
    args = network(n, EACH), topologies.server(n), 1
    honest, found = honest_accuracy(
        simulate(attacked(federated_nb(MODEL), 0.1, "dominant", seed=2), *args)
    )
    assert 0 < n - honest.sum() < n
    assert found < 0.3
    none = simulate(attacked(federated_nb(MODEL), 0.0, "dominant"), *args)
    plain = simulate(federated_nb(MODEL), *args)
    np.testing.assert_array_equal(none.state.value, plain.state.value)
    assert not np.asarray(none.state.memory["malicious"]).any()


def test_methods_are_made_once():
    """The simulator knows programs by the functions in them."""
    assert robust_nb(MODEL, trim=0.2) is robust_nb(MODEL, trim=0.2)
    method = robust_nb(MODEL)
    assert attacked(method, 0.1, "random", 3) is attacked(method, 0.1, "random", 3)


# --- the experiment

TASK = Problem(
    "planted",
    *rows(1000, 1),
    X_TEST,
    Y_TEST,
    SimpleNamespace(cardinalities=CARDINALITIES, classes=("a", "b")),
)


@pytest.mark.full
def test_the_experiment_tells_who_withstands():
    records = attack(TASK, nodes=20, shares=(0, 0.1), kinds=("dominant",), trials=3)
    assert len(records) == (1 + 1) * 4
    found = {(r["kind"], r["rule"]): r for r in records}
    for rule in ("median", "trimmed_mean"):
        assert found["dominant", rule]["accuracy"] > found["none", rule]["accuracy"] - HARM
        assert found["dominant", rule]["std"] < 0.03
    assert found["dominant", "sum"]["accuracy"] < 0.3
    assert found["none", "sum"]["accuracy"] == pytest.approx(accuracy_of_all(), abs=0.003)
    keys = {"task", "nodes", "epsilon", "share", "kind", "rule", "trials", "accuracy", "std"}
    assert all(r.keys() == keys for r in records)


def accuracy_of_all():
    return accuracy(statistics(MODEL, *map(jnp.asarray, (TASK.x, TASK.y, np.ones(len(TASK.y))))))


@pytest.mark.full  # `make test`: without noise, above
def test_the_experiment_takes_noise_and_repeats():
    options = {"sensitivity": "bounded", "bounds": (-4, 6)}
    args = {"nodes": 10, "shares": (0.1,), "kinds": ("inverted",), "rules": ("median",)}
    one, two, other = (
        attack(TASK, **args, epsilon=5.0, trials=2, seed=s, **options) for s in (1, 1, 2)
    )
    assert one == two != other
    assert one[0]["epsilon"] == 5.0


# --- what makes no sense


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(BadSetting, match="did you mean 'median'"):
        robust_nb(MODEL, middle="medain")
    with pytest.raises(BadSetting, match=r"trim must be 0 or more and less than 0\.5, got 0\.5"):
        robust_nb(MODEL, trim=0.5)
    with pytest.raises(BadSetting, match="fewest must be 0 or more, got -1"):
        robust_nb(MODEL, fewest=-1)
    for model in (shared_naive_bayes((0,), 2), naive_bayes((0,), 2, missing=True)):
        with pytest.raises(BadSetting, match="needs naive_bayes without missing"):
            robust_nb(model)
    with pytest.raises(BadSetting, match=r"epsilon is an option of .* not of robust_nb"):
        robust_nb(MODEL, NOISY, epsilon=1.0)
    with pytest.raises(BadSetting, match="epsilon must be"):
        robust_nb(MODEL, release(MODEL, epsilon=0.0))


def test_attacks_that_make_no_sense_are_refused():
    method = robust_nb(MODEL)
    with pytest.raises(BadSetting, match=r"share must be between 0 and 1, got 1\.5"):
        attacked(method, 1.5, "random")
    with pytest.raises(UnknownName, match="did you mean 'inverted'"):
        attacked(method, 0.1, "invert")
    with pytest.raises(BadSetting, match="this method replies"):
        attacked(gossip_nb(MODEL, counter="cumulative", degree=3), 0.1, "random")
    with pytest.raises(UnknownName, match="rule 'krum'"):
        attack(TASK, rules=("krum",))
    with pytest.raises(UnknownName, match="attack"):
        attack(TASK, nodes=10, kinds=("none at all",), shares=(0.5,))
    with pytest.raises(BadSetting, match="trials must be 1 or more"):
        attack(TASK, trials=0)
    with pytest.raises(BadData, match="two for each of 501 nodes"):
        attack(TASK, nodes=501)
