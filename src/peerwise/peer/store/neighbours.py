"""What a peer remembers of its neighbours: their newest letter, what they signed, who is out."""

from collections.abc import Iterable, Mapping
from typing import Any

from peerwise.peer.protocol.messages import NOWHERE, Place
from peerwise.peer.signing import Seal
from peerwise.peer.site import Head
from peerwise.peer.store.file import File, now

PROOFS = 1000  # contradictions that are kept; more prove nothing more
SIGNED = 1000  # rounds of which a peer keeps what every neighbour signed
SELDOM = 32  # rounds between two looks for older ones: all that are kept are looked at


class Neighbours:
    """Facts about neighbours, by their names."""

    def __init__(self, file: File):
        self._file = file
        self._heads: dict[str, Place] | None = None  # what is in the file, where it is known
        self._certified: dict[str, bytes] = {}  # certificates that are in the file
        file.undone.append(self._forget_cached)

    def _forget_cached(self) -> None:
        self._heads, self._certified = None, {}

    def note_head(self, sender: str, place: Place, mark: str) -> None:
        """Note the newest letter of a neighbour: should it go back, it learns so from this."""
        if self._heads is None:
            self._heads = self.heads()
        if place > self._heads.get(sender, NOWHERE):
            self._file.keep("INSERT OR REPLACE", "heads", sender, *place, mark)
            self._heads[sender] = place

    def heads(self) -> dict[str, Place]:
        """By neighbour: the newest of its letters that came."""
        rows = self._file.rows("SELECT sender, phase, round FROM heads")
        return {sender: Place(phase, t) for sender, phase, t in rows}

    def note_signed(self, sender: str, place: Place, content: str, seal: Seal | None) -> None:
        """Note what a neighbour signed for all its neighbours: the hash, by whose certificate."""
        if seal is not None and not seal.personal:
            if self._certified.get(sender) != seal.certificate:
                self._file.keep("INSERT OR REPLACE", "certificates", sender, seal.certificate)
                self._certified[sender] = seal.certificate
            self._file.keep("INSERT OR IGNORE", "told", sender, *place, content, seal.signature)

    def signed(self, since: Place = NOWHERE) -> list[tuple[str, Place, str, bytes]]:
        """What neighbours signed after a place: sender, place, hash and signature."""
        rows = self._file.rows(
            "SELECT sender, phase, round, hash, signature FROM told "
            "WHERE (phase, round) > (?, ?) ORDER BY phase, round, sender",
            *since,
        )
        return [(sender, Place(phase, t), mark, bytes(by)) for sender, phase, t, mark, by in rows]

    def forget_signed(self, place: Place) -> None:
        """Delete what was signed long before a place; looked for once in `SELDOM` rounds."""
        if place.round % SELDOM == 0:
            self._file.db.execute(
                "DELETE FROM told WHERE phase < ? OR (phase = ? AND round < ?)",
                (place.phase - 1, place.phase, place.round - SIGNED),
            )

    def certificates(self) -> dict[str, bytes]:
        """By neighbour: the certificate that came with its last letter."""
        rows = self._file.rows("SELECT name, certificate FROM certificates")
        return {name: bytes(der) for name, der in rows}

    def put_proofs(self, proofs: Iterable[Any]) -> list[Any]:
        """Keep proofs that a node told neighbours different things; those that are new."""
        with self._file.transaction():
            known = {(sender, place, theirs) for sender, place, _, theirs, *_ in self.proofs()}
            fresh = [p for p in proofs if (p.sender, p.place, p.theirs) not in known][:PROOFS]
            for proof in fresh if len(known) < PROOFS else ():
                row = (proof.sender, *proof.place, *proof[2:])
                self._file.keep("INSERT OR IGNORE", "proofs", *row)
        return fresh if len(known) < PROOFS else []

    def proofs(self) -> list[tuple[Any, ...]]:
        """Sender, place, hash and signature of both letters, and who was told the other."""
        rows = self._file.rows(
            "SELECT sender, phase, round, ours, theirs, signature, other, witness "
            "FROM proofs ORDER BY sender, phase, round"
        )
        return [(who, Place(phase, t), *rest) for who, phase, t, *rest in rows]

    def note_ledgers(self, news: Mapping[str, tuple[Place, Head]]) -> None:
        """Keep what neighbours told of their privacy ledgers."""
        with self._file.transaction():
            for sender, (place, head) in news.items():
                self._file.keep("INSERT OR REPLACE", "ledgers", sender, *place, *head)

    def ledgers(self) -> dict[str, tuple[Place, Head]]:
        """By neighbour: what it told of its ledger, and in which letter."""
        rows = self._file.rows("SELECT sender, phase, round, length, hash FROM ledgers")
        return {name: (Place(phase, t), Head(n, mark)) for name, phase, t, n, mark in rows}

    def note_life(self, name: str, life: int) -> None:
        """Note the newest life of a neighbour."""
        with self._file.transaction():
            self._file.keep("INSERT OR REPLACE", "lives", name, life)

    def lives(self) -> dict[str, int]:
        """By neighbour: the newest of its lives."""
        return dict(self._file.rows("SELECT name, life FROM lives"))

    def note_bye(self, name: str, bye: str) -> None:
        """Note that a neighbour has ejected us, is done, or (an empty bye) is back."""
        with self._file.transaction():
            self._file.keep("INSERT OR REPLACE", "byes", name, bye)

    def byes(self) -> dict[str, str]:
        """By neighbour: its bye."""
        return dict(self._file.rows("SELECT name, bye FROM byes"))

    def note_ejected(self, name: str, why: str) -> None:
        """Note that a neighbour is ejected, in the transaction that is open."""
        self._file.keep("INSERT OR REPLACE", "ejected", name, why, now())

    def readmit(self, name: str) -> None:
        """Take back an ejection."""
        with self._file.transaction():
            self._file.db.execute("DELETE FROM ejected WHERE name = ?", (name,))

    def ejected(self) -> dict[str, str]:
        """By neighbour that is ejected: why."""
        return dict(self._file.rows("SELECT name, why FROM ejected"))
