"""Aligned sums: exact sums of the same round over known members, whatever is lost or goes away."""

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from jax.tree_util import Partial

from helpers import assert_equal_runs
from peerwise import topology as topologies
from peerwise.channel import Channel, erasure
from peerwise.core import Inbox, Method, Slots, State, number_of
from peerwise.methods import aligned, words
from peerwise.methods.aligned import Aligned
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.walk import walk

N, SIZE, LAST, TICKS, LEAST = 8, 3, 40, 700, 5
SHARDS = pack(np.zeros((N, 1)), np.zeros(N), np.arange(N)[:, None])
RECORDED = ("done", "before", "total", "lost", "made", "epoch", "chief", "members", "name")


def mixed(a):
    """A number that looks random, of 32 bits, in JAX or NumPy."""
    a = (a ^ (a >> 16)) * np.uint32(0x7FEB352D)
    a = (a ^ (a >> 15)) * np.uint32(0x846CA68B)
    return a ^ (a >> 16)


def term_of(number, at, total, xp=jnp):
    """What a node adds in a round: depends on all bits of the total before; below 2^58."""
    place = xp.arange(SIZE, dtype=np.uint32)
    seed = number * np.uint32(40503) + at.astype(np.uint32) * np.uint32(977) + place
    low = mixed(seed + mixed(total[..., 0]))
    return xp.stack([low, mixed(low ^ total[..., 1]) >> np.uint32(6)], -1)


def summing(sums):
    """A method that does nothing but sum."""

    def init(key, shard):
        return State(sums.begin(number_of(key)), {})

    def adapt(key, state, shard):
        s = state.value
        _, at = sums.due(s)
        return State(sums.making(s, term_of(s["name"], at, s["total"])), {})

    def reply(state, shard, heard):
        return sums.said(state.value, heard.part)

    return Method(
        init, aligned.silent, Slots(sums.listened), adapt, None, reply, numbered=True
    )  # fmt: skip


WAITING = summing(Aligned(N, SIZE, LAST, least=N))
LEAVING = summing(Aligned(N, SIZE, LAST, least=LEAST, patience=80))
WHOLE = topologies.complete(N)


def _taped(alive, key, t, there):
    return there._replace(weight=jnp.where(alive[t, there.src, there.dst], there.weight, 0))


def taped(alive):
    """A channel of which is known what arrives: [rounds, from, to]."""
    return Channel(Partial(_taped, jnp.asarray(alive)))


def look(method, state):
    return {k: state.value[k] for k in RECORDED}


def seen(method, alive):
    """What nodes had after every round, by name [rounds, n, ...]."""
    run = simulate(
        method, SHARDS, WHOLE, len(alive), channel=taped(alive), probe=look,
        at=range(1, len(alive) + 1),
    )  # fmt: skip
    return {k: np.asarray(v) for k, v in run.history["adapt"].items()}


