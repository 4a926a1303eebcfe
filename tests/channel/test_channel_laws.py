"""What every channel keeps to: luck by the ends of a link, no memory, no second compilation."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from helpers import assert_equal_runs
from peerwise import topology
from peerwise.channel import (
    both,
    bursty,
    churn,
    delay,
    erasure,
    random_delay,
    record,
    trace,
)
from peerwise.checkpoint import fingerprint
from peerwise.core import Links
from peerwise.errors import BadSetting
from peerwise.methods import crc
from peerwise.models import naive_bayes
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.walk import walk

KEY = jax.random.key(3)
N, ROUNDS = 6, 8
ALL = topology.complete(N)(KEY, 0)
RNG = np.random.default_rng(4)


def listing(seed, **more):
    """A trace of some pairs in every round."""
    rng = np.random.default_rng(seed)
    src, dst = (a.ravel() for a in np.indices((N, N)))
    rounds = np.repeat(np.arange(1, 41), 20)
    pair = np.concatenate([rng.permutation(N * N)[:20] for _ in range(40)])
    table = {"round": rounds, "src": src[pair], "dst": dst[pair]}
    table |= {name: draw(rng, rounds) for name, draw in more.items()}
    return pd.DataFrame(table)


def q_column(rng, rounds):
    return rng.uniform(0.2, 1, rounds.size)


def age_column(rng, rounds):
    return np.minimum(rng.integers(0, 3, rounds.size), rounds - 1)


CHANNELS = {
    "erasure": erasure(0.6),
    "erasure by link": erasure(RNG.uniform(0.3, 0.9, (N, N))),
    "erasure by sender": erasure(RNG.uniform(0.3, 0.9, N), by="sender"),
    "bursty": bursty(4, 3, q_good=0.9, q_bad=0.1),
    "churn": churn(6, 3, steady=1),
    "delay": delay(2),
    "random delay": random_delay(0.5, longest=3),
    "random delay, held": random_delay(0.3, longest=3, hold=True),
    "trace": trace(listing(1, q=q_column)),
    "late trace": trace(listing(2, age=age_column)),
    "both": both(erasure(0.8), random_delay(0.5, longest=3), churn(6, 3)),
}
CERTAIN = ("delay", "random delay, held")  # all arrives once there was time for it
every = pytest.mark.parametrize("name", CHANNELS)


def quickly(*names, of=CHANNELS):
    """Some channels; the others with all that takes long."""
    return pytest.mark.parametrize(
        "name", [pytest.param(n, marks=() if n in names else pytest.mark.full) for n in of]
    )


some = quickly("erasure", "churn", "random delay, held", "late trace")


def arrays(links):
    return [np.asarray(leaf) for leaf in links]


def assert_same(a, b):
    for x, y in zip(arrays(a), arrays(b), strict=True):
        np.testing.assert_array_equal(x, y)


def places(links, where):
    return Links(*(leaf[where] for leaf in links))


@some
def test_only_weights_fall_and_ages_rise(name):
    channel = CHANNELS[name]
    came = [channel(KEY, t, ALL) for t in range(ROUNDS)]
    for t, links in enumerate(came):
        assert_same(links[:2], ALL[:2])
        weight, age = np.asarray(links.weight), np.asarray(links.age)
        assert ((weight == 0) | (weight == ALL.weight)).all()
        assert (age <= channel.lag).all()
        assert (age[weight > 0] <= t).all()
        for new, old in zip(links, ALL, strict=True):
            assert new.dtype == old.dtype
    arrived = np.mean([np.asarray(links.weight) > 0 for links in came[3:]])
    assert arrived == 1 if name in CERTAIN else 0.1 < arrived < 0.95


@every
def test_what_a_node_says_to_itself_arrives_at_once(name):
    i = jnp.arange(N, dtype=jnp.int32)
    i = jnp.tile(i, ALL.src.size // N)  # as many links as elsewhere, which compiles nothing new
    own = Links(i, i, jnp.full(i.size, 0.5, jnp.float32), jnp.zeros_like(i))
    for t in range(4):
        assert_same(CHANNELS[name](KEY, t, own), own)


@pytest.mark.parametrize("name", [n for n in CHANNELS if n not in (*CERTAIN, "late trace")])
def test_another_key_is_other_luck(name):
    channel = CHANNELS[name]
    first, second = (
        np.stack([channel(key, t, ALL).weight for t in range(ROUNDS)])
        for key in (KEY, jax.random.key(9))
    )
    assert (first != second).any()


# --- compiled once

PAIRS = {
    "erasure": (erasure(0.1), erasure(0.9)),
    "erasure by link": (erasure(np.full((N, N), 0.1)), erasure(np.full((N, N), 0.9))),
    "erasure by sender": (erasure([0.1] * N, by="sender"), erasure([0.9] * N, by="sender")),
    "bursty": (bursty(2, 8), bursty(300, 30, q_good=0.9, q_bad=0.1)),
    "churn": (churn(3, 9), churn(200, 20)),
    "delay": (delay(2), delay(2)),
    "random delay": (random_delay(0.2, longest=3), random_delay(0.9, longest=3, hold=True)),
    "trace": (trace(listing(0)), trace(listing(5))),
    "both": (both(delay(1), erasure(0.2)), both(delay(1), erasure(0.9))),
}


@pytest.mark.parametrize("name", PAIRS)
def test_other_numbers_do_not_compile_again(name):
    traced = []

    @jax.jit
    def run(channel, t):
        traced.append(channel.lag)
        return channel(KEY, t, ALL).weight.sum()

    few, many = PAIRS[name]
    counts = [sum(float(run(channel, t)) for t in range(2, 12)) for channel in (few, many)]
    assert len(traced) == 1
    assert counts[0] < counts[1] or name in ("delay", "trace")


@pytest.mark.parametrize("name", [name for name in PAIRS if name != "delay"])
def test_a_saved_run_is_told_from_one_with_another_channel(name):
    few, many = PAIRS[name]
    assert fingerprint(few) != fingerprint(many)
    assert fingerprint(few) == fingerprint(few)


# --- to the last bit, compiled as users do


@pytest.mark.bits
@every
def test_order_and_padding_do_not_matter(name):
    channel, t = CHANNELS[name], 5
    straight = channel(KEY, t, ALL)
    order = np.random.default_rng(1).permutation(ALL.src.size)
    assert_same(channel(KEY, t, places(ALL, order)), places(straight, order))
    padded(channel, t, straight, ALL.src.size - PADS)  # as many in all, which compiles nothing new


PADS = 9


def padded(channel, t, straight, first):
    """The first links and then some that are none."""
    none = np.zeros(PADS, np.int32)
    pad = Links(none, none + N - 1, none.astype(np.float32), none)
    wide = Links(*(np.append(a[:first], b) for a, b in zip(ALL, pad, strict=True)))
    wide = channel(KEY, t, wide)
    assert_same(places(wide, slice(first)), places(straight, slice(first)))
    assert not np.asarray(wide.weight)[first:].any()


@pytest.mark.bits
@quickly("erasure by link")
def test_more_links_do_not_matter(name):
    channel, t = CHANNELS[name], 5
    padded(channel, t, channel(KEY, t, ALL), ALL.src.size)


@pytest.mark.bits
@some
def test_rounds_can_be_looked_at_in_any_order_and_any_number(name):
    """One by one, backwards, in a compiled loop, side by side with other keys."""
    channel, keys = CHANNELS[name], jax.random.split(KEY)
    loop = jax.jit(jax.vmap(lambda k: jax.lax.map(lambda t: channel(k, t, ALL), jnp.arange(20))))
    many = loop(keys)
    for i, t in ((0, 7), (1, 19), (1, 16), (0, 15), (0, 0), (0, 15), (1, 3)):
        assert_same(channel(keys[i], t, ALL), places(many, (i, t)))


@pytest.mark.bits
@some
def test_precision_does_not_matter(name):
    channel, t = CHANNELS[name], 5
    single = channel(KEY, t, ALL)
    with jax.enable_x64(True):
        wide = Links(
            jnp.asarray(ALL.src, jnp.int64),
            jnp.asarray(ALL.dst, jnp.int64),
            jnp.asarray(ALL.weight, jnp.float64),
            ALL.age,
        )
        double = channel(KEY, jnp.asarray(t), wide)
        assert_same(double, single)
        assert double.weight.dtype == np.float64


# --- in a run

MODEL = naive_bayes((0, 3), 2)
GRAPHS = {"tree": topology.random_tree(N, seed=3), "server": topology.server(N)}


def rows():
    rng = np.random.default_rng(7)
    y = rng.integers(2, size=4 * N)
    x = np.column_stack([rng.normal(0.6 * y, 1), (y + rng.integers(3, size=y.size) // 2) % 3])
    return pack(x, y, np.split(np.arange(y.size), N))


DATA, METHOD = rows(), crc(MODEL, m0=40.0)


def run(runtime, channel, graph="tree", **options):
    options |= {"channel": channel, "seed": 5, "at": [1, 3, 6], "stages": ("combine", "adapt")}
    options["probe"] = look
    return runtime(METHOD, DATA, GRAPHS[graph], 6, **options)


def look(method, state):
    return state.value


@pytest.mark.bits
@quickly("both")
def test_runtimes_agree_to_the_last_bit(name):
    assert_equal_runs(run(simulate, CHANNELS[name], exact=True), run(walk, CHANNELS[name]))


@pytest.mark.bits
@quickly("erasure by sender", of=["erasure by sender", "both"])
def test_runtimes_agree_on_a_server(name):
    channel = CHANNELS[name]
    exact = run(simulate, channel, "server", exact=True)
    assert_equal_runs(exact, run(walk, channel, "server"))


@pytest.mark.bits
@quickly("churn", of=["churn", "both"])
def test_a_recorded_run_replays_to_the_last_bit(name):
    channel = CHANNELS[name]
    first = run(simulate, channel, exact=True)
    replayed = run(simulate, trace(record(channel, GRAPHS["tree"], 6, seed=5)), exact=True)
    assert_equal_runs(replayed, first)
    other = run(simulate, trace(record(channel, GRAPHS["tree"], 6, seed=6)), exact=True)
    a, b = (jax.tree.leaves(r.state.value)[0] for r in (first, other))
    assert not np.array_equal(a, b)


@pytest.mark.bits
@quickly("random delay, held", of=["bursty", "random delay, held"])
def test_a_run_taken_up_again_is_the_same_run(name):
    channel = CHANNELS[name]
    half = run(simulate, channel, until=3)
    assert_equal_runs(run(simulate, channel, resume=half), run(simulate, channel))


@pytest.mark.parametrize("runtime", [simulate, walk])
def test_a_channel_that_does_not_fit_is_refused_before_the_run(runtime):
    short = trace(record(erasure(0.5), GRAPHS["tree"], 5))
    with pytest.raises(BadSetting, match="stops after round 5; the run asks for 6"):
        run(runtime, short)
    with pytest.raises(BadSetting, match="numbers for 4 nodes that send and the topology has 6"):
        run(runtime, erasure([0.5] * 4, by="sender"))
