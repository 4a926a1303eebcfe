"""A node that hears nobody, for ever: it learns alone, and what that does to the others."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from jax.tree_util import Partial

from peerwise import metrics
from peerwise import topology as topologies
from peerwise.channel import Channel, erasure
from peerwise.methods import crc, isolated
from peerwise.methods.diffusion import cta, cvar_cvar
from peerwise.methods.gossip_nb import gossip_nb
from peerwise.models import naive_bayes, statistics
from peerwise.nets import mlp, network_of
from peerwise.shards import pack
from peerwise.simulate import simulate

pytestmark = pytest.mark.bits

N, EACH, CLASSES = 6, 16, 2
LAST = N - 1  # the node: randomness goes by number, and so the others keep theirs without it
LR = 0.125
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (1, LAST), (2, LAST)]
WITH = topologies.from_graph(nx.Graph(EDGES))


def without(nodes):
    graph = nx.Graph(EDGES[:4])
    graph.add_nodes_from(range(nodes))
    return topologies.from_graph(graph, allow_disconnected=True)


def rows(m, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=m)
    side = 0.6 * (2 * y - 1)
    x = np.column_stack([rng.normal(side), rng.normal(size=m), rng.normal(-side)])
    return x, y


X, Y = rows(N * EACH, 0)
OWNED = np.split(np.arange(N * EACH), N)
SHARDS = pack(X, Y, OWNED)
FRESH = rows(1000, 99)


def channel(hears=0.0, heard=0.0):
    """The others lose 30 % among themselves; the node hears, and is heard, this often."""
    q = np.full((N, N), 0.7)
    q[:, LAST], q[LAST, :] = hears, heard
    return erasure(q)


CUT, DEAF = channel(), channel(heard=1.0)
MODEL = naive_bayes((0, 0, 0), CLASSES)
NET = network_of(mlp(3, CLASSES, (8,)), 3, CLASSES)
SMALL = {"lr": 0.1, "batch": 8, "steps": 4}
METHODS = {
    "crc": crc(MODEL, m0=EACH / LR),
    "cta": cta(NET, **SMALL),
    "cvar": cvar_cvar(NET, alpha=0.4, **SMALL),
}
ROUNDS = 60
PROBE = metrics.together(
    metrics.errors("own", X[OWNED[LAST]], Y[OWNED[LAST]]), metrics.errors("test", *FRESH)
)
# "cta" trains as "cvar" does, and hears all alike
every = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.full if n == "cta" else ()) for n in METHODS]
)


def sorted_out():
    """Rows of the second class only for the node, and some of all others for the others."""
    order = np.argsort(-Y, kind="stable")
    rest = np.random.default_rng(0).permutation(order[EACH:])
    return [*np.split(rest, LAST), order[:EACH]]


@cache
def trained(name, way, one_class=False):
    """A run with the node on its links, and one without its links: one program for both."""
    told = {"probe": PROBE, "at": [1, ROUNDS], "channel": {"cut": CUT, "deaf": DEAF}[way]}
    shards = pack(X, Y, sorted_out()) if one_class else SHARDS
    run = simulate(METHODS[name], shards, [WITH, without(N)], ROUNDS, seed=[3, 3], **told)
    return jax.tree.map(np.asarray, (run.state.value, run.history["adapt"]))


def of(tree, replica, nodes):
    return [leaf[replica, nodes] for leaf in jax.tree.leaves(tree)]


def assert_same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.some("crc")
@every
@pytest.mark.parametrize("way", ["cut", "deaf"])
def test_it_learns_alone_as_if_it_had_no_links(name, way):
    """Its model is to the bit that of a node without neighbours, and fits its rows ever better."""
    value, seen = trained(name, way)
    assert_same(of(value, 0, LAST), of(value, 1, LAST))
    losses, errors = seen["own_log_loss"][0, :, LAST], seen["own_error"][0, :, LAST]
    print(f"{name} {way}: own error after 1 and {ROUNDS} rounds", *errors.round(3))
    assert losses[1] < losses[0]
    assert errors[1] < errors[0]


@pytest.mark.some("crc")
@every
def test_cut_off_both_ways_it_does_nothing_to_the_others(name):
    """They end to the bit as without it, and luck on their own links is the same."""
    value, seen = trained(name, "cut")
    assert_same(of(value, 0, slice(LAST)), of(value, 1, slice(LAST)))
    np.testing.assert_array_equal(seen["test_error"][0, :, :LAST], seen["test_error"][1, :, :LAST])


@every
def test_heard_but_deaf_it_moves_the_others_and_does_them_no_harm(name):
    """It is one voice among several, with rows like theirs: they change and predict as well."""
    value, seen = trained(name, "deaf")
    assert any((a != b).any() for a, b in zip(of(value, 0, 1), of(value, 1, 1), strict=True))
    ours, theirs = seen["test_error"][:, 1, :LAST].mean(-1)
    alone = seen["test_error"][0, 1, LAST]
    print(
        f"{name}: the others' error {ours:.3f} with it, {theirs:.3f} without; its own {alone:.3f}"
    )
    assert ours < theirs + 0.02


def test_heard_but_deaf_with_rows_of_one_class_it_harms_crc():
    """What it says again and again nobody can talk it out of: statistics of a single class.

    That is the limit of doing no harm; cut off both ways it does none with these rows either.
    """
    _, seen = trained("crc", "deaf", one_class=True)
    ours, theirs = seen["test_error"][:, 1, :LAST].mean(-1)
    print(f"crc: the others' error {ours:.3f} with a deaf node of one class, {theirs:.3f} without")
    assert ours > theirs + 0.03
    value, _ = trained("crc", "cut", one_class=True)
    assert_same(of(value, 0, slice(LAST)), of(value, 1, slice(LAST)))


def test_with_crc_it_is_an_isolated_node():
    """Exactly what `isolated` makes of its rows, and the network is one of five nodes."""
    alone = simulate(isolated(MODEL, lr=LR), SHARDS, without(N), ROUNDS)
    five = pack(X, Y, OWNED[:LAST])
    options = {"seed": 3, "channel": erasure(0.7)}
    rest = simulate(METHODS["crc"], five, without(LAST), ROUNDS, **options)
    value, _ = trained("crc", "cut")
    for ours, lone, other in zip(
        jax.tree.leaves(value),
        jax.tree.leaves(alone.state.value),
        jax.tree.leaves(rest.state.value),
        strict=True,
    ):
        np.testing.assert_allclose(ours[0, LAST], np.asarray(lone)[LAST], rtol=1e-6)
        np.testing.assert_allclose(ours[0, :LAST], np.asarray(other), rtol=1e-4, atol=1e-4)


# --- counted mass

COUNTS = gossip_nb(MODEL, counter="cumulative", degree=3)
gossip = partial(simulate, COUNTS, SHARDS, WITH, precision="float64")


def mean_of(owned):
    """The statistics of a node, on average over some nodes."""
    at = np.concatenate(owned)
    with jax.enable_x64(True):
        found = statistics(MODEL, jnp.asarray(X[at]), jnp.asarray(Y[at]), jnp.ones(at.size))
        return np.asarray(found) / len(owned)


def means(run):
    value = jax.tree.map(np.asarray, run.state.value)
    return value["estimate"] / value["count"][:, None, None], value


def until(q, rounds, key, t, links):
    """Losses by q at first, then none."""
    lossy = erasure(1.0).draw.func(q, key, t, links)
    return links._replace(weight=jnp.where(t < rounds, lossy.weight, links.weight))


@pytest.mark.parametrize("way", ["cut", "deaf"])
def test_mass_given_to_it_waits_and_comes_when_it_hears_again(way):
    """Cumulative push-sum: nothing is lost for good, and then all have the exact mean of all."""
    q = {"cut": CUT, "deaf": DEAF}[way].draw.args[0]
    short = Channel(Partial(until, q, jnp.asarray(40)))
    silent, value = means(gossip(40, channel=short))
    on_the_way = (value["neighbours"] * value["given"]["count"]).sum() - value["got"]["count"].sum()
    np.testing.assert_allclose(value["count"].sum() + on_the_way, N, rtol=1e-12)
    np.testing.assert_allclose(silent[LAST], mean_of(OWNED[LAST:]), rtol=1e-9)
    after, _ = means(gossip(400, channel=short))
    expected = mean_of(OWNED)
    np.testing.assert_allclose(after, np.broadcast_to(expected, after.shape), rtol=0, atol=1e-9)


@pytest.mark.full
def test_for_ever_it_drains_the_mass_of_the_others():
    """What neighbours set aside for a node that never hears is out of play.

    Their mean is then not the exact one of the others, though they agree: those near the hole count
    less. Without its links it is exact, so that a link known to be dead is better taken away.
    """
    dead, value = means(gossip(300, channel=CUT))
    others = dead[:LAST]
    expected = mean_of(OWNED[:LAST])
    apart = np.abs(others - expected).max() / np.abs(expected).max()
    mass = value["count"].sum()
    print(f"cumulative beside a dead node: {apart:.3f} from the mean, mass {mass:.1e} of {N}")
    np.testing.assert_allclose(others, np.broadcast_to(others[:1], others.shape), atol=1e-3)
    assert apart > 0.01
    assert mass < 1e-4
    run = simulate(COUNTS, SHARDS, without(N), 300, channel=CUT, precision="float64")
    healthy, _ = means(run)
    expected = np.broadcast_to(expected, others.shape)
    np.testing.assert_allclose(healthy[:LAST], expected, rtol=0, atol=1e-6)
