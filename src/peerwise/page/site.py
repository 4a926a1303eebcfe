"""One peer as its own site sees it: read from its state, its log and its certificates.

Nothing of a row is in any of these: letters are told by their size, hash and the shapes of what
they hold, never by their numbers.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from safetensors import SafetensorError, deserialize

from peerwise.errors import BadFile, BadSetting, PeerwiseError
from peerwise.page import thin
from peerwise.page.guard import Access
from peerwise.page.serve import Feed, Page
from peerwise.peer import views
from peerwise.peer.charter import Charter
from peerwise.peer.health import FROZEN
from peerwise.peer.identity import CA, expires
from peerwise.peer.journal import JOURNAL, SECURITY
from peerwise.peer.protocol.messages import Place
from peerwise.peer.store import FILE, Store

LETTERS = 16  # of the outbox
EVENTS = 20  # of the log
REFUSED = 20  # callers
RELEASES = 200
TAIL = 64 << 10  # bytes of a log that are read


class SiteLook:
    """Looks at a peer's state; what has not changed since is not read again."""

    def __init__(
        self,
        state: Path,
        keys: Path | None = None,
        health: Callable[[], Mapping[str, Any]] | None = None,
    ):
        self.state, self._keys, self._health = state, keys, health
        self._seen: tuple[Any, ...] = ()
        self._kept: dict[str, Any] = {}

    def __call__(self) -> dict[str, Any]:
        """How the peer stands now."""
        now = _stamps(self.state)
        if now != self._seen or not self._kept:
            self._kept, self._seen = self._read(), now
        running, silent = views.running(self.state)
        facts = self._health() if self._health is not None else {}
        waiting = {w["for"]: w["since"] for w in facts.get("waiting", ())}
        status = {
            **self._kept,
            "running": running,
            "stuck": silent > FROZEN,
            "waits_since": waiting,
        }
        return status | _standing(status)

    def _read(self) -> dict[str, Any]:
        standing = views.status(self.state) if (self.state / FILE).exists() else None
        if standing is None:
            return {"begun": False}
        with closing(Store.look(self.state)) as store:
            about = store.about()
            charter = Charter.parse(about["text"])
            neighbours = _neighbours(store, charter, standing.node)
            errors = store.rows("SELECT round, error FROM rounds WHERE error IS NOT NULL AND "
                                "phase = ? ORDER BY round", standing.phases - 1)  # fmt: skip
            seconds = store.rows("SELECT seconds FROM rounds ORDER BY phase DESC, round DESC "
                                 "LIMIT 20")  # fmt: skip
            aside = [{"id": a.id, "from": a.sender, "round": a.place.round, "bytes": a.bytes,
                      "time": a.time, "why": a.reason}
                     for a in store.quarantine.letters()]  # fmt: skip
        at = thin.places(len(errors), thin.POINTS).tolist() if errors else []
        sent = views.outbox(self.state, LETTERS)
        return {
            "begun": True,
            "node": standing.node,
            "federation": charter.name,
            "charter": charter.hash,
            "method": charter.method_name,
            "mode": charter.pace.mode,
            "phase": standing.phase,
            "phases": standing.phases,
            "round": standing.round,
            "rounds": standing.rounds,
            "done": standing.done,
            "waiting": list(standing.waiting),
            "changed": standing.time,
            # rounds are counted from 0 in the file, and from 1 for people
            "errors": [[errors[i][0] + 1, errors[i][1]] for i in at],
            "held_out": int(about.get("held_out", 0)),
            "pace": sum(s for (s,) in seconds) / len(seconds) if seconds else None,
            "neighbours": neighbours,
            "certificates": _certificates(self._keys, standing.node),
            "privacy": _privacy(self.state),
            "quarantine": aside,
            "refused": _refused(self.state),
            "letters": _letters(sent),
            "holds": _holds(self.state, sent, standing.budget is not None),
            "log": _events(self.state),
        }


def _stamps(state: Path) -> tuple[Any, ...]:
    stamps = []
    for name in (FILE, f"{FILE}-wal", JOURNAL, SECURITY):
        try:
            about = (state / name).stat()
            stamps.append((about.st_mtime_ns, about.st_size))
        except OSError:
            stamps.append((0, 0))
    return tuple(stamps)


