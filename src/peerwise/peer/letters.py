"""Where a peer's letters are made and signed, and where those of others are believed or not.

Nothing else makes or reads one.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from peerwise.node import Letter, Memory, Node
from peerwise.peer.charter import Charter
from peerwise.peer.identity import Identity
from peerwise.peer.protocol.messages import BadLetter, Envelope, Place
from peerwise.peer.signing import ALL, Signer, checked, parted
from peerwise.peer.wire import Format


class Letters:
    """The letters of one peer, in the format of each phase that it has come to."""

    def __init__(self, charter: Charter, identity: Identity):
        self._charter, self._name, self._mark = charter, identity.node, charter.hash
        self._signer, self._authority = Signer(identity, self._mark), identity.authority
        self._formats: dict[int, Format] = {}

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
        same: dict[int, bytes] = {}
        bodies = {}
        for j, letter in node.letters(memory, place.round).items():
            key = id(letter.message) if letter.part is None else -1 - j
            name = self._charter.names[j]
            if key not in same:
                to = ALL if letter.part is None else name
                same[key] = self._signer.sealed(form.encode(letter, envelope), envelope, to)
            bodies[name] = same[key]
        return bodies

    def written(self, body: bytes) -> Envelope:
        """What is written on a letter of any phase; BadLetter where it is none, or not signed."""
        envelope = next(iter(self._formats.values())).written(parted(body)[0])
        checked(body, envelope, self._mark, self._name, self._authority)
        return envelope

    def opened(self, body: bytes, phase: int, checked: bool = True) -> Letter:
        """The letter in bytes; BadLetter where it is none, BadNumbers where nobody sends such."""
        form = self._formats[phase]
        content, seal = parted(body)
        if checked:
            form.envelope(content)
            form.check_agreed(content)
        letter: Letter = form.decode(content, checked)
        if seal.personal and letter.part is None:
            # what all should hear alike would escape the comparison of what all heard
            raise BadLetter("signed for one reader, and all are told the same")
        return letter
