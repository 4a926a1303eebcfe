"""Large letters are files beside the database: never one too few, and none that is of no use."""

import asyncio
import os
from contextlib import suppress

import networkx as nx
import pytest

from federation import assert_same, federation, run_all, simulated
from peerwise import node
from peerwise.errors import BadFile
from peerwise.peer import large, pieces, transport
from peerwise.peer.large import FOLDER, letter_hash, reference_of
from peerwise.peer.letters import Shelved
from peerwise.peer.protocol.messages import Place
from peerwise.peer.store import Store
from peerwise.peer.transport import FEWEST, ROOM, Turns

BODY = bytes(range(256)) * 8


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """What counts as large here."""
    monkeypatch.setattr(large, "LARGE", 1000)


def opened(folder):
    return Store.open(folder, node="a", charter="c", charter_text="", data="d")


@pytest.fixture
def store(tmp_path):
    store = opened(tmp_path)
    yield store
    store.close()


def crash(store):
    """A letter is in its file, and its row is not on the disk."""
    with suppress(RuntimeError), store.transaction():
        store.inbox.large.write(reference_of(BODY, letter_hash(BODY)), BODY)
        raise RuntimeError


def files(folder):
    home = folder / FOLDER
    return sorted(home.iterdir()) if home.exists() else []


def test_a_large_letter_is_a_file_and_a_small_one_is_not(store, tmp_path):
    assert store.inbox.put("b", Place(0, 0), BODY) is False
    assert store.inbox.put("c", Place(0, 0), b"short") is False
    (file,) = files(tmp_path)
    assert file.read_bytes() == BODY
    assert file.stat().st_mode & 0o077 == 0 or os.umask(os.umask(0)) != 0o077
    assert (tmp_path / FOLDER).stat().st_mode & 0o777 == 0o700
    assert store.inbox.letters() == {("b", Place(0, 0)): BODY, ("c", Place(0, 0)): b"short"}


def test_the_same_letter_again_is_no_other(store):
    store.inbox.put("b", Place(0, 0), BODY)
    assert store.inbox.put("b", Place(0, 0), BODY) is False
    assert store.inbox.put("b", Place(0, 0), BODY[::-1]) is True
    assert store.inbox.letters() == {("b", Place(0, 0)): BODY}


def test_a_file_goes_with_its_round_and_not_before(store, tmp_path):
    store.inbox.put("b", Place(0, 0), BODY)
    store.inbox.put("b", Place(0, 1), BODY[1:])
    with store.transaction():
        store.advance(Place(0, 1), b"state", {})
        assert len(files(tmp_path)) == 2  # what is not written yet may not be written at all
    assert [file.read_bytes() for file in files(tmp_path)] == [BODY[1:]]
    assert store.inbox.letters() == {("b", Place(0, 1)): BODY[1:]}


def test_a_crash_leaves_a_file_too_many_which_goes_later(store, tmp_path):
    crash(store)
    assert len(files(tmp_path)) == 1
    assert store.inbox.letters() == {}
    store.close()
    again = opened(tmp_path)
    again.live()
    assert files(tmp_path) == []
    again.close()


def test_who_only_looks_removes_nothing(store, tmp_path):
    crash(store)
    other = Store.look(tmp_path, write=True)
    other.eject("c", "broken")
    other.close()
    assert len(files(tmp_path)) == 1


def test_letters_are_there_after_a_restart_and_damage_is_seen(store, tmp_path):
    store.inbox.put("b", Place(0, 0), BODY)
    store.close()
    again = opened(tmp_path)
    assert again.inbox.letters() == {("b", Place(0, 0)): BODY}
    again.close()
    (file,) = files(tmp_path)
    file.write_bytes(BODY[:-1] + b"x")
    with pytest.raises(BadFile, match="is not as it was written"):
        opened(tmp_path)
    file.unlink()
    with pytest.raises(BadFile, match="damaged: cannot read"):
        opened(tmp_path)


def test_the_quarantine_takes_and_gives_back_large_letters(store, tmp_path):
    store.inbox.put("b", Place(0, 0), BODY)
    store.quarantine.put("b", Place(0, 0), "odd", None)
    store.quarantine.put("c", Place(0, 0), "odd, too", BODY[1:])
    assert [(one.sender, one.bytes) for one in store.quarantine.letters()] == [
        ("b", 2048),
        ("c", 2047),
    ]
    assert len(files(tmp_path)) == 2
    first, second = store.quarantine.letters()
    store.quarantine.release(first.id)
    assert store.inbox.letters() == {("b", Place(0, 0)): BODY}
    store.quarantine.drop(second.id)
    with store.transaction():
        store.advance(Place(0, 1), b"state", {})
    assert files(tmp_path) == []


def test_a_full_disk_is_one_line(store, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(large.os, "fsync", full)
    with pytest.raises(BadFile, match=r"cannot write to the state .*: No space left on device"):
        store.inbox.put("b", Place(0, 0), BODY)
    assert store.inbox.letters() == {}


def most_at_once(turns, count, seconds):
    """How many of so many are at work at a time, each for so long."""
    now, most = 0, 0

    async def work():
        nonlocal now, most
        async with turns.one():
            now += 1
            most = max(most, now)
            await asyncio.sleep(seconds)
            now -= 1

    async def all_of_them():
        await asyncio.gather(*(work() for _ in range(count)))

    asyncio.run(all_of_them())
    return most


def test_large_messages_come_a_few_at_a_time_and_small_ones_all_at_once():
    assert most_at_once(Turns(ROOM), 20, 0.001) == FEWEST
    assert most_at_once(Turns(ROOM // 8), 20, 0.001) == 8
    assert most_at_once(Turns(10_000), 64, 0.001) == 64


def test_who_takes_long_gives_its_turn_away(monkeypatch):
    monkeypatch.setattr(transport, "TURN", 0.01)
    turns = Turns(ROOM)
    assert most_at_once(turns, 3 * FEWEST, 0.2) > FEWEST
    assert turns._turns._value == FEWEST  # and no more are given back than were taken


def test_a_file_that_was_removed_can_still_be_read(store, tmp_path):
    store.inbox.put("b", Place(0, 0), BODY)
    filed = store.inbox.filed("b", Place(0, 0))
    store.inbox.put("b", Place(0, 1), BODY[1:], newest=True)
    assert [file.read_bytes() for file in files(tmp_path)] == [BODY[1:]]
    assert filed.view() == BODY
    assert store.inbox.filed("b", Place(0, 0)) is None


@pytest.mark.some("method0")
@pytest.mark.parametrize("method", [{"name": "crc", "lr": 0.05}, {"name": "cfa_ge", "lr": 0.05}])
@pytest.mark.parametrize("adds_up", [True, False])
def test_peers_read_large_letters_from_files_and_learn_the_same(
    tmp_path, monkeypatch, method, adds_up
):
    monkeypatch.setattr(large, "LARGE", 100)
    monkeypatch.setattr(pieces, "PIECE", 300)
    if adds_up:
        monkeypatch.setattr(node, "LARGE", 1)
    read = []
    whole = Shelved.whole
    monkeypatch.setattr(Shelved, "whole", lambda self: (read.append(self), whole(self))[1])
    fed = federation(tmp_path, nx.path_graph(["a", "b", "c"]), method, rounds=3)
    daemons = [fed.daemon(name) for name in fed.charter.names]
    assert all(run_all(*daemons))
    assert len(read) == 3 * 4  # once for every letter
    assert_same(simulated(fed, daemons, 3), daemons, 0.0 if method["name"] == "crc" else 1e-5)
