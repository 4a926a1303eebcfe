"""The file of a ledger: an SQLite database that only grows, with a hash chain over its releases.

The chain shows damage and careless edits. It is not a signature: whoever can write the file can
write another chain, or put an older copy in its place.
"""

import hashlib
import json
import os
import sqlite3
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from peerwise.errors import BadFile

# what SQLite raises of a damaged file
BROKEN = (sqlite3.Error, MemoryError, OverflowError, UnicodeDecodeError)

# the columns of a release, in the order in which they are hashed
COLUMNS = 'id, time, mechanism, parameters, epsilon, delta, multiplier, data, "group", part'
KIND = 0x50574C31  # marks an SQLite file as a ledger: "PWL1"
GUARDED = ("about", "releases", "sends")
TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE releases (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    mechanism TEXT NOT NULL,
    parameters TEXT NOT NULL,
    epsilon REAL NOT NULL,
    delta REAL NOT NULL,
    multiplier REAL,
    data TEXT NOT NULL,
    "group" TEXT,
    part TEXT,
    hash TEXT NOT NULL
);
CREATE TABLE sends (
    release INTEGER NOT NULL REFERENCES releases (id),
    receiver TEXT NOT NULL,
    time TEXT NOT NULL,
    hash TEXT NOT NULL
);
"""


def _guard(table: str, verb: str) -> str:
    """The statement that keeps a table from being changed."""
    return (
        f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table}\n"
        "BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END"
    )


def digest(previous: str, row: Sequence[Any]) -> str:
    """The hash of a release: of the hash before it and of the row."""
    # a text that damage turned into bytes has another hash
    text = json.dumps([previous, *row], ensure_ascii=True, default=repr)
    return hashlib.sha256(text.encode()).hexdigest()


def create(path: Path, about: Mapping[str, str]) -> None:
    """Create an empty ledger atomically; one that another process just created is left alone."""
    draft = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # it holds hashes of rows: for its owner alone, as are the files that SQLite makes beside it
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        db = sqlite3.connect(draft, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            db.execute(f"PRAGMA application_id = {KIND}")
            guards = [_guard(t, v) for t in GUARDED for v in ("UPDATE", "DELETE")]
            db.executescript("BEGIN;" + TABLES + ";".join(guards) + ";COMMIT;")
            rows = [*about.items(), ("mark", _mark(about))]
            db.execute("BEGIN")
            db.executemany("INSERT INTO about VALUES (?, ?)", rows)
            db.execute("COMMIT")
        finally:
            db.close()
        try:
            os.link(draft, path)  # fails where there is a file, so that none is overwritten
        except FileExistsError:
            return
        _sync(path.parent)
    except (OSError, *BROKEN) as error:
        why = getattr(error, "strerror", None) or error
        raise BadFile(f"cannot make the ledger {path}: {why}; give another place") from None
    finally:
        with suppress(OSError):  # where its folder is none, it is not there
            draft.unlink(missing_ok=True)


def connect(path: Path, what: str = "a ledger") -> sqlite3.Connection:
    """A connection whose commits are on the disk when they return."""
    try:
        db = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA fullfsync = ON")  # macOS: the disk's own cache too
        db.execute("PRAGMA foreign_keys = ON")
    except BROKEN as error:
        raise _unreadable(path, what, error) from None
    return db


def _unreadable(path: Path, what: str, error: Exception) -> BadFile:
    """What is wrong with a file that SQLite does not open or read."""
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return BadFile(
            f"cannot open {path}: this user may not write to it and its folder, which SQLite needs "
            "also for reading; copy it elsewhere to look at it"
        )
    return BadFile(f"{path} is not {what} or is damaged: {error}")


@contextmanager
def alone(db: sqlite3.Connection, path: Path, what: str = "ledger") -> Iterator[None]:
    """A transaction with no other process in between, on the disk when it ends or not at all."""
    try:
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
    except sqlite3.Error as error:
        raise BadFile(f"cannot write to the {what} {path}: {error}") from None


def append(db: sqlite3.Connection, row: Sequence[Any]) -> None:
    """Add a release to the end of the chain."""
    last = db.execute("SELECT hash FROM releases ORDER BY id DESC LIMIT 1").fetchone()
    last = last or db.execute("SELECT value FROM about WHERE key = 'mark'").fetchone()
    values = (*row, digest(last[0], row))
    marks = ", ".join("?" * len(values))
    db.execute(f"INSERT INTO releases VALUES ({marks})", values)


def append_send(db: sqlite3.Connection, row: Sequence[Any]) -> None:
    """Note to whom a release was handed: its number, the receiver, the time."""
    columns = len(db.execute("PRAGMA table_info(sends)").fetchall())
    values = (*row, digest("", row))[:columns]  # a ledger before 0.9 has no place for the hash
    db.execute(f"INSERT INTO sends VALUES ({', '.join('?' * columns)})", values)


def health_of(db: sqlite3.Connection) -> str:
    """What SQLite says of the file's structure in one line: "ok", or what is wrong."""
    return " ".join(str(db.execute("PRAGMA integrity_check(1)").fetchone()[0]).split())


def verify(db: sqlite3.Connection, path: Path) -> dict[str, str]:
    """The ledger's `about` table, after checking the whole file."""
    try:
        kind = db.execute("PRAGMA application_id").fetchone()[0]
        if kind != KIND:
            raise BadFile(f"{path} is a database, but not a Peerwise ledger; give another path")
        db.execute("BEGIN")  # a snapshot of a file that others may be adding to
        try:
            health = health_of(db)
            guards = set(db.execute("SELECT name, sql FROM sqlite_master WHERE type='trigger'"))
            about = dict(db.execute("SELECT key, value FROM about").fetchall())
            rows = db.execute(f"SELECT {COLUMNS}, hash FROM releases ORDER BY id").fetchall()
            sends = db.execute("SELECT * FROM sends").fetchall()
            top = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'releases'").fetchone()
        finally:
            db.execute("COMMIT")
    except BROKEN as error:
        raise _unreadable(path, "a ledger", error) from None
    if health != "ok":
        raise BadFile(f"the ledger {path} is damaged: {health}")
    if guards != {(f"{t}_{v}", _guard(t, v)) for t in GUARDED for v in ("UPDATE", "DELETE")}:
        raise BadFile(f"the ledger {path} was tampered with: its guards were changed")
    mark = about.pop("mark", None)
    if mark != _mark(about):
        raise BadFile(f"the ledger {path} was tampered with: its node, budget or schema changed")
    for place, (*row, hashed) in enumerate(rows, start=1):
        mark = digest(str(mark), row)
        if row[0] != place or hashed != mark:
            raise BadFile(f"the ledger {path} was tampered with: release {place} is not as written")
    if (top[0] if top else 0) != len(rows):
        raise BadFile(f"the ledger {path} was tampered with: its last releases are gone")
    # ledgers of versions before 0.9 have no hash of what was sent
    if any(len(row) > 3 and row[3] != digest("", row[:3]) for row in sends):
        raise BadFile(f"the ledger {path} was tampered with: what it says was sent is not so")
    return about


def _mark(about: Mapping[str, str]) -> str:
    return digest("", sorted(about.items()))


def _sync(folder: Path) -> None:
    """Flush a folder's new entry to the disk, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
