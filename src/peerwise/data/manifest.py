"""A data folder: the files that its MANIFEST.json lists, and whether they are whole."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from peerwise.data.published import published
from peerwise.errors import BadFile, UnknownName

FOLDER_VARIABLE = "PEERWISE_DATA"
MANIFEST = "MANIFEST.json"
FORMAT_VERSION = 1

Entry = dict[str, Any]


def find_folder(folder: str | Path | None = None) -> Path | None:
    """The data folder given, or else the one PEERWISE_DATA names; None when there is neither."""
    origin = "" if folder else f" (from {FOLDER_VARIABLE})"
    named = folder or os.environ.get(FOLDER_VARIABLE)
    if not named:
        return None
    path = Path(named)
    if not path.is_dir():
        raise BadFile(f"the data folder '{path}'{origin} does not exist; give another or none")
    return path


def read_manifest(folder: Path) -> dict[str, Entry]:
    """The entries of the folder's manifest by name, and of published files that need none."""
    path, unlisted = folder / MANIFEST, published(folder)
    if not path.is_file():
        if unlisted:
            return unlisted
        raise BadFile(f"'{folder}' is not a data folder: it has no {MANIFEST}")
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile(f"'{path}' is damaged or cut short: {error}; copy it again") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("datasets"), list):
        raise BadFile(f"'{path}' must be an object with the list 'datasets'")
    if raw.get("format_version", FORMAT_VERSION) != FORMAT_VERSION:
        version = raw["format_version"]
        raise BadFile(
            f"'{path}' has format version {version!r}; this version reads only {FORMAT_VERSION}"
        )
    entries: dict[str, Entry] = {}
    for i, entry in enumerate(raw["datasets"]):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise BadFile(f"entry {i} of '{path}' must be an object with the text 'name'")
        if entry["name"] in entries:
            raise BadFile(f"'{path}' lists '{entry['name']}' twice; rename one")
        entries[entry["name"]] = entry
    return unlisted | entries


def text(entry: Entry, key: str) -> str:
    """The text under `key`, which must be there."""
    value = entry.get(key)
    if not isinstance(value, str):
        raise BadFile(f"the manifest's entry '{entry['name']}' must have the text '{key}'")
    return value


def optional_text(entry: Entry, key: str) -> str | None:
    """The text under `key`, None if it is absent."""
    return None if entry.get(key) is None else text(entry, key)


def texts(entry: Entry, key: str) -> tuple[str, ...]:
    """The list of texts under `key`, empty if it is absent."""
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
        raise BadFile(f"'{key}' of the manifest's entry '{entry['name']}' must be a list of texts")
    return tuple(value)


def feature_columns(entry: Entry, columns: Iterable[str]) -> list[str]:
    """The columns of a table that are not its own target, its split, or marked as no feature."""
    other = {optional_text(entry, "target"), optional_text(entry, "split_column")}
    other |= {*texts(entry, "not_features"), *texts(entry, "non_feature_columns")}
    return [c for c in columns if c not in other]


def whole_files(folder: Path, entry: Entry) -> list[Path]:
    """The paths of an entry's files; each exists and has the size that the manifest gives."""
    paths = []
    for part in _parts(entry):
        path = folder / part["file"]
        if not path.is_file():
            by = f"which {MANIFEST} lists for" if entry.get("listed", True) else "a file of"
            raise BadFile(f"'{path}', {by} '{entry['name']}', is not there; copy it there")
        size, expected = path.stat().st_size, part.get("bytes")
        if expected is not None and size != expected:
            raise BadFile(f"'{path}' has {size} bytes and should have {expected}; copy it again")
        paths.append(path)
    return paths


def verify(name: str, folder: str | Path | None = None) -> list[tuple[str, bool]]:
    """For each file of a folder's data set: its name and whether its sha256 is the manifest's."""
    home = find_folder(folder)
    if home is None:
        raise BadFile(f"there is no data folder to verify; give one or set {FOLDER_VARIABLE}")
    entries = read_manifest(home)
    if name not in entries:
        raise UnknownName("data set", name, entries)
    return [_verified(home, name, part) for part in _parts(entries[name])]


def _verified(home: Path, name: str, part: Entry) -> tuple[str, bool]:
    sha256, path = part.get("sha256"), home / part["file"]
    if not isinstance(sha256, str):
        raise BadFile(f"{MANIFEST} has no sha256 for '{part['file']}' of '{name}'; add it")
    if not path.is_file():
        return part["file"], False
    try:
        with path.open("rb") as stream:
            return part["file"], hashlib.file_digest(stream, "sha256").hexdigest() == sha256.lower()
    except OSError as error:
        raise BadFile(f"cannot read '{path}': {error}") from error


def _parts(entry: Entry) -> list[Entry]:
    """One {file, bytes, sha256} for each file; an entry of a single file is its own part."""
    parts = entry.get("files", [entry])
    if not isinstance(parts, list) or not parts:
        raise BadFile(f"the manifest's entry '{entry['name']}' must name a 'file' or some 'files'")
    for part in parts:
        file = part.get("file") if isinstance(part, dict) else None
        if not isinstance(file, str) or not file:
            raise BadFile(f"the manifest's entry '{entry['name']}' must name its 'file'")
        # a manifest may come from somebody else and must not point at the reader's other files
        if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts:
            raise BadFile(f"'{file}' of '{entry['name']}' must lie inside the data folder")
    return parts
