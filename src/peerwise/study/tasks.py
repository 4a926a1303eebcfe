"""Pieces of work that are not cells: each a function, its arguments, and arrays that it gives.

What is done is kept by function and arguments, so that an interrupted run goes on: in a folder of
one file a task while work goes on, and in one `kept.zip` beside it for good (`collect`).
"""

import hashlib
import importlib
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from peerwise.errors import BadFile, PeerwiseError

Arrays = dict[str, np.ndarray]
KEPT = "kept.zip"  # beside the folder of cells
ABOUT = ":"  # what has it in its name says how the arrays were made, and is none of them


class Task(NamedTuple):
    """A function of this project, named module:function, and its arguments (plain values)."""

    function: str
    arguments: dict[str, Any]

    @property
    def key(self) -> str:
        """A name that changes when the function or an argument does."""
        text = json.dumps([self.function, self.arguments], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def run(self, checkpoint: Path | None = None) -> Arrays:
        """Call it; one that takes a `checkpoint` can be interrupted and goes on from there."""
        module, _, name = self.function.partition(":")
        function = getattr(importlib.import_module(module), name)
        more = {"checkpoint": checkpoint} if "checkpoint" in signature(function).parameters else {}
        arrays: Arrays = function(**self.arguments, **more)
        return arrays


def packed(task: Task, arrays: dict[str, Any], **about: str) -> bytes:
    """The file of a task: its arrays, what made them, and anything else to say about that."""
    buffer = io.BytesIO()
    about = {"task": json.dumps([task.function, task.arguments]), **about}
    notes = {f"{name}{ABOUT}": np.bytes_(text.encode()) for name, text in about.items()}
    np.savez(buffer, **arrays, **notes)  # type: ignore[arg-type]
    return buffer.getvalue()


def _unpacked(content: bytes, where: Path) -> Arrays:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files if ABOUT not in name}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise BadFile(f"{where} is damaged ({error}); delete it and run again") from None


@lru_cache(maxsize=8)
def _members(path: Path, changed: int) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            return {Path(name).stem: archive.read(name) for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile) as error:
        raise BadFile(f"{path} is damaged ({error}); take a whole copy of it") from None


def _archived(folder: Path) -> dict[str, bytes]:
    """The files in the archive beside a folder of cells, by key."""
    path = folder.parent / KEPT
    return _members(path, path.stat().st_mtime_ns) if path.exists() else {}


def _path(folder: Path, task: Task) -> Path:
    return folder / f"{task.key}.npz"


def _is_kept(folder: Path, task: Task) -> bool:
    return _path(folder, task).exists() or task.key in _archived(folder)


def kept(folder: Path, task: Task) -> Arrays | None:
    """What a task gave, if it was run and kept in the folder or in the archive beside it."""
    path = _path(folder, task)
    if path.exists():
        return _unpacked(path.read_bytes(), path)
    content = _archived(folder).get(task.key)
    return None if content is None else _unpacked(content, folder.parent / KEPT)


def collect(folder: Path) -> Path:
    """Put all files of a folder of cells into the archive beside it; the folder can then go."""
    from peerwise.checkpoint import write_whole

    files = {**_archived(folder), **{p.stem: p.read_bytes() for p in folder.glob("*.npz")}}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for key, content in sorted(files.items()):
            entry = zipfile.ZipInfo(
                f"{key}.npz"
            )  # without the time: the same files, the same archive
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    write_whole(folder.parent / KEPT, buffer.getvalue())
    return folder.parent / KEPT


def _work(folder: Path, task: Task) -> str | None:
    """Run and keep one task; a mistake of the user's is returned as text."""
    from peerwise.checkpoint import write_whole

    checkpoint = folder / f"{task.key}.unfinished"
    try:
        arrays = task.run(checkpoint)
    except PeerwiseError as error:
        return str(error)
    write_whole(_path(folder, task), packed(task, arrays))
    checkpoint.unlink(missing_ok=True)
    return None


def run_tasks(
    tasks: Sequence[Task],
    folder: Path,
    progress: Callable[[int, int], None] | None = None,
    workers: int | None = None,
    only_kept: bool = False,
) -> tuple[dict[str, Arrays], dict[str, str]]:
    """What tasks gave, and why some failed, by key; those that are kept are not run again.

    With `only_kept`, nothing is run at all.
    """
    from peerwise.study.pool import spread, usual_workers

    if not only_kept:
        folder.mkdir(parents=True, exist_ok=True)
    unique = {task.key: task for task in tasks}
    # a damaged file is found before hours are spent
    done = {k: a for k, t in unique.items() if (a := kept(folder, t)) is not None}
    open_ = [t for k, t in unique.items() if k not in done and not only_kept]
    failures: dict[str, str] = {}

    def report() -> None:
        if progress is not None:
            count = sum(key in done or _is_kept(folder, t) for key, t in unique.items())
            progress(count + len(failures), len(unique))

    report()
    workers = min(workers or usual_workers(), max(len(open_), 1))
    if workers == 1:
        for task in open_:
            why = _work(folder, task)
            failures.update({task.key: why} if why else {})
            report()
    else:
        whys = spread([(_work, (folder, task)) for task in open_], workers, report)
        failures.update({t.key: why for t, why in zip(open_, whys, strict=True) if why})
        report()
    for task in open_:
        arrays = kept(folder, task)
        if arrays is not None:
            done[task.key] = arrays
    return {key: done[key] for key in unique if key in done}, failures
