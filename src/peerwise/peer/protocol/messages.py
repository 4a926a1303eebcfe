"""The words of the protocol: what happens to a core, and what it wants done.

A core is told events and answers with effects. Whoever runs it gives tickets to calls that want an
answer, and does the effects on the disk in the order in which they were asked for.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from peerwise.errors import PeerwiseError

Body = Any  # of a letter that came: bytes, or what knows where they are; it has a length


class BadLetter(PeerwiseError):
    """Bytes that are no letter of this federation."""


class BadNumbers(BadLetter):
    """A letter of the right form with numbers that no honest node sends."""


class Place(NamedTuple):
    """How far a peer has come."""

    phase: int
    round: int


NOWHERE = Place(-1, -1)
EJECTED, OVER = "ejected", "over"  # byes: "you are not heard here", "all my rounds are done"


class Envelope(NamedTuple):
    """What is written on a letter."""

    sender: str
    phase: int
    round: int


class Came(NamedTuple):
    """A letter that came; `newest`: those before it are of no use any more."""

    sender: str
    place: Place
    body: Body
    newest: bool


class Away(NamedTuple):
    """A letter that is to be sent."""

    receiver: str
    place: Place
    body: bytes


class Greeting(NamedTuple):
    """What a neighbour said of itself; None where it did not say it, or not in order."""

    place: Place | None = None
    life: int = 0
    first: Place | None = None  # it sends nothing of an earlier place any more
    have: Place | None = None  # the newest letter of ours that it was given
    knows: int = 0  # our life for which it has put its letters together
    bye: str = ""  # EJECTED or OVER: it sends nothing any more, and wants nothing
    noted: str = ""  # the bye of ours that is on its disk
    order: int = 0  # of its greetings in this life: a late one does not take back another


class Checks(Protocol):
    """How letters that come are read: the one place where a letter is believed or not."""

    def written(self, body: Any) -> Envelope:
        """What is written on a letter of any phase; BadLetter where it is none."""

    def opened(self, body: Any, phase: int, checked: bool = True) -> Any:
        """The letter in bytes; BadNumbers where no honest node sends such numbers.

        `checked`: False for one that the operator has released from quarantine.
        """


class Kept(NamedTuple):
    """What the disk holds when a peer starts."""

    place: Place
    life: int  # the number of this life, on the disk before anybody hears of it
    partners: tuple[str, ...]  # neighbours whose letters count in the phase
    lives: Mapping[str, int] = {}
    heads: Mapping[str, Place] = {}
    unsent: Mapping[str, list[Away]] = {}
    byes: Mapping[str, str] = {}
    asks: bool = False  # no round begins before all neighbours have said what they have of ours


# -- events ------------------------------------------------------------------------------------

Ticket = Any  # of a call or of a letter on its way to the disk: goes back with the answer


class Started(NamedTuple):
    """The network can be used: whom to dial, and from whom letters must be fetched."""

    dials: frozenset[str]
    fetches: frozenset[str] = frozenset()


class Amended(NamedTuple):
    """The charter was amended in what may change: whom to dial now, and how long to wait."""

    dials: frozenset[str]
    fetches: frozenset[str]
    pace: Any


class Pushed(NamedTuple):
    """A neighbour brings a letter."""

    ticket: Ticket
    sender: str
    body: Body


class Helloed(NamedTuple):
    """A neighbour greets."""

    ticket: Ticket
    sender: str
    said: Greeting


class Pulled(NamedTuple):
    """A neighbour has our letters up to a place and waits for the next."""

    ticket: Ticket
    sender: str
    have: Place
    wait: float


class Answered(NamedTuple):
    """A neighbour answered our call; `body` is the letter that was fetched."""

    name: str
    method: str
    said: Greeting
    body: Body | None = None


class Failed(NamedTuple):
    """A neighbour did not answer our call, or refused it."""

    name: str
    method: str
    code: str
    why: str


class Written(NamedTuple):
    """What was asked for is on the disk, or is not and why.

    `differs`: there was another letter for the same place before, and that one counts.
    `shelved`: makes what stands for the letter from now on, where it is too large to keep at hand.
    """

    ticket: Ticket
    differs: bool = False
    why: str | None = None
    shelved: Callable[[Any], Any] | None = None


class Loaded(NamedTuple):
    """The letters to a neighbour that are kept, from the place asked for on."""

    name: str
    since: Place
    letters: list[Away]


class Looked(NamedTuple):
    """What is in the file: the operator may have changed it."""

    ejected: Mapping[str, str]
    aside: list[tuple[str, Place]]
    inbox: Mapping[tuple[str, Place], Body]


class Computed(NamedTuple):
    """The round is computed, and nothing of it is on the disk yet."""

    result: Any  # for whoever stores it
    bodies: Mapping[str, bytes]  # letters of the place after it
    heard: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # whose letters were there and not heard
    aside: Mapping[str, tuple[Place, str]] = {}  # letters that made it fail, and why
    error: float | None = None
    partners: tuple[str, ...] | None = None  # of the phase that begins


class Stored(NamedTuple):
    """What was to be stored of a round is on the disk."""


class Tick(NamedTuple):
    """Time has passed."""


# -- effects -----------------------------------------------------------------------------------


class Answer(NamedTuple):
    """Answer a call: with where we are, or with a letter."""

    ticket: Ticket
    said: Greeting | Away


class Refuse(NamedTuple):
    """Refuse a call, with a code of gRPC, a reason for the caller and a kind to count."""

    ticket: Ticket
    code: str
    why: str
    kind: str


class Ask(NamedTuple):
    """Call a neighbour: Hello with a greeting, Push with a letter, Pull with what we have."""

    name: str
    method: str
    said: Any
    wait: float = 0.0  # for which a pull may last


class Put(NamedTuple):
    """Keep a letter that came; `Written` tells of it."""

    ticket: Ticket
    letter: Came


class PutAside(NamedTuple):
    """Keep a letter in quarantine; `Written` tells of it."""

    ticket: Ticket
    sender: str
    place: Place
    why: str
    body: Body


class NoteLife(NamedTuple):
    """Note the newest life of a neighbour; `Written` tells of it."""

    ticket: Ticket
    name: str
    life: int


class NoteBye(NamedTuple):
    """Note that a neighbour has said goodbye, or (an empty bye) is back; `Written` tells of it."""

    ticket: Ticket
    name: str
    bye: str


class Load(NamedTuple):
    """Read the letters to a neighbour that are kept; `Loaded` tells them."""

    name: str
    since: Place


class Look(NamedTuple):
    """Read what the file holds of others; `Looked` tells it."""


class Compute(NamedTuple):
    """Do the round at `place`, whose letters go out at `after`; `Computed` tells of it.

    `heard`: by neighbour and round, the letter and its place. `channel`: whether the channel
    chooses among them, else each neighbour has one. None: no round, only letters for `after`.
    `said`: the newest of our letters that a neighbour has; later than this round where we were put
    back.
    """

    place: Place
    after: Place
    heard: Mapping[str, Mapping[int, tuple[Place, Any]]] | None
    channel: bool = True
    said: Place = NOWHERE


class Done(NamedTuple):
    """What a round was like."""

    place: Place
    heard: tuple[str, ...]
    missed: tuple[str, ...]
    seconds: float
    error: float | None


class Advance(NamedTuple):
    """Store all that follows from a round at once; `Stored` tells of it."""

    place: Place
    result: Any
    bodies: Mapping[str, bytes]
    acknowledged: Mapping[str, Place]  # by neighbour: it has all letters up to a place
    done: Done | None  # None: no round was done
    aside: Mapping[str, tuple[Place, str]]
    keep: int  # rounds of letters that stay in use
    newest: bool  # earlier letters that nobody took are not sent any more


class Wake(NamedTuple):
    """Tell of the time not later than this, if nothing else happens."""

    at: float


class Log(NamedTuple):
    """Write a line down for people."""

    event: str
    facts: Mapping[str, Any]
    warning: bool = False


class Count(NamedTuple):
    """Count something: bytes `sent` and `received`, or letters of a kind that were left out."""

    what: str
    amount: int


class End(NamedTuple):
    """There is nothing more to do: all is done, or nobody answers for whom a round waits.

    `lacking` have not said that they have our last letter. `silent`: they are waited for, and none
    of them has said anything for as long as this peer is patient; not all rounds are done.
    """

    lacking: tuple[str, ...]
    silent: tuple[str, ...] = ()
