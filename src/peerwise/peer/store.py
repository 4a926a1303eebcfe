"""All that a peer must not lose, in one SQLite file: state, round, letters, budget.

Every round is one transaction. A letter is on the disk before it is sent, and one that came is on
the disk before it is acknowledged; after a crash the same bytes are sent again.
Every row has a hash of its own, so that damage is seen before anything is learnt or sent from it.
"""

import hashlib
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, Self

from peerwise.errors import BadFile, BadSetting
from peerwise.peer.large import HASH, Body, Filed, Large, letter_hash, reference_of, view_of
from peerwise.peer.protocol.messages import NOWHERE, Away, BadLetter, Came, Place
from peerwise.peer.rows import Key, Rows, found
from peerwise.peer.signing import Seal, viewed
from peerwise.peer.site import Head, SiteBook
from peerwise.peer.tables import ACKNOWLEDGED, HASHED, SMALL, STATE, TABLES, mark_of, sha256
from peerwise.privacy import Ledger, ledger_file
from peerwise.privacy.ledger import about_ledger
from peerwise.privacy.rows import Part
from peerwise.privacy.sealing import Reused, fresh_secret, public_key

FILE, LOCK = "peer.db", "peer.lock"
DROPPED = "not sent"  # instead of a time: a newer letter took its place
PROOFS = 1000  # contradictions that are kept; more prove nothing more
TOLD = 1000  # rounds of which a peer keeps what every neighbour signed
SELDOM = 32  # rounds between two looks for older ones: all that are kept are looked at
KEEP = 16  # rounds whose letters are kept in full; of older ones size and hash
RECENT = 4  # letters that are at hand once they were read
ASIDE = 32  # letters of one sender that stay in quarantine; older ones make room


class Aside(NamedTuple):
    """A letter in quarantine."""

    id: int
    sender: str
    place: Place
    reason: str
    bytes: int
    time: str


