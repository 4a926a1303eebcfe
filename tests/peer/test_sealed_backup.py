"""Real peers of which one is put back to a backup within a sum that is agreed on first."""

import contextlib
import shutil
import signal
import sqlite3
import time

import pytest
from sklearn.datasets import load_digits

from federation import table_of
from peerwise.peer import views
from peerwise.peer.local import Peers, set_up
from peerwise.peer.protocol.messages import Place

SPENDS = {"epsilon": 20.0, "delta": 1e-5}
LIMIT = 240.0
CASES = {
    "features and units": {"method": {"name": "sealed_nb", "select": 2, "units": "sealed"}},
    "structure": {"method": {"name": "sealed_nb"}, "model": "tan"},
}


def network(folder, case):
    digits = load_digits()
    x = digits.data[:, 18:23]
    x = (x > 8).astype(float) if "model" in case else x
    return set_up(
        folder / "net", table_of("digits", x, digits.target % 2), nodes=4, rows=40, graph="chain",
        description={**case, "privacy": SPENDS, "run": {"rounds": 16}}, budget=SPENDS,
    )  # fmt: skip


def asked(fed, name, query):
    """What is in the file of a peer that runs; nothing before there is one."""
    path = (fed.state(name) / "peer.db").resolve()
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
            return db.execute(query).fetchall()
    except sqlite3.Error:
        return []


def killed(peers, name, place, masks=0):
    """Kill a peer once it has come to a place and has hidden so many terms; where it was then."""
    end = time.monotonic() + LIMIT
    fed = peers.federation
    while True:
        there = asked(fed, name, "SELECT phase, round FROM progress")
        hidden = asked(fed, name, "SELECT * FROM masks")
        if there and there[0] >= place and len(hidden) >= masks:
            break
        assert time.monotonic() < end
        assert not peers.failed(), peers.failed()
        time.sleep(0.001)
    peers.signal(name, signal.SIGKILL)
    peers.processes[name].wait()
    return Place(*asked(fed, name, "SELECT phase, round FROM progress")[0])


def copied(fed, name, source, target, ledger):
    """Put the state of a peer into another folder, or back; with the ledger of its site or not."""
    shutil.rmtree(target / "state" / name, ignore_errors=True)
    shutil.copytree(source / "state" / name, target / "state" / name)
    if ledger:
        (target / "ledgers").mkdir(exist_ok=True)
        for path in (source / "ledgers").glob(f"{name}.ledger*"):
            shutil.copy(path, target / "ledgers")


def put_back(peers, folder, name, before, after, ledger):
    """Have a peer put back, at one place, to its state of an earlier one; where it was at both."""
    fed = peers.federation
    then = killed(peers, name, *before)
    copied(fed, name, fed.folder, folder / "backup", ledger)
    peers.start(name)
    there = killed(peers, name, *after)
    copied(fed, name, folder / "backup", fed.folder, ledger)
    peers.start(name)
    return then, there


def ended(peers):
    """Wait until all processes are over; their exit statuses."""
    end = time.monotonic() + LIMIT
    while any(p.poll() is None for p in peers.processes.values()):
        assert time.monotonic() < end, peers.look()
        time.sleep(0.05)
    return [p.returncode for p in peers.processes.values()]


@pytest.mark.full  # `make test`: peers in one process, in test_sealed_first.py
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("ledger", [False, True], ids=["state", "state and ledger"])
def test_a_backup_with_the_term_ends_with_the_same_sum(tmp_path, case, ledger):
    fed = network(tmp_path, CASES[case])
    with Peers(fed) as peers:
        then, there = put_back(
            peers, tmp_path, "node1", (Place(1, 1), 1), (Place(1, 4),), ledger
        )  # fmt: skip
        assert then.phase == there.phase == 1
        assert ended(peers) == [0] * 4, peers.failed()
    agreed = [views.learnt(fed.state(name)).agreed for name in fed.charter.names]
    assert all(one == agreed[0] for one in agreed)
    phases = len(agreed[0]["first"]) + 1
    for name in fed.charter.names:
        assert asked(fed, name, "SELECT count(*) FROM masks") == [(phases,)]


@pytest.mark.full
@pytest.mark.parametrize("ledger", [False, True], ids=["state", "state and ledger"])
def test_a_backup_without_the_term_makes_no_other_and_hears_the_sum(tmp_path, ledger):
    """It is of the phase before: neighbours have kept their letters of that."""
    fed = network(tmp_path, CASES["features and units"])
    with Peers(fed) as peers:
        # by then all have the sum: a term goes all the way in three rounds
        then, there = put_back(peers, tmp_path, "node1", (Place(0, 2),), (Place(1, 8),), ledger)
        assert (then.phase, there.phase) == (0, 1)
        assert ended(peers) == [0] * 4, peers.failed()
    agreed = [views.learnt(fed.state(name)).agreed for name in fed.charter.names]
    assert all(one == agreed[0] for one in agreed)
    assert asked(fed, "node1", "SELECT phase, round FROM masks") == [(2, 1), (3, 1)]
    assert "adds no more to sealed sums" in (fed.state("node1") / "peer.log").read_text()
