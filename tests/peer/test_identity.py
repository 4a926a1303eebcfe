"""Keys and certificates: made, kept to oneself, renewed, checked, and taken by gRPC."""

import asyncio
import stat
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from peerwise.errors import BadFile, BadSetting
from peerwise.peer import identity
from peerwise.peer.identity import (
    expires,
    load_identity,
    make_authority,
    make_certificate,
)


@pytest.fixture
def folder(tmp_path):
    make_authority(tmp_path / "ca")
    return tmp_path / "ca"


@pytest.fixture
def later(monkeypatch):
    """Set the clock so many days on."""

    def shift(days):
        monkeypatch.setattr(identity, "_now", lambda: datetime.now(UTC) + timedelta(days=days))

    return shift


def names_in(path):
    held = x509.load_pem_x509_certificate(path.read_bytes())
    return held.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def name_of(pem):
    subject = x509.load_pem_x509_certificate(pem).subject
    return subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value


def test_a_node_has_a_key_and_a_certificate_in_its_name(folder):
    path = make_certificate(folder, "ward-1_north", hosts=("localhost", "127.0.0.1"), days=30)
    found = load_identity(folder, "ward-1_north")
    assert found.node == name_of(found.certificate) == "ward-1_north"
    assert found.authority == (folder / "ca.pem").read_bytes()
    left = expires(found.certificate) - datetime.now(UTC)
    assert timedelta(days=29) < left <= timedelta(days=30)
    assert names_in(path).get_values_for_type(x509.DNSName) == ["ward-1_north", "localhost"]
    assert [str(a) for a in names_in(path).get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    held = x509.load_pem_x509_certificate(found.certificate)
    assert isinstance(held.public_key().curve, ec.SECP256R1)
    # clocks that are a little behind still take it
    assert held.not_valid_before_utc < datetime.now(UTC) - timedelta(minutes=4)


def test_keys_are_for_their_owner_only(folder):
    make_certificate(folder, "a")
    for name in ("ca.key", "a.key"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_that_others_can_read_is_refused(folder, mode):
    make_certificate(folder, "a")
    (folder / "a.key").chmod(mode)
    with pytest.raises(BadFile, match=r"can be read by others.*chmod 600 .*a\.key"):
        load_identity(folder, "a")
    (folder / "ca.key").chmod(mode)
    with pytest.raises(BadFile, match=r"chmod 600 .*ca\.key"):
        make_certificate(folder, "b")


def test_nothing_is_overwritten(folder):
    make_certificate(folder, "a")
    held = [(folder / name).read_bytes() for name in ("ca.pem", "ca.key", "a.pem", "a.key")]
    with pytest.raises(BadFile, match=r"ca\.pem is there already"):
        make_authority(folder)
    with pytest.raises(BadFile, match=r"a\.pem is there already; --renew"):
        make_certificate(folder, "a")
    (folder / "ca.pem").rename(folder / "old")
    with pytest.raises(BadFile, match=r"ca\.key is there already"):
        make_authority(folder)
    (folder / "old").rename(folder / "ca.pem")
    assert held == [(folder / n).read_bytes() for n in ("ca.pem", "ca.key", "a.pem", "a.key")]


def test_renewal_keeps_the_key_and_the_hosts(folder, later):
    path = make_certificate(folder, "a", days=10, hosts=("localhost", "::1"))
    key, old = (folder / "a.key").read_bytes(), path.read_bytes()
    later(20)
    with pytest.raises(BadFile, match=r"expired at .* UTC and the clock here says .* UTC; renew"):
        load_identity(folder, "a")
    make_certificate(folder, "a", renew=True)
    assert (folder / "a.key").read_bytes() == key
    assert path.read_bytes() != old
    assert expires(path.read_bytes()) > expires(old)
    assert names_in(path).get_values_for_type(x509.DNSName) == ["a", "localhost"]
    assert [str(a) for a in names_in(path).get_values_for_type(x509.IPAddress)] == ["::1"]
    load_identity(folder, "a")
    make_certificate(folder, "a", renew=True, hosts=("other.org",))
    assert names_in(path).get_values_for_type(x509.DNSName) == ["a", "other.org"]


def test_a_clock_that_is_behind_is_told_both_times(folder, later):
    make_certificate(folder, "a")
    later(-1)
    with pytest.raises(BadFile, match=r"valid from .* UTC and the clock here says .* UTC; set the"):
        load_identity(folder, "a")


def test_no_certificate_outlives_its_authority(tmp_path, later):
    make_authority(tmp_path, days=20)
    path = make_certificate(tmp_path, "a", days=365)
    assert expires(path.read_bytes()) == expires((tmp_path / "ca.pem").read_bytes())
    later(21)
    with pytest.raises(BadFile, match=r"ca\.pem expired at .*make a new authority"):
        make_certificate(tmp_path, "b")


def test_a_folder_of_its_own_is_all_a_node_needs(folder, tmp_path):
    make_certificate(folder, "a", tmp_path / "a")
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["a.key", "a.pem", "ca.pem"]
    assert load_identity(tmp_path / "a", "a").node == "a"
    make_authority(tmp_path / "other")
    with pytest.raises(BadFile, match=r"ca\.pem is that of another authority"):
        make_certificate(tmp_path / "other", "a", tmp_path / "a", renew=True)


def test_another_authority_is_noticed(folder, tmp_path):
    make_authority(tmp_path / "other")  # of the same name: only the key differs
    make_certificate(tmp_path / "other", "a")
    (tmp_path / "other" / "ca.pem").write_bytes((folder / "ca.pem").read_bytes())
    with pytest.raises(BadFile, match=r"a\.pem was not signed by the authority"):
        load_identity(tmp_path / "other", "a")
    with pytest.raises(BadFile, match=r"ca\.key is not the key of"):
        make_certificate(tmp_path / "other", "b")


def test_a_node_is_no_authority(folder, tmp_path):
    make_certificate(folder, "a")
    fake = tmp_path / "fake"
    fake.mkdir()
    for old, new in (("a.pem", "ca.pem"), ("a.key", "ca.key")):
        (folder / old).rename(fake / new)
    make_certificate(fake, "b")
    with pytest.raises(BadFile, match="was not signed by the authority"):
        load_identity(fake, "b")


def test_files_of_another_node_are_noticed(folder):
    make_certificate(folder, "a")
    make_certificate(folder, "b")
    (folder / "c.pem").write_bytes((folder / "a.pem").read_bytes())
    (folder / "a.key").rename(folder / "c.key")
    with pytest.raises(BadFile, match="is the certificate of 'a', not of 'c'"):
        load_identity(folder, "c")
    (folder / "b.key").rename(folder / "a.key")
    with pytest.raises(BadFile, match=r"a\.key is not the key of .*a\.pem"):
        load_identity(folder, "a")


@pytest.mark.parametrize("name", ["ca.pem", "a.pem", "a.key"])
def test_what_is_missing_or_damaged_is_named(folder, name):
    make_certificate(folder, "a")
    (folder / name).write_bytes(b"-----BEGIN NOTHING-----")
    with pytest.raises(BadFile, match=f"{name} is not a"):
        load_identity(folder, "a")
    (folder / name).unlink()
    with pytest.raises(BadFile, match=f"there is no .*{name}"):
        load_identity(folder, "a")


def test_names_hosts_and_days_that_make_no_sense(folder, tmp_path):
    for node in ("ca", "../a", "a b", "", "10.0.0.1"):
        with pytest.raises(BadSetting, match="a node cannot be called"):
            make_certificate(folder, node)
    for host in ("a:7400", "", "*.org", "a b"):
        with pytest.raises(BadSetting, match="is not a host"):
            make_certificate(folder, "a", hosts=(host,))
    with pytest.raises(BadSetting, match="days must be from 1"):
        make_certificate(folder, "a", days=0)
    with pytest.raises(BadSetting, match="the authority's name"):
        make_authority(tmp_path / "x", name="")
    with pytest.raises(BadFile, match="make an authority with `peerwise network ca"):
        make_certificate(tmp_path / "x", "a")
    with pytest.raises(BadFile, match="is not a certificate"):
        expires(b"none")


def _whole(held):
    return {
        "root_certificates": held.authority,
        "private_key": held.key,
        "certificate_chain": held.certificate,
    }


async def _call(server_is, caller, expected):
    """What a server reads of its caller: the name, and the names in the certificate."""

    async def who(request, context):
        about = context.auth_context()
        pem = about["x509_pem_cert"][0]
        assert name_of(pem).encode() == about["x509_common_name"][0]
        return b" ".join([*about["x509_common_name"], *about["x509_subject_alternative_name"]])

    handler = grpc.method_handlers_generic_handler(
        "test", {"who": grpc.unary_unary_rpc_method_handler(who)}
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler,))
    pair = [(server_is.key, server_is.certificate)]
    credentials = grpc.ssl_server_credentials(pair, server_is.authority, require_client_auth=True)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        trusted = grpc.ssl_channel_credentials(**caller)
        options = [("grpc.ssl_target_name_override", expected)]
        async with grpc.aio.secure_channel(f"127.0.0.1:{port}", trusted, options) as channel:
            return await channel.unary_unary("/test/who")(b"", timeout=120)
    finally:
        await server.stop(None)


def test_nodes_know_each_other_over_mutual_tls(folder):
    for node in ("a", "ward_2"):
        make_certificate(folder, node, hosts=("localhost",))
    a, b = load_identity(folder, "a"), load_identity(folder, "ward_2")
    assert asyncio.run(_call(a, _whole(b), "a")) == b"ward_2 ward_2 localhost"
    assert asyncio.run(_call(b, _whole(a), "ward_2")) == b"a a localhost"


def test_strangers_are_refused_over_mutual_tls(folder, tmp_path):
    for node in ("a", "b"):
        make_certificate(folder, node)
    make_authority(tmp_path / "other")
    make_certificate(tmp_path / "other", "b")
    a, b = load_identity(folder, "a"), load_identity(folder, "b")
    stranger = load_identity(tmp_path / "other", "b")
    forged = stranger._replace(authority=a.authority)  # trusts the server, is not trusted
    for caller, expected in [
        (_whole(b), "b"),  # the server is not who was to be reached
        (_whole(stranger), "a"),
        (_whole(forged), "a"),
        ({"root_certificates": a.authority}, "a"),  # shows nothing
    ]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            asyncio.run(_call(a, caller, expected))
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


def test_no_certificate_carries_the_name_of_another_node(folder):
    make_certificate(folder, "b-c")
    for host in ("b", "b-c"):
        with pytest.raises(BadSetting, match="may be the name of another node"):
            make_certificate(folder, "d", hosts=(host,))
    make_certificate(folder, "d", hosts=("localhost", "d.example.org", "10.0.0.1"))
