"""Losses with a probability for every link, sender or receiver."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise import topology
from peerwise.channel import erasure
from peerwise.errors import BadSetting

KEY = jax.random.key(8)
N = 6
ALL = topology.complete(N)
Q = np.random.default_rng(0).uniform(size=(N, N))


def share_arrived(channel, graph, rounds=2000):
    """How often each link delivers [e], and its two ends."""
    links = graph(KEY, 0)
    heard = jax.jit(lambda ts: jax.lax.map(lambda t: channel(KEY, t, links).weight > 0, ts))
    return np.asarray(heard(jnp.arange(rounds))).mean(0), np.asarray(links.src), links.dst


def assert_rate(share, q, rounds=2000):
    assert (np.abs(share - q) <= 5 * np.sqrt(q * (1 - q) / rounds)).all()


def test_every_link_has_a_rate_of_its_own():
    share, src, dst = share_arrived(erasure(Q), ALL)
    assert_rate(share, Q[src, dst])


def test_every_sender_and_every_receiver_has_a_rate_of_its_own():
    share, src, dst = share_arrived(erasure(Q[0], by="sender"), ALL)
    assert_rate(share, Q[0][src])
    share, src, dst = share_arrived(erasure(Q[0], by="receiver"), ALL)
    assert_rate(share, Q[0][dst])


def test_certain_links_are_certain():
    q = (np.arange(N)[:, None] < np.arange(N)).astype(float)
    share, src, dst = share_arrived(erasure(q), ALL, 50)
    np.testing.assert_array_equal(share, src < dst)


def test_links_of_one_rate_have_the_luck_that_one_number_gives():
    links = ALL(KEY, 0)
    one = erasure(0.4)(KEY, 3, links).weight
    for same in (
        erasure(np.full((N, N), 0.4)),
        erasure([0.4] * N, by="sender"),
        erasure([0.4] * N, by="receiver"),
    ):
        np.testing.assert_array_equal(one, same(KEY, 3, links).weight)


def test_messages_up_to_a_server_go_by_the_node_that_sends_them():
    up = topology.server(N)
    channels = [
        erasure(Q[0], by="sender"),
        erasure(np.column_stack([np.zeros((N, N)), Q[0]])),
    ]
    for channel in channels:
        channel.check(up, 10)
        share, src, _ = share_arrived(channel, up)
        assert_rate(share, Q[0][src])
    only = erasure([1.0] * N + [0.3], by="receiver")
    only.check(up, 10)
    assert_rate(share_arrived(only, up)[0], np.full(N, 0.3))


@pytest.mark.parametrize(
    ("channel", "graph", "says"),
    [
        (erasure(Q), topology.ring(7), "for 6 nodes that send and the topology has 7; make them"),
        (erasure(Q[0], by="sender"), topology.ring(5), "6 nodes that send and the topology has 5"),
        (erasure(Q[0], by="receiver"), topology.ring(7), "6 nodes that receive .* has 7"),
        (erasure(Q), topology.server(6), r"receive .* has 7 \(a server as node 6\)"),
        (erasure(Q[0], by="receiver"), topology.server(6), r"has 7 \(a server as node 6\)"),
        (erasure(np.ones((6, 7))), topology.ring(6), "7 nodes that receive and the topology has 6"),
    ],
)
def test_numbers_for_other_nodes_are_refused(channel, graph, says):
    with pytest.raises(BadSetting, match=says):
        channel.check(graph, 1)


def test_numbers_for_these_nodes_are_not_refused():
    for channel in (erasure(0.5), erasure(Q), erasure(Q[0], by="receiver")):
        channel.check(ALL, 10**6)


@pytest.mark.parametrize(
    ("q", "by", "says"),
    [
        ([0.1, 0.2], None, "say by='sender' or by='receiver'"),
        (0.5, "sender", r"needs one q for each node, \[n\], got the shape \(\)"),
        (Q, "receiver", r"got the shape \(6, 6\)"),
        (Q[:3], None, r"got the shape \(3, 6\)"),
        (Q[:, :3], None, r"got the shape \(6, 3\)"),
        (Q[None], None, r"got the shape \(1, 6, 6\)"),
        ([], "sender", "must be a number or an array"),
        ("0.5", None, "must be a number or an array of numbers, got '0.5'"),
        (None, None, "must be a number or an array of numbers"),
        ([[0.1, 0.2], [0.3]], None, "must be a number or an array of numbers"),
        (np.where(Q[1, 2] == Q, np.nan, Q), None, r"between 0 and 1, got nan at \[1, 2\]"),
        ([0.2, 1.5], "sender", r"between 0 and 1, got 1.5 at \[1\]"),
        ([0.2, -0.5], "receiver", r"between 0 and 1, got -0.5 at \[1\]"),
    ],
)
def test_what_is_no_probability_of_arrival_is_refused(q, by, says):
    with pytest.raises(BadSetting, match=says):
        erasure(q, by)


def test_a_kind_of_node_that_does_not_exist_is_refused():
    with pytest.raises(BadSetting, match="did you mean 'sender'"):
        erasure([0.5], by="senders")
