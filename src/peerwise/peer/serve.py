"""A peer from files: its charter, certificate, rows and state, until it is done or told to stop."""

import asyncio
import fcntl
import hashlib
import json
import os
import resource
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from peerwise import data
from peerwise.channel import Channel
from peerwise.data.discreet import discreet
from peerwise.errors import BadFile, BadSetting
from peerwise.node import Letter
from peerwise.peer.charter import Charter
from peerwise.peer.daemon import Daemon
from peerwise.peer.handshakes import heard
from peerwise.peer.health import Health, beating
from peerwise.peer.identity import load_identity
from peerwise.peer.journal import log, log_to
from peerwise.peer.memory import give_back_memory, keep_objects
from peerwise.peer.meters import Meters
from peerwise.peer.options import PATIENCE, Options
from peerwise.peer.plan import Plan
from peerwise.peer.renewing import Renewals
from peerwise.peer.site import about_run, open_site_ledger
from peerwise.peer.store import LOCK, Store
from peerwise.peer.terms import LimitTerms
from peerwise.privacy import Ledger
from peerwise.privacy.rows import (
    Part,
    known_parts,
    parts_of,
    released_parts,
    row_hashes,
    share_rows,
)

TRIES = 10  # to get hold of a state
FILES = 16384  # that may be open, if the system allows it


class Site:
    """What `peerwise peer run` is given: a node's files and what is its own business."""

    def __init__(
        self,
        charter: Path,
        node: str,
        rows: Path,
        state: Path,
        keys: Path,
        *,
        listen: str | None = None,
        held_out: float = 0.0,
        linger: float = 600.0,
        patience: float = PATIENCE,
        metrics: int | None = None,
        channel: Channel | Mapping[str, Any] | None = None,
        quiet: bool = False,
        allowed: Collection[str] = (),
        passphrase: bytes | None = None,
        ledger: Path | None = None,
        site: str | None = None,
        appended: bool = False,
        dry: bool = False,
    ):
        self.charter = Charter.load(charter, allowed)
        self.charter.index(node)
        self.node, self.state, self.keys, self.listen = node, state, keys, listen
        self.passphrase = passphrase
        self.patience = patience
        self.linger, self.metrics, self.channel, self.quiet = linger, metrics, channel, quiet
        if not 0 <= held_out < 1:
            raise BadSetting(f"--held-out must be at least 0 and less than 1, got {held_out}")
        table = load_rows(rows, self.charter.target)
        self.mark = mark_of(rows, held_out, appended)
        self.ledger: Ledger | None = None
        self.parts: tuple[Part, ...] = ()
        if dry:  # nothing is drawn: nothing is paid for
            pass
        elif self.charter.budget is not None:
            epsilon = self.charter.cell["privacy"]["epsilon"]
            self.ledger = open_site_ledger(ledger, epsilon, node, self.charter.nodes, site)
            table = self._parted(table, appended)
        elif ledger is not None or site is not None or appended:
            raise BadSetting(
                "--ledger, --site and --appended are for charters with a [budget]; leave them out"
            )
        self.table, self.kept = _held_out(table, held_out)

    def _parted(self, table: data.Table, appended: bool) -> data.Table:
        """The rows to learn from, once it is known which of them were released before."""
        if self.charter.cell["privacy"]["person"] is not None:
            if appended:
                raise BadSetting(
                    "--appended counts a release for the new rows alone, but with [privacy] person "
                    "a person may have old rows and new ones; leave --appended out: then every "
                    "release counts for all rows"
                )
            return table
        assert self.ledger is not None
        frame: Any = table.frame
        if not hasattr(frame, "iloc"):
            return table
        hashes = row_hashes(frame.assign(**{table.target: table.labels}))
        given = [json.loads(row[1]) for row in self.ledger.paid()]
        released = released_parts(given)
        known = known_parts(released, hashes)
        parts = parts_of(known, hashes)
        ours = about_run(self.charter.hash, self.mark)
        begun = next((released_parts([one]) for one in given if one.get("state") == ours), None)
        if begun is not None:  # it goes on with the rows that it began with
            self.parts = tuple(sorted(begun))
        elif not share_rows(parts, released):
            self.parts = tuple(parts)
        if not appended:
            return table
        if begun is None:
            if why := _nothing_appended(known, parts, bool(self.parts)):
                raise BadSetting(
                    "--appended learns only from rows that were added at the end of the file since "
                    f"its last release, and {why}"
                )
            self.parts = self.parts[-1:]
        first = self.parts[0].first
        return table._replace(
            frame=frame.iloc[first:].reset_index(drop=True), labels=table.labels[first:]
        )

    def plan(self) -> Plan:
        """What the peer runs."""
        return Plan(self.charter, self.node, self.table, channel=self.channel)


