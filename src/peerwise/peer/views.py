"""What a peer's file tells whoever looks: how far it is, what left the site, what it cost."""

import fcntl
import hashlib
import hmac
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from peerwise.core import State
from peerwise.errors import BadFile, BadSetting, UnknownName
from peerwise.node import Memory
from peerwise.peer.charter import Charter
from peerwise.peer.described import unit_of
from peerwise.peer.health import silent_for
from peerwise.peer.leaving import what_leaves
from peerwise.peer.model_file import Learnt, blank_value
from peerwise.peer.protocol.messages import Place
from peerwise.peer.signing import content
from peerwise.peer.site import to_show
from peerwise.peer.store import LOCK, Store
from peerwise.peer.store.outbox import DROPPED
from peerwise.peer.store.quarantine import Aside
from peerwise.peer.wire import unpack_tree
from peerwise.privacy.sealing.keys import fingerprint


class Status(NamedTuple):
    """How a peer stands."""

    node: str
    phase: int
    phases: int
    round: int
    rounds: int
    heard: tuple[str, ...]  # in the last round
    missed: tuple[str, ...]
    error: float | None  # on its own rows, when last looked at
    sent: int  # bytes that neighbours have acknowledged
    letters: int
    seconds: float | None  # of the last round; None before its end
    epsilon: float | None  # spent
    budget: float | None
    time: str  # of the last change
    running: bool  # whether a process works with the state now
    silent: float = 0.0  # seconds for which that process has given no sign of life
    waiting: tuple[str, ...] = ()  # neighbours that have no letter here for the next round
    unit: str | None = None  # what the budget hides: a row or a person
    held_out: int = 0  # rows that errors are measured on; 0: those it learns from

    @property
    def done(self) -> bool:
        """Whether all rounds are."""
        return self.phase == self.phases - 1 and self.round >= self.rounds


def status(folder: str | Path) -> Status | None:
    """How the peer with its state in a folder stands; None before its first round."""
    with closing(Store.look(folder)) as store:
        about = store.about()
        progress = store.rows("SELECT phase, round, time FROM progress")
        if not progress:
            return None
        phase, t, when = progress[0]
        last = store.rows(
            "SELECT heard, missed, seconds FROM rounds ORDER BY phase DESC, round DESC LIMIT 1"
        )
        error = store.rows(
            "SELECT error FROM rounds WHERE error IS NOT NULL "
            "ORDER BY phase DESC, round DESC LIMIT 1"
        )
        size, count = store.rows(
            "SELECT coalesce(sum(bytes), 0), count(*) FROM outbox WHERE acknowledged != ?", DROPPED
        )[0]
        waiting = _waiting(store, about, Place(phase, t))
        heard, missed, seconds = last[0] if last else ("", "", None)
        spent = store.ledger.total().epsilon if store.ledger is not None else None
        budget = store.ledger.budget.epsilon if store.ledger is not None else None
    return Status(
        about["node"], phase, int(about["phases"]), t, int(about["rounds"]), tuple(heard.split()),
        tuple(missed.split()), error[0][0] if error else None, size, count, seconds, spent, budget,
        when, *running(folder), waiting, unit_of_budget(Charter.parse(about["text"])),
        int(about.get("held_out", 0)),
    )  # fmt: skip


def _waiting(store: Store, about: Mapping[str, str], place: Place) -> tuple[str, ...]:
    """The neighbours of whom no letter is there for a round, good or bad, and that are not out."""
    came = {
        sender
        for table in ("inbox", "quarantine")
        for (sender,) in store.rows(
            f"SELECT sender FROM {table} WHERE phase = ? AND round = ?", *place
        )
    }
    out = came | store.neighbours.ejected().keys()
    return tuple(n for n in Charter.parse(about["text"]).neighbours(about["node"]) if n not in out)


def running(folder: str | Path) -> tuple[bool, float]:
    """Whether a process holds the lock of a state, and for how long it has given no sign."""
    path = Path(folder) / LOCK
    try:
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False, 0.0
    except OSError:
        return True, silent_for(path)
    return False, 0.0


def outbox(folder: str | Path, last: int | None = None) -> pd.DataFrame:
    """Every letter that was made: for whom, when, how large, its hash, when it was taken."""
    with closing(Store.look(folder)) as store:
        rows = store.rows(
            "SELECT phase, round, receiver, bytes, hash, made, acknowledged, "
            "EXISTS (SELECT 1 FROM bodies WHERE bodies.hash = outbox.hash) FROM outbox "
            "ORDER BY phase, round, receiver"
        )
    names = ["phase", "round", "to", "bytes", "sha256", "made", "acknowledged", "kept"]
    frame = pd.DataFrame(rows, columns=names)
    frame["kept"] = frame["kept"].astype(bool)
    return frame if last is None else frame.tail(last)


def letter(folder: str | Path, place: Place, receiver: str) -> bytes:
    """The very bytes of a letter but for its signature, as long as they are kept."""
    with closing(Store.look(folder)) as store:
        bodies = store.rows(
            "SELECT body, hash FROM outbox JOIN bodies USING (hash) WHERE phase = ? AND "
            "round = ? AND receiver = ?",
            *place,
            receiver,
        )
    if not bodies:
        raise BadSetting(
            f"no letter of phase {place.phase}, round {place.round} to '{receiver}' is kept; see "
            "`peerwise peer outbox` for those that are"
        )
    body, mark = bytes(bodies[0][0]), bodies[0][1]
    if hashlib.sha256(body).hexdigest() != mark:
        raise BadFile(f"the letter that {folder} keeps is damaged: it is not the one that was sent")
    return content(body)


