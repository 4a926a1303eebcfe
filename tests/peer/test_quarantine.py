"""Letters that were put aside and neighbours that were ejected stay so, until the operator acts."""

import asyncio

import networkx as nx
import numpy as np
import pytest

from federation import PATH, Alone, federation, run_all, written
from helpers import command
from peerwise.errors import BadSetting, UnknownName
from peerwise.peer import own_site, views
from peerwise.peer import serve as serving
from peerwise.peer.protocol.messages import Place, Started
from peerwise.peer.serve import only_one
from peerwise.peer.store.quarantine import ASIDE

CRC = {"name": "crc", "lr": 0.05}


@pytest.fixture
def peerwise(monkeypatch, capsys):
    call = command(monkeypatch, capsys)

    def say(*args):
        code, out, err = call(*args)
        return code, " ".join((out + err).split())

    return say


def own_letter(daemon):
    return next(iter(daemon.node.letters(daemon.memory, daemon.place.round).values()))


def negative(daemon):
    """A letter whose sender says that it has -100 rows."""
    good = own_letter(daemon)
    note = {**good.message.note, "size": np.float32(-100)}
    return written(daemon, "a", good._replace(message=good.message._replace(note=note)))


@pytest.fixture
def fed(tmp_path):
    return federation(tmp_path, PATH, CRC, rounds=4)


def heard_of(fed, body_of):
    """A peer that was given a letter of a and one of c, and did the round."""
    alone = Alone(fed.daemon("b"))
    daemon = alone.daemon
    alone.accept("c", written(daemon, "c", own_letter(daemon)))
    alone.accept("a", body_of(daemon))
    alone.until(lambda: daemon.place.round == 1)
    return alone


def test_a_letter_out_of_range_is_put_aside_with_sender_and_reason(fed):
    alone = heard_of(fed, negative)
    daemon = alone.daemon
    (one,) = daemon.store.quarantine.letters()
    assert (one.sender, one.place) == ("a", Place(0, 0))
    assert "['size']' holds numbers from -100 to -100" in one.reason
    assert daemon.place == Place(0, 1)
    assert daemon.store.rows("SELECT heard, missed FROM rounds") == [("c", "a")]
    alone.close()


def test_what_was_put_aside_is_not_waited_for_after_a_restart(fed):
    alone = Alone(fed.daemon("b"))
    alone.accept("a", negative(alone.daemon))
    assert alone.daemon.core.neighbours["a"].heard == {Place(0, 0): None}
    alone.close()
    again = Alone(fed.daemon("b"))
    assert again.daemon.core.neighbours["a"].heard == {Place(0, 0): None}
    again.close()


def test_the_quarantine_of_one_sender_does_not_grow_without_end(fed):
    daemon = fed.daemon("b")
    for t in range(3 * ASIDE):
        daemon.store.quarantine.put("a", Place(0, t), "why", b"body")
    kept = daemon.store.quarantine.letters("a")
    assert [one.place.round for one in kept] == list(range(2 * ASIDE, 3 * ASIDE))
    daemon.store.close()


def test_the_operator_lists_drops_and_releases(fed, peerwise):
    alone = Alone(fed.daemon("b"))
    daemon = alone.daemon
    for body in (negative(daemon), negative(daemon)):
        alone.accept("a", body)
    state = fed.folder / "b"
    code, said = peerwise("peer", "quarantine", "list", state)
    assert code == 0
    assert "Letters in quarantine" in said
    assert peerwise("peer", "quarantine", "release", state, "9")[0] == 2
    assert peerwise("peer", "quarantine", "release", state)[0] == 2
    assert peerwise("peer", "quarantine", "burn", state, "1")[0] == 2
    assert peerwise("peer", "quarantine", "release", state, "1") == (
        0, "letter 1 of a, round 0: released",
    )  # fmt: skip
    alone.look()  # the peer that runs takes it up, whatever the range says
    assert daemon.core.neighbours["a"].heard[Place(0, 0)].message.note["size"] == -100
    daemon.store.quarantine.put("a", Place(0, 0), "again", None)
    assert peerwise("peer", "quarantine", "drop", state, "2")[0] == 0
    assert views.quarantine(state) == []
    daemon.store.quarantine.put("c", Place(0, 0), "why", b"body")
    with daemon.store.transaction():
        daemon.store.advance(Place(0, 1), b"", {})
    with pytest.raises(BadSetting, match="which is over"):
        views.release(state, 3)
    alone.close()


def test_who_is_ejected_is_neither_heard_nor_told_until_it_is_readmitted(fed, peerwise):
    alone = Alone(fed.daemon("b"))
    state = fed.folder / "b"
    assert peerwise("peer", "eject", state, "d")[0] == 2
    assert peerwise("peer", "readmit", state, "a")[0] == 2
    assert peerwise("peer", "eject", state, "a", "--why", "broken")[0] == 0
    assert "a is ejected: broken" in peerwise("peer", "quarantine", "list", state)[1]
    alone.look()
    daemon = alone.daemon
    assert list(daemon.core.counted) == ["c"]
    assert not daemon.core.neighbours["a"].line
    alone.accept("c", written(daemon, "c", own_letter(daemon)))
    alone.until(lambda: daemon.place.round == 1)
    told = daemon.store.rows("SELECT receiver FROM outbox WHERE round = 1")
    assert told == [("c",)]
    alone.close()
    again = Alone(fed.daemon("b"))
    assert again.daemon.core.ejected == {"a": "broken"}
    assert peerwise("peer", "readmit", state, "a")[0] == 0
    again.look()
    assert list(again.daemon.core.counted) == ["a", "c"]
    again.close()
    with pytest.raises(UnknownName):
        views.readmit(state, "a")


