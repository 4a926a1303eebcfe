"""Rows that are written or looked for together: one statement for many.

A statement lets other threads run and waits for them; one for every row takes longer than the disk.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

Key = tuple[Any, ...]  # sender, phase and round
TOGETHER = 256  # rows of one statement


class Rows:
    """Rows that are written to some tables together, in the order in which they were added."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], list[tuple[Any, ...]]] = {}

    def add(self, verb: str, table: str, row: tuple[Any, ...]) -> None:
        """Have a row inserted."""
        self._rows.setdefault((verb, table), []).append(row)

    def drop(self, table: str, first: Any) -> None:
        """Have no row inserted that begins with this."""
        for (_, name), rows in self._rows.items():
            if name == table:
                rows[:] = [row for row in rows if row[0] != first]

    def write(self, db: sqlite3.Connection) -> None:
        """Insert them all."""
        for (verb, table), rows in self._rows.items():
            for some in _parts(rows):
                one = f"({', '.join('?' * len(some[0]))})"
                values = [value for row in some for value in row]
                db.execute(f"{verb} INTO {table} VALUES {', '.join([one] * len(some))}", values)
        self._rows.clear()


def found(
    db: sqlite3.Connection, table: str, column: str, keys: Sequence[Key]
) -> list[tuple[Any, ...]]:
    """Of letters that are in a table: their keys, and a column."""
    rows = []
    for some in _parts(keys):
        values = [value for key in some for value in key]
        rows += db.execute(
            f"SELECT sender, phase, round, {column} FROM {table} WHERE (sender, phase, round) IN "
            f"(VALUES {', '.join(['(?, ?, ?)'] * len(some))})",
            values,
        ).fetchall()
    return rows


def _parts(rows: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(rows), TOGETHER):
        yield rows[start : start + TOGETHER]
