"""Gradients returned by neighbours, and trust on the links: by hand, parity, bytes, memory."""

from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from helpers import assert_equal_runs
from peerwise import topology as topologies
from peerwise.channel import erasure, perfect
from peerwise.core import Inbox, Shard
from peerwise.errors import BadSetting
from peerwise.methods.neural import cfa_ge, decavg, decdiff
from peerwise.nets import network_of
from peerwise.shards import pack
from peerwise.simulate import program, simulate
from peerwise.simulate.nodes import Plan
from peerwise.update.objective import gradient
from peerwise.walk import walk

FEATURES, CLASSES = 4, 3


def linear_net(key):
    return eqx.nn.Linear(FEATURES, CLASSES, key=key)


LINEAR = network_of(linear_net, FEATURES, CLASSES)
FULL = {"batch": 64, "lr": 0.2, "momentum": 0.0}  # one step of all rows a round


def table(sizes, seed=0):
    rng = np.random.default_rng(seed)
    m = sum(sizes)
    y = rng.integers(CLASSES, size=m)
    x = (rng.normal(size=(m, FEATURES)) + y[:, None]).astype(np.float32)
    return x, y, np.split(np.arange(m), np.cumsum(sizes)[:-1])


def look(method, state):
    return state.value


def linked(edges):
    graph = nx.Graph()
    graph.add_weighted_edges_from(edges)
    return topologies.from_graph(graph)


# --- by hand: W [n, c, d], b [n, c] as one array [n, c, d + 1]


def joined(value):
    weight, bias = jax.tree.leaves(value)
    return np.concatenate([np.asarray(weight), np.asarray(bias)[..., None]], -1)


def slope(w, x, y):
    """Of the mean cross-entropy of softmax(W x + b)."""
    x = np.concatenate([np.asarray(x, float), np.ones((len(x), 1))], 1)
    z = x @ w.T
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    return p.T @ x / len(x)


