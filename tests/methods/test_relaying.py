"""Sums relayed between neighbours: exact after the diameter, under loss, after a link is lost."""

from functools import partial

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.tree_util import Partial

from peerwise import topology as topologies
from peerwise.channel import Channel, erasure, perfect
from peerwise.core import Inbox, Message, Method, Slots, State
from peerwise.methods import relaying
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.walk import walk

N = 8


def frozen():
    """Every node has a row and relays it: what relay does when nothing is learnt."""

    def init(key, shard):
        return State(
            relaying.begin(key, {"x": shard.x[0], "seen": jnp.ones((), shard.x.dtype)}), {}
        )

    def message(key, state):
        return Message(jnp.zeros_like(state.value["nodes"]), {})

    def reply(state, shard, heard):
        return relaying.said(state.value, heard.part)

    return Method(
        init, message, Slots(relaying.listened), lambda key, state, shard: state, None, reply
    )


METHOD = frozen()


totals = jax.jit(jax.vmap(relaying.total))


def total_of(run):
    return np.asarray(totals(run.state.value)["x"])


def one_row_each(x):
    return pack(x, np.zeros(len(x)), np.arange(len(x))[:, None])


# whole numbers, whose sums have no rounding at all: equal means each counted exactly once, as the
# numbers are sums of different powers of two only if nobody is left out or counted twice
POWERS = 2.0 ** np.arange(N)[:, None]
SHARDS = one_row_each(POWERS)
ALL = POWERS.sum()


def diameter(graph):
    return nx.diameter(topologies.graph_of(graph))


def agreed_in(graph):
    """Rounds to agree on a tree and to sum along it, which may be twice as deep as the graph."""
    return 4 * diameter(graph) + 2


@given(seed=st.integers(0, 2**16))
def test_on_random_trees_the_sum_is_exact_after_agreement_and_nobody_counts_twice(seed):
    tree = topologies.random_tree(N, seed=seed)
    run = simulate(METHOD, SHARDS, tree, 4 * (N - 1) + 2, seed=seed)
    np.testing.assert_array_equal(total_of(run), np.full((N, 1), ALL))
    np.testing.assert_array_equal(run.state.value["nodes"], np.full(N, N))


@settings(max_examples=10)  # another number of slots is another program
@given(seed=st.integers(0, 2**16), extra=st.sampled_from([2, 10]))
def test_on_any_connected_graph_nobody_counts_twice(seed, extra):
    graph = topologies.tree_plus(N, extra=extra, seed=seed)
    run = simulate(METHOD, SHARDS, graph, 4 * (N - 1) + 2, seed=seed)
    np.testing.assert_array_equal(total_of(run), np.full((N, 1), ALL))


@given(seed=st.integers(0, 2**16))
def test_losing_30_percent_only_delays(seed):
    graph = topologies.tree_plus(N, extra=3, seed=seed)
    run = simulate(METHOD, SHARDS, graph, 100, seed=seed, channel=erasure(0.7))
    np.testing.assert_array_equal(total_of(run), np.full((N, 1), ALL))


def counting(key, state, shard):
    """A node whose own number grows by one a round."""
    own = state.value["own"]
    return State(relaying.renewed(state.value, {**own, "x": own["x"] + 1}), {})


COUNTING = METHOD._replace(adapt=counting)


@pytest.mark.parametrize("graph", [topologies.chain(N), topologies.random_tree(N, seed=5)])
def test_every_number_is_late_by_its_distance_and_no_more(graph):
    rounds = agreed_in(graph)
    run = simulate(COUNTING, one_row_each(np.zeros((N, 1))), graph, rounds)
    away = dict(nx.all_pairs_shortest_path_length(topologies.graph_of(graph)))
    expected = [sum(rounds - away[u][v] for v in range(N)) for u in range(N)]
    np.testing.assert_array_equal(total_of(run)[:, 0], expected)


