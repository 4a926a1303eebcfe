"""Callers that do not get as far as a call leave a line with their address and a reason."""

import json
import os
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from federation import federation
from hostile import LONG, Host, Mallory, hello, path, serving
from peerwise.data.formats import write_frame
from peerwise.peer import handshakes, journal
from peerwise.peer.handshakes import Connection, Watch, address_of, connections, said
from peerwise.peer.identity import make_authority, make_certificate

CRC = {"name": "crc", "lr": 0.05}
linux = pytest.mark.skipif(not handshakes.TABLES[0].exists(), reason="the table is Linux's")


@pytest.fixture
def lines(caplog):
    """What the security log has been told of handshakes."""
    caplog.set_level("WARNING", "peerwise.peer.security")
    return lambda: [r.facts for r in caplog.records if r.getMessage() == "refused handshake"]


class Table:
    """The system's table as a test writes it, and its clock."""

    def __init__(self):
        self.rows, self.moment = [], 0.0
        self.watch = Watch(7400, 10.0, lambda port: self.rows, lambda: self.moment)

    def has(self, *rows):
        self.rows = [Connection(("10.0.0.1", port), is_open) for port, is_open in rows]
        self.watch.look()


def test_addresses_are_read_as_the_system_and_as_grpc_write_them():
    assert handshakes._address("0100007F:1F90") == ("127.0.0.1", 8080)
    mapped = "0000000000000000FFFF00000100007F:1F90"
    assert handshakes._address(mapped) == ("127.0.0.1", 8080)
    assert handshakes._address("00000000000000000000000001000000:0050") == ("::1", 80)
    assert address_of("ipv4:10.1.2.3:4567") == ("10.1.2.3", 4567)
    assert address_of("ipv6:%5B::1%5D:80") == ("::1", 80)
    for odd in ("", "unix:/tmp/x", "ipv4:x:y", "ipv4:10.1.2.3"):
        assert address_of(odd) is None


def test_the_reason_is_what_grpc_says():
    line = (
        b"I1116 18:09:28.1 17761 ssl_transport_security.cc:2563] Handshake failed with error "
        b"SSL_ERROR_SSL: error:100000f7:SSL routines:OPENSSL_internal:WRONG_VERSION_NUMBER: "
        b"Invalid certificate verification context\n"
    )
    assert said(line) == "WRONG_VERSION_NUMBER"
    assert said(b"I1116 something else\n") is None


def test_who_says_nothing_is_written_down_once(lines):
    table = Table()
    table.has((1, True), (2, True))
    table.watch.called("ipv4:10.0.0.1:2")
    table.moment = 9.0
    table.has((1, True), (2, True))
    assert lines() == []
    table.moment = 11.0
    table.has((1, True), (2, True))
    table.has((1, False), (2, False))
    assert lines() == [{"address": "10.0.0.1:1", "why": "it connected and made no call"}]


def test_a_refused_handshake_has_the_address_of_the_one_who_goes(lines):
    table = Table()
    table.rows = [Connection(("10.0.0.1", 1), False), Connection(("10.0.0.2", 2), True)]
    table.watch.failed("CERTIFICATE_VERIFY_FAILED: certificate has expired")
    expected = {
        "address": "10.0.0.1:1",
        "why": "CERTIFICATE_VERIFY_FAILED: certificate has expired",
    }
    assert lines() == [expected]
    table.moment += 1
    table.rows = [Connection(("10.0.0.2", p), False) for p in range(2, 9)]
    table.watch.failed("WRONG_VERSION_NUMBER")
    assert lines()[1]["one of"] == ["10.0.0.2:2", "10.0.0.2:3", "10.0.0.2:4", "10.0.0.2:5"]


def test_a_flood_of_handshakes_leaves_few_lines_and_a_count(lines):
    table = Table()
    for _ in range(5000):
        table.watch.failed("WRONG_VERSION_NUMBER")
    assert len(lines()) == journal.LINES
    table.moment = 61.0
    table.watch.failed("WRONG_VERSION_NUMBER")
    assert lines()[-1]["left out before"] == 5000 - journal.LINES
    for port in range(20_000):
        table.watch.called(f"ipv4:10.0.0.1:{port}")
    assert len(table.watch._known) == handshakes.KNOWN


@linux
def test_the_table_is_the_systems():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as caller:
            assert connections(port) == [Connection(caller.getsockname(), True)]


@linux
def test_a_peer_knows_who_called_and_who_only_connected(tmp_path, lines):
    fed, host = federation(tmp_path, path("a", "b"), CRC, rounds=5), Host()
    daemon = fed.daemon("b")
    host.start(daemon)
    try:
        assert serving(fed)
        place = ("127.0.0.1", int(fed.charter.nodes["b"].address.split(":")[1]))
        watch = daemon._server.watch
        watch._limit = 0.0
        with Mallory(fed) as caller, socket.create_connection(place) as silent:
            caller.call("Hello", hello(fed.charter))
            watch.look()
            spelt = "{}:{}".format(*silent.getsockname())
            assert {"address": spelt, "why": "it connected and made no call"} in lines()
            assert len(lines()) == 1
    finally:
        host.close()


@contextmanager
def knock(where, certificate=None):
    """A handshake that must fail, and the address that it came from; the caller does not hang up.

    One that does at once may be gone before anybody can see where it came from.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    if certificate is not None:
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    with context.wrap_socket(socket.create_connection(where)) as one:
        yield "{}:{}".format(*one.getsockname())


@linux
def test_a_peer_writes_down_refused_handshakes_with_address_and_reason(tmp_path):
    fed = federation(tmp_path, path("a", "b"), CRC, rounds=5)
    fed.charter.save(tmp_path / "charter.toml")
    write_frame(
        tmp_path / "b.parquet", fed.tables["b"].frame.assign(**{"class": fed.tables["b"].labels})
    )
    make_authority(tmp_path / "other")
    forged = make_certificate(tmp_path / "other", "a")
    command = [sys.executable, "-m", "peerwise", "peer", "run", "--quiet", "--node", "b"]
    for key, value in {"charter": "charter.toml", "data": "b.parquet", "state": "state"}.items():
        command += [f"--{key}", str(tmp_path / value)]
    with subprocess.Popen(
        [*command, "--keys", str(fed.keys)], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    ) as process:  # fmt: skip
        try:
            assert serving(fed)
            where = ("127.0.0.1", int(fed.charter.nodes["b"].address.split(":")[1]))
            log = tmp_path / "state" / journal.SECURITY

            def events(count):
                until = time.monotonic() + LONG
                while len(found := log.read_text().splitlines()) < count:
                    assert time.monotonic() < until
                    time.sleep(0.02)
                return [json.loads(line) for line in found]

            begin = len(events(0))
            with knock(where) as address:
                first = events(begin + 1)[begin]
            assert (first["event"], first["address"]) == ("refused handshake", address)
            assert first["why"] == "PEER_DID_NOT_RETURN_A_CERTIFICATE"
            time.sleep(handshakes.SELDOM)
            with knock(where, forged) as address:
                second = events(begin + 2)[begin + 1]
            assert second["address"] == address
            assert "CERTIFICATE_VERIFY_FAILED" in second["why"]
        finally:
            process.terminate()
        assert "Handshake failed" not in process.stderr.read()
