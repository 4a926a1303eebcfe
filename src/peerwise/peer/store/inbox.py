"""Letters that came and are not used up: each is on the disk before it is acknowledged."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from peerwise.peer.large import Body, Filed, Large, reference_of, view_of
from peerwise.peer.protocol.messages import BadLetter, Came, Place
from peerwise.peer.signing import Seal, viewed
from peerwise.peer.store.file import File, now
from peerwise.peer.store.neighbours import Neighbours
from peerwise.peer.store.rows import Key, Rows, found


class Marks(NamedTuple):
    """What a letter is known by: its hash, that of what is signed, and its seal if it has one."""

    whole: str
    content: str
    seal: Seal | None


def marks_of(letter: Body, signed: Any = None) -> Marks:
    """The marks of a letter; `signed` is the running hash of its signed part, if known."""
    body = view_of(letter)
    try:
        content, seal = viewed(body)
    except BadLetter:
        content, seal = memoryview(body), None
    mark = hashlib.sha256(content) if signed is None else signed
    hashed = mark.hexdigest()
    mark.update(memoryview(body)[len(content) :])  # large letters take long: one pass for both
    return Marks(mark.hexdigest(), hashed, seal)


class Inbox:
    """The letters that came; large ones are files in `large`."""

    def __init__(self, file: File, neighbours: Neighbours):
        self._file, self._neighbours = file, neighbours
        self.large = Large(file.path.parent)
        self.removes_files = False  # only the peer itself does, not a process that looks
        self._unused = True  # whether the files of some large letters may be used up
        file.committed.append(self._remove_unused)

    def put(self, sender: str, place: Place, body: Body, newest: bool = False) -> bool:
        """Keep a letter; True if its place holds other bytes already, or is in quarantine.

        `newest`: it replaces the sender's earlier letters, so that a sender fills no disk; one
        that a newer letter has overtaken is not kept.
        """
        return self.put_all([Came(sender, place, body, newest)])[0]

    def put_all(self, letters: Sequence[Came], hashes: Sequence[Any] = ()) -> list[bool]:
        """Keep letters that came at about the same time in one transaction; see `put`.

        `hashes` are of the signed part of each, None where it is not known.
        """
        with self._file.transaction():
            known = hashes or [None] * len(letters)
            keys = [(one.sender, *one.place) for one in letters]
            old = {tuple(key): body for *key, body in found(self._file.db, "inbox", "body", keys)}
            aside = {tuple(key) for *key, _ in found(self._file.db, "quarantine", "id", keys)}
            with self._file.together() as rows:
                differs = [
                    self._put(*letter, mark, old, aside, rows)
                    for letter, mark in zip(letters, known, strict=True)
                ]
            self.large.settle()
            return differs

    def _put(
        self, sender: str, place: Place, body: Body, newest: bool, mark: Any,
        old: dict[Key, bytes | str], aside: set[Key], rows: Rows,
    ) -> bool:  # fmt: skip
        """Keep one of the letters; `old` and `aside`: the file's rows of their places."""
        marks, key = marks_of(body, mark), (sender, *place)
        kept = reference_of(body, marks.whole)
        if key in old:  # a renewed certificate changes the seal, and nothing else
            same = old[key] == kept or marks_of(self.large.read(old[key])).content == marks.content
            return not same
        if key in aside:
            return True
        if newest:
            if self._is_overtaken(sender, place, old):
                self._neighbours.note_signed(sender, place, marks.content, marks.seal)
                return False
            self.forget(sender)
            rows.drop("inbox", sender)
        self.write(kept, body)
        self._file.keep("INSERT", "inbox", *key, kept, now())
        self._neighbours.note_head(sender, place, marks.whole)
        self._neighbours.note_signed(sender, place, marks.content, marks.seal)
        old[key] = kept
        return False

    def _is_overtaken(self, sender: str, place: Place, put: Iterable[Key]) -> bool:
        """Whether a newer letter of the sender came before; `put`: those of this transaction."""
        later = "SELECT 1 FROM inbox WHERE sender = ? AND (phase, round) > (?, ?)"
        return any(key[0] == sender and key[1:] > place for key in put) or bool(
            self._file.rows(later, sender, *place)
        )

    def write(self, kept: bytes | str, body: Body) -> None:
        """Write a large letter to its file; `kept` is what its row holds."""
        if isinstance(kept, str):
            self.large.write(kept, body)

    def letters(self) -> dict[tuple[str, Place], bytes]:
        """All letters that came and are not used up, by sender and place."""
        rows = self._file.rows("SELECT sender, phase, round, body FROM inbox")
        return {(s, Place(phase, t)): self.large.read(body) for s, phase, t, body in rows}

    def body(self, sender: str, place: Place) -> bytes | str | None:
        """What the row of a letter holds: its bytes or, if large, a reference; None if absent."""
        where = "sender = ? AND phase = ? AND round = ?"
        rows = self._file.rows(f"SELECT body FROM inbox WHERE {where}", sender, *place)
        return rows[0][0] if rows else None

    def filed(self, sender: str, place: Place) -> Filed | None:
        """The file of a large letter that came; None where it is small, or used up."""
        body = self.body(sender, place)
        return None if body is None else self.large.filed(body)

    def forget(self, sender: str) -> None:
        """Delete all letters of a sender, in the transaction that is open."""
        self._file.db.execute("DELETE FROM inbox WHERE sender = ?", (sender,))
        self._unused = True

    def take_out(self, sender: str, place: Place) -> None:
        """Delete one letter, in the transaction that is open."""
        where = "sender = ? AND phase = ? AND round = ?"
        self._file.db.execute(f"DELETE FROM inbox WHERE {where}", (sender, *place))
        self._unused = True

    def use_up(self, place: Place, keep: int) -> None:
        """Delete letters of rounds before `place`, but for the last `keep` rounds."""
        self._file.db.execute(
            "DELETE FROM inbox WHERE phase < ? OR (phase = ? AND round < ?)",
            (place.phase, place.phase, place.round + 1 - keep),
        )
        self._unused = True

    def _remove_unused(self) -> None:
        """Remove files of large letters that are used up; only once no row has them any more."""
        if not self.removes_files or not self._unused:
            return
        with self._file.lock:
            rows = self._file.rows(
                "SELECT body FROM inbox WHERE typeof(body) = 'text' UNION ALL "
                "SELECT body FROM quarantine WHERE typeof(body) = 'text'"
            )
            self.large.sweep([body for (body,) in rows])
            self._unused = False
