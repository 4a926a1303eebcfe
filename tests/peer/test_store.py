"""A peer's file: what is in it is whole, is the peer's own, and stays small."""

import asyncio
import sqlite3

import networkx as nx
import pytest

from federation import PATH, federation, run_all
from peerwise.errors import BadFile
from peerwise.peer.keeping import Keeping, emptied, wiped
from peerwise.peer.protocol.messages import Away, Came, Place, Put, Written
from peerwise.peer.store import FILE, Store
from peerwise.peer.store.outbox import KEEP
from peerwise.peer.wire import BadLetter
from peerwise.privacy import Overspent

BUDGET = {"epsilon": 1.0, "delta": 0.0, "accountant": "basic"}


def opened(folder, **other):
    told = {"node": "a", "charter": "c1", "charter_text": "name = 'x'", "data": "d1"} | other
    return Store.open(folder, **told)


def advance(store, t, state=b"state", letters=None, **more):
    with store.transaction():
        body = f"letter {t}".encode()
        store.advance(Place(0, t), state, {"b": body} if letters is None else letters, **more)


def at_once(store, *steps):
    """Steps of one transaction, at the end of which all is done or nothing."""
    with store.transaction():
        for step in steps:
            step()


def fails():
    raise RuntimeError


@pytest.fixture
def store(tmp_path):
    made = opened(tmp_path)
    yield made
    made.close()


def test_a_new_file_has_no_progress_and_knows_whose_it_is(store):
    assert store.progress() is None
    assert store.inbox.letters() == {}
    assert store.outbox.unsent("b") == []
    assert {k: store.about()[k] for k in ("node", "charter", "data")} == {
        "node": "a", "charter": "c1", "data": "d1"
    }  # fmt: skip


def test_a_round_is_on_the_disk_whole(tmp_path, store):
    done = Place(0, 0), ["b"], ["c"], 0.5, None
    advance(store, 1, b"one", {"b": b"hello", "c": b"hello"}, done=done)
    store.close()
    again = opened(tmp_path)
    assert again.progress() == (Place(0, 1), b"one")
    assert again.outbox.unsent("b") == [Away("b", Place(0, 1), b"hello")]
    assert again.rows("SELECT phase, round, heard, missed FROM rounds") == [(0, 0, "b", "c")]
    assert again.rows("SELECT count(*) FROM bodies") == [(1,)]  # the same bytes once
    again.close()


def test_a_round_that_fails_half_way_leaves_the_one_before(store):
    advance(store, 0, b"zero")
    done = Place(0, 0), ["b"], [], 0.1, None
    with pytest.raises(RuntimeError):
        at_once(
            store,
            lambda: store.advance(Place(0, 1), b"one", {"b": b"new"}, done),
            lambda: store.set(agreed="{}"),
            fails,
        )
    assert store.progress() == (Place(0, 0), b"zero")
    assert [away.body for away in store.outbox.unsent("b")] == [b"letter 0"]
    assert store.rows("SELECT count(*) FROM rounds") == [(0,)]
    assert "agreed" not in store.about()


def test_what_was_not_acknowledged_is_sent_again_as_the_same_bytes(tmp_path, store):
    for t in range(4):
        advance(store, t)
    store.outbox.acknowledge("b", Place(0, 1))
    store.close()
    again = opened(tmp_path)
    assert again.outbox.unsent("b") == [Away("b", Place(0, t), b"letter %d" % t) for t in (2, 3)]
    assert again.outbox.unsent("c") == []
    again.close()


def test_a_letter_is_written_once_and_its_bytes_do_not_change(store):
    advance(store, 0, letters={"b": b"first"})
    advance(store, 0, letters={"b": b"other"})
    assert [away.body for away in store.outbox.unsent("b")] == [b"first"]


def test_a_letter_that_came_is_kept_once(store):
    assert store.inbox.put("b", Place(0, 0), b"x") is False
    assert store.inbox.put("b", Place(0, 0), b"x") is False
    assert store.inbox.put("b", Place(0, 0), b"y") is True
    assert store.inbox.letters() == {("b", Place(0, 0)): b"x"}


