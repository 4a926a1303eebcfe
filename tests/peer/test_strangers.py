"""What those can do who may not, or who may and overdo it: no more than be refused."""

import json
import logging
import os
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

import peerwise
from federation import federation
from hostile import LONG, Host, Mallory, hello, path, serving
from peerwise.errors import BadSetting
from peerwise.peer import identity, journal, serve, transport
from peerwise.peer.charter import Charter
from peerwise.peer.greeting import BYTES, greeting, refusal, summary
from peerwise.peer.identity import load_identity, make_certificate
from peerwise.peer.transport import HANDSHAKE, SERVICE, Call, Code, Refused, Server

CRC = {"name": "crc", "lr": 0.05}


@pytest.fixture(scope="module")
def host():
    made = Host()
    yield made
    made.close()


@pytest.fixture(scope="module")
def fed(tmp_path_factory):
    """Nodes a - b - c; the test plays a, to whom b listens, and c, whom a does not know."""
    return federation(tmp_path_factory.mktemp("fed"), path("a", "b", "c"), CRC, rounds=5)


@pytest.fixture(scope="module")
def victim(fed, host):
    made = fed.daemon("b")
    host.start(made)
    assert serving(fed)
    return made


# a Hello that freezes its hearer


def test_nothing_of_a_callers_charter_is_parsed(fed, victim, monkeypatch):
    monkeypatch.setattr(Charter, "parse", None)
    monkeypatch.setattr(Charter, "model_validate", None)
    text = fed.charter.text().replace("rounds = 5", "rounds = 300000000")
    ours = summary(fed.charter)
    start = time.thread_time()
    for body in (text.encode(), hello(fed.charter)[:-1] + b', "x": ' + b"[" * 9000):
        assert "install the same version" in refusal(body, ours, False, "b", "a")
    assert "16384 are taken" in refusal(b" " * (BYTES + 1), ours, True, "b", "a")
    assert time.thread_time() - start < 0.2


def test_a_greeting_says_where_charters_differ_and_fits(fed):
    ours, body = summary(fed.charter), hello(fed.charter)
    assert len(body) < BYTES / 4
    assert refusal(body, ours, True, "b", "a") is None
    other = {**ours, "method.lr": "0.5"}
    why = refusal(greeting({}, other), ours, False, "b", "a")
    assert why == "b has another charter than a: method.lr is 0.05 here and 0.5 there"
    nodes = {**ours, "nodes": "sha256 0"}
    assert "nodes is sha256" in refusal(greeting({}, nodes), ours, False, "b", "a")
    assert "does not say" in refusal(greeting({}, None), ours, False, "b", "a")


def test_a_charter_has_no_number_without_a_bound(fed):
    text = fed.charter.text()
    for old, new in {
        "rounds = 5": "rounds = 1000001",
        "ahead = 2": "ahead = 65",
        "staleness = 8": "staleness = 10000000",
        "deadline = 30.0": "deadline = 1e9",
        "start = 120.0": "start = 1e9",
        "least_rows = 1": "least_rows = 10000000000000",
        "least_count = 0": "least_count = 10000000000000",
    }.items():
        assert text.count(old) == 1, old
        with pytest.raises(BadSetting):
            Charter.parse(text.replace(old, new))


def test_another_version_is_refused_in_words(fed):
    ours = summary(fed.charter)
    old = json.dumps({"protocol": 1, "software": "0.8.0"}).encode()
    why = refusal(old, ours, True, "b", "a")
    assert why == (
        f"b runs Peerwise {peerwise.__version__}, protocol 5, and a runs another (0.8.0, protocol "
        "1): install the same version"
    )
    assert "before 0.9" in refusal(fed.charter.text().encode(), ours, True, "b", "a")


def test_a_charter_with_other_defaults_has_another_hash(fed):
    other = fed.charter.model_copy(deep=True)
    other._tables["method"]["iterations"] = 2  # as a version with another default fills in
    assert "iterations" not in fed.charter.text()
    assert other.hash != fed.charter.hash


# memory and file descriptors


def test_a_stranger_is_refused_before_its_message_has_come(fed, victim, host):
    """It sends a header and the first bytes of a huge message, and no end."""
    started = []

    def endless():
        started.append(1)
        yield bytes(1000)
        while not done:
            time.sleep(0.01)

    for name, code in (("c", None), ("d", Code.PERMISSION_DENIED)):
        done = []
        if name == "d":
            make_certificate(fed.keys, "d")
        with Mallory(fed, name) as caller:
            call = caller.channel.stream_unary(f"/{SERVICE}/Push")
            waiting = call.future(endless(), timeout=LONG, metadata=caller.headers)
            if code is not None:
                assert waiting.exception(LONG).code() is code
                assert waiting.exception().details() == "'d' is no neighbour of b"
            done.append(1)
            waiting.cancel()
    assert serving(fed)


