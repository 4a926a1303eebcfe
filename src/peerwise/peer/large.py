"""Letters that are large: files beside the database, which would write each twice and rub it out.

In its place the database has a reference: the letter's hash and size. A file is on the disk before
its reference is, and goes after it, so that a crash leaves a file too many and never one too few.
"""

import hashlib
import mmap
import os
from collections.abc import Collection
from pathlib import Path

from peerwise.errors import BadFile

FOLDER = "letters"
LARGE = 1 << 20  # bytes from which on a letter is a file
HASH = 64  # characters of a reference before a colon and the size


def letter_hash(kept: bytes | str) -> str:
    """The hash of a letter that is kept whole or as a reference."""
    return kept[:HASH] if isinstance(kept, str) else hashlib.sha256(kept).hexdigest()


def is_large(body: bytes) -> bool:
    """Whether a letter is a file."""
    return len(body) >= LARGE


def reference_of(body: bytes, mark: str) -> bytes | str:
    """What a row has of a letter with this hash: itself, or a reference where it is large."""
    return f"{mark}:{len(body)}" if is_large(body) else body


class Filed:
    """A letter in its file, which is held open: it can be read even after it was removed."""

    def __init__(self, path: Path):
        self._file = -1
        self._file = os.open(path, os.O_RDONLY)

    def view(self) -> memoryview:
        """The letter as it lies in its file, which no memory is needed for."""
        try:
            return memoryview(mmap.mmap(self._file, 0, prot=mmap.PROT_READ))
        except (OSError, ValueError) as error:
            raise BadFile(f"cannot read a large letter: {error}") from None

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)


class Large:
    """The folder of large letters."""

    def __init__(self, state: Path):
        self._folder = state / FOLDER

    def write(self, reference: str, body: bytes) -> None:
        """Put a letter into its file, on the disk when this returns."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path, draft = self._folder / letter_hash(reference), self._folder / "draft"
        try:
            with open(draft, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except OSError as error:
            raise BadFile(f"cannot write to the state {path}: {error.strerror}") from None

    def settle(self) -> None:
        """Have the names of the files on the disk, too."""
        if self._folder.exists():
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def read(self, kept: bytes | str) -> bytes:
        """The letter of a row; BadFile where its file is gone or is another."""
        if isinstance(kept, bytes):
            return kept
        path = self._folder / letter_hash(kept)
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
            return Filed(self._folder / letter_hash(kept))
        except OSError:  # too many are open
            return None

    def sweep(self, references: Collection[str]) -> None:
        """Remove the files that no row refers to."""
        if self._folder.exists():
            known = set(map(letter_hash, references))
            for path in self._folder.iterdir():
                if path.name not in known:
                    path.unlink(missing_ok=True)
