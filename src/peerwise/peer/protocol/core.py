"""The protocol of one peer without input or output: events in, effects out.

A core holds no socket, clock, disk or thread, so that a test can have many of them live through
anything. A restart is a new core with what the disk holds. Three promises are kept by the order of
effects: a letter is acknowledged only when it is `Written`; a round's letters leave only when it is
`Stored`; a greeting is answered only when all that its sender did before is on the disk.
Every awaited neighbour at last sends a letter, or says that it has none for the round (a gap), or
that it sends nothing any more (a bye: it has ejected us, or has done all its rounds); nothing else
ends a round that waits. Who leaves has told everybody, those it has ejected included, and what they
were told is on their disks. Where nobody who is waited for says a word for very long, a peer ends
and says so.
"""

from typing import Any

from peerwise.peer.protocol.hearing import Fetch
from peerwise.peer.protocol.messages import (
    OVER,
    Amended,
    Answer,
    Looked,
    Pulled,
    Pushed,
    Refuse,
    Started,
    Tick,
    Wake,
    Written,
)
from peerwise.peer.protocol.rounds import Rounds

ANSWERS = (Answer, Refuse)


class Core(Rounds):
    """One peer: `on` is all that happens to it; `refusal` is asked before a call is read."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.farewells: set[str] = set()  # of the ejected, not noted yet

    def on(self, event: Any, now: float, more: bool = False) -> list[Any]:
        """What follows from an event at a time.

        `more`: another follows at once, and only then is there a look whether a round may begin.
        """
        self.now, self.effects = now, []
        before, name = self.place, self.concerns(event)
        while self.farewells:
            self.note_bye(self.farewells.pop(), OVER)
        getattr(self, f"on_{type(event).__name__.lower()}")(event)
        if not more and not self.is_no_news(event):
            self.alarms.pop("", None)
            self.think()
        alone = name in self.neighbours and self.place == before
        for one in (name,) if alone else self.neighbours:
            self.alarms.pop(one, None)
            self.answer_hellos(one)
            self.hand_out(one)
            self.tell(one)
            self.fetch(one)
        if self.alarms and not more:
            self.do(Wake(min(self.alarms.values())))
        return self.effects

    def is_no_news(self, event: Any) -> bool:
        """Whether nothing of an event can make a round begin, nor end this peer.

        A letter counts once it is written; whether others have ours matters in the end.
        """
        return isinstance(event, Pushed) or (isinstance(event, Pulled) and not self.done)

    def concerns(self, event: Any) -> str:
        """The neighbour whom alone an event concerns: of many others nothing need be looked at."""
        if isinstance(event, Written):
            coming = self.coming.get(event.ticket)
            return event.ticket[1] if coming is None else coming.sender
        return str(getattr(event, "sender", getattr(event, "name", "")))

    def do(self, effect: Any) -> None:
        """Want something done; what concerns a letter that we fetched is our own business."""
        if isinstance(effect, ANSWERS) and isinstance(effect.ticket, Fetch):
            self.settle_fetch(effect)
        else:
            super().do(effect)

    def on_started(self, event: Started) -> None:
        """The network can be used."""
        self.started, self.dials, self.fetchable = True, event.dials, event.fetches
        for name in event.fetches:
            self.begin_fetching(name)

    def on_amended(self, event: Amended) -> None:
        """Go on with other addresses and deadlines: those of the round under way, too."""
        self.rules = self.rules._replace(pace=event.pace)
        new, self.dials = event.fetches - self.fetchable, event.dials
        self.fetchable = event.fetches
        for name in new:
            self.begin_fetching(name)

    def on_tick(self, event: Tick) -> None:
        """Time has passed, and that is all."""

    def on_written(self, event: Written) -> None:
        """A letter, the life or the bye of a neighbour is on the disk."""
        if event.ticket in self.coming:
            self.on_letter_written(event)
        else:
            self.on_said_written(event)

    def on_looked(self, event: Looked) -> None:
        """Take up what is in the file, as the operator may have changed it."""
        out = event.ejected.keys() - self.ejected.keys()
        back = self.ejected.keys() - event.ejected.keys()
        self.ejected = dict(event.ejected)
        for name in out & self.neighbours.keys():
            self.log("ejected", True, neighbour=name, why=event.ejected[name])
            n = self.neighbours[name]
            n.greeted = n.parted = False
            n.heard.clear()
            n.line.clear()
            self.refuse_pulls(name)
        for name in back & self.neighbours.keys():
            self.log("readmitted", neighbour=name)
            self.neighbours[name].greeted = self.neighbours[name].parted = False
        self.take_up(event)

    def refusal(self, caller: str, life: int, bye: str = "") -> tuple[str, str, str] | None:
        """Why a caller has nothing to say here: code, reason and kind; None if it may speak.

        Of one that is ejected only a `bye` is taken: should it be readmitted, nobody waits for it.
        """
        if caller not in self.neighbours:
            why = f"'{caller}' is no neighbour of {self.rules.name}"
            return "PERMISSION_DENIED", why, "stranger"
        if caller in self.ejected:
            n = self.neighbours[caller]
            n.parted = n.parted or caller not in self.dials  # by this answer
            if bye == OVER and life >= n.life:
                self.farewells.add(caller)
            return "ABORTED", f"{self.rules.name} has ejected {caller}", "ejected"
        if life < self.neighbours[caller].life:
            why = (
                f"another copy of {caller} runs that was started later; stop one of them, or, if "
                "there is none, set the clock"
            )
            return "FAILED_PRECONDITION", why, "copy"
        return None
