"""The SQLite file of one peer: its transactions, and rows that each have a hash of their own."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any

from peerwise.errors import BadFile
from peerwise.peer.store.rows import Rows
from peerwise.peer.store.tables import HASHED, mark_of, sha256
from peerwise.privacy import Ledger, ledger_file

FILE, LOCK = "peer.db", "peer.lock"


def now() -> str:
    """The time, to write down."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class File:
    """A connection to the file, which several threads may use.

    `committed` are called after every transaction, `undone` after one that failed.
    """

    def __init__(self, db: sqlite3.Connection, path: Path, ledger: Ledger | None):
        self.db, self.path, self.ledger, self.lock = db, path, ledger, RLock()
        db.create_function("mark", -1, mark_of, deterministic=True)
        db.create_function("sha256", 1, sha256, deterministic=True)
        self.committed: list[Callable[[], None]] = []
        self.undone: list[Callable[[], None]] = []
        self._together: Rows | None = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What happens inside is on the disk when it ends, or not at all."""
        try:
            with self.lock, ledger_file.alone(self.db, self.path, "state"):
                yield
        except BaseException:
            for undo in self.undone:
                undo()
            raise
        for follow in self.committed:
            follow()

    @contextmanager
    def together(self) -> Iterator[Rows]:
        """Rows kept inside are written when it ends, many with one statement."""
        self._together = rows = Rows()
        try:
            yield rows
            rows.write(self.db)
        finally:
            self._together = None

    def keep(self, verb: str, table: str, *values: Any) -> None:
        """Insert a row and its hash, in the transaction that is open."""
        rows = self._together or Rows()
        rows.add(verb, table, (*values, mark_of(*values)))
        if rows is not self._together:
            rows.write(self.db)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows that a query finds."""
        with self.lock:
            try:
                return self.db.execute(query, values).fetchall()
            except ledger_file.BROKEN as error:
                raise BadFile(f"cannot read the state {self.path}: {error}") from None

    def version(self) -> int:
        """A number that changes whenever another process has written to the file."""
        return int(self.rows("PRAGMA data_version")[0][0])

    def without_hashes(self) -> bool:
        """Whether an early version of Peerwise, which wrote no hashes, made the file."""
        columns = [row[1] for row in self.db.execute("PRAGMA table_info(progress)")]
        return bool(columns) and "mark" not in columns

    def check(self, tables: Iterable[str], bodies: bool = False) -> None:
        """Refuse the file if a row of these tables is not as it was written."""
        wrong = [(table, f"mark IS NOT mark({HASHED[table]})") for table in tables]
        wrong += [("bodies", "hash IS NOT sha256(body)")] if bodies else []
        for table, differs in wrong:
            if self.rows(f"SELECT 1 FROM {table} WHERE {differs} LIMIT 1"):
                raise BadFile(
                    f"the state {self.path} is damaged: its table '{table}' is not as it was "
                    f"written; put back a copy of the file, or give another --state{self.spent()}"
                )

    def spent(self) -> str:
        """A warning that a new state does not give a new privacy budget; empty without a ledger."""
        if self.ledger is None:
            return ""
        return " (what was spent here still counts: the same rows would be released again)"
