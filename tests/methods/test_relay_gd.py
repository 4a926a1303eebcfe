"""Relay of weights: SGD itself at one node, descent on all rows with a delay at many."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from peerwise import topology as topologies
from peerwise.channel import erasure, perfect
from peerwise.errors import BadSetting
from peerwise.learner import cell, run
from peerwise.methods import decavg, isolated_net, relay_gd, relaying
from peerwise.methods.leading import SPAN
from peerwise.nets import mlp, network_of
from peerwise.runtime import init_key
from peerwise.shards import pack, pooled
from peerwise.simulate import simulate
from peerwise.walk import walk

NODES, EACH, CLASSES = 6, 8, 3
NET = network_of(mlp(4, CLASSES, (6,)), 4, CLASSES)
FULL = {"batch": 64, "momentum": 0.0}  # one step on all rows of a node is an epoch
run64 = partial(simulate, precision="float64")


def rows(m=NODES * EACH, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(m) * CLASSES // m  # sorted: nodes of one class
    x = rng.normal(size=(m, 4)) + y[:, None]
    return (x - x.mean(0)) / x.std(0), y


X, Y = rows()
OWNED = np.split(np.arange(len(Y)), NODES)
SKEWED, POOLED = pack(X, Y, OWNED), pooled(X, Y, OWNED)
CHAIN = topologies.chain(NODES)


def weights(run):
    return jax.tree.map(np.asarray, run.state.value["weights"])


def same(ours, theirs, **tolerance):
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


# --- exact cases


@pytest.mark.full
def test_one_node_alone_trains_as_ever():
    """Whatever the damping: what it knows of itself has no age."""
    training = {"batch": 5, "lr": 0.1, "momentum": 0.5}
    ours = run64(relay_gd(NET, damping=1.0, **training), POOLED, topologies.alone(1), 4)
    plain = run64(isolated_net(NET, start="common", **training), POOLED, topologies.alone(1), 4)
    same(weights(ours), jax.tree.map(np.asarray, plain.state.value), rtol=1e-9, atol=1e-12)


def loss_of(w, x, y):
    logits = NET.logits(w, jnp.asarray(x))
    return -jax.nn.log_softmax(logits)[jnp.arange(len(y)), y].mean()


slope = jax.jit(jax.grad(loss_of))
losses_of = jax.jit(jax.vmap(lambda w: loss_of(w, X, Y)))
total = jax.jit(jax.vmap(relaying.total))


@pytest.mark.long("0.0")
@pytest.mark.parametrize("lead", [0.0, 1.0])
def test_two_nodes_by_hand(lead):
    """They are told apart in round 1; the child speaks as one in round 2, the root in round 3."""
    sizes = (30, 18)
    parts = np.split(np.arange(len(Y)), [sizes[0]])
    method = relay_gd(NET, lr=0.1, lead=lead, **FULL)
    made = run64(
        method, pack(X, Y, parts), topologies.chain(2), 3, at=[1, 2, 3],
        probe=lambda method, state: state.value["weights"],
    )  # fmt: skip
    names = np.asarray(made.state.value["relay"]["name"])
    root, child = int(names.argmin()), int(names.argmax())
    with jax.enable_x64(True):
        shared = init_key(jax.random.key(0), 0, True)[1]
        start = jax.tree.map(lambda a: np.asarray(a, float), NET.init(shared))

        def pull(w, i):
            """Rows of a node times what a step on them moves."""
            step = slope(w, X[parts[i]], Y[parts[i]])
            return jax.tree.map(lambda g: -0.1 * sizes[i] * np.asarray(g), step)

        def at(*pulls, rows=NODES * EACH):
            return jax.tree.map(lambda w, *g: w + sum(g) / rows, start, *pulls)

        # before the first round each has trained once, and so after each round
        first = [pull(start, i) for i in range(2)]
        alone = [at(first[i], rows=sizes[i]) for i in range(2)]
        second = [pull(alone[i], i) for i in range(2)]

        def rate(*pulls):
            """Of pulls, the newest last: each round's rate is a SPANth of the way to its pull."""
            mean = jax.tree.map(np.zeros_like, pulls[0])
            for one in pulls:
                mean = jax.tree.map(lambda r, g: r + (g - r) / SPAN, mean, one)
            return jax.tree.map(lambda r: lead * r, mean)

        lone = [at(first[i], second[i], rows=sizes[i]) for i in range(2)]
        # round 2: the root has heard of the child, a round late, the child of nothing
        both = at(*first, *second, rate(first[child], second[child]))
        third = {root: pull(both, root), child: pull(lone[child], child)}
        # round 3: each of the other's three
        ahead = [rate(first[i], second[i], third[i]) for i in range(2)]
        heard = [at(*first, *second, *third.values(), ahead[1 - i]) for i in range(2)]
        fourth = [pull(heard[i], i) for i in range(2)]
        expected = [
            lone,
            {
                root: at(*first, *second, third[root], rate(first[child], second[child])),
                child: at(first[child], second[child], third[child], rows=sizes[child]),
            },
            [at(*first, *second, *third.values(), fourth[i], ahead[1 - i]) for i in range(2)],
        ]
    for t, wanted in enumerate(expected):
        for i in range(2):
            got = jax.tree.map(lambda a, t=t, i=i: np.asarray(a)[t, i], made.history["adapt"])
            same(got, wanted[i], rtol=1e-9, atol=1e-12)


