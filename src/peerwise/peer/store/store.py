"""The file of one peer as a whole: how far it has come, with its letters and its neighbours."""

import hashlib
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from peerwise.errors import BadFile
from peerwise.peer.protocol.messages import Place
from peerwise.peer.site import SiteBook, about_run
from peerwise.peer.store import opening
from peerwise.peer.store.file import FILE, File, now
from peerwise.peer.store.inbox import Inbox
from peerwise.peer.store.neighbours import Neighbours
from peerwise.peer.store.outbox import Outbox
from peerwise.peer.store.quarantine import Quarantine
from peerwise.peer.store.tables import HASHED, SMALL, STATE, TABLES
from peerwise.privacy import Ledger, ledger_file
from peerwise.privacy.rows import Part
from peerwise.privacy.sealing import Reused, fresh_secret, public_key


def _term(secret: str, *term: Any) -> str:
    """A term of a sealed sum, for the ledger of the site: under which key, of which sum, its hash.

    Without a term: how those under a key begin.
    """
    key = hashlib.sha256(public_key(bytes.fromhex(secret))).hexdigest()[:16]
    return " ".join(["term under", key, *map(str, term)])


class Store(File):
    """The file of one peer; make one with `Store.open`."""

    def __init__(self, db: sqlite3.Connection, path: Path, ledger: Ledger | None):
        super().__init__(db, path, ledger)
        self.site: SiteBook | None = None
        self.lost = 0  # charges that only the site's ledger knew of
        self.behind = -1  # the last phase of which a term of a sealed sum left that is not here
        self.committed.append(self._settle_site)
        self.undone.append(self._forget_notes)
        self.neighbours = Neighbours(self)
        self.inbox = Inbox(self, self.neighbours)
        self.quarantine = Quarantine(self, self.inbox, self.neighbours)
        self.outbox = Outbox(self)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        node: str,
        charter: str,
        charter_text: str,
        data: str,
        budget: Mapping[str, Any] | None = None,
        schema: str | None = None,
        site: Ledger | None = None,
        parts: Sequence[Part] = (),
        differs: Callable[[str], str | None] = lambda text: None,
        hold: Callable[[SiteBook], Any] = lambda book: None,
    ) -> Self:
        """The file in `folder`, made where there is none; refused where it is somebody else's.

        `charter` and `data` are hashes of what the peer runs with; `budget` (epsilon, delta,
        accountant) makes the file a privacy ledger too, and `site` is the ledger of the whole site,
        which is charged before it, for `parts` of the rows. `differs` says in words where the
        charter that a file was begun under differs. `hold` keeps copies of the state away from the
        ledger of the site, before anything is written there.
        """
        path = Path(folder) / FILE
        db = opening.connect(path, node, budget, schema)
        try:
            ledger = opening.verified(db, path, private=budget is not None)
            store = cls(db, path, ledger)
            if store.without_hashes():
                raise BadFile(
                    f"{path} was begun by an earlier version of Peerwise, which computes other "
                    f"numbers; finish with that one, or give another --state{store.spent()}"
                )
            with store.transaction():
                for statement in TABLES.split(";"):
                    db.execute(statement)
                if not store.about():
                    # neighbours are told a hash over what the ledger says of the rows: without
                    # something that nobody else knows in it, they could try which rows fit
                    store.set(node=node, charter=charter, data=data, text=charter_text, made=now(),
                             state=STATE, apart=secrets.token_hex(32))  # fmt: skip
            store.check(HASHED, bodies=True)
            store.inbox.letters()  # whether files of large letters are whole
            store.inbox.removes_files = True
            opening.require_same(store, store.about(), node, charter, data, differs)
            if ledger is not None and site is not None:
                told = store.about()  # a state of version 0.13 has nothing that nobody knows
                made = " ".join(told[key] for key in ("made", "apart") if key in told)
                about, draw = about_run(charter, data), told.get("draw", "")
                store.site = SiteBook(site, about, node, parts, made, draw)
                hold(store.site)
                store.site.check(store.about().get("ledger"))
                store.lost = store.site.mend(ledger)
                masks = store.rows("SELECT phase, round, hash FROM masks")
                if key := store.about().get("mask_secret"):
                    lacking = store.site.lacking({_term(key, *m) for m in masks}, _term(key))
                    store.behind = max((int(term.split()[3]) for term in lacking), default=-1)
                ledger.above = store.site
        except ledger_file.BROKEN as error:
            db.close()
            raise BadFile(f"{path} is not a peer's state or is damaged: {error}") from None
        except BaseException:
            db.close()
            raise
        return store

    @classmethod
    def look(cls, folder: str | Path, write: bool = False) -> Self:
        """The file in `folder`, to read only, or to `write` to while its peer runs."""
        path = Path(folder) / FILE
        try:
            db = opening.connect_beside(path, write)
            store = cls(db, path, opening.ledger_beside(db, path, write))
            if not store.without_hashes():
                store.check(SMALL)
        except ledger_file.BROKEN as error:
            raise BadFile(f"{path} is not a peer's state or is damaged: {error}") from None
        return store

    def draws(self) -> None:
        """Note that this state draws noise, and no copy of it, in the transaction that is open."""
        draw = secrets.token_hex(16)
        self.set(draw=draw)
        if self.site is not None:
            self.site.draw = draw

    def _settle_site(self) -> None:
        """What was charged may leave: have the site's ledger say so."""
        if self.site is not None:
            self.site.settle()

    def _forget_notes(self) -> None:
        """Nothing of a transaction that failed goes into the site's ledger."""
        if self.site is not None:
            self.site.terms.clear()

    def about(self) -> dict[str, str]:
        """Whose file this is."""
        return {str(key): value for key, value in self.rows("SELECT key, value FROM peer")}

    def set(self, **facts: str) -> None:
        """Write down something about this peer, in the transaction that is open."""
        for key, value in facts.items():
            self.keep("INSERT OR REPLACE", "peer", key, value)

    def amend(self, text: str) -> None:
        """Go on with another edition of the same charter."""
        with self.transaction():
            self.set(text=text)

    def live(self) -> tuple[int, dict[str, int]]:
        """The number of a new life of this peer, and the newest of each neighbour.

        It is greater than that of any life before, on any copy of the file, as the clock goes on.
        """
        with self.transaction():
            life = max(int(self.about().get("life", 0)) + 1, int(1000 * time.time()))
            self.set(life=str(life))
        return life, self.neighbours.lives()

    def progress(self) -> tuple[Place, bytes] | None:
        """How far the peer has come and its state then; None before it began."""
        if not self.without_hashes():
            self.check(["progress"])
        rows = self.rows("SELECT phase, round, state FROM progress")
        return (Place(rows[0][0], rows[0][1]), bytes(rows[0][2])) if rows else None

    def advance(
        self,
        place: Place,
        state: bytes,
        letters: Mapping[str, bytes],
        done: tuple[Place, Iterable[str], Iterable[str], float, float | None] | None = None,
        keep: int = 1,
        newest: bool = False,
    ) -> None:
        """Go to `place`: state, the letters of its round, and what the round before was like.

        To be called in a transaction, with the charges of what the letters tell. `done`: place,
        who was heard, who was missed, seconds, error. `keep` rounds of the inbox stay.
        `newest`: letters of earlier rounds that nobody took are not sent any more.
        """
        self.keep("INSERT OR REPLACE", "progress", 1, *place, state, now())
        if newest:
            self.outbox.overtake(place)
        self.outbox.add(place, letters)
        if done is not None:
            was, heard, missed, seconds, error = done
            row = (*was, " ".join(heard), " ".join(missed), seconds, error, now())
            self.keep("INSERT OR REPLACE", "rounds", *row)
        self.inbox.use_up(place, keep)
        self.neighbours.forget_signed(place)
        self.outbox.drop_bodies(place)

    def eject(self, name: str, why: str) -> None:
        """Note that a neighbour is not listened to, nor told anything, until it is readmitted."""
        with self.transaction():
            self.neighbours.note_ejected(name, why)
            self.inbox.forget(name)
            self.outbox.give_up(name)

    def mask_secret(self) -> bytes | None:
        """The secret of this peer's masks, drawn when first asked for; None once forgotten."""
        with self.transaction():
            known = self.about().get("mask_secret")
            if known is None:
                known = fresh_secret().hex()
                self.set(mask_secret=known)
        return bytes.fromhex(known) or None

    def forget_mask_secret(self) -> None:
        """Forget it, in the transaction that is open: who gets the file later reads no term."""
        self.db.execute("PRAGMA secure_delete = ON")
        self.set(mask_secret="")

    def use_mask(self, phase: int, at: int, mark: str) -> None:
        """Note that the mask of a sum hides a term, by its hash; refused if it hid another.

        In the transaction that is open: before the term can leave.
        """
        known = self.rows("SELECT hash FROM masks WHERE phase = ? AND round = ?", phase, at)
        if known and known[0][0] != mark:
            raise Reused(at)
        if known:
            return
        self.keep("INSERT", "masks", phase, at, mark)
        if self.site is not None:
            secret = self.about()["mask_secret"]
            term = _term(secret, phase, at, mark)
            if self.site.instead_of(term):
                raise Reused(at)  # by a copy of this state, which runs beside it
            self.site.terms.append(term)

    def close(self) -> None:
        """Let the file go."""
        self.inbox.large.close()
        with self.lock:
            self.db.close()
