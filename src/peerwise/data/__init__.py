"""Data sets: where they are, what their columns mean, and their rows as numbers."""

from peerwise.data.decode import decode
from peerwise.data.describe import Column, Reading, describe
from peerwise.data.encode import (
    Encoded,
    Unknown,
    encode,
    encode_rows,
    read_rows,
    typed_frame,
)
from peerwise.data.fingerprint import fingerprint
from peerwise.data.kinds import Raw
from peerwise.data.loaders import Table, available, load
from peerwise.data.manifest import verify
from peerwise.data.scaling import standardise
from peerwise.data.schema import Feature, Schema

__all__ = [
    "Column",
    "Encoded",
    "Feature",
    "Raw",
    "Reading",
    "Schema",
    "Table",
    "Unknown",
    "available",
    "decode",
    "describe",
    "encode",
    "encode_rows",
    "fingerprint",
    "load",
    "read_rows",
    "standardise",
    "typed_frame",
    "verify",
]
