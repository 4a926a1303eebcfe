"""One short text for the bytes that a source reads: it changes when its rows may have changed."""

import hashlib
import json
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from peerwise.data import manifest
from peerwise.data.formats import TABULAR
from peerwise.errors import BadFile


def fingerprint(source: str, *, folder: str | Path | None = None, **how: Any) -> str:
    """The sha256 of the bytes that `load(source)` reads, as 64 hexadecimal digits.

    For a data set of a folder its manifest entry counts too, without the notes. A bundled set and
    one of OpenML go by their name and the version of scikit-learn, which brings them. `how`, where
    given, is part of what is hashed: the same bytes read in another way are other rows.
    """
    parts = _parts(str(source), folder)
    if how:
        parts.append(_sha256(json.dumps(how, sort_keys=True, default=str)))
    return parts[0] if len(parts) == 1 else _sha256("\n".join(parts))


def _parts(source: str, folder: str | Path | None) -> list[str]:
    if not source.startswith("openml:"):
        if Path(source).suffix.lower() in TABULAR:
            return [_of_file(Path(source))]
        home = manifest.find_folder(folder)
        entry = {} if home is None else manifest.read_manifest(home).get(source, {})
        if home is not None and entry:
            about = {k: v for k, v in entry.items() if k != "notes"}
            files = [_of_file(path) for path in manifest.whole_files(home, entry)]
            return [*files, _sha256(json.dumps(about, sort_keys=True, default=str))]
    return [_sha256(f"{source} scikit-learn {version('scikit-learn')}")]


def _of_file(path: Path) -> str:
    try:
        status = path.stat()
        return _hashed(path.absolute(), status.st_size, status.st_mtime_ns)
    except FileNotFoundError:
        raise BadFile(f"there is no file '{path}'") from None
    except OSError as error:
        raise BadFile(f"cannot read '{path}': {error}") from error


@lru_cache(maxsize=256)  # size and time are part of the key: a changed file is read again
def _hashed(path: Path, size: int, mtime_ns: int) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
