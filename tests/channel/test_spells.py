"""Links that fail in bursts and nodes that come and go: two-state Markov chains."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise import topology
from peerwise.channel import bursty, churn
from peerwise.channel.spells import BLOCK
from peerwise.core import Links
from peerwise.errors import BadSetting

KEY = jax.random.key(1)
GOOD, BAD, ROUNDS = 9.0, 4.0, 400
SHARE, RENEW = GOOD / (GOOD + BAD), 1 / GOOD + 1 / BAD


def links_of(src, dst):
    src, dst = (jnp.asarray(a, jnp.int32) for a in np.broadcast_arrays(src, dst))
    return Links(src, dst, jnp.ones(src.shape, jnp.float32), jnp.zeros_like(src))


@jax.jit
def heard(channel, key, ts, links):
    return jax.lax.map(lambda t: channel(key, t, links).weight > 0, ts)


AT_ONCE = 20  # rounds: histories of any length are of one program


def history(channel, links, rounds=ROUNDS, start=0):
    """What arrived [rounds, e]."""
    parts = [
        np.asarray(heard(channel, KEY, first + np.arange(AT_ONCE), links))
        for first in range(start, start + rounds, AT_ONCE)
    ]
    return np.concatenate(parts)[:rounds]


ALL = topology.complete(34)(KEY, 0)
STAR = links_of(0, np.arange(1, 1101))  # from a steady node 0: a link works while its end is up
CHAINS = {
    "links": lambda good, bad: (bursty(good, bad), ALL),
    "nodes": lambda good, bad: (churn(good, bad, steady=0), STAR),
}


@pytest.fixture(scope="module", params=CHAINS)
def states(request):
    """Which of 1,100 chains are in a good spell [rounds, e]."""
    return history(*CHAINS[request.param](GOOD, BAD))


def assert_rate(hits, p):
    """Independent trials that succeed with probability p."""
    hits = np.asarray(hits)
    assert hits.size > 100
    assert abs(hits.mean() - p) < 5 * np.sqrt(p * (1 - p) / hits.size)


@pytest.mark.some("links")
def test_chains_are_stationary_from_the_first_round(states):
    for t in (0, 1, 5, BLOCK - 1, BLOCK, BLOCK + 1, 100, ROUNDS - 1):
        assert_rate(states[t], SHARE)
    of_chains = states.mean(0)
    assert abs(of_chains.mean() - SHARE) < 5 * of_chains.std() / np.sqrt(of_chains.size)


@pytest.mark.full  # `make test`: test_chains_are_stationary_from_the_first_round
def test_the_next_state_depends_on_this_one_and_nothing_before(states):
    before, now, after = states[:-2], states[1:-1], states[2:]
    for was in (False, True):
        assert_rate(~after[now & (before == was)], 1 / GOOD)
        assert_rate(after[~now & (before == was)], 1 / BAD)
    far = states[: -BLOCK - 1]  # a block ago
    now, after = states[BLOCK:-1], states[BLOCK + 1 :]
    for was in (False, True):
        assert_rate(~after[now & (far == was)], 1 / GOOD)
        assert_rate(after[~now & (far == was)], 1 / BAD)


def test_where_blocks_of_rounds_meet_nothing_can_be_seen(states):
    for j in range(BLOCK):
        now, after = states[j:-1:BLOCK], states[j + 1 :: BLOCK]
        now = now[: len(after)]
        assert_rate(~after[now], 1 / GOOD)
        assert_rate(after[~now], 1 / BAD)


def lengths(states, kind, room=150):
    """Of the spells that begin early enough to be seen to their end."""
    found = []
    for chain in kind == states.T:
        begins = np.flatnonzero(chain[1:] & ~chain[:-1]) + 1
        ends = np.append(np.flatnonzero(~chain), chain.size)
        begins = begins[begins < chain.size - room]
        found.append(ends[np.searchsorted(ends, begins)] - begins)
    return np.concatenate(found)


@pytest.mark.parametrize(("kind", "mean"), [(True, GOOD), (False, BAD)])
def test_spells_have_the_mean_and_the_tail_of_a_geometric_law(states, kind, mean):
    found = lengths(states, kind)
    assert found.size > 5000
    assert abs(found.mean() - mean) < 5 * np.sqrt(mean * (mean - 1) / found.size)
    for k in (1, 2, 5, 10, BLOCK, 2 * BLOCK):
        p = (1 - 1 / mean) ** k
        assert abs((found > k).mean() - p) < 5 * np.sqrt(p * (1 - p) / found.size) + 1e-9


def test_the_past_is_forgotten_as_the_law_says(states):
    for gap in (1, 3, 8, BLOCK, 40):
        products = (states[:-gap] - SHARE) * (states[gap:] - SHARE)
        per_chain = products.mean(0)
        expected = SHARE * (1 - SHARE) * (1 - RENEW) ** gap
        assert abs(per_chain.mean() - expected) < 5 * per_chain.std() / np.sqrt(per_chain.size)


@pytest.mark.full
@pytest.mark.parametrize("kind", CHAINS)
def test_very_long_spells_end_and_are_looked_up_far_back(kind):
    channel, links = CHAINS[kind](2000, 1000)
    for state in history(channel, links, 30)[[0, 29]]:  # hardly any was renewed since the start
        assert_rate(state, 2 / 3)
    states = history(channel, links, 30, start=5000)
    for t in (0, 29):
        assert_rate(states[t], 2 / 3)
    changed = states[1:] != states[:-1]
    assert_rate(changed, 2 / 3000)


@pytest.mark.long("nodes")
@pytest.mark.parametrize("kind", CHAINS)
def test_two_and_two_is_a_coin(kind):
    states = history(*CHAINS[kind](2, 2), 40)
    for gap in (1, BLOCK - 1, BLOCK):
        assert_rate(states[:-gap] == states[gap:], 0.5)


@pytest.mark.full
def test_some_arrive_in_bad_spells_and_some_are_lost_in_good_ones():
    came = history(bursty(6, 3, q_good=0.9, q_bad=0.2), ALL)
    of_links = came.mean(0)
    expected = (6 * 0.9 + 3 * 0.2) / 9
    assert abs(of_links.mean() - expected) < 5 * of_links.std() / np.sqrt(of_links.size)
    together = (came[1:] & came[:-1]).mean(0)
    stay = 1 - 1 / 6  # good to good; bad to bad is 2 / 3
    both = (2 * (stay * 0.81 + (1 - stay) * 0.18) + (1 / 3) * 0.18 + (2 / 3) * 0.04) / 3
    assert abs(together.mean() - both) < 5 * together.std() / np.sqrt(together.size)


def test_links_and_directions_have_spells_of_their_own():
    states = history(bursty(GOOD, BAD), ALL, 200)
    n = 34
    luck = np.full((200, n, n), np.nan)
    luck[:, ALL.src, ALL.dst] = states - SHARE
    sd = SHARE * (1 - SHARE)
    i, j = np.triu_indices(n, 1)
    near = np.arange(n - 2)
    for t in (0, 50, 199):
        for a, b in (
            (luck[t, i, j], luck[t, j, i]),  # the two directions
            (luck[t, near, near + 1], luck[t, near, near + 2]),  # one sender
            (luck[t, near + 1, near], luck[t, near + 2, near]),  # one receiver
        ):
            assert abs((a * b).mean()) < 5 * sd / np.sqrt(a.size)
    of_pairs = (luck[:, i, j] * luck[:, j, i]).mean(0)
    assert abs(of_pairs.mean()) < 5 * of_pairs.std() / np.sqrt(of_pairs.size)


@pytest.mark.full
def test_a_link_works_when_both_its_ends_are_up():
    channel = churn(GOOD, BAD, steady=40)
    n = 12
    up = history(channel, links_of(40, np.arange(n)), 60)
    i, j = (a.ravel() for a in np.indices((n, n)))
    works = history(channel, links_of(i, j), 60)
    np.testing.assert_array_equal(works, (up[:, i] & up[:, j]) | (i == j))
    assert 0.3 < works.mean() < 0.7


@pytest.mark.full  # `make test`: test_chains_are_stationary_from_the_first_round
def test_nodes_come_and_go_each_on_its_own():
    states = history(churn(GOOD, BAD, steady=0), STAR, 200) - SHARE
    pairs = (states[:, ::2] * states[:, 1::2]).mean(0)
    assert abs(pairs.mean()) < 5 * pairs.std() / np.sqrt(pairs.size)


def test_a_server_goes_down_unless_it_is_steady():
    n = 300
    up = topology.server(n)(KEY, 0)
    shaky = history(churn(3, 3), up, 60).mean(1)
    assert (shaky == 0).any()
    assert (shaky > 0).any()
    steady = history(churn(3, 3, steady=n), up, 60)
    assert_rate(steady[20], 0.5)
    assert (steady.mean(1) > 0.3).all()


def test_nobody_hears_a_node_that_is_down_and_it_hears_nobody():
    links = topology.complete(20)(KEY, 0)
    came = history(churn(5, 5), links, 30)
    sends, hears = np.zeros((30, 20), bool), np.zeros((30, 20), bool)
    for t in range(30):
        sends[t, np.asarray(links.src)[came[t]]] = True
        hears[t, np.asarray(links.dst)[came[t]]] = True
    np.testing.assert_array_equal(sends, hears)
    assert 0.2 < sends.mean() < 0.8


@pytest.mark.parametrize("made", [bursty, churn])
def test_spells_too_short_for_chance_are_refused(made):
    made(2, 2)
    made(1.25, 5)
    made(1.5, 3)
    with pytest.raises(BadSetting, match=r"faster than chance: .* make one of them longer"):
        made(1.5, 2)
    names = ("good", "bad") if made is bursty else ("up", "down")
    for wrong in (0.5, -1, float("nan"), float("inf"), "5", None, True):
        with pytest.raises(BadSetting, match=f"{names[0]} must be .*, got"):
            made(wrong, 5)
        with pytest.raises(BadSetting, match=f"{names[1]} must be .*, got"):
            made(5, wrong)


@pytest.mark.parametrize("q", [-0.1, 1.1, float("nan"), "1"])
def test_what_is_no_probability_is_refused(q):
    for name in ("q_good", "q_bad"):
        with pytest.raises(BadSetting, match=f"{name} must be (between 0 and 1|a number), got"):
            bursty(**{name: q})


@pytest.mark.parametrize("node", [-1, 1.5, "a", True])
def test_a_steady_node_is_a_number(node):
    with pytest.raises(BadSetting, match=r"steady .*must be a whole number"):
        churn(steady=[node])
