"""One node driven by hand: the same numbers as in `walk`, to the bit."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise import combine, methods
from peerwise import topology as topologies
from peerwise.channel import both, delay, erasure, perfect, random_delay
from peerwise.core import Message, Method, Slots, State
from peerwise.errors import Diverged
from peerwise.models import naive_bayes
from peerwise.node import Letter, Node
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.topology.links import edges_of
from peerwise.walk import walk

N, ROUNDS = 5, 6
MODEL = naive_bayes((0, 0), 2)


def table(sizes):
    rng = np.random.default_rng(1)
    y = rng.integers(2, size=sum(sizes))
    x = rng.normal(size=(sum(sizes), 2)) + y[:, None]
    return pack(x, y, np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]))


ROWS = table([4, 6, 1, 5, 4])


def totals():
    """Every node tells each neighbour the total it knows of, less what that neighbour told it."""

    def init(key, shard):
        return State({"x": shard.x[0], "total": shard.x[0]}, {})

    def message(key, state):
        return Message(state.value["x"][0], {})

    def listen(own, inbox):
        known = (inbox.age >= 0)[:, None]
        return {"x": own["x"], "total": own["x"] + jnp.where(known, inbox.part, 0).sum(0)}

    def reply(state, shard, heard):
        return state.value["total"] - (0 if heard.part is None else heard.part)

    return Method(init, message, Slots(listen), lambda key, state, shard: state, None, reply)


CRC = methods.crc(MODEL, m0=20.0)


def by_hand(method, shards, topology, rounds, **options):
    """The states of all nodes; letters of every round lie on one table, by round and sender."""
    nodes = [Node(method, topology, i, shards.of(i), **options) for i in range(shards.n)]
    memories, letters = [node.begin() for node in nodes], {}
    for t in range(rounds):
        for i, node in enumerate(nodes):
            letters[t, i] = node.letters(memories[i], t)
        for i, node in enumerate(nodes):
            heard = {j: (letters[sent, j][i], sent) for j, sent in node.wanted(t).items()}
            memories[i] = node.step(memories[i], t, heard)
    return [memory.state for memory in memories]


CASES = {
    "server": (CRC, topologies.server(N), perfect(), "float32"),
    "lossy, late server": (CRC, topologies.server(N), both(erasure(0.7), delay(1)), "float64"),
    "delay on a tree": (CRC, topologies.random_tree(N), delay(2), "float32"),
    "random delay on redrawn trees": (
        CRC,
        topologies.redrawn(partial(topologies.random_tree, N), every=2, rounds=ROUNDS),
        random_delay(0.5, longest=2),
        "float64",
    ),
    "pushes": (
        methods.gossip_nb(MODEL), topologies.pushes(N, rounds=ROUNDS), erasure(0.8), "float32",
    ),
    "replies on a lossy tree": (totals(), topologies.random_tree(N), erasure(0.7), "float32"),
    "replies on a chain": (totals(), topologies.chain(N), perfect(), "float64"),
}  # fmt: skip


@pytest.mark.some("lossy, late server", "pushes", "lossy tree")
@pytest.mark.parametrize("name", CASES)
def test_nodes_driven_by_hand_end_as_in_walk(name):
    method, topology, channel, precision = CASES[name]
    options = {"channel": channel, "seed": 3, "precision": precision}
    states = by_hand(method, ROWS, topology, ROUNDS, **options)
    ends = walk(method, ROWS, topology, ROUNDS, **options).state
    for i, state in enumerate(states):
        for ours, theirs in zip(jax.tree.leaves(state), jax.tree.leaves(ends), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs[i])


# --- small enough to check by hand


def talking(rule):
    """A method whose nodes hold the number of their only row, and take what the rule makes."""

    def init(key, shard):
        return State(shard.x[0, 0], {})

    def message(key, state):
        return Message(state.value, {"size": jnp.ones_like(state.value)})

    return Method(init, message, rule, lambda key, state, shard: state, None)


def numbers(*values):
    x = np.array(values, np.float32)[:, None]
    return pack(x, np.zeros(len(values), int), np.arange(len(values))[:, None])


EQUAL = talking(combine.equal())


def letter(value):
    return Letter(Message(np.float32(value), {"size": np.float32(1)}))


def test_a_server_answers_with_the_mean_of_all_who_were_heard():
    node = Node(EQUAL, topologies.server(3), 0, numbers(1, 2, 6).of(0))
    assert node.neighbours == (0, 1, 2)
    assert node.wanted(4) == {0: 4, 1: 4, 2: 4}
    start = node.begin()
    letters = {0: (node.letters(start, 0)[0], 0), 1: (letter(2), 0), 2: (letter(6), 0)}
    assert node.step(start, 0, letters).state.value == 3
    assert node.step(start, 0, {1: letters[1], 2: letters[2]}).state.value == 4  # its own is lost
    assert node.step(start, 0, {}).state.value == 1


def test_a_late_letter_is_wanted_once_it_can_have_arrived():
    node = Node(EQUAL, topologies.chain(3), 1, numbers(1, 2, 6).of(1), channel=delay(2))
    assert [node.wanted(t) for t in range(4)] == [{}, {}, {0: 0, 2: 0}, {0: 1, 2: 1}]


def test_a_node_tells_those_that_hear_it_in_some_round():
    graph = topologies.redrawn(partial(topologies.random_tree, 4), every=1, rounds=3)
    for i in range(4):
        links = [edges_of(graph, t) for t in range(3)]
        hearers = {int(v) for src, dst, _ in links for u, v in zip(src, dst, strict=True) if u == i}
        node = Node(EQUAL, graph, i, numbers(1, 2, 3, 4).of(i))
        assert set(node.letters(node.begin(), 0)) == hearers


@pytest.mark.full
def test_a_silent_slot_has_age_minus_one_in_every_runtime():
    ages = talking(Slots(lambda own, inbox: inbox.age.min().astype(own.dtype)))
    lost = erasure(np.array([1.0, 0.0, 1.0]), by="sender")
    for channel in (lost, both(lost, delay(1))):
        for run in (walk, simulate):
            ends = run(ages, numbers(1, 2, 6), topologies.complete(3), 3, channel=channel)
            np.testing.assert_array_equal(ends.state.value, [-1, channel.lag, -1])


def test_nodes_share_compiled_programs():
    traced = []

    def message(key, state):
        traced.append(1)
        return EQUAL.message(key, state)

    method, ring = EQUAL._replace(message=message), topologies.ring(4)
    walk(method, numbers(1, 2, 3, 4), ring, 3)
    before = len(traced)
    assert before <= 2  # its shape, and the program
    walk(method, numbers(1, 2, 3, 5), ring, 3, seed=1)
    assert len(traced) == before


def test_only_a_strict_node_refuses_to_send_what_is_no_number():
    broken = numbers(np.nan, 2).of(0)
    strict = Node(EQUAL, topologies.chain(2), 0, broken)
    with pytest.raises(Diverged, match="node 0 would send in round 1 holds NaN"):
        strict.letters(strict.begin(), 1)
    node = Node(EQUAL, topologies.chain(2), 0, broken, strict=False)
    assert np.isnan(node.letters(node.begin(), 1)[1].message.value)
    other = Node(EQUAL, topologies.chain(2), 1, numbers(1, 2).of(1))
    assert other.step(other.begin(), 0, {0: (letter(np.nan), 0)}).state.value == 2
