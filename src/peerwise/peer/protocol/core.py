"""The protocol of one peer without input or output: events in, effects out.

A core holds no socket, clock, disk or thread, so that a test can have many of them live through
anything. A restart is a new core with what the disk holds. Three promises are kept by the order of
effects: a letter is acknowledged only when it is `Written`; a round's letters leave only when it is
`Stored`; a greeting is answered only when all that its sender did before is on the disk.
Every awaited neighbour at last sends a letter, or says that it has none for the round (a gap), or
that it listens no more (a bye); nothing else ends a round that waits.
"""

from typing import Any

from peerwise.peer.protocol.hearing import Fetch
from peerwise.peer.protocol.messages import (
    Answer,
    Looked,
    Pushed,
    Refuse,
    Started,
    Tick,
    Wake,
    Written,
)
from peerwise.peer.protocol.rounds import Rounds


class Core(Rounds):
    """One peer: `on` is all that happens to it; `refusal` is asked before a call is read."""

    def on(self, event: Any, now: float) -> list[Any]:
        """What follows from an event at a time."""
        self.now, self.effects = now, []
        before, name = self.place, self.concerns(event)
        getattr(self, f"on_{type(event).__name__.lower()}")(event)
        if not isinstance(event, Pushed):  # which counts once it is written
            self.alarms.pop("", None)
            self.think()
        alone = name in self.neighbours and self.place == before
        for one in (name,) if alone else self.neighbours:
            self.alarms.pop(one, None)
            self.answer_hellos(one)
            self.hand_out(one)
            self.tell(one)
            self.fetch(one)
        if self.alarms:
            self.do(Wake(min(self.alarms.values())))
        return self.effects

    def concerns(self, event: Any) -> str:
        """The neighbour whom alone an event concerns: of many others nothing need be looked at."""
        if isinstance(event, Written):
            coming = self.coming.get(event.ticket)
            return event.ticket[1] if coming is None else coming.sender
        return str(getattr(event, "sender", getattr(event, "name", "")))

    def do(self, effect: Any) -> None:
        """Want something done; what concerns a letter that we fetched is our own business."""
        if isinstance(effect, Answer | Refuse) and isinstance(effect.ticket, Fetch):
            self.settle_fetch(effect)
        else:
            super().do(effect)

    def on_started(self, event: Started) -> None:
        """The network can be used."""
        self.dials, self.fetchable = event.dials, event.fetches
        for name in event.fetches:
            self.begin_fetching(name)

    def on_tick(self, event: Tick) -> None:
        """Time has passed, and that is all."""

    def on_written(self, event: Written) -> None:
        """A letter or the life of a neighbour is on the disk."""
        if event.ticket in self.coming:
            self.on_letter_written(event)
        else:
            self.on_life_written(event)

    def on_looked(self, event: Looked) -> None:
        """Take up what is in the file, as the operator may have changed it."""
        out = event.ejected.keys() - self.ejected.keys()
        back = self.ejected.keys() - event.ejected.keys()
        self.ejected = dict(event.ejected)
        for name in out & self.neighbours.keys():
            self.log("ejected", True, neighbour=name, why=event.ejected[name])
            n = self.neighbours[name]
            n.greeted = False
            n.heard.clear()
            n.line.clear()
        for name in back & self.neighbours.keys():
            self.log("readmitted", neighbour=name)
        self.take_up(event)

    def refusal(self, caller: str, life: int) -> tuple[str, str, str] | None:
        """Why a caller has nothing to say here: code, reason and kind; None if it may speak."""
        if caller not in self.neighbours:
            why = f"'{caller}' is no neighbour of {self.rules.name}"
            return "PERMISSION_DENIED", why, "stranger"
        if caller in self.ejected:
            return "ABORTED", f"{self.rules.name} has ejected {caller}", "ejected"
        if life < self.neighbours[caller].life:
            why = (
                f"another copy of {caller} runs that was started later; stop one of them, or, if "
                "there is none, set the clock"
            )
            return "FAILED_PRECONDITION", why, "copy"
        return None
