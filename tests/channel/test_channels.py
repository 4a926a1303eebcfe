"""Which messages arrive, and when."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise import channel, topology
from peerwise.core import Links
from peerwise.errors import BadSetting

KEY = jax.random.key(3)
LINKS = topology.complete(40)(KEY, 0)


def arrived(links):
    return np.asarray(links.weight) > 0


@pytest.mark.some("churn", "random_delay")
@pytest.mark.parametrize(
    "name", [name for name in channel.__all__ if name not in ("Channel", "record", "trace")]
)
def test_every_channel_keeps_who_links_to_whom_and_adds_nothing(name):
    one = channel.quiet_node(40) if name == "quiet_node" else getattr(channel, name)()
    for t in range(3):
        links = one(KEY, t, LINKS)
        np.testing.assert_array_equal(links.src, LINKS.src)
        np.testing.assert_array_equal(links.dst, LINKS.dst)
        assert (links.weight <= LINKS.weight).all()
        assert (links.age <= one.lag).all()
        for new, old in zip(links, LINKS, strict=True):
            assert new.dtype == old.dtype


def test_a_perfect_channel_changes_nothing():
    for new, old in zip(channel.perfect()(KEY, 5, LINKS), LINKS, strict=True):
        np.testing.assert_array_equal(new, old)


def test_as_many_messages_arrive_as_q_says():
    one = channel.erasure(0.3)
    count = sum(arrived(one(KEY, t, LINKS)).sum() for t in range(20))
    total = 20 * LINKS.src.size
    assert abs(count - 0.3 * total) < 4 * np.sqrt(total * 0.3 * 0.7)


def test_all_or_none_arrive_at_the_ends_of_the_scale():
    assert arrived(channel.erasure(1)(KEY, 0, LINKS)).all()
    assert not arrived(channel.erasure(0)(KEY, 0, LINKS)).any()


def test_what_arrives_keeps_its_weight():
    links = topology.metropolis(topology.star(9))(KEY, 0)
    kept = channel.erasure(0.5)(KEY, 1, links).weight
    assert set(np.unique(kept)) == {np.float32(0), np.float32(1 / 9)}


def test_rounds_keys_and_directions_have_luck_of_their_own():
    one = channel.erasure(0.5)
    first = arrived(one(KEY, 0, LINKS))
    assert (first != arrived(one(KEY, 1, LINKS))).any()
    assert (first != arrived(one(jax.random.key(4), 0, LINKS))).any()
    luck = np.zeros((40, 40), bool)
    luck[LINKS.src, LINKS.dst] = first
    assert (luck != luck.T).any()
    np.testing.assert_array_equal(first, arrived(one(KEY, 0, LINKS)))


@settings(derandomize=True, deadline=None, max_examples=5)
@given(seed=st.integers(0, 1000), t=st.integers(0, 10**6))
def test_the_order_of_links_does_not_change_their_luck(seed, t):
    order = np.random.default_rng(seed).permutation(LINKS.src.size)
    one = channel.erasure(0.5)
    straight = one(KEY, t, LINKS).weight
    mixed = one(KEY, t, Links(*(leaf[order] for leaf in LINKS))).weight
    np.testing.assert_array_equal(mixed, straight[order])
    few = one(KEY, t, Links(*(leaf[:7] for leaf in LINKS))).weight
    np.testing.assert_array_equal(few, straight[:7])


def test_double_precision_does_not_change_the_draw():
    single = arrived(channel.erasure(0.3)(KEY, 7, LINKS))
    with jax.enable_x64(True):
        wide = Links(
            jnp.asarray(LINKS.src, jnp.int64),
            jnp.asarray(LINKS.dst, jnp.int64),
            jnp.asarray(LINKS.weight, jnp.float64),
            LINKS.age,
        )
        for links in (LINKS, wide):
            np.testing.assert_array_equal(single, arrived(channel.erasure(0.3)(KEY, 7, links)))
        jitted = jax.jit(lambda one, t: one(KEY, t, wide))(channel.erasure(0.3), 7)
        np.testing.assert_array_equal(single, arrived(jitted))
        assert jitted.weight.dtype == np.float64


def test_what_a_node_says_to_itself_always_arrives():
    i = jnp.arange(5, dtype=jnp.int32)
    links = Links(i, i, jnp.ones(5, jnp.float32), jnp.zeros(5, jnp.int32))
    assert arrived(channel.erasure(0)(KEY, 0, links)).all()


def test_messages_up_to_a_server_can_be_lost():
    links = topology.server(200)(KEY, 0)
    share = arrived(channel.erasure(0.5)(KEY, 0, links)).mean()
    assert 0.35 < share < 0.65


def test_padding_stays_padding():
    assert not arrived(channel.erasure(1)(KEY, 0, topology.alone()(KEY, 0))).any()
    assert not arrived(channel.delay(0)(KEY, 0, topology.alone()(KEY, 0))).any()


def test_late_messages_have_an_age_and_the_first_are_awaited():
    one = channel.delay(2)
    assert one.lag == 2
    for t in range(5):
        links = one(KEY, t, LINKS)
        assert (links.age == 2).all()
        assert arrived(links).all() if t >= 2 else not arrived(links).any()
    assert channel.perfect().lag == channel.erasure(0.5).lag == channel.delay(0).lag == 0


def test_another_loss_rate_does_not_compile_again():
    traced = []

    @jax.jit
    def run(one, t):
        traced.append(one.lag)
        return one(KEY, t, LINKS)

    shares = [arrived(run(channel.erasure(q), 0)).mean() for q in (0.1, 0.5, 0.9)]
    assert shares == sorted(shares)
    run(channel.delay(2), 0)
    run(channel.delay(2), 3)
    assert traced == [0, 2]


@pytest.mark.parametrize("q", [-0.1, 1.1, float("nan")])
def test_a_probability_outside_0_and_1_is_refused(q):
    with pytest.raises(BadSetting, match=f"between 0 and 1, got {q}"):
        channel.erasure(q)


@pytest.mark.parametrize("rounds", [-1, 1.5, True])
def test_a_delay_is_a_whole_number_of_rounds(rounds):
    with pytest.raises(BadSetting, match=f"rounds must be .*, got {rounds}"):
        channel.delay(rounds)
