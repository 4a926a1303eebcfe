"""What a peer knows of one neighbour, and what is on its way to it."""

from collections import deque
from typing import Any

from peerwise.peer.protocol.messages import EJECTED, NOWHERE, OVER, Away, Place, Ticket

RECENT = 9  # rounds of which an adaptive deadline takes the usual time
FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0  # seconds before a call is tried again


class Retry:
    """Calls of one kind to a neighbour: one at a time, after a failure later and later."""

    def __init__(self) -> None:
        self.asked: Any = None  # what the call under way is about
        self.due = 0.0
        self._wait = FIRST_WAIT

    def is_free(self, now: float) -> bool:
        """Whether a call may be made now."""
        return self.asked is None and now >= self.due

    def worked(self) -> None:
        """A call was answered."""
        self._wait = FIRST_WAIT

    def failed(self, now: float) -> None:
        """A call was not answered: wait twice as long as before."""
        self.due = now + self._wait
        self._wait = min(2 * self._wait, LONGEST_WAIT)


class Neighbour:
    """One neighbour; plain values, of which `life`, `head` and `bye` are on the disk, too."""

    def __init__(self, life: int, head: Place | None, unsent: list[Away], bye: str = ""):
        self.life = life  # the newest that was heard of
        self.newer = 0  # a life of which an answer told, and no greeting yet
        self.met = 0  # the life whose letters we have put together, in this life of ours
        self.head = head  # the newest letter that came
        self.first: Place | None = None  # nothing earlier comes any more
        self.said: Place | None = None  # what it has of ours, maybe of a former life
        self.seen = NOWHERE  # how far it has come
        self.bye = bye  # EJECTED or OVER: it sends nothing any more, and wants nothing
        self.parted = False  # it has noted our bye
        self.order = 0  # of its last greeting, in its present life
        self.spoke = 0.0  # when it last said something that was taken
        # letters that came; None: in quarantine, and nobody waits for another
        self.heard: dict[Place, Any] = {}
        self.arrived = 0.0  # when the last of them came
        self.lags: deque[float] = deque(maxlen=RECENT)  # seconds of a round until it was heard
        self.used = -1  # the newest round that a round of ours has used
        self.line: deque[Away] = deque(unsent)  # letters to it, oldest first
        self.acknowledged: Place | None = None  # not yet on the disk: it has all up to here
        self.greeted = False  # by us, in its present life
        self.loading = 0  # how often its line is being put together anew
        self.writing: set[Ticket] = set()  # letters of it on their way to the disk
        self.hellos: list[Ticket] = []  # that are not answered yet
        self.pulls: list[tuple[Ticket, float]] = []  # and until when they wait
        self.calls, self.fetches = Retry(), Retry()
        self.fetched = NOWHERE  # by one that only dials
        self.trouble = ""  # why it cannot be told anything

    @property
    def gone(self) -> bool:
        """Whether it has ejected us."""
        return self.bye == EJECTED

    @property
    def over(self) -> bool:
        """Whether it has done all its rounds."""
        return self.bye == OVER

    def is_gap(self, place: Place) -> bool:
        """Whether it has said that it has no letter for a place."""
        return self.over or (self.first is not None and place < self.first)

    @property
    def lacks(self) -> bool:
        """Whether it still needs a letter, or may: it was started again and has not said."""
        return not self.bye and bool(self.line or self.newer > self.life)

    @property
    def newest(self) -> Place | None:
        """The newest letter that may be used."""
        return max((p for p, letter in self.heard.items() if letter is not None), default=None)

    def saw(self, place: Place) -> None:
        """Note that it has come as far as this."""
        self.seen = max(self.seen, place)
