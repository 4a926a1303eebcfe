"""The runtimes run the same method: side by side, node after node, and in plain Python."""

import importlib
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from helpers import assert_equal_runs
from peerwise import combine
from peerwise import topology as topologies
from peerwise.channel import Channel, delay, erasure, perfect
from peerwise.core import Message, Method, Slots, State
from peerwise.errors import BadSetting
from peerwise.methods import crc, isolated, ml, rc
from peerwise.models import naive_bayes
from peerwise.shards import Shards, pack, pooled
from peerwise.simulate import simulate
from peerwise.topology import Topology
from peerwise.walk import walk

N = 6
ROUNDS = 4
AT = (1, 3, 4)
PRECISIONS = {"float64": 1e-12, "float32": 1e-5}  # what DESIGN.md states, of the largest entry
EQUAL = [4] * N
RAGGED = [6, 1, 5, 0, 5, 1]  # two groups of shards, and a node without rows


def rows(sizes, cardinalities=(0, 3, 0), classes=3, share_missing=0.0):
    """Standardised numbers and codes that say something about the class; which rows go where."""
    rng = np.random.default_rng(7)
    m = sum(sizes)
    y = rng.integers(classes, size=m)
    columns = [
        rng.normal(0.4 * (y - 1), 1) if r == 0 else (y + rng.integers(r, size=m) // 2) % r
        for r in cardinalities
    ]
    x = np.column_stack(columns).astype(float)
    x = np.where(rng.random(x.shape) < share_missing, np.nan, x)
    return x, y, np.split(np.arange(m), np.cumsum(sizes)[:-1])


def look(method, state):
    return state.value


class Case(NamedTuple):
    method: Method
    shards: Shards
    topology: Topology
    channel: Channel = perfect()
    rounds: int = ROUNDS


MODEL = naive_bayes((0, 3, 0), 3)
OPEN = naive_bayes((0, 3, 0), 3, missing=True)
TREE = topologies.random_tree(N, seed=3)
REDRAWN = topologies.redrawn(partial(topologies.random_tree, N), every=2, rounds=ROUNDS)
LOSSY, LATE = erasure(0.7), delay(2)
ours = partial(crc, MODEL, m0=80.0)
even, uneven = pack(*rows(EQUAL)), pack(*rows(RAGGED))

CASES = {
    "crc, as the paper has it": Case(ours(), even, TREE),
    "two iterations, self, ragged, on a star": Case(
        ours(include_self=True, iterations=2), uneven, topologies.star(N)
    ),
    "metropolis, missing values, late": Case(
        crc(OPEN, m0=80.0, rule="metropolis"),
        pack(*rows(EQUAL, share_missing=0.2)),
        topologies.metropolis(TREE),
        LATE,
    ),
    "data size, ragged, on redrawn trees": Case(ours(rule="data_size"), uneven, REDRAWN),
    "data size and self, on a lossy server": Case(
        ours(rule="data_size", include_self=True), uneven, topologies.server(N), LOSSY
    ),
    "rc from maximum likelihood, best iterate": Case(
        rc(MODEL, lr=0.2, start="ml", iterate="best"), pooled(*rows(EQUAL)), topologies.alone(1)
    ),
    "ml": Case(ml(MODEL), even, TREE),
    "isolated": Case(isolated(MODEL, lr=0.1), even, TREE),
}


def talking(combine):
    """A method whose nodes start from a row of their own and only listen."""

    def init(key, shard):
        return State(shard.x[0], {"size": shard.weight.sum()})

    def message(key, state):
        return Message(state.value, state.memory)

    return Method(init, message, combine, lambda key, state, shard: state, None)


CASES |= {
    "only talking, metropolis on a lossy tree": Case(
        talking(combine.metropolis()), even, topologies.metropolis(TREE), LOSSY
    ),
    "only talking, metropolis on a late server": Case(
        talking(combine.metropolis()), even, topologies.metropolis(topologies.server(N)), LATE
    ),
    "only talking, data size around a hub of many": Case(
        talking(combine.data_size()), pack(*rows([1, 2] * 33)), topologies.star(66), rounds=2
    ),
    "median on a lossy star": Case(talking(combine.median()), even, topologies.star(N), LOSSY),
}


def runs(case, precision, **options):
    """The oracle, side by side, and node after node."""
    args = case.method, case.shards, case.topology, case.rounds
    probing = {"probe": look, "at": [t for t in AT if t <= case.rounds]}
    options |= {"channel": case.channel, "precision": precision, "seed": 5, **probing}
    options["stages"] = ("combine", "adapt")
    return (
        walk(*args, **options),
        simulate(*args, **options),
        simulate(*args, exact=True, **options),
    )


# compiled as users do, too, by `make test`
AS_USERS = ("metropolis, missing values, late",)


def turns():
    """Every case in one precision, by turns; in the other one with all that takes long."""
    for place, name in enumerate(CASES):
        for precision in PRECISIONS:
            first = list(PRECISIONS)[place % 2] == precision
            marks = [] if name in AS_USERS else [pytest.mark.bits]
            yield pytest.param(name, precision, marks=marks if first else pytest.mark.full)


@pytest.mark.some("missing values", "lossy server", "median")
@pytest.mark.parametrize(("name", "precision"), list(turns()))
def test_all_runtimes_agree(name, precision):
    """To rounding when nodes run side by side, to the last bit when they run one by one."""
    oracle, together, exact = runs(CASES[name], precision)
    assert set(oracle.history) == {"combine", "adapt"}
    assert jax.tree.leaves(oracle.state)[0].dtype == precision
    assert_equal_runs(together, oracle, PRECISIONS[precision])
    assert_equal_runs(exact, oracle)


@pytest.mark.bits
def test_nodes_in_blocks_are_as_nodes_at_once(monkeypatch):
    """Many nodes learn a block after the other; here two blocks of four, which share a node."""
    monkeypatch.setattr(importlib.import_module("peerwise.simulate.nodes"), "BLOCK", 4)
    method = crc(MODEL, m0=81.0)  # compiled for these blocks and for nothing else
    shards, tree = pack(*rows([3] * 7)), topologies.random_tree(7)
    options = {"precision": "float64", "probe": look, "at": [1, 3]}
    oracle, blocks = (run(method, shards, tree, 3, **options) for run in (walk, simulate))
    assert_equal_runs(blocks, oracle, 1e-12)


# --- messages addressed to one neighbour: sums relayed along a tree


def relay():
    """Every node learns the sum over all nodes: M_{u->v} = x_u + what u heard from the others.

    A node keeps x and its total; what it tells v is its total less what v told it.
    """

    def init(key, shard):
        x = shard.x[0]
        return State({"x": x, "total": x}, {})

    def message(key, state):
        return Message(state.value["x"][0] * 0, {})

    def listen(own, inbox):
        known = (inbox.age >= 0)[:, None]  # a part lost this round leaves the one before
        return {"x": own["x"], "total": own["x"] + jnp.where(known, inbox.part, 0).sum(0)}

    def reply(state, shard, heard):
        if heard.part is None:  # asked for its shape
            return state.value["total"]
        return state.value["total"] - heard.part

    return Method(init, message, Slots(listen), lambda key, state, shard: state, None, reply)


RELAY = relay()
WHOLE = np.random.default_rng(3).integers(-50, 50, (7, 3)).astype(float)  # sums of these are exact
SEVEN = pack(WHOLE, np.zeros(7), np.arange(7)[:, None])


@pytest.mark.bits
@pytest.mark.parametrize(
    ("graph", "precision"),
    [
        pytest.param("chain", "float64", marks=pytest.mark.full),
        pytest.param("star", "float32", marks=pytest.mark.full),
        ("random_tree", "float32"),
    ],
)
def test_sums_relayed_on_a_tree_are_exact_after_its_diameter(graph, precision):
    tree = topologies.named(graph, 7, seed=1)
    diameter = nx.diameter(topologies.graph_of(tree))
    case = Case(RELAY, SEVEN, tree, rounds=diameter)
    oracle, together, exact = runs(case, precision)
    for run in (oracle, together, exact):
        total = np.asarray(run.state.value["total"])
        assert total.dtype == precision
        np.testing.assert_array_equal(total, np.tile(WHOLE.sum(0), (7, 1)))
    assert_equal_runs(together, oracle)
    assert_equal_runs(exact, oracle)


def test_sums_relayed_need_the_whole_diameter():
    tree = topologies.chain(7)
    short = simulate(RELAY, SEVEN, tree, 5).state.value["total"]
    assert not np.array_equal(short[0], WHOLE.sum(0))
    assert np.array_equal(short[3], WHOLE.sum(0))  # the middle has heard both ends


@pytest.mark.full  # `make test`: methods/test_relaying.py
@pytest.mark.bits
@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_sums_relayed_over_lossy_links_still_arrive(precision):
    case = Case(RELAY, SEVEN, topologies.random_tree(7, seed=1), LOSSY, rounds=20)
    oracle, together, exact = runs(case, precision)
    assert_equal_runs(together, oracle)
    assert_equal_runs(exact, oracle)
    total = np.asarray(oracle.state.value["total"])
    np.testing.assert_array_equal(total, np.tile(WHOLE.sum(0), (7, 1)))
    early = np.asarray(oracle.history["adapt"]["total"])[-1]  # after round 4 some were lost
    assert not np.array_equal(early, total)


@pytest.mark.bits
def test_a_reply_may_read_the_rows_of_who_says_it():
    """Every node learns the sum of its neighbours' rows, of which some have more than others."""

    def init(key, shard):
        return State(shard.x[0] * 0, {})

    def message(key, state):
        return Message(state.value[0], {})

    def reply(state, shard, heard):
        return (shard.x * shard.weight[:, None]).sum(0)

    def listen(own, inbox):
        return inbox.part.sum(0)

    method = Method(init, message, Slots(listen), lambda key, state, shard: state, None, reply)
    x = np.random.default_rng(3).integers(-50, 50, (16, 2)).astype(float)
    nodes = np.split(np.arange(16), [1, 2, 3, 5, 6, 11])
    ring = topologies.ring(7)
    assert len(pack(x, np.zeros(16), nodes).groups) > 1
    case = Case(method, pack(x, np.zeros(16), nodes), ring, rounds=2)
    own = np.stack([x[held].sum(0) for held in nodes])
    for run in runs(case, "float32"):
        np.testing.assert_array_equal(run.state.value, np.roll(own, 1, 0) + np.roll(own, -1, 0))


def test_a_reply_counts_in_the_bytes_of_a_message():
    run = simulate(RELAY, SEVEN, topologies.chain(7), 2)
    assert run.message_bytes == 4 + 3 * 4  # one number to all, three to each


def test_a_single_node_has_nobody_to_reply_to():
    one = pack(WHOLE, np.zeros(7), [np.array([2])])
    for run in (walk, simulate):
        got = run(RELAY, one, topologies.alone(1), 2)
        np.testing.assert_array_equal(got.state.value["total"], WHOLE[2:3])


@pytest.mark.parametrize("runtime", [simulate, walk])
@pytest.mark.parametrize(
    ("topology", "channel", "says"),
    [
        (topologies.chain(7), delay(1), "delay"),
        (topologies.server(7), perfect(), "server"),
        (
            topologies.redrawn(partial(topologies.random_tree, 7), every=1, rounds=3),
            perfect(),
            "redrawn",
        ),
        (
            topologies.from_graph(nx.cycle_graph(7, create_using=nx.DiGraph)),
            perfect(),
            "both directions",
        ),
    ],
    ids=["late", "server", "redrawn", "one-way"],
)
def test_replies_where_nobody_could_answer_are_refused(runtime, topology, channel, says):
    with pytest.raises(BadSetting, match=says):
        runtime(RELAY, SEVEN, topology, 3, channel=channel)
