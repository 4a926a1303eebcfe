"""A certificate that is renewed while its peer runs."""

import logging
import socket
import ssl
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from federation import federation
from hostile import LONG, Host, Mallory, hello, path, serving
from peerwise.peer.identity import load_identity, make_authority, make_certificate
from peerwise.peer.renewing import Renewals
from peerwise.peer.signing import viewed
from peerwise.peer.transport import Code


def shown(fed, name="b"):
    """The certificate that a peer shows to one who connects now."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(fed.keys / "ca.pem")
    context.load_cert_chain(fed.keys / "a.pem", fed.keys / "a.key")
    host, port = fed.charter.nodes[name].address.split(":")
    with (
        socket.create_connection((host, int(port))) as plain,
        context.wrap_socket(plain, server_hostname=name) as secure,
    ):
        return secure.getpeercert(binary_form=True)


def on_disk(fed, name="b"):
    pem = (fed.keys / f"{name}.pem").read_bytes()
    return x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)


def test_a_renewed_certificate_is_shown_and_signs_without_a_restart(tmp_path):
    fed = federation(tmp_path, path("a", "b"), {"name": "crc", "lr": 0.05}, rounds=3)
    identity = load_identity(fed.keys, "b")
    daemon = fed.daemon("b", watch=0.02, renewals=Renewals(fed.keys, identity))
    host = Host()
    host.start(daemon)
    try:
        assert serving(fed)
        with Mallory(fed) as caller:
            old = shown(fed)
            assert old == on_disk(fed)
            make_certificate(fed.keys, "b", renew=True)
            until = time.monotonic() + LONG
            while shown(fed) == old and time.monotonic() < until:
                time.sleep(0.05)
            assert shown(fed) == on_disk(fed) != old
            # who is connected stays so
            assert caller.call("Hello", hello(fed.charter))[0] is Code.OK
        letters = daemon.letters.made(daemon.node, daemon.memory, daemon.format, daemon.place)
        _, seal = viewed(letters["a"])
        assert seal.certificate == on_disk(fed)
    finally:
        host.close()


@pytest.fixture
def keys(tmp_path):
    make_authority(tmp_path)
    make_certificate(tmp_path, "a")
    return tmp_path


def test_what_is_no_renewal_is_said_and_changes_nothing(keys, tmp_path_factory, caplog):
    looks = Renewals(keys, load_identity(keys, "a"))
    whole = (keys / "a.pem").read_bytes()
    with caplog.at_level(logging.INFO, "peerwise.peer"):
        assert looks.look() is None
        (keys / "a.pem").unlink()  # it is being written
        assert looks.look() is None
        (keys / "a.pem").write_bytes(whole[:-60])
        assert looks.look() is None
        other = tmp_path_factory.mktemp("other")
        make_authority(other)
        make_certificate(other, "a")
        for name in ("ca.pem", "a.pem", "a.key"):
            (keys / name).write_bytes((other / name).read_bytes())
        assert looks.look() is None
    said = [record.getMessage() for record in caplog.records]
    assert said == ["not renewed"] * 3
    assert "another authority" in caplog.records[-1].facts["why"]


def test_a_renewed_one_is_found_once(keys):
    looks = Renewals(keys, load_identity(keys, "a"))
    make_certificate(keys, "a", renew=True)
    assert looks.look() == load_identity(keys, "a")
    assert looks.look() is None
