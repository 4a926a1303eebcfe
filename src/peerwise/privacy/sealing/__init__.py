"""Sealed sums: masks that hide a member's term and cancel in the sum over all members.

A term is a flat vector of whole numbers modulo 2^64. Each pair of members that the mask graph joins
shares a secret; one of the two adds a stream of numbers that follows from it, the other takes the
same stream away. Whoever does not know the secrets of a member sees uniform numbers.
"""

from peerwise.privacy.sealing.graph import expected_parts, mask_graph, partners_wanted
from peerwise.privacy.sealing.keys import committed, fresh_secret, pair_secret, public_key
from peerwise.privacy.sealing.masks import Masks, Place, Reused

__all__ = [
    "Masks",
    "Place",
    "Reused",
    "committed",
    "expected_parts",
    "fresh_secret",
    "mask_graph",
    "pair_secret",
    "partners_wanted",
    "public_key",
]
