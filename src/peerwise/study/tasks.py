"""Tasks, pieces of work that are not cells: a function, its arguments, and arrays that it returns.

What is done is kept in a folder by name and arguments, so that an interrupted run goes on.
"""

import hashlib
import importlib
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from peerwise.checkpoint import write_whole
from peerwise.errors import BadFile, PeerwiseError
from peerwise.study.pool import spread, usual_workers

__all__ = ["Task", "kept", "run_tasks"]

Arrays = dict[str, np.ndarray]
NAME = "task:"  # the key under which a file names its task


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


def _path(folder: Path, task: Task) -> Path:
    return folder / f"{task.key}.npz"


def _read(path: Path) -> Arrays:
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            return {name: file[name] for name in file.files if name != NAME}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise BadFile(f"{path} is damaged ({error}); delete it and run again") from None


def kept(folder: Path, task: Task) -> Arrays | None:
    """What a task gave, if it was run and kept in the folder."""
    path = _path(folder, task)
    return _read(path) if path.exists() else None


def _work(folder: Path, task: Task) -> str | None:
    """Run and keep one task; returns why it failed if the user can mend it, else None."""
    checkpoint = folder / f"{task.key}.unfinished"
    try:
        arrays: dict[str, Any] = task.run(checkpoint)
    except PeerwiseError as error:
        return str(error)
    buffer = io.BytesIO()
    arrays[NAME] = json.dumps([task.function, task.arguments])
    np.savez_compressed(buffer, **arrays)
    write_whole(_path(folder, task), buffer.getvalue())
    checkpoint.unlink(missing_ok=True)
    return None


def run_tasks(
    tasks: Sequence[Task],
    folder: Path,
    progress: Callable[[int, int], None] | None = None,
    workers: int | None = None,
    only_kept: bool = False,
) -> tuple[dict[str, Arrays], dict[str, str]]:
    """What tasks gave, and why some failed, by key; those kept in `folder` are not run again.

    With `only_kept`, nothing is run at all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unique = {task.key: task for task in tasks}
    for task in unique.values():
        if _path(folder, task).exists():
            _read(_path(folder, task))  # a damaged file is found before hours are spent
    open_ = [t for t in unique.values() if not (_path(folder, t).exists() or only_kept)]
    failures: dict[str, str] = {}

    def report() -> None:
        if progress is not None:
            done = sum(_path(folder, task).exists() for task in unique.values())
            progress(done + len(failures), len(unique))

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
    done = {k: _read(_path(folder, t)) for k, t in unique.items() if _path(folder, t).exists()}
    return done, failures