def audit(folder: str | Path) -> dict[str, Any]:
    """An account of everything that left the site and of what it cost."""
    with closing(Store.look(folder)) as store:
        about = store.about()
        charter = Charter.parse(about["text"])
        by_neighbour = store.rows(
            "SELECT receiver, count(*), sum(bytes), count(acknowledged), min(made), max(made) "
            "FROM outbox WHERE acknowledged IS NULL OR acknowledged != ? "
            "GROUP BY receiver ORDER BY receiver",
            DROPPED,
        )
        releases: Sequence[Any] = ()
        spent = left = None
        if store.ledger is not None:
            releases = store.ledger.table().reset_index().to_dict("records")
            spent, left = store.ledger.total(), store.ledger.left()
    data = about["data"]
    if charter.budget is not None:  # nobody who guesses the rows can try which of them fit
        data = hmac.new(about.get("apart", "").encode(), data.encode(), "sha256").hexdigest()
        for release in releases:
            release["parameters"] = to_show(release["parameters"])
    return {
        "node": about["node"],
        "charter": about["charter"],
        "data": data,
        "begun": about["made"],
        "method": charter.method_name,
        "letters": [
            dict(zip(("to", "letters", "bytes", "acknowledged", "first", "last"), row, strict=True))
            for row in by_neighbour
        ],
        "releases": list(releases),
        "spent": spent,
        "left": left,
        "budget": charter.budget,
        "unit": unit_of_budget(charter),
        "leaves": what_leaves(charter),
        "keys": None if (keys := _keys(about)) is None else fingerprint(about["charter"], keys),
    }


def _keys(about: Mapping[str, str]) -> dict[str, bytes] | None:
    """The mask keys of all members, once they are there."""
    keys = json.loads(about.get("agreed", "{}")).get("keys")
    return None if keys is None else {name: bytes.fromhex(key) for name, key in keys.items()}


def unit_of_budget(charter: Charter) -> str | None:
    """What a budget hides; None without one."""
    if charter.budget is None:
        return None
    return "row, or as its code says" if charter.own_code else unit_of(charter.cell)


def quarantine(folder: str | Path) -> list[Aside]:
    """The letters that a peer has put aside, oldest first."""
    with closing(Store.look(folder)) as store:
        return store.quarantine.letters()


def drop(folder: str | Path, number: int) -> Aside:
    """The letter that is taken out of the quarantine for good."""
    with closing(Store.look(folder, write=True)) as store:
        return store.quarantine.drop(number)


def release(folder: str | Path, number: int) -> Aside:
    """The letter that is taken out of the quarantine and heard, if its round is not over."""
    with closing(Store.look(folder, write=True)) as store:
        return store.quarantine.release(number)


def ejected(folder: str | Path) -> dict[str, str]:
    """By neighbour that is ejected: why."""
    with closing(Store.look(folder)) as store:
        return store.neighbours.ejected()


def eject(folder: str | Path, name: str, why: str) -> None:
    """Have a peer, whether it runs or not, neither hear nor tell a neighbour anything."""
    with closing(Store.look(folder, write=True)) as store:
        about = store.about()
        neighbours = Charter.parse(about["text"]).neighbours(about["node"])
        if name not in neighbours:
            raise UnknownName(f"neighbour of {about['node']}:", name, neighbours)
        store.eject(name, why)


def amend(folder: str | Path, path: str | Path) -> list[str]:
    """Have a peer, whether it runs or not, go on with an amended charter; what changes, in words.

    Refused where it is another charter, or an older edition.
    """
    with closing(Store.look(folder, write=True)) as store:
        old, new = Charter.parse(store.about()["text"], str(folder)), Charter.load(path)
        changes = old.amendments(new)
        if new.edition < old.edition or (changes and new.edition == old.edition):
            raise BadSetting(
                f"{path} is edition {new.edition} of the charter, and this peer has edition "
                f"{old.edition}; get the newest, or give it a greater number with `peerwise "
                "network amend`"
            )
        if changes:
            store.amend(new.text())
        return changes


def readmit(folder: str | Path, name: str) -> None:
    """Have a peer hear and tell a neighbour again that it had ejected."""
    with closing(Store.look(folder, write=True)) as store:
        if name not in store.neighbours.ejected():
            raise UnknownName("neighbour that is ejected:", name, store.neighbours.ejected())
        store.neighbours.readmit(name)


def learnt(folder: str | Path, allowed: Collection[str] = ()) -> Learnt:
    """The model as it stands; `allowed`: the code of its charter's author that may be imported."""
    with closing(Store.look(folder)) as store:
        about, kept = store.about(), store.progress()
    charter = Charter.parse(about["text"], str(folder), allowed)
    agreed = json.loads(about["agreed"]) if "agreed" in about else None
    if kept is None or kept[0].phase != int(about["phases"]) - 1:
        raise BadFile(f"{folder} holds no model yet: its peer has not begun to learn")
    # of all that is kept, what a prediction needs
    part = unpack_tree(kept[1], Memory(State(blank_value(charter, agreed), None), None))
    return Learnt(charter, agreed, part.state.value)
