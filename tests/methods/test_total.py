"""Exact sums by neighbours alone, and what a network agrees upon with them."""

from functools import partial

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from peerwise import topology as topologies
from peerwise.agreement import phase_options, summed
from peerwise.errors import BadSetting
from peerwise.methods.total import server_total, total
from peerwise.models.tan import chow_liu, pair_counts, structure
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.walk import walk

N = 8


def held(shard):
    """Whole numbers, whose sums are exact, in a tree of arrays."""
    return {"sums": (shard.x * shard.weight[:, None]).sum(0), "rows": shard.weight.sum()}


METHOD = total(held)
RNG = np.random.default_rng(0)
SIZES = [1, 1, 0, 1, 1, 1, 0, 1]  # nodes without rows have to pass on too
X = RNG.integers(-(2**20), 2**20, (sum(SIZES), 2)).astype(float)
Y = RNG.integers(2, size=sum(SIZES))
PLACES = np.split(np.arange(sum(SIZES)), np.cumsum(SIZES)[:-1])
SHARDS = pack(X, Y, PLACES)
EXPECTED = {"sums": X.sum(0), "rows": float(len(X))}

GRAPHS = {
    "chain": topologies.chain(N),
    "star": topologies.star(N),
    "ring": topologies.ring(N),
    "grid": topologies.grid(N),
    "complete": topologies.complete(N),
    "erdos_renyi": topologies.erdos_renyi(N, p=0.4, seed=1),
    **{f"random_tree {seed}": topologies.random_tree(N, seed=seed) for seed in (1, 2)},
}


def rounds_of(graph):
    return 3 * nx.diameter(topologies.graph_of(graph)) + 1


def check(value, n=N, expected=EXPECTED):
    """The sum itself at every node, to the last bit."""
    for name, number in expected.items():
        got = np.asarray(value["total"][name])
        np.testing.assert_array_equal(got, np.broadcast_to(number, (n, *np.shape(number))))


@pytest.mark.some("random_tree")
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_node_ends_with_the_sum(name, seed):
    graph = GRAPHS[name]
    run = simulate(METHOD, SHARDS, graph, rounds_of(graph), seed=seed, precision="float64")
    check(run.state.value)


def test_the_sum_stays():
    run = simulate(METHOD, SHARDS, GRAPHS["star"], 30, precision="float64")
    check(run.state.value)


@pytest.mark.parametrize("name", ["ring", "random_tree 1"])
def test_the_tree_is_one_of_shortest_ways_to_one_root(name):
    graph = GRAPHS[name]
    value = simulate(METHOD, SHARDS, graph, rounds_of(graph), precision="float64").state.value
    names = np.asarray(value["name"])
    assert len(set(names.tolist())) == N
    root = int(names.argmin())
    assert (np.asarray(value["root"]) == names[root]).all()
    away = nx.single_source_shortest_path_length(topologies.graph_of(graph), root)
    assert np.asarray(value["steps"]).tolist() == [away[v] for v in range(N)]
    number = {int(name): v for v, name in enumerate(names)}
    for v, parent in enumerate(np.asarray(value["parent"])):
        up = number[int(parent)]
        assert (v == up == root) or (
            away[up] == away[v] - 1 and topologies.graph_of(graph).has_edge(v, up)
        )


def test_the_end_of_a_chain_needs_its_rounds():
    """One round is not enough, so that the number of rounds above is not idle."""
    run = simulate(METHOD, SHARDS, GRAPHS["chain"], 4, precision="float64")
    rows = np.asarray(run.state.value["total"]["rows"])
    assert (rows != EXPECTED["rows"]).any()


def test_the_sum_is_the_same_in_single_precision_while_counts_are_small():
    small = pack(np.ones_like(X), Y, PLACES)
    run = simulate(METHOD, small, GRAPHS["star"], rounds_of(GRAPHS["star"]))
    rows = float(len(X))
    check(
        run.state.value,
        expected={"sums": [rows] * 2, "rows": rows},
    )
    assert run.state.value["total"]["sums"].dtype == jnp.float32


@pytest.mark.bits
def test_all_runtimes_agree():
    graph = GRAPHS["grid"]
    options = {"seed": 3, "precision": "float64"}
    ours, exact, oracle = (
        run(METHOD, SHARDS, graph, rounds_of(graph), **options).state
        for run in (simulate, partial(simulate, exact=True), walk)
    )
    for run in (ours, exact):
        jax.tree.map(np.testing.assert_array_equal, run.value, oracle.value)
    check(oracle.value)


