"""Nodes dealt to devices: every node once, few links cut, tables that bring what links need."""

import socket
import threading

import jax
import numpy as np
import pytest

from peerwise import topology
from peerwise.checkpoint import (
    BY_LINK,
    WHOLE,
    Piece,
    fingerprint,
    joined,
    load,
    save_index,
    save_piece,
)
from peerwise.errors import BadFile, BadSetting, MissingExtra, UnknownName
from peerwise.metrics import consensus, errors, together
from peerwise.metrics.probes import axes_of, split_probe
from peerwise.shards import pack
from peerwise.simulate import mesh_of, start_processes
from peerwise.simulate.parts import crossing, divide
from peerwise.simulate.rollcall import come, meet_all
from peerwise.simulate.tables import tables_of
from peerwise.topology.links import two_way

N = 200


def rows(n, ragged=False):
    size = np.random.default_rng(0).integers(1, 9, n) if ragged else np.ones(n, int)
    m = int(size.sum())
    return pack(np.zeros((m, 1), "f"), np.zeros(m), np.split(np.arange(m), np.cumsum(size)[:-1]))


GRAPHS = {
    "tree": lambda: topology.random_tree(N, seed=2),
    "ring": lambda: topology.ring(N),
    "hubs": lambda: topology.barabasi_albert(N, m=2),
    "star": lambda: topology.star(N),
    "pushes": lambda: topology.pushes(N, rounds=3),
    "nobody": lambda: topology.alone(N),
}


@pytest.mark.parametrize("cut", ["auto", "order", "metis"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_every_node_has_one_place_and_every_link_finds_its_sender(graph, cut):
    """Follows the tables as devices do: what lies where a link looks is its sender's."""
    if cut == "metis":
        pytest.importorskip("pymetis")
    links = GRAPHS[graph]()
    for parts in (2, 5):
        made = divide(links, rows(N, ragged=True), parts, cut)
        numbers = made.numbers
        assert sorted(numbers[numbers < N]) == list(range(N))
        np.testing.assert_array_equal(numbers[made.part, made.place], np.arange(N))
        tables = tables_of(links, made)
        here, route = tables.here, tables.here.route
        heard = set()
        for g in range(links.links.src.shape[0]):
            at_hand = [list(numbers[q]) for q in range(parts)]
            if route.gather:
                at_hand = [list(numbers.reshape(-1))] * parts
            for give, shift in zip(route.give, route.shifts, strict=True):
                for q in range(parts):
                    came = (q - shift) % parts
                    at_hand[q] += list(numbers[came][give[came, g]])
            for q in range(parts):
                for places, slots in tables.topology.table:
                    for place, row in zip(places[q], slots[q, g], strict=True):
                        for edge in row[row >= 0]:
                            src = tables.topology.links.src[q, g, edge]
                            assert at_hand[q][here.place[q, g, edge]] == src
                            assert numbers[q, place] == tables.topology.links.dst[q, g, edge]
                            heard.add((g, int(src), int(numbers[q, place])))
        src, dst, weight = (np.asarray(a) for a in links.links[:3])
        there = {(g, int(src[g, e]), int(dst[g, e])) for g, e in np.argwhere(weight > 0)}
        assert heard == there


@pytest.mark.parametrize("graph", ["tree", "ring", "hubs"])
def test_every_link_finds_the_answer_that_comes_over_it(graph):
    """Follows the tables as devices do: an answer to a link goes by the link in return."""
    links = two_way(GRAPHS[graph]())
    src, dst = (np.asarray(a)[0] for a in links.links[:2])
    for parts in (2, 5):
        tables = tables_of(links, divide(links, rows(N), parts), "kept")
        route, row, numbers = tables.here.mail.route, tables.here.mail.row, tables.links
        at_hand = [list(numbers[q]) for q in range(parts)]
        if route.gather:
            at_hand = [list(numbers.reshape(-1))] * parts
        for give, shift in zip(route.give, route.shifts, strict=True):
            for q in range(parts):
                came = (q - shift) % parts
                at_hand[q] += list(numbers[came][give[came, 0]])
        met = []
        for q in range(parts):
            for e, link in enumerate(numbers[q]):
                if link < src.size:
                    met.append(link)
                    answered = at_hand[q][row[q, e]]
                    assert (src[answered], dst[answered]) == (dst[link], src[link])
        assert sorted(met) == list(range(src.size))


def test_a_tree_is_cut_in_few_places():
    n = 5000
    tree = topology.random_tree(n, seed=0)
    src, dst = (np.asarray(a)[0] for a in tree.links[:2])
    made = divide(tree, rows(n), 8)
    assert crossing(made.part, src, dst) <= 2 * 7 * np.log2(n)
    assert crossing(divide(tree, rows(n), 8, "order").part, src, dst) > n
    assert np.ptp(np.bincount(made.part)) <= 1


def test_where_everything_would_cross_all_is_given_to_all():
    def gathers(graph):
        return tables_of(graph, divide(graph, rows(graph.n), 4)).here.route.gather

    assert gathers(topology.complete(80))
    assert not gathers(topology.ring(N))


def test_more_parts_than_nodes_and_unknown_cuts_are_told():
    with pytest.raises(BadSetting, match="9 devices cannot share 8 nodes"):
        divide(topology.ring(8), rows(8), 9)
    with pytest.raises(
        UnknownName, match="unknown way to cut a network 'mettis'; did you mean 'metis'"
    ):
        divide(topology.ring(8), rows(8), 2, "mettis")


def test_metis_may_be_absent(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pymetis", None)
    with pytest.raises(MissingExtra, match=r"pip install 'peerwise\[metis\]'"):
        divide(topology.ring(8), rows(8), 2, "metis")


def test_a_probe_is_split_into_looks_at_nodes_and_at_the_network():
    x, y = np.zeros((4, 1), "f"), np.zeros(4, int)
    each, whole = split_probe(together(errors("test", x, y), consensus()))
    assert [axes_of(look) for look in each] == [{}]
    assert whole.func is consensus().func
    assert split_probe(None) == ((), None)


def test_devices_that_are_not_there_are_told():
    with pytest.raises(
        BadSetting, match=r"99 devices were asked for and there (is one|are \d+) cpu"
    ):
        mesh_of(99)
    assert mesh_of(1).devices.size == 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("nowhere", 2, 1), "must be HOST:PORT"),
        (("127.0.0.1:99999", 2, 1), "must be HOST:PORT"),
        (("127.0.0.1:7000", None, 1), "say how many processes"),
        (("127.0.0.1:7000", 2, 2), "none number 2"),
        (("127.0.0.1:1", 2, 1), "nobody answers at the coordinator 127.0.0.1:1 after 0 s"),
    ],
)
def test_processes_that_cannot_meet_are_told(given, says, monkeypatch):
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    with pytest.raises(BadSetting, match=says):
        start_processes(*given, wait=0)


