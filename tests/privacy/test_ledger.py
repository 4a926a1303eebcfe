"""The ledger never overspends, never forgets and shows damage."""

import os
import sqlite3
import subprocess
import sys
import threading

import pytest

from peerwise.errors import BadFile, BadSetting, UnknownName
from peerwise.privacy.ledger import Ledger, Overspent
from peerwise.privacy.mechanism import gaussian_sigma


@pytest.fixture
def path(tmp_path):
    return tmp_path / "node.ledger"


def pay(ledger, epsilon, **others):
    return ledger.charge("laplace", {"scale": 1.0}, epsilon, data="rows", **others)


def test_charges_add_up_to_the_budget_and_no_further(path):
    with Ledger.open(path, node="a", epsilon=0.3) as ledger:
        assert [pay(ledger, 0.1) for _ in range(3)] == [1, 2, 3]  # 0.1 + 0.1 + 0.1 > 0.3
        said = r"is epsilon 0.3, .* spent epsilon 0.3, .* left epsilon 0, "
        with pytest.raises(Overspent, match=said):
            pay(ledger, 0.01)
        assert len(ledger.table()) == 3
        assert ledger.total().epsilon == pytest.approx(0.3)
        assert ledger.left().epsilon == pytest.approx(0.0)


@pytest.mark.parametrize("place", [".", "/", "..", "folder"])
def test_a_folder_is_no_ledger(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(BadFile, match="is a folder, not a ledger"):
        Ledger.open(place, node=None)


def test_a_refusal_says_what_is_spent_asked_and_left_and_records_nothing(path):
    with Ledger.open(path, node="ward 3", epsilon=1.0) as ledger:
        pay(ledger, 0.75)
        with pytest.raises(Overspent) as refused:
            pay(ledger, 0.5)
        for text in ("ward 3", "epsilon 0.5", "spent epsilon 0.75", "is epsilon 1,",
                     "left epsilon 0.25", "cost epsilon 1.25"):  # fmt: skip
            assert text in str(refused.value)
        assert ledger.total() == (0.75, 0.0)
        with pytest.raises(Overspent):  # delta is a budget too
            pay(ledger, 0.1, delta=1e-9)
        pay(ledger, 0.25)


def test_a_refusal_for_want_of_delta_says_so(path):
    """Before, it said that an epsilon of inf was needed."""
    with Ledger.open(path, node="a", epsilon=3.0, delta=1e-5, accountant="pld") as ledger:
        pay(ledger, 1.0, delta=1e-5)
        with pytest.raises(Overspent) as refused:
            pay(ledger, 1.0, delta=1e-5)
        assert "a delta above 1e-05 whatever epsilon is" in str(refused.value)
        assert "inf" not in str(refused.value)


def test_disjoint_parts_cost_as_much_as_the_dearest(path):
    with Ledger.open(path, node="a", epsilon=1.0) as ledger:
        pay(ledger, 0.2)
        pay(ledger, 0.3, group="classes", part="yes")
        pay(ledger, 0.5, group="classes", part="no")
        assert ledger.total().epsilon == pytest.approx(0.7)
        pay(ledger, 0.3, group="classes", part="yes")  # 0.6 in all: now the dearest
        assert ledger.total().epsilon == pytest.approx(0.8)
        pay(ledger, 0.2, group="years", part="2020")
        assert ledger.left().epsilon == pytest.approx(0.0)
        with pytest.raises(Overspent):
            pay(ledger, 0.2, group="classes", part="yes")
        pay(ledger, 0.1, group="classes", part="no")  # costs nothing below the dearest
        with pytest.raises(BadSetting, match="come together"):
            pay(ledger, 0.1, part="yes")


def test_a_release_is_sent_again_for_nothing(path):
    with Ledger.open(path, node="a", epsilon=1.0) as ledger:
        receipt = pay(ledger, 0.4)
        for neighbour in ("b", "c", "b"):
            ledger.sent(receipt, neighbour)
        table = ledger.table()
        assert table.loc[receipt, "sent"] == 3
        assert table.loc[receipt, "parameters"] == {"scale": 1.0}
        assert str(table["time"].dt.tz) == "UTC"
        assert ledger.total().epsilon == 0.4
        with pytest.raises(BadSetting, match="no release 9"):
            ledger.sent(9, "b")
        assert list(table.columns) == [
            *("time", "mechanism", "parameters", "epsilon", "delta", "data", "group", "part"),
            "sent",
        ]


def test_a_file_is_opened_again_with_its_budget(path):
    with Ledger.open(path, node="a", epsilon=1, delta=1e-6, schema="S", accountant="rdp") as ledger:
        pay(ledger, 0.5)
    with Ledger.open(path, node="a") as ledger:
        assert ledger.budget == (1.0, 1e-6)
        assert ledger.accountant == "rdp"
        assert len(ledger.table()) == 1
    with Ledger.open(path, node="a", epsilon=1, delta=1e-6, schema="S", accountant="rdp"):
        pass
    for other in ({"epsilon": 2.0}, {"delta": 1e-5}, {"accountant": "basic"}):
        with pytest.raises(BadSetting, match="cannot become"):
            Ledger.open(path, node="a", **other)
    with pytest.raises(BadFile, match="node 'a'"):
        Ledger.open(path, node="b")
    with pytest.raises(BadFile, match="another schema"):
        Ledger.open(path, node="a", schema="T")


@pytest.mark.parametrize(
    "budget",
    [
        {},
        {"epsilon": 0.0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": float("nan")},
        {"epsilon": 1.0, "accountant": "rdp"},
    ],
)
def test_a_budget_that_makes_no_sense_makes_no_file(path, budget):
    with pytest.raises(BadSetting):
        Ledger.open(path, node="a", **budget)
    with pytest.raises(UnknownName, match="basic"):
        Ledger.open(path, node="a", epsilon=1.0, accountant="basics")
    assert not list(path.parent.iterdir())


def test_charges_that_make_no_sense_are_refused(path):
    with Ledger.open(path, node="a", epsilon=9.0, delta=0.1) as ledger:
        for epsilon, delta in [(0, 0), (-1, 0), (float("nan"), 0), (float("inf"), 0), (1, -0.1)]:
            with pytest.raises(BadSetting):
                pay(ledger, epsilon, delta=delta)
        with pytest.raises(BadSetting, match="plain values"):
            ledger.charge("laplace", {"scale": float("nan")}, 1.0, data="rows")
        with pytest.raises(BadSetting, match="costs epsilon"):
            pay(ledger, 0.1, delta=1e-5, multiplier=1.0)
        sigma = gaussian_sigma(1.0, 0.1, 1e-5)
        pay(ledger, 0.1, delta=1e-5, multiplier=sigma)
        assert len(ledger.table()) == 1


def test_what_is_not_a_ledger_is_refused(path, tmp_path):
    for content in (b"", b"not a database at all", b"SQLite format 3\0" + bytes(4000)):
        path.write_bytes(content)
        with pytest.raises(BadFile, match="ledger"):
            Ledger.open(path, node="a", epsilon=1.0)
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE t (a)")
    other.close()
    with pytest.raises(BadFile, match="not a Peerwise ledger"):
        Ledger.open(tmp_path / "other.db", node="a", epsilon=1.0)
    with pytest.raises(BadFile, match="folder"):
        Ledger.open(tmp_path, node="a", epsilon=1.0)


def test_a_damaged_file_is_refused(path):
    with Ledger.open(path, node="a", epsilon=9.0) as ledger:
        for _ in range(30):
            pay(ledger, 0.1)
    content = bytearray(path.read_bytes())
    for start in (content.index(b"laplace"), content.rindex(b"laplace"), 4096):
        damaged = content.copy()
        damaged[start : start + 7] = b"\xff" * 7
        path.write_bytes(damaged)
        with pytest.raises(BadFile, match=r"damaged|tampered"):
            Ledger.open(path, node="a")
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(BadFile, match=r"damaged|tampered"):
        Ledger.open(path, node="a")


@pytest.mark.parametrize("table", ["releases", "sends", "about"])
def test_a_ledger_only_grows(path, table):
    with Ledger.open(path, node="a", epsilon=1.0) as ledger:
        ledger.sent(pay(ledger, 0.5), "b")
    other = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="only grows"):
        other.execute(f"DELETE FROM {table}")
    column = {"releases": "epsilon", "sends": "receiver", "about": "value"}[table]
    with pytest.raises(sqlite3.IntegrityError, match="only grows"):
        other.execute(f"UPDATE {table} SET {column} = 0")
    other.close()


@pytest.mark.parametrize(
    ("verb", "change"),
    [
        ("releases_UPDATE", "UPDATE releases SET epsilon = 0.01 WHERE id = 2"),
        ("releases_DELETE", "DELETE FROM releases WHERE id = 1"),
        ("releases_DELETE", "DELETE FROM releases WHERE id = 3"),
        ("about_UPDATE", "UPDATE about SET value = '100.0' WHERE key = 'epsilon'"),
        (None, "DROP TRIGGER sends_DELETE"),
    ],
)
def test_tampering_is_found(path, verb, change):
    with Ledger.open(path, node="a", epsilon=9.0) as ledger:
        for _ in range(3):
            pay(ledger, 1.0)
    other = sqlite3.connect(path, isolation_level=None)
    if verb:
        ((guard,),) = other.execute("SELECT sql FROM sqlite_master WHERE name = ?", (verb,))
        other.execute(f"DROP TRIGGER {verb}")
    other.execute(change)
    if verb:
        other.execute(guard)  # put back, so that only the chain tells
    other.close()
    with pytest.raises(BadFile, match="tampered"):
        Ledger.open(path, node="a")


PROCESS = """
import os, sys
from peerwise.privacy.ledger import Ledger, Overspent
ledger = Ledger.open(sys.argv[1], node="a", epsilon=2.05)
print("ready", flush=True)
sys.stdin.readline()
done = 0
try:
    while True:
        ledger.charge("laplace", {}, 0.1, data="rows")
        done += 1
except Overspent:
    pass
print(done, flush=True)
ledger._db.execute("BEGIN IMMEDIATE")  # a crash in the middle of writing: this must not count
ledger._db.execute("INSERT INTO sends SELECT 1, 'nobody', 'never', ''")
os._exit(1)
"""


def test_processes_never_overspend_and_a_crash_keeps_what_was_paid(path):
    """Two processes open, charge at once and die without closing, inside a transaction."""
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": ":".join(filter(None, sys.path)), "JAX_PLATFORMS": "cpu"},
            text=True,
        )
        for _ in range(2)
    ]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    paid = [int(process.communicate(timeout=600)[0]) for process in running]
    assert [process.returncode for process in running] == [1, 1]
    with Ledger.open(path, node="a") as ledger:
        assert sum(paid) == len(ledger.table()) == 20
        assert ledger.total().epsilon == pytest.approx(2.0)
        assert not ledger.table()["sent"].any()


