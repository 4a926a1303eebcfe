"""Training side by side: nodes of any length in lanes, for what their rows cost, as node by node."""

import logging
from dataclasses import replace
from functools import cache, partial

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_equal_runs, everything
from peerwise import topology as topologies
from peerwise.channel import erasure
from peerwise.errors import BadFile
from peerwise.methods.neural import cfa_ge, decavg, decdiff
from peerwise.nets import mlp, network_of
from peerwise.nets.conv import Dropout
from peerwise.shards import GROWTH, pack, pack_alike
from peerwise.simulate import nodes, simulate
from peerwise.simulate.nodes import STEP, _coarse, _lanes
from peerwise.walk import walk

NET = network_of(mlp(4, 3, (6,)), 4, 3)
SIZES = (70, 3, 9, 31, 30, 6)  # more than a factor 20
N = len(SIZES)
RING = topologies.ring(N)
SMALL = {"batch": 4, "lr": 0.1, "momentum": 0.5}


def table(m, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=m)
    return (rng.normal(size=(m, 4)) + y[:, None]).astype(np.float32), y


def dealt(sizes, first=0):
    return np.split(first + np.arange(sum(sizes)), np.cumsum(sizes)[:-1])


def shards(sizes=SIZES, seed=0):
    return pack(*table(sum(sizes), seed), dealt(sizes))


class _Noisy(eqx.Module):
    first: eqx.nn.Linear
    last: eqx.nn.Linear

    def __call__(self, x, key=None):
        return self.last(Dropout(0.5)(jax.nn.relu(self.first(x)), key))


def noisy(key):
    one, two = jax.random.split(key)
    return _Noisy(eqx.nn.Linear(4, 6, key=one), eqx.nn.Linear(6, 3, key=two))


# --- lanes


