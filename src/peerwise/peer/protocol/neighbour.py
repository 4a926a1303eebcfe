"""What a peer knows of one neighbour, and what is on its way to it."""

from collections import deque
from typing import Any

from peerwise.peer.protocol.messages import EJECTED, NOWHERE, OVER, Away, Place, Ticket

RECENT = 9  # rounds over which an adaptive deadline takes the median latency
FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0  # seconds before a call is tried again


class Retry:
    """Calls of one kind to a neighbour: one at a time, with growing waits after failures."""

    def __init__(self) -> None:
        self.asked: Any = None  # what the open call is about; None: no call is open
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
    """What is known of one neighbour; `life`, `head` and `bye` are kept on disk, too."""

    def __init__(self, life: int, head: Place | None, unsent: list[Away], bye: str = ""):
        self.life = life  # the number of its newest known start
        self.newer = 0  # a later life that an answer named, before any greeting of it
        self.met = 0  # its life for which `line` was built since this peer started
        self.head = head  # the place of its newest letter that arrived
        self.first: Place | None = None  # it sends no letter of an earlier place
        self.said: Place | None = None  # the newest of our letters it has, as it last said
        self.seen = NOWHERE  # the latest place that it is known to have reached
        self.bye = bye  # EJECTED or OVER: it no longer sends or wants letters
        self.parted = False  # whether it has our bye on its disk
        self.order = 0  # the number of its last greeting, counted in its present life
        self.spoke = 0.0  # the time of its last message that was accepted
        # its letters by place; None: the letter is in quarantine, and no round waits for another
        self.heard: dict[Place, Any] = {}
        self.arrived = 0.0  # the time at which the last of them arrived
        self.lags: deque[float] = deque(maxlen=RECENT)  # seconds into a round when it was heard
        self.used = -1  # the newest of its rounds that a round of ours has used
        self.line: deque[Away] = deque(unsent)  # letters waiting to be sent to it, oldest first
        self.acknowledged: Place | None = None  # it has all letters up to here; not yet on disk
        self.answered = 0  # its life that we had met when we last answered a greeting of it
        self.greeted = False  # whether we have greeted it in its present life
        self.loading = 0  # how many requests to rebuild `line` from the disk are open
        self.writing: set[Ticket] = set()  # its letters that are being written to disk
        self.hellos: list[Ticket] = []  # its greetings that are not answered yet
        self.pulls: list[tuple[Ticket, float]] = []  # its open pulls, and when each ends
        self.calls, self.fetches = Retry(), Retry()
        self.fetched = NOWHERE  # its newest letter that we have fetched, where it cannot dial us
        self.trouble = ""  # why the last call to it failed

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
        """Whether it needs a letter, or may need one because it restarted and has not said."""
        return not self.bye and bool(self.line or self.newer > self.life)

    @property
    def newest(self) -> Place | None:
        """The place of its newest letter that is not in quarantine."""
        return max((p for p, letter in self.heard.items() if letter is not None), default=None)

    def saw(self, place: Place) -> None:
        """Note that it has reached a place."""
        self.seen = max(self.seen, place)
