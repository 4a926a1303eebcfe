"""What can be known of a network before a run: reach, mixing matrices, spectral gaps."""

import networkx as nx
import numpy as np
import pytest

from peerwise import topology


def test_the_reach_of_a_chain():
    # Of 4 nodes the ends have 1, 2, 3, 4 nodes within 0..3 links and the others 1, 3, 4, 4.
    expected = np.array([4, 2 * 2 + 2 * 3, 2 * 3 + 2 * 4, 16]) / 16
    np.testing.assert_allclose(topology.reach(topology.chain(4)), expected)


def test_the_reach_of_a_ring():
    np.testing.assert_allclose(topology.reach(topology.ring(7)), np.array([1, 3, 5, 7]) / 7)


@pytest.mark.parametrize("one", [topology.complete(5), topology.server(5)])
def test_everybody_is_one_link_away(one):
    np.testing.assert_allclose(topology.reach(one), [0.2, 1])


def test_reach_follows_links_backwards_to_what_is_heard():
    graph = nx.DiGraph([(0, 1), (0, 2), (0, 3), (3, 4)])  # all but 4 hear 0, 4 hears 3 and then 0
    expected = np.array([5, 5 + 4, 5 + 5]) / 25
    np.testing.assert_allclose(topology.reach(topology.from_graph(graph)), expected)


def test_reach_of_networks_in_pieces_and_of_one_node():
    np.testing.assert_allclose(topology.reach(topology.alone(4)), [0.25])
    np.testing.assert_allclose(topology.reach(topology.alone(1)), [1])
    np.testing.assert_allclose(topology.reach(topology.server(1)), [1])


def test_reach_in_parts_is_reach_of_the_whole():
    """More nodes than are done at once, against networkx."""
    one = topology.random_tree(600, seed=3)
    lengths = nx.all_pairs_shortest_path_length(topology.graph_of(one))
    counts = np.bincount([steps for _, row in lengths for steps in row.values()])
    np.testing.assert_allclose(topology.reach(one), counts.cumsum() / 600**2)


def test_the_mixing_matrix_of_a_chain():
    one = topology.chain(3)
    np.testing.assert_allclose(topology.mixing_matrix(one), [[0, 1, 0], [0.5, 0, 0.5], [0, 1, 0]])
    np.testing.assert_allclose(
        topology.mixing_matrix(one, include_self=True),
        [[1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1 / 2, 1 / 2]],
    )


def test_the_metropolis_matrix_of_a_path():
    expected = np.array([[2, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 2]]) / 3
    for include_self in (False, True):
        matrix = topology.mixing_matrix(
            topology.metropolis(topology.chain(4)), include_self=include_self
        )
        np.testing.assert_allclose(matrix, expected, atol=1e-7)


def test_mixing_matrices_of_servers_lone_nodes_and_directed_links():
    np.testing.assert_allclose(topology.mixing_matrix(topology.server(4)), np.full((4, 4), 0.25))
    np.testing.assert_allclose(topology.mixing_matrix(topology.alone(3)), np.eye(3))
    np.testing.assert_allclose(
        topology.mixing_matrix(topology.metropolis(topology.alone(3))), np.eye(3)
    )
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(0, 2, 1), (1, 2, 3)])
    matrix = topology.mixing_matrix(topology.from_graph(graph))
    np.testing.assert_allclose(matrix, [[1, 0, 0], [0, 1, 0], [0.25, 0.75, 0]])


@pytest.mark.parametrize("n", [5, 8, 20])
def test_the_spectral_gap_of_a_ring(n):
    eigenvalues = (1 + 2 * np.cos(2 * np.pi * np.arange(n) / n)) / 3
    expected = 1 - np.sort(np.abs(eigenvalues))[-2]
    assert topology.spectral_gap(topology.ring(n)) == pytest.approx(expected)
    # On a ring the larger degree is 2 everywhere, so Metropolis is the equal mean with self.
    metropolis = topology.spectral_gap(topology.metropolis(topology.ring(n)))
    assert metropolis == pytest.approx(expected, abs=1e-6)


def test_gaps_at_the_ends_of_the_scale():
    assert topology.spectral_gap(topology.complete(6)) == pytest.approx(1)
    assert topology.spectral_gap(topology.server(6)) == pytest.approx(1)
    assert topology.spectral_gap(topology.alone(1)) == 1
    assert topology.spectral_gap(topology.alone(2)) == 0
    # A tree has no odd cycle: without self its two halves only swap what they know.
    gap = topology.spectral_gap(topology.random_tree(20), include_self=False)
    assert gap == pytest.approx(0, abs=1e-9)


def test_differences_shrink_by_the_gap_at_worst():
    """W is symmetric: in one round no difference shrinks by less, and one by just as much."""
    one = topology.metropolis(topology.erdos_renyi(30, seed=2))
    worst = np.linalg.norm(topology.mixing_matrix(one) - 1 / 30, 2)
    assert 1 - worst == pytest.approx(topology.spectral_gap(one), rel=1e-5)


def test_graphs_of_a_schedule_are_analysed_round_by_round():
    one = topology.redrawn(topology.random_tree, every=2, rounds=4)
    assert sorted(topology.graph_of(one, 0).edges) == sorted(topology.graph_of(one, 1).edges)
    assert sorted(topology.graph_of(one, 1).edges) != sorted(topology.graph_of(one, 2).edges)
    assert topology.spectral_gap(one, t=1) != topology.spectral_gap(one, t=2)
    np.testing.assert_array_equal(topology.reach(one, 2), topology.reach(one, 3))


def test_the_graph_of_a_server_is_complete():
    assert nx.is_isomorphic(topology.graph_of(topology.server(4)), nx.complete_graph(4))