def test_threads_never_overspend(path):
    ledger = Ledger.open(path, node="a", epsilon=1.0)
    refused = []

    def work():
        for _ in range(10):
            try:
                pay(ledger, 0.05)
            except Overspent:
                refused.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ledger.table()) == 20
    assert len(refused) == 20
    ledger.close()
    with pytest.raises(BadFile, match="closed"):
        pay(ledger, 0.1)


def test_a_ledger_that_was_removed_is_missed(path):
    path.with_name(path.name + "-wal").write_bytes(b"what was paid last")
    with pytest.raises(BadFile, match="put back"):
        Ledger.open(path, node="a", epsilon=1.0)


def test_a_ledger_appears_whole(path):
    Ledger.open(path, node="a", epsilon=1.0).close()
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_what_is_no_text_is_refused_and_breaks_no_ledger(tmp_path):
    """The file would keep 5 as '5', whose hash is another: nobody could open it again."""
    with pytest.raises(BadSetting, match="node must be a text"):
        Ledger.open(tmp_path / "other", node=5, epsilon=1.0)
    with Ledger.open(tmp_path / "l", node="a", epsilon=1.0) as ledger:
        ledger.charge("laplace", {}, 0.1, data="rows")
        for odd in ({"data": 5}, {"mechanism": b"x"}, {"group": 1, "part": "2"}):
            given = {"mechanism": "laplace", "parameters": {}, "epsilon": 0.1, "data": "rows"} | odd
            with pytest.raises(BadSetting, match=f"{next(iter(odd))} must be a text"):
                ledger.charge(**given)
        with pytest.raises(BadSetting, match="to must be a text"):
            ledger.sent(1, to=5)
    with Ledger.open(tmp_path / "l", node="a") as ledger:
        assert ledger.receipts() == 1


