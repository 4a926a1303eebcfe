"""Signed letters, and what they are for: a node that tells its neighbours different things."""

import asyncio
import json
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

from federation import Alone, federation, run_all, signed, written
from peerwise.errors import BadFile
from peerwise.peer.equivocation import account, compared, export, heads_of, parse
from peerwise.peer.identity import load_identity, make_authority, make_certificate
from peerwise.peer.protocol.messages import BadLetter, Envelope, Place
from peerwise.peer.signing import ALL, END, Seal, Signer, Statement, checked, is_signed, parted
from peerwise.peer.transport import Refused

TRIANGLE = nx.relabel_nodes(nx.complete_graph(3), dict(enumerate("abc")))
CRC = {"name": "crc", "lr": 0.05}
WHO = Envelope("a", 0, 7)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    make_authority(folder)
    for name in "ab":
        make_certificate(folder, name)
    return folder


@pytest.fixture
def fed(tmp_path):
    return federation(tmp_path, TRIANGLE, CRC, rounds=3)


def scaled(daemon, sender, by):
    """A letter of this round, with other numbers."""
    own = next(iter(daemon.node.letters(daemon.memory, daemon.place.round).values()))
    value = own.message.value * np.float32(by)
    return written(daemon, sender, own._replace(message=own.message._replace(value=value)))


def test_a_letter_is_read_as_it_was_signed_and_no_other(keys):
    mine = load_identity(keys, "a")
    body = Signer(mine, "charter").sealed(b"numbers", WHO)
    checked(body, WHO, "charter", "b", mine.authority)
    assert parted(body)[0] == b"numbers"
    assert Signer(mine, "charter").sealed(b"numbers", WHO) == body  # always the same bytes
    taken = []
    for i in range(len(body)):
        changed = bytearray(body)
        changed[i] ^= 1
        try:
            checked(bytes(changed), WHO, "charter", "b", mine.authority)
        except BadLetter:
            continue
        taken.append(i)
        assert parted(bytes(changed))[0] == b"numbers"
    # of a certificate, one byte (how many bits of its signature do not count) has two spellings
    assert len(taken) <= 1
    assert all(len(b"numbers") <= i < len(body) - END for i in taken)


@pytest.mark.parametrize(
    "change",
    [
        {"envelope": WHO._replace(sender="b")},
        {"envelope": WHO._replace(round=8)},
        {"envelope": WHO._replace(phase=1)},
        {"charter": "another"},
    ],
)
def test_a_signature_is_for_one_sender_place_and_charter(keys, change):
    mine = load_identity(keys, "a")
    body = Signer(mine, "charter").sealed(b"numbers", WHO)
    facts = {"envelope": WHO, "charter": "charter", "reader": "b", "authority": mine.authority}
    with pytest.raises(BadLetter, match="signature is not that of"):
        checked(body, **{**facts, **change})


def test_a_letter_to_one_neighbour_is_not_for_another(keys):
    mine = load_identity(keys, "a")
    body = Signer(mine, "charter").sealed(b"numbers", WHO, to="b")
    checked(body, WHO, "charter", "b", mine.authority)
    with pytest.raises(BadLetter):
        checked(body, WHO, "charter", "c", mine.authority)


def test_a_certificate_of_another_authority_signs_nothing(keys, tmp_path):
    make_authority(tmp_path)
    make_certificate(tmp_path, "a")
    body = Signer(load_identity(tmp_path, "a"), "charter").sealed(b"numbers", WHO)
    with pytest.raises(BadLetter):
        checked(body, WHO, "charter", "b", load_identity(keys, "a").authority)


@pytest.mark.parametrize("body", [b"", b"12", b"x" * 70, b"x" * 5000, b"\0" * 5000])
def test_bytes_without_a_seal_are_no_letter(body):
    with pytest.raises(BadLetter, match="not signed"):
        parted(body)


def test_what_is_damaged_is_not_signed(keys):
    mine = load_identity(keys, "a")
    _, seal = parted(Signer(mine, "charter").sealed(b"numbers", WHO))
    statement = Statement("charter", *WHO, ALL, "0" * 64)
    for wrong in (seal, Seal(b"no certificate", seal.signature, False)):
        assert not is_signed(statement, wrong, mine.authority)


def test_a_neighbour_cannot_write_in_anothers_name(fed):
    alone = Alone(fed.daemon("b"))
    daemon = alone.daemon
    inside = parted(scaled(daemon, "a", 1.0))[0]
    forged = Signer(load_identity(fed.keys, "c"), fed.charter.hash)
    with pytest.raises(Refused, match="signature is not that of a"):
        alone.accept("a", forged.sealed(inside, Envelope("a", 0, 0)))
    with pytest.raises(Refused, match="not signed"):
        alone.accept("a", inside)
    assert daemon.store.inbox.letters() == {}
    alone.close()


