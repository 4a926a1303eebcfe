"""Messages that are late by chance, and channels one after the other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise import topology
from peerwise.channel import Channel, both, bursty, delay, erasure, perfect, random_delay
from peerwise.channel.loss import luck
from peerwise.core import Links
from peerwise.errors import BadSetting

KEY = jax.random.key(2)
LINKS = topology.complete(12)(KEY, 0)
E = LINKS.src.size
ROUNDS = 25


@jax.jit
def through(channel, key, ts, links):
    return jax.lax.map(lambda t: channel(key, t, links)[2:], ts)


def history(channel, rounds=ROUNDS, key=KEY, links=LINKS):
    """Weight and age of every link [rounds, e]."""
    return [np.asarray(a) for a in through(channel, key, jnp.arange(rounds), links)]


def lateness(channel, key, rounds=ROUNDS):
    """How late the message sent in each round is [rounds, e], which every receiver must find."""
    within = np.asarray(channel.draw.args[0])
    draw = jax.jit(lambda ts: jax.lax.map(lambda t: luck(key, t, LINKS), ts))
    return (np.asarray(draw(jnp.arange(rounds)))[..., None] >= within).sum(-1)


def mailboxes(late, sent, hold, longest):
    """The slow and obvious way: post each message, open what comes, keep the newest."""
    rounds, e = late.shape
    weight, age = np.zeros((rounds, e)), np.zeros((rounds, e), int)
    for link in range(e):
        newest = -1
        for t in range(rounds):
            comes = [
                s for s in range(t + 1) if sent[s, link] and s + late[s, link] == t and s > newest
            ]
            newest = max(comes, default=newest)
            if newest >= 0 and (comes or hold) and t - newest <= longest:
                weight[t, link], age[t, link] = 1, t - newest
    return weight, age


def assert_same(channel, late, sent, hold=False, key=KEY, longest=4):
    weight, age = history(channel, key=key)
    expected, ages = mailboxes(late, sent, hold, longest)
    np.testing.assert_array_equal(weight, expected)
    np.testing.assert_array_equal(age[weight > 0], ages[weight > 0])
    assert 0 < weight.mean() < 1


@pytest.mark.parametrize("hold", [False, True])
def test_the_newest_that_has_arrived_is_heard(hold):
    channel = random_delay(0.4, longest=4, hold=hold)
    late = lateness(channel, KEY)
    assert_same(channel, late, np.ones((ROUNDS, E), bool), hold)


def test_held_messages_are_heard_in_every_round_once_all_had_time():
    weight, age = history(random_delay(0.2, longest=3, hold=True))
    assert (weight[3:] == 1).all()
    assert set(np.unique(age[3:])) == {0, 1, 2, 3}
    weight, _ = history(random_delay(0.2, longest=3))
    assert 0.2 < weight[3:].mean() < 0.8


def test_delays_have_the_truncated_geometric_law():
    channel, rounds = random_delay(0.3, longest=5), 400
    assert channel.lag == 5
    late = lateness(channel, KEY, rounds)
    law = 0.3 * 0.7 ** np.arange(6)
    law /= law.sum()
    for d, p in enumerate(law):
        assert abs((late == d).mean() - p) < 5 * np.sqrt(p * (1 - p) / late.size)
    assert late.max() == 5
    centred = late - (law * np.arange(6)).sum()
    var = centred.var()
    for a, b in (
        (centred[1:], centred[:-1]),  # one message after the other
        (centred[:, ::2], centred[:, 1::2]),  # one link beside the other
    ):
        assert abs((a * b).mean()) < 5 * var / np.sqrt(a.size)


def test_what_is_heard_has_the_age_that_the_law_gives():
    """Age a is heard if the message is a rounds late and the a newer ones are not there yet."""
    weight, age = history(random_delay(0.4, longest=6), 300)
    law = 0.4 * 0.6 ** np.arange(7)
    law /= law.sum()
    heard = weight[6:] > 0
    for a in range(7):
        missing = np.prod([1 - law[: d + 1].sum() for d in range(a)])
        p = law[a] * missing
        hits = heard & (age[6:] == a)
        per_link = hits.mean(0)
        assert abs(per_link.mean() - p) < 5 * np.sqrt(p * (1 - p) / hits.size) + 1e-9


def test_certain_arrival_is_a_perfect_channel():
    for longest in (0, 3):
        weight, age = history(random_delay(1, longest=longest))
        assert (weight == 1).all()
        assert (age == 0).all()
    weight, age = history(random_delay(0.1, longest=0))
    assert (weight == 1).all()


@pytest.mark.parametrize("channel", [delay(3), random_delay(0.3), random_delay(0.3, hold=True)])
def test_what_a_node_says_to_itself_is_there_at_once(channel):
    i = jnp.arange(5, dtype=jnp.int32)
    links = Links(i, i, jnp.ones(5, jnp.float32), jnp.zeros(5, jnp.int32))
    for one in (channel, both(erasure(0), channel), both(channel, erasure(0))):
        weight, age = history(one, 4, links=links)
        assert (weight == 1).all()
        assert (age == 0).all()


@pytest.mark.parametrize("q", [-0.1, 1.1, float("nan"), "0.5", True])
def test_a_rate_of_arrival_is_a_probability(q):
    with pytest.raises(BadSetting, match=r"q must be (greater than 0 and at most 1|a number), got"):
        random_delay(q)


def test_messages_that_never_arrive_and_other_nonsense_are_refused():
    with pytest.raises(BadSetting, match="q must be greater than 0"):
        random_delay(0)
    for longest in (-1, 1.5, True):
        with pytest.raises(BadSetting, match=r"longest must be (0 or more|a whole number), got"):
            random_delay(0.5, longest)
    with pytest.raises(BadSetting, match="hold must be true or false, got 'yes'"):
        random_delay(0.5, hold="yes")


# --- one after the other


LOSSY = bursty(4, 3)


def key_of(i):
    return jax.random.fold_in(KEY, i)


@pytest.mark.full
def test_a_message_arrives_if_it_gets_through_all():
    channels = erasure(0.8), bursty(4, 3)
    parts = [history(c, key=key_of(i))[0] for i, c in enumerate(channels)]
    weight, age = history(both(*channels))
    np.testing.assert_array_equal(weight, np.prod(parts, axis=0))
    assert (age == 0).all()
    assert weight.any()


def test_rates_multiply_even_of_one_kind():
    weight, _ = history(both(erasure(0.5), erasure(0.5)), 200)
    assert abs(weight.mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / weight.size)


@pytest.mark.full
def test_none_or_one_channel_is_that_channel():
    for nothing in (both(), both(perfect()), both(both())):
        assert (history(nothing, 3)[0] == 1).all()
    for one in (erasure(0.3), random_delay(0.3), delay(2)):
        for same, expected in zip(history(both(one)), history(one, key=key_of(0)), strict=True):
            np.testing.assert_array_equal(same, expected)


def test_losses_before_a_delay_fall_when_a_message_is_sent():
    lossy = LOSSY
    sent, _ = history(lossy, key=key_of(0))
    weight, age = history(both(lossy, delay(2)))
    np.testing.assert_array_equal(weight[2:], sent[:-2])
    assert not weight[:2].any()
    assert (age == 2).all()


def test_losses_after_a_delay_fall_when_it_arrives():
    lossy = LOSSY
    there, _ = history(lossy, key=key_of(1))
    weight, age = history(both(delay(2), lossy))
    np.testing.assert_array_equal(weight[2:], there[2:])
    assert not weight[:2].any()
    assert (age == 2).all()


@pytest.mark.parametrize("hold", [False, True])
def test_a_lost_message_overtakes_no_other(hold):
    late = random_delay(0.4, longest=4, hold=hold)
    sent, _ = history(LOSSY, key=key_of(0))
    channel = both(LOSSY, late)
    assert channel.lag == 4
    assert_same(channel, lateness(late, key_of(1)), sent > 0, hold)


@pytest.mark.full
def test_channels_in_channels_keep_their_order():
    late = random_delay(0.4, longest=4)
    outer = both(erasure(0.8), both(erasure(0.7), late))
    assert outer.lag == 4
    keys = key_of(0), *(jax.random.fold_in(key_of(1), i) for i in range(2))
    sent = history(erasure(0.8), key=keys[0])[0] * history(erasure(0.7), key=keys[1])[0]
    assert_same(outer, lateness(late, keys[2]), sent > 0)
    alone = both(erasure(0.8), both(late))
    sent, _ = history(erasure(0.8), key=keys[0])
    assert_same(alone, lateness(late, keys[1]), sent > 0)


def test_what_channels_need_is_what_their_sum_needs():
    q = np.full((12, 12), 0.5)
    channel = both(erasure(q), delay(1), erasure(q[0], by="sender"))
    channel.check(topology.complete(12), 5)
    with pytest.raises(BadSetting, match="numbers for 12 nodes"):
        channel.check(topology.complete(11), 5)


def test_two_delays_and_what_is_no_channel_are_refused():
    with pytest.raises(BadSetting, match="one channel at most may be late, got lags of 2 and 8"):
        both(delay(2), erasure(0.5), random_delay())
    with pytest.raises(BadSetting, match=r"both takes channels, .* got 0.5"):
        both(0.5)
    assert both(delay(0), delay(2)).lag == 2
    assert isinstance(both(delay(2), random_delay(0.5, longest=0)), Channel)
