"""Where a peer's letters are made, and where those of others are believed or not.

Whatever a letter must carry besides its numbers, a signature say, is put on in `made` and looked at
in `opened`; nothing else makes or reads one.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from peerwise.node import Letter, Memory, Node
from peerwise.peer.charter import Charter
from peerwise.peer.protocol.messages import Envelope, Place
from peerwise.peer.wire import Format


class Letters:
    """The letters of one peer, in the format of each phase that it has come to."""

    def __init__(self, charter: Charter, name: str):
        self._charter, self._name, self._mark = charter, name, charter.hash
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
            if key not in same:
                same[key] = form.encode(letter, envelope)
            bodies[self._charter.names[j]] = same[key]
        return bodies

    def written(self, body: bytes) -> Envelope:
        """What is written on a letter of any phase; BadLetter where it is none."""
        return next(iter(self._formats.values())).written(body)

    def opened(self, body: bytes, phase: int, checked: bool = True) -> Letter:
        """The letter in bytes; BadLetter where it is none, BadNumbers where nobody sends such."""
        form = self._formats[phase]
        if checked:
            form.envelope(body)
            form.check_agreed(body)
        return form.decode(body, checked)