@pytest.mark.parametrize(
    "odd", [{"epsilon": "x"}, {"epsilon": None}, {"delta": "x"}, {"multiplier": "x"}]
)
def test_what_is_no_number_is_refused_in_words(tmp_path, odd):
    with Ledger.open(tmp_path / "l", node="a", epsilon=1.0) as ledger:
        given = {"mechanism": "laplace", "parameters": {}, "epsilon": 0.1, "data": "rows"} | odd
        with pytest.raises(BadSetting, match=f"{next(iter(odd))} must be a number"):
            ledger.charge(**given)
        assert ledger.receipts() == 0
    with pytest.raises(BadSetting, match="delta must be a number"):
        Ledger.open(tmp_path / "new", node="a", epsilon=1.0, delta="x")
    with pytest.raises(BadSetting, match="text of a schema"):
        Ledger.open(tmp_path / "new", node="a", epsilon=1.0, schema=3)


def test_a_closed_ledger_says_that_it_is(tmp_path):
    ledger = Ledger.open(tmp_path / "l", node="a", epsilon=1.0)
    ledger.close()
    ledger.close()
    for ask in (ledger.left, ledger.table, ledger.head, ledger.receipts):
        with pytest.raises(BadFile, match="is closed; open it again"):
            ask()
    with pytest.raises(BadFile, match="is closed"):
        ledger.charge("laplace", {}, 0.1, data="rows")


def test_nobody_else_on_the_machine_reads_a_ledger(tmp_path):
    """It holds hashes of a site's rows, which whoever knows most of them could try out."""
    before = os.umask(0)
    try:
        with Ledger.open(tmp_path / "l", node="a", epsilon=1.0) as ledger:
            ledger.charge("laplace", {}, 0.1, data="rows")
            modes = {f.name: f.stat().st_mode & 0o777 for f in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}, modes


def test_a_ledger_that_may_not_be_written_is_not_called_damaged(tmp_path, monkeypatch):
    path = tmp_path / "a.ledger"
    Ledger.open(path, node="a", epsilon=1.0).close()

    class Locked(sqlite3.Connection):
        def execute(self, *args):
            raise sqlite3.OperationalError("attempt to write a readonly database")

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Locked, **k))
    monkeypatch.setattr(os, "access", lambda place, mode: place != path)
    with pytest.raises(BadFile, match="this user may not write to it and its folder"):
        Ledger.open(path, node=None)


def test_a_place_for_a_ledger_that_is_none_is_said_without_numbers(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(BadFile, match=r"a\.ledger: (Not a directory|File exists); give another"):
        Ledger.open(tmp_path / "file" / "a.ledger", node="a", epsilon=1.0)
