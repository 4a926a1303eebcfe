"""Large letters in pieces: known in length before they come, and never whole in memory."""

import asyncio
import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest

from federation import federation
from hostile import LONG, Host, Mallory, letter, path, serving
from peerwise.peer import large, pieces, transport
from peerwise.peer.identity import make_certificate
from peerwise.peer.large import FOLDER, Filed, Large
from peerwise.peer.pieces import BYTES, BadPieces, Gathered, cut, put_together
from peerwise.peer.signing import MOST
from peerwise.peer.spool import Spools
from peerwise.peer.transport import SERVICE, Code


@pytest.fixture
def threads():
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def home(tmp_path):
    made = Large(tmp_path)
    yield made
    made.close()


def come(parts, size, sink):
    """What some pieces are put together to."""
    left = iter(parts)

    async def read():
        return next(left, None)

    return asyncio.run(put_together(read, size, sink, 1.0))


@pytest.mark.parametrize("size", [1, 500, 2000, 2001, 2 * MOST, 100_000])
def test_a_letter_in_pieces_is_its_file_with_its_hash(home, threads, monkeypatch, size):
    monkeypatch.setattr(large, "LARGE", 1)
    monkeypatch.setattr(pieces, "PIECE", 500)
    body = np.random.default_rng(size).bytes(size - 1) + b"\xff"  # the end is no seal
    parts = list(cut(body))
    assert [len(part) for part in parts[:-1]] == [500] * (len(parts) - 1)
    filed = come(parts, size, Spools(home, threads)(size))
    assert isinstance(filed, Filed)
    assert filed.view() == body
    assert len(filed) == size
    assert filed.mark.hexdigest() == hashlib.sha256(body).hexdigest()


def test_pieces_that_are_not_what_was_announced_are_refused_at_once(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE", 10)
    for parts, why in (
        ([b"x" * 10, b"x" * 9], "a piece of 9 bytes instead of 10"),
        ([b"x" * 11], "a piece of 11 bytes instead of 10"),
        ([b"x" * 10, b""], "a piece of 0 bytes instead of 10"),
        ([b"x" * 10, b"x" * 10, b"x" * 6], "a piece of 6 bytes instead of 5"),
        ([b"x" * 10], "it ended 15 bytes before its end"),
    ):
        with pytest.raises(BadPieces, match=why):
            come(parts, 25, Gathered())
    assert come([b"x" * 10, b"x" * 10, b"x" * 5], 25, Gathered()) == b"x" * 25


def test_a_small_letter_in_pieces_needs_no_file(home, threads):
    assert come([b"short"], 5, Spools(home, threads)(5)) == b"short"
    assert not home.folder.exists()


def names(home):
    return sorted(path.name for path in home.folder.iterdir())


def test_a_draft_that_becomes_no_letter_is_written_over_by_the_next(home):
    draft = home.draft(100)
    draft.write(b"a" * 100, 0)
    (first,) = names(home)
    home.sweep([])
    assert names(home) == [first]  # it is being written
    node = (home.folder / first).stat().st_ino
    del draft
    again = home.draft(50)
    assert [(home.folder / name).stat().st_ino for name in names(home)] == [node]
    assert len(again) == 50
    again.write(b"b" * 50, 0)
    assert again.view() == b"b" * 50


def test_a_used_up_file_that_somebody_reads_is_not_written_over(home):
    draft = home.draft(4)
    draft.write(b"kept", 0)
    home.write(f"{'0' * 64}:4", draft)
    view = draft.view()
    del draft  # the view alone is left, as of a letter that a node keeps
    home.sweep([])
    assert names(home) == []
    home.draft(4).write(b"over", 0)
    assert view == b"kept"
    other = home.draft(4)
    home.write(f"{'1' * 64}:4", other)
    del view, other
    home.sweep([])
    (spare,) = names(home)
    assert spare.startswith("draft-")
    home.close()
    assert names(home) == []


# over the network


@pytest.fixture(scope="module")
def fed(tmp_path_factory):
    """Nodes a - b; the test plays a."""
    home = tmp_path_factory.mktemp("fed")
    return federation(home, path("a", "b"), {"name": "crc", "lr": 0.05}, rounds=5)


@pytest.fixture
def victim(fed, monkeypatch):
    monkeypatch.setattr(large, "LARGE", 100)
    monkeypatch.setattr(pieces, "PIECE", 100)
    host, made = Host(), fed.daemon("b")
    host.start(made)
    assert serving(fed)
    yield made
    host.close()


def push(caller, parts, size):
    """The code and the answer or reason."""
    call = caller.channel.stream_unary(f"/{SERVICE}/Push")
    headers = [*caller.headers, (BYTES, str(size))]
    try:
        return Code.OK, call(iter(parts), timeout=LONG, metadata=headers)
    except grpc.RpcError as error:
        return error.code(), error.details()


def files(victim):
    home = victim.store.path.parent / FOLDER
    return {file.name: file.stat().st_size for file in home.iterdir()} if home.exists() else {}


def test_a_neighbour_gets_no_further_than_what_it_announced(fed, victim, monkeypatch):
    most = victim.format.largest
    body = letter(victim)
    good = list(cut(body))
    assert len(good) > 3
    with Mallory(fed) as caller:
        code, why = push(caller, iter(()), most + 1)  # refused before anything is read
        assert code is Code.RESOURCE_EXHAUSTED
        assert why == f"a letter of {most + 1} bytes; none has more than {most}"
        for parts in ([body[:50]], good[:2], [body], [*good[:-1], good[-1] + b"x"]):
            code, why = push(caller, parts, len(body))
            assert code is Code.INVALID_ARGUMENT, why
            assert why.startswith("a letter in pieces: ")
        assert push(caller, cut(bytes(len(body))), len(body))[0] is Code.INVALID_ARGUMENT
        assert victim.store.inbox.letters() == {}
        for size in ("-1", "x", "1e3", "9" * 13):  # no length: one message, which this is not
            assert push(caller, good, size)[0] is not Code.OK
        monkeypatch.setattr(transport, "BODY", 0.2)

        def slow():
            yield good[0]
            stop.wait(5)

        stop = threading.Event()
        code, why = push(caller, slow(), len(body))
        stop.set()
        assert code is Code.DEADLINE_EXCEEDED
        assert push(caller, good, len(body))[0] is Code.OK
    assert [(sender, place) for sender, place, *_ in victim.store.neighbours.signed()] == [
        ("a", (0, 0))
    ]
    assert len(files(victim)) <= 3  # whatever was refused


def test_a_stranger_announces_nothing(fed, victim):
    make_certificate(fed.keys, "d")
    with Mallory(fed, "d") as caller:
        for size in (1, 200, 10**11):
            assert push(caller, [b"x"], size)[0] is Code.PERMISSION_DENIED
    assert files(victim) == {}


def test_a_letter_is_pulled_in_pieces(fed, victim):
    own = victim.store.outbox.unsent("a")[0].body
    with Mallory(fed) as caller:
        call = caller.channel.unary_stream(f"/{SERVICE}/Pull")
        asked = b'{"phase": 0, "round": -1, "wait": 1}'
        answer = call(asked, timeout=LONG, metadata=caller.headers)
        assert dict(answer.initial_metadata())[BYTES] == str(len(own))
        assert list(answer) == list(cut(own))
