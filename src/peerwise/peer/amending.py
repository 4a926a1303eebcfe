"""Charters that are amended while a federation runs, in what each site may change by itself.

The terms (who, what is learnt, how, within which budget) are a charter's hash and stay. Addresses
and deadlines are no part of it: a site takes a new edition when it has it, and the others go on
with theirs. Whoever has an older one than a neighbour is told so.
"""

import tomllib
from collections.abc import Mapping
from typing import Any

from peerwise.errors import BadSetting, PeerwiseError, UnknownName
from peerwise.peer.charter import Charter, checked
from peerwise.peer.greeting import edition_in, summary
from peerwise.peer.journal import log
from peerwise.peer.protocol.messages import Amended
from peerwise.peer.protocol.pace import paced


class Amending:
    """The edition of its charter that a peer goes by; `said` is what it tells others of it."""

    def __init__(self, charter: Charter, name: str, addresses: Mapping[str, str]):
        self.charter, self._name, self._given = charter, name, addresses
        self.said, self._told = summary(charter), dict[str, int]()

    def addresses(self) -> dict[str, str]:
        """Where neighbours can be dialled, of those who can."""
        nodes = self.charter.nodes
        known = {n: self._given.get(n) or nodes[n].address for n in nodes[self._name].neighbours}
        return {name: address for name, address in known.items() if address}

    def event(self) -> Amended:
        """What the core is told of it."""
        dials = frozenset(self.addresses())
        is_dialled = bool(self.charter.nodes[self._name].address)
        pace = paced(**self.charter.pace.model_dump())
        return Amended(dials, frozenset() if is_dialled else dials, pace)

    def take(self, text: str) -> bool:
        """Go on with the edition that a text is; whether it is another, and may be."""
        if text == self.charter.text():
            return False
        try:
            new = Charter.parse(text, "the state", self.charter.own_code)
            changes = self.charter.amendments(new)
        except PeerwiseError as error:
            log.warning("not amended", extra={"facts": {"why": str(error)[:500]}})
            return False
        if not changes:
            return False
        own = [charter.nodes[self._name].address for charter in (self.charter, new)]
        later = {} if own[0] == own[1] else {"at the next start": "the address of this node"}
        facts = {"edition": new.edition, "changes": changes[:20], **later}
        log.info("amended", extra={"facts": facts})
        self.charter = new
        self.said.clear()
        self.said.update(summary(new))
        return True

    def compare(self, neighbour: str, greeting: Any) -> None:
        """Say once that a neighbour, which greets like this, has a newer edition."""
        if not isinstance(greeting, bytes):
            return
        there = edition_in(greeting)
        if there > max(self.charter.edition, self._told.get(neighbour, 0)):
            self._told[neighbour] = there
            facts = {"neighbour": neighbour, "there": there, "here": self.charter.edition}
            log.warning("a neighbour has a newer edition of the charter", extra={"facts": facts})


def amended(
    charter: Charter,
    addresses: Mapping[str, str | None],
    pace: Mapping[str, Any],
    limits: Mapping[str, Any],
) -> Charter:
    """The next edition of a charter, with what is given and not None; checked like any other."""
    raw = tomllib.loads(charter.text())
    for name, address in addresses.items():
        if name not in raw["nodes"]:
            raise UnknownName("node", name, raw["nodes"])
        raw["nodes"][name].pop("address", None)
        raw["nodes"][name] |= {} if address is None else {"address": address}
    for section, given in (("pace", pace), ("limits", limits)):
        raw[section] |= {key: value for key, value in given.items() if value is not None}
    new = checked({**raw, "edition": charter.edition + 1}, "the new edition", ())
    if len(charter.amendments(new)) < 2:  # its number alone is no news
        raise BadSetting("nothing to amend: give --address, --deadline or another option")
    return new
