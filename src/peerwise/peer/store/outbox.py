"""Letters that go: each is on the disk before it is sent, and kept until it is acknowledged."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext

from peerwise.peer.protocol.messages import Away, Place
from peerwise.peer.store.file import File, now
from peerwise.peer.store.tables import ACKNOWLEDGED

DROPPED = "not sent"  # instead of a time: a newer letter took its place
KEEP = 16  # rounds whose letters are kept in full; of older ones size and hash
RECENT = 4  # letters that stay in memory once they were read


class Outbox:
    """The letters to neighbours; bodies that are the same for several are kept once."""

    def __init__(self, file: File):
        self._file = file
        self._recent: dict[str, bytes] = {}  # by hash: letters that were read to be sent again

    def add(self, place: Place, letters: Mapping[str, bytes]) -> None:
        """Keep the letters of a round by receiver, in the transaction that is open."""
        marks: dict[int, str] = {}  # most letters are the same bytes for all
        moment = now()
        with self._file.together():
            for receiver, body in letters.items():
                if id(body) not in marks:
                    marks[id(body)] = mark = hashlib.sha256(body).hexdigest()
                    self._file.db.execute(
                        "INSERT OR IGNORE INTO bodies VALUES (?, ?)", (mark, body)
                    )
                letter = (receiver, *place, marks[id(body)], len(body), moment, None)
                self._file.keep("INSERT OR IGNORE", "outbox", *letter)

    def overtake(self, place: Place) -> None:
        """Give up unacknowledged letters of earlier rounds, in the transaction that is open."""
        self._file.db.execute(
            f"UPDATE outbox {ACKNOWLEDGED} WHERE acknowledged IS NULL AND phase = ? AND round < ?",
            (DROPPED, DROPPED, *place),
        )

    def give_up(self, receiver: str) -> None:
        """Give up what a neighbour has not acknowledged, in the transaction that is open."""
        self._file.db.execute(
            f"UPDATE outbox {ACKNOWLEDGED} WHERE receiver = ? AND acknowledged IS NULL",
            (DROPPED, DROPPED, receiver),
        )

    def drop_bodies(self, place: Place) -> None:
        """Delete acknowledged letters of rounds long before; their size and hash stay."""
        self._file.db.execute(
            "DELETE FROM bodies WHERE hash NOT IN ("  # three searches, of which none is a scan
            "SELECT hash FROM outbox WHERE phase = ? UNION ALL "
            "SELECT hash FROM outbox WHERE phase = ? AND round > ? UNION ALL "
            "SELECT hash FROM outbox WHERE acknowledged IS NULL)",
            # of the phase before, too, for one that is put back there from the begin of this one
            (place.phase - 1 if place.round < KEEP else -1, place.phase, place.round - KEEP),
        )

    def acknowledge(
        self, receivers: str | Sequence[str], place: Place, inside: bool = False
    ) -> None:
        """Neighbours have everything up to a place; `inside` a transaction that is open."""
        names = [receivers] if isinstance(receivers, str) else receivers
        with nullcontext() if inside else self._file.transaction():
            when = now()
            self._file.db.execute(
                f"UPDATE outbox {ACKNOWLEDGED} WHERE receiver IN ({', '.join('?' * len(names))}) "
                "AND acknowledged IS NULL AND (phase < ? OR (phase = ? AND round <= ?))",
                (when, when, *names, place.phase, place.phase, place.round),
            )

    def unsent(self, receiver: str) -> list[Away]:
        """Letters that a neighbour has not acknowledged, oldest first."""
        return self._letters(receiver, "acknowledged IS NULL")

    def kept(self, receiver: str, since: Place) -> list[Away]:
        """The letters to a neighbour from a place on that are kept, whether it had them or not."""
        return self._letters(receiver, "(phase, round) >= (?, ?)", *since)

    def _letters(self, receiver: str, where: str, *values: int) -> list[Away]:
        rows = self._file.rows(
            "SELECT phase, round, hash FROM outbox JOIN bodies USING (hash) WHERE receiver = ? "
            f"AND {where} ORDER BY phase, round",
            receiver,
            *values,
        )
        return [Away(receiver, Place(phase, t), self._shared(*row)) for phase, t, *row in rows]

    def _shared(self, mark: str) -> bytes:
        """The letter with this hash, once in memory for all who are sent it."""
        if mark not in self._recent:
            while len(self._recent) >= RECENT:
                del self._recent[next(iter(self._recent))]
            ((body,),) = self._file.rows("SELECT body FROM bodies WHERE hash = ?", mark)
            self._recent[mark] = bytes(body)
        return self._recent[mark]