def now() -> str:
    """The time, to write down."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Marks(NamedTuple):
    """What a letter is known by: its hash, that of what is signed, and its seal if it has one."""

    whole: str
    content: str
    seal: Seal | None


def _marks(letter: Body, mark: Any = None) -> Marks:
    """The marks of a letter; `mark` is the hash of what is signed, where it is known."""
    body = view_of(letter)
    try:
        content, seal = viewed(body)
    except BadLetter:
        content, seal = memoryview(body), None
    mark = hashlib.sha256(content) if mark is None else mark
    signed = mark.hexdigest()
    mark.update(memoryview(body)[len(content) :])  # large letters take long: one pass for both
    return Marks(mark.hexdigest(), signed, seal)


def _term(secret: str, *term: Any) -> str:
    """A term of a sealed sum, for the ledger of the site: under which key, of which sum, its hash.

    Without a term: how those under a key begin.
    """
    key = hashlib.sha256(public_key(bytes.fromhex(secret))).hexdigest()[:16]
    return " ".join(["term under", key, *map(str, term)])


class Store:
    """The file of one peer; make one with `Store.open`."""

    def __init__(self, db: sqlite3.Connection, path: Path, ledger: Ledger | None):
        self._db, self.path, self.ledger, self._lock = db, path, ledger, RLock()
        db.create_function("mark", -1, mark_of, deterministic=True)
        db.create_function("sha256", 1, sha256, deterministic=True)
        self.site: SiteBook | None = None
        self.lost = 0  # charges that only the site's ledger knew of
        self.behind = -1  # the last phase of which a term of a sealed sum left that is not here
        self.large = Large(path.parent)
        self._owner = False  # of the files of large letters: who only looks removes none
        self._recent: dict[str, bytes] = {}  # by hash: letters that were read to be sent again
        self._heads: dict[str, Place] | None = None  # what is in the file, where it is known
        self._rows: Rows | None = None  # that are written together
        self._certified: dict[str, bytes] = {}  # certificates that are in the file
        self._stale = True  # whether some of them may not be needed any more

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
    ) -> Self:
        """The file in `folder`, made where there is none; refused where it is somebody else's.

        `charter` and `data` are hashes of what the peer runs with; `budget` (epsilon, delta,
        accountant) makes the file a privacy ledger too, and `site` is the ledger of the whole site,
        which is charged before it, for `parts` of the rows. `differs` says in words where the
        charter that a file was begun under differs.
        """
        path = Path(folder) / FILE
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
        try:
            ledger = None
            if budget is not None:
                about = ledger_file.verify(db, path)
                ledger = Ledger(db, path, about)
            elif (health := ledger_file.health_of(db)) != "ok":
                raise BadFile(f"the state {path} is damaged: {health}")
            store = cls(db, path, ledger)
            if store._earlier():
                raise BadFile(
                    f"{path} was begun by an earlier version of Peerwise, which computes other "
                    f"numbers; finish with that one, or give another --state{store._counts()}"
                )
            with store.transaction():
                for statement in TABLES.split(";"):
                    db.execute(statement)
                if not store.about():
                    store.set(node=node, charter=charter, data=data, text=charter_text, made=now(),
                             state=STATE)  # fmt: skip
            store._check(HASHED, bodies=True)
            store.inbox()  # whether files of large letters are whole
            store._owner = True
            store._mine({"node": node, "charter": charter, "data": data}, differs)
            if ledger is not None and site is not None:
                store.site = SiteBook(site, f"{charter}:{data}", node, parts)
                store.site.check(store.about().get("ledger"))
                store.lost = store.site.mend(ledger)
                masks = store._read("SELECT phase, round, hash FROM masks")
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
        if not path.exists():
            raise BadFile(f"there is no peer's state in {folder}: {FILE} is missing")
        try:
            where = f"{path.resolve().as_uri()}?mode={'rw' if write else 'ro'}"
            db = sqlite3.connect(
                where, uri=True, timeout=10, isolation_level=None, check_same_thread=False
            )
            names = {n for (n,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
            if not {"peer", "outbox", "progress"} <= names:
                raise BadFile(f"{path} is not a peer's state")
            if write and "quarantine" not in names:
                raise BadFile(f"{path} is of an older version of Peerwise, and is only to be read")
            ledger = Ledger(db, path, ledger_file.verify(db, path)) if "releases" in names else None
            store = cls(db, path, ledger)
            if not store._earlier():
                store._check(SMALL)
        except ledger_file.BROKEN as error:
            raise BadFile(f"{path} is not a peer's state or is damaged: {error}") from None
        return store

    def _earlier(self) -> bool:
        """Whether the file is of a version that wrote no hashes."""
        columns = [row[1] for row in self._db.execute("PRAGMA table_info(progress)")]
        return bool(columns) and "mark" not in columns

    def _check(self, tables: Iterable[str], bodies: bool = False) -> None:
        """Refuse the file if a row is not as it was written."""
        wrong = [(table, f"mark IS NOT mark({HASHED[table]})") for table in tables]
        wrong += [("bodies", "hash IS NOT sha256(body)")] if bodies else []
        for table, differs in wrong:
            if self._read(f"SELECT 1 FROM {table} WHERE {differs} LIMIT 1"):
                raise BadFile(
                    f"the state {self.path} is damaged: its table '{table}' is not as it was "
                    f"written; put back a copy of the file, or give another --state"
                    f"{self._counts()}"
                )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What happens inside is on the disk when it ends, or not at all."""
        try:
            with self._lock, ledger_file.alone(self._db, self.path, "state"):
                yield
        except BaseException:
            self._certified.clear()
            self._heads = self._rows = None
            if self.site is not None:
                self.site.terms.clear()
            raise
        if self.site is not None:  # from here on it may leave
            self.site.settle()
        self._sweep()

    def _sweep(self) -> None:
        """Remove files of large letters that are used up; only once no row has them any more."""
        if not self._owner or not self._stale:
            return
        with self._lock:
            rows = self._read(
                "SELECT body FROM inbox WHERE typeof(body) = 'text' UNION ALL "
                "SELECT body FROM quarantine WHERE typeof(body) = 'text'"
            )
            self.large.sweep([body for (body,) in rows])
            self._stale = False

    def _keep(self, verb: str, table: str, *values: Any) -> None:
        """Insert a row and its hash, or have it written with others."""
        rows = self._rows or Rows()
        rows.add(verb, table, (*values, mark_of(*values)))
        if self._rows is None:
            rows.write(self._db)

    def _read(self, query: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._db.execute(query, tuple(values)).fetchall()
            except ledger_file.BROKEN as error:
                raise BadFile(f"cannot read the state {self.path}: {error}") from None

    def about(self) -> dict[str, str]:
        """Whose file this is."""
        return {str(key): value for key, value in self._read("SELECT key, value FROM peer")}

    def progress(self) -> tuple[Place, bytes] | None:
        """How far the peer has come and its state then; None before it began."""
        if not self._earlier():
            self._check(["progress"])
        rows = self._read("SELECT phase, round, state FROM progress")
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
        self._keep("INSERT OR REPLACE", "progress", 1, *place, state, now())
        marks: dict[int, str] = {}  # most letters are the same bytes for all
        if newest:
            self._db.execute(
                f"UPDATE outbox {ACKNOWLEDGED} WHERE acknowledged IS NULL AND phase = ? AND "
                "round < ?",
                (DROPPED, DROPPED, *place),
            )
        self._rows, moment = Rows(), now()
        for receiver, body in letters.items():
            if id(body) not in marks:
                marks[id(body)] = mark = hashlib.sha256(body).hexdigest()
                self._db.execute("INSERT OR IGNORE INTO bodies VALUES (?, ?)", (mark, body))
            letter = (receiver, *place, marks[id(body)], len(body), moment, None)
            self._keep("INSERT OR IGNORE", "outbox", *letter)
        self._rows.write(self._db)
        self._rows = None
        if done is not None:
            was, heard, missed, seconds, error = done
            row = (*was, " ".join(heard), " ".join(missed), seconds, error, now())
            self._keep("INSERT OR REPLACE", "rounds", *row)
        self._db.execute(
            "DELETE FROM inbox WHERE phase < ? OR (phase = ? AND round < ?)",
            (place.phase, place.phase, place.round + 1 - keep),
        )
        self._stale = True
        if place.round % SELDOM == 0:
            self._db.execute(
                "DELETE FROM told WHERE phase < ? OR (phase = ? AND round < ?)",
                (place.phase - 1, place.phase, place.round - TOLD),
            )
        self._db.execute(
            "DELETE FROM bodies WHERE hash NOT IN ("  # three searches, of which none is a scan
            "SELECT hash FROM outbox WHERE phase = ? UNION ALL "
            "SELECT hash FROM outbox WHERE phase = ? AND round > ? UNION ALL "
            "SELECT hash FROM outbox WHERE acknowledged IS NULL)",
            # of the phase before, too, for one that is put back there from the begin of this one
            (place.phase - 1 if place.round < KEEP else -1, place.phase, place.round - KEEP),
        )

    def put(self, sender: str, place: Place, body: Body, newest: bool = False) -> bool:
        """Keep a letter that came; whether the same place held other bytes, or is in quarantine.

        `newest`: it takes the place of those before it, so that a sender fills no disk; one that a
        newer letter has overtaken is of no use.
        """
        return self.put_all([Came(sender, place, body, newest)])[0]

    def put_all(self, letters: Sequence[Came], hashes: Sequence[Any] = ()) -> list[bool]:
        """Keep letters that came at about the same time, for the price of one; see `put`.

        `hashes` are of what is signed in each, None where it is not known.
        """
        with self.transaction():
            known = hashes or [None] * len(letters)
            keys = [(one.sender, *one.place) for one in letters]
            old = {tuple(key): body for *key, body in found(self._db, "inbox", "body", keys)}
            aside = {tuple(key) for *key, _ in found(self._db, "quarantine", "id", keys)}
            self._rows = Rows()
            differs = [
                self._put(*letter, mark, old, aside)
                for letter, mark in zip(letters, known, strict=True)
            ]
            self._rows.write(self._db)
            self._rows = None
            self.large.settle()
            return differs

    def _put(
        self, sender: str, place: Place, body: Body, newest: bool, mark: Any,
        old: dict[Key, bytes | str], aside: set[Key],
    ) -> bool:  # fmt: skip
        """Keep one of some letters, of whose places so much is in the file."""
        marks, key = _marks(body, mark), (sender, *place)
        kept = reference_of(body, marks.whole)
        if key in old:  # a renewed certificate changes the seal, and nothing else
            same = old[key] == kept or _marks(self.large.read(old[key])).content == marks.content
            return not same
        if key in aside:
            return True
        if newest:
            if self._is_overtaken(sender, place, old):
                self._signed(sender, place, marks)
                return False
            self._db.execute("DELETE FROM inbox WHERE sender = ?", (sender,))
            assert self._rows is not None
            self._rows.drop("inbox", sender)
            self._stale = True
        self._written(kept, body)
        self._keep("INSERT", "inbox", *key, kept, now())
        self._head(sender, place, marks.whole)
        self._signed(sender, place, marks)
        old[key] = kept
        return False

    def _is_overtaken(self, sender: str, place: Place, put: Iterable[Key]) -> bool:
        """Whether a newer letter of the sender came before; `put`: those of this transaction."""
        later = "SELECT 1 FROM inbox WHERE sender = ? AND (phase, round) > (?, ?)"
        return any(key[0] == sender and key[1:] > place for key in put) or bool(
            self._read(later, (sender, *place))
        )

    def filed(self, sender: str, place: Place) -> Filed | None:
        """The file of a large letter that came; None where it is small, or used up."""
        rows = self._read(
            "SELECT body FROM inbox WHERE sender = ? AND phase = ? AND round = ?",
            (sender, *place),
        )
        return self.large.filed(rows[0][0]) if rows else None

    def _written(self, kept: bytes | str, body: Body) -> None:
        """Put a large letter into its file."""
        if isinstance(kept, str):
            self.large.write(kept, body)

    def _head(self, sender: str, place: Place, mark: str) -> None:
        """Note the newest letter of a neighbour: should it go back, it learns so from this."""
        if self._heads is None:
            self._heads = self.heads()
        if place > self._heads.get(sender, NOWHERE):
            self._keep("INSERT OR REPLACE", "heads", sender, *place, mark)
            self._heads[sender] = place

    def _signed(self, sender: str, place: Place, marks: Marks) -> None:
        """Note what a neighbour signed for all its neighbours."""
        seal = marks.seal
        if seal is not None and not seal.personal:
            if self._certified.get(sender) != seal.certificate:
                self._keep("INSERT OR REPLACE", "certificates", sender, seal.certificate)
                self._certified[sender] = seal.certificate
            self._keep("INSERT OR IGNORE", "told", sender, *place, marks.content, seal.signature)

    def told(self, since: Place = NOWHERE) -> list[tuple[str, Place, str, bytes]]:
        """What neighbours signed after a place: sender, place, hash and signature."""
        rows = self._read(
            "SELECT sender, phase, round, hash, signature FROM told "
            "WHERE (phase, round) > (?, ?) ORDER BY phase, round, sender",
            since,
        )
        return [(sender, Place(phase, t), mark, bytes(by)) for sender, phase, t, mark, by in rows]

    def certificates(self) -> dict[str, bytes]:
        """By neighbour: the certificate that came with its last letter."""
        rows = self._read("SELECT name, certificate FROM certificates")
        return {name: bytes(der) for name, der in rows}

    def put_proofs(self, proofs: Iterable[Any]) -> list[Any]:
        """Keep proofs that a node told neighbours different things; those that are new."""
        with self.transaction():
            known = {(sender, place, theirs) for sender, place, _, theirs, *_ in self.proofs()}
            fresh = [p for p in proofs if (p.sender, p.place, p.theirs) not in known][:PROOFS]
            for proof in fresh if len(known) < PROOFS else ():
                self._keep("INSERT OR IGNORE", "proofs", proof.sender, *proof.place, *proof[2:])
        return fresh if len(known) < PROOFS else []

    def proofs(self) -> list[tuple[Any, ...]]:
        """Sender, place, hash and signature of both letters, and who was told the other."""
        rows = self._read("SELECT sender, phase, round, ours, theirs, signature, other, witness "
                          "FROM proofs ORDER BY sender, phase, round")  # fmt: skip
        return [(who, Place(phase, t), *rest) for who, phase, t, *rest in rows]

    def heads(self) -> dict[str, Place]:
        """By neighbour: the newest of its letters that came."""
        rows = self._read("SELECT sender, phase, round FROM heads")
        return {sender: Place(phase, t) for sender, phase, t in rows}

    def kept(self, receiver: str, since: Place) -> list[Away]:
        """The letters to a neighbour from a place on that are kept, whether it had them or not."""
        rows = self._read(
            "SELECT phase, round, hash FROM outbox JOIN bodies USING (hash) WHERE receiver = ? "
            "AND (phase, round) >= (?, ?) ORDER BY phase, round",
            (receiver, *since),
        )
        return [Away(receiver, Place(phase, t), self._shared(*row)) for phase, t, *row in rows]

    def inbox(self) -> dict[tuple[str, Place], bytes]:
        """All letters that came and are not used up."""
        rows = self._read("SELECT sender, phase, round, body FROM inbox")
        return {(s, Place(phase, t)): self.large.read(body) for s, phase, t, body in rows}

    def put_aside(
        self, sender: str, place: Place, reason: str, body: Body | None, inside: bool = False
    ) -> None:
        """Move a letter to the quarantine, from the inbox where `body` is None."""
        with nullcontext() if inside else self.transaction():
            where = "sender = ? AND phase = ? AND round = ?"
            if body is None:
                rows = self._read(f"SELECT body FROM inbox WHERE {where}", (sender, *place))
                if not rows:
                    return
                kept = rows[0][0]
                mark = letter_hash(kept)
            else:
                marks = _marks(body)
                mark, kept = marks.whole, reference_of(body, marks.whole)
                self._written(kept, body)
                self.large.settle()
                self._signed(sender, place, marks)
            self._db.execute(f"DELETE FROM inbox WHERE {where}", (sender, *place))
            self._stale = True
            row = (sender, *place, reason[:500], kept, now())
            self._db.execute(
                "INSERT OR IGNORE INTO quarantine (sender, phase, round, reason, body, time, mark) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*row, mark_of(*row)),
            )
            self._head(sender, place, mark)
            self._db.execute(
                "DELETE FROM quarantine WHERE sender = ? AND id NOT IN (SELECT id FROM quarantine "
                "WHERE sender = ? ORDER BY id DESC LIMIT ?)",
                (sender, sender, ASIDE),
            )

    def aside(self, sender: str | None = None, place: Place | None = None) -> list[Aside]:
        """Letters in quarantine, oldest first: all, those of a sender, or the one of a place."""
        chosen = {"sender": sender, **({} if place is None else place._asdict())}
        given = {key: value for key, value in chosen.items() if value is not None}
        where = " AND ".join(f"{key} = ?" for key in given) or "1"
        rows = self._read(
            "SELECT id, sender, phase, round, reason, CASE typeof(body) WHEN 'text' THEN "
            f"CAST(substr(body, {HASH + 2}) AS INTEGER) ELSE length(body) END, time "
            f"FROM quarantine WHERE {where} ORDER BY id",
            given.values(),
        )
        return [Aside(i, who, Place(phase, t), *rest) for i, who, phase, t, *rest in rows]

    def drop(self, number: int) -> Aside:
        """Take a letter out of the quarantine for good; BadSetting where there is none."""
        with self.transaction():
            letter = self._one_aside(number)
            self._db.execute("DELETE FROM quarantine WHERE id = ?", (number,))
        return letter

    def release(self, number: int) -> Aside:
        """Put a letter back among those that came; refused where its round is over."""
        with self.transaction():
            letter = self._one_aside(number)
            rows = self._db.execute("SELECT phase, round FROM progress").fetchall()
            if rows and letter.place < Place(*rows[0]):
                raise BadSetting(
                    f"letter {number} is of round {letter.place.round}, which is over; drop it"
                )
            body = self._read("SELECT body FROM quarantine WHERE id = ?", (number,))[0][0]
            self._keep("INSERT OR IGNORE", "inbox", letter.sender, *letter.place, body, now())
            self._db.execute("DELETE FROM quarantine WHERE id = ?", (number,))
        return letter

    def _one_aside(self, number: int) -> Aside:
        for one in self.aside():
            if one.id == number:
                return one
        raise BadSetting(
            f"there is no letter {number} in quarantine; see `peerwise peer quarantine list`"
        )

    def live(self) -> tuple[int, dict[str, int]]:
        """The number of a new life of this peer, and the newest of each neighbour.

        It is greater than that of any life before, on any copy of the file, as the clock goes on.
        """
        with self.transaction():
            life = max(int(self.about().get("life", 0)) + 1, int(1000 * time.time()))
            self.set(life=str(life))
        return life, dict(self._read("SELECT name, life FROM lives"))

    def lives(self, name: str, life: int) -> None:
        """Note the newest life of a neighbour."""
        with self.transaction():
            self._keep("INSERT OR REPLACE", "lives", name, life)

    def said_goodbye(self, name: str, bye: str) -> None:
        """Note that a neighbour has ejected us, is done, or (an empty bye) is back."""
        with self.transaction():
            self._keep("INSERT OR REPLACE", "byes", name, bye)

    def byes(self) -> dict[str, str]:
        """By neighbour: its bye."""
        return dict(self._read("SELECT name, bye FROM byes"))

    def eject(self, name: str, why: str) -> None:
        """Note that a neighbour is not listened to, nor told anything, until it is readmitted."""
        with self.transaction():
            self._keep("INSERT OR REPLACE", "ejected", name, why, now())
            self._db.execute("DELETE FROM inbox WHERE sender = ?", (name,))
            self._db.execute(
                f"UPDATE outbox {ACKNOWLEDGED} WHERE receiver = ? AND acknowledged IS NULL",
                (DROPPED, DROPPED, name),
            )

    def readmit(self, name: str) -> None:
        """Take back `eject`."""
        with self.transaction():
            self._db.execute("DELETE FROM ejected WHERE name = ?", (name,))

    def ejected(self) -> dict[str, str]:
        """By neighbour that is ejected: why."""
        return dict(self._read("SELECT name, why FROM ejected"))

    def version(self) -> int:
        """A number that changes whenever another process has written to the file."""
        return int(self._read("PRAGMA data_version")[0][0])

    def unsent(self, receiver: str) -> list[Away]:
        """Letters that a neighbour has not acknowledged, oldest first."""
        rows = self._read(
            "SELECT phase, round, hash FROM outbox JOIN bodies USING (hash) WHERE receiver = ? "
            "AND acknowledged IS NULL ORDER BY phase, round",
            (receiver,),
        )
        return [Away(receiver, Place(phase, t), self._shared(*row)) for phase, t, *row in rows]

    def _shared(self, mark: str) -> bytes:
        """A letter that goes, once in memory for all who are sent it."""
        if mark not in self._recent:
            while len(self._recent) >= RECENT:
                del self._recent[next(iter(self._recent))]
            ((body,),) = self._read("SELECT body FROM bodies WHERE hash = ?", (mark,))
            self._recent[mark] = bytes(body)
        return self._recent[mark]

    def acknowledge(
        self, receivers: str | Sequence[str], place: Place, inside: bool = False
    ) -> None:
        """Neighbours have everything up to a place; `inside` a transaction that is open."""
        names = [receivers] if isinstance(receivers, str) else receivers
        with nullcontext() if inside else self.transaction():
            when = now()
            self._db.execute(
                f"UPDATE outbox {ACKNOWLEDGED} WHERE receiver IN ({', '.join('?' * len(names))}) "
                "AND acknowledged IS NULL AND (phase < ? OR (phase = ? AND round <= ?))",
                (when, when, *names, place.phase, place.phase, place.round),
            )

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
        self._db.execute("PRAGMA secure_delete = ON")
        self.set(mask_secret="")

    def use_mask(self, phase: int, at: int, mark: str) -> None:
        """Note that the mask of a sum hides a term, by its hash; refused if it hid another.

        In the transaction that is open: before the term can leave.
        """
        known = self._read("SELECT hash FROM masks WHERE phase = ? AND round = ?", (phase, at))
        if not known:
            self._keep("INSERT", "masks", phase, at, mark)
            if self.site is not None:
                self.site.terms.append(_term(self.about()["mask_secret"], phase, at, mark))
        elif known[0][0] != mark:
            raise Reused(at)

    def note_ledgers(self, news: Mapping[str, tuple[Place, Head]]) -> None:
        """Keep what neighbours told of their privacy ledgers."""
        with self.transaction():
            for sender, (place, head) in news.items():
                self._keep("INSERT OR REPLACE", "ledgers", sender, *place, *head)

    def ledgers(self) -> dict[str, tuple[Place, Head]]:
        """By neighbour: what it told of its ledger, and in which letter."""
        rows = self._read("SELECT sender, phase, round, length, hash FROM ledgers")
        return {name: (Place(phase, t), Head(n, mark)) for name, phase, t, n, mark in rows}

    def set(self, **facts: str) -> None:
        """Write down something about this peer, in the transaction that is open."""
        for key, value in facts.items():
            self._keep("INSERT OR REPLACE", "peer", key, value)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """What a query finds, for those who look at the file."""
        return self._read(query, values)

    def close(self) -> None:
        """Let the file go."""
        self.large.close()
        with self._lock:
            self._db.close()

    def amend(self, text: str) -> None:
        """Go on with another edition of the same charter."""
        with self.transaction():
            self.set(text=text)

    def _mine(self, facts: dict[str, str], differs: Callable[[str], str | None]) -> None:
        """Refuse the state of another version, node, charter or data file."""
        old = self.about()
        if old.get("state", "1") != STATE:
            raise BadFile(
                f"{self.path} is of another version of Peerwise (its state is of version "
                f"{old.get('state', '1')}, this program's of {STATE}); go on with that version, or "
                f"give another --state{self._counts()}"
            )
        if old["node"] != facts["node"]:
            raise BadFile(
                f"{self.path} is the state of node '{old['node']}', not of '{facts['node']}'; give "
                "another --state"
            )
        if old["charter"] != facts["charter"]:
            words = differs(old["text"])
            raise BadFile(
                f"{self.path} was begun under another charter"
                f"{'' if words is None else f': {words}'}; go on with that one, or give another "
                f"--state{self._counts()}"
            )
        if old["data"] != facts["data"]:
            raise BadFile(
                f"the data are not those with which {self.path} was begun: what was learnt and "
                "released is of the old rows. Put them back, or give another --state"
                f"{self._counts()}"
            )

    def _counts(self) -> str:
        """A new state is a new ledger, and a site must not take it for a new budget."""
        if self.ledger is None:
            return ""
        return " (what was spent here still counts: the same rows would be released again)"
