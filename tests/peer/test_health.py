"""What whoever watches a peer is told: whether it lives, takes letters, and for whom it waits."""

import asyncio
import errno
import fcntl
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from federation import federation
from helpers import command, in_words
from hostile import LONG, Host, path
from peerwise.errors import BadFile
from peerwise.peer import views
from peerwise.peer.health import FROZEN, Health, beating
from peerwise.peer.local import free_ports
from peerwise.peer.meters import Meters
from peerwise.peer.serve import only_one
from peerwise.peer.store import LOCK

CRC = {"name": "crc", "lr": 0.05}


@pytest.fixture(scope="module")
def fed(tmp_path_factory):
    return federation(tmp_path_factory.mktemp("fed"), path("a", "b", "c"), CRC, rounds=5)


@pytest.fixture(scope="module")
def waiter(fed):
    """A peer whose neighbours are not there."""
    host, daemon = Host(), fed.daemon("b")
    host.start(daemon)
    until = time.monotonic() + LONG
    while not (daemon.meters.health.ready and daemon.meters.health.facts()["waiting"]):
        assert time.monotonic() < until
        time.sleep(0.01)
    yield daemon
    host.close()


@pytest.fixture
def peerwise(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    return in_words(command(monkeypatch, capsys))


def asked(port, where):
    """The status of an answer, and what it says."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{where}", timeout=LONG) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_a_peer_waits_for_some_since_before_and_for_nobody_after_a_round():
    moment = [1000.0]
    health = Health(lambda: moment[0])
    health.waiting(["a", "b"])
    moment[0] += 20
    health.waiting(["b", "c"])
    waits = health.facts()["waiting"]
    assert [(w["for"], w["seconds"]) for w in waits] == [("b", 20.0), ("c", 0.0)]
    assert waits[0]["since"] == "1970-01-01T00:16:40Z"
    health.round(0, 7)
    assert health.facts()["waiting"] == []
    assert (health.facts()["round"], health.facts()["last round ended"]) == (
        7,
        "1970-01-01T00:17:00Z",
    )


def test_a_peer_is_ready_while_it_listens_and_lives_while_its_loop_goes_round():
    moment = [0.0]
    health = Health(lambda: moment[0])
    assert (health.live, health.ready) == (True, False)
    health.up()
    assert health.ready
    moment[0] += FROZEN
    assert (health.live, health.ready) == (False, False)
    health.beat()
    assert (health.live, health.ready) == (True, True)
    health.down()
    assert (health.live, health.ready) == (True, False)
    assert health.answer("/metrics") is None


def test_a_peer_tells_at_a_port_for_whom_it_waits(waiter):
    (port,) = free_ports(1)
    waiter.meters.serve(port)
    waiter.meters.health.beat()
    code, body = asked(port, "/health")
    told = json.loads(body)
    assert code == 200
    assert (told["live"], told["ready"], told["done"], told["round"]) == (True, True, False, 0)
    assert [w["for"] for w in told["waiting"]] == ["a", "c"]
    assert b"peerwise_waiting 2.0" in asked(port, "/metrics")[1]


def test_a_peer_that_is_stuck_is_not_well():
    meters = Meters()
    (port,) = free_ports(1)
    meters.serve(port)
    assert [asked(port, where)[0] for where in ("/live", "/ready", "/health")] == [200, 503, 503]
    meters.health.up()
    assert asked(port, "/ready")[0] == 200
    meters.health._beat -= 2 * FROZEN
    for where in ("/live", "/ready", "/health"):
        code, body = asked(port, where)
        assert code == 503
        assert json.loads(body)["live"] is False


def test_the_status_says_whose_letters_are_not_there_and_whether_the_process_moves(
    fed, waiter, peerwise
):
    state = fed.folder / "b"
    assert views.status(state).waiting == ("a", "c")
    with only_one(state):
        said = peerwise("peer", "status", state)[1]
        assert "no letter yet of │ a c" in said
        assert "last round │ -" in said  # none has ended
        long_ago = time.time() - 2 * FROZEN
        os.utime(state / LOCK, (long_ago, long_ago))
        assert "gives no sign of life since 60 s" in peerwise("peer", "status", state)[1]

        async def beat():
            await asyncio.wait([asyncio.create_task(beating(Health(), state / LOCK))], timeout=0.1)

        asyncio.run(beat())
        assert "0 of 5, learning" in peerwise("peer", "status", state)[1]
    assert "no process runs" in peerwise("peer", "status", state)[1]


HOLDS = "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, 2); print(flush=True); input()"


def test_the_status_is_true_of_a_peer_that_was_killed(fed, waiter):
    state = fed.folder / "b"
    (state / LOCK).touch()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, state / LOCK], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        assert views.status(state).running
        process.kill()
    assert not views.status(state).running


def test_who_looks_at_the_state_does_not_keep_its_peer_from_starting(tmp_path):
    (tmp_path / LOCK).touch()
    with open(tmp_path / LOCK) as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        timer = asyncio.new_event_loop()
        look = timer.run_in_executor(None, lambda: (time.sleep(0.06), file.close()))
        with only_one(tmp_path):
            pass
        timer.run_until_complete(look)
        timer.close()


def test_a_file_system_without_locks_is_not_taken_for_another_process(tmp_path, monkeypatch):
    def refused(*args):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    with (
        pytest.raises(BadFile, match=r"cannot lock files \(No locks available\)"),
        only_one(tmp_path),
    ):
        pass