@given(lengths=st.lists(st.one_of(st.integers(0, 4), st.integers(0, 400)), min_size=1, max_size=60))
def test_every_block_of_a_node_comes_once_in_order_and_in_one_lane(lengths):
    lanes = _lanes(np.array(lengths))
    assert lanes.node.shape == lanes.block.shape
    assert lanes.steps >= 1
    assert lanes.node.max() <= len(lengths)
    for v, length in enumerate(lengths):
        turn, lane = np.nonzero(lanes.node == v)
        order = np.argsort(turn, kind="stable")
        blocks = -(-length // lanes.steps)
        assert lanes.block[turn, lane][order].tolist() == list(range(blocks))
        assert len(set(lane.tolist())) <= 1
        # and without a pause, so that its lane need not remember it
        assert np.diff(turn[order]).tolist() == [1] * max(blocks - 1, 0)


@given(
    first=st.lists(st.integers(0, 5), max_size=3), second=st.lists(st.integers(0, 200), max_size=3)
)
def test_nodes_without_steps_take_no_lane(first, second):
    lengths = [*first, 0, *second]
    lanes = _lanes(np.array(lengths))
    assert not (lanes.node == len(first)).any()
    # there is always a turn, if only of nobody
    assert lanes.node.size >= 1


@given(n=st.integers(1, 40), length=st.integers(1, 500))
def test_equal_lengths_are_one_turn_with_a_lane_for_each_node_in_order(n, length):
    lanes = _lanes(np.full(n, length))
    assert lanes.node.tolist() == [list(range(n))]
    assert not lanes.block.any()
    assert lanes.steps == length


def zipf(seed, exponent, n=50):
    """Steps of nodes whose rows fall as 1 / rank^exponent, at 32 rows a step."""
    rng = np.random.default_rng(seed)
    share = np.arange(1.0, n + 1) ** -exponent
    rows = rng.multinomial(int(rng.integers(200, 60_000)), share / share.sum())
    return -(-rng.permutation(rows) // 32)


@given(seed=st.integers(0, 2**16), exponent=st.floats(0, 3))
def test_work_is_near_the_least_that_any_lanes_could_cost(seed, exponent):
    """All steps must be done, and the longest node must do its own one after the other."""
    lengths = zipf(seed, exponent)
    lanes = _lanes(lengths)
    turns, many = lanes.node.shape
    cost = turns * lanes.steps * (many + STEP)
    assert cost <= 1.4 * (lengths.sum() + STEP * lengths.max())
    # where no node has most of the rows, few lanes stand idle
    if exponent <= 1:
        assert turns * lanes.steps * many <= 1.45 * lengths.sum()


def test_one_large_node_does_not_make_all_nodes_large():
    lengths = -(-np.array([1000] + [10] * 1000) // 4)
    lanes = _lanes(lengths)
    work = lanes.node.size * lanes.steps
    assert work < 3 * lengths.sum()
    assert work < len(lengths) * lengths.max() / 25
    assert len(lanes.node) * lanes.steps <= lengths.max() + lanes.steps  # and no longer than it


@pytest.mark.parametrize("sizes", [SIZES, (5,), (8, 8, 8), (1000, 1, 250, 249, 62, 0, 16, 15)])
def test_coarse_groups_cover_all_groups_in_order(sizes):
    data = shards(sizes)
    cuts = _coarse(data)
    assert [first for first, _, _ in cuts] == [0, *(upto for _, upto, _ in cuts[:-1])]
    assert cuts[-1][1] == len(data.groups)
    for first, upto, seen in cuts:
        some = data.groups[first:upto]
        longest = some[0].shard.weight.shape[1]
        assert all(g.shard.weight.shape[1] * nodes.COARSE >= longest for g in some)
        assert seen.x.shape == (sum(len(g.nodes) for g in some), longest, 0)
        told = np.asarray(seen.weight).sum(1)
        real = np.concatenate([np.asarray(g.shard.weight).sum(1) for g in some])
        np.testing.assert_array_equal(told, real)


# --- the same as node by node

WAYS = {
    "an epoch": decavg(NET, **SMALL),
    "epochs of its own": decavg(NET, epochs=(1, 3), **SMALL),
    "steps": decavg(NET, steps=5, **SMALL),
    "early stopping": decavg(NET, epochs=6, validation=0.25, patience=2, **SMALL | {"lr": 0.6}),
    "dropout": decavg(network_of(noisy, 4, 3), epochs=2, **SMALL),
}
ROUNDS = {"rounds": 2, "seed": 3}


@cache
def oracle(way):
    return walk(WAYS[way], shards(), RING, **ROUNDS)


def anew(method):
    """The same method to a reader, and another one to what is compiled already."""
    return method._replace(init=replace(method.init), adapt=replace(method.adapt))


@pytest.mark.parametrize("way", WAYS)
def test_side_by_side_equals_node_by_node(way):
    run = simulate(WAYS[way], shards(), RING, **ROUNDS)
    assert_equal_runs(run, oracle(way), 1e-5)


@pytest.mark.parametrize(
    ("way", "block"),
    [("an epoch", 2), ("an epoch", 1), ("epochs of its own", 2), ("early stopping", 2)],
)
def test_group_by_group_equals_node_by_node(way, block, monkeypatch):
    monkeypatch.setattr(nodes, "BLOCK", block)
    run = simulate(anew(WAYS[way]), shards(), RING, **ROUNDS)
    assert_equal_runs(run, oracle(way), 1e-5)


def test_early_stopping_stopped_some_nodes_early():
    """What the parity above would not show."""
    steps = np.asarray(oracle("early stopping").state.memory["steps"])
    trained = [m - m // 4 for m in SIZES]
    most = [(2 + 1) * 6 * -(-m // 4) for m in trained]
    assert (steps <= most).all()
    assert (steps < most).sum() >= 2
    assert steps[1] == most[1]  # three rows leave none to validate on


# --- for what rows cost


@pytest.mark.parametrize("largest", [70, 45])
def test_steps_follow_the_rows_of_each_node(largest):
    sizes = (largest, *SIZES[1:])
    run = simulate(WAYS["an epoch"], shards(sizes), RING, **ROUNDS)
    assert np.asarray(run.state.memory["steps"]).tolist() == [3 * -(-m // 4) for m in sizes]


def test_steps_follow_the_epochs_that_a_node_has():
    memory = oracle("epochs of its own").state.memory
    epochs = np.asarray(memory["epochs"])
    assert set(epochs.tolist()) <= {1, 2, 3}
    expected = 3 * epochs * [-(-m // 4) for m in SIZES]
    np.testing.assert_array_equal(memory["steps"], expected)
    ours = simulate(WAYS["epochs of its own"], shards(), RING, **ROUNDS).state.memory
    np.testing.assert_array_equal(ours["steps"], expected)


def test_a_node_without_rows_does_nothing():
    sizes = (9, 0, 8, 0, 7, 1)
    start = simulate(WAYS["an epoch"], shards(sizes), topologies.alone(N), 0)
    run = simulate(WAYS["an epoch"], shards(sizes), topologies.alone(N), 3)
    assert np.asarray(run.state.memory["steps"]).tolist() == [12, 0, 8, 0, 8, 4]
    for a, b in zip(jax.tree.leaves(start.state.value), jax.tree.leaves(run.state.value), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        np.testing.assert_array_equal(a[[1, 3]], b[[1, 3]])
        assert (a[[0, 2, 4]] != b[[0, 2, 4]]).any()


# --- replicas

DEALS = [dealt((26, 5, 9, 6, 3, 20)), dealt((6, 18, 30, 4, 12, 2))]


def test_replicas_of_two_deals_equal_the_runs_one_by_one():
    x, y = table(80, 4)
    method, options = WAYS["epochs of its own"], {"rounds": 3, "channel": erasure(0.8)}
    alike = pack_alike(x, y, DEALS)
    together = simulate(method, alike, RING, seed=[1, 2], **options)
    for i, (wide, rows) in enumerate(zip(alike, DEALS, strict=True)):
        single = simulate(method, wide, RING, seed=i + 1, **options)
        mine = together._replace(state=jax.tree.map(lambda a, i=i: a[i], together.state))
        assert_equal_runs(mine, single, 1e-5)
        # nor does it matter how far the rows were padded
        assert_equal_runs(mine, simulate(method, pack(x, y, rows), RING, seed=i + 1, **options), 1e-5)


# --- compiled once


def compilations(caplog, run):
    """How many programs were compiled while something ran."""
    caplog.clear()
    with jax.log_compiles(), caplog.at_level(logging.WARNING, logger="jax"):
        run()
    return sum("Compiling" in message for message in caplog.messages)


def test_other_rows_seeds_and_rounds_compile_nothing_again(caplog):
    method = anew(WAYS["epochs of its own"])
    sizes = (9, 8, 3, 3, 9, 3)
    other = (3, 9, 9, 2, 3, 8)  # the same shapes at other nodes
    assert shards(sizes).groups[0].shard.x.shape == shards(other).groups[0].shard.x.shape
    assert compilations(caplog, lambda: simulate(method, shards(sizes), RING, 2)) > 0
    again = partial(simulate, method, shards(other, seed=9), RING, 5, seed=7)
    assert compilations(caplog, again) == 0


# --- interrupted and resumed

LASTING = {
    "optimiser kept": decdiff(NET, keep=True, epochs=(1, 3), **SMALL),
    "replies": cfa_ge(NET, smoothing=0.7, rows=2, **SMALL),
}
LOSSY = {"channel": erasure(0.7), "seed": 2, "probe": lambda method, state: state.value}


@cache
def uninterrupted(way):
    return simulate(LASTING[way], shards(FEW), RING, 4, at=(1, 4), **LOSSY)


FEW = (9, 8, 3, 3, 9, 3)


@pytest.mark.parametrize("way", LASTING)
def test_interrupted_and_resumed_is_as_uninterrupted_to_the_bit(way, tmp_path):
    run = partial(simulate, LASTING[way], shards(FEW), RING, 4, at=(1, 4), **LOSSY)
    for k in (0, 1, 3):
        assert_equal_runs(run(resume=run(until=k)), uninterrupted(way))

    def crash(done):
        if done == 2:
            raise KeyboardInterrupt

    file = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(checkpoint=file, chunk=1, progress=crash)
    told = []
    assert_equal_runs(run(checkpoint=file, chunk=1, progress=told.append), uninterrupted(way))
    assert told == [3, 4]


@pytest.mark.parametrize(
    "other", [{"lr": 0.2}, {"batch": 5}, {"epochs": (1, 4)}, {"momentum": 0.4}, {"s": 2.0}]
)
def test_a_checkpoint_of_another_training_is_refused(other, tmp_path):
    given = {"keep": True, "epochs": (1, 3), **SMALL}
    run = partial(simulate, shards=shards(FEW), topology=RING, rounds=2, checkpoint=tmp_path / "run")
    run(decdiff(NET, **given), until=1)
    with pytest.raises(BadFile, match="another run"):
        run(decdiff(NET, **{**given, **other}))


def test_runs_are_sound():
    """The law of the tests above: everything that they compare is finite and moves."""
    for run in (oracle("an epoch"), uninterrupted("replies")):
        named = everything(run)
        assert all(np.isfinite(a).all() for a in named.values())
    assert GROWTH < 70 / 31  # so that there is more than one group
