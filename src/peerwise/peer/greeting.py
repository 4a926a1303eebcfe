"""What two peers tell each other first: who they are, what they run, and how far they have come.

A greeting is a short table of plain values. Nothing of a caller's charter is parsed: both sides
tell what stands in theirs, key by key, long values as hashes, and compare.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeGuard

import peerwise
from peerwise.peer.charter import Charter
from peerwise.peer.protocol.messages import EJECTED, OVER, Greeting, Place
from peerwise.peer.store.tables import STATE
from peerwise.peer.transport import told

PROTOCOL = 5  # of calls and letters; peers of another do not understand each other
BYTES = 1 << 14  # of a greeting
EDITION = "edition"  # the key of a charter's edition, by which no two charters differ
SHOWN = 60  # characters of a value that is told as it is
FAR = 1 << 53  # no number of a life is greater


def summary(charter: Charter) -> dict[str, str]:
    """The terms of a charter, key by key, long values as hashes; and which edition it is."""
    terms = {key: _short(value) for key, value in charter.values(fixed=True).items()}
    return {**terms, EDITION: str(charter.edition)}


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    if len(text) <= SHOWN:
        return text
    return f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def greeting(facts: Mapping[str, Any], charter: Mapping[str, str]) -> bytes:
    """The first message to a neighbour."""
    versions = {"protocol": PROTOCOL, "state": STATE, "software": peerwise.__version__}
    return json.dumps({**versions, **facts, "charter": charter}).encode()


def spoken(said: Greeting, charter: Mapping[str, str]) -> bytes:
    """The bytes of a greeting."""
    facts = {"knows": said.knows, "first": said.first, "have": said.have, "bye": said.bye,
             "noted": said.noted, "order": said.order}  # fmt: skip
    return greeting({**_where(said), **facts}, charter)


@lru_cache(maxsize=8)  # many are told the same
def whereabouts(said: Greeting) -> bytes:
    """A short answer: how far a peer has come, and in which life."""
    return json.dumps(_where(said)).encode()


def _where(said: Greeting) -> dict[str, Any]:
    return {**({} if said.place is None else said.place._asdict()), "life": said.life}


def refusal(body: bytes, ours: Mapping[str, str], same: bool, here: str, there: str) -> str | None:
    """Why a peer that greets like this cannot be talked to, None if it can.

    `same`: it says that it has the same charter.
    """
    if len(body) > BYTES:
        return f"{there} greets with {len(body)} bytes; {BYTES} are taken"
    theirs = told(body)
    protocol = theirs.get("protocol")
    if protocol != PROTOCOL and (same or "protocol" in theirs or not theirs):
        runs = f"{theirs.get('software')!s:.20}, protocol {protocol!s:.20}"
        return (
            f"{here} runs Peerwise {peerwise.__version__}, protocol {PROTOCOL}, and {there} runs "
            f"another ({runs if theirs else 'before 0.9, or none'}): install the same version"
        )
    if same:
        return None
    return f"{here} has another charter than {there}: {_difference(ours, theirs.get('charter'))}"


def edition_in(body: bytes) -> int:
    """The edition of the charter of whoever greets; 0 where it does not say."""
    charter = told(body).get("charter")
    text = str(charter.get(EDITION)) if isinstance(charter, dict) else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 7 else 0


def _difference(ours: Mapping[str, str], theirs: Any) -> str:
    """The first difference in words."""
    if not isinstance(theirs, dict):
        return "it does not say which"
    for key in {**ours, **theirs}:
        here, there = (side.get(key, "absent") for side in (ours, theirs))
        if here != there and key != EDITION:
            return f"{key!s:.60} is {here} here and {there!s:.60} there"
    return "they are written differently"


def said(answer: bytes) -> Greeting:
    """What is to be believed of a neighbour's greeting or answer: numbers of rounds and lives."""
    return believed(told(answer))


def believed(facts: Mapping[str, Any]) -> Greeting:
    """The same of one that is parsed already."""
    return Greeting(
        place_in(facts),
        _life(facts.get("life")),
        _place(facts.get("first")),
        _place(facts.get("have")),
        _life(facts.get("knows")),
        _bye(facts.get("bye")),
        _bye(facts.get("noted")),
        _life(facts.get("order")),
    )


def place_in(facts: Mapping[str, Any]) -> Place | None:
    """The place that a caller names, if it is one."""
    return _place([facts.get("phase"), facts.get("round")])


def _life(value: Any) -> int:
    return value if _whole(value) and 0 < value < FAR else 0


def _bye(value: Any) -> str:
    return str(value) if value in (EJECTED, OVER) else ""


def _whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _place(pair: Any) -> Place | None:
    """A place, if it is one; round -1 is before the first."""
    if not isinstance(pair, list) or len(pair) != 2 or not all(map(_whole, pair)):
        return None
    fits = 0 <= pair[0] < 1 << 40 and -1 <= pair[1] < 1 << 40
    return Place(*pair) if fits else None
