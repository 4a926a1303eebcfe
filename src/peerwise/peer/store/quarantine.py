"""Letters in quarantine: a peer keeps what it refused, so that a person can look at it."""

from contextlib import nullcontext
from typing import NamedTuple

from peerwise.errors import BadSetting
from peerwise.peer.large import HASH, Body, letter_hash, reference_of
from peerwise.peer.protocol.messages import Place
from peerwise.peer.store.file import File, now
from peerwise.peer.store.inbox import Inbox, marks_of
from peerwise.peer.store.neighbours import Neighbours
from peerwise.peer.store.tables import mark_of

ASIDE = 32  # letters of one sender that stay in quarantine; older ones make room


class Aside(NamedTuple):
    """A letter in quarantine."""

    id: int
    sender: str
    place: Place
    reason: str
    bytes: int
    time: str


class Quarantine:
    """The letters that are kept, and not used."""

    def __init__(self, file: File, inbox: Inbox, neighbours: Neighbours):
        self._file, self._inbox, self._neighbours = file, inbox, neighbours

    def put(
        self, sender: str, place: Place, reason: str, body: Body | None, inside: bool = False
    ) -> None:
        """Move a letter to the quarantine, from the inbox where `body` is None.

        `inside`: in the transaction that is open.
        """
        with nullcontext() if inside else self._file.transaction():
            if body is None:
                there = self._inbox.body(sender, place)
                if there is None:
                    return
                kept, mark = there, letter_hash(there)
            else:
                marks = marks_of(body)
                mark, kept = marks.whole, reference_of(body, marks.whole)
                self._inbox.write(kept, body)
                self._inbox.large.settle()
                self._neighbours.note_signed(sender, place, marks.content, marks.seal)
            self._inbox.take_out(sender, place)
            row = (sender, *place, reason[:500], kept, now())
            self._file.db.execute(
                "INSERT OR IGNORE INTO quarantine (sender, phase, round, reason, body, time, mark) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*row, mark_of(*row)),
            )
            self._neighbours.note_head(sender, place, mark)
            self._file.db.execute(
                "DELETE FROM quarantine WHERE sender = ? AND id NOT IN (SELECT id FROM quarantine "
                "WHERE sender = ? ORDER BY id DESC LIMIT ?)",
                (sender, sender, ASIDE),
            )

    def letters(self, sender: str | None = None, place: Place | None = None) -> list[Aside]:
        """Letters in quarantine, oldest first: all, those of a sender, or the one of a place."""
        chosen = {"sender": sender, **({} if place is None else place._asdict())}
        given = {key: value for key, value in chosen.items() if value is not None}
        where = " AND ".join(f"{key} = ?" for key in given) or "1"
        rows = self._file.rows(
            "SELECT id, sender, phase, round, reason, CASE typeof(body) WHEN 'text' THEN "
            f"CAST(substr(body, {HASH + 2}) AS INTEGER) ELSE length(body) END, time "
            f"FROM quarantine WHERE {where} ORDER BY id",
            *given.values(),
        )
        return [Aside(i, who, Place(phase, t), *rest) for i, who, phase, t, *rest in rows]

    def drop(self, number: int) -> Aside:
        """Delete a letter for good; BadSetting where there is none."""
        with self._file.transaction():
            letter = self._one(number)
            self._file.db.execute("DELETE FROM quarantine WHERE id = ?", (number,))
        return letter

    def release(self, number: int) -> Aside:
        """Move a letter back to the inbox; refused where its round is over."""
        with self._file.transaction():
            letter = self._one(number)
            rows = self._file.rows("SELECT phase, round FROM progress")
            if rows and letter.place < Place(*rows[0]):
                raise BadSetting(
                    f"letter {number} is of round {letter.place.round}, which is over; drop it"
                )
            body = self._file.rows("SELECT body FROM quarantine WHERE id = ?", number)[0][0]
            row = (letter.sender, *letter.place, body, now())
            self._file.keep("INSERT OR IGNORE", "inbox", *row)
            self._file.db.execute("DELETE FROM quarantine WHERE id = ?", (number,))
        return letter

    def _one(self, number: int) -> Aside:
        for one in self.letters():
            if one.id == number:
                return one
        raise BadSetting(
            f"there is no letter {number} in quarantine; see `peerwise peer quarantine list`"
        )
