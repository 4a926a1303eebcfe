"""Keys that are of no use to who has the file alone."""

import sys

import pytest
from typer.testing import CliRunner

from federation import federation
from hostile import path
from peerwise import cli
from peerwise.data.formats import write_frame
from peerwise.errors import BadFile, BadSetting
from peerwise.peer.identity import load_identity, make_authority, make_certificate
from peerwise.peer.passphrase import AUTHORITY, NODE, passphrase

SECRET, OTHER = b"correct horse", b"battery staple"


@pytest.fixture
def keys(tmp_path):
    folder = tmp_path / "keys"
    make_authority(folder, passphrase=OTHER)
    make_certificate(folder, "a", passphrase=SECRET, ca_passphrase=OTHER)
    return folder


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run a command; its exit code and what it said."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["peerwise", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        return ended.value.code or 0, " ".join((said.out + said.err).split())

    return run


def secret_file(folder, secret, name="secret"):
    path = folder / name
    path.write_bytes(secret + b"\n")
    path.chmod(0o600)
    return path


def test_a_key_opens_with_its_passphrase_and_grpc_gets_it_open(keys):
    assert b"ENCRYPTED" in (keys / "a.key").read_bytes()
    assert b"ENCRYPTED" in (keys / "ca.key").read_bytes()
    assert b"ENCRYPTED" not in load_identity(keys, "a", SECRET).key
    for name in ("a.key", "ca.key"):
        assert (keys / name).stat().st_mode & 0o777 == 0o600
    assert keys.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, "a.key needs its passphrase; give it with --passphrase-file or PEERWISE_KEY_PASS"),
        (OTHER, "the passphrase does not open .*a.key: it is wrong, or the file is damaged"),
        (b"", "the passphrase does not open .*a.key: it is wrong, or the file is damaged"),
    ],
)
def test_a_wrong_or_missing_passphrase_is_one_line(keys, given, says):
    with pytest.raises(BadFile, match=says) as caught:
        load_identity(keys, "a", given)
    assert str(OTHER) not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_authority_signs_with_its_own(keys):
    with pytest.raises(BadFile, match="--ca-passphrase-file or PEERWISE_CA_PASSPHRASE"):
        make_certificate(keys, "b")
    with pytest.raises(BadFile, match=r"the passphrase does not open .*ca.key: it is wrong"):
        make_certificate(keys, "b", ca_passphrase=SECRET)


def test_a_key_that_has_none_is_not_taken_for_one_that_has_until_it_gets_one(keys):
    make_certificate(keys, "b", ca_passphrase=OTHER)
    with pytest.raises(BadFile, match=r"b.key has no passphrase, but .* cert b --renew` with it"):
        load_identity(keys, "b", SECRET)
    before = load_identity(keys, "b")
    make_certificate(keys, "b", renew=True, passphrase=SECRET, ca_passphrase=OTHER)
    assert load_identity(keys, "b", SECRET).key == before.key
    with pytest.raises(BadFile, match="needs its passphrase"):
        load_identity(keys, "b")
    with pytest.raises(BadFile, match="is wrong"):  # renewed by who does not know it
        make_certificate(keys, "b", renew=True, passphrase=OTHER, ca_passphrase=OTHER)


def test_a_passphrase_is_a_files_or_the_environments(tmp_path, monkeypatch):
    monkeypatch.delenv(NODE, raising=False)
    assert passphrase() is None
    monkeypatch.setenv(NODE, "battery staple")
    assert passphrase() == OTHER
    path = secret_file(tmp_path, SECRET)
    assert passphrase(path) == SECRET
    path.chmod(0o644)
    with pytest.raises(BadFile, match="can be read by others"):
        passphrase(path)
    path.chmod(0o600)
    path.write_bytes(b"\n")
    with pytest.raises(BadSetting, match="1 to 1023 bytes, got 0"):
        passphrase(path)
    with pytest.raises(BadFile, match="cannot read the passphrase file"):
        passphrase(tmp_path / "none")


def test_the_commands_take_it_all_the_way(command, tmp_path, monkeypatch):
    own, root = secret_file(tmp_path, SECRET), secret_file(tmp_path, OTHER, "root")
    code, said = command("network", "ca", "keys", "--passphrase-file", root)
    assert code == 0, said
    cert = ("network", "cert", "a", "--ca", "keys", "--out", "site")
    code, said = command(*cert, "--passphrase-file", own)
    assert code == 2
    assert "ca.key needs its passphrase" in said
    monkeypatch.setenv(AUTHORITY, OTHER.decode())
    code, said = command(*cert, "--passphrase-file", own)
    assert code == 0, said
    assert (tmp_path / "site").stat().st_mode & 0o777 == 0o700
    assert load_identity("site", "a", SECRET).node == "a"


def test_a_peer_does_not_start_without(command, keys, tmp_path, monkeypatch):
    fed = federation(tmp_path, path("a", "b"), {"name": "crc", "lr": 0.05}, rounds=1)
    # the federation has keys of its own; those here are another authority's
    fed.charter.save(tmp_path / "charter.toml")
    frame = fed.tables["a"].frame.assign(**{"class": fed.tables["a"].labels})
    write_frame(tmp_path / "rows.parquet", frame)
    run = ["peer", "run", "--charter", "charter.toml", "--node", "a", "--data", "rows.parquet"]
    run += ["--state", "state", "--keys", keys, "--quiet"]
    code, said = command(*run)
    assert code == 2
    assert "a.keyneedsitspassphrase" in said.replace(" ", "")  # a long path is folded
    monkeypatch.setenv(NODE, "guess")
    code, said = command(*run)
    assert code == 2
    assert "a.key:itiswrong,orthefileisdamaged" in said.replace(" ", "")
    assert not (tmp_path / "state" / "peer.db").exists()


def test_a_passphrase_is_asked_for_and_not_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["network", "ca", "keys", "--passphrase-file", "-"]
    result = CliRunner().invoke(cli.app, words, input="battery staple\nbattery staple\n")
    assert result.exit_code == 0, result.output
    assert "battery" not in result.output
    make_certificate("keys", "a", ca_passphrase=OTHER)
