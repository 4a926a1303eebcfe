"""Opening the file of a peer: what is made where there is none, and what is refused."""

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from peerwise.errors import BadFile
from peerwise.peer.store.file import FILE, File
from peerwise.peer.store.tables import STATE
from peerwise.privacy import Ledger, ledger_file
from peerwise.privacy.ledger import about_ledger


def connect(
    path: Path, node: str, budget: Mapping[str, Any] | None, schema: str | None
) -> sqlite3.Connection:
    """A connection to the file, made where there is none; with a ledger where there is a budget."""
    fresh = not path.exists()
    if fresh and path.with_name(path.name + "-wal").exists():
        raise BadFile(f"{path} is gone but its '-wal' is there; put back the file itself")
    if fresh and budget is not None:
        ledger_file.create(path, about_ledger(node, budget, schema))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        db = ledger_file.connect(path, "a peer's state")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA busy_timeout = 10000")
        db.execute("PRAGMA secure_delete = OFF")  # letters are no rows, and the file is private
    except (OSError, *ledger_file.BROKEN) as error:
        raise BadFile(f"cannot open the state {path}: {error}") from None
    return db


def verified(db: sqlite3.Connection, path: Path, private: bool) -> Ledger | None:
    """The ledger in the file if the peer is `private`, after a check of the whole file."""
    if private:
        return Ledger(db, path, ledger_file.verify(db, path))
    if (health := ledger_file.health_of(db)) != "ok":
        raise BadFile(f"the state {path} is damaged: {health}")
    return None


def connect_beside(path: Path, write: bool) -> sqlite3.Connection:
    """A connection to the file while its peer may run, to read only or to `write`."""
    if not path.exists():
        raise BadFile(f"there is no peer's state in {path.parent}: {FILE} is missing")
    where = f"{path.resolve().as_uri()}?mode={'rw' if write else 'ro'}"
    return sqlite3.connect(
        where, uri=True, timeout=10, isolation_level=None, check_same_thread=False
    )


def ledger_beside(db: sqlite3.Connection, path: Path, write: bool) -> Ledger | None:
    """The ledger in the file, None where it has none; refused where it is no peer's file."""
    names = {n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    if not {"peer", "outbox", "progress"} <= names:
        raise BadFile(f"{path} is not a peer's state")
    if write and "quarantine" not in names:
        raise BadFile(f"{path} is of an older version of Peerwise, and is only to be read")
    return Ledger(db, path, ledger_file.verify(db, path)) if "releases" in names else None


def _with(data: str) -> str:
    """The options by which a peer learns from some rows of its file, as they are typed."""
    _, held_out, *appended = data.split(":")
    return f"with --held-out {held_out}{' --appended' if appended else ''}"


def require_same(
    file: File,
    old: Mapping[str, str],
    node: str,
    charter: str,
    data: str,
    differs: Callable[[str], str | None],
) -> None:
    """Refuse the state of another version, node, charter or data file; `old` is what it says."""
    if old.get("state", "1") != STATE:
        raise BadFile(
            f"{file.path} is of another version of Peerwise (its state is of version "
            f"{old.get('state', '1')}, this program's of {STATE}); go on with that version, or "
            f"give another --state{file.spent()}"
        )
    if old["node"] != node:
        raise BadFile(
            f"{file.path} is the state of node '{old['node']}', not of '{node}'; give "
            "another --state"
        )
    if old["charter"] != charter:
        words = differs(old["text"])
        raise BadFile(
            f"{file.path} was begun with another charter"
            f"{'' if words is None else f': {words}'}; go on with that one, or give another "
            f"--state{file.spent()}"
        )
    if old["data"] != data:
        if old["data"].split(":")[0] == data.split(":")[0]:
            raise BadFile(
                f"{file.path} was begun {_with(old['data'])}, not {_with(data)}: other rows; give "
                f"the same, or another --state{file.spent()}"
            )
        raise BadFile(
            f"the data are not those with which {file.path} was begun, and what the peer learnt "
            "and released is about the old rows. Put them back, or give another --state"
            f"{file.spent()}"
        )