def drawn(m, limit, turn):
    """Which of m rows a node uses for others."""
    many = m if limit is None else min(m, limit)
    return (turn + np.arange(many) * m // many) % m


@pytest.mark.parametrize(("m", "limit"), [(70_000, None), (99_999, 50_000), (70_000, 1_000)])
def test_the_rows_of_a_large_shard_are_spaced_evenly_and_used_once(m, limit):
    """i x m needs 33 bits: in 32 it overflowed, and 61,357 of 70,000 rows were used."""
    draw = gradient(LINEAR, jnp.multiply, limit).draw
    shard = Shard(jnp.zeros((m + 10, 0)), jnp.zeros(m + 10), jnp.arange(m + 10) < m)
    used = np.asarray(jax.jit(draw)((None, jnp.int32(7)), 0, shard))
    assert (np.diff(np.sort(used[used < m])) > 0).all()
    np.testing.assert_array_equal(used[used < m], drawn(m, limit, 7))


def by_hand(w, data, trust, rounds, *, epsilon, step, smoothing=None, limit=None):
    """Rounds of all nodes from weights [n, c, d + 1]; trust [n, n] is 0 where there is no link."""
    x, y, owned = data
    n, sizes = len(owned), np.array([len(r) for r in owned])
    told_before, pull, after_combine = None, np.zeros_like(w), []
    for t in range(rounds):
        new = w.copy()
        for i in range(n):
            share = trust[i] * sizes
            if not share.any():
                continue
            new[i] += epsilon * (np.tensordot(share / share.sum(), w, 1) - w[i])
        for i in range(n):
            total = np.zeros_like(w[i])
            if told_before is not None:
                for j in np.flatnonzero(trust[i]):
                    rows = owned[j][drawn(sizes[j], limit, t + 1)]
                    total += trust[i, j] * slope(told_before[i], x[rows], y[rows])
            pull[i] = total if smoothing is None else smoothing * total + (1 - smoothing) * pull[i]
            new[i] -= step * pull[i]
        told_before = w
        after_combine.append(new.copy())
        w = np.stack([new[i] - 0.2 * slope(new[i], x[owned[i]], y[owned[i]]) for i in range(n)])
    return w, np.stack(after_combine)


PAIR, PATH = table([5, 3]), table([5, 4, 4], 1)
TWO, THREE = [(0, 1, 0.75)], [(0, 1, 0.75), (1, 2, 2.0)]
STEPS = {"epsilon": 0.3, "step": 0.5}
CASES = {  # rows, links, options, and what they mean by hand
    "two nodes": (PAIR, TWO, {}, {}),
    "all weight on the newest is no smoothing": (PAIR, TWO, {"smoothing": 1.0}, {}),
    "a moving average of gradients on two rows": (
        PATH,
        THREE,
        {"smoothing": 0.6, "rows": 2},
        {"smoothing": 0.6, "limit": 2},
    ),
}


@pytest.mark.some("two nodes")
@pytest.mark.parametrize("case", CASES)
def test_rounds_by_hand(case):
    """And once more where no message arrives: nothing is pulled either."""
    data, edges, given, means = CASES[case]
    n = len(data[2])
    trust = nx.to_numpy_array(nx.Graph([(u, v, {"weight": w}) for u, v, w in edges]))
    run = partial(
        simulate, cfa_ge(LINEAR, **STEPS, **given, **FULL), pack(*data), linked(edges), 4,
        at=[1, 2, 3, 4], precision="float64", probe=look, stages=("combine", "adapt"),
    )  # fmt: skip
    start = joined(run(until=0, channel=erasure(1.0)).state.value)  # trained once
    for q in (1.0, 0.0):
        done = run(channel=erasure(q))
        last, combined = by_hand(start, data, q * trust, 4, **STEPS, **means)
        got = joined(done.history["combine"])
        np.testing.assert_allclose(got, combined, rtol=0, atol=1e-10)
        np.testing.assert_allclose(joined(done.state.value), last, rtol=0, atol=1e-10)
        if n == 2 and q:  # in the first round there are no replies, only the mix of CFA
            np.testing.assert_allclose(got[0], 0.7 * start + 0.3 * start[::-1], atol=1e-12)
            assert np.abs(got[1] - (0.7 * start + 0.3 * start[::-1])).max() > 0.01


# --- parity

N = 6
SMALL = {"batch": 4, "lr": 0.1, "momentum": 0.5, "step": 0.05}
DATA = pack(*table([9, 4, 8, 4, 9, 3], 2))  # two groups
GRAPH = topologies.erdos_renyi(N, p=0.5, seed=1)
METHOD = cfa_ge(LINEAR, smoothing=0.7, rows=3, epochs=2, **SMALL)
LOSSY = pytest.mark.parametrize("q", [1.0, 0.7])


@cache
def oracle(q):
    """Shared by tests that are all marked `bits`, so that it is compiled as their own runs are."""
    return run_of(walk, q)


def run_of(runtime, q, **more):
    return runtime(METHOD, DATA, GRAPH, 20, seed=3, channel=erasure(q), **more)


@pytest.mark.full  # `make test`: learner/test_every_name.py, and to rounding below
@pytest.mark.bits
@LOSSY
def test_exact_equals_walk_to_the_bit(q):
    assert_equal_runs(run_of(simulate, q, exact=True), oracle(q))


@pytest.mark.full
@pytest.mark.bits
@LOSSY
def test_simulate_equals_walk(q):
    assert len(DATA.groups) == 2
    assert_equal_runs(run_of(simulate, q), oracle(q), 1e-5)


@pytest.mark.full
@pytest.mark.bits
def test_losses_on_the_way_matter():
    value = [joined(oracle(q).state.value) for q in (1.0, 0.7)]
    assert np.abs(value[0] - value[1]).max() > 0.01


@pytest.mark.full
@pytest.mark.bits
def test_a_reply_is_as_large_as_a_message():
    for run in (run_of(simulate, 1.0), oracle(1.0)):
        state = jax.tree.map(lambda a: a[0], run.state)
        notes = METHOD.message(jax.random.key(0), state).note
        assert run.message_bytes == 2 * 4 * LINEAR.size + 4 * len(notes)
        assert run.messages == 20 * GRAPH.links_per_round(0)


# --- who heard nothing


@pytest.mark.bits
def test_a_node_that_heard_nothing_sends_zeros():
    state = jax.tree.map(lambda a: a[0], oracle(1.0).state)
    shard = jax.tree.map(jnp.asarray, DATA.of(0))
    reply = jax.jit(METHOD.reply)
    for junk in (1.0, np.nan, np.inf):
        value = jax.tree.map(lambda a, junk=junk: jnp.full_like(a, junk), state.value)
        unheard = Inbox(value, {"size": jnp.ones(())}, jnp.zeros(()), jnp.int32(-1))
        assert not any(np.asarray(a).any() for a in jax.tree.leaves(reply(state, shard, unheard)))
    heard = Inbox(state.value, {"size": jnp.ones(())}, jnp.ones(()), jnp.int32(0))
    assert all(np.asarray(a).any() for a in jax.tree.leaves(reply(state, shard, heard)))


# --- memory


def wide(key):
    return eqx.nn.Linear(FEATURES, 64, key=key)


def held(graph):
    """What a compiled round needs beside its arguments and results, in arrays [n, P]."""
    net = network_of(wide, FEATURES, 64)
    n = graph.n
    data = jax.tree.map(jnp.asarray, pack(*table([4] * n)))
    # rows: gradients on 4 rows at once, and not on 256, whose activations would hide all else
    plan = Plan(cfa_ge(net, batch=4, rows=4), ("adapt",), False, 2)
    given = jax.random.key(0), data, graph
    rest = None, jnp.zeros(0, jnp.int32)
    carry = jax.eval_shape(lambda *a: program.begin_all(plan, None, *a), *given, *rest)
    lowered = program.advance_all.lower(plan, None, carry, 0, 1, *given, perfect(), *rest)
    return lowered.compile().memory_analysis().temp_size_in_bytes / (n * net.size * 4)


@pytest.mark.full  # it compiles two programs as users do
@pytest.mark.optimised  # what is held is a matter of the program that users run
def test_replies_are_summed_and_never_held_for_all_neighbours():
    few, many = (topologies.regular(24, k=k, seed=0) for k in (4, 12))
    assert (few.slots, many.slots) == (4, 16)
    small, large = held(few), held(many)
    assert large < 1.3 * small
    assert large < many.slots  # fewer than a part for each slot


# --- trust


@pytest.mark.some("decdiff")
@pytest.mark.parametrize("name", ["decavg", "decdiff"])
def test_neighbours_count_by_trust_times_size(name):
    method = {"decavg": decavg, "decdiff": decdiff}[name](LINEAR, **FULL)
    data = table([6, 4, 5], 3)
    trust = np.array([[0, 0.5, 3.0], [0.5, 0, 0], [3.0, 0, 0]])
    graph = linked([(0, 1, 0.5), (0, 2, 3.0)])
    options = {"probe": look, "stages": "combine", "precision": "float64"}
    w = joined(simulate(method, pack(*data), graph, 1, until=0, **options).state.value)
    weigh = trust * np.array([6, 4, 5])
    got = joined(simulate(method, pack(*data), graph, 1, **options).history["combine"])[0]
    if name == "decavg":
        weigh = weigh + np.diag([6, 4, 5])
    mean = np.einsum("ij,jcd->icd", weigh / weigh.sum(1, keepdims=True), w)
    expected = mean
    if name == "decdiff":  # W and b each by its own distance
        way = mean - w
        far = np.concatenate(
            [
                np.broadcast_to(
                    np.linalg.norm(way[..., :-1], axis=(1, 2))[:, None, None], (3, 3, 4)
                ),
                np.broadcast_to(np.linalg.norm(way[..., -1], axis=1)[:, None, None], (3, 3, 1)),
            ],
            -1,
        )
        expected = w + way / (far + 1)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


# --- refused


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"step": 0.0}, "step must be greater than 0"),
        ({"smoothing": 0.0}, "smoothing must be greater than 0 and at most 1"),
        ({"smoothing": 1.1}, "smoothing must be greater than 0 and at most 1"),
        ({"rows": 0}, "rows must be 1 or more"),
        ({"epsilon": 0.0}, "epsilon"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, says):
    with pytest.raises(BadSetting, match=says):
        cfa_ge(LINEAR, **wrong)
