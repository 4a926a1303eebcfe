"""Peers that work for long stay as small as they were."""

import gc
import logging
import time

import networkx as nx
import pytest

from federation import federation, run_all
from peerwise.peer.store.outbox import KEEP


def resident():
    """MiB of memory of this process."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def file_bytes(store):
    """Bytes of a peer's file without what waits to be written into it."""
    ((pages,),) = store.rows("PRAGMA page_count")
    ((size,),) = store.rows("PRAGMA page_size")
    return pages * size


def soak(tmp_path, count):
    """Rounds of three peers: MiB of growth after a tenth of them, and bytes of the largest file."""
    graph = nx.relabel_nodes(nx.cycle_graph(3), {0: "a", 1: "b", 2: "c"})
    fed = federation(
        tmp_path, graph, {"name": "crc", "lr": 1e-4}, features=2, rows=40, rounds=count
    )
    daemons = [fed.daemon(name) for name in fed.charter.names]
    marks = {}
    first, stored = daemons[0], daemons[0]._stored

    def marked(advance):
        stored(advance)
        if advance.place.round in (count // 10, count - 1):
            gc.collect()
            marks[advance.place.round] = resident(), time.perf_counter()

    first._stored = marked
    logging.getLogger("peerwise.peer").setLevel(logging.WARNING)
    assert all(run_all(*daemons, seconds=7200))
    (before, start), (after, end) = marks.values()
    largest = max(file_bytes(d.store) for d in daemons)
    each = (end - start) / (count - 1 - count // 10)
    print(
        f"\n{count} rounds, {each * 1e3:.1f} ms each: {before:.1f} MiB after a tenth, {after:.1f} "
        f"at the end; file {largest / 1024:.0f} KiB"
    )
    for daemon in daemons:
        assert daemon.place.round == count
        assert daemon.store.rows("SELECT count(*) FROM rounds") == [(count,)]
        assert daemon.store.rows("SELECT count(*) FROM outbox") == [(2 * count,)]
        ((bodies,),) = daemon.store.rows("SELECT count(*) FROM bodies")
        assert bodies <= KEEP
        ((inbox,),) = daemon.store.rows("SELECT count(*) FROM inbox")
        assert inbox <= 4
        neighbours = daemon.core.neighbours.values()
        assert max(len(n.heard) for n in neighbours) <= 2
        assert not any(n.line for n in neighbours)
        assert not daemon.core.coming
        assert daemon.store.rows("SELECT 1 FROM outbox WHERE acknowledged IS NULL") == []
        daemon.store.close()
    return after - before, largest


@pytest.mark.full
@pytest.mark.usefixtures("usual_garbage")
def test_eighty_rounds_of_three_peers_leave_nothing_behind(tmp_path):
    growth, largest = soak(tmp_path, 80)
    assert growth < 60
    assert largest < 512 * 1024


@pytest.mark.full
@pytest.mark.usefixtures("usual_garbage")
def test_ten_thousand_rounds_of_three_peers_leave_nothing_behind(tmp_path):
    growth, largest = soak(tmp_path, 10_000)
    assert growth < 200
    assert largest < 10_000 * 800  # a line of some hundred bytes for each round and each letter
