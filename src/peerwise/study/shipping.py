"""What a job needs besides the package, sent to a machine that shares no folder with this one.

Data sets of the data folder, files that are named relative to the current folder, and modules of
the user's own. A machine writes each file once, by its content, and many processes read it.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from peerwise import own
from peerwise.data import manifest
from peerwise.errors import BadFile
from peerwise.files import write_whole
from peerwise.study.jobs import Job, sources

DATA, CODE, WORK = "data", "code", "work"  # what lies where, below the folder of a study


class Parcel(NamedTuple):
    """What one job needs: which file lies where in the folder of the study, by content."""

    study: str  # names the folder
    files: dict[str, str]  # place -> sha256
    has_data: bool  # whether a data folder is set

    def unpack(self, fetch: Callable[[str], Any]) -> Path:
        """Write what is not there yet, fetched by content, and make this process look there."""
        folder = scratch() / self.study
        for place, digest in self.files.items():
            path = folder / place
            if not path.exists():  # files are written whole or not at all
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, memoryview(fetch(digest)))
        for name in (CODE, WORK):
            (folder / name).mkdir(parents=True, exist_ok=True)
        os.environ.pop(manifest.FOLDER_VARIABLE, None)
        if self.has_data:
            (folder / DATA).mkdir(exist_ok=True)
            os.environ[manifest.FOLDER_VARIABLE] = str(folder / DATA)
        os.chdir(folder / WORK)
        own.look_in(folder / CODE)
        return folder


class Shipment(NamedTuple):
    """All files that the jobs of a study need."""

    parcels: dict[str, Parcel]  # by the key of a job
    contents: dict[str, Path | bytes]  # by sha256


def scratch() -> Path:
    """A folder on this machine that no other user can read or prepare."""
    path = Path(tempfile.gettempdir()) / f"peerwise-{_user()}"
    path.mkdir(mode=0o700, exist_ok=True)
    about = path.stat()
    if hasattr(os, "getuid") and (about.st_uid != os.getuid() or about.st_mode & 0o077):
        raise BadFile(f"{path} belongs to somebody else or is open to others; remove it")
    return path


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else "jobs"


def shipped(jobs: Iterable[Job]) -> Shipment:
    """What jobs need besides the package, as it is on this machine now."""
    home = manifest.find_folder()
    entries = {} if home is None else manifest.read_manifest(home)
    contents: dict[str, Path | bytes] = {}
    listed: dict[Path, str] = {}

    def digest_of(path: Path) -> str:
        if path not in listed:
            with path.open("rb") as stream:
                listed[path] = hashlib.file_digest(stream, "sha256").hexdigest()
            contents[listed[path]] = path
        return listed[path]

    needs: dict[str, dict[str, str]] = {}
    for job in jobs:
        used = [entries[name] for name in sorted(set(sources(job.asked))) if name in entries]
        files = {f"{CODE}/{name}": path for name, path in own.sources_of(job.asked).items()}
        files |= {f"{WORK}/{name}": Path(name) for name in _named(job.asked)}
        if home is not None:
            paths = [path for entry in used for path in manifest.whole_files(home, entry)]
            files |= {f"{DATA}/{path.relative_to(home).as_posix()}": path for path in paths}
        needs[job.key] = {place: digest_of(path) for place, path in files.items()}
        if used:  # a manifest of all sets would change with sets that nobody asks for
            text = json.dumps({"format_version": manifest.FORMAT_VERSION, "datasets": used})
            digest = hashlib.sha256(text.encode()).hexdigest()
            contents[digest] = text.encode()
            needs[job.key][f"{DATA}/{manifest.MANIFEST}"] = digest
    return Shipment({key: _parcel(files, home) for key, files in needs.items()}, contents)


def _parcel(files: dict[str, str], home: Path | None) -> Parcel:
    text = json.dumps([sorted(files.items()), home is not None])
    study = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Parcel(study, files, home is not None)


def _named(thing: Any) -> Iterator[str]:
    """Texts in a description that name a file below the current folder."""
    if isinstance(thing, str):
        inside = not PurePosixPath(thing).is_absolute() and ".." not in PurePosixPath(thing).parts
        with suppress(OSError, ValueError):  # a text that cannot name a file
            if inside and Path(thing).is_file():
                yield thing
    elif isinstance(thing, dict | list | tuple):
        for value in thing.values() if isinstance(thing, dict) else thing:
            yield from _named(value)