@pytest.mark.parametrize("runtime", [simulate, walk])
def test_a_single_node_and_a_single_edge(runtime):
    one = pack(X, Y, [np.arange(len(X))])
    run = runtime(METHOD, one, topologies.alone(1), 1, precision="float64")
    check(run.state.value, 1)
    two = pack(X, Y, np.split(np.arange(len(X)), [2]))
    run = runtime(METHOD, two, topologies.chain(2), 4, precision="float64")
    check(run.state.value, 2)


def test_it_predicts_nothing():
    with pytest.raises(NotImplementedError, match="predicts nothing"):
        METHOD.predict(None, None, X)


def test_the_same_count_gives_the_same_method():
    assert total(held) is METHOD
    assert server_total(held) is server_total(held)


# --- before a network learns


@pytest.mark.parametrize("name", ["chain", "random_tree 2"])
def test_what_is_summed_is_known_to_all(name):
    check({"total": summed(held, SHARDS, GRAPHS[name], seed=2)})


def test_a_server_sums_in_one_round():
    check({"total": summed(held, SHARDS, topologies.server(N))})


def test_one_node_and_two_are_networks_too():
    check({"total": summed(held, pack(X, Y, [np.arange(len(X))]), topologies.alone(1))}, 1)
    two = pack(X, Y, np.split(np.arange(len(X)), [2]))
    check({"total": summed(held, two, topologies.chain(2))}, 2)


def test_graphs_that_are_redrawn_count_by_their_first():
    redrawn = topologies.redrawn(partial(topologies.random_tree, N), every=2, rounds=8)
    check({"total": summed(held, SHARDS, redrawn)})


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        (topologies.alone(N), "not connected"),
        (
            topologies.from_graph(
                nx.disjoint_union(nx.path_graph(4), nx.path_graph(4)), allow_disconnected=True
            ),
            "not connected",
        ),
        (topologies.from_graph(nx.cycle_graph(N, create_using=nx.DiGraph)), "both directions"),
    ],
    ids=["alone", "two pieces", "one-way"],
)
def test_networks_that_cannot_agree_are_refused(graph, says):
    with pytest.raises(BadSetting, match=says):
        summed(held, SHARDS, graph)


# --- the structure of TAN

CARDINALITIES, CLASSES = (2, 0, 3, 2, 3), 2
LARGE = [30, 5, 25, 0, 25, 5, 10, 20]  # ragged, and one without rows


def codes():
    rng = np.random.default_rng(5)
    m = sum(LARGE)
    y = rng.integers(CLASSES, size=m)
    a = rng.integers(2, size=m)
    b = np.where(rng.random(m) < 0.6, a + y, rng.integers(3, size=m)) % 3
    c = np.where(rng.random(m) < 0.5, b, rng.integers(2, size=m)) % 2
    d = np.where(rng.random(m) < 0.7, c + 1, rng.integers(3, size=m))
    return np.column_stack([a, rng.normal(size=m), b, c, d]).astype(float), y


@pytest.mark.some("tree")
@pytest.mark.parametrize(
    "graph",
    [
        GRAPHS["random_tree 1"],
        topologies.server(N),
        topologies.redrawn(partial(topologies.random_tree, N), every=1, rounds=5, seed=4),
    ],
    ids=["tree", "server", "redrawn"],
)
def test_the_network_finds_the_tree_of_all_rows(graph):
    """Which not every node could find for itself."""
    x, y = codes()
    shards = pack(x, y, np.split(np.arange(len(y)), np.cumsum(LARGE)[:-1]))
    with jax.enable_x64(True):
        count = jax.jit(pair_counts(CARDINALITIES, CLASSES))
        pairs = np.asarray(count(x, y, np.ones(len(y))))
        own = np.asarray(count(x, y, (np.arange(len(y)) >= 100).astype(float)))  # of node 7
    expected = chow_liu(pairs, CARDINALITIES)
    assert expected.tolist() == [-1, -1, 0, 2, 3]  # as the rows were made
    got = phase_options(structure(CARDINALITIES, CLASSES), shards, graph, seed=1)
    assert got == {"parents": tuple(expected.tolist())}
    assert chow_liu(own, CARDINALITIES).tolist() != expected.tolist()
