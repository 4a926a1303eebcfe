"""Which rows of a growing file were released before: appended rows are a part of their own.

A row is in one part only, so releases about different parts cost as much as the most expensive
part. Parts are known by a hash over all rows up to their end. Where anything in a released part was
changed, rows of it may be in another part now, and what is released counts for every row.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

GROUP = "rows of a growing file"
EMPTY = "\x00"  # stands for an empty cell: no text of a CSV file is this one


class Part(NamedTuple):
    """Rows from `first` up to `last`, and the hash of all rows up to there."""

    first: int
    last: int
    hash: str

    @property
    def name(self) -> str:
        """What the part is called in a ledger."""
        return f"{self.first} to {self.last}"


def row_hashes(frame: pd.DataFrame) -> list[str]:
    """For each row the hash of all rows up to it; columns count by their names."""
    ordered = frame.rename(columns=str)
    ordered = ordered[sorted(ordered.columns)]
    mark = hashlib.sha256("\n".join(ordered.columns).encode())
    digests = [mark.hexdigest()]
    cells = ordered.astype(str).mask(ordered.isna(), EMPTY)
    for row in cells.itertuples(index=False):
        mark.update("\x1f".join(row).encode() + b"\x1e")
        digests.append(mark.hexdigest())
    return digests


def released_parts(parameters: Iterable[Mapping[str, Any]]) -> set[Part]:
    """The parts that the releases of a ledger were about, by what it says of each."""
    return {Part(*one) for given in parameters for one in given.get("rows", ())}


def known_parts(released: Iterable[Part], hashes: Sequence[str]) -> list[Part]:
    """The parts of these rows that were released, one after the other from the first row."""
    ours = sorted(p for p in released if p.last < len(hashes) and hashes[p.last] == p.hash)
    chain: list[Part] = []
    for part in ours:
        if part.first == (chain[-1].last if chain else 0):
            chain.append(part)
    return chain


def parts_of(known: Sequence[Part], hashes: Sequence[str]) -> list[Part]:
    """The known parts and, where there are more rows, one more."""
    done, rows = (known[-1].last if known else 0), len(hashes) - 1
    new = [Part(done, rows, hashes[rows])] if rows > done or not known else []
    return [*known, *new]


def share_rows(parts: Iterable[Part], released: Iterable[Part]) -> bool:
    """Whether a row may be in one of the parts and in another one that was released."""
    return any(
        one != other and max(one.first, other.first) < min(one.last, other.last)
        for one in parts
        for other in released
    )