@pytest.mark.full  # `make test`: test_relaying.py
def test_each_node_knows_what_each_moved_as_long_ago_as_it_is_away():
    tree = topologies.random_tree(NODES, seed=2)
    method = relay_gd(NET, lr=0.1, lead=0, **FULL)

    def look(method, state):
        relay = state.value["relay"]
        return {"own": relay["own"], "known": jax.vmap(relaying.total)(relay)}

    seen = run64(method, SKEWED, tree, 24, probe=look, at=range(1, 25)).history["adapt"]
    own, known = (jax.tree.map(np.asarray, seen[k]) for k in ("own", "known"))
    away = dict(nx.all_pairs_shortest_path_length(topologies.graph_of(tree)))
    np.testing.assert_array_equal(known["rows"][-1], len(Y))
    for told, moved in zip(
        jax.tree.leaves(known["moved"]), jax.tree.leaves(own["moved"]), strict=True
    ):
        for u in range(NODES):
            expected = sum(moved[-1 - away[u][v], v] for v in range(NODES))
            np.testing.assert_allclose(told[-1, u], expected, rtol=1e-9, atol=1e-12)


# --- descent on the rows of all


def losses(w):
    with jax.enable_x64(True):
        return np.asarray(losses_of(w))


def reached(method, rounds, channel=None, shards=SKEWED, graph=CHAIN):
    """The loss of all rows at the worst node."""
    value = run64(method, shards, graph, rounds, channel=channel or perfect()).state.value
    return max(losses(value.get("weights", value) if isinstance(value, dict) else value))


@cache
def central(rounds, lr):
    method = isolated_net(NET, start="common", lr=lr, **FULL)
    return reached(method, rounds, None, POOLED, topologies.alone(1))


@pytest.mark.full  # `make test`: relay's, test_relay.py
def test_nodes_of_one_class_come_near_central_descent_and_decavg_does_not():
    wanted = central(300, 0.2)
    ours, late = (relay_gd(NET, lr=0.2, lead=lead, **FULL) for lead in (1, 0))
    got, lossy = (reached(ours, 300, erasure(q)) for q in (1.0, 0.7))  # one program
    behind = reached(late, 300)
    theirs = reached(decavg(NET, start="common", lr=0.2, **FULL), 300)
    print(
        f"loss of all rows: central {wanted:.3f}, relay_gd {got:.3f}, with losses {lossy:.3f}, "
        f"lead 0 {behind:.3f}, decavg {theirs:.3f}"
    )
    assert got < 1.01 * wanted
    assert lossy < 1.05 * wanted
    assert 1.05 * wanted < behind < 1.15 * wanted
    assert theirs > 3 * wanted