def _standing(status: Mapping[str, Any]) -> dict[str, str]:
    """A word and a sentence on how the peer is: what whoever looks wants to know first."""
    if not status["begun"]:
        return {"word": "begins", "kind": "quiet", "sentence": "The peer has not begun yet."}
    if status["done"]:
        return {"word": "done", "kind": "good", "sentence": "All rounds are done."}
    if not status["running"]:
        return {"word": "stopped", "kind": "bad",
                "sentence": "No process runs: `peerwise peer run` goes on from here."}  # fmt: skip
    if status["stuck"]:
        return {"word": "stuck", "kind": "bad",
                "sentence": "Its process gives no sign of life: stopped, or stuck."}  # fmt: skip
    if status["phase"] < status["phases"] - 1:
        return {"word": "agrees", "kind": "warn",
                "sentence": "The network agrees on units or keys before it learns."}  # fmt: skip
    return {"word": "learns", "kind": "good", "sentence": ""}


def _neighbours(store: Store, charter: Charter, node: str) -> list[dict[str, Any]]:
    sent = {
        who: {"letters": n, "bytes": size, "taken": taken, "last_taken": when}
        for who, n, size, taken, when in store.rows(
            "SELECT receiver, count(*), coalesce(sum(bytes), 0), count(acknowledged), "
            "max(acknowledged) FROM outbox GROUP BY receiver"
        )
    }
    came = dict(store.rows("SELECT sender, max(time) FROM inbox GROUP BY sender"))
    heads, ejected = store.neighbours.heads(), store.neighbours.ejected()
    certificates = store.neighbours.certificates()
    rounds = store.rows("SELECT heard, missed, time FROM rounds ORDER BY phase DESC, round DESC "
                        "LIMIT 200")  # fmt: skip
    lines = []
    for name in charter.neighbours(node):
        heard = next((t for h, _, t in rounds if name in h.split()), None)
        last = max(filter(None, (heard, came.get(name))), default=None)
        missed = sum(name in m.split() for _, m, _ in rounds)
        line = {
            "name": name,
            "address": charter.nodes[name].address,
            "heard": last,
            "head": heads[name].round + 1 if name in heads else None,
            "missed": missed,
            "ejected": ejected.get(name),
            "ends": _der_end(certificates.get(name)),
            **sent.get(name, {"letters": 0, "bytes": 0, "taken": 0, "last_taken": None}),
        }
        lines.append(line)
    return lines


def _der_end(der: bytes | None) -> str | None:
    if der is None:
        return None
    from cryptography import x509

    try:
        return x509.load_der_x509_certificate(der).not_valid_after_utc.isoformat()
    except ValueError:
        return None


def _certificates(keys: Path | None, node: str) -> list[dict[str, Any]]:
    """When the site's own certificate and that of the authority end."""
    certificates = []
    for what, name in (("this site", f"{node}.pem"), ("the authority", CA)):
        path = keys / name if keys is not None else None
        if path is not None and path.exists():
            try:
                end = expires(path.read_bytes())
            except PeerwiseError:
                continue
            days = (end - datetime.now(UTC)).days
            certificates.append({"what": what, "ends": end.isoformat(), "days": days})
    return certificates


def _privacy(state: Path) -> dict[str, Any] | None:
    """What was released and what it cost; None where letters are exact."""
    account = views.audit(state)
    if account["budget"] is None:
        return None
    budget, spent, left = account["budget"], account["spent"], account["left"]
    releases = [
        {"receipt": r["receipt"], "time": str(r["time"])[:19], "mechanism": r["mechanism"],
         "epsilon": float(r["epsilon"]), "delta": float(r["delta"]), "about": str(r["data"])}
        for r in account["releases"][-RELEASES:]
    ]  # fmt: skip
    return {
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "accountant": budget.accountant,
        "unit": account["unit"],
        "spent": float(spent.epsilon),
        "left": float(left.epsilon),
        "count": len(account["releases"]),
        "releases": releases,
    }


def _letters(sent: pd.DataFrame) -> list[dict[str, Any]]:
    """The newest letters: to whom, when, how large, and whether they were taken."""
    letters = []
    for line in reversed(sent.to_dict("records")):
        taken = line["acknowledged"]
        letters.append(
            {"to": line["to"], "phase": line["phase"], "round": line["round"] + 1,
             "bytes": line["bytes"], "sha256": line["sha256"], "made": line["made"],
             "taken": None if taken is None or taken != taken else str(taken)}
        )  # fmt: skip
    return letters


