"""Barycenters over a network: the runtimes agree, and neighbours alone find the central one."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from divergences import reverse_kl
from helpers import assert_equal_runs
from peerwise import combine
from peerwise import topology as topologies
from peerwise.channel import delay, erasure
from peerwise.combine import FullGaussian
from peerwise.combine.barycenter import BARYCENTERS
from peerwise.combine.full import FULL
from peerwise.core import Chart, Gaussian, Mean, Message, Method, Slots, State
from peerwise.errors import BadSetting
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.topology import metropolis, spectral_gap
from peerwise.walk import walk

D = 3
WIDTH = 2 * D + D + D * (D + 2)


def posterior(row):
    """A model with all kinds of parts, from a row of numbers."""
    mean, log_variance, sure, factor = jnp.split(row, [D, 2 * D, 3 * D])
    factor = factor.reshape(D, D + 2)
    return {
        "sure": sure,
        "weights": Gaussian(mean, log_variance - 2),
        "whole": FullGaussian(sure - mean, factor @ factor.T),
    }


@cache
def talking(rule, names=None):
    """A method whose nodes start from a posterior of their own and only talk.

    With names, they have a part of the posterior for each.
    """

    def init(key, shard):
        value = posterior(shard.x[0])
        if names is not None:
            value = {name: value["whole" if "full" in name else "weights"] for name in names}
        return State(value, {"size": shard.weight.sum()})

    def message(key, state):
        return Message(state.value, state.memory)

    return Method(init, message, rule, lambda key, state, shard: state, None)


def rows(n, sizes=None):
    """A row to start from for each node, and some more that only count."""
    sizes = np.ones(n, int) if sizes is None else np.asarray(sizes)
    x = np.random.default_rng(4).normal(size=(sizes.sum(), WIDTH))
    places = np.split(np.arange(sizes.sum()), np.cumsum(sizes)[:-1])
    return x, pack(x, np.zeros(len(x)), places)


# --- the runtimes

RULES = {name: combine.barycenter(name) for name in BARYCENTERS}
RULES |= {f"alpha {a:g}": combine.alpha_barycenter(a) for a in (-0.5, 0.0, 0.5, 1.0)}
RULES |= {f"full {name}": combine.full_barycenter(name) for name in FULL}
SIZES = [1, 4, 2, 2, 3]
START = np.cumsum([0, *SIZES[:-1]])  # the rows that nodes start from
PLACES = {"star": topologies.star(5), "server": topologies.server(5)}


def all_charts(rules):
    """Means that differ in their charts as one, each for its own part of the value."""

    def each(move):
        return lambda value: {name: getattr(rules[name].chart, move)(value[name]) for name in rules}

    def power(charted):
        return {
            name: p(charted[name]) if callable(p) else jax.tree.map(lambda _, p=p: p, charted[name])
            for name, p in ((name, rule.chart.power) for name, rule in rules.items())
        }

    return Mean(combine.data_size(True).weigh, Chart(each("to"), each("back"), power))


def all_slots(rules):
    def rule(own, inbox, shares):
        def of(name):
            return rules[name].rule(own[name], inbox._replace(value=inbox.value[name]), shares)

        return {name: of(name) for name in rules}

    return Slots(rule, combine.data_size(True).weigh)


@cache
def everything(kind):
    """A method that runs all rules of a kind at once, to be compiled once."""
    rules = {name: rule for name, rule in RULES.items() if isinstance(rule, kind)}
    assert all(rule.weigh is combine.data_size(True).weigh for rule in rules.values())
    together = all_charts(rules) if kind is Mean else all_slots(rules)
    return talking(together, tuple(rules))


def case(kind, place, channel=None):
    args = everything(kind), rows(5, SIZES)[1], PLACES[place], 3
    channel = erasure(0.6) if channel is None else channel
    options = {"channel": channel, "precision": "float64", "seed": 2, "at": [1, 3]}
    return args, options | {"probe": lambda method, state: state.value}


@pytest.mark.full  # `make test`: test_running.py
@pytest.mark.parametrize(
    ("kind", "place"),
    [
        (Mean, "star"),
        (Slots, "server"),
        pytest.param(Slots, "star", marks=pytest.mark.full),
        pytest.param(Mean, "server", marks=pytest.mark.full),
    ],
)
def test_side_by_side_as_one_after_the_other(kind, place):
    """Under loss, to rounding."""
    args, options = case(kind, place)
    assert_equal_runs(simulate(*args, **options), walk(*args, **options), 1e-11)


@pytest.mark.bits
def test_slot_rules_agree_to_the_bit_when_nodes_run_one_by_one():
    args, options = case(Slots, "server")
    assert_equal_runs(simulate(*args, exact=True, **options), walk(*args, **options))


@pytest.mark.full
def test_a_late_server():
    """Before the first messages are due, everyone keeps its own to the bit."""
    args, options = case(Slots, "server", channel=delay(2))
    run = simulate(*args, **options)
    first, last = np.asarray(run.history["adapt"]["alpha 0.5"].mean)
    np.testing.assert_array_equal(first, rows(5, SIZES)[0][START, :D])
    assert np.ptp(last, axis=0).max() < 1e-12 < np.ptp(first, axis=0).min()


def test_a_server_has_the_barycenter_by_data_size():
    x, shards = rows(5, SIZES)
    start = x[START]
    mean, variance = start[:, :D], np.exp(start[:, D : 2 * D] - 2)
    weights = np.array(SIZES) / sum(SIZES)
    method = talking(combine.alpha_barycenter(0.5))
    run = simulate(method, shards, topologies.server(5), 1, precision="float64")
    m, v = combine.alpha_barycenter_of(0.5, mean, variance, weights)
    got = run.state.value["weights"]
    np.testing.assert_allclose(got.mean, np.tile(m, (5, 1)), rtol=1e-9)
    np.testing.assert_allclose(np.exp(got.log_variance), np.tile(v, (5, 1)), rtol=1e-9)


def test_a_weigh_rule_that_needs_metropolis_links_says_so_for_slots_too():
    rule = combine.alpha_barycenter(0.5, combine.metropolis())
    with pytest.raises(BadSetting, match="metropolis weights"):
        simulate(talking(rule), rows(5)[1], topologies.ring(5), 1)


def test_a_slot_rule_without_weights_is_still_refused_on_a_server():
    with pytest.raises(BadSetting, match="would count a node twice"):
        simulate(talking(combine.median()), rows(5)[1], topologies.server(5), 1)


# --- consensus: Battistelli and Chisci (2014), the Kullback-Leibler average over a network

GRAPHS = {"ring": topologies.ring(8), "grid": topologies.grid(9)}
ROUNDS = 200


@cache
def consensus(graph, rule):
    topology = metropolis(GRAPHS[graph])
    x, shards = rows(topology.n)
    run = simulate(
        talking(rule),
        shards,
        topology,
        ROUNDS,
        probe=lambda method, state: state.value,
        at=range(1, ROUNDS + 1),
        precision="float64",
    )
    return topology, x, jax.tree.map(np.asarray, run.history["adapt"])


def measured_rate(apart):
    """The factor per round, once the slowest mode is all that is left and before rounding is."""
    rounds = np.flatnonzero((apart < 1e-4 * apart[0]) & (apart > 1e-11))
    assert rounds.size >= 2
    return np.exp(np.polyfit(rounds, np.log(apart[rounds]), 1)[0])


@pytest.mark.some("ring")
@pytest.mark.parametrize("graph", GRAPHS)
def test_neighbours_find_the_central_reverse_kl_barycenter_at_the_spectral_rate(graph):
    rule = combine.barycenter("rkl", combine.metropolis())
    topology, x, history = consensus(graph, rule)
    n, every = topology.n, history["weights"]
    mean, log_variance = x[:, :D], x[:, D : 2 * D] - 2
    m, v = combine.barycenter_of("rkl", mean, np.exp(log_variance), np.full(n, 1 / n))
    np.testing.assert_allclose(every.mean[-1], np.tile(m, (n, 1)), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.exp(every.log_variance[-1]), np.tile(v, (n, 1)), rtol=1e-10)
    # in natural parameters, where the rule is a plain mean
    precision = np.exp(-every.log_variance)
    off = np.concatenate([precision - 1 / v, precision * every.mean - m / v], -1)
    apart = np.sqrt((off**2).mean((1, 2)))
    predicted = 1 - spectral_gap(topology)
    assert 0.2 < predicted < 0.97
    assert np.log(measured_rate(apart)) == pytest.approx(np.log(predicted), rel=0.05)
    # and the divergence itself, a square, falls twice as fast
    with jax.enable_x64(True):
        to_center = jax.jit(
            jax.vmap(jax.vmap(lambda p: reverse_kl(p, Gaussian(jnp.asarray(m), jnp.log(v)))))
        )
        far = np.asarray(to_center(every)).max(1)
    rounds = np.flatnonzero((far < 1e-4 * far[0]) & (far > 1e-13))
    slope = np.polyfit(rounds, np.log(far[rounds]), 1)[0]
    assert slope == pytest.approx(2 * np.log(predicted), rel=0.05)


@pytest.mark.parametrize("name", ["w2", "kl"])
def test_other_charts_find_their_central_barycenter_too(name):
    topology, x, history = consensus("ring", combine.barycenter(name, combine.metropolis()))
    n = topology.n
    variance = np.exp(x[:, D : 2 * D] - 2)
    m, v = combine.barycenter_of(name, x[:, :D], variance, np.full(n, 1 / n))
    np.testing.assert_allclose(history["weights"].mean[-1], np.tile(m, (n, 1)), atol=1e-10)
    got = np.exp(history["weights"].log_variance[-1])
    np.testing.assert_allclose(got, np.tile(v, (n, 1)), rtol=1e-9)


@pytest.mark.full
def test_full_covariances_agree_by_reverse_kl_and_slot_rules_only_on_something():
    """A chart makes consensus exact; rules over slots agree, but not on the central barycenter."""
    rule = combine.full_barycenter("rkl", combine.metropolis())
    topology, x, history = consensus("ring", rule)
    n = topology.n
    with jax.enable_x64(True):
        mean, covariance = map(np.asarray, jax.jit(jax.vmap(posterior))(x)["whole"])
    m, c = combine.full_barycenter_of("rkl", mean, covariance, np.full(n, 1 / n))
    np.testing.assert_allclose(history["whole"].mean[-1], np.tile(m, (n, 1)), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(
        history["whole"].covariance[-1], np.tile(c, (n, 1, 1)), rtol=1e-9, atol=1e-10
    )
    rule = combine.alpha_barycenter(0.5, combine.metropolis())
    topology, x, history = consensus("ring", rule)
    last = history["weights"]
    assert np.ptp(last.mean[-1], axis=0).max() < 1e-6
    variance = np.exp(x[:, D : 2 * D] - 2)
    m, _ = combine.alpha_barycenter_of(0.5, x[:, :D], variance, np.full(n, 1 / n))
    assert np.abs(last.mean[-1] - m).max() > 1e-3
