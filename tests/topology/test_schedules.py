"""Redrawn graphs, Metropolis weights, stacked replicas, and topologies inside jit."""

from functools import partial

import jax
import networkx as nx
import numpy as np
import pytest

from peerwise import topology
from peerwise.errors import BadSetting

KEY = jax.random.key(0)


def real(links):
    src, dst, weight = (np.asarray(leaf) for leaf in links[:3])
    return [leaf[weight > 0].tolist() for leaf in (src, dst, weight)]


def test_a_new_tree_every_three_rounds():
    one = topology.redrawn(partial(topology.random_tree, 12), every=3, rounds=8, seed=1)
    assert one.links.src.shape == (3, 22)
    assert [int(one.at(t)) for t in range(12)] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 2]
    rounds = [real(one(KEY, t)) for t in range(12)]
    assert rounds[0] == rounds[2] != rounds[3] == rounds[5] != rounds[6] == rounds[11]
    again = topology.redrawn(lambda seed: topology.random_tree(12, seed), every=3, rounds=8, seed=1)
    assert [real(again(KEY, t)) for t in range(12)] == rounds
    other = topology.redrawn(partial(topology.random_tree, 12), every=3, rounds=8, seed=2)
    assert real(other(KEY, 0)) != rounds[0]


def test_graphs_of_unlike_length_are_padded_in_order():
    draw = partial(topology.erdos_renyi, 12, p=0.4)
    one = topology.redrawn(draw, every=1, rounds=5)
    counts = [one.links_per_round(t) for t in range(5)]
    assert len(set(counts)) > 1
    assert one.links.src.shape == (5, max(counts))
    ((nodes, table),) = one.table
    assert table.shape == (5, 12, one.slots)
    for t in range(5):
        src, dst, weight, _ = (np.asarray(leaf) for leaf in one(KEY, t))
        assert (np.diff(dst) >= 0).all()
        assert (weight[counts[t] :] == 0).all()
        assert (src[counts[t] :] == 0).all()
        slots = np.asarray(table)[t]
        row, column = np.nonzero(slots >= 0)
        assert sorted(slots[row, column]) == list(range(counts[t]))
        assert (dst[slots[row, column]] == np.asarray(nodes)[row]).all()


def test_hubs_of_redrawn_graphs_are_in_buckets_too():
    one = topology.redrawn(partial(topology.barabasi_albert, 600), every=1, rounds=3)
    assert len(one.table) > 1
    everyone = np.concatenate([np.asarray(nodes) for nodes, _ in one.table])
    assert sorted(everyone) == list(range(600))
    for t in range(3):
        dst = np.asarray(one(KEY, t).dst)
        filled = []
        for nodes, table in one.table:
            slots = np.asarray(table)[t]
            row, column = np.nonzero(slots >= 0)
            assert (dst[slots[row, column]] == np.asarray(nodes)[row]).all()
            filled.extend(slots[row, column])
        assert sorted(filled) == list(range(one.links_per_round(t)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"every": 0, "rounds": 5}, "every must be .* 1 or more, got 0"),
        ({"every": 1, "rounds": 0}, "rounds must be .* 1 or more, got 0"),
        ({"every": 1, "rounds": 5, "seed": -1}, "seed must be .* got -1"),
        ({"every": 1, "rounds": 5, "draw": topology.chain}, "draw must need a seed"),
        ({"every": 1, "rounds": 5, "draw": lambda seed: topology.server(5)}, "without a server"),
        (
            {"every": 1, "rounds": 5, "draw": lambda seed: topology.chain(2 + seed % 7)},
            "one number of nodes",
        ),
        (
            {
                "every": 1,
                "rounds": 2,
                "draw": lambda seed: topology.redrawn(topology.random_tree, every=1, rounds=2),
            },
            "static graphs",
        ),
    ],
)
def test_schedules_that_make_no_sense(arguments, message):
    with pytest.raises(BadSetting, match=message):
        topology.redrawn(**{"draw": topology.random_tree, **arguments})


