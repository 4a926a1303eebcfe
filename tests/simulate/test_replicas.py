"""Lists of arguments as replicas: counted, and stacked along a first axis."""

import jax
import numpy as np
import pytest

from peerwise import topology as topologies
from peerwise.core import Mean, Message, Method, State
from peerwise.errors import BadSetting
from peerwise.methods import crc
from peerwise.models import naive_bayes
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.simulate.replicas import count_replicas, first_of, inputs_of
from peerwise.topology.links import build


def shards(rows):
    x = np.arange(2.0 * rows).reshape(rows, 2)
    return pack(x, np.zeros(rows), np.array_split(np.arange(rows), 2))


def test_lists_of_one_length_are_replicas():
    assert count_replicas(seed=0, shards="shared") is None
    assert count_replicas(seed=[1, 2, 3], shards="shared", probe=[4, 5, 6]) == 3
    assert first_of([7, 8]) == first_of(7) == 7


@pytest.mark.parametrize("given", [{"seed": [1, 2], "shards": [3]}, {"shards": []}])
def test_other_lists_are_refused_by_name(given):
    with pytest.raises(BadSetting, match="one length: shards has"):
        count_replicas(**given)


def test_only_what_replicas_do_not_share_has_an_axis():
    data = [shards(4), shards(4)]
    inputs, axes = inputs_of([1, 2], data, topologies.ring(2), None, np.dtype("float32"))
    assert axes == (0, 0, None, None)
    keys, stacked, _, _ = inputs
    assert (keys == jax.numpy.stack([jax.random.key(1), jax.random.key(2)])).all()
    x = stacked.groups[0].shard.x
    assert x.dtype == np.float32
    np.testing.assert_array_equal(x[1], data[1].groups[0].shard.x)
    _, axes = inputs_of(1, data[0], topologies.ring(2), None, np.dtype("float32"))
    assert axes is None


@pytest.mark.full
def test_messages_are_counted_for_the_graph_of_each_replica():
    data = [pack(np.ones((5, 2)), np.zeros(5), [[i] for i in range(5)])] * 2
    graphs = [topologies.chain(5), topologies.complete(5)]
    method = crc(naive_bayes((0, 0), 2), m0=5.0)
    apart = [simulate(method, d, g, 3).messages for d, g in zip(data, graphs, strict=True)]
    assert apart == [3 * 8, 3 * 20]
    assert simulate(method, data, graphs, 3).messages.tolist() == apart
    assert simulate(method, data, graphs[0], 3).messages.tolist() == [24, 24]


def test_replicas_of_other_shapes_are_refused():
    with pytest.raises(BadSetting, match="those of shards differ"):
        inputs_of(0, [shards(4), shards(6)], topologies.ring(2), None, np.dtype("float32"))


def test_the_graph_of_every_replica_is_checked():
    """Replies need links in both directions: the second graph has them in one only."""
    quiet = State(np.zeros(1), {})
    method = Method(
        lambda key, shard: quiet,
        lambda key, state: Message(state.value, {}),
        Mean(lambda note, inbox: (1.0, inbox.weight)),
        lambda key, state, shard: state,
        lambda key, value, x: x,
        reply=lambda state, shard, heard: heard.value,
    )
    one_way = build(2, [(np.array([0]), np.array([1]), np.ones(1))])
    with pytest.raises(BadSetting, match="links in both directions"):
        simulate(method, shards(4), [topologies.ring(2), one_way], 1)
