"""Graphs that a user brings: from networkx and from a file."""

import networkx as nx
import numpy as np
import pytest

from peerwise import topology
from peerwise.errors import BadFile, BadSetting


def links(one):
    src, dst, weight = (np.asarray(leaf)[0].tolist() for leaf in one.links[:3])
    return list(zip(src, dst, weight, strict=True))


def test_nodes_are_numbered_in_sorted_order_and_weights_kept():
    graph = nx.Graph()
    graph.add_edge("c", "a", weight=0.5)
    graph.add_edge("b", "a")
    assert links(topology.from_graph(graph)) == [(1, 0, 1), (2, 0, 0.5), (0, 1, 1), (0, 2, 0.5)]


def test_nodes_that_cannot_be_compared_are_sorted_by_text():
    assert links(topology.from_graph(nx.Graph([("a", 2), (2, 10)]))) == [
        *((1, 0, 1), (0, 1, 1), (2, 1, 1), (1, 2, 1)),
    ]


def test_in_a_directed_graph_v_hears_u():
    one = topology.from_graph(nx.DiGraph([(0, 1), (1, 2), (0, 2)]))
    assert links(one) == [(0, 1, 1), (0, 2, 1), (1, 2, 1)]
    ((_, table),) = one.table
    assert table.tolist() == [[[-1, -1], [0, -1], [1, 2]]]
    graph = topology.graph_of(one)
    assert graph.is_directed()
    assert sorted(graph.edges) == [(0, 1), (0, 2), (1, 2)]


def test_unlike_weights_of_the_two_directions_survive():
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([(0, 1, 0.25), (1, 0, 0.75)])
    back = topology.graph_of(topology.from_graph(graph))
    assert back.is_directed()
    assert sorted(back.edges(data="weight")) == [(0, 1, 0.25), (1, 0, 0.75)]


def test_a_graph_in_pieces_is_refused_and_the_smallest_piece_named():
    graph = nx.Graph([(0, 1), (1, 2), (7, 5)])
    with pytest.raises(BadSetting, match="2 components, the smallest with nodes 5, 7"):
        topology.from_graph(graph)
    one = topology.from_graph(graph, allow_disconnected=True)
    assert one.n == 5
    assert one.links_per_round(0) == 6


def test_a_graph_without_edges():
    assert topology.from_graph(nx.empty_graph(1)).links_per_round(0) == 0
    assert topology.from_graph(nx.empty_graph(3), allow_disconnected=True).n == 3


def weighted(weight):
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=weight)
    return graph


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.Graph(), "number of nodes of the graph must be .* 1 or more, got 0"),
        (nx.MultiGraph([(0, 1), (0, 1)]), "parallel edges"),
        (nx.Graph([(0, 1), (1, 1)]), "node 1 has an edge to itself"),
        *(
            (weighted(weight), "edge 0, 1 must have a positive number as weight, got")
            for weight in (0, -1, np.nan, np.inf, 1e300, 1e-300, "heavy", None)
        ),
    ],
)
def test_graphs_that_are_refused(graph, message):
    with pytest.raises(BadSetting, match=message):
        topology.from_graph(graph)


def test_a_file_of_edges(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("# a path\n10 2\n\n2 9 0.5 # half as strong\n")
    assert links(topology.from_file(path)) == [(1, 0, 0.5), (2, 0, 1), (0, 1, 0.5), (0, 2, 1)]
    path.write_text("b a\nb 2\n")
    assert links(topology.from_file(str(path))) == [(2, 0, 1), (2, 1, 1), (0, 2, 1), (1, 2, 1)]


@pytest.mark.parametrize("line", ["0", "0 1 2 3", "0 1 x", "0 1 0", "0 1 -1", "0 1 nan", "1 1"])
def test_a_malformed_line_is_named(tmp_path, line):
    path = tmp_path / "edges.txt"
    path.write_text(f"0 2\n{line}\n")
    with pytest.raises(BadFile, match=f"edges.txt, line 2: expected two .* got '{line}'"):
        topology.from_file(path)


def test_an_edge_given_twice_is_named(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("0 2\n2 0 0.5\n")
    with pytest.raises(BadFile, match="line 2: the edge 2 0 was given before"):
        topology.from_file(path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(BadFile, match="cannot read the edge list"):
        topology.from_file(tmp_path / "none.txt")
    with pytest.raises(BadFile, match="cannot read the edge list"):
        topology.from_file(tmp_path)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadFile, match="cannot read the edge list"):
        topology.from_file(binary)
    empty = tmp_path / "empty.txt"
    empty.write_text("# nothing\n")
    with pytest.raises(BadFile, match="has no edges"):
        topology.from_file(empty)


def test_a_file_of_a_graph_in_pieces(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("0 1\n2 3\n")
    with pytest.raises(BadSetting, match="2 components"):
        topology.from_file(path)
    assert topology.from_file(path, allow_disconnected=True).n == 4
