"""Data sets: where they are, what their columns mean, and their rows as numbers."""

from peerwise.data.decode import decode
from peerwise.data.encode import Encoded, encode, encode_rows
from peerwise.data.fingerprint import fingerprint
from peerwise.data.loaders import Table, available, load
from peerwise.data.manifest import verify
from peerwise.data.scaling import standardise
from peerwise.data.schema import Feature, Schema

__all__ = [
    "Encoded",
    "Feature",
    "Schema",
    "Table",
    "available",
    "decode",
    "encode",
    "encode_rows",
    "fingerprint",
    "load",
    "standardise",
    "verify",
]
