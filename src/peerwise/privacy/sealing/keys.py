"""Keys of members: one secret each, of which every two make the same secret of their own.

X25519 (RFC 7748) between two members, HKDF-SHA256 (RFC 5869) to bind what comes out to the
federation, the epoch, all keys in it, and the pair.
"""

import hashlib
import os
from collections.abc import Mapping
from typing import Any

from peerwise.errors import BadSetting, extra

BYTES = 32  # of a secret, a public key, a hash


def fresh_secret() -> bytes:
    """A member's own secret; it never leaves the member."""
    return os.urandom(BYTES)


def public_key(secret: bytes) -> bytes:
    """What the others are told of a secret."""
    key: bytes = _private(secret).public_key().public_bytes_raw()
    return key


def committed(public: bytes) -> bytes:
    """What a member says first, so that its key is fixed before it sees those of others.

    A key is drawn from 2^252 others: its hash tells nothing of it.
    """
    return hashlib.sha256(b"peerwise mask key " + public).digest()


def joined(*parts: bytes | str | int) -> bytes:
    """Parts as bytes, each with its length, so that no two lists of parts are the same bytes."""
    texts = [p if isinstance(p, bytes) else str(p).encode() for p in parts]
    return b"".join(len(text).to_bytes(4, "big") + text for text in texts)


def roster_hash(charter: str, keys: Mapping[str, bytes]) -> bytes:
    """What members have agreed on: the federation, who is in it and with which key.

    Masks and mask graphs follow from it: who has not seen all keys cannot foresee them, and who was
    told other keys has other masks.
    """
    about = [part for name in sorted(keys) for part in (name, keys[name])]
    return hashed("peerwise roster", charter, *about)


def fingerprint(charter: str, keys: Mapping[str, bytes]) -> str:
    """What people compare to see that all sites were told the same keys."""
    digits = roster_hash(charter, keys).hex()[:24]
    return " ".join(digits[i : i + 4] for i in range(0, 24, 4))


def hashed(*parts: bytes | str | int) -> bytes:
    """The hash of parts, which no other parts have."""
    return hashlib.sha256(joined(*parts)).digest()


def pair_secret(secret: bytes, me: str, other: str, public: bytes, roster: bytes) -> bytes:
    """The secret that only a member and the other one have, whose public key is given."""
    hashes = extra("cryptography.hazmat.primitives.hashes")
    kdf = extra("cryptography.hazmat.primitives.kdf.hkdf")
    shared = _exchanged(secret, public)
    if shared is None:
        raise BadSetting(f"the key of '{other}' is none; it cannot take part")
    about = joined("peerwise pair", *sorted((me, other)))
    derived: bytes = kdf.HKDF(hashes.SHA256(), BYTES, roster, about).derive(shared)
    return derived


def is_key(public: bytes) -> bool:
    """Whether members can share secrets with the holder of a public key that others lack."""
    return _exchanged(b"1" * BYTES, public) is not None


def _exchanged(secret: bytes, public: bytes) -> bytes | None:
    """X25519; None of a key of a wrong length, or one that makes the same secret with everybody."""
    x25519 = extra("cryptography.hazmat.primitives.asymmetric.x25519")
    try:
        shared: bytes = _private(secret).exchange(x25519.X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return None
    return shared


def _private(secret: bytes) -> Any:
    x25519 = extra("cryptography.hazmat.primitives.asymmetric.x25519")
    return x25519.X25519PrivateKey.from_private_bytes(secret)
