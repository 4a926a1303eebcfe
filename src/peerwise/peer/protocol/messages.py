"""The events that a protocol core is given, and the effects that it asks for in return.

The daemon turns what happens into events and carries out the effects. It gives a ticket to every
call that needs an answer, and carries out effects on the disk in the order of the requests.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from peerwise.errors import PeerwiseError

Body = Any  # a received letter's bytes, or an object that finds them in a file; it has a length


class BadLetter(PeerwiseError):
    """Bytes that are no letter of this federation."""


class BadNumbers(BadLetter):
    """A letter of the right form with numbers that no honest node sends."""


class Place(NamedTuple):
    """A round of a phase: how far a peer has come, or which round a letter is of."""

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
    """A letter that came; `newest`: it makes the sender's earlier letters useless."""

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
    """What a neighbour says of itself; None where it says nothing, or an old greeting came late."""

    place: Place | None = None
    life: int = 0
    first: Place | None = None  # it no longer sends letters of earlier places
    have: Place | None = None  # the newest letter of ours that it has
    knows: int = 0  # our life for which it has rebuilt its line of letters to us
    bye: str = ""  # EJECTED or OVER: it no longer sends or wants letters
    noted: str = ""  # which bye of ours it has on its disk
    order: int = 0  # the greeting's number in this life: one that comes late changes nothing


class Checks(Protocol):
    """Reads letters that came; the only place where a letter is accepted or refused."""

    def written(self, body: Any) -> Envelope:
        """What is written on a letter of any phase; BadLetter where it is none."""

    def opened(self, body: Any, phase: int, checked: bool = True) -> Any:
        """The letter in bytes; BadNumbers where no honest node sends such numbers.

        `checked`: False for one that the operator has released from quarantine.
        """


class Kept(NamedTuple):
    """What the disk holds when a peer starts."""

    place: Place
    life: int  # the number of this start, written to disk before any neighbour hears it
    partners: tuple[str, ...]  # neighbours whose letters count in the phase
    lives: Mapping[str, int] = {}
    heads: Mapping[str, Place] = {}
    unsent: Mapping[str, list[Away]] = {}
    byes: Mapping[str, str] = {}
    asks: bool = False  # no round begins before all neighbours have said what they have of ours


# -- events ------------------------------------------------------------------------------------

Ticket = Any  # names a call, or a letter being written; the answer brings it back


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
    """What was to be written is on the disk; otherwise `why` has the reason.

    `differs`: another letter of the same place came before, and that one counts.
    `shelved`: for a letter too large for memory, makes the object that reads it from its file.
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
    left_out: tuple[str, ...] = ()  # neighbours whose letters were there but were not used
    aside: Mapping[str, tuple[Place, str]] = {}  # letters that made the round fail, and why
    error: float | None = None
    partners: tuple[str, ...] | None = None  # whose letters count in the phase that begins


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
    """Compute the round at `place` and the letters of `after`; `Computed` reports the result.

    `heard`: by neighbour and round, the letter and its place; None: compute no round, only the
    letters of `after`. `channel`: whether the channel chooses among a neighbour's letters;
    otherwise there is one of each neighbour. `said`: the newest of our letters that any neighbour
    has; it is later than this round if our state was restored from a backup.
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
    keep: int  # rounds whose received letters are still needed
    newest: bool  # whether earlier letters that were not delivered are given up


class Wake(NamedTuple):
    """Give the core a `Tick` at this time, unless another event comes first."""

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
    """End the peer: all rounds are done, or its patience is over.

    `lacking`: neighbours that have not confirmed our last letter. `silent`: if not all rounds are
    done, the neighbours that a round waits for and that have all been silent for too long.
    """

    lacking: tuple[str, ...]
    silent: tuple[str, ...] = ()
