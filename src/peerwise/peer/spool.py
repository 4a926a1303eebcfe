"""Large letters that come in pieces: each is hashed and written to a file as it comes.

A letter takes no more memory than two pieces, however large it is.
"""

import asyncio
import hashlib
from concurrent.futures import Executor
from typing import Any

from peerwise.peer.large import Body, Large, is_large
from peerwise.peer.pieces import Gathered, Sink
from peerwise.peer.protocol.messages import BadLetter
from peerwise.peer.signing import MOST, viewed


class Spool:
    """Where the pieces of one letter go; see `pieces.Sink`."""

    def __init__(self, home: Large, size: int, threads: Executor):
        self._file, self._threads = home.draft(size), threads
        self._mark, self._at = hashlib.sha256(), 0
        self._end = b""  # a seal, maybe, which is not part of what is signed
        self._under_way: asyncio.Future[None] | None = None

    async def add(self, piece: bytes) -> None:
        """Take the next piece; it is written while another one comes."""
        await self._written()
        loop = asyncio.get_running_loop()
        self._under_way = loop.run_in_executor(self._threads, self._take, piece)

    async def whole(self) -> Body:
        """The letter, which is on the disk."""
        await self._written()
        await asyncio.get_running_loop().run_in_executor(self._threads, self._file.settle)
        try:
            content, _ = viewed(self._end)
        except BadLetter:
            content = memoryview(self._end)
        self._mark.update(content)
        self._file.mark = self._mark
        return self._file

    def drop(self) -> None:
        """Give up the file, once nothing is written to it any more."""
        if self._under_way is None or self._under_way.done():
            self._file.drop()
        else:
            self._under_way.add_done_callback(lambda _: self._file.drop())

    async def _written(self) -> None:
        if self._under_way is not None:
            await self._under_way

    def _take(self, piece: bytes) -> None:
        self._file.write(piece, self._at)
        self._at += len(piece)
        if len(piece) < MOST:
            piece, self._end = self._end + piece, b""
        self._mark.update(self._end)
        self._mark.update(memoryview(piece)[:-MOST])
        self._end = piece[-MOST:]


class Spools:
    """Makes the sinks of a peer: files for large letters, memory for others."""

    def __init__(self, home: Large, threads: Executor):
        self._home, self._threads = home, threads

    def __call__(self, size: int) -> Sink[Any]:
        """Where a letter of so many bytes goes."""
        if is_large(size):
            return Spool(self._home, size, self._threads)
        return Gathered()
