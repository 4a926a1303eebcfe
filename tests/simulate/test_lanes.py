"""Training side by side: nodes of any length in lanes, as node by node, for what rows cost."""

import logging
from dataclasses import replace
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_equal_runs
from peerwise import topology as topologies
from peerwise.channel import erasure
from peerwise.core import State
from peerwise.errors import BadFile
from peerwise.methods.neural import cfa_ge, decavg
from peerwise.nets import network_of
from peerwise.nets.conv import Dropout
from peerwise.shards import pack, pack_alike
from peerwise.simulate import lanes as lanes_module
from peerwise.simulate import nodes, simulate
from peerwise.simulate.schedule import COARSE, STEP, deal_lanes, drawn_together, layout_of
from peerwise.walk import walk

SIZES = (70, 3, 9, 31, 30, 6)  # more than a factor 20
N = len(SIZES)
RING = topologies.ring(N)
SMALL = {"batch": 4, "lr": 0.1, "momentum": 0.5}


class _Noisy(eqx.Module):
    layer: eqx.nn.Linear

    def __call__(self, x, key=None):
        return self.layer(Dropout(0.5)(x, key))


def plain(key):
    return eqx.nn.Linear(4, 3, key=key)


def noisy(key):
    return _Noisy(plain(key))


NET, NOISY = network_of(plain, 4, 3), network_of(noisy, 4, 3)  # small: all time is compilation


def table(m, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=m)
    return (rng.normal(size=(m, 4)) + y[:, None]).astype(np.float32), y


def dealt(sizes, first=0):
    return np.split(first + np.arange(sum(sizes)), np.cumsum(sizes)[:-1])


def shards(sizes=SIZES, seed=0):
    return pack(*table(sum(sizes), seed), dealt(sizes))


def untrained(net, method, low=1, high=1):
    """The method without training before the first round, which takes longest to compile."""
    weights = jax.eval_shape(net.init, jax.random.key(0))

    def init(key, shard):
        size = shard.weight.sum()
        zero = jnp.zeros((), jnp.int32)
        epochs = low + size.astype(jnp.int32) % (high - low + 1)
        memory = {"size": size, "epochs": epochs, "steps": zero, "trained": zero, "broke": zero - 1}
        value = jax.tree.map(
            lambda a: jnp.sin(jnp.arange(a.size, dtype=a.dtype) + size).reshape(a.shape), weights
        )
        return State(value, memory | {"loss": jnp.zeros((), jnp.float32)})

    return method._replace(init=init)


# --- lanes