def test_who_is_refused_again_and_again_waits_for_it_and_neighbours_do_not(
    fed, victim, monkeypatch
):
    monkeypatch.setattr(transport, "PENALTY", 0.5)
    monkeypatch.setattr(victim._server, "_refusals", journal.Sparing())
    make_certificate(fed.keys, "f")
    with Mallory(fed, "f") as stranger, Mallory(fed) as neighbour:

        def seconds(caller, code):
            start = time.perf_counter()
            assert caller.call("Hello", hello(fed.charter))[0] is code
            return time.perf_counter() - start

        quick = [seconds(stranger, Code.PERMISSION_DENIED) for _ in range(journal.LINES)]
        slow = [seconds(stranger, Code.PERMISSION_DENIED) for _ in range(2)]
        honest = [seconds(neighbour, Code.OK) for _ in range(journal.LINES + 5)]
    assert sorted(quick)[len(quick) // 2] < 0.4
    assert min(slow) >= 0.49
    assert sorted(honest)[len(honest) // 2] < 0.4


def test_the_largest_message_is_as_large_as_a_letter(fed, victim):
    assert victim.format.largest < 64 * 1024 < fed.charter.limits.message_bytes
    with Mallory(fed) as caller:
        assert caller.call("Push", bytes(1 << 20))[0] is Code.RESOURCE_EXHAUSTED
    assert serving(fed)


def test_silent_connections_do_not_keep_neighbours_out(fed, victim):
    serve._many_files()
    where = fed.charter.nodes["b"].address.split(":")
    silent = [socket.create_connection((where[0], int(where[1]))) for _ in range(1100)]
    try:
        assert serving(fed)
        with Mallory(fed) as caller:
            assert caller.call("Hello", hello(fed.charter), 10.0)[0] is Code.OK
    finally:
        for one in silent:
            one.close()
    assert HANDSHAKE <= 5


# identity


def test_a_port_that_another_peer_has_is_noticed(fed, victim, host):
    async def listen():
        Server(load_identity(fed.keys, "b"), fed.charter.nodes["b"].address, None, 1000)

    with pytest.raises(BadSetting, match="cannot listen"):
        host.run(listen()).result(LONG)


def test_a_port_that_is_taken_at_one_address_of_a_name_is_noticed(fed, host):
    async def listen():
        Server(load_identity(fed.keys, "b"), f"localhost:{port}", None, 1000)

    with socket.create_server(("127.0.0.1", 0)) as other:  # and nobody listens at [::1]
        port = other.getsockname()[1]
        with pytest.raises(BadSetting, match="cannot listen"):
            host.run(listen()).result(LONG)


@pytest.mark.parametrize("place", ["a..b:8000", f"{'a' * 64}:8000"])
def test_a_place_to_listen_that_is_no_name_of_a_host_is_refused(fed, host, place):
    async def listen():
        Server(load_identity(fed.keys, "b"), place, None, 1000)

    with pytest.raises(BadSetting, match="cannot listen"):
        host.run(listen()).result(LONG)


def test_an_older_copy_of_a_neighbour_is_refused(fed, victim):
    with Mallory(fed, life=2_000) as new, Mallory(fed, life=1_000) as old:
        assert new.call("Hello", hello(fed.charter))[0] is Code.OK
        for method in ("Hello", "Push", "Pull"):
            code, why = old.call(method, hello(fed.charter))
            assert code is Code.FAILED_PRECONDITION
            assert why.startswith("another copy of a runs that was started later")
        assert new.call("Hello", hello(fed.charter))[0] is Code.OK
    assert victim.store.rows("SELECT life FROM lives WHERE name = 'a'") == [(2_000,)]
    with victim.store.transaction():
        victim.store.db.execute("DELETE FROM lives")
    victim.core.neighbours["a"].life = 0


def test_every_life_has_a_greater_number_whatever_the_clock_says(fed, victim, monkeypatch):
    first = victim.store.live()[0]
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert victim.store.live()[0] == first + 1


def test_a_certificate_that_expires_is_seen_on_an_open_connection(fed, victim, monkeypatch):
    with Mallory(fed) as caller:
        assert caller.call("Hello", hello(fed.charter))[0] is Code.OK
        with monkeypatch.context() as later:
            later.setattr(identity, "_now", lambda: datetime.now(UTC) + timedelta(days=366))
            code, why = caller.call("Hello", hello(fed.charter))
        assert code is Code.UNAUTHENTICATED
        assert why == "the certificate of a has expired; renew it"
        assert caller.call("Hello", hello(fed.charter))[0] is Code.OK


@pytest.mark.parametrize("name", ["ward.hosp.org", "localhost", "Localhost", "10.0.0.1", "::1"])
def test_no_node_is_called_like_a_machine(fed, name):
    with pytest.raises(BadSetting, match="cannot be called"):
        make_certificate(fed.keys, name)


# the log


def test_a_flood_of_refused_calls_leaves_few_lines_with_address_and_count():
    moment = [0.0]
    sparing = journal.Sparing(lambda: moment[0])
    assert [sparing.left_out("a") for _ in range(12)] == [0] * 10 + [None] * 2
    assert sparing.left_out("b") == 0
    moment[0] = 61.0
    assert sparing.left_out("a") == 2
    assert sparing.left_out("a") == 0
    for i in range(5000):
        sparing.left_out(f"caller {i}")
    assert len(sparing._seen) <= journal.CALLERS + 1


def test_who_is_refused_stands_in_the_security_log_with_its_address(fed, victim, caplog):
    victim.calls._sparing = journal.Sparing()
    call = Call("Push", "z", "", b"", 0, "ipv4:10.1.2.3:4567")
    with caplog.at_level(logging.WARNING, "peerwise.peer.security"):
        for _ in range(100):
            with pytest.raises(Refused):
                victim.calls.admit(call)
    lines = [r.facts for r in caplog.records if r.name == "peerwise.peer.security"]
    assert len(lines) == journal.LINES
    assert lines[0]["address"] == "ipv4:10.1.2.3:4567"
    assert lines[0]["caller"] == "z"


def test_files_are_for_the_site_alone_and_do_not_grow_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "BYTES", 2000)
    old = serve.os.umask(0o077)
    try:
        journal.log_to(tmp_path, "a", quiet=True)
        for i in range(500):
            journal.security.warning("refused", extra={"facts": {"i": i}})
    finally:
        serve.os.umask(old)
        for logger in (journal.log, journal.security):
            for handler in logger.handlers[:]:
                logger.removeHandler(handler)
                handler.close()
        journal.log.propagate = True
    files = list(tmp_path.iterdir())
    assert {f.name for f in files} >= {"peer.log", "security.log", "security.log.1"}
    assert sum(f.stat().st_size for f in files) < 2 * 4 * 2000 + 2000
    assert {f.stat().st_mode & 0o777 for f in files} == {0o600}


def resident():
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def hello_seconds(fed, count=40):
    """The median time of an honest call."""
    times = []
    with Mallory(fed) as caller:
        for _ in range(count):
            start = time.perf_counter()
            assert caller.call("Hello", hello(fed.charter))[0] is Code.OK
            times.append(time.perf_counter() - start)
    return sorted(times)[count // 2]


ATTACK = """
import socket, sys, threading
from pathlib import Path
import grpc
from hostile import Mallory
from federation import Federation
from peerwise.peer.charter import Charter

fed = Federation(Charter.load(sys.argv[1]), Path(sys.argv[2]), None, None, None)
huge = bytes(20 << 20)
host, port = fed.charter.nodes["b"].address.split(":")
silent = [socket.create_connection((host, int(port))) for _ in range(int(sys.argv[3]))]
callers = [Mallory(fed, "e") for _ in range(10)]

def again(caller, method, body):
    while True:
        caller.call(method, body)

for i, caller in enumerate(callers):
    job = ("Push", huge) if i < 8 else ("Hello", bytes(1000))
    threading.Thread(target=again, args=(caller, *job), daemon=True).start()
print("on", flush=True)
sys.stdin.read()
"""


@pytest.mark.full
@pytest.mark.usefixtures("usual_garbage")
def test_silence_huge_messages_and_a_flood_leave_memory_and_log_small(fed, victim, tmp_path):
    """Of 1,000 silent connections, eight that push 20 MB, and two that say Hello, all at once."""
    serve._many_files()
    make_certificate(fed.keys, "e")
    fed.charter.save(tmp_path / "charter.toml")
    quiet, before = hello_seconds(fed), resident()
    (tmp_path / "log").mkdir()
    journal.log_to(tmp_path / "log", "b", quiet=True)
    victim.calls._sparing = journal.Sparing()
    command = [sys.executable, "-c", ATTACK, tmp_path / "charter.toml", fed.keys, "900"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
    ) as attackers:
        assert attackers.stdout.readline() == b"on\n"
        busy, grown = hello_seconds(fed, 200), resident() - before
        attackers.kill()
    size = sum(f.stat().st_size for f in (tmp_path / "log").iterdir())
    print(f"\n{1000 * quiet:.1f} ms a call, {1000 * busy:.1f} under attack; {grown:.0f} MiB more, "
          f"{size} bytes of log")  # fmt: skip
    for logger in (journal.log, journal.security):
        for handler in logger.handlers[:]:
            logger.removeHandler(handler)
            handler.close()
    journal.log.propagate = True
    assert grown < 100
    assert 0 < size < 1_000_000
