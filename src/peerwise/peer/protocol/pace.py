"""How long a round waits, and for whom: one small policy for each mode of a charter.

A policy is asked whenever something has happened, and keeps nothing itself.
"""

import math
from collections.abc import Mapping
from statistics import median
from typing import Any, NamedTuple, Protocol

from peerwise.peer.protocol.messages import Place
from peerwise.peer.protocol.neighbour import Neighbour

LEAST_WAIT = 0.2  # seconds: an adaptive deadline is not shorter
PATIENCE = 4.0  # times the usual time that an adaptive deadline waits


class View(NamedTuple):
    """What a policy sees: where the peer is, and the neighbours whose letters count."""

    place: Place
    partners: Mapping[str, Neighbour]
    last: int  # the last round of the phase


class Verdict(NamedTuple):
    """For whom a round waits, and how many seconds after its begin it waits no more."""

    waiting: list[str]
    limit: float


class Pace(Protocol):
    """What is common to all modes."""

    newest: bool  # of several letters only the newest is of use, and only that one is sent
    lasting: bool  # a letter is of use until a newer one comes
    joins: bool  # a peer that was away goes on where half of its neighbours are
    limit: float  # seconds that a round may last
    staleness: int  # rounds for which a letter is kept after its own

    def verdict(self, view: View) -> Verdict:
        """Whether the round may begin."""

    def offered(self, view: View) -> dict[str, dict[int, tuple[Place, Any]]]:
        """By neighbour and round: the letters that the round may hear."""


def _expected(view: View) -> list[str]:
    """Those from whom a letter for this round may still come: no gap, no bye."""
    return [
        name
        for name, n in view.partners.items()
        if view.place not in n.heard and not n.gone and not n.is_gap(view.place)
    ]


def _all(view: View) -> dict[str, dict[int, tuple[Place, Any]]]:
    """The letters of this phase up to this round: late channels hear old ones."""
    return {
        name: {
            p.round: (p, letter)
            for p, letter in n.heard.items()
            if letter is not None and p.phase == view.place.phase and p.round <= view.place.round
        }
        for name, n in view.partners.items()
    }


class Wait:
    """A round waits for every neighbour, for as long as it takes."""

    newest = lasting = joins = False
    limit, staleness = math.inf, 0

    def verdict(self, view: View) -> Verdict:
        """Whether every neighbour has sent a letter, has none or has said goodbye."""
        return Verdict(_expected(view), math.inf)

    def offered(self, view: View) -> dict[str, dict[int, tuple[Place, Any]]]:
        """All letters up to this round."""
        return _all(view)


class Deadline:
    """A round waits for so many seconds; the first one longer, as some start later."""

    newest = joins = True
    lasting, staleness = False, 0

    def __init__(self, limit: float, start: float):
        self.limit, self.start = limit, start

    def verdict(self, view: View) -> Verdict:
        """Whether all are heard who are not ahead: of those only newer letters come."""
        waiting = [n for n in _expected(view) if view.partners[n].seen <= view.place]
        first = view.place.round == 0
        return Verdict(waiting, self.start if first else self.within(view, waiting))

    def within(self, view: View, waiting: list[str]) -> float:
        """Seconds that those are worth."""
        return self.limit

    def offered(self, view: View) -> dict[str, dict[int, tuple[Place, Any]]]:
        """All letters up to this round."""
        return _all(view)


class Adaptive(Deadline):
    """A deadline some times as long as the rest usually takes."""

    def within(self, view: View, waiting: list[str]) -> float:
        """Seconds that those are worth, by the rounds before."""
        lags = [view.partners[n].lags for n in waiting]
        usual = [median(one) if one else math.inf for one in lags]
        return min(max(LEAST_WAIT, PATIENCE * max(usual, default=0.0)), self.limit)


class Async:
    """A round takes the newest letter of each neighbour, once there is anything new."""

    newest = lasting = True
    joins = False

    def __init__(self, limit: float, start: float, staleness: int):
        self.limit, self.start, self.staleness = limit, start, staleness

    def verdict(self, view: View) -> Verdict:
        """Whether anything is new; in the first round, whether everything is."""
        old = [n for n, one in view.partners.items() if not self._is_new(one)]
        if view.place.round == 0:
            return Verdict(old, self.start)
        # nothing newer comes from those that are done
        all_done = all(self._is_last(view, one.newest) for one in view.partners.values())
        fresh = len(old) < len(view.partners) or all_done
        return Verdict([] if fresh else old, self.limit)

    def offered(self, view: View) -> dict[str, dict[int, tuple[Place, Any]]]:
        """The newest letter of each, unless it is stale; the last one never is."""
        newest = {}
        for name, n in view.partners.items():
            place = n.newest
            if place is None:
                continue
            age = view.place.round - place.round
            if age <= self.staleness or self._is_last(view, place):
                sent = min(place.round, view.place.round)
                newest[name] = {sent: (place, n.heard[place])}
        return newest

    def _is_new(self, neighbour: Neighbour) -> bool:
        return neighbour.newest is not None and neighbour.newest.round > neighbour.used

    def _is_last(self, view: View, place: Place | None) -> bool:
        return place is not None and place.round == view.last


def paced(mode: str, deadline: float, start: float, adaptive: bool, staleness: int) -> Pace:
    """The policy that a charter's `[pace]` describes."""
    if mode == "async":
        return Async(deadline, start, staleness)
    if mode == "deadline":
        return (Adaptive if adaptive else Deadline)(deadline, start)
    return Wait()