@pytest.mark.long("float64")
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_what_all_but_one_say_is_not_spoilt_by_the_one(precision):
    """Subtracting a part that is 1e6 times all others leaves the others to the last bit."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, 5))
    x[1] *= 1e6
    star = topologies.star(N)  # node 0 has all the others for neighbours
    run = simulate(METHOD, one_row_each(x), star, 12, precision=precision)
    eps = np.finfo(precision).eps
    hub = jax.tree.map(lambda a: a[0], run.state.value)
    kept = x.astype(precision).astype(float)
    for j in range(1, N):
        leaf = jax.tree.map(lambda a, j=j: a[j], run.state.value)
        with jax.enable_x64(precision == "float64"):
            part = relaying.said(leaf, relaying.said(hub, None))
            part = {**part, "sum": leaf["own"], "nodes": jnp.ones_like(hub["nodes"])}
            told = relaying.said(hub, jax.tree.map(jnp.asarray, part))["sum"]["x"]
        others = np.delete(kept, j, 0).sum(0)
        scale = np.abs(np.delete(kept, j, 0)).sum(0)
        assert (np.abs(np.asarray(told, float) - others) <= 2 * eps * scale).all()
    plain = np.float32(kept.sum(0).astype(np.float32)) - np.float32(kept[1])
    others = np.delete(kept, 1, 0).sum(0)
    if precision == "float32":  # what a plain subtraction would have told node 1
        assert (np.abs(plain - others) > 100 * eps * np.abs(others)).any()


def test_real_numbers_are_exact_to_rounding_on_random_trees():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 30)) * 10 ** rng.uniform(-3, 3, (40, 30))
    for seed in range(4):
        tree = topologies.random_tree(40, seed=seed)
        run = simulate(METHOD, one_row_each(x), tree, agreed_in(tree), seed=seed)
        kept = x.astype(np.float32).astype(float)
        off = np.abs(total_of(run) - kept.sum(0)) / np.abs(kept).sum(0)
        # one rounding, of half an eps, at each hop
        assert off.max() <= diameter(tree) / 2 * np.finfo(np.float32).eps


def cut(*links, at):
    """A channel that is perfect until a round, from which on some links carry nothing."""
    gone = np.zeros((N, N), bool)
    for a, b in links:
        gone[a, b] = gone[b, a] = True
    return Channel(Partial(_cut, jnp.asarray(gone), jnp.int32(at)))


def _cut(gone, at, key, t, there):
    lost = gone[there.src, there.dst] & (t >= at)
    return there._replace(weight=jnp.where(lost, 0, there.weight))


@pytest.mark.parametrize("link", [(0, 1), (3, 4), (0, 7)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_link_that_disappears_is_gone_round(link, seed):
    """A ring is a tree of two branches: whichever link goes, the sum is exact again."""
    ring = topologies.ring(N)
    rounds = 20 + 3 * relaying.PATIENCE + 6 * N
    run = simulate(METHOD, SHARDS, ring, rounds, seed=seed, channel=cut(link, at=20))
    np.testing.assert_array_equal(total_of(run), np.full((N, 1), ALL))
    edges = {
        frozenset((v, int(np.flatnonzero(np.asarray(run.state.value["name"]) == p)[0])))
        for v, p in enumerate(np.asarray(run.state.value["parent"]))
    }
    assert frozenset(link) not in edges


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_node_that_disappears_takes_its_number_and_no_others(seed):
    """Be it the root or not: those left agree again, and the sum is theirs."""
    graph = topologies.tree_plus(N, extra=8, seed=3)
    rounds = 20 + 5 * relaying.PATIENCE + 6 * N
    nodes = topologies.graph_of(graph)
    names = np.asarray(simulate(METHOD, SHARDS, graph, 1, seed=seed).state.value["name"])
    for lost in (int(names.argmin()), int(names.argmax())):
        left = [v for v in range(N) if v != lost]
        assert nx.is_connected(nodes.subgraph(left))
        links = [(lost, w) for w in nodes.neighbors(lost)]
        run = simulate(METHOD, SHARDS, graph, rounds, seed=seed, channel=cut(*links, at=20))
        got = total_of(run)[left]
        np.testing.assert_array_equal(got, np.full((N - 1, 1), ALL - POWERS[lost]))


def test_a_network_in_two_goes_on_as_two():
    chain = topologies.chain(N)
    rounds = 20 + 5 * relaying.PATIENCE + 6 * N
    run = simulate(METHOD, SHARDS, chain, rounds, channel=cut((2, 3), at=20))
    got = total_of(run)[:, 0]
    np.testing.assert_array_equal(got[:3], np.full(3, POWERS[:3].sum()))
    np.testing.assert_array_equal(got[3:], np.full(N - 3, POWERS[3:].sum()))


def test_ages_are_distances():
    tree = topologies.random_tree(N, seed=4)
    run = simulate(METHOD, SHARDS, tree, agreed_in(tree))
    away = dict(nx.all_pairs_shortest_path_length(topologies.graph_of(tree)))
    expected = [np.mean([away[u][v] for v in range(N)]) for u in range(N)]
    np.testing.assert_allclose(
        jax.jit(jax.vmap(relaying.delay))(run.state.value), expected, rtol=1e-6
    )


@pytest.mark.full  # `make test`: learner/test_every_name.py
def test_all_runtimes_agree():
    """To the bit, as sums of whole numbers have no rounding."""
    graph = topologies.tree_plus(N, extra=4, seed=2)
    ours, exact, oracle = (
        run(METHOD, SHARDS, graph, 12, seed=3, channel=erasure(0.7)).state
        for run in (simulate, partial(simulate, exact=True), walk)
    )
    for run in (ours, exact):
        jax.tree.map(np.testing.assert_array_equal, run.value, oracle.value)


@pytest.mark.parametrize("runtime", [simulate, walk])
def test_a_single_node_sums_itself(runtime):
    run = runtime(METHOD, one_row_each(POWERS[:1]), topologies.alone(1), 3, channel=perfect())
    np.testing.assert_array_equal(total_of(run), POWERS[:1])


# --- liars, and what clipping leaves them


def with_liar(method, liar_name, lie):
    def reply(state, shard, heard):
        told = method.reply(state, shard, heard)
        false = {**told["sum"], "x": told["sum"]["x"] + lie}
        lies = told["name"] == liar_name
        honest = told["sum"]
        return {**told, "sum": jax.tree.map(lambda a, b: jnp.where(lies, a, b), false, honest)}

    return method._replace(reply=reply)


@pytest.mark.long("40")
@pytest.mark.parametrize("rounds", [10, 40])
def test_a_clipped_liar_moves_the_sum_by_at_most_so_much_a_round(rounds):
    """Each of its links by `most` in every round, whatever it says; without, by all it says."""
    tree, most = topologies.random_tree(N, seed=4), 3.0
    clipped = METHOD._replace(believe=relaying.believing("x", most))
    src = np.asarray(tree(jax.random.key(0), 0).src)
    liar = int(np.bincount(src).argmin())  # a leaf: one link
    names = np.asarray(simulate(METHOD, SHARDS, tree, 1).state.value["name"])
    others = np.arange(N) != liar

    def sums(method):
        lied = with_liar(method, names[liar], 1e6)
        return total_of(simulate(lied, SHARDS, tree, rounds))[others]

    # an honest sum may lag behind below, the liar's may be above by what it was let move
    assert (sums(clipped) <= ALL + most * rounds).all()
    if rounds == 40:
        assert (sums(METHOD) > 1e6).all()


def test_clipped_sums_of_honest_nodes_arrive_in_the_end():
    tree = topologies.random_tree(N, seed=4)
    clipped = METHOD._replace(believe=relaying.believing("x", ALL / 4))
    slow = total_of(simulate(clipped, SHARDS, tree, 2 * N))
    late = total_of(simulate(clipped, SHARDS, tree, 60))
    np.testing.assert_array_equal(late, np.full((N, 1), ALL))
    assert (slow <= ALL).all()


def test_a_message_from_the_future_is_no_younger_than_one_of_now():
    part = {"ages": jnp.array(4.0), "nodes": jnp.array(2.0), "clock": jnp.int32(1000)}
    assert relaying._aged(part, jnp.int32(7)) == 6  # each of the two a round older
    assert relaying._aged(part | {"clock": jnp.int32(5)}, jnp.int32(7)) == 10


def test_no_count_is_believed_that_is_negative():
    believe = relaying.believing("x", 1.0)
    part = {"sum": {"x": jnp.zeros(2), "rows": jnp.zeros(())}, "nodes": jnp.ones(())}
    part |= {"ages": jnp.zeros(())}
    lie = {"sum": {"x": jnp.array([5.0, -0.5]), "rows": jnp.array(-3.0)}, "nodes": jnp.array(-9.0)}
    kept = believe(part, lie | {"ages": jnp.array(-1.0)})
    np.testing.assert_array_equal(kept["sum"]["x"], [1.0, -0.5])
    assert (kept["sum"]["rows"], kept["nodes"], kept["ages"]) == (0, 0, 0)


def test_a_node_that_missed_more_rounds_than_patience_is_heard_again():
    """Between peers a clock stands still while its node is away. Before, it was gone for ever."""
    near = {0: (1,), 1: (0, 2), 2: (1,)}
    listen = jax.jit(
        lambda relay, parts: relaying.listened(relay, Inbox(None, {}, None, None, parts))
    )
    say = jax.jit(relaying.said)
    relays = [relaying.begin(jax.random.key(i), {"x": jnp.float32(2**i)}) for i in near]
    blank = jax.tree.map(jnp.zeros_like, relaying.said(relays[0], None))
    parts = {(i, j): blank for i in near for j in near[i]}  # what i has heard of j
    known = []
    for t in range(330):
        away = 50 <= t < 200
        here = [i for i in near if not (i == 0 and away)]
        letters = {(j, i): say(relays[i], parts[i, j]) for i in here for j in near[i] if j in here}
        parts |= letters
        for i in here:
            heard = [parts[i, j] for j in near[i]]
            relays[i] = listen(relays[i], jax.tree.map(lambda *a: jnp.stack(a), *heard))
        known.append([float(relay["nodes"]) for relay in relays])
    assert known[49] == [3, 3, 3]
    assert known[199][1:] == [2, 2]
    assert known[-1] == [3, 3, 3]
    assert [float(relaying.total(relay)["x"]) for relay in relays] == [7, 7, 7]


def test_a_liars_clock_moves_those_of_others_by_little():
    relay = relaying.begin(jax.random.key(0), {"x": jnp.float32(1)})
    part = {**relaying.said(relay, None), "clock": jnp.int32(2**30)}
    inbox = Inbox(None, {}, None, None, jax.tree.map(lambda a: a[None], part))
    clock = int(relaying.listened(relay, inbox)["clock"])
    assert clock == int(relay["clock"]) + relaying.CATCH_UP + 1