def _nothing_appended(known: Sequence[Part], parts: Sequence[Part], disjoint: bool) -> str | None:
    """Why a file has no rows that are known to be new; None where it has."""
    if not known:
        return "no release is known of this file or of what it begins with; were its rows changed?"
    if len(parts) == len(known):
        return "there are none"
    if not disjoint:
        return (
            f"rows after row {known[-1].last} were released before and have been changed since, so "
            "that an old row may be among the new ones; put the old rows back as they were, or "
            "leave --appended out: then the release counts for all rows"
        )
    return None


@discreet()
def load_rows(path: Path, target: str) -> data.Table:
    """A node's own file, which must have the column to predict; errors quote no cell of it."""
    if not path.exists():
        raise BadFile(f"there is no data file {path}")
    return data.load(path, target=target)


def mark_of(rows: Path, held_out: float, appended: bool) -> str:
    """What a peer learns from: its file, the share that it keeps apart, and whether new rows alone."""
    file = hashlib.sha256(rows.read_bytes()).hexdigest()
    return f"{file}:{held_out:g}{':appended' if appended else ''}"


def _held_out(table: data.Table, share: float) -> tuple[data.Table, data.Table | None]:
    """Evenly spaced rows apart, to look at and never to learn from."""
    i = np.arange(len(table.labels))
    apart = np.floor((i + 1) * share) > np.floor(i * share)
    if not apart.any():
        return table, None

    def part(rows: np.ndarray) -> data.Table:
        frame: Any = table.frame
        frame = frame[rows].reset_index(drop=True) if hasattr(frame, "iloc") else frame[rows]
        return table._replace(frame=frame, labels=table.labels[rows])

    return part(~apart), part(apart)


def dry_run(site: Site) -> tuple[Plan, dict[str, Letter]]:
    """What would go to whom in the first round, with nothing sent, drawn or kept.

    Of sealed sums the first round after the keys.
    """
    plan = site.plan()
    node = plan.node(1 if plan.learning.sealed else 0)
    letters = node.letters(node.shape() if plan.private else node.begin(), 0)
    return plan, {plan.charter.names[j]: letter for j, letter in letters.items()}


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


def _locked(file: int) -> bool:
    """Whether the lock is ours now; who looks whether a peer runs holds it for a moment, too."""
    for _ in range(TRIES):
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.02)
    return False


class Ended(NamedTuple):
    """How a peer ended: whether all rounds are done, and who still waits for its last letter.

    `silent`: those for whom it waited, and who have said nothing for as long as it is patient.
    """

    done: bool
    lacking: tuple[str, ...]
    silent: tuple[str, ...] = ()


Beside = Callable[[Health, Callable[[], None]], AbstractContextManager[Any]]


def serve(site: Site, beside: Beside | None = None) -> Ended:
    """Run until all rounds are done, or SIGTERM or SIGINT.

    `beside` is open meanwhile: it is given the peer's health and a function that stops the peer,
    to be called from any thread.
    """
    os.umask(0o077)  # whatever is written here is for the site alone
    _many_files()
    give_back_memory()
    with only_one(site.state):
        return _serve(site, beside)


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


def _opened(site: Site, held_out: Any) -> Store:
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


def _serve(site: Site, beside: Beside | None) -> Ended:
    identity = load_identity(site.keys, site.node, site.passphrase)
    plan = site.plan()
    held_out = None
    if site.kept is not None:  # nothing of them leaves: they need not be many
        free = site.charter.model_copy(update={"limits": LimitTerms.model_validate({})})
        held_out = free.rows(site.kept)
    store = _opened(site, held_out)
    plan.charter = site.charter
    meters = Meters()
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
        return Ended(done, daemon.lacking if done else (), daemon.silent)

    try:
        keep_objects()
        with heard():
            return asyncio.run(run())
    finally:
        store.close()
        if site.ledger is not None:
            site.ledger.close()
