"""Large messages are added up one by one, and every bit is that of all of them side by side."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise import methods
from peerwise import node as nodes
from peerwise import topology as topologies
from peerwise.channel import erasure
from peerwise.combine import cfa, data_size, decdiff, equal, median, metropolis
from peerwise.combine.apply import one_node
from peerwise.combine.running import Running, running
from peerwise.core import Chart, Inbox, Mean
from peerwise.mailbox import finite
from peerwise.models import naive_bayes
from peerwise.shards import pack
from peerwise.walk import walk

K, SIZE = 20, 1000
RULES = {
    "equal": equal(),
    "itself": equal(include_self=True),
    "data_size": data_size(),
    "metropolis": metropolis(),
    "cfa": cfa(),
    "decdiff": decdiff(),
    "total": equal()._replace(total=True),
}


def inboxes(seed, heard):
    """A node's own value and note, and an inbox in which some slots hold what must not be heard."""
    rng = np.random.default_rng(seed)
    value = {"w": rng.normal(size=(K, SIZE)), "b": rng.normal(size=(K, 3)) * 1e3}
    value = jax.tree.map(lambda a: a.astype(np.float32), value)
    weight = np.where(np.arange(K) < heard, rng.uniform(0.1, 1, K), 0).astype(np.float32)
    weight = rng.permutation(weight)
    value["w"][weight == 0] = np.nan
    own = jax.tree.map(lambda a: np.nan_to_num(a[0]) + 1, value)
    note = {"size": rng.integers(1, 90, K).astype(np.float32)}
    inbox = Inbox(value, note, weight, np.zeros(K, np.int32), link=np.abs(weight) + 0.1)
    return own, {"size": np.float32(17)}, inbox


@pytest.mark.some("equal", "total", "worst", "median")
@pytest.mark.parametrize("heard", [0, 1, 7, K])
@pytest.mark.parametrize("name", RULES)
def test_one_by_one_gives_the_bits_of_all_at_once(name, heard):
    rule = RULES[name]
    own, note, inbox = inboxes(3, heard)
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), inbox.value)
    adds = running(rule, own, note, inbox._replace(value=shapes), False)
    assert isinstance(adds, Running)
    values = [jax.tree.map(lambda a, k=k: a[k], inbox.value) for k in range(K)]
    alone = adds(own, note, inbox._replace(value=None), values)
    together = jax.jit(lambda *a: one_node(rule, *a))(own, note, inbox)
    jax.tree.map(np.testing.assert_array_equal, alone, together)


def test_rules_that_need_all_values_or_another_mean_are_left_alone():
    own, note, inbox = inboxes(0, 5)

    def near(note, inbox):
        apart = jnp.abs(inbox.value["w"]).sum(1)
        return jnp.float32(0), 1 / (1 + apart)

    charted = equal()._replace(chart=Chart(jnp.exp, jnp.log))
    powers = equal()._replace(chart=Chart(power=2))
    for rule in (median(), Mean(near), charted, powers):
        assert running(rule, own, note, inbox, False) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_found(bad):
    good = np.arange(6, dtype=np.float32)
    assert finite({"a": good, "b": np.zeros(0, np.float32), "c": np.arange(3)})
    assert finite(np.array([3e38, 3e38, -3e38], np.float32))  # whose sum is infinite
    for i in range(6):
        assert not finite(np.where(np.arange(6) == i, np.float32(bad), good))


@pytest.mark.bits
def test_nodes_take_large_messages_one_by_one_and_end_with_the_same_bits(monkeypatch):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    shards = pack(x, y, np.split(np.arange(20), 4))
    ring, method = topologies.ring(4), methods.crc(naive_bayes((0, 0), 2), m0=20.0)
    channel = erasure(0.6)

    def ends():
        return walk(method, shards, ring, 5, channel=channel, seed=3).state.value

    whole = ends()
    counted = []
    call = Running.__call__
    monkeypatch.setattr(nodes, "LARGE", 0)
    monkeypatch.setattr(Running, "__call__", lambda *a: counted.append(1) or call(*a))
    jax.tree.map(np.testing.assert_array_equal, ends(), whole)
    assert len(counted) == 4 * 5
