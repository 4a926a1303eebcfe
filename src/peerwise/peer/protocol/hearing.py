"""What is done with a letter that comes: refused, passed over, put aside or kept.

A letter is acknowledged once it is on the disk. Its sender learns where we are, and no more.
"""

from itertools import count
from typing import Any, NamedTuple

from peerwise.peer.protocol.ground import Ground
from peerwise.peer.protocol.messages import (
    NOWHERE,
    BadLetter,
    BadNumbers,
    Body,
    Came,
    Look,
    Looked,
    NoteBye,
    Place,
    Pushed,
    Put,
    PutAside,
    Ticket,
    Written,
)


class Fetch(NamedTuple):
    """The ticket of a letter that we fetched ourselves."""

    name: str


class Coming(NamedTuple):
    """A letter on its way to the disk; `why`: it goes to quarantine."""

    sender: str
    place: Place
    letter: Any
    why: str | None = None


class Hearing(Ground):
    """Letters that come in."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.coming: dict[Ticket, Coming] = {}
        self.serial = count(1)  # of greetings, and of what is noted of neighbours

    def on_pushed(self, event: Pushed) -> None:
        """Judge a letter: its envelope, its time, then what is in it."""
        ticket, sender, body = event
        self.count("received", len(body))
        self.neighbours[sender].spoke = self.now
        try:
            envelope = self.rules.letters.written(body)
        except BadLetter as error:
            self.refuse(ticket, "INVALID_ARGUMENT", str(error), "malformed")
            return
        if envelope.sender != sender:
            why = f"a letter of '{envelope.sender}' from {sender}"
            self.refuse(ticket, "PERMISSION_DENIED", why, "forged")
            return
        place = Place(envelope.phase, envelope.round)
        # before its shape is looked at: that of an earlier phase is another
        if (why_not := self.untimely(sender, place)) is not None:
            self.refuse(ticket, *why_not)
            return
        if self.is_stale(sender, place):
            self.count("stale")
            self.answer(ticket)
            return
        self.open(ticket, sender, place, body)

    def note_bye(self, name: str, bye: str) -> None:
        """Note on the disk that a neighbour has said goodbye, or is back."""
        n = self.neighbours[name]
        if n.bye == bye:
            return
        n.bye = bye
        ticket = "bye", name, next(self.serial)
        n.writing.add(ticket)
        self.do(NoteBye(ticket, name, bye))

    def untimely(self, sender: str, place: Place) -> tuple[str, str, str] | None:
        """Why a letter cannot be taken now: it is of a time that is not yet."""
        if place.phase > self.place.phase:
            return "UNAVAILABLE", f"phase {place.phase}: still in phase {self.place.phase}", "early"
        if place.phase < self.place.phase:
            return None
        if place.round >= self.rounds:
            return "INVALID_ARGUMENT", f"round {place.round} of {self.rounds}", "future"
        if not self.pace.newest and self.is_far(place):
            why = f"round {place.round}, far ahead of round {self.place.round}"
            return "FAILED_PRECONDITION", why, "future"
        if self.leaves_a_hole(sender, place):
            why = f"round {place.round}, and the round before it has not come"
            return "FAILED_PRECONDITION", why, "future"
        return None

    def is_far(self, place: Place) -> bool:
        """Whether a letter is farther ahead than letters are kept for."""
        return place.round > self.place.round + self.rules.ahead

    def leaves_a_hole(self, sender: str, place: Place) -> bool:
        """Whether a letter before it is still to come.

        Our greeting says what we have by its newest: there must be nothing missing before it.
        """
        if self.pace.newest or place.round <= self.place.round:
            return False
        before = Place(place.phase, place.round - 1)
        neighbour = self.neighbours[sender]
        return before not in neighbour.heard and not neighbour.is_gap(before)

    def is_stale(self, sender: str, place: Place) -> bool:
        """Whether a letter is of no use any more."""
        if place.phase < self.place.phase:
            return True
        if self.pace.lasting:
            return place <= max(self.neighbours[sender].heard, default=NOWHERE)
        return place.round < self.place.round

    def open(self, ticket: Ticket, sender: str, place: Place, body: Body) -> None:
        """Take a letter that comes in time to the disk, or to quarantine."""
        neighbour = self.neighbours[sender]
        if self.is_coming(sender, place):
            why = f"a letter for phase {place.phase}, round {place.round} is being written"
            self.refuse(ticket, "UNAVAILABLE", why, "early")
            return
        try:
            letter = self.rules.letters.opened(body, place.phase)
        except BadNumbers as error:
            if place in neighbour.heard:
                self.answer(ticket)
                return
            self.coming[ticket] = Coming(sender, place, None, str(error))
            self.do(PutAside(ticket, sender, place, str(error), body))
        except BadLetter as error:
            self.refuse(ticket, "INVALID_ARGUMENT", str(error), "malformed")
            return
        else:
            if self.is_aside(sender, place):
                self.answer(ticket)
                return
            self.coming[ticket] = Coming(sender, place, letter)
            # far ahead with deadlines, we are the one that is behind: the newest shows where to go
            newest = self.pace.lasting or self.is_far(place)
            self.do(Put(ticket, Came(sender, place, body, newest)))
        neighbour.writing.add(ticket)

    def is_coming(self, sender: str, place: Place) -> bool:
        """Whether a letter of the same place is on its way to the disk: of two the first counts."""
        writing = self.neighbours[sender].writing
        return any(self.coming[one].place == place for one in writing if one in self.coming)

    def is_aside(self, sender: str, place: Place) -> bool:
        """Whether the letter of a place is in quarantine: the round goes on without another."""
        return self.neighbours[sender].heard.get(place, 0) is None

    def on_letter_written(self, event: Written) -> None:
        """A letter is on the disk: it counts from now on, and its sender may forget it."""
        ticket = event.ticket
        sender, place, letter, why = self.coming.pop(ticket)
        neighbour = self.neighbours[sender]
        neighbour.writing.discard(ticket)
        if event.why is not None:
            self.refuse(ticket, "UNAVAILABLE", event.why, "disk")
            return
        if event.differs:
            self.do(Look())  # what is on the disk is what counts
            why = f"another letter for phase {place.phase}, round {place.round} than before"
            self.refuse(ticket, "ALREADY_EXISTS", why, "replayed")
            return
        neighbour.head = max(place, neighbour.head or place)
        if why is not None:
            self.log_aside(sender, place, why)
        if self.is_of_use(sender, place):
            if why is not None:
                self.put_aside(sender, place)
            else:
                self.keep(sender, place, event.shelved(letter) if event.shelved else letter)
        self.answer(ticket)

    def put_aside(self, sender: str, place: Place) -> None:
        """Note a letter in quarantine: its sender is not heard in that round, nor waited for."""
        heard = self.neighbours[sender].heard
        if self.pace.lasting:
            for old in [p for p, letter in heard.items() if letter is None]:
                del heard[old]
        heard.setdefault(place, None)
        self.neighbours[sender].saw(place)

    def keep(self, sender: str, place: Place, letter: Any) -> None:
        """Have a letter at hand for its round."""
        neighbour = self.neighbours[sender]
        if self.is_aside(sender, place) or (self.pace.lasting and self.is_stale(sender, place)):
            return
        if self.pace.lasting or self.is_far(place):  # only the newest is of use
            for old in [p for p in neighbour.heard if p < place and p != self.place]:
                del neighbour.heard[old]
        neighbour.heard[place] = letter
        neighbour.saw(place)
        neighbour.arrived = self.now

    def log_aside(self, sender: str, place: Place, why: str) -> None:
        """Tell people of a letter in quarantine."""
        self.count("quarantine")
        self.log("quarantine", True, sender=sender, **place._asdict(), why=why[:500])

    def forget(self) -> None:
        """Drop letters that are used up."""
        least = 0 if self.pace.lasting else self.place.round - self.rules.lag
        for neighbour in self.neighbours.values():
            for old in [p for p in neighbour.heard if p < Place(self.place.phase, least)]:
                del neighbour.heard[old]

    def take_up(self, event: Looked) -> None:
        """Take up letters that are only in the file, and what the operator did with them."""
        last = dict(sorted(event.aside))  # of a letter that lasts, only the newest counts
        for sender, place in event.aside:
            counts = place == last[sender] if self.pace.lasting else place >= self.place
            if self.is_of_use(sender, place) and counts:
                self.neighbours[sender].heard[place] = None
        for (sender, place), body in event.inbox.items():
            if not self.is_of_use(sender, place):
                continue
            heard = self.neighbours[sender].heard
            if heard.get(place) is not None:
                continue
            try:
                heard[place] = self.rules.letters.opened(body, place.phase)
            except BadNumbers:  # released by the operator, who knows better
                heard[place] = self.rules.letters.opened(body, place.phase, checked=False)
            self.neighbours[sender].saw(place)

    def is_of_use(self, sender: str, place: Place) -> bool:
        """Whether a letter on the disk is of a neighbour that is heard, for a round to come."""
        if sender not in self.neighbours or sender in self.ejected:
            return False
        least = 0 if self.pace.lasting else self.place.round - self.rules.lag
        return place.phase == self.place.phase and place.round >= least
