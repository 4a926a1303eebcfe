"""Finding out a node that tells its neighbours different things in the same round.

Neighbours of a node that are neighbours of each other compare what it signed while they run; others
by files that their operators exchange. What is compared are hashes. Two statements of one node for
one round with different hashes, both with its signature, prove it to anybody who knows the
authority.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from peerwise.errors import BadFile
from peerwise.files import write_whole
from peerwise.peer.protocol.messages import Place
from peerwise.peer.signing import ALL, HALF, Seal, Statement, is_signed
from peerwise.peer.store import Store

PAGE = 150  # statements in an answer
KIND = "peerwise heads 1"


class Said(NamedTuple):
    """That a node signed a letter to all its neighbours, by the letter's hash."""

    sender: str
    place: Place
    hash: str
    signature: bytes


class Proof(NamedTuple):
    """Two different letters of one node to all its neighbours in one round, both signed."""

    sender: str
    place: Place
    ours: str
    theirs: str
    signature: bytes  # of ours
    other: bytes  # signature, of theirs
    witness: str  # who was told theirs


class _Line(BaseModel):
    """A statement in a file or an answer."""

    model_config = ConfigDict(extra="forbid")
    sender: str = Field(max_length=64)
    phase: int = Field(ge=0, lt=10**12)
    round: int = Field(ge=0, lt=10**12)
    hash: str = Field(pattern="^[0-9a-f]{64}$")
    signature: str = Field(pattern=f"^[0-9a-f]{{{4 * HALF}}}$")


class Heads(BaseModel):
    """What one node was told by its neighbours, for others to compare."""

    model_config = ConfigDict(extra="forbid")
    kind: str = Field(KIND, pattern=f"^{KIND}$")
    node: str = Field(max_length=64)
    charter: str = Field(max_length=64)
    heads: list[_Line]
    certificates: dict[str, str] = Field(max_length=10_000)

    def said(self) -> list[Said]:
        """The statements, whose signatures are yet to be looked at."""
        return [
            Said(h.sender, Place(h.phase, h.round), h.hash, bytes.fromhex(h.signature))
            for h in self.heads
        ]


def heads_of(store: Store, certificates: bool = True) -> Heads:
    """What neighbours told this node, with their certificates for those who have them not."""
    known = store.neighbours
    return _listed(store, known.signed(), known.certificates() if certificates else {})


def heads_after(store: Store, senders: Collection[str], since: Place) -> Heads:
    """What some neighbours told this node after a place: whole rounds, as many as fit an answer."""
    chosen = [said for said in store.neighbours.signed(since) if said[0] in senders]
    if len(chosen) > PAGE:
        last = chosen[PAGE][1]
        whole = [said for said in chosen if said[1] < last]
        chosen = whole or [said for said in chosen if said[1] == last]
    return _listed(store, chosen, {})


def _listed(store: Store, said: Iterable[Any], certificates: Mapping[str, bytes]) -> Heads:
    lines = [
        _Line(sender=sender, phase=place.phase, round=place.round, hash=mark, signature=by.hex())
        for sender, place, mark, by in said
    ]
    about = store.about()
    return Heads(
        kind=KIND, node=about["node"], charter=about["charter"], heads=lines,
        certificates={name: der.hex() for name, der in certificates.items()},
    )  # fmt: skip


def parse(text: str | bytes, what: str) -> Heads:
    """What another node was told; BadFile where it is none."""
    try:
        return Heads.model_validate(json.loads(text))
    except (ValueError, ValidationError, RecursionError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "it is no JSON"
        raise BadFile(f"{what} is not what `peerwise peer heads` writes: {first}") from None


def compared(store: Store, theirs: Heads, authority: bytes) -> tuple[int, list[Proof]]:
    """In how many letters two nodes were told the same, and proofs where they were not.

    A statement without a true signature of its sender proves nothing and is not counted.
    """
    mark, said, neighbours = store.about()["charter"], theirs.said(), store.neighbours
    certificates = neighbours.certificates()
    oldest = min((s.place for s in said), default=Place(0, 0))
    before = (Said(*row) for row in neighbours.signed(_before(oldest)))
    ours = {(s.sender, s.place): s for s in before}
    same, proofs = 0, []
    for their in said:
        own = ours.get((their.sender, their.place))
        if own is None:
            continue
        if own.hash == their.hash:
            same += 1
            continue
        known = certificates[own.sender]
        given = theirs.certificates.get(own.sender, "")
        other = bytes.fromhex(given) if _is_hex(given) and given else known
        if _signed(mark, own, known, authority) and _signed(mark, their, other, authority):
            hashes = own.hash, their.hash, own.signature, their.signature
            proofs.append(Proof(own.sender, own.place, *hashes, theirs.node))
    return same, proofs


def _before(place: Place) -> Place:
    return Place(place.phase, place.round - 1)


def _is_hex(text: str) -> bool:
    return len(text) % 2 == 0 and all(c in "0123456789abcdef" for c in text)


def _signed(charter: str, said: Said, certificate: bytes, authority: bytes) -> bool:
    statement = Statement(charter, said.sender, *said.place, ALL, said.hash)
    return is_signed(statement, Seal(certificate, said.signature, False), authority)


def export(folder: str | Path, path: Path) -> int:
    """Write what this node was told to a file for others; how many statements."""
    with closing(Store.look(folder)) as store:
        heads = heads_of(store)
    write_whole(path, json.dumps(heads.model_dump(), indent=1).encode())
    return len(heads.heads)


class Account(NamedTuple):
    """What came of comparing."""

    same: dict[str, int]  # by witness: letters of which both were told the same
    proofs: list[Proof]


def account(folder: str | Path, files: Iterable[Path]) -> Account:
    """What this node found out while it ran, and what files of others show."""
    with closing(Store.look(folder)) as store:
        proofs, same = store.neighbours.proofs(), {}
        contradictions = [Proof(sender, place, *rest) for sender, place, *rest in proofs]
        for path in files:
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise BadFile(f"cannot read {path}: {error}") from None
            theirs, about = parse(text, str(path)), store.about()
            if theirs.charter != about["charter"]:
                raise BadFile(f"{path} is of another charter; compare peers of the same one")
            if "authority" not in about:
                raise BadFile(
                    f"the peer of {folder} never ran, so that it knows no authority; run it"
                )
            count, more = compared(store, theirs, about["authority"].encode())
            same[theirs.node] = count
            contradictions += [proof for proof in more if proof not in contradictions]
    return Account(same, contradictions)


def as_told(proof: Proof) -> Mapping[str, Any]:
    """A proof in words and numbers, for a log or a file."""
    return {
        "node": proof.sender, **proof.place._asdict(), "told us": proof.ours,
        f"told {proof.witness}": proof.theirs, "signature": proof.signature.hex(),
        "other signature": proof.other.hex(),
    }  # fmt: skip
