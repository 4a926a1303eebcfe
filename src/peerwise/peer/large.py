"""Letters that are large: files beside the database, which would write each twice and rub it out.

In its place the database has a reference: the letter's hash and size. A file is on the disk before
its reference is, and goes after it, so that a crash leaves a file too many and never one too few.
A letter that comes in pieces is written to a draft. Files that are used up are written over by
drafts to come: a new file costs a file system several times as much.
"""

import hashlib
import itertools
import mmap
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any

from peerwise.errors import BadFile

FOLDER = "letters"
LARGE = 1 << 20  # bytes from which on a letter is a file
HASH = 64  # characters of a reference before a colon and the size
SPARE = 256  # files that wait to be written over


def letter_hash(kept: bytes | str) -> str:
    """The hash of a letter that is kept whole or as a reference."""
    return kept[:HASH] if isinstance(kept, str) else hashlib.sha256(kept).hexdigest()


def is_large(size: int) -> bool:
    """Whether a letter of so many bytes is a file, and comes and goes in pieces."""
    return size >= LARGE


def reference_of(body: "Body", mark: str) -> bytes | str:
    """What a row has of a letter with this hash: itself, or a reference where it is large."""
    return body if isinstance(body, bytes) and not is_large(len(body)) else f"{mark}:{len(body)}"


class _Map(mmap.mmap):
    """A view of a file, which is not written over as long as anybody has it."""

    of: Any


class Filed:
    """A letter in its file, which is held open: it can be read even after it was removed.

    `mark` is the hash of what is signed in it, where it is known. A draft that becomes no letter of
    the folder goes when this does.
    """

    def __init__(self, home: "Large", name: str, size: int | None = None):
        self._home, self.mark, self._file = home, None, -1
        how = os.O_RDONLY if size is None else os.O_RDWR | os.O_CREAT
        home.hold(self, name)
        self._file = os.open(home.folder / name, how, 0o600)
        if size is not None:
            os.ftruncate(self._file, size)
        self._size = os.fstat(self._file).st_size

    mark: Any

    def __len__(self) -> int:
        return self._size

    def view(self) -> memoryview:
        """The letter as it lies in its file, which no memory is needed for."""
        try:
            view = _Map(self._file, self._size, prot=mmap.PROT_READ)
        except (OSError, ValueError) as error:
            raise BadFile(f"cannot read a large letter: {error}") from None
        view.of = self
        return memoryview(view)

    def write(self, piece: bytes, at: int) -> None:
        """Put a piece of a draft in its place."""
        left = memoryview(piece)
        while left:
            done = os.pwrite(self._file, left, at)
            left, at = left[done:], at + done

    def settle(self) -> None:
        """Have what was written on the disk."""
        os.fdatasync(self._file)

    def drop(self) -> None:
        """Give up a draft that becomes no letter; of one that did nothing happens."""
        self._home.give_up(self)

    def __del__(self) -> None:
        self._home.let_go(self)
        if self._file >= 0:
            os.close(self._file)


Body = bytes | Filed  # of a letter that came


def view_of(body: Body | memoryview) -> bytes | memoryview:
    """The bytes of a letter, wherever they are."""
    return body.view() if isinstance(body, Filed) else body


class Large:
    """The folder of large letters."""

    def __init__(self, state: Path):
        self.folder = state / FOLDER
        self._held: dict[int, str] = {}  # files that are open, by who has them
        self._drafts: set[str] = set()
        self._spare: list[str] = []  # used up, to be written over
        self._reuses = False
        self._names, self._lock = itertools.count(), RLock()

    def hold(self, file: Filed, name: str) -> None:
        """Note that a file is in use."""
        with self._lock:
            self._held[id(file)] = name

    def let_go(self, file: Filed) -> None:
        """Note that a file is not in use any more."""
        with self._lock:
            self.give_up(file)
            self._held.pop(id(file), None)

    def give_up(self, file: Filed) -> None:
        """Have a draft written over by the next."""
        with self._lock:
            name = self._held.get(id(file), "")
            if name in self._drafts:
                del self._held[id(file)]
                self._drafts.discard(name)
                self._retire(name)

    def draft(self, size: int) -> Filed:
        """A file for a letter that comes in pieces."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with self._lock:
            self._reuses = True
            name = self._spare.pop() if self._spare else f"draft-{next(self._names)}"
            self._drafts.add(name)
        try:
            return Filed(self, name, size)
        except OSError as error:
            raise BadFile(f"cannot write to the state {self.folder}: {error.strerror}") from None

    def write(self, reference: str, body: Body) -> None:
        """Put a letter into its file, on the disk when this returns."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        path = self.folder / letter_hash(reference)
        try:
            if isinstance(body, Filed):
                self._adopt(body, path)
                return
            draft = self.folder / "draft"
            with open(draft, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except OSError as error:
            raise BadFile(f"cannot write to the state {path}: {error.strerror}") from None

    def _adopt(self, body: Filed, path: Path) -> None:
        """Give a draft, which is on the disk, the name of its letter."""
        with self._lock:
            name = self._held.get(id(body))
            if name is None:
                raise BadFile("a large letter was given up before it was kept")
            if name in self._drafts:
                os.replace(self.folder / name, path)
                self._drafts.discard(name)
                self._held[id(body)] = path.name

    def settle(self) -> None:
        """Have the names of the files on the disk, too."""
        if self.folder.exists():
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def read(self, kept: bytes | str) -> bytes:
        """The letter of a row; BadFile where its file is gone or is another."""
        if isinstance(kept, bytes):
            return kept
        path = self.folder / letter_hash(kept)
        try:
            body = path.read_bytes()
        except OSError as error:
            raise BadFile(f"the state is damaged: cannot read {path}: {error.strerror}") from None
        if letter_hash(body) != letter_hash(kept):
            raise BadFile(f"the state is damaged: {path} is not as it was written")
        return body

    def filed(self, kept: bytes | str) -> Filed | None:
        """The file of a row's letter; None where the row has the letter itself."""
        if isinstance(kept, bytes):
            return None
        try:
            return Filed(self, letter_hash(kept))
        except OSError:  # too many are open
            return None

    def sweep(self, references: Collection[str]) -> None:
        """Retire the files that no row refers to."""
        if self.folder.exists():
            known = set(map(letter_hash, references))
            for path in self.folder.iterdir():
                with self._lock:
                    if path.name not in known | self._drafts | set(self._spare):
                        self._retire(path.name)

    def _retire(self, name: str) -> None:
        """Have a file written over by the next draft; one that somebody still reads goes."""
        path = self.folder / name
        with suppress(OSError):
            if not self._reuses or name in self._held.values() or len(self._spare) >= SPARE:
                path.unlink(missing_ok=True)
                return
            spare = f"draft-{next(self._names)}"
            os.replace(path, self.folder / spare)
            self._spare.append(spare)

    def close(self) -> None:
        """Remove files that wait to be written over."""
        with self._lock:
            while self._spare:
                (self.folder / self._spare.pop()).unlink(missing_ok=True)
            self._reuses = False
