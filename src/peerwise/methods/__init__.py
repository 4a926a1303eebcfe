"""The papers' algorithms, as compositions, and their centralised references."""

from peerwise.methods.crc import crc, isolated, ml, rc

__all__ = ["crc", "isolated", "ml", "rc"]
