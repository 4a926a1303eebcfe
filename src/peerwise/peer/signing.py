"""Signed letters: whoever tells two neighbours different things can be shown to have done so.

A letter ends with a seal: the sender's certificate, and its signature under a statement of who says
what, to whom and in which round. A statement holds the hash of the letter and none of its numbers:
two neighbours that compare what they were told show each other nothing else.

Signatures are by the key of the certificate (ECDSA on P-256: gRPC takes no certificate with
Ed25519), and deterministic, so that the same letter is always the same bytes.
"""

import hashlib
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

from peerwise.peer.identity import Identity, is_issued, name_in
from peerwise.peer.protocol.messages import BadLetter, Envelope

ALL = ""  # to whom a letter goes that every neighbour is sent
HALF = 32  # bytes of each of the two numbers of a signature
END = 2 * HALF + 3  # signature, whether it is to one neighbour, bytes of the certificate
LONGEST = 2048  # bytes of a certificate
MOST = LONGEST + END  # bytes of a seal
_ALGORITHM = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)


class Signable(Protocol):
    """Who says something, and the text that is signed."""

    @property
    def sender(self) -> str:
        """The node that signs."""
        ...

    @property
    def text(self) -> bytes:
        """What it says."""
        ...


class Statement(NamedTuple):
    """That a sender says something, by its hash, to a neighbour or to ALL in a round."""

    charter: str
    sender: str
    phase: int
    round: int
    to: str
    hash: str

    @property
    def text(self) -> bytes:
        """What is signed; no part of it can hold a line break."""
        return "\n".join(("peerwise letter", *map(str, self))).encode()


class Seal(NamedTuple):
    """What makes a statement its sender's."""

    certificate: bytes  # as DER
    signature: bytes
    personal: bool  # whether the letter is to one neighbour alone


def viewed(body: bytes | memoryview) -> tuple[memoryview, Seal]:
    """A view of a letter without its seal, and the seal; BadLetter where there is none."""
    length = int.from_bytes(body[-2:], "big")
    start = len(body) - END - length
    if len(body) < END or start < 0 or not 0 < length <= LONGEST or body[-3] > 1:
        raise BadLetter("not signed")
    middle = start + length
    signature = bytes(body[middle : middle + 2 * HALF])
    seal = Seal(bytes(body[start:middle]), signature, bool(body[-3]))
    return memoryview(body)[:start], seal


def parted(body: bytes) -> tuple[bytes, Seal]:
    """A letter without its seal, and the seal; BadLetter where there is none."""
    content, seal = viewed(body)
    return bytes(content), seal


def content(body: bytes) -> bytes:
    """A letter without its seal."""
    return parted(body)[0]


def hash_of(content: bytes | memoryview) -> str:
    """What a statement holds of a letter."""
    return hashlib.sha256(content).hexdigest()


class Signer:
    """Puts the seal of one node on its letters."""

    def __init__(self, identity: Identity, charter: str):
        key = load_pem_private_key(identity.key, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key, self._charter = key, charter
        certificate = x509.load_pem_x509_certificate(identity.certificate)
        self._certificate = certificate.public_bytes(Encoding.DER)

    def sealed(self, content: bytes, envelope: Envelope, to: str = ALL) -> bytes:
        """A letter with its seal."""
        seal = self.signed(Statement(self._charter, *envelope, to, hash_of(content)))
        return b"".join((
            content, seal.certificate, seal.signature, bytes([to != ALL]),
            len(seal.certificate).to_bytes(2, "big"),
        ))  # fmt: skip

    def signed(self, statement: Signable) -> Seal:
        """What makes a statement this node's."""
        r, s = decode_dss_signature(self._key.sign(statement.text, _ALGORITHM))
        signature = r.to_bytes(HALF, "big") + s.to_bytes(HALF, "big")
        return Seal(self._certificate, signature, False)


def is_signed(statement: Signable, seal: Seal, authority: bytes) -> bool:
    """Whether the node that a statement names has signed it, by a certificate of the authority."""
    key = _key_of(seal.certificate, statement.sender, authority)
    if key is None:
        return False
    numbers = [int.from_bytes(seal.signature[i : i + HALF], "big") for i in (0, HALF)]
    try:
        key.verify(encode_dss_signature(*numbers), statement.text, _ALGORITHM)
    except InvalidSignature:
        return False
    return True


@lru_cache(maxsize=1024)
def _key_of(certificate: bytes, node: str, authority: bytes) -> ec.EllipticCurvePublicKey | None:
    """The key in a node's certificate; None where it is not the node's or of another authority.

    Whether it has expired is for the connection to see: what was signed before stays signed.
    """
    try:
        own = x509.load_der_x509_certificate(certificate)
        if name_in(own) != node or not is_issued(own, x509.load_pem_x509_certificate(authority)):
            return None
        key = own.public_key()
    except Exception:  # a neighbour's bytes, for which the parser has many exceptions
        return None
    return key if isinstance(key, ec.EllipticCurvePublicKey) else None


def marked(body: bytes | memoryview) -> Any:
    """The hash of what is signed in a letter, of anything where it is none; other threads go on."""
    try:
        inside, _ = viewed(body)
    except BadLetter:
        inside = memoryview(body)
    return hashlib.sha256(inside)


def checked(
    body: bytes | memoryview,
    envelope: Envelope,
    charter: str,
    reader: str,
    authority: bytes,
    mark: Any = None,
) -> Any:
    """The hash of what is signed in a letter, refused where its sender has not for this reader.

    `mark` is that hash, where it is known.
    """
    _, seal = viewed(body)
    to = reader if seal.personal else ALL
    mark = marked(body) if mark is None else mark
    if not is_signed(Statement(charter, *envelope, to, mark.hexdigest()), seal, authority):
        raise BadLetter(f"the signature is not that of {envelope.sender}")
    return mark
