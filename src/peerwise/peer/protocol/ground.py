"""What all parts of a core share: the rules, what is known, and the effects of an event."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from peerwise.peer.protocol.messages import (
    Answer,
    Checks,
    Count,
    Greeting,
    Kept,
    Log,
    Refuse,
    Ticket,
)
from peerwise.peer.protocol.neighbour import Neighbour
from peerwise.peer.protocol.pace import Pace, View, Wait

POLL = 15.0  # seconds that a pull waits for a letter


class Rules(NamedTuple):
    """What does not change while a peer runs."""

    name: str
    neighbours: tuple[str, ...]
    rounds: tuple[int, ...]  # of every phase; in the last one a model is learnt
    pace: Pace  # of the last phase; the others wait for everybody
    letters: Checks
    ahead: int = 4  # rounds that a letter may be ahead of us
    lag: int = 0  # rounds that a channel may hold letters back
    linger: float = 600.0  # seconds for which one stays until all have the last letter
    parting: float = 60.0  # and then until all know that nothing more comes
    patience: float = math.inf  # seconds without a word of those for whom a round waits


class Ground:
    """The state of a core; nothing here decides."""

    def __init__(self, rules: Rules, kept: Kept, now: float):
        self.rules, self.now, self.begun = rules, now, now
        self.place, self.life, self.partners = kept.place, kept.life, kept.partners
        self.posted = kept.place  # a round is on the disk before its letters are posted
        self.neighbours = {
            name: Neighbour(
                kept.lives.get(name, 0),
                kept.heads.get(name),
                kept.unsent.get(name, []),
                kept.byes.get(name, ""),
            )
            for name in rules.neighbours
        }
        for neighbour in self.neighbours.values():
            neighbour.spoke = now
        # who is yet to say, in this life of ours, what it has of ours
        self.unsaid = set(rules.neighbours) if kept.asks else set()
        self.ejected: Mapping[str, str] = {}  # whom the operator does not want, and why
        # partners and ejected ones, and who is counted of them: asked for at every event
        self._counted: tuple[Any, Any, dict[str, Neighbour]] = None, None, {}
        self.started = False  # whether the network can be used
        self.dials: frozenset[str] = frozenset()
        self.fetchable: frozenset[str] = frozenset()
        self.effects: list[Any] = []
        self.alarms: dict[str, float] = {}  # by neighbour, or "" for the round: when to look again

    @property
    def learns(self) -> bool:
        """Whether this is the phase in which a model is learnt."""
        return self.place.phase == len(self.rules.rounds) - 1

    @property
    def pace(self) -> Pace:
        """How this phase waits; before learning, nobody can be done without."""
        return self.rules.pace if self.learns else Wait()

    @property
    def rounds(self) -> int:
        """How many rounds this phase has."""
        return self.rules.rounds[self.place.phase]

    @property
    def counted(self) -> dict[str, Neighbour]:
        """The neighbours whose letters count in this phase: none where nodes learn alone."""
        partners, ejected, known = self._counted
        if partners is not self.partners or ejected is not self.ejected:
            known = {n: self.neighbours[n] for n in self.partners if n not in self.ejected}
            self._counted = self.partners, self.ejected, known
        return known

    @property
    def view(self) -> View:
        """What the policy is asked about."""
        return View(self.place, self.counted, self.rounds - 1)

    @property
    def where(self) -> dict[str, Any]:
        """Where this peer is, for people."""
        return {"phase": self.place.phase, "round": self.place.round}

    def do(self, effect: Any) -> None:
        """Want something done."""
        self.effects.append(effect)

    def log(self, event: str, warning: bool = False, **facts: Any) -> None:
        """Write something down for people."""
        self.do(Log(event, facts, warning))

    def count(self, what: str, amount: int = 1) -> None:
        """Count something."""
        self.do(Count(what, amount))

    def wake(self, at: float, name: str = "") -> None:
        """Ask to be told the time at a moment, for a neighbour or for the round."""
        self.alarms[name] = min(at, self.alarms.get(name, at))

    def answer(self, ticket: Ticket) -> None:
        """Tell a caller where we are."""
        self.do(Answer(ticket, Greeting(self.place, self.life)))

    def refuse(self, ticket: Ticket, code: str, why: str, kind: str) -> None:
        """Tell a caller why not."""
        self.do(Refuse(ticket, code, why, kind))