@pytest.mark.full  # `make test`: protocol/test_worlds.py
def test_peers_end_their_rounds_without_one_that_was_ejected_and_so_does_that_one(tmp_path):
    """a begins once all others are done: b and c stay until it has heard that it is ejected."""
    graph = nx.Graph(["ab", "ac", "bc", "bd", "cd"])
    fed = federation(tmp_path, graph, CRC, rounds=4)
    linger = {"a": 5.0}  # it would stay longer to tell b and c, who are gone, that it is done
    a, b, c, d = daemons = [fed.daemon(n, linger=linger.get(n, 600.0)) for n in "abcd"]
    for daemon in (b, c):
        daemon.store.eject("a", "broken")

    async def all_of_them():
        begun = [asyncio.create_task(daemon.run()) for daemon in (b, c, d)]
        while any(daemon.place.round < 4 for daemon in (b, c, d)):
            await asyncio.sleep(0.01)
        assert not any(task.done() for task in begun[:2])
        return await asyncio.gather(a.run(), *begun)

    assert asyncio.run(asyncio.wait_for(all_of_them(), 300)) == [True] * 4
    assert a.store.rows("SELECT DISTINCT heard FROM rounds") == [("",)]
    assert b.store.rows("SELECT DISTINCT heard FROM rounds") == [("c d",)]
    assert a.store.neighbours.byes() == {"b": "ejected", "c": "ejected"}
    for daemon in daemons:
        daemon.store.close()


def test_a_peer_that_nobody_answers_ends_and_says_so(fed, monkeypatch, peerwise):
    daemon = fed.daemon("b", patience=0.2)
    assert run_all(daemon) == [False]
    assert daemon.silent == ("a", "c")
    daemon.store.close()
    monkeypatch.setattr(serving, "serve", lambda site: serving.Ended(False, (), daemon.silent))
    monkeypatch.setattr(own_site, "Site", lambda *args, **more: None)
    files = [a for key in ("charter", "data", "state") for a in (f"--{key}", fed.folder / key)]
    code, said = peerwise("peer", "run", "--node", "b", *files, "--patience", 60)
    assert code == 2
    assert "b: a, c said nothing for 60 seconds, and the round waits for them" in said


def test_the_status_of_a_peer_that_does_not_run_says_so(fed, peerwise):
    heard_of(fed, lambda daemon: written(daemon, "a", own_letter(daemon))).close()
    state = fed.folder / "b"
    assert "no process runs" in peerwise("peer", "status", state)[1]
    with only_one(state):
        assert "1 of 4, learning" in peerwise("peer", "status", state)[1]


def test_who_leaves_before_all_have_the_last_letter_says_so_and_fails(fed, monkeypatch, peerwise):
    monkeypatch.setattr(serving, "serve", lambda site: serving.Ended(True, ("c",)))
    monkeypatch.setattr(own_site, "Site", lambda *args, **more: None)
    files = [a for key in ("charter", "data", "state") for a in (f"--{key}", fed.folder / key)]
    code, said = peerwise("peer", "run", "--node", "b", *files)
    assert code == 2
    assert "all rounds done, but c did not get the last letter" in said


def test_a_peer_knows_who_lacks_its_last_letter(fed):
    alone = Alone(fed.daemon("b", linger=0.0))
    daemon = alone.daemon
    for _ in range(4):
        t = daemon.place.round
        for sender in "ac":
            alone.accept(sender, written(daemon, sender, own_letter(daemon)))
        alone.until(lambda t=t: daemon.place.round > t)
    alone.bring(Started(frozenset()))
    alone.until(lambda: daemon.core.ended)
    assert daemon.lacking == ("a", "c")
    alone.close()


def test_who_agreed_on_something_else_is_not_heard(fed):
    """A liar in a first phase told two honest nodes different sums: they do not mix."""
    alone = Alone(fed.daemon("b"))
    daemon, letters = alone.daemon, {}
    for scale in (1.3, 1300.0):
        form = daemon.letters.form(daemon.node, daemon.memory, {"scale": scale})
        daemon.letters.use(0, form)
        sender = "a" if scale == 1.3 else "c"
        letters[sender] = written(daemon, sender, own_letter(daemon))
    alone.accept("a", letters["a"])
    (one,) = daemon.store.quarantine.letters()
    assert one.reason == "its sender agreed on something else in the first phase"
    alone.accept("c", letters["c"])
    alone.until(lambda: daemon.place.round == 1)
    assert daemon.store.rows("SELECT heard, missed FROM rounds") == [("c", "a")]
    alone.close()