def test_letters_that_are_used_up_leave_the_inbox(store):
    for t in range(5):
        store.inbox.put("b", Place(0, t), b"x")
    advance(store, 3)
    assert {place.round for _, place in store.inbox.letters()} == {3, 4}
    advance(store, 4, keep=3)
    assert {place.round for _, place in store.inbox.letters()} == {3, 4}
    with store.transaction():
        store.advance(Place(1, 0), b"", {})
    assert store.inbox.letters() == {}


def test_where_only_the_newest_counts_a_sender_has_one_letter(store):
    store.inbox.put("c", Place(0, 0), b"of another")
    for t in range(50):
        store.inbox.put("b", Place(0, t), b"x", newest=True)
    assert set(store.inbox.letters()) == {("b", Place(0, 49)), ("c", Place(0, 0))}


def test_an_old_letter_that_comes_late_does_not_take_the_place_of_a_newer_one(store):
    """In one transaction with it, or after it."""
    for together in (True, False):
        letters = [Came(f"{together}", Place(0, t), b"x", True) for t in (5, 4)]
        for group in [letters] if together else [[one] for one in letters]:
            assert not any(store.inbox.put_all(group))
    assert set(store.inbox.letters()) == {("True", Place(0, 5)), ("False", Place(0, 5))}


def test_old_letters_lose_their_bodies_and_keep_their_line(store):
    for t in range(40):
        advance(store, t)
        store.outbox.acknowledge("b", Place(0, t))
    kept = store.rows("SELECT round FROM outbox JOIN bodies USING (hash) ORDER BY round")
    assert [t for (t,) in kept] == list(range(40 - KEEP, 40))
    lines = store.rows("SELECT round, bytes, length(hash) FROM outbox ORDER BY round")
    assert lines == [(t, len(f"letter {t}"), 64) for t in range(40)]


def test_old_letters_that_nobody_acknowledged_keep_their_bodies(store):
    for t in range(40):
        advance(store, t)
    assert len(store.outbox.unsent("b")) == 40


def test_the_lookups_of_a_round_do_not_scan_all_rounds_before(store):
    plans = [
        "SELECT hash FROM outbox WHERE phase = 0 AND round > 7",
        "UPDATE outbox SET acknowledged = '' WHERE receiver = 'b' AND acknowledged IS NULL AND "
        "(phase < 0 OR (phase = 0 AND round <= 3))",
    ]
    for plan in plans:
        told = " ".join(row[3] for row in store.rows(f"EXPLAIN QUERY PLAN {plan}"))
        assert "USING INDEX outbox_" in told


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"node": "b"}, r"is the state of node 'a', not of 'b'; give another --state"),
        ({"charter": "c2"}, r"begun with another charter; go on with that one"),
        ({"data": "d2"}, r"the data are not those .* Put them back, or give another --state"),
    ],
)
def test_the_state_of_somebody_else_is_refused_and_unharmed(tmp_path, other, why):
    mine = opened(tmp_path)
    advance(mine, 0)
    mine.close()
    with pytest.raises(BadFile, match=why):
        opened(tmp_path, **other)
    again = opened(tmp_path)
    assert again.progress() == (Place(0, 0), b"state")
    again.close()


def test_a_ledger_is_in_the_same_file_and_part_of_the_same_transaction(tmp_path):
    store = opened(tmp_path, budget=BUDGET)
    assert store.ledger is not None

    def charge(epsilon):
        return lambda: store.ledger.charge("laplace", {}, epsilon, data="rows", inside=True)

    def drawn(t):
        return lambda: store.advance(Place(0, t), b"drawn", {})

    with pytest.raises(RuntimeError):
        at_once(store, charge(0.4), drawn(0), fails)
    assert store.ledger.total().epsilon == 0
    assert store.progress() is None
    at_once(store, charge(0.4), drawn(0))
    with pytest.raises(Overspent):
        at_once(store, drawn(1), charge(0.7))
    store.close()
    again = opened(tmp_path, budget=BUDGET)
    assert again.ledger.total().epsilon == 0.4
    assert again.progress() == (Place(0, 0), b"drawn")
    again.close()


