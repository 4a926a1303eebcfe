"""What every topology that the package exports must be."""

import jax
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise import topology
from peerwise.declare import declared
from peerwise.errors import BadSetting

GRAPHS = declared("topology")
RANDOM = [name for name, graph in GRAPHS.items() if "seed" in graph.facts]
FIXED = [name for name in GRAPHS if name not in RANDOM]
PLAIN = [name for name in GRAPHS if name != "server"]  # its links end at no node
JOINED = [name for name in PLAIN if name != "alone"]  # alone has no links on purpose
OPTIONS = {"erdos_renyi": {"p": 0.4}}  # connected within few draws for every n below

few = settings(derandomize=True, deadline=None, max_examples=5)
sizes = st.integers(6, 40).map(lambda half: 2 * half)  # regular graphs need n k even
seeds = st.integers(0, 2**32 - 1)


def make(name, n, seed):
    return topology.named(name, n, seed, **OPTIONS.get(name, {}))


def links_of(one, graph=0):
    return [np.asarray(leaf)[graph] for leaf in one.links]


def test_the_registry_names_what_is_exported():
    assert set(GRAPHS) < set(topology.__all__)
    assert {"barabasi_albert", "erdos_renyi", "random_tree", "regular"} < set(RANDOM)
    assert {"chain", "complete", "grid", "ring", "server", "star"} < set(FIXED)


@pytest.mark.parametrize("name", GRAPHS)
def test_every_factory_has_defaults(name):
    one = getattr(topology, name)()
    assert isinstance(one, topology.Topology)
    assert one.weights == "equal"


@pytest.mark.parametrize("name", JOINED)
@few
@given(n=sizes, seed=seeds)
def test_connected_and_symmetric_without_loops(name, n, seed):
    graph = topology.graph_of(make(name, n, seed))
    assert not graph.is_directed()
    assert sorted(graph) == list(range(n))
    assert nx.is_connected(graph)
    assert nx.number_of_selfloops(graph) == 0


@pytest.mark.parametrize("name", GRAPHS)
@few
@given(n=sizes, seed=seeds)
def test_links_are_sorted_by_dst_and_then_src_with_padding_last(name, n, seed):
    src, dst, weight, age = links_of(make(name, n, seed))
    assert [leaf.dtype for leaf in (src, dst, weight, age)] == [np.int32] * 2 + [
        np.float32,
        np.int32,
    ]
    real = weight > 0
    place = dst[real].astype(np.int64) * (n + 1) + src[real]
    assert (np.diff(place) > 0).all()  # sorted, and no link twice
    assert (np.diff(dst) >= 0).all()
    assert not age.any()
    assert (src[~real] == 0).all()
    assert (dst[~real] == n - 1).all()


@pytest.mark.parametrize("name", PLAIN)
@few
@given(n=sizes, seed=seeds)
def test_every_link_is_in_one_slot_of_its_dst_and_every_node_in_one_bucket(name, n, seed):
    one = make(name, n, seed)
    _, dst, weight, _ = links_of(one)
    found = np.zeros(dst.size, int)
    for nodes, table in one.table:
        slots = np.asarray(table)[0]
        assert slots.shape[0] == nodes.size
        assert slots.shape[1] & (slots.shape[1] - 1) == 0  # a power of two
        row, column = np.nonzero(slots >= 0)
        np.testing.assert_array_equal(dst[slots[row, column]], np.asarray(nodes)[row])
        found[slots[row, column]] += 1
        filled = (slots >= 0).sum(1)
        assert (
            (slots >= 0) == (np.arange(slots.shape[1]) < filled[:, None])
        ).all()  # from the left
        assert (np.diff(slots, axis=1)[slots[:, 1:] >= 0] == 1).all()  # in the order of the links
    np.testing.assert_array_equal(found, weight > 0)
    everyone = np.concatenate([np.asarray(nodes) for nodes, _ in one.table])
    np.testing.assert_array_equal(np.sort(everyone), np.arange(n))


@pytest.mark.parametrize("name", GRAPHS)
def test_the_same_seed_gives_the_same_links(name):
    for a, b in zip(links_of(make(name, 30, 5)), links_of(make(name, 30, 5)), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", RANDOM)
def test_another_seed_gives_other_links(name):
    drawn = {tuple(np.concatenate(links_of(make(name, 30, seed))).tolist()) for seed in range(5)}
    assert len(drawn) == 5


@pytest.mark.parametrize("name", JOINED)
def test_a_graph_survives_the_way_through_networkx(name):
    one = make(name, 20, 3)
    for a, b in zip(
        links_of(one), links_of(topology.from_graph(topology.graph_of(one))), strict=True
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", GRAPHS)
def test_mixing_matrices_are_stochastic_and_metropolis_doubly_so(name):
    one = make(name, 20, 3)
    for include_self in (False, True):
        matrix = topology.mixing_matrix(one, include_self=include_self)
        assert (matrix >= 0).all()
        np.testing.assert_allclose(matrix.sum(1), 1, rtol=1e-12)
    matrix = topology.mixing_matrix(topology.metropolis(one))
    assert (matrix >= 0).all()
    np.testing.assert_allclose(matrix.sum(0), 1, rtol=1e-6)
    np.testing.assert_allclose(matrix.sum(1), 1, rtol=1e-6)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("n", [0, -1, 2.5, True, "5"])
def test_no_graph_of_fewer_than_one_node(name, n):
    with pytest.raises(BadSetting, match=r"n must be a whole number"):
        getattr(topology, name)(n)


@pytest.mark.parametrize("name", RANDOM)
def test_a_seed_is_a_whole_number(name):
    with pytest.raises(BadSetting, match=r"seed must be .* got -1"):
        getattr(topology, name)(20, seed=-1)


@pytest.mark.parametrize("name", ["alone", "chain", "complete", "grid", "ring", "server", "star"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_smallest_networks(name, n):
    one = make(name, n, 0)
    links = one(jax.random.key(0), 0)
    assert one.n == n
    assert links.src.shape == links.dst.shape == links.weight.shape == links.age.shape
    assert links.src.size >= 1
    if name not in ("alone", "server"):
        pairs = n * (n - 1) // 2 - (n == 3 and name in ("chain", "star", "grid"))
        assert one.links_per_round(0) == 2 * pairs