def test_what_all_hear_alike_cannot_be_signed_for_one(fed):
    """Or a liar would sign every letter for its reader, and nothing could be compared."""
    alone = Alone(fed.daemon("b"))
    inside = parted(scaled(alone.daemon, "a", 1.0))[0]
    liar = Signer(load_identity(fed.keys, "a"), fed.charter.hash)
    with pytest.raises(Refused, match="signed for one reader"):
        alone.accept("a", liar.sealed(inside, Envelope("a", 0, 0), to="b"))
    alone.close()


@pytest.fixture
def lied_to(fed):
    """Two neighbours of a node and of each other that it told different things in round 0."""
    peers = {name: Alone(fed.daemon(name)) for name in "bc"}
    for name, by in (("b", 1.0), ("c", 2.0)):
        peers[name].accept("a", scaled(peers[name].daemon, "a", by))
    yield peers
    for peer in peers.values():
        peer.close()


def test_two_that_were_told_different_things_can_prove_it(fed, lied_to):
    b, c = (lied_to[name].daemon for name in "bc")
    same, (proof,) = compared(b.store, heads_of(c.store), b.identity.authority)
    assert (same, proof.sender, proof.place, proof.witness) == (0, "a", Place(0, 0), "c")
    assert proof.ours != proof.theirs
    for mark, signature in ((proof.ours, proof.signature), (proof.theirs, proof.other)):
        statement = Statement(fed.charter.hash, "a", *proof.place, ALL, mark)
        seal = Seal(b.store.neighbours.certificates()["a"], signature, False)
        assert is_signed(statement, seal, b.identity.authority)


def test_a_made_up_statement_proves_nothing(lied_to):
    b, c = (lied_to[name].daemon for name in "bc")
    heads = heads_of(c.store)
    heads.heads[0].hash = "0" * 64  # c accuses a of what a never signed
    assert compared(b.store, heads, b.identity.authority) == (0, [])


class Line:
    """A way to another peer of this process."""

    def __init__(self, peer):
        self.peer = peer

    async def call(self, method, body, seconds):
        assert method == "Heads"
        place = Place(**json.loads(body))
        return await self.peer._comparing.told("b", place)


def test_peers_compare_while_they_run(lied_to, caplog):
    b, c = lied_to["b"], lied_to["c"].daemon

    dialled = SimpleNamespace(links={"c": Line(c)})

    async def both():
        work = asyncio.ensure_future(b.daemon._comparing._with(dialled, "c"))
        while not work.done():
            await asyncio.sleep(0.001)
        await work

    # the disk of c works in the loop of c
    c._comparing._disk = lambda work, *args: asyncio.to_thread(work, *args)
    b.run(both())
    assert "told neighbours different things" in caplog.text
    (proof,) = b.daemon.store.neighbours.proofs()
    assert proof[0] == "a"
    caplog.clear()
    b.run(both())  # it is said once
    assert "told neighbours different things" not in caplog.text
    (shown,) = account(b.daemon.store.path.parent, []).proofs
    assert shown.witness == "c"


def test_honest_peers_were_told_the_same(fed, tmp_path):
    daemons = [fed.daemon(name, compare=0.05) for name in "abc"]
    assert all(run_all(*daemons))
    for daemon in daemons:
        daemon.store.close()
    count = export(tmp_path / "c", tmp_path / "heads.json")
    assert count == 6  # three letters of each of two neighbours
    seen = account(tmp_path / "b", [tmp_path / "heads.json"])
    assert seen == ({"c": 3}, [])  # those of a: what b and c say of each other nobody else heard


def test_files_that_cannot_be_compared(fed, tmp_path):
    alone = Alone(fed.daemon("b"))
    alone.close()
    (tmp_path / "no.json").write_text("[")
    with pytest.raises(BadFile, match="not what `peerwise peer heads` writes"):
        account(tmp_path / "b", [tmp_path / "no.json"])
    export(tmp_path / "b", tmp_path / "h.json")
    heads = json.loads((tmp_path / "h.json").read_text())
    (tmp_path / "h.json").write_text(json.dumps({**heads, "charter": "other"}))
    with pytest.raises(BadFile, match="another charter"):
        account(tmp_path / "b", [tmp_path / "h.json"])
    with pytest.raises(BadFile, match="cannot read"):
        account(tmp_path / "b", [tmp_path / "gone.json"])
    with pytest.raises(BadFile):
        parse(json.dumps({**heads, "heads": [{"sender": "a"}]}), "x")


def test_a_renewed_certificate_does_not_make_a_letter_another(fed):
    """The key stays: a letter that is sent again after a renewal says what it said."""
    alone = Alone(fed.daemon("b"))
    inside = parted(scaled(alone.daemon, "a", 1.0))[0]
    first = signed(alone.daemon, inside, "a", (0, 0))
    alone.accept("a", first)
    make_certificate(fed.keys, "a", renew=True)
    again = signed(alone.daemon, inside, "a", (0, 0))
    assert again != first
    alone.accept("a", again)
    assert alone.daemon.store.quarantine.letters() == []
    alone.close()
