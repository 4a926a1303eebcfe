"""Run many cells on all cores; what is done is kept, so that an interrupted run goes on."""

import io
import json
import multiprocessing
import os
import zipfile
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import jax
import numpy as np

from peerwise.checkpoint import write_whole
from peerwise.errors import BadFile, PeerwiseError
from peerwise.learner import Cell, Outcome, run


class Failure(PeerwiseError):
    """One cell of many that could not be run."""


def _path(folder: Path, cell: Cell) -> Path:
    return folder / f"{cell.key}.npz"


def _write(folder: Path, cell: Cell, outcome: Outcome) -> None:
    buffer = io.BytesIO()
    extra = {"bytes_per_link": outcome.bytes_per_link, "messages": outcome.messages}
    description = json.dumps(cell.sections, default=str)
    values: dict[str, Any] = {f"value:{name}": array for name, array in outcome.values.items()}
    arrays: dict[str, Any] = {"rounds": outcome.rounds, "extra": json.dumps(extra)}
    np.savez_compressed(buffer, **arrays, description=description, **values)
    write_whole(_path(folder, cell), buffer.getvalue())


def read(folder: Path, cell: Cell) -> Outcome | None:
    """The kept outcome of a cell, if there is one."""
    path = _path(folder, cell)
    if not path.exists():
        return None
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            extra = json.loads(str(file["extra"]))
            values = {n.removeprefix("value:"): file[n] for n in file.files if ":" in n}
            return Outcome(file["rounds"], values, extra["bytes_per_link"], extra["messages"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise BadFile(f"{path} is damaged ({error}); delete it and run again") from None


def usual_workers() -> int:
    """A process for each core; one for a GPU, which one program can fill."""
    return (os.cpu_count() or 1) if jax.default_backend() == "cpu" else 1


def _pin(counter: "multiprocessing.sharedctypes.Synchronized[int]") -> None:
    """One core for each worker: many small programs run faster side by side than across cores."""
    with counter.get_lock():
        number = counter.value
        counter.value += 1
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})


MAPS = 15_000  # memory mappings; Linux lets a process have 65,530, and XLA crashes beyond


def few_programs() -> None:
    """Drop compiled programs when they hold many memory mappings, as hundreds of them do."""
    try:
        with open("/proc/self/maps") as pieces:
            many = sum(1 for _ in pieces)
    except OSError:  # not Linux
        many = MAPS + 1
    if many > MAPS:
        jax.clear_caches()


def _work(folder: Path, cells: list[Cell]) -> list[tuple[str, str]]:
    """Run cells one after the other; returns the failures that the user can mend."""
    failures = []
    for cell in cells:
        if _path(folder, cell).exists():
            continue
        few_programs()
        try:
            _write(folder, cell, run(cell))
        except PeerwiseError as error:
            failures.append((cell.key, str(error)))
    return failures


def _batches(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Cells of one data set together, in small batches: a worker then encodes it once."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(str(cell["data"]), []).append(cell)
    size = 4
    return [group[i : i + size] for group in groups.values() for i in range(0, len(group), size)]


def run_all(
    cells: Iterable[Cell],
    folder: Path,
    progress: Callable[[int, int], None] | None = None,
    workers: int | None = None,
    only_kept: bool = False,
) -> tuple[dict[str, Outcome], dict[str, str]]:
    """Outcomes and failures of all cells, by key; those kept in `folder` are not run again.

    With `only_kept`, nothing is run at all.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unique = {c.key: c for c in cells}
    for cell in unique.values():
        read(folder, cell)  # a damaged file is found before hours are spent
    open_ = [c for c in unique.values() if not (_path(folder, c).exists() or only_kept)]
    failures: dict[str, str] = {}
    workers = min(workers or usual_workers(), max(len(_batches(open_)), 1))

    def report() -> None:
        if progress is not None:
            done = sum(_path(folder, c).exists() for c in unique.values())
            progress(done + len(failures), len(unique))

    report()
    if workers == 1:
        for batch in _batches(open_):
            for cell in batch:
                failures.update(_work(folder, [cell]))
                report()
    else:
        for failed in spread([(_work, (folder, b)) for b in _batches(open_)], workers, report):
            failures.update(failed)
        report()
    outcomes = {}
    for key, cell in unique.items():
        outcome = read(folder, cell)
        if outcome is not None:
            outcomes[key] = outcome
    return outcomes, failures


def spread(
    calls: Iterable[tuple[Callable[..., Any], tuple[Any, ...]]],
    workers: int,
    report: Callable[[], None],
) -> list[Any]:
    """Call functions in processes of their own, a core each; results in the order of the calls."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _pin, (context.Value("i", 0),)) as pool:
        futures: list[Future[Any]] = [pool.submit(call, *args) for call, args in calls]
        waiting = set(futures)
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=0.5)
                for future in done:
                    future.result()
                report()
        except BrokenProcessPool:
            raise Failure(
                "a worker process died, most likely for lack of memory; what was finished is kept: "
                "run the same command again, or with --workers 1"
            ) from None
        except KeyboardInterrupt:
            for process in list(getattr(pool, "_processes", {}).values()):
                process.terminate()
            raise
        return [future.result() for future in futures]
