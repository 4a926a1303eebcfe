"""Files that show when they are damaged: each one holds the hash of its own bytes.

A writer puts `BLANK` somewhere into a file: a line of text, a field of JSON, the metadata of
another format. `write_hashed` writes the SHA-256 of the file with `BLANK` in that place, and
`check` works it out again. So one rule serves all formats, and no byte is left out.
"""

import hashlib
import json
import mmap
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from peerwise.errors import BadFile

MARK = "peerwise-sha256:"
BLANK = MARK + "0" * 64
_WRITTEN = re.compile(re.escape(MARK.encode()) + rb"([0-9a-f]{64})")
# what readers raise of bytes that they did not write
BROKEN = (
    OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, EOFError,
    RecursionError, MemoryError, NotImplementedError, SafetensorError,
)  # fmt: skip


class NoHash(UserWarning):
    """A file of an earlier version, whose damage would not be seen."""


def _private(path: str, flags: int) -> int:
    """A new file that nobody else can read at any time."""
    return os.open(path, flags | os.O_EXCL, 0o600)


def check_place(path: str | Path) -> None:
    """Refuse a place for a file that cannot be written there, before the work that it is for."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        usable = os.access(path if path.exists() else path.parent, os.W_OK)
    except OSError as error:
        raise BadFile(f"cannot write {path}: {error.strerror}; give another place") from None
    if path.is_dir() or not usable:
        why = "it is a folder" if path.is_dir() else "permission denied"
        raise BadFile(f"cannot write {path}: {why}; give another place")


def write_whole(path: str | Path, *content: bytes | memoryview, private: bool = False) -> None:
    """Write a file so that a crash leaves the old one or the new one, never half of it.

    `private`: so that only its owner can read it, and a folder that is made for it.
    """
    path = Path(path)
    if path.is_dir():
        raise BadFile(f"cannot write {path}: it is a folder; give a file in it")
    draft = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(0o700 if private else 0o777, parents=True, exist_ok=True)
        if private:
            draft.unlink(missing_ok=True)
        with open(draft, "wb", opener=_private if private else None) as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        raise BadFile(f"cannot write {path}: {error.strerror}; give another place") from None


def write_hashed(path: str | Path, content: bytes) -> None:
    """Write a file whole, with the hash of its bytes in the place of the one `BLANK` in it."""
    begin = content.index(BLANK.encode())
    end, view = begin + len(BLANK), memoryview(content)
    written = (MARK + hashlib.sha256(view).hexdigest()).encode()
    write_whole(path, view[:begin], written, view[end:])


def check(path: str | Path, mend: str, needed: bool = True) -> bool:
    """Refuse a file whose bytes are not those that were written; returns whether it has a hash.

    Files of earlier versions have none and are refused too, unless none is `needed`: then the
    reader calls `warn_unhashed` when it knows that the file is one of ours. `mend`: what to do.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            written, worked_out = _hashes(file.fileno()) if path.stat().st_size else ("", "")
    except FileNotFoundError:
        raise BadFile(f"there is no {path}") from None
    except OSError as error:
        raise BadFile(f"cannot read {path}: {error.strerror}") from None
    if written != worked_out:
        raise BadFile(f"{path} is damaged: its bytes are not those that were written; {mend}")
    if not written and needed:
        raise BadFile(f"{path} is damaged or of an earlier version: it has no hash; {mend}")
    return bool(written)


def warn_unhashed(path: str | Path) -> None:
    """Warn that damage to a file of an earlier version would not be seen."""
    words = f"{path} has no hash, being of an earlier version: damage to it would not be seen"
    warnings.warn(words, NoHash, stacklevel=3)


def _hashes(file: int) -> tuple[str, str]:
    """The hash that a file holds and the one of its bytes; both empty where it holds none."""
    with mmap.mmap(file, 0, access=mmap.ACCESS_READ) as content, memoryview(content) as view:
        at = _WRITTEN.search(view)
        if at is None:
            return "", ""
        begin, end, written = at.start(), at.end(), at.group(1).decode()
        del at  # it holds the view
        mark = hashlib.sha256()
        for part in (view[:begin], BLANK.encode(), view[end:]):
            mark.update(part)
            if isinstance(part, memoryview):
                part.release()
        return written, mark.hexdigest()


def one_line(error: BaseException) -> str:
    """The first line of what an error says, or its kind where it says nothing."""
    return (str(error).splitlines() or [""])[0] or type(error).__name__


def write_tensors(
    path: str | Path, arrays: Mapping[str, np.ndarray], header: Mapping[str, str]
) -> None:
    """Write a safetensors file with a header of texts and its hash."""
    write_hashed(path, to_bytes(dict(arrays), metadata={**header, "hash": BLANK}))


class Tensors(NamedTuple):
    """What a safetensors file holds."""

    header: dict[str, str]
    arrays: dict[str, np.ndarray]
    hashed: bool  # whether it has a hash, which then is right


def read_tensors(path: str | Path, what: str, mend: str, needed: bool = True) -> Tensors:
    """What `write_tensors` wrote; `what`: how to call the file."""
    if not Path(path).exists():
        raise BadFile(f"there is no {what} {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            header = dict(file.metadata() or {})
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except BROKEN as error:
        raise BadFile(f"{path} is not a {what} or is damaged: {one_line(error)}") from None
    hashed = check(path, mend, needed)
    header.pop("hash", None)
    return Tensors(header, arrays, hashed)


def write_json(path: str | Path, fields: Mapping[str, Any]) -> None:
    """Write an object as JSON, its hash first."""
    text = json.dumps({"hash": BLANK, **fields}, indent=1, allow_nan=False)
    write_hashed(path, (text + "\n").encode())


def read_json(path: str | Path, mend: str) -> dict[str, Any]:
    """The fields that `write_json` wrote."""
    check(path, mend)
    try:
        fields: dict[str, Any] = json.loads(Path(path).read_bytes())
        del fields["hash"]
    except BROKEN as error:
        raise BadFile(f"{path} is damaged: {one_line(error)}; {mend}") from None
    return fields
