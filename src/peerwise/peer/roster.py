"""The mask keys of all members, known to every node by neighbours alone: what seals sums later.

First every member tells the hash of its key, signed by the key of its certificate; once a node has
those of all, it tells its key. Neighbours hand on all that they know. So nobody can choose a key
after it has seen those of others, nor tell a key in another's name. That all were told the same
follows from the hash of what was agreed, which goes with every later letter.
"""

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from peerwise.core import Message, State
from peerwise.node import Letter, Memory, Node
from peerwise.peer.charter import Charter
from peerwise.peer.identity import Identity
from peerwise.peer.signing import HALF, LONGEST, Seal, Signer, is_signed
from peerwise.privacy.sealing import committed, public_key
from peerwise.privacy.sealing.keys import BYTES, is_key

Table = dict[str, np.ndarray]
# bytes of what is known of a member: zeros where it is not known yet
COLUMNS = {"commitment": BYTES, "signature": 2 * HALF, "certificate": LONGEST + 2, "key": BYTES}


class Commitment(NamedTuple):
    """That a member will tell a key with this hash, and no other."""

    charter: str
    sender: str
    hash: str

    @property
    def text(self) -> bytes:
        """What is signed; no part of it can hold a line break."""
        return "\n".join(("peerwise mask key", *self)).encode()


class KeyNode(Node):
    """A node of the phase in which keys are told; its state is a table with a line a member.

    It has a node's ways and no arithmetic: what a neighbour says of a member counts if the member
    has signed it.
    """

    def __init__(
        self, charter: Charter, name: str, identity: Identity | None, secret: bytes | None
    ):
        self._charter, self._names, self._name = charter, charter.names, name
        self._identity, self._secret = identity, secret
        self.index, self.neighbours = charter.index(name), _numbers(charter, name)
        self.method: Any = SimpleNamespace(ranges=(), reply=None)

    def begin(self) -> Memory:
        """What this node says of itself; nothing is known of others."""
        if self._identity is None or self._secret is None:
            return self.shape()
        table = self._nothing()
        commitment = committed(public_key(self._secret))
        seal = Signer(self._identity, self._charter.hash).signed(self._statement(commitment))
        columns = {"commitment": commitment, "signature": seal.signature}
        columns["certificate"] = len(seal.certificate).to_bytes(2, "big") + seal.certificate
        for column, value in columns.items():
            table[column][self.index, : len(value)] = np.frombuffer(value, np.uint8)
        return self._revealed(table)

    def shape(self) -> Memory:
        """A memory without anything in it."""
        return Memory(State(self._nothing(), {}), None)

    def like(self, memory: Memory) -> Letter:
        """A letter without anything in it."""
        return Letter(Message(self._nothing(), {}))

    def letters(self, memory: Memory, t: int) -> dict[int, Letter]:
        """All that this node knows, for each neighbour."""
        message = Message(memory.state.value, {})
        return {j: Letter(message) for j in self.neighbours}

    def wanted(self, t: int) -> dict[int, int]:
        """Everybody's letter of this round."""
        return dict.fromkeys(self.neighbours, t)

    def step(self, memory: Memory, t: int, letters: Any) -> Memory:
        """What is known after a round: what was known before, and what is new and signed."""
        table = {column: a.copy() for column, a in memory.state.value.items()}
        for letter, _ in letters.values():
            heard = letter.message.value
            for i in np.flatnonzero(~table["commitment"].any(1) & heard["commitment"].any(1)):
                if i != self.index and self._is_signed(heard, int(i)):
                    for column in ("commitment", "signature", "certificate"):
                        table[column][i] = heard[column][i]
            for i in np.flatnonzero(~table["key"].any(1) & heard["key"].any(1)):
                key = heard["key"][i].tobytes()
                if committed(key) == table["commitment"][i].tobytes() and is_key(key):
                    table["key"][i] = heard["key"][i]
        return self._revealed(table)

    def forgetting(self, memory: Memory) -> Memory:
        """The same: nothing is kept of neighbours."""
        return memory

    def keys(self, memory: Memory) -> dict[str, str]:
        """The keys that are known, by member, in hexadecimal digits."""
        table = memory.state.value["key"]
        known = np.flatnonzero(table.any(1)).tolist()
        return {self._names[i]: table[i].tobytes().hex() for i in known}

    def _revealed(self, table: Table) -> Memory:
        """The memory; with the node's own key once all have said which theirs is."""
        if self._secret is not None and table["commitment"].any(1).all():
            table["key"][self.index] = np.frombuffer(public_key(self._secret), np.uint8)
        return Memory(State(table, {}), None)

    def _is_signed(self, heard: Table, i: int) -> bool:
        """Whether member i has signed what is told of it."""
        certificate = heard["certificate"][i].tobytes()
        size = int.from_bytes(certificate[:2], "big")
        seal = Seal(certificate[2 : 2 + size], heard["signature"][i].tobytes(), False)
        statement = self._statement(heard["commitment"][i].tobytes(), self._names[i])
        assert self._identity is not None
        return is_signed(statement, seal, self._identity.authority)

    def _statement(self, commitment: bytes, name: str | None = None) -> Commitment:
        return Commitment(self._charter.hash, name or self._name, commitment.hex())

    def _nothing(self) -> Table:
        n = len(self._names)
        return {column: np.zeros((n, size), np.uint8) for column, size in COLUMNS.items()}


def _numbers(charter: Charter, name: str) -> tuple[int, ...]:
    return tuple(charter.index(other) for other in charter.neighbours(name))
