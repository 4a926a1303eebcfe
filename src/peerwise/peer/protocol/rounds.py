"""When a round begins, what becomes of it, and where a peer goes on that was away or put back."""

import math
from typing import Any

from peerwise.peer.protocol.messages import (
    NOWHERE,
    Advance,
    Compute,
    Computed,
    Done,
    End,
    Log,
    Place,
    Stored,
)
from peerwise.peer.protocol.neighbour import Neighbour
from peerwise.peer.protocol.telling import Telling

LOOK = 1.0  # seconds between two looks whether all know that nothing more comes
SAY = 60.0  # seconds after which a peer that waits says for whom
ASKS = "started again, it goes on once they have said which of its letters they have"


class Rounds(Telling):
    """One round after another."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.computing: tuple[Compute, list[str]] | None = None  # and who is missing
        self.storing: tuple[Advance, tuple[str, ...] | None] | None = None
        self.joined = False  # whether this round was looked at for neighbours far ahead
        self.waiting: tuple[str, ...] = ()  # for whom the round waits
        self.said_at = self.now  # when people were last told so
        self.over: float | None = None  # since when all rounds are done
        self.delivered_at: float | None = None  # since when all have the last letter
        self.ended = False

    def think(self) -> None:
        """Begin a round if it may begin; leave if there is nothing more to do."""
        if self.computing is not None or self.storing is not None or self.ended:
            return
        if self.done:
            self.leave()
            return
        if asked := self.asked():
            self.waiting = asked
            self.wait(math.inf)
            return
        if not self.joined:
            self.joined = True
            self.said_at = self.begun = self.now
            if (there := self.to_join()) is not None:
                self.jump("joins", there)
                return
        self.waiting, limit = self.verdict()
        passed = self.now - self.begun
        if self.waiting and passed < limit:
            self.wait(limit)
            return
        if (there := self.to_catch_up()) is not None:
            self.jump("catches up", there)
            return
        self.begin()

    def asked(self) -> tuple[str, ...]:
        """Those who must say what they have of ours before a round begins.

        A peer that was put back to an old state may have sent what it does not know of: a term of a
        sealed sum, in whose place another, under the same mask, would tell their difference; or an
        update with noise, which must not be drawn twice. Nobody is asked before the last round,
        which no letter follows; nor who is ejected, or is done.
        """
        if self.learns and self.place.round + 1 >= self.rounds:
            return ()
        silent = self.unsaid - self.ejected.keys()
        return tuple(sorted(name for name in silent if not self.neighbours[name].over))

    def verdict(self) -> tuple[tuple[str, ...], float]:
        """For whom the round waits, and for how many seconds after its begin."""
        waiting, limit = self.pace.verdict(self.view)
        return tuple(waiting), limit

    def wait(self, limit: float) -> None:
        """Come back when the time is up, or to say for whom this peer waits."""
        if self.now >= self.said_at + SAY:
            self.said_at = self.now
            why = {"why": ASKS} if self.asked() else {}
            self.do(Log("waiting", {**self.where, "for": list(self.waiting), **why}))
        until = self.begun + limit
        if limit == math.inf:
            until = max(self.neighbours[name].spoke for name in self.waiting) + self.rules.patience
            if self.now >= until:
                self.give_up()
                return
        self.wake(min(until, self.said_at + SAY))

    def give_up(self) -> None:
        """End before all rounds are done: nobody answers who is waited for."""
        seconds = self.rules.patience
        self.log("nobody answers", True, **self.where, **{"for": self.waiting, "seconds": seconds})
        self.ended = True
        self.do(End((), self.waiting))

    def begin(self) -> None:
        """Compute the round with what was heard."""
        offered = self.pace.offered(self.view)
        missing = [name for name, n in self.counted.items() if n.heard.get(self.place) is None]
        if self.pace.lasting:
            missing = [name for name in self.counted if name not in offered]
        for name, n in self.counted.items():
            if self.place in n.heard:
                n.lags.append(max(n.arrived - self.begun, 0.0))
            if self.pace.lasting and name in offered:
                ((place, _),) = offered[name].values()
                n.used = place.round
        effect = Compute(
            self.place, self.after(), offered, not self.pace.lasting, self.newest_said()
        )
        self.computing = effect, missing
        self.do(effect)

    def newest_said(self) -> Place:
        """The newest of our letters that a neighbour is known to have."""
        return max((n.said or NOWHERE for n in self.neighbours.values()), default=NOWHERE)

    def after(self) -> Place:
        """The place after this round: the next, or the begin of the next phase."""
        if self.place.round + 1 < self.rounds or self.learns:
            return Place(self.place.phase, self.place.round + 1)
        return Place(self.place.phase + 1, 0)

    def on_computed(self, event: Computed) -> None:
        """Store the round and its letters at once, before anybody hears of it."""
        assert self.computing is not None
        (effect, missing), self.computing = self.computing, None
        done = None
        if effect.heard is not None:
            missed = sorted({*missing, *event.left_out})
            seconds = self.now - self.begun
            done = Done(effect.place, event.heard, tuple(missed), seconds, event.error)
        for name, (place, why) in event.aside.items():
            self.log_aside(name, place, why)
        bodies = {n: body for n, body in event.bodies.items() if n not in self.ejected}
        lag = max(self.pace.staleness, self.rules.lag)
        newest = self.pace.newest or done is None
        advance = Advance(
            effect.after, event.result, bodies, self.acknowledged(), done, event.aside, lag + 1,
            newest,
        )  # fmt: skip
        self.storing = advance, event.partners
        self.do(advance)

    def acknowledged(self) -> dict[str, Place]:
        """What neighbours have of ours that is not on the disk yet."""
        new = {}
        for name, n in self.neighbours.items():
            if n.acknowledged is not None:
                new[name], n.acknowledged = n.acknowledged, None
        return new

    def on_stored(self, event: Stored) -> None:
        """The round is on the disk: its letters may leave."""
        assert self.storing is not None
        (advance, partners), self.storing = self.storing, None
        self.log_round(advance)
        self.place, self.joined = advance.place, False
        if partners is not None:
            self.partners = partners
        for name, (place, _) in advance.aside.items():
            self.neighbours[name].heard[place] = None
        self.forget()
        self.post(advance.bodies)

    def log_round(self, advance: Advance) -> None:
        """Tell people of a round."""
        done = advance.done
        if done is None:
            return
        if advance.place.phase != self.place.phase:
            self.log("agreed", **advance.place._asdict())
            return
        self.log(
            "round", phase=done.place.phase, round=advance.place.round, heard=len(done.heard),
            missed=list(done.missed), seconds=round(done.seconds, 4), error=done.error,
        )  # fmt: skip

    # -- going on elsewhere

    def to_join(self) -> int | None:
        """The round that half of the neighbours have reached, if it is far ahead."""
        if not self.pace.joins or not self.counted:
            return None
        here = self.place
        seen = [n.seen for n in self.counted.values()]
        rounds = sorted(p.round if p.phase == here.phase else here.round for p in seen)
        # with neighbours of whom more than half are honest, an honest one is as far
        there = min(rounds[(len(rounds) - 1) // 2], self.rounds - 1)
        return there if there > here.round + 1 else None

    def to_catch_up(self) -> int | None:
        """The first round for which a neighbour still has a letter, if none has one for ours."""
        if self.pace.newest or not self.learns:
            return None
        here = self.place
        if any(here in n.heard for n in self.counted.values()):
            return None
        nexts = [place for n in self.counted.values() for place in self.nexts(n)]
        there = min(nexts, default=here)
        if there.phase != here.phase:
            return None
        last = min(there.round, self.rounds - 1)
        return last if here.round < last else None

    def nexts(self, n: Neighbour) -> list[Place]:
        """For which places a neighbour has letters: those that are here, and where more begin."""
        here = [p for p, letter in n.heard.items() if letter is not None and p > self.place]
        if n.gone:
            return here
        if n.over:
            return [*here, Place(self.place.phase, self.rounds)]
        return [*here, n.first or self.place]

    def jump(self, event: str, there: int) -> None:
        """Go on in a later round with the state that there is."""
        self.log(event, event == "catches up", **self.where, at=there)
        effect = Compute(self.place, Place(self.place.phase, there), None, said=self.newest_said())
        self.computing = effect, []
        self.do(effect)

    # -- the end

    def leave(self) -> None:
        """End once all neighbours have the last letters, or after as long as one stays."""
        if not self.started:
            return
        if self.over is None:
            self.over = self.now
        linger = self.rules.linger
        if self.pace.newest:  # nobody waits for us, and some have gone
            linger = min(linger, 2 * self.pace.limit)
        if self.undelivered and self.now < self.over + linger:
            self.delivered_at = None
            self.wake(self.over + linger)
            return
        if self.delivered_at is None:
            self.delivered_at = self.now
        until = self.delivered_at + min(linger, self.rules.parting)
        unanswered = any(n.hellos for n in self.neighbours.values())
        if (self.unaware or unanswered) and self.now < until:
            self.wake(min(until, self.now + LOOK))
            return
        self.end()

    def end(self) -> None:
        """Leave, and say who lacks a letter, and who was not told."""
        left = self.undelivered
        if left:
            self.log("left before all had the last letter", True, to=left)
        if untold := [name for name in self.unaware if name in self.ejected]:
            self.log("left before the ejected knew that they are", True, to=untold)
        self.ended = True
        self.do(End(() if self.pace.newest else tuple(left)))

    @property
    def undelivered(self) -> list[str]:
        """The neighbours that still lack a letter, but for those that want none or are done."""
        end = Place(len(self.rules.rounds) - 1, self.rules.rounds[-1])
        wanted = {name: n for name, n in self.neighbours.items() if name not in self.ejected}
        return [name for name, n in wanted.items() if n.lacks and n.seen < end]

    @property
    def unmet(self) -> list[str]:
        """The neighbours that have not heard, in their present life, that we have met.

        One that was started again begins no round of sealed sums before it has.
        """
        wanted = {n: one for n, one in self.neighbours.items() if n not in self.ejected}
        return [
            name
            for name, n in wanted.items()
            if not n.bye and not n.greeted and (not n.met or n.answered != n.life)
        ]
