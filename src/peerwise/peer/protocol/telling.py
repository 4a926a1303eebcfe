"""How letters get to neighbours: in order, until each has them, whoever dials.

A neighbour is greeted before it is sent anything. What it says it has is not sent again; what it
lacks after it was put back to an older state is.
"""

from collections.abc import Mapping
from contextlib import suppress

from peerwise.peer.protocol.ground import POLL
from peerwise.peer.protocol.hearing import Fetch, Hearing
from peerwise.peer.protocol.messages import (
    EJECTED,
    NOWHERE,
    OVER,
    Answer,
    Answered,
    Ask,
    Away,
    BadLetter,
    Failed,
    Greeting,
    Helloed,
    Load,
    Loaded,
    NoteLife,
    Place,
    Pulled,
    Pushed,
    Refuse,
    Written,
)
from peerwise.peer.protocol.neighbour import FIRST_WAIT, LONGEST_WAIT, Neighbour

REGREET = ("UNAVAILABLE", "ABORTED", "FAILED_PRECONDITION")  # Hello says more


class Telling(Hearing):
    """Letters that go out, greetings and byes."""

    @property
    def done(self) -> bool:
        """Whether all rounds are done."""
        return self.learns and self.place.round >= self.rounds

    # -- what neighbours say of themselves

    def greeting(self, name: str) -> Greeting:
        """What a neighbour is told first."""
        n, bye = self.neighbours[name], self.bye_to(name)
        order = next(self.serial)
        if bye == EJECTED:
            return Greeting(life=self.life, bye=bye, order=order)
        return Greeting(self.place, self.life, self.first(n), n.head, n.met, bye, n.bye, order)

    def bye_to(self, name: str) -> str:
        """The bye that a neighbour is to hear: it is ejected, or has all that it is ever told."""
        if name in self.ejected:
            return EJECTED
        n = self.neighbours[name]
        return OVER if self.done and not n.line and not n.loading else ""

    @property
    def unaware(self) -> list[str]:
        """Those who do not know yet that nothing more comes, and may wait for it.

        Who has ejected us is told, too, if we can: it may take us back.
        """
        unreachable = {x for x, n in self.neighbours.items() if n.gone and x not in self.dials}
        known = {name for name, n in self.neighbours.items() if n.parted or n.over}
        return [name for name in self.neighbours if name not in unreachable | known]

    def first(self, n: Neighbour) -> Place:
        """The place of the next letter to a neighbour: what is earlier does not come any more."""
        return n.line[0].place if n.line else Place(self.posted.phase, self.posted.round + 1)

    def on_helloed(self, event: Helloed) -> None:
        """A neighbour greets; it is answered once all that it did before is on the disk."""
        self.neighbours[event.sender].hellos.append(event.ticket)
        self.hear_greeting(event.sender, event.said)
        self.answer_hellos(event.sender)

    def answer_hellos(self, name: str, why: str | None = None) -> None:
        """Answer greetings, unless letters of a former life are still being written."""
        n = self.neighbours[name]
        if why is None and (n.loading or n.writing):
            return
        waiting, n.hellos = n.hellos, []
        for ticket in waiting:
            if why is None:
                n.answered = n.met
                self.do(Answer(ticket, self.greeting(name)))
            else:
                self.refuse(ticket, "UNAVAILABLE", why, "disk")

    def hear_greeting(self, name: str, said: Greeting) -> None:
        """Take note of what a neighbour said first, in a call or in its answer."""
        n = self.neighbours[name]
        n.spoke = self.now
        if said.life > n.life:
            n.life, n.parted, n.order = said.life, False, 0
            ticket = "life", name, said.life
            n.writing.add(ticket)
            self.do(NoteLife(ticket, name, said.life))
        if said.bye == EJECTED:
            self.hear_bye(name, said)
            return
        if n.met != n.life == said.life:
            self.meet(name, said)
        if said.have is not None:
            self.already_said(name, said.have)
        if said.place is not None and self.knows_us(said):  # no letter of a former life comes later
            self.unsaid.discard(name)
        if said.first is not None and self.knows_us(said):
            n.first = max(said.first, n.first or said.first)
        if said.place is not None:
            n.saw(said.place)
        if self.hear_bye(name, said):
            n.parted = bool(said.noted) and said.noted == self.bye_to(name)

    def hear_bye(self, name: str, said: Greeting) -> bool:
        """Take note of whether a neighbour says goodbye, unless it has said more since then."""
        n = self.neighbours[name]
        if (said.life, said.order) < (n.life, n.order):
            return False
        n.order = said.order if said.life == n.life else 0
        if said.bye != OVER or self.knows_us(said):  # who has not met us may have more to say
            self.note_bye(name, said.bye)
        return True

    def knows_us(self, said: Greeting) -> bool:
        """Whether a neighbour has put its letters together for this life of ours."""
        return said.knows == self.life

    def on_said_written(self, event: Written) -> None:
        """The life of a neighbour, or its bye, is on the disk."""
        what, name, _ = event.ticket
        n = self.neighbours[name]
        n.writing.discard(event.ticket)
        if event.why is not None:
            self.answer_hellos(name, event.why)
        if what == "bye" and name in self.fetchable:
            n.greeted = False  # it cannot ask us whether we know

    def meet(self, name: str, said: Greeting) -> None:
        """One of us was started again, maybe from a backup: it may lack what it had."""
        n = self.neighbours[name]
        seen, n.seen, n.first = n.seen, NOWHERE, None
        if said.place is None:
            return
        n.met = n.life
        if said.place < seen:
            facts = {"neighbour": name, "was at": seen, "is at": said.place}
            self.log("a neighbour has gone back", True, **facts)
        have = said.have or Place(0, -1)
        n.loading += 1
        self.do(Load(name, max(said.place, Place(have.phase, have.round + 1))))

    def on_loaded(self, event: Loaded) -> None:
        """Put the line to a neighbour together: what is kept, and what was posted meanwhile."""
        n = self.neighbours[event.name]
        n.loading -= 1
        letters = {away.place: away for away in (*event.letters, *n.line)}
        letters = {place: letters[place] for place in letters if place >= event.since}
        order = sorted(letters)
        if self.pace.newest:  # who is in an earlier phase needs all letters of that
            order = [p for p in order if p.phase < self.place.phase] + order[-1:]
        n.line.clear()
        if event.name not in self.ejected:
            n.line.extend(letters[place] for place in dict.fromkeys(order))
        self.answer_hellos(event.name)

    def already_said(self, name: str, have: Place) -> None:
        """What a neighbour has of ours is not said to it again, in other words."""
        n = self.neighbours[name]
        if have > self.place and have.phase == self.place.phase and n.said != have:
            facts = {"neighbour": name, "has our letter of round": have.round}
            self.log("this peer has gone back", True, **self.where, **facts)
        n.said = have
        self.delivered(n, have)

    # -- letters that go out

    def post(self, bodies: Mapping[str, bytes]) -> None:
        """Put the letters of a new round, which are on the disk, into the lines."""
        self.posted = self.place
        for name, body in bodies.items():
            if name in self.ejected:
                continue
            n = self.neighbours[name]
            if self.place <= (n.said or NOWHERE):
                n.acknowledged = self.place
                continue
            if self.pace.newest:
                while n.line and n.line[-1].place.phase == self.place.phase:
                    n.line.pop()  # only the newest is of use
            n.line.append(Away(name, self.place, body))

    def delivered(self, n: Neighbour, place: Place) -> None:
        """A neighbour has all letters up to a place."""
        n.acknowledged = max(place, n.acknowledged or place)
        while n.line and n.line[0].place <= place:
            self.count("sent", len(n.line.popleft().body))

    def tell(self, name: str) -> None:
        """Call a neighbour, if there is anything to say and no call is under way."""
        n = self.neighbours[name]
        if name not in self.dials or n.loading or n.calls.asked is not None:
            return
        bye = self.bye_to(name)
        if self.is_told(n, bye):
            return
        if not n.calls.is_free(self.now):
            self.wake(n.calls.due, name)
            return
        if bye or not n.greeted:
            n.calls.asked = "Hello", n.met, bye
            self.do(Ask(name, "Hello", self.greeting(name)))
        else:
            n.calls.asked = "Push", n.life, n.line[0].place
            self.do(Ask(name, "Push", n.line[0]))

    def is_told(self, n: Neighbour, bye: str) -> bool:
        """Whether a neighbour has heard all that there is to say."""
        if bye == EJECTED:
            return n.parted
        return n.greeted and (n.parted if bye else not n.line)

    def on_answered(self, event: Answered) -> None:
        """A neighbour answered our call."""
        if event.method == "Pull":
            self.on_fetched(event)
            return
        n = self.neighbours[event.name]
        (_, life, about), n.calls.asked = n.calls.asked, None
        said = event.said
        if event.name in self.ejected:
            self.hear_bye(event.name, said)
            n.parted = n.parted or said.noted == about == EJECTED
            n.calls.failed(self.now)  # where it has not noted it, it is told again
            return
        if said.life < n.life:
            n.calls.due = self.now + LONGEST_WAIT
            why = f"an older copy of {event.name} answers, or something else"
            self.note_trouble(event.name, why)
            return
        if event.method == "Hello":
            self.hear_greeting(event.name, said)
            n.greeted = n.met == life  # else it must hear from us that we have met
            if self.bye_to(event.name) and n.greeted and not n.parted:
                n.calls.failed(self.now)
            return
        n.calls.worked()
        n.spoke = self.now
        self.note_life(n, said)
        if n.life > life or n.newer > life:
            n.greeted = False  # not what this life has been told
            return
        if said.place is not None:
            n.saw(said.place)
        n.trouble = ""
        self.delivered(n, about)

    def note_life(self, n: Neighbour, said: Greeting) -> None:
        """See by an answer that a neighbour was started again: it may lack what it had."""
        if said.life > n.life:
            n.newer, n.greeted, n.parted = said.life, False, False

    def on_failed(self, event: Failed) -> None:
        """A neighbour did not answer our call, or refused it."""
        n, name = self.neighbours[event.name], event.name
        retry = n.fetches if event.method == "Pull" else n.calls
        asked, retry.asked = retry.asked, None
        why = f"{event.code}: {event.why}"
        self.note_trouble(name, why)
        if event.code == "ABORTED":  # it does not listen, and will not speak: go on without
            self.note_bye(name, EJECTED)
            n.parted = n.parted or (event.method == "Hello" and asked[2] == OVER)
        if event.method == "Push" and event.code == "ALREADY_EXISTS":  # said, in other words
            if n.life == asked[1]:
                self.delivered(n, asked[2])
            return
        if event.code in REGREET:
            n.greeted = False
        retry.failed(self.now)

    def note_trouble(self, name: str, why: str) -> None:
        """Say once why a neighbour cannot be told anything, until it can or the reason changes."""
        n = self.neighbours[name]
        if n.trouble != why:
            n.trouble = why
            self.log("cannot send", True, to=name, why=why[:500])

    # -- letters that are pulled

    def on_pulled(self, event: Pulled) -> None:
        """A neighbour that nobody can dial waits for our next letter."""
        n = self.neighbours[event.sender]
        n.spoke = self.now
        self.delivered(n, event.have)
        n.pulls.append((event.ticket, self.now + min(event.wait, POLL)))

    def hand_out(self, name: str) -> None:
        """Answer those who pull, once there is a letter or they have waited for long enough."""
        n = self.neighbours[name]
        pulls, n.pulls = n.pulls, []
        for ticket, until in pulls:
            if n.line and not n.loading:
                self.do(Answer(ticket, n.line[0]))
            elif self.now >= until or (self.done and not n.loading):
                self.answer(ticket)
            else:
                n.pulls.append((ticket, until))
                self.wake(until, name)

    def refuse_pulls(self, name: str) -> None:
        """Tell one that waits for our next letter that it is ejected."""
        n = self.neighbours[name]
        waiting, n.pulls = n.pulls, []
        for ticket, _ in waiting:
            self.refuse(ticket, "ABORTED", f"{self.rules.name} has ejected {name}", "ejected")
            n.parted = n.parted or name not in self.dials

    def begin_fetching(self, name: str) -> None:
        """Note what we have of a neighbour from which letters are pulled."""
        before = Place(self.place.phase, -1 if self.pace.lasting else self.place.round - 1)
        self.neighbours[name].fetched = max(self.neighbours[name].heard, default=before)

    def fetch(self, name: str) -> None:
        """Pull the next letter of a neighbour, for a peer that nobody can dial."""
        n = self.neighbours[name]
        if name not in self.fetchable or name in self.ejected or n.fetches.asked is not None:
            return
        if not n.fetches.is_free(self.now):
            self.wake(n.fetches.due, name)
            return
        n.fetches.asked = n.fetched
        self.do(Ask(name, "Pull", n.fetched, POLL))

    def on_fetched(self, event: Answered) -> None:
        """What we pulled has come; it is judged like any other letter."""
        n = self.neighbours[event.name]
        self.note_life(n, event.said)  # it may not be able to dial us
        n.spoke = self.now
        if event.body is None:
            ahead = event.said.place is not None and event.said.place > self.place
            if ahead and not n.over:
                n.greeted = False  # it is ahead and has no letter for us: a greeting says why
            self.fetch_later(n)
        else:
            with suppress(BadLetter):
                n.fetches.asked = Place(*self.rules.letters.written(event.body)[1:])
            self.on_pushed(Pushed(Fetch(event.name), event.name, event.body))

    def settle_fetch(self, effect: Answer | Refuse) -> None:
        """The letter that we fetched was taken, or refused by ourselves."""
        n = self.neighbours[effect.ticket.name]
        place, n.fetches.asked = n.fetches.asked, None
        if isinstance(effect, Refuse):
            n.greeted = n.greeted and effect.code not in REGREET
            n.fetches.failed(self.now)
        elif place > n.fetched:
            n.fetched = place
            n.fetches.worked()
        else:
            self.fetch_later(n)

    def fetch_later(self, n: Neighbour) -> None:
        """Nothing new was fetched: whoever answers at once is not asked at once again."""
        n.fetches.asked = None
        n.fetches.worked()
        n.fetches.due = self.now + (LONGEST_WAIT if n.over else FIRST_WAIT)
