"""A peer from files: its charter, certificate, rows and state, until it is done or told to stop."""

import asyncio
import fcntl
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

from peerwise.errors import BadFile
from peerwise.peer.charter import Charter
from peerwise.peer.daemon import Daemon
from peerwise.peer.handshakes import heard
from peerwise.peer.health import Health, beating
from peerwise.peer.identity import load_identity
from peerwise.peer.journal import log, log_to
from peerwise.peer.memory import give_back_memory, keep_objects
from peerwise.peer.meters import Meters
from peerwise.peer.options import Options
from peerwise.peer.own_site import Site
from peerwise.peer.renewing import Renewals
from peerwise.peer.site import SiteBook
from peerwise.peer.store import LOCK, Store
from peerwise.peer.terms import LimitTerms
from peerwise.peer.views import unit_of_budget

TRIES = 10  # to get hold of a state
FILES = 16384  # that may be open, if the system allows it


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Refuse a second process with the same state; the system lets go when a process ends."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / LOCK).touch(mode=0o600)
    except OSError as error:
        raise BadFile(f"cannot write to the state {folder}: {error.strerror}") from None
    with open(folder / LOCK, "w") as file:
        if not _locked(file.fileno()):
            raise BadFile(
                f"another process runs with the state {folder}; stop it, or give another --state"
            )
        yield


@contextmanager
def no_copy(book: SiteBook) -> Iterator[None]:
    """Refuse a state of which a copy runs beside the same ledger: both would draw noise.

    The system lets go when a process ends; the file of the lock is then removed.
    """
    path = book.lock
    while True:
        try:
            file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise BadFile(f"cannot write beside the ledger, {path}: {error.strerror}") from None
        try:
            if not _locked(file):
                raise BadFile(
                    f"a copy of this state runs beside the ledger {book.ledger.path}; stop it: two "
                    "copies would draw noise twice for one charge"
                )
            ours = False
            with suppress(FileNotFoundError):
                ours = os.path.samestat(os.fstat(file), path.stat())
            if ours:  # and not one that was just removed
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return
        finally:
            os.close(file)


def _locked(file: int) -> bool:
    """Whether the lock is ours now; who looks whether a peer runs holds it for a moment, too."""
    for _ in range(TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            pass
        except OSError as error:
            raise BadFile(
                f"the file system cannot lock files ({error.strerror}), which keeps two processes "
                "off one state or ledger; put both on a local disk"
            ) from None
        time.sleep(0.02)
    return False


class Ended(NamedTuple):
    """How a peer ended: whether all rounds are done, and who still waits for its last letter.

    `silent`: those for whom it waited, and who have said nothing for as long as it is patient.
    `spoilt`: why it learnt no more from sealed sums.
    """

    done: bool
    lacking: tuple[str, ...]
    silent: tuple[str, ...] = ()
    spoilt: str | None = None


Beside = Callable[[Health, Callable[[], None]], AbstractContextManager[Any]]


def serve(site: Site, beside: Beside | None = None) -> Ended:
    """Run until all rounds are done, or SIGTERM or SIGINT.

    `beside` is open meanwhile: it is given the peer's health and a function that stops the peer,
    to be called from any thread.
    """
    os.umask(0o077)  # whatever is written here is for the site alone
    _many_files()
    give_back_memory()
    with only_one(site.state), ExitStack() as held:
        return _serve(site, beside, lambda book: held.enter_context(no_copy(book)))


def _many_files() -> None:
    """Let connections of strangers, until they are cut off, leave room for those of neighbours."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _newest_edition(site: Site, store: Store) -> list[str]:
    """Go on with the newest edition of the charter, of the file or the state; what it changes."""
    kept = Charter.parse(store.about()["text"], str(store.path), site.charter.own_code)
    changes = kept.amendments(site.charter)
    if kept.edition > site.charter.edition:
        changes, site.charter = site.charter.amendments(kept), kept
    elif changes:
        store.amend(site.charter.text())
    return changes


def _opened(site: Site, held_out: Any, hold: Callable[[SiteBook], None]) -> Store:
    """The peer's state, under the newest edition of the charter; what is new goes to the log."""
    budget = site.charter.budget
    store = Store.open(
        site.state,
        node=site.node,
        charter=site.charter.hash,
        charter_text=site.charter.text(),
        data=site.mark,
        budget=None if budget is None else budget.model_dump(),
        schema=site.charter.schema().to_json(),
        site=site.ledger,
        parts=site.parts,
        differs=lambda text: Charter.parse(text).difference(site.charter),
        hold=hold,
    )
    changes = _newest_edition(site, store)
    with store.transaction():  # what errors are measured on: so many rows apart, or the node's own
        store.set(held_out=str(0 if held_out is None else len(held_out[1])))
    log_to(site.state, site.node, site.quiet)
    if changes:
        facts = {"edition": site.charter.edition, "changes": changes}
        log.info("amended", extra={"facts": facts})
    if store.lost:
        facts = {"charges put back": store.lost}
        log.warning("the state's ledger lacked charges of the site's", extra={"facts": facts})
    return store


def _serve(site: Site, beside: Beside | None, hold: Callable[[SiteBook], None]) -> Ended:
    identity = load_identity(site.keys, site.node, site.passphrase)
    plan = site.plan()
    held_out = None
    if site.kept is not None:  # nothing of them leaves: they need not be many
        free = site.charter.model_copy(update={"limits": LimitTerms.model_validate({})})
        held_out = free.rows(site.kept)
    store = _opened(site, held_out, hold)
    plan.charter = site.charter
    meters = Meters(unit_of_budget(site.charter))
    meters.health.node = site.node
    if site.metrics is not None:
        meters.serve(site.metrics)
    options = Options(
        site.listen, site.linger, held_out=held_out, patience=site.patience,
        renewals=Renewals(site.keys, identity, site.passphrase),
    )  # fmt: skip

    async def run() -> Ended:
        daemon = Daemon(plan, store, identity, options, meters)
        loop = asyncio.get_running_loop()

        def stop() -> None:
            meters.health.down()
            daemon.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)

        def stop_from_outside() -> None:
            loop.call_soon_threadsafe(stop)

        signs = asyncio.create_task(beating(meters.health, site.state / LOCK))
        shown = nullcontext() if beside is None else beside(meters.health, stop_from_outside)
        with shown:
            done = await daemon.run()
        signs.cancel()
        memory = daemon.memory
        spoilt = None if memory is None else plan.spoilt(daemon.place.phase, memory)
        return Ended(done, daemon.lacking if done else (), daemon.silent, spoilt)

    try:
        keep_objects()
        with heard():
            return asyncio.run(run())
    finally:
        store.close()
        if site.ledger is not None:
            site.ledger.close()