@pytest.mark.full
def test_with_smaller_steps_nodes_come_nearer_to_central_descent():
    """Off by lr x delay x how steps differ: a quarter of lr is at most about that of the gap."""
    off = {
        lr: reached(relay_gd(NET, lr=lr, lead=0, **FULL), rounds) - central(rounds, lr)
        for lr, rounds in ((0.2, 300), (0.05, 1200))
    }
    assert off[0.05] < off[0.2] / 3


@pytest.mark.full  # `make test`: ages and steps of relay, test_relay.py
def test_damping_divides_by_the_mean_age_at_all_nodes_alike():
    value = run64(
        relay_gd(NET, lr=0.1, damping=0.5, **FULL), SKEWED, topologies.star(NODES), 20
    ).state.value
    own = np.asarray(value["relay"]["ages"]) / NODES
    assert np.ptp(own) > 0.5
    known = total(value["relay"])["age"]
    np.testing.assert_allclose(known, np.full(NODES, own.sum()))


# --- runtimes and settings


@pytest.mark.full  # `make test`: learner/test_every_name.py, and lossy trees in test_relaying.py
@pytest.mark.parametrize("exact", [False, True])
def test_all_runtimes_agree(exact):
    """In the tree exactly; in what is learnt to the rounding of training. One has no rows."""
    parts = np.split(np.arange(20), [6, 11, 11, 16])
    shards = pack(X[::2][:20].astype(np.float32), Y[::2][:20], parts)
    method = relay_gd(NET, lr=0.1, batch=4, damping=0.1)
    oracle, ours = (
        a(method, shards, topologies.ring(5), 7, seed=5, channel=erasure(0.7))
        for a in (walk, partial(simulate, exact=exact))
    )
    assert (ours.messages, ours.message_bytes) == (oracle.messages, oracle.message_bytes)
    same(weights(ours), weights(oracle), rtol=0, atol=1e-5)
    for place in ("root", "parent", "steps", "nodes", "ages"):
        np.testing.assert_array_equal(
            ours.state.value["relay"][place], oracle.state.value["relay"][place]
        )


@pytest.mark.full  # `make test`: that of relay
def test_a_message_is_the_weights_and_a_constant():
    """And with lead the rate of the weights, too."""
    methods = relay_gd(NET, **FULL), relay_gd(NET, lead=0, **FULL), decavg(NET, **FULL)
    sizes = [walk(m, SKEWED, CHAIN, 0).message_bytes for m in methods]
    assert sizes == [4 * (2 * NET.size + 11), 4 * (NET.size + 11), 4 * (NET.size + 2)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lr": 0}, "lr must be greater than 0"),
        ({"damping": -1}, "damping"),
        ({"damping": float("nan")}, "damping"),
        ({"start": "own"}, "start is an option of .* not of relay_gd"),
        ({"batch": 0}, "batch"),
    ],
)
def test_impossible_settings_are_refused(given, said):
    with pytest.raises(BadSetting, match=said):
        relay_gd(NET, **given)


def small(**options):
    split = {"nodes": 3, "rows": 20, "test_rows": 100}
    shape = {"split": split, "run": {"rounds": 2, "repetitions": 1}}
    return cell({"method": {"name": "relay_gd", **options}, **shape})


@pytest.mark.full  # without options: tests/learner
def test_settings_reach_it():
    found = run(small(damping=0.2))
    assert found.values["test_error"].shape == (1, 1, 3)


def test_settings_of_others_are_refused():
    with pytest.raises(BadSetting, match="brake is an option of relay, not of relay_gd"):
        small(brake=0.3)
    with pytest.raises(BadSetting, match="damping"):
        small(damping=-0.3)