def schedule(seed, silences=0, cuts=0, leaves=0, ticks=TICKS):
    """A random graph in which messages are lost, nodes fall silent, links and nodes go for good."""
    rng = np.random.default_rng(seed)
    graph = nx.random_labeled_tree(N, seed=int(rng.integers(2**31)))
    for _ in range(int(rng.integers(0, 6))):
        graph.add_edge(*rng.choice(N, 2, replace=False).tolist())
    alive = np.repeat(nx.to_numpy_array(graph, nodelist=range(N))[None] > 0, ticks, 0)
    alive &= rng.random(alive.shape) >= rng.choice([0, 0.1, 0.3])
    for _ in range(silences):
        node, start = rng.integers(N), rng.integers(ticks * 2 // 3)
        alive[start : start + rng.integers(1, 60), node] = False
    for _ in range(cuts):
        links = [e for e in graph.edges if e not in nx.bridges(graph)]
        if links:
            a, b = links[rng.integers(len(links))]
            graph.remove_edge(a, b)
            alive[rng.integers(ticks // 2) :, [a, b], [b, a]] = False
    gone = []
    for _ in range(leaves):
        rest = [v for v in range(N) if v not in gone]
        fits = [v for v in rest if nx.is_connected(graph.subgraph(set(rest) - {v}))]
        node = fits[rng.integers(len(fits))]
        gone.append(node)
        begin = int(rng.integers(ticks // 2))
        for_good = rng.random() < 0.7
        alive[begin : ticks if for_good else begin + int(rng.integers(100, 300)), node] = False
    return alive, gone


def check(had):
    """Every total is the exact sum of the same round over its members, whom it gives by round."""
    totals, members = {0: np.zeros((SIZE, 2), np.uint32)}, {}
    for at in np.unique(had["done"]).tolist():
        here = had["done"] == at
        if at:  # the first that has it summed it up, in its epoch
            first = tuple(np.argwhere(here)[0])
            who = np.unpackbits(had["members"][first].view(np.uint8), bitorder="little")
            numbers = np.flatnonzero(who).astype(np.uint32)
            before = totals[int(had["before"][first])]
            terms = term_of(numbers[:, None], np.int64(at), before[None], np)
            totals[at] = words.as_words(words.as_integers(terms).sum(0, dtype=np.uint64))
            members[at] = set(numbers.tolist())
            assert (had["before"][here] == had["before"][first]).all()
        assert (had["total"][here] == totals[at]).all()
    return members


def test_without_loss_a_round_takes_as_long_as_the_tree_is_wide():
    alive = np.repeat(nx.to_numpy_array(nx.path_graph(N))[None] > 0, TICKS, 0)
    had = seen(WAITING, alive)
    assert check(had) == {at: set(range(N)) for at in range(1, LAST + 1)}
    assert (had["done"][-1] == LAST).all()
    first = [int((had["done"] >= at).all(1).argmax()) for at in range(1, LAST + 1)]
    assert set(np.diff(first)) == {N - 1}


def only_late(seed):
    alive, _ = schedule(seed, silences=3, cuts=2)
    had = seen(WAITING, alive)
    members = check(had)
    assert all(who == set(range(N)) for who in members.values())
    assert (had["done"][-1] == LAST).all()
    assert np.ptp(had["done"], axis=1).max() <= 1  # nobody is more than a round ahead


def go_on(seed, leaves=2):
    """Those who stay, and were not silent for long, go on together; gives how many epochs."""
    alive, gone = schedule(seed, silences=1, leaves=leaves)
    had = seen(LEAVING, alive)
    members = check(had)
    assert all(len(who) >= LEAST for who in members.values())
    now = had["epoch"][-1].max()
    stay = [i for i in range(N) if had["epoch"][-1, i] == now and i not in gone]
    assert np.ptp(had["done"][-1, stay]) <= 1
    last = had["members"][-1, stay[0]]
    enough = sum(int(last[0]) >> i & 1 for i in range(N) if i not in gone) >= LEAST
    assert had["done"][-1, stay].min() > LAST / 2 or not enough  # as few as there may be wait
    # void rounds are those that nobody has a total of: one for each epoch, at most
    assert had["made"].max() - len(members) <= now + 1
    return int(now)


@pytest.mark.parametrize("seed", range(20))
def test_silence_loss_and_rebuilt_trees_only_delay(seed):
    only_late(seed)


@pytest.mark.parametrize("seed", range(20))
def test_members_that_go_for_good_are_left_out(seed):
    go_on(seed)


@pytest.mark.full  # the same with fewer schedules: the two above
def test_many_schedules():
    for seed in range(100, 2100):
        only_late(seed)
        go_on(seed, leaves=1 + seed % 3)


def test_some_of_these_schedules_have_epochs():
    assert {go_on(seed) for seed in range(6)} >= {1, 2}


# each takes one rule out
class TermsAgain(Aligned):
    """An epoch goes on with the round under way, whose terms were made under others."""

    def stage(self, s):
        return s["done"] + 1


class AnyTotal(Aligned):
    """A node in a new epoch takes whatever total it is told."""

    def _told(self, s, parts):
        return super()._told(
            {**s, "high_made": s["done"] * 0}, {**parts, "before": s["done"] + parts["before"] * 0}
        ) | {"high_made": s["high_made"]}


def hidden_total():
    """A chain in which one member alone has a total while the root takes out another.

    The last node's term reaches the one before it, from which nothing then comes back for long.
    """
    alive = np.repeat(nx.to_numpy_array(nx.path_graph(N))[None] > 0, TICKS, 0)
    alive[50:70, N - 1, N - 2] = False
    alive[68:165, N - 2, N - 3] = False
    return alive


def test_a_total_that_one_member_has_stands_for_all_members_of_the_next_epoch():
    had = seen(LEAVING, hidden_total())
    check(had)
    assert (had["epoch"][-1] == 1).all()
    before = had["epoch"] == 0
    last = had["done"][before].max()  # what the one had
    alone = (had["done"] == last) & before
    assert set(np.flatnonzero(alone.any(0))) <= {N - 2, N - 1}
    for i in range(N - 1):
        assert (had["done"][:, i] == last).any()


def is_noticed(method, alive):
    try:
        check(seen(method, alive))
    except (AssertionError, KeyError):
        return True
    return False


@pytest.mark.parametrize(("least", "follows"), [(N, 0), (LEAST, 3)])
def test_where_a_sum_waits_for_all_members_nobody_can_start_an_epoch(least, follows):
    """Mask graphs are drawn anew in every epoch: a liar would try numbers until one suits it."""
    sums = Aligned(N, SIZE, LAST, least)
    own, other = (sums.begin(jnp.asarray(i, jnp.int32)) for i in (0, 1))
    more = {"epoch": np.int32(3), "chief": np.uint32(1), "high_made": np.int32(7)}
    part = {**sums.said(other, None), **more}
    heard = sums.listened(own, Inbox(None, {}, None, None, jax.tree.map(lambda a: a[None], part)))
    assert (int(heard["epoch"]), int(heard["high_made"])) == (follows, 7 * (follows > 0))


def told(sums, own, **lie):
    """The state after a neighbour has told a total, right but for the lie."""
    other = sums.begin(jnp.asarray(1, jnp.int32))
    fact = {"fact": np.int32(1), "round": np.int32(1), "before": np.int32(0), "clock": np.int32(1)}
    part = {**sums.said(other, None), **fact, **lie}
    part = jax.tree.map(lambda a: jnp.asarray(a)[None], part)
    return sums.listened(own, Inbox(None, {}, None, None, part))


def test_a_lost_node_takes_later_totals_and_hands_them_on():
    """Before, a member that was restored stopped all sums if the way to the root led past it."""
    sums = Aligned(N, SIZE, LAST, LEAST)
    own = sums.begin(jnp.asarray(0, jnp.int32))
    for lost, done in (0, 0), (aligned.MISSED, 2), (aligned.SPOILT, 0):
        state = {**own, "lost": jnp.int32(lost)}
        heard = told(sums, state, round=np.int32(2), before=np.int32(1))
        assert (int(heard["done"]), int(heard["lost"])) == (done, lost)


@pytest.mark.parametrize(
    ("lie", "taken"),
    [
        ({}, True),
        ({"sum": np.full((SIZE, 2), 2**30 - 1, np.uint32)}, True),
        ({"sum": words.as_words(np.array([0, 0, 2**62]))}, False),
        ({"sum": words.as_words(np.array([0, -(2**62) - 1, 0]))}, False),
        ({"round": np.int32(LAST + 1)}, False),
        ({"round": np.int32(2**31 - 1)}, False),
    ],
    ids=["none", "large", "too large", "too small", "a round too late", "the last number there is"],
)
def test_a_total_that_there_cannot_be_is_not_taken(lie, taken):
    sums = Aligned(N, SIZE, LAST, N)
    heard = told(sums, sums.begin(jnp.asarray(0, jnp.int32)), **lie)
    assert int(heard["done"]) == taken
    assert int(heard["lost"]) == 0


def test_who_completes_a_sum_that_no_rows_can_make_learns_no_more():
    """Masks of members that were told other totals do not cancel."""
    sums = Aligned(2, SIZE, LAST, 2)
    pair = [sums.begin(jnp.asarray(i, jnp.int32)) for i in (0, 1)]
    high = jnp.asarray([[0, 1], [0, 1], [0, 1 << 30]], jnp.uint32)  # 2^62 is the last
    pair = [sums.making(pair[0], high), sums.making(pair[1], high * 0)]
    parts = [None, None]
    for _ in range(6):
        parts = [sums.said(own, part) for own, part in zip(pair, parts, strict=True)]
        parts = [jax.tree.map(lambda a: jnp.asarray(a)[None], part) for part in parts[::-1]]
        pair = [
            sums.listened(own, Inbox(None, {}, None, None, part))
            for own, part in zip(pair, parts, strict=True)
        ]
        parts = [jax.tree.map(lambda a: a[0], part) for part in parts]
    for own in pair:
        assert (int(own["done"]), int(own["lost"])) == (0, aligned.SPOILT)
        assert not sums.due({**own, "made": own["made"] * 0})[0]


@pytest.mark.some("TermsAgain")
@pytest.mark.parametrize("fault", [TermsAgain, AnyTotal])
def test_a_rule_that_is_left_out_is_noticed(fault):
    broken = summing(fault(N, SIZE, LAST, LEAST, 80))
    drawn = (schedule(seed, silences=1, leaves=2)[0] for seed in range(10))
    assert any(is_noticed(broken, alive) for alive in (hidden_total(), *drawn))


CASES = {"a lossy ring": topologies.ring(N), "a tree": topologies.random_tree(N, seed=2)}


@pytest.mark.full  # `make test`: sealed methods, in learner/test_every_name.py
@pytest.mark.bits
@pytest.mark.parametrize("graph", CASES.values(), ids=CASES)
def test_every_runtime_has_the_same_bits(graph):
    method = summing(Aligned(N, SIZE, 3, N))
    channel = {"channel": erasure(0.7)} if graph is CASES["a lossy ring"] else {}
    options = {"seed": 4, "probe": look, "at": [10, 40], **channel}
    walked = walk(method, SHARDS, graph, 40, **options)
    assert_equal_runs(simulate(method, SHARDS, graph, 40, exact=True, **options), walked)
    assert_equal_runs(simulate(method, SHARDS, graph, 40, **options), walked)
    assert (np.asarray(walked.state.value["done"]) == 3).all()