def test_metropolis_weights_of_a_path():
    one = topology.metropolis(topology.chain(4))  # degrees 1 2 2 1
    assert one.weights == "metropolis"
    np.testing.assert_allclose(one.links.weight, np.full((1, 6), 1 / 3))
    star = topology.metropolis(topology.star(5))
    np.testing.assert_allclose(star.links.weight, np.full((1, 8), 1 / 5))
    pair = topology.metropolis(topology.chain(2))
    np.testing.assert_allclose(pair.links.weight, [[0.5, 0.5]])
    np.testing.assert_allclose(topology.metropolis(topology.server(5)).links.weight, [[0.2] * 5])


def test_metropolis_weights_are_those_of_each_graph_and_leave_padding_alone():
    draw = partial(topology.erdos_renyi, 12, p=0.4)
    one = topology.metropolis(topology.redrawn(draw, every=1, rounds=4))
    late = topology.redrawn(lambda seed: topology.metropolis(draw(seed=seed)), every=1, rounds=4)
    np.testing.assert_array_equal(one.links.weight, late.links.weight)
    assert late.weights == "metropolis"


def test_metropolis_needs_both_directions():
    with pytest.raises(BadSetting, match="both directions"):
        topology.metropolis(topology.from_graph(nx.DiGraph([(0, 1), (1, 2)])))


def test_a_stack_is_each_of_its_parts_under_vmap():
    parts = [
        topology.erdos_renyi(12, p=0.4, seed=1),
        topology.redrawn(partial(topology.random_tree, 12), every=2, rounds=6),
        topology.complete(12),
    ]
    whole = topology.stack(parts)
    assert whole.links.src.shape == (3, 3, 132)
    assert whole.table[0][0].shape == (3, 12)
    assert whole.table[0][1].shape == (3, 3, 12, 16)
    assert whole.every.shape == (3,)
    for t in (0, 1, 3, 5, 100):
        links = jax.vmap(lambda one, t=t: one(KEY, t))(whole)
        slots = jax.vmap(lambda one, t=t: one.table[0][1][one.at(t)])(whole)
        for i, part in enumerate(parts):
            assert real(jax.tree.map(lambda leaf, i=i: leaf[i], links)) == real(part(KEY, t))
            assert (np.diff(links.dst[i]) >= 0).all()
            own = part.table[0][1][part.at(t)]
            np.testing.assert_array_equal(slots[i, :, : own.shape[1]], own)
            assert (np.asarray(slots[i, :, own.shape[1] :]) == -1).all()


def test_servers_stack():
    whole = topology.stack([topology.server(5)] * 2)
    assert whole.server
    assert whole.links.src.shape == (2, 1, 5)
    assert whole.table[0][1].shape == (2, 1, 5, 1)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [topology.chain(5), topology.chain(6)],
        [topology.complete(5), topology.server(5)],
        [topology.chain(5), topology.metropolis(topology.chain(5))],
        [topology.star(1000), topology.star(1000)],
    ],
)
def test_what_does_not_stack(parts):
    with pytest.raises(BadSetting, match="stack"):
        topology.stack(parts)


def test_another_graph_of_the_same_shapes_does_not_compile_again():
    traced = []

    @jax.jit
    def run(one, t):
        traced.append(one.n)
        return one(KEY, t), one.at(t)

    for seed in range(6):
        one = topology.regular(20, k=4, seed=seed)
        links, now = run(one, seed)
        assert int(now) == 0
        assert real(links) == real(one(KEY, 0))
    assert traced == [20]


def test_the_arrays_are_the_same_in_double_precision():
    with jax.enable_x64(True):
        one = topology.random_tree(20)
        links = one(KEY, 3)
    assert [leaf.dtype for leaf in links] == [np.int32, np.int32, np.float32, np.int32]
    assert one.every.dtype == one.table[0][0].dtype == one.table[0][1].dtype == np.int32
    assert real(links) == real(topology.random_tree(20)(KEY, 3))