def free():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return "127.0.0.1", taken.getsockname()[1]


def called(address, others):
    """What the others are told, each called with (number, what it runs)."""
    told = {}

    def one(index, about):
        try:
            come(address, index, about, 20)
            told[index] = "go"
        except BadSetting as error:
            told[index] = str(error)

    threads = [threading.Thread(target=one, args=other) for other in others]
    for thread in threads:
        thread.start()
    return threads, told


def test_all_processes_are_there_before_any_begins():
    address = free()
    threads, told = called(address, [(1, "peerwise 1"), (2, "peerwise 1")])
    meet_all(address, 3, "peerwise 1", 20)
    for thread in threads:
        thread.join()
    assert told == {1: "go", 2: "go"}


def test_a_process_of_another_version_is_refused_everywhere():
    address = free()
    threads, told = called(address, [(1, "peerwise 0.9")])
    says = "process 1 runs peerwise 0.9 and process 0 peerwise 1: install the same everywhere"
    with pytest.raises(BadSetting, match=says):
        meet_all(address, 2, "peerwise 1", 20)
    threads[0].join()
    assert told == {1: says}


def test_a_process_that_does_not_come_is_named():
    with pytest.raises(BadSetting, match=r"process 1 of 2 did not come to 127\.0\.0\.1:"):
        meet_all(free(), 2, "peerwise 1", 0)


def test_a_run_saved_in_parts_is_read_whole_and_damage_is_told(tmp_path):
    file, mark = tmp_path / "run", fingerprint("a run")
    like = {"a": np.arange(12.0).reshape(6, 2), "b": np.arange(6).reshape(1, 6), "c": np.ones(3)}
    like["by link"] = np.arange(9)  # of which the last is of nobody
    axes = {"a": 0, "b": 1, "c": WHOLE, "by link": BY_LINK}
    heard = np.array([0, 0, 1, 2, 3, 4, 5, 5])

    def pieces(*cuts):
        made = []
        for nodes in map(np.array, cuts):
            (links,) = np.nonzero(np.isin(heard, nodes))
            rows = {"a": like["a"][nodes], "b": like["b"][:, nodes], "c": like["c"]}
            made.append(Piece(nodes, links, rows | {"by link": like["by link"][links]}, axes))
        return made

    like["by link"][8] = 0
    for whole in (joined(like, pieces([4, 0], [1, 2, 3, 5])), joined(like, pieces(range(6)))):
        jax.tree.map(np.testing.assert_array_equal, whole, like)
    for done in (3, 5):
        for q, piece in enumerate(pieces([4, 0], [1, 2, 3, 5])):
            save_piece(file, q, piece, done, mark)
        save_index(file, 2, done, mark)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "run.5-0", "run.5-1"]
    whole, rounds = load(file, like, mark)
    jax.tree.map(np.testing.assert_array_equal, whole, like)
    assert rounds == 5
    with pytest.raises(BadFile, match="saved by another run"):
        load(file, like, fingerprint("another"))
    (tmp_path / "run.5-1").unlink()
    with pytest.raises(BadFile, match=r"saved in 2 parts and .*run.5-1 is not there"):
        load(file, like, mark)