def _holds(state: Path, sent: pd.DataFrame, noisy: bool) -> str:
    """What a letter holds, in words: the shapes of its numbers and how they came about."""
    kept = sent[sent["kept"]]
    if not len(kept):
        return "No letter is kept that could be looked into."
    last = kept.iloc[-1]
    try:
        body = views.letter(state, Place(int(last["phase"]), int(last["round"])), str(last["to"]))
        parts = deserialize(body)
    except (SafetensorError, PeerwiseError):  # gone by now, or of another version
        return "The newest letter cannot be looked into."
    shapes = [f"{_words(name)}: {_shape(part['shape'])}" for name, part in sorted(parts)]
    how = (
        "They carry noise that was paid for before they left."
        if noisy
        else "They are exact, with no noise: a neighbour that keeps them can work out this site's "
        "updates."
    )
    return (
        f"A letter holds numbers of the model, and no row: {'; '.join(shapes)}. {how} "
        f"The newest is of round {int(last['round']) + 1} and has {int(last['bytes']):,} bytes "
        "with its signature."
    )


def _words(name: str) -> str:
    """A tensor's path as words: .message.note['size'] is note size."""
    marks = str.maketrans(dict.fromkeys(".[]'\"", " "))
    parts = name.translate(marks).split()
    return " ".join(p for p in parts if p != "message") or name


def _shape(shape: list[int]) -> str:
    count = 1
    for n in shape:
        count *= n
    by = " by ".join(map(str, shape))
    return f"{count:,} number{'s' * (count != 1)}" + (f" ({by})" if len(shape) > 1 else "")


def _tail(path: Path, most: int) -> list[dict[str, Any]]:
    """The newest lines of a log, newest first; what is no JSON is left out."""
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - TAIL, 0))
            lines = file.read().splitlines()
    except OSError:
        return []
    events = []
    for line in reversed(lines):
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            events.append(event)
        if len(events) >= most:
            break
    return events


def _refused(state: Path) -> list[dict[str, Any]]:
    names = ("time", "event", "caller", "address", "method", "why")
    return [{n: _short(e.get(n)) for n in names} for e in _tail(state / SECURITY, REFUSED)]


def _events(state: Path) -> list[dict[str, Any]]:
    """The log without rounds that went as they should, which the chart shows."""
    usual = [e for e in _tail(state / JOURNAL, 40 * EVENTS)
             if e.get("event") != "round" or e.get("missed")]  # fmt: skip
    hidden = {"time", "level", "node", "event", "trace"}
    return [
        {"time": e.get("time"), "level": e.get("level"), "event": _short(e.get("event")),
         "facts": ", ".join(f"{k} {_short(v)}" for k, v in e.items()
                            if k not in hidden and v not in (None, [], ""))}
        for e in usual[:EVENTS]
    ]  # fmt: skip


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 300 else text[:299] + "…"


def act_on(state: Path, do: str, given: Mapping[str, Any], stop: Callable[[], None]) -> str:
    """Do what whoever knows the token asks for; says what was done."""
    who = str(given.get("neighbour", ""))
    if do == "stop":
        stop()
        return "The peer is told to stop; what it learnt is kept."
    if do == "eject":
        views.eject(state, who, "by the operator, on the page")
        return f"{who} is ejected: neither heard nor told anything."
    if do == "readmit":
        views.readmit(state, who)
        return f"{who} is readmitted."
    raise BadSetting(f"the page can stop, eject and readmit, not '{do}'")


def site_page(
    state: Path,
    keys: Path | None,
    health: Callable[[], Mapping[str, Any]] | None,
    stop: Callable[[], None] | None,
    access: Access,
) -> Page:
    """The page of one peer; with a token it can also act."""
    look = SiteLook(state, keys, health)

    def show(path: str) -> tuple[str, str, Any] | None:
        if path != "/":
            return None
        now = look()
        can = access.token is not None and stop is not None
        title = f"{now.get('node', 'peer')} | Peerwise"
        return "site", title, {"now": now, "can": can, "state": str(state)}

    def act(do: str, given: Any) -> dict[str, Any]:
        if stop is None:
            raise BadFile("no peer runs here that could be told anything")
        return {"said": act_on(state, do, given, stop)}

    return Page(show, access, feed=Feed(look, 1.0), act=act if access.token else None)
