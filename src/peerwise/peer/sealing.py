"""A peer's terms of sealed sums: exact, with its share of the noise, masked, and made once."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from peerwise.core import Shard, State
from peerwise.errors import BadSetting
from peerwise.methods import words
from peerwise.methods.aligned import MISSED
from peerwise.methods.sealed import Sealed
from peerwise.peer.charter import Charter
from peerwise.peer.journal import log
from peerwise.privacy import Noise
from peerwise.privacy.sealing import Masks, Place

RELEASE = "sums"  # what is learnt from; what is agreed first goes by names of its own


def masks_of(
    charter: Charter, name: str, sealed: Sealed, secret: bytes, keys: Mapping[str, str]
) -> Masks | None:
    """The masks of a node, from the keys that all members have told; None before they have."""
    if keys.keys() != set(charter.names):
        return None
    colluders = sealed.sums.least - sealed.grid.honest
    public = {one: bytes.fromhex(key) for one, key in keys.items()}
    return Masks(name, secret, public, charter.hash, colluders)


class Sealing:
    """What a node does in place of its method's `adapt`.

    `rows` are its exact x and y, None where there is no noise. `masks` is None before there are
    keys, and where a node is only looked at. No two sums under a charter have the same `release`
    and round. `known` is the hash of what earlier sums agreed on: masks cancel only among those
    that know the same.
    """

    def __init__(
        self,
        sealed: Sealed,
        names: tuple[str, ...],
        rows: tuple[np.ndarray, np.ndarray] | None,
        noise: Noise,
        masks: Masks | None,
        release: str = RELEASE,
        known: str = "",
    ):
        self._sealed, self._names, self._rows = sealed, names, rows
        self._noise, self._masks, self._release, self._known = noise, masks, release, known

    def __call__(self, state: State, shard: Shard, t: int) -> State:
        """The state with a term for the next sum, if one is due."""
        programs = self._sealed.programs
        state = programs.learnt(state)
        if not programs.due(state):
            return state
        masked = self.masked(self.term(state, shard), state.value["sums"])
        following: State = programs.making(state, words.as_words(masked))
        return following

    def term(self, state: State, shard: Shard) -> np.ndarray:
        """What this node adds to the next sum, as integers modulo 2^64; not to be sent."""
        if self._rows is None:
            return words.as_integers(self._sealed.programs.whole(state, shard))
        std = self._sealed.grid.std
        noise = self._noise("discrete", np.zeros(len(std)), std)
        whole = self._sealed.exact(state, *self._rows).astype(np.int64) + noise.astype(np.int64)
        return whole.view(np.uint64)

    def masked(self, term: np.ndarray, sums: dict[str, Any]) -> np.ndarray:
        """A term as it leaves: uniform to all but those who have the secrets of this member."""
        if self._masks is None:  # a share of the noise protects nobody whose term can be read
            raise BadSetting("there are no keys yet, and no term may leave without its mask")
        at = int(self._sealed.sums.stage(sums))
        epoch = f"{int(sums['epoch'])} {int(sums['chief'])}"
        place = Place(epoch, f"{self._release} {self._known}", at)
        members = members_of(np.asarray(sums["members"]), self._names)
        out: np.ndarray = term + self._masks.mask(place, members, len(term))
        return out


def members_of(members: np.ndarray, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names in a set of bits."""
    bits = np.unpackbits(members.astype("<u4").view(np.uint8), bitorder="little")
    return tuple(name for name, is_in in zip(names, bits, strict=False) if is_in)


def without_terms(state: State, why: str) -> State:
    """The state of a node that makes no more terms, and has none.

    It still hands on the sums of others. Who lacks a member's key can seal nothing. A peer that was
    put back to an old state may have sent a term that it does not know of. It makes no other in its
    place: two under one mask would tell their difference.
    """
    sums = state.value["sums"]
    if not sums["lost"]:
        log.warning("adds no more to sealed sums", extra={"facts": {"why": why}})
    none = {key: np.zeros_like(sums[key]) for key in ("made", "term")}
    sums = {**sums, **none, "lost": np.maximum(sums["lost"], MISSED)}
    return state._replace(value={**state.value, "sums": sums})


def used_mask(state: State) -> tuple[int, str] | None:
    """The round of the last term that a node made, and the hash of the term as it leaves."""
    sums = state.value["sums"]
    at = int(sums["made"])
    if not at:
        return None
    return at, hashlib.sha256(words.as_integers(sums["term"]).tobytes()).hexdigest()