def test_a_full_disk_is_said_and_loses_nothing(tmp_path):
    store = opened(tmp_path, budget=BUDGET)
    advance(store, 0, b"kept")
    ((pages,),) = store.rows("PRAGMA page_count")
    store.rows(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(BadFile, match=r"cannot write to the state .*peer\.db: .*disk is full"):
        at_once(
            store,
            lambda: store.ledger.charge("laplace", {}, 0.4, data="rows", inside=True),
            lambda: store.advance(Place(0, 1), b"x" * 100_000, {"b": b"y" * 100_000}),
        )
    with pytest.raises(BadFile, match="disk is full"):
        store.inbox.put("b", Place(0, 0), b"z" * 100_000)
    assert store.progress() == (Place(0, 0), b"kept")
    assert store.ledger.total().epsilon == 0
    assert store.inbox.letters() == {}
    store.rows("PRAGMA max_page_count = 1000000")  # somebody made room
    advance(store, 1, b"x" * 100_000)
    assert store.inbox.put("b", Place(0, 1), b"z") is False
    store.close()
    again = opened(tmp_path, budget=BUDGET)
    assert again.progress() == (Place(0, 1), b"x" * 100_000)
    again.close()


def test_a_peer_whose_disk_is_full_ends_and_goes_on_when_there_is_room(tmp_path):
    graph = nx.relabel_nodes(nx.path_graph(2), {0: "a", 1: "b"})
    fed = federation(tmp_path, graph, {"name": "crc", "lr": 0.05}, rounds=120)
    full, other = fed.daemon("a"), fed.daemon("b", linger=0.0)
    ((pages,),) = full.store.rows("PRAGMA page_count")
    full.store.rows(f"PRAGMA max_page_count = {pages + 4}")
    with pytest.raises(BadFile, match="disk is full"):
        run_all(full, other)
    reached = full.store.progress()[0].round
    assert 0 < reached < 120
    for daemon in (full, other):
        daemon.store.close()
    again = [fed.daemon(name) for name in "ab"]
    assert run_all(*again) == [True, True]
    assert again[0].store.rows("SELECT count(*) FROM rounds") == [(120,)]


def fill(tmp_path, **told):
    store = opened(tmp_path, **told)
    for t in range(30):
        advance(store, t, b"s" * 5000)
        store.inbox.put("b", Place(0, t + 1), b"i" * 3000)
    store.close()
    return tmp_path / FILE


@pytest.mark.parametrize("budget", [None, BUDGET], ids=["plain", "ledger"])
@pytest.mark.parametrize("where", [0, 20, 100, 4096, 9000, -5000])
def test_a_damaged_file_is_refused_with_a_reason(tmp_path, budget, where):
    path = fill(tmp_path, budget=budget)
    body = bytearray(path.read_bytes())
    body[where : (where + 4000) or None] = b"\xa5" * len(body[where : (where + 4000) or None])
    path.write_bytes(bytes(body))
    with pytest.raises(BadFile, match=r"damaged|not a|cannot"):
        opened(tmp_path, budget=budget)
    assert path.read_bytes() == bytes(body)


def test_a_file_that_ends_early_is_refused_with_a_reason(tmp_path):
    path = fill(tmp_path)
    path.write_bytes(path.read_bytes()[: 3 * 4096 + 100])
    with pytest.raises(BadFile, match=r"damaged|not a peer's state"):
        opened(tmp_path)


def test_damage_that_comes_while_it_is_open_is_said_when_it_is_read(tmp_path):
    store = opened(tmp_path)
    advance(store, 0)
    store.rows("DROP TABLE inbox")
    with pytest.raises(BadFile, match=r"cannot read the state .*peer\.db: no such table: inbox"):
        store.inbox.letters()
    store.close()


def test_a_file_that_is_no_state_is_refused(tmp_path):
    (tmp_path / FILE).write_bytes(b"my notes\n" * 1000)
    with pytest.raises(BadFile, match="not a"):
        opened(tmp_path)
    with pytest.raises(BadFile, match="not a peer's state"):
        Store.look(tmp_path)


def test_a_database_of_something_else_is_no_state_to_look_at(tmp_path):
    db = sqlite3.connect(tmp_path / FILE)
    db.execute("CREATE TABLE songs (name TEXT)")
    db.close()
    with pytest.raises(BadFile, match="is not a peer's state"):
        Store.look(tmp_path)


def test_a_file_that_is_gone_without_its_log_is_not_begun_anew(tmp_path):
    (tmp_path / (FILE + "-wal")).write_bytes(b"x")
    with pytest.raises(BadFile, match="put back the file itself"):
        opened(tmp_path)


def test_a_file_is_looked_at_while_a_peer_writes_it(tmp_path, store):
    advance(store, 0)
    seen = Store.look(tmp_path)
    advance(store, 1, b"newer")
    assert seen.progress() == (Place(0, 1), b"newer")
    with pytest.raises(BadFile, match="readonly"), seen.transaction():
        seen.set(node="b")
    seen.close()


def test_a_state_that_does_not_fit_its_node_is_refused_when_a_peer_starts(tmp_path):
    graph = nx.relabel_nodes(nx.path_graph(2), {0: "a", 1: "b"})
    fed = federation(tmp_path, graph, {"name": "crc", "lr": 0.05}, rounds=2)
    daemon = fed.daemon("a")
    with daemon.store.transaction():
        daemon.store.advance(Place(0, 1), b"nonsense" * 10, {})
    with pytest.raises(BadLetter, match="what was kept is damaged"):
        run_all(daemon)


def test_letters_that_come_together_are_written_together(tmp_path):
    fed = federation(tmp_path, PATH, {"name": "crc"}, rounds=3)
    daemon, sizes, events = fed.daemon("b"), [], []
    write = daemon.store.inbox.put_all
    daemon.store.inbox.put_all = lambda letters, *more: (
        sizes.append(len(letters)) or write(letters, *more)
    )
    keeping = Keeping(daemon.store, daemon.plan, daemon.letters, events.extend, lambda: 64)

    async def come():
        letters = [Came("a", Place(0, t), bytes([t]), False) for t in range(20)]
        work = asyncio.create_task(keeping.work())
        for t, letter in enumerate(letters):
            keeping.want(Put(t, letter))
        keeping.want(Put(20, letters[3]._replace(body=b"other")))
        while len(events) < 21:
            await asyncio.sleep(0.001)
        work.cancel()

    asyncio.run(come())
    assert events == [Written(t, t == 20) for t in range(21)]
    assert len(sizes) <= 3
    assert len(daemon.store.inbox.letters()) == 20
    keeping.close()
    daemon.store.close()


def test_a_file_that_could_not_be_written_anew_is_written_later(tmp_path, monkeypatch):
    daemon = federation(tmp_path, PATH, {"name": "crc"}, rounds=3).daemon("b")
    rows, done, full = daemon.store.rows, [], [True, True]

    def tried(query, *values):
        if query == "VACUUM" and full and full.pop():
            raise BadFile("the disk is full")
        done.append(query)
        return rows(query, *values)

    monkeypatch.setattr(daemon.store, "rows", tried)
    keeping = Keeping(daemon.store, daemon.plan, daemon.letters, list, int)
    keeping.wipe()
    keeping.wipe_rest()  # it is still full
    assert "VACUUM" not in done
    for _ in range(2):
        keeping.wipe_rest()
    assert done.count("VACUUM") == 1
    keeping.close()
    daemon.store.close()


def test_a_forgotten_secret_is_in_no_unused_part_of_the_file(tmp_path, store):
    def is_there():
        return any(secret in file.read_bytes() for file in tmp_path.glob(f"{FILE}*"))

    secret = store.mask_secret().hex().encode()
    for i in range(40):  # rows about it grow, so that SQLite moves it from page to page
        at_once(store, lambda i=i: store.set(agreed="x" * 100 * i, ledger=f"{i}:{'h' * 64}"))
    at_once(store, store.forget_mask_secret)
    store.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    assert is_there(), "SQLite overwrites more than it did: nothing is tested"
    with sqlite3.connect(tmp_path / FILE) as other:  # a program that makes a copy, say
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM sqlite_master").fetchone()
        assert wiped(store) is emptied
        assert is_there()
        other.rollback()
    other.close()
    assert emptied(store) is None
    assert not is_there()
    assert store.mask_secret() is None
