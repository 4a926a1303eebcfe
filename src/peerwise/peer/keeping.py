"""The disk half of a peer: what its core wants kept, in order, in one thread.

Letters that come while another transaction is written share the next one.
"""

import asyncio
import json
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from peerwise.errors import PeerwiseError
from peerwise.peer.journal import log
from peerwise.peer.large import Filed, is_large
from peerwise.peer.letters import Letters
from peerwise.peer.memory import give_back_rest
from peerwise.peer.plan import Plan
from peerwise.peer.protocol.messages import (
    Advance,
    Came,
    Load,
    Loaded,
    Look,
    Looked,
    NoteBye,
    NoteLife,
    Place,
    Put,
    PutAside,
    Stored,
    Written,
)
from peerwise.peer.store import Store

GATHER = 0.002  # seconds without a further letter after which those that came are written
LONGEST = 0.05  # and seconds that the first of them waits at most
TOGETHER = 1 << 24  # bytes of letters after which no more are written with them
Rest = Callable[[Store], Any] | None  # what is to be done again, until it gives None
KEPT = (Put, PutAside, NoteLife, NoteBye, Load, Look, Advance)


class Keeping:
    """The file of one peer; `tell` is given the events of all that was done at a time.

    `awaited` says how many letters may come together: once they are there, no more are waited for.
    """

    def __init__(
        self,
        store: Store,
        plan: Plan,
        letters: Letters,
        tell: Callable[[list[Any]], None],
        awaited: Callable[[], int],
    ):
        self._awaited = awaited
        self._store, self._plan, self._letters, self._tell = store, plan, letters, tell
        self._thread = ThreadPoolExecutor(1, "disk")
        self._wanted: deque[Any] = deque()
        self._hashes: dict[Any, Any] = {}  # by ticket: of what is signed in a letter
        self._come = asyncio.Event()
        self._rest: Rest = None  # what is left of wiping the file

    def want(self, effect: Any) -> None:
        """Have something done after all that was wanted before."""
        if isinstance(effect, Put):  # at once: the next letter has another hash
            self._hashes[effect.ticket] = self._letters.hashed(effect.letter.body)
        self._wanted.append(effect)
        self._come.set()

    async def work(self) -> None:
        """Do what is wanted, for ever; what cannot be stored of a round ends it."""
        while True:
            while self._wanted:
                await self._gathered()
                wanted = self._next()
                self._tell(await self.run(self._done, wanted))
            self._come.clear()
            await self._come.wait()

    async def _gathered(self) -> None:
        """Wait while letters come one after the other: on the disk together, all are sooner."""
        clock = asyncio.get_running_loop().time
        count, end = 1, clock() + LONGEST
        while count < len(self._wanted) < self._awaited() and clock() < end:
            count = len(self._wanted)
            if not all(
                isinstance(one, Put) and not is_large(len(one.letter.body)) for one in self._wanted
            ):
                return
            await asyncio.sleep(GATHER)

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        """What some work on the disk gives."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *args)

    def forget(self) -> None:
        """Forget the secret of the masks: no term will be sealed any more."""
        with self._store.transaction():
            self._store.forget_mask_secret()
        self.wipe()

    def wipe(self) -> None:
        """Let nothing in the file hold a secret that is forgotten."""
        self._rest = wiped(self._store)

    def wipe_rest(self) -> None:
        """What could not be wiped before: another program reads the file, or the disk is full."""
        if self._rest is not None:
            with suppress(PeerwiseError):
                self._rest = self._rest(self._store)

    def close(self) -> None:
        """Wait until the disk is left alone."""
        self._thread.shutdown()

    def _next(self) -> list[Any]:
        """The next effect, with letters that follow one: all, but of large ones a few.

        Others come while those are written.
        """
        wanted = [self._wanted.popleft()]
        size = 0
        while isinstance(wanted[0], Put) and self._wanted and isinstance(self._wanted[0], Put):
            size += len(wanted[-1].letter.body)
            if size > TOGETHER:
                break
            wanted.append(self._wanted.popleft())
        return wanted

    def _done(self, wanted: list[Any]) -> list[Any]:
        """Events that say what became of effects: one, or some letters together."""
        first = wanted[0]
        if isinstance(first, Load):
            return [Loaded(*first, self._store.outbox.kept(*first))]
        if isinstance(first, Look):
            return [looked(self._store)]
        if isinstance(first, Advance):
            self._advance(first)
            if any(is_large(len(body)) for body in first.bodies.values()):
                give_back_rest()
            return [Stored()]
        try:
            if isinstance(first, Put):
                hashes = [self._hashes.pop(one.ticket, None) for one in wanted]
                differs = self._store.inbox.put_all([one.letter for one in wanted], hashes)
                if news := dict(self._letters.watch.news):
                    self._letters.watch.news.clear()
                    self._store.neighbours.note_ledgers(news)
                pairs = zip(wanted, differs, strict=True)
                return [
                    Written(one.ticket, differ, shelved=self._shelved(one.letter))
                    for one, differ in pairs
                ]
            if isinstance(first, PutAside):
                self._store.quarantine.put(*first[1:])
            elif isinstance(first, NoteBye):
                self._store.neighbours.note_bye(first.name, first.bye)
            else:
                self._store.neighbours.note_life(first.name, first.life)
        except PeerwiseError as error:  # each caller is told
            return [Written(one.ticket, why=str(error)) for one in wanted]
        return [Written(first.ticket)]

    def _shelved(self, letter: Came) -> Callable[[Any], Any] | None:
        """What makes of a letter that was written one that is in its file alone."""
        if isinstance(letter.body, Filed) or not is_large(len(letter.body)):
            return None
        file = self._store.inbox.filed(letter.sender, letter.place)
        return None if file is None else self._letters.shelved(file, letter.place.phase)

    def _advance(self, wanted: Advance) -> None:
        """A round with its letters, and what they cost, in one transaction."""
        store, outcome, done = self._store, wanted.result, wanted.done
        phase, t = wanted.place
        seals_no_more = self._plan.learns(phase) and t >= self._plan.rounds(phase)
        seals_no_more = seals_no_more and self._plan.seals(phase)
        begins = outcome.agreed is not None
        with store.transaction():
            if done is not None and not begins:
                self._plan.pay(phase, store.ledger)
                drew = self._plan.draws(phase) and t > self._plan.drawn
                if store.site is not None and drew:
                    store.site.reach(t)
            if begins:
                store.set(agreed=json.dumps(outcome.agreed))
            if (used := self._plan.used_mask(phase, outcome.memory)) is not None:
                store.use_mask(phase, *used)
            if seals_no_more:
                store.forget_mask_secret()
            self._acknowledge(wanted.acknowledged)
            for name, (place, why) in wanted.aside.items():
                store.quarantine.put(name, place, why, None, inside=True)
            if store.site is not None:
                store.set(ledger=str(store.site.head()))
            store.advance(
                wanted.place, outcome.packed, wanted.bodies, done, wanted.keep, wanted.newest
            )
        if seals_no_more:
            self.wipe()

    def _acknowledge(self, acknowledged: Any) -> None:
        for place in sorted(set(acknowledged.values())):
            names = [name for name, there in acknowledged.items() if there == place]
            self._store.outbox.acknowledge(names, place, inside=True)

    def write_acknowledged(self, acknowledged: dict[str, Place]) -> None:
        """Note what neighbours have, before the end; what is not written down comes again."""
        if acknowledged:
            with suppress(PeerwiseError), self._store.transaction():
                self._acknowledge(acknowledged)


def wiped(store: Store) -> Rest:
    """Write the file anew: unused parts of it, and its log, still hold a secret that is forgotten.

    SQLite moves rows about, and does not overwrite where they were. What is left to do is given
    back, and people are told why.
    """
    try:
        rest, why = rewritten(store), "another program reads it"
    except PeerwiseError as error:
        rest, why = rewritten, str(error)[:500]
    if rest is not None:
        facts = {"why": f"{why}; this is tried again until it ends"}
        log.warning("the file may still hold the secret of masks", extra={"facts": facts})
    return rest


def rewritten(store: Store) -> Rest:
    """The file without unused parts; its log may be left."""
    store.rows("VACUUM")
    return emptied(store)


def emptied(store: Store) -> Rest:
    """The file without its log, unless others read it, who are not waited for."""
    (wait,) = store.rows("PRAGMA busy_timeout")[0]
    store.rows("PRAGMA busy_timeout = 0")
    try:
        return emptied if store.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0][0] else None
    finally:
        store.rows(f"PRAGMA busy_timeout = {wait}")


def looked(store: Store) -> Looked:
    """What the file holds of others."""
    aside = [(one.sender, one.place) for one in store.quarantine.letters()]
    return Looked(store.neighbours.ejected(), aside, store.inbox.letters())
