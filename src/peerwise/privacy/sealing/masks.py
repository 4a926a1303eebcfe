"""The masks themselves: uniform numbers, which cancel over all members of a sum.

Who uses one writes down what it hides, before it leaves: two terms under one mask tell their
difference.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from peerwise.errors import BadSetting, PeerwiseError, extra
from peerwise.privacy.sealing.graph import mask_graph, partners_wanted
from peerwise.privacy.sealing.keys import (
    BYTES,
    hashed,
    joined,
    pair_secret,
    public_key,
    roster_hash,
)

_NONCE = bytes(16)  # of ChaCha20, with its counter: every stream has a key of its own


class Reused(PeerwiseError):
    """A term that would go out under a mask which hid another before: both could be read."""

    def __init__(self, t: int):
        super().__init__(
            f"the mask of round {t} has hidden another term before, and two under one mask tell "
            "their difference: nothing was sent; put back the newest state of this peer"
        )


class Place(NamedTuple):
    """Where a mask is used: once only."""

    epoch: str  # what the members of a sum know it by
    release: str  # what is summed
    round: int


class Masks:
    """A member's masks.

    `keys` are the public ones of all members and `secret` is that of `me`. Of the members of a sum
    so many `colluders` may tell each other all that they know; `partners` overrides how many
    partners each member has for that.
    """

    def __init__(
        self,
        me: str,
        secret: bytes,
        keys: Mapping[str, bytes],
        charter: str,
        colluders: int,
        partners: int | None = None,
    ):
        if keys.get(me) != public_key(secret):
            raise BadSetting(f"the key of '{me}' that all were told is not the one it holds")
        self.me, self._secret, self._keys = me, secret, dict(keys)
        self._colluders, self._partners = colluders, partners
        self.roster = roster_hash(charter, keys)
        self._pairs: dict[str, bytes] = {}  # by partner: the secret of the pair
        self._latest: tuple[Any, bytes, tuple[str, ...]] = (None, b"", ())

    def mask(self, place: Place, members: Iterable[str], numbers: int) -> np.ndarray:
        """What is added to a term at this place; over all these members it adds up to 0."""
        epoch, partners = self._in_epoch(place.epoch, tuple(sorted(members)))
        about = joined("peerwise mask", epoch, place.release, place.round)
        total = np.zeros(numbers, np.uint64)
        for other in partners:
            stream = _stream(self._pair(other), about, numbers)
            if self.me < other:
                total += stream
            else:
                total -= stream
        return total

    def partners(self, epoch: str, members: Iterable[str]) -> tuple[str, ...]:
        """Those who share a secret with this member in a sum over these members."""
        return self._in_epoch(epoch, tuple(sorted(members)))[1]

    def _in_epoch(self, epoch: str, members: tuple[str, ...]) -> tuple[bytes, tuple[str, ...]]:
        """What masks of an epoch are bound to, and the partners in it."""
        if self._latest[0] != (epoch, members):
            if self.me not in members:
                raise BadSetting(f"'{self.me}' is no member of this sum; it has no mask in it")
            n, k = len(members), self._partners
            if k is None:
                k = partners_wanted(n, min(self._colluders, n - 2))
            k = min(k + n * k % 2, n - 1)
            mark = hashed("peerwise epoch", self.roster, epoch, *members)
            self._latest = (epoch, members), mark, mask_graph(members, mark, k)[self.me]
        return self._latest[1:]

    def _pair(self, other: str) -> bytes:
        if other not in self._pairs:
            if other not in self._keys:
                raise BadSetting(f"there is no key of '{other}'; nothing is sealed without it")
            public = self._keys[other]
            self._pairs[other] = pair_secret(self._secret, self.me, other, public, self.roster)
        return self._pairs[other]


def _stream(secret: bytes, about: bytes, numbers: int) -> np.ndarray:
    """Numbers that nobody without the secret can tell from uniform ones."""
    ciphers = extra("cryptography.hazmat.primitives.ciphers")
    hashes = extra("cryptography.hazmat.primitives.hashes")
    kdf = extra("cryptography.hazmat.primitives.kdf.hkdf")
    key = kdf.HKDFExpand(hashes.SHA256(), BYTES, about).derive(secret)
    cipher: Any = ciphers.Cipher(ciphers.algorithms.ChaCha20(key, _NONCE), None)
    stream = np.frombuffer(cipher.encryptor().update(bytes(8 * numbers)), "<u8")
    return stream.astype(np.uint64, copy=False)
