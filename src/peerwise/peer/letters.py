"""Where a peer's letters are made and signed, and where those of others are believed or not.

Nothing else makes or reads one.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

from peerwise.core import Message
from peerwise.mailbox import Later
from peerwise.node import Letter, Memory, Node
from peerwise.peer.charter import Charter
from peerwise.peer.identity import Identity
from peerwise.peer.large import Body, Filed, view_of
from peerwise.peer.protocol.messages import BadLetter, Envelope, Place
from peerwise.peer.signing import ALL, Signer, checked, viewed
from peerwise.peer.site import Head as LedgerHead
from peerwise.peer.site import SiteBook, Watch
from peerwise.peer.wire import Format, Head


class Shelved:
    """A large letter that was checked when it came, and is in its file until its round."""

    def __init__(self, file: Filed, form: Format, letter: Letter):
        self._file, self._form = file, form
        # what is left of it must not be a view of all its bytes
        self._note = jax.tree.map(np.array, letter.message.note)

    def whole(self) -> Letter:
        """The letter."""
        content, _ = viewed(self._file.view())
        letter: Letter = self._form.decode(content, checked=False)
        return letter

    def later(self) -> Letter:
        """The letter without a part for this node alone; its value is read when it is needed."""
        return Letter(Message(Later(lambda: self.whole().message.value), self._note))


class Letters:
    """The letters of one peer, in the format of each phase that it has come to."""

    def __init__(self, charter: Charter, identity: Identity):
        self._charter, self._name, self._mark = charter, identity.node, charter.hash
        self._signer, self._authority = Signer(identity, self._mark), identity.authority
        self._formats: dict[int, Format] = {}
        self._noisy = charter.budget is not None
        self.book: SiteBook | None = None  # this site's ledger, and what was told of it last
        self._told: LedgerHead | None = None
        self.watch = Watch(charter.budget is not None)
        # of the letter that came last, what was worked out until it was opened, and its hash then
        self._latest: tuple[Body, Head | None, Any] = b"", None, None
        self._hashed: tuple[Body, Any] = b"", None
        self._known: tuple[Body, Any] = b"", None  # a letter that comes next, and its hash

    def renew(self, identity: Identity) -> None:
        """Sign with another certificate from now on."""
        self._signer = Signer(identity, self._mark)

    def form(self, node: Node, memory: Memory, agreed: Mapping[str, Any] | None) -> Format:
        """The format of a node's letters; `agreed` is what an earlier phase found."""
        mark = None
        if agreed is not None:
            mark = hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()[:32]
        most = self._charter.limits.message_bytes
        return Format(node.like(memory), self._mark, most, node.method.ranges, mark)

    def use(self, phase: int, form: Format) -> None:
        """Write and read letters of a phase in this format from now on."""
        self._formats[phase] = form

    def of(self, phase: int) -> Format:
        """The format of a phase."""
        return self._formats[phase]

    def made(self, node: Node, memory: Memory, form: Format, place: Place) -> dict[str, bytes]:
        """The letters of a round by neighbour; those that are equal are the same bytes."""
        envelope = Envelope(self._name, *place)
        more = self._of_ledger()
        same: dict[int, bytes] = {}
        bodies = {}
        for j, letter in node.letters(memory, place.round).items():
            key = id(letter.message) if letter.part is None else -1 - j
            name = self._charter.names[j]
            if key not in same:
                to = ALL if letter.part is None else name
                content = form.encode(letter, envelope, more, self._noisy)
                same[key] = self._signer.sealed(content, envelope, to)
            bodies[name] = same[key]
        return bodies

    def _of_ledger(self) -> dict[str, str]:
        """What goes with a letter of how the site's privacy ledger stands."""
        if self.book is None:
            return {}
        head, before = self.book.head(), self._told
        self._told = head
        return {"ledger": str(head)} | ({} if before is None else {"ledger_before": str(before)})

    def note_hash(self, body: Body, mark: Any) -> None:
        """Note the hash of what is signed in the letter that is looked at next."""
        self._known = body, mark

    def written(self, body: Body) -> Envelope:
        """What is written on a letter of any phase; BadLetter where it is none, or not signed."""
        form = next(iter(self._formats.values()))
        view = view_of(body)
        content, _ = viewed(view)
        head = form.head(content)
        envelope = form.written(content, head)
        (known, mark), self._known = self._known, (b"", None)
        mark = mark if known is body else None
        mark = checked(view, envelope, self._mark, self._name, self._authority, mark)
        self._latest = body, head, mark
        return envelope

    def shelved(self, file: Filed, phase: int) -> Callable[[Letter], Shelved]:
        """What makes, of a letter that is in a file too, one that is only there."""
        return partial(Shelved, file, self._formats[phase])

    def opened(self, body: Body, phase: int, checked: bool = True) -> Letter | Shelved:
        """The letter in bytes; BadLetter where it is none, BadNumbers where nobody sends such.

        One that is in a file stays there.
        """
        form = self._formats[phase]
        content, seal = viewed(view_of(body))
        (known, head, mark), self._latest = self._latest, (b"", None, None)
        if known is not body or head is None:
            head, mark = form.head(content), None
        if checked:
            envelope = form.envelope(content, head)
            form.check_agreed(content, head)
            self.watch.take(envelope.sender, Place(*envelope[1:]), head.written)
        letter: Letter = form.decode(content, checked, head)
        if seal.personal and letter.part is None:
            # what all should hear alike would escape the comparison of what all heard
            raise BadLetter("it is signed for one reader, but its content is the same for all")
        if mark is not None:
            self._hashed = body, mark
        return Shelved(body, form, letter) if isinstance(body, Filed) else letter

    def hashed(self, body: Body) -> Any:
        """The hash of what is signed in the letter that was opened last; None for another."""
        (known, mark), self._hashed = self._hashed, (b"", None)
        return mark if known is body else None