@given(
    lengths=st.lists(st.one_of(st.integers(0, 4), st.integers(0, 400)), min_size=1, max_size=60),
    most=st.one_of(st.none(), st.integers(1, 60)),
)
def test_every_block_of_a_node_comes_once_in_order_and_in_one_lane(lengths, most):
    lanes = deal_lanes(np.array(lengths), most)
    assert lanes.node.shape[1] <= (most or len(lengths))
    assert lanes.node.shape == lanes.block.shape
    assert lanes.steps >= 1
    assert lanes.node.max() <= len(lengths)
    first = 0
    for v, length in enumerate(lengths):
        turn, lane = np.nonzero(lanes.node == v)
        order = np.argsort(turn, kind="stable")
        blocks = -(-length // lanes.steps)
        assert lanes.block[turn, lane][order].tolist() == list(range(first, first + blocks))
        first += blocks
        assert len(set(lane.tolist())) <= 1
        # and without a pause, so that its lane need not remember it
        assert np.diff(turn[order]).tolist() == [1] * max(blocks - 1, 0)


@given(
    first=st.lists(st.integers(0, 5), max_size=3), second=st.lists(st.integers(0, 200), max_size=3)
)
def test_nodes_without_steps_take_no_lane(first, second):
    lengths = [*first, 0, *second]
    lanes = deal_lanes(np.array(lengths))
    assert not (lanes.node == len(first)).any()
    # there is always a turn, if only of nobody
    assert lanes.node.size >= 1


@given(n=st.integers(1, 40), length=st.integers(1, 500))
def test_equal_lengths_are_one_turn_with_a_lane_for_each_node_in_order(n, length):
    lanes = deal_lanes(np.full(n, length))
    assert lanes.node.tolist() == [list(range(n))]
    assert lanes.one_each
    assert lanes.block.tolist() == lanes.node.tolist()
    assert lanes.steps == length


@given(n=st.integers(1, 40), length=st.integers(1, 500), most=st.integers(1, 50))
def test_equal_lengths_in_few_lanes_are_as_few_turns_in_order(n, length, most):
    lanes = deal_lanes(np.full(n, length), most)
    assert len(lanes.node) == -(-n // most)
    worked = lanes.node.ravel()
    assert worked[:n].tolist() == list(range(n))
    assert (worked[n:] == n).all()
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
    lanes = deal_lanes(lengths)
    turns, many = lanes.node.shape
    cost = turns * lanes.steps * (many + STEP)
    assert cost <= 1.4 * (lengths.sum() + STEP * lengths.max())
    # where no node has most of the rows, few lanes stand idle
    if exponent <= 1:
        assert turns * lanes.steps * many <= 1.45 * lengths.sum()


def test_one_large_node_does_not_make_all_nodes_large():
    lengths = -(-np.array([1000] + [10] * 1000) // 4)
    lanes = deal_lanes(lengths)
    work = lanes.node.size * lanes.steps
    assert work < 3 * lengths.sum()
    assert work < len(lengths) * lengths.max() / 25
    assert len(lanes.node) * lanes.steps <= lengths.max() + lanes.steps  # and no longer than it


@pytest.mark.parametrize("sizes", [SIZES, (5,), (8, 8, 8), (1000, 1, 250, 249, 62, 0, 16, 15)])
def test_groups_whose_batches_are_drawn_together_cover_all_groups_in_order(sizes):
    groups = [g.shard for g in shards(sizes).groups]
    lengths = [g.weight.shape[1] for g in groups]
    cuts = drawn_together(lengths)
    assert [first for first, _ in cuts] == [0, *(upto for _, upto in cuts[:-1])]
    assert cuts[-1][1] == len(groups)
    for first, upto in cuts:
        some = groups[first:upto]
        assert all(m * COARSE >= lengths[first] for m in lengths[first:upto])
        weights = lanes_module._weights(some)
        assert weights.x.shape == (sum(len(g.weight) for g in some), lengths[first], 0)
        real = np.concatenate([np.asarray(g.weight).sum(1) for g in some])
        np.testing.assert_array_equal(np.asarray(weights.weight).sum(1), real)


@pytest.mark.parametrize("sizes", [SIZES, (5,), (8, 8, 8), (1000, 1, 250, 249, 62, 0, 16, 15)])
def test_the_layout_gives_every_node_its_rows_and_steps(sizes):
    groups = shards(sizes).groups
    work = WAYS["epochs of its own, dropout"].adapt
    rows, counts = [g.shard.weight.shape[1] for g in groups], [len(g.nodes) for g in groups]
    layout = layout_of(work, rows, counts)
    assert layout.passes == work.passes == 3
    assert layout.rows == layout.start[-1] + layout.size[-1]
    np.testing.assert_array_equal(np.diff(layout.start), layout.size[:-1])
    np.testing.assert_array_equal(layout.length, 3 * -(-layout.size // 4))
    cuts = [(layout.ends[first], layout.ends[upto]) for first, upto in layout.together]
    alike = [pair for cut in cuts for pair in layout.alike(*cut)]
    assert [v for first, upto in alike for v in range(first, upto)] == list(range(len(sizes)))
    assert all(len(set(layout.length[first:upto].tolist())) == 1 for first, upto in alike)


# --- the same as node by node

STOPS = {"epochs": 6, "validation": 0.25, "patience": 2}
WAYS = {
    "an epoch": untrained(NET, decavg(NET, **SMALL)),
    "epochs of its own, dropout": untrained(NOISY, decavg(NOISY, epochs=(1, 3), **SMALL), 1, 3),
    "steps": untrained(NET, decavg(NET, steps=5, **SMALL)),
    "early stopping": untrained(NET, decavg(NET, **STOPS, **SMALL | {"lr": 0.6}), 6, 6),
}
ROUNDS = {"rounds": 2, "seed": 3}
WAY = "early stopping"  # which has all that the others have


def one_length(sizes=SIZES):
    """The rows of `shards`, all padded to the largest: node by node, one program for all."""
    x, y = table(sum(sizes))
    return pack_alike(x, y, [dealt(sizes), [np.arange(max(sizes))] * len(sizes)])[0]


@cache
def oracle(way):
    data = shards() if way == "an epoch" else one_length()
    assert len(data.groups) == (5 if way == "an epoch" else 1)
    return walk(WAYS[way], data, RING, **ROUNDS)


@cache
def side_by_side(way):
    return simulate(WAYS[way], shards(), RING, **ROUNDS)


@pytest.mark.some("early stopping")
@pytest.mark.parametrize("way", WAYS)
def test_side_by_side_equals_node_by_node(way):
    assert_equal_runs(side_by_side(way), oracle(way), 1e-5)


@pytest.mark.parametrize(
    ("way", "block"),
    [pytest.param("an epoch", 1, marks=pytest.mark.full), (WAY, 2)],
)
def test_group_by_group_equals_node_by_node(way, block, monkeypatch):
    """As a CPU does it where there are more nodes than BLOCK."""
    monkeypatch.setattr(nodes, "BLOCK", block)
    method = WAYS[way]._replace(adapt=replace(WAYS[way].adapt))  # not compiled with another BLOCK
    run = simulate(method, shards(), RING, **ROUNDS)
    assert_equal_runs(run, oracle(way), 1e-5)


@pytest.mark.full  # `make test`: two groups, above
@pytest.mark.parametrize("way", ["an epoch", "steps", WAY])
def test_two_at_a_time_equals_node_by_node(way, monkeypatch):
    """As a CPU does it where no more fit into its cache."""
    monkeypatch.setattr(lanes_module, "CACHE", 1)
    method = WAYS[way]._replace(adapt=replace(WAYS[way].adapt))  # not compiled with another CACHE
    run = simulate(method, shards(), RING, **ROUNDS)
    assert_equal_runs(run, oracle(way), 1e-5)


def test_early_stopping_stopped_some_nodes_early():
    """What the parity above would not show."""
    steps = np.asarray(side_by_side("early stopping").state.memory["steps"])
    most = np.array([2 * 6 * -(-(m - m // 4) // 4) for m in SIZES])
    assert (steps <= most).all()
    assert (steps < most).sum() >= 2
    assert steps[1] == most[1]  # three rows leave none to validate on


# --- for what rows cost


@pytest.mark.some("an epoch")
@pytest.mark.parametrize("way", ["an epoch", "epochs of its own, dropout"])
def test_steps_follow_the_rows_and_epochs_of_each_node_and_not_the_largest(way):
    memory = side_by_side(way).state.memory
    epochs = np.asarray(memory["epochs"])
    expected = 2 * epochs * [-(-m // 4) for m in SIZES]
    np.testing.assert_array_equal(memory["steps"], expected)


def test_by_steps_all_nodes_take_as_many():
    assert np.asarray(side_by_side("steps").state.memory["steps"]).tolist() == [2 * 5] * N


# --- replicas

DEALS = [dealt((12, 3, 9, 0, 3, 10)), dealt((3, 8, 11, 12, 2, 1))]


@pytest.mark.full
def test_replicas_of_two_deals_equal_the_runs_one_by_one():
    """Node 3 holds nothing in the first deal."""
    x, y = table(37, 4)
    method, options = untrained(NET, decavg(NET, epochs=3, **SMALL), 1, 3), {"rounds": 3}
    alike = pack_alike(x, y, DEALS)
    together = simulate(method, alike, RING, seed=[1, 2], **options)
    for i, data in enumerate(alike):
        single = simulate(method, data, RING, seed=i + 1, **options)
        one = together._replace(state=jax.tree.map(lambda a, i=i: a[i], together.state))
        assert_equal_runs(one, single, 1e-5)
    steps, epochs = (np.asarray(together.state.memory[what]) for what in ("steps", "epochs"))
    batches = [[-(-len(rows) // 4) for rows in deal] for deal in DEALS]
    np.testing.assert_array_equal(steps, 3 * epochs * batches)


# --- interrupted, resumed, compiled once

FEW = (9, 8, 3, 3, 9, 3)
GIVEN = {"keep": True, "epochs": (1, 3), "smoothing": 0.7, "rows": 2, **SMALL}
LASTING = cfa_ge(NET, **GIVEN)
LOSSY = {"channel": erasure(0.7), "seed": 2, "at": (1, 4)}


def look(method, state):
    return state.value


lasting = partial(simulate, LASTING, shards(FEW), RING, 4, probe=look, **LOSSY)


@pytest.mark.bits
def test_interrupted_and_resumed_is_as_uninterrupted_to_the_bit():
    whole = lasting()
    epochs = np.asarray(whole.state.memory["epochs"])  # drawn before the first round, and kept
    assert len(set(epochs.tolist())) > 1
    steps = (4 + 1) * epochs * [-(-m // 4) for m in FEW]
    np.testing.assert_array_equal(whole.state.memory["steps"], steps)
    for k in (0, 1, 3):
        assert_equal_runs(lasting(resume=lasting(until=k)), whole)


@pytest.mark.bits
def test_a_crash_between_chunks_is_resumed_from_the_file_to_the_bit(tmp_path, monkeypatch):
    monkeypatch.setattr("peerwise.simulate.saving.WORK", 0)  # save after every chunk
    file = tmp_path / "run"

    def crash(done):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lasting(checkpoint=file, chunk=1, progress=crash)
    for other in ({"lr": 0.2}, {"batch": 5}, {"momentum": 0.4}, {"step": 0.1}, {"rows": 3}):
        method = cfa_ge(NET, **{**GIVEN, **other})
        with pytest.raises(BadFile, match="another run"):
            simulate(method, shards(FEW), RING, 4, probe=look, checkpoint=file, **LOSSY)
    calls = []
    assert_equal_runs(lasting(checkpoint=file, chunk=1, progress=calls.append), lasting())
    assert calls == [3, 4]


def compilations(caplog, run):
    """How many programs were compiled while something ran."""
    caplog.clear()
    with jax.log_compiles(), caplog.at_level(logging.WARNING, logger="jax"):
        run()
    return sum("Compiling" in message for message in caplog.messages)


def test_other_rows_seeds_and_rounds_compile_nothing_again(caplog):
    lasting()
    other = shards((3, 9, 9, 3, 3, 8), seed=9)  # the same shapes at other nodes
    again = cfa_ge(NET, **GIVEN)
    options = LOSSY | {"channel": erasure(0.5), "seed": 7, "at": (2, 6)}
    run = partial(simulate, again, other, RING, 7, probe=look, **options)
    assert compilations(caplog, run) == 0
