"""Large letters go over the network in pieces, so that nobody needs room for a whole one.

How long a letter is stands in a header and is known, and refused, before its first piece is read.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol, TypeVar

from peerwise.peer.large import is_large

PIECE = 1 << 20  # bytes; all pieces but the last are as long as this
BYTES = "peerwise-bytes"  # the header with the length of what comes in pieces

Made = TypeVar("Made", covariant=True)


class Sink(Protocol[Made]):
    """Where the pieces of one letter go."""

    async def add(self, piece: bytes) -> None:
        """Take the next piece."""

    async def whole(self) -> Made:
        """The letter."""

    def drop(self) -> None:
        """Forget what came: it becomes no letter."""


Sinks = Callable[[int], Sink[Any]]  # makes one for a letter of so many bytes


class BadPieces(Exception):
    """Pieces that do not make what was announced."""


class Pieces:
    """A letter in memory, in pieces."""

    def __init__(self) -> None:
        self.all: list[bytes] = []

    def __len__(self) -> int:
        return sum(map(len, self.all))


class Gathered:
    """A sink that keeps a letter in memory."""

    def __init__(self) -> None:
        self._came = Pieces()

    async def add(self, piece: bytes) -> None:
        """Take the next piece."""
        self._came.all.append(piece)

    async def whole(self) -> bytes | Pieces:
        """The letter; a large one stays in pieces."""
        return self._came if is_large(len(self._came)) else b"".join(self._came.all)

    def drop(self) -> None:
        """Forget what came."""
        self._came.all.clear()


def in_memory(size: int) -> Gathered:
    """Keep a letter in memory, whatever its size."""
    return Gathered()


def cut(body: bytes | Pieces) -> Iterator[bytes]:
    """The pieces of a letter."""
    if isinstance(body, Pieces):
        yield from body.all
        return
    view = memoryview(body)
    for start in range(0, len(body), PIECE):
        yield bytes(view[start : start + PIECE])


async def cut_slowly(body: bytes | Pieces) -> AsyncIterator[bytes]:
    """The same, for who asks for one after the other."""
    for piece in cut(body):
        yield piece


def announced(headers: Any) -> int:
    """How long what comes in pieces says it is; 0 where it comes in one."""
    text = str(dict(headers or ()).get(BYTES, ""))
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 12 else 0


def announcing(size: int) -> tuple[tuple[str, str], ...]:
    """The header of something of so many bytes; none where it is sent in one."""
    return ((BYTES, str(size)),) if is_large(size) else ()


async def put_together(
    read: Callable[[], Any], size: int, sink: Sink[Any], seconds: float | None = None
) -> Any:
    """What comes in pieces, as the sink makes it; each must come within so many seconds.

    `read` gives the next piece, and anything else after the last one.
    """
    left = size
    try:
        while left:
            piece = await asyncio.wait_for(read(), seconds)
            if not isinstance(piece, bytes):
                raise BadPieces(f"it ended {left} bytes before its end")
            if len(piece) != min(left, PIECE):
                raise BadPieces(f"a piece of {len(piece)} bytes instead of {min(left, PIECE)}")
            left -= len(piece)
            await sink.add(piece)
        return await sink.whole()
    except BaseException:
        sink.drop()
        raise
