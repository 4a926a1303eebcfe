"""The tables of a peer's file, and the hash that every row has of its own."""

import hashlib
from typing import Any

STATE = "6"  # of the tables below: a file of another version is refused
TABLES = """
CREATE TABLE IF NOT EXISTS peer (key TEXT PRIMARY KEY, value TEXT NOT NULL, mark TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS progress (
    id INTEGER PRIMARY KEY CHECK (id = 1), phase INTEGER NOT NULL, round INTEGER NOT NULL,
    state BLOB NOT NULL, time TEXT NOT NULL, mark TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS inbox (
    sender TEXT NOT NULL, phase INTEGER NOT NULL, round INTEGER NOT NULL, body BLOB NOT NULL,
    time TEXT NOT NULL, mark TEXT NOT NULL, PRIMARY KEY (sender, phase, round)
);
CREATE TABLE IF NOT EXISTS bodies (hash TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (
    receiver TEXT NOT NULL, phase INTEGER NOT NULL, round INTEGER NOT NULL, hash TEXT NOT NULL,
    bytes INTEGER NOT NULL, made TEXT NOT NULL, acknowledged TEXT, mark TEXT NOT NULL,
    PRIMARY KEY (receiver, phase, round)
);
CREATE INDEX IF NOT EXISTS outbox_place ON outbox (phase, round);
CREATE INDEX IF NOT EXISTS outbox_away ON outbox (receiver, phase, round)
    WHERE acknowledged IS NULL;
CREATE TABLE IF NOT EXISTS rounds (
    phase INTEGER NOT NULL, round INTEGER NOT NULL, heard TEXT NOT NULL, missed TEXT NOT NULL,
    seconds REAL NOT NULL, error REAL, time TEXT NOT NULL, mark TEXT NOT NULL,
    PRIMARY KEY (phase, round)
);
CREATE TABLE IF NOT EXISTS quarantine (
    id INTEGER PRIMARY KEY AUTOINCREMENT, sender TEXT NOT NULL, phase INTEGER NOT NULL,
    round INTEGER NOT NULL, reason TEXT NOT NULL, body BLOB NOT NULL, time TEXT NOT NULL,
    mark TEXT NOT NULL, UNIQUE (sender, phase, round)
);
CREATE TABLE IF NOT EXISTS heads (
    sender TEXT PRIMARY KEY, phase INTEGER NOT NULL, round INTEGER NOT NULL, hash TEXT NOT NULL,
    mark TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS ledgers (
    sender TEXT PRIMARY KEY, phase INTEGER NOT NULL, round INTEGER NOT NULL,
    length INTEGER NOT NULL, hash TEXT NOT NULL, mark TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS told (
    sender TEXT NOT NULL, phase INTEGER NOT NULL, round INTEGER NOT NULL, hash TEXT NOT NULL,
    signature BLOB NOT NULL, mark TEXT NOT NULL, PRIMARY KEY (sender, phase, round)
);
CREATE TABLE IF NOT EXISTS certificates (
    name TEXT PRIMARY KEY, certificate BLOB NOT NULL, mark TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS proofs (
    sender TEXT NOT NULL, phase INTEGER NOT NULL, round INTEGER NOT NULL, ours TEXT NOT NULL,
    theirs TEXT NOT NULL, signature BLOB NOT NULL, other BLOB NOT NULL, witness TEXT NOT NULL,
    mark TEXT NOT NULL, PRIMARY KEY (sender, phase, round, theirs)
);
CREATE TABLE IF NOT EXISTS lives (
    name TEXT PRIMARY KEY, life INTEGER NOT NULL, mark TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS byes (
    name TEXT PRIMARY KEY, bye TEXT NOT NULL, mark TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS masks (
    phase INTEGER NOT NULL, round INTEGER NOT NULL, hash TEXT NOT NULL, mark TEXT NOT NULL,
    PRIMARY KEY (phase, round)
);
CREATE TABLE IF NOT EXISTS ejected (
    name TEXT PRIMARY KEY, why TEXT NOT NULL, time TEXT NOT NULL, mark TEXT NOT NULL
);
"""
SHORT = 1 << 16  # bytes of a value that are copied rather than hashed by themselves
# what the hash of a row is of; `bodies` are kept by their own
HASHED = {
    "peer": "key, value",
    "outbox": "receiver, phase, round, hash, bytes, made, acknowledged",
    "rounds": "phase, round, heard, missed, seconds, error, time",
    "progress": "id, phase, round, state, time",
    "inbox": "sender, phase, round, body, time",
    "quarantine": "sender, phase, round, reason, body, time",
    "heads": "sender, phase, round, hash",
    "ledgers": "sender, phase, round, length, hash",
    "told": "sender, phase, round, hash, signature",
    "certificates": "name, certificate",
    "proofs": "sender, phase, round, ours, theirs, signature, other, witness",
    "lives": "name, life",
    "byes": "name, bye",
    "masks": "phase, round, hash",
    "ejected": "name, why, time",
}
ACKNOWLEDGED = "SET acknowledged = ?, mark = mark(receiver, phase, round, hash, bytes, made, ?)"
SMALL = (
    "peer",
    "outbox",
    "rounds",
    "heads",
    "lives",
    "ejected",
)  # without states and letters, which may be large


def mark_of(*values: Any) -> str:
    """The hash of a row; SQLite may give back a whole number as a real one."""
    mark = hashlib.sha256()
    parts: list[bytes] = []
    for value in values:
        value = float(value) if isinstance(value, int) else value
        part = value if isinstance(value, bytes) else repr(value).encode()
        parts += f"{type(value).__name__} {len(part)} ".encode(), part
        if len(part) > SHORT:  # others are hashed together
            mark.update(b"".join(parts[:-1]))
            mark.update(part)
            parts = []
    mark.update(b"".join(parts))
    return mark.hexdigest()


def sha256(body: Any) -> str:
    """The hash of a letter; SQLite may ask for that of anything."""
    return hashlib.sha256(body).hexdigest() if isinstance(body, bytes) else ""
