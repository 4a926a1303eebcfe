"""Late messages travel the link of the round in which they were sent, once, in every runtime."""

from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

from helpers import assert_equal_runs
from peerwise import topology
from peerwise.channel import Channel, both, delay, erasure, random_delay, record, trace
from peerwise.core import Mean, Message, Method, State
from peerwise.errors import BadSetting
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.topology.links import edges_of
from peerwise.walk import walk

N, ROUNDS = 5, 8
TREES = topology.redrawn(partial(topology.random_tree, N), every=2, rounds=ROUNDS, seed=1)
GRAPHS = {
    "pushes": topology.pushes(N, rounds=ROUNDS, seed=0),
    "pushes along a ring": topology.pushes(topology.ring(N), rounds=ROUNDS, seed=2),
    "redrawn trees": TREES,
    "redrawn trees, metropolis": topology.metropolis(TREES),
    "ring": topology.ring(N),
}
CHANNELS = {
    "one late": delay(1),
    "three late": delay(3),
    "by chance": random_delay(0.5, 4),
    "by chance, held": random_delay(0.5, 4, hold=True),
    "lost, then by chance": both(erasure(0.7), random_delay(0.5, 3)),
    "late, then lost": both(delay(2), erasure(0.7)),
}
DATA = pack(np.arange(N, dtype=np.float32)[:, None], np.zeros(N, int), [[i] for i in range(N)])


def _heard(note, inbox):
    return jnp.ones((), inbox.weight.dtype), inbox.weight


# A node's value [n, rounds] is the sum of the weights with which it heard each node's message of
# each round; a message names its sender and its round.
POST = Method(
    lambda key, shard: State(jnp.zeros((N, ROUNDS)), (shard.x[0, 0].astype(int), jnp.int32(0))),
    lambda key, state: Message(jnp.zeros((N, ROUNDS)).at[state.memory].set(1), {}),
    Mean(_heard, total=True),
    lambda key, state, shard: State(state.value, (state.memory[0], state.memory[1] + 1)),
    lambda key, value, x: jnp.zeros((len(x), 2)),
)


def deliveries(runtime, graph, channel):
    """The weights with which receiver v heard sender u's message of round s, [v, u, s]."""
    return np.asarray(runtime(POST, DATA, graph, ROUNDS, channel=channel, seed=3).state.value)


def posted(graph):
    """The weights with which messages were sent, [v, u, s]."""
    sent = np.zeros((N, N, ROUNDS))
    for s in range(ROUNDS):
        src, dst, weight = edges_of(graph, s)
        sent[dst, src, s] = weight
    return sent


@pytest.mark.some(
    "pushes-lost", "metropolis-by chance", "along a ring-three late", "ring-by chance, held"
)
@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_a_message_reaches_whom_it_was_sent_to_and_once(graph, channel):
    sent = posted(GRAPHS[graph])
    came = deliveries(simulate, GRAPHS[graph], CHANNELS[channel])
    assert came.any()
    assert not came[sent == 0].any()  # nobody to whom it was not addressed
    times = came[sent > 0] / sent[sent > 0]
    np.testing.assert_allclose(times, np.round(times), atol=1e-5)
    if "held" not in channel:
        assert times.max() < 1.5
    late = {"one late": 1, "three late": 3}.get(channel)
    if late is not None:  # all that were due arrived
        np.testing.assert_allclose(came[..., :-late], sent[..., :-late])
    if channel == "by chance":  # all arrived that no newer one overtook
        newest = np.where(came > 0, np.arange(ROUNDS), -1).max(-1, keepdims=True)
        due = (sent > 0) & (np.arange(ROUNDS) < ROUNDS - 4)
        assert ((came > 0) | (np.arange(ROUNDS) < newest))[due].all()


RUNTIMES = [("pushes", "by chance"), ("redrawn trees, metropolis", "lost, then by chance")]


@pytest.mark.full  # `make test`: test_channel_laws.py
@pytest.mark.parametrize(("graph", "channel"), RUNTIMES)
def test_runtimes_and_a_recording_agree(graph, channel):
    graph, channel = GRAPHS[graph], CHANNELS[channel]
    args = POST, DATA, graph, ROUNDS
    exact = simulate(*args, channel=channel, seed=3, exact=True)
    assert_equal_runs(exact, walk(*args, channel=channel, seed=3))
    np.testing.assert_allclose(exact.state.value, deliveries(simulate, graph, channel))
    played = trace(record(channel, graph, ROUNDS, seed=3))
    np.testing.assert_array_equal(
        exact.state.value, simulate(*args, channel=played, seed=3, exact=True).state.value
    )


@pytest.mark.full
def test_replicas_are_late_on_links_of_their_own():
    graphs = [topology.pushes(N, rounds=ROUNDS, seed=s) for s in range(2)]
    both_at_once = deliveries(simulate, graphs, CHANNELS["by chance"])
    one_by_one = [deliveries(simulate, graph, CHANNELS["by chance"]) for graph in graphs]
    np.testing.assert_allclose(both_at_once, one_by_one)


def test_a_late_channel_of_ones_own_is_told_what_was_sent_where_graphs_change():
    own = Channel(Partial(lambda key, t, links: links), lag=1)
    with pytest.raises(BadSetting, match="fourth argument, sent"):
        deliveries(simulate, GRAPHS["pushes"], own)
    deliveries(simulate, GRAPHS["ring"], own)


def test_messages_and_links_in_the_order_of_arrival_come_oldest_first():
    late = topology.links.late_links(topology.pushes(3, rounds=4, seed=0), 2)
    for t in range(4):
        weights = np.asarray(late.before[t])
        dst = np.asarray(late.links.dst[t])
        age = np.where(weights.any(1), (weights > 0).argmax(1), -1)
        for v in range(3):
            own = age[(dst == v) & (age >= 0)]
            assert (np.diff(own) <= 0).all()
