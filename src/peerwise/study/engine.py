"""Run many jobs, except those with a kept result that is still valid."""

import hashlib
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax

from peerwise.errors import BadFile, PeerwiseError
from peerwise.study.jobs import Job
from peerwise.study.live import SUFFIX
from peerwise.study.provenance import changes, depends, provenance
from peerwise.study.store import LOOSE, Kept, Store

Progress = Callable[[int, int], None]
NEW, ASKED = "not run before", "asked for"


class Failure(PeerwiseError):
    """Work that could not be done."""


class Ran(NamedTuple):
    """The outcome of many jobs."""

    done: dict[str, Kept]  # by key
    failures: dict[str, str]  # by key, why
    again: dict[str, str]  # by key, why a job was not taken as it was kept

    @property
    def words(self) -> str:
        """How many jobs were kept, how many were run and why."""
        kept = len(self.done.keys() - self.again.keys())
        why = ", ".join(f"{n}: {why}" for why, n in Counter(self.again.values()).most_common())
        ran = f"{len(self.again)} run ({why})" if self.again else "none run"
        return f"{kept + len(self.again)} cells: {kept} kept, {ran}"


class Engine(Protocol):
    """Where jobs run."""

    def run(self, jobs: Sequence[Job], folder: Path, report: Callable[[], None]) -> dict[str, str]:
        """Run jobs and keep what they give in the folder; returns why some failed, by key."""


class ThisMachine(NamedTuple):
    """Processes of this machine; with one worker, this process itself."""

    workers: int | None = None  # None: one a core

    def run(self, jobs: Sequence[Job], folder: Path, report: Callable[[], None]) -> dict[str, str]:
        """Run jobs, the ones of one data set after each other in one process."""
        batches = batched(jobs)
        workers = min(self.workers or usual_workers(), max(len(batches), 1))
        failures: dict[str, str] = {}
        if workers == 1:
            for job in (job for batch in batches for job in batch):
                failures |= work(folder, [job])
                report()
            return failures
        for failed in _spread([(work, (folder, batch)) for batch in batches], workers, report):
            failures |= failed
        return failures


def run_jobs(
    jobs: Iterable[Job],
    folder: Path,
    *,
    progress: Progress | None = None,
    engine: Engine | None = None,
    only_kept: bool = False,
    fresh: bool = False,
) -> Ran:
    """Run the jobs that the folder does not hold, or holds from other data, code or numerics.

    With `only_kept`, nothing is run and what is there is taken as it is; with `fresh`, all are run.
    """
    store, unique = Store(folder), {job.key: job for job in jobs}
    # a damaged file is found before hours are spent
    before = {key: store.get(key) for key in unique}
    again = {}
    if not only_kept:
        reasons = {k: ASKED if fresh else _why(before[k], job) for k, job in unique.items()}
        again = {key: why for key, why in reasons.items() if why}
    failures: dict[str, str] = {}
    stamps = {key: _stamp(store.path(key)) for key in again}

    def report() -> None:
        if progress is not None:
            ended = sum(_stamp(store.path(key)) != stamp for key, stamp in stamps.items())
            progress(len(unique) - len(again) + min(ended + len(failures), len(again)), len(unique))

    report()
    if again:
        _check_writable(folder)
        engine = engine or ThisMachine()
        failures |= engine.run([unique[key] for key in again], folder, report)
        report()
    done = {key: before[key] if key not in again else store.get(key) for key in unique}
    whole = {key: kept for key, kept in done.items() if kept is not None and key not in failures}
    return Ran(whole, failures, again)


def _check_writable(folder: Path) -> None:
    """Refuse a folder in which nothing can be kept, before hours are spent."""
    try:
        (folder / LOOSE).mkdir(parents=True, exist_ok=True)
        usable = os.access(folder / LOOSE, os.W_OK)
    except OSError as error:
        raise BadFile(f"cannot write to {folder}: {error.strerror}; give another folder") from None
    if not usable:
        raise BadFile(f"cannot write to {folder}: permission denied; give another folder")


def _why(kept: Kept | None, job: Job) -> str:
    """Why a job must be run; empty if what is kept is still true."""
    return NEW if kept is None else changes(kept.about.get("depends"), depends(job))


def _stamp(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0


def work(folder: Path, jobs: Sequence[Job]) -> dict[str, str]:
    """Run jobs one after the other and keep their results; returns why some failed, by key."""
    store, failures = Store(folder), dict[str, str]()
    for job in jobs:
        failures |= keep(store, job, attempt(job, store.loose))
        if job.key not in failures:
            forget(job, store.loose)
    return failures


class Failed(NamedTuple):
    """Why a job failed; the whole traceback if it was not the user's mistake."""

    why: str
    trace: str = ""


def attempt(job: Job, scratch: Path) -> Kept | Failed:
    """Run a job, which may keep in the folder `scratch` what it has done so far."""
    few_programs()
    about, begun = {"asked": job.asked, "depends": depends(job)}, time.perf_counter()
    try:
        arrays = job.run(checkpoint_of(scratch, job, about))
    except PeerwiseError as error:
        return Failed(str(error))
    except Exception as error:  # one setting that crashes leaves the others
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}, line {last.lineno}"
        trace = "".join(traceback.format_exception(error))
        return Failed(f"{type(error).__name__}: {error} ({where})", trace)
    return Kept(arrays, {**about, "made": provenance(time.perf_counter() - begun)})


def keep(store: Store, job: Job, given: Kept | Failed) -> dict[str, str]:
    """Keep a job's result; returns why it failed, by its key, if it did."""
    if isinstance(given, Kept):
        store.put(job.key, given.arrays, given.about)
        return {}
    if not given.trace:
        return {job.key: given.why}
    path = store.folder / "errors.txt"
    with path.open("a") as file:
        file.write(json.dumps(job.asked, default=str) + "\n" + given.trace + "\n")
    return {job.key: f"{given.why}; all of it is in {path}"}


def forget(job: Job, scratch: Path) -> None:
    """Remove what a job that is finished had done so far."""
    for stale in scratch.glob(f"{job.key}-*.unfinished*"):
        stale.unlink(missing_ok=True)
    scratch.joinpath(job.key + SUFFIX).unlink(missing_ok=True)


def checkpoint_of(scratch: Path, job: Job, about: dict[str, Any]) -> Path:
    """Where a job keeps what it has done so far with the code and data of now."""
    scratch.mkdir(parents=True, exist_ok=True)
    mark = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()
    return scratch / f"{job.key}-{mark[:8]}.unfinished"


def usual_workers() -> int:
    """A process for each core; one for a GPU, which one program can fill."""
    return (os.cpu_count() or 1) if jax.default_backend() == "cpu" else 1


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


def batched(jobs: Iterable[Job], size: int = 4) -> list[list[Job]]:
    """Jobs that read the same first, in small batches."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.batch or job.key, []).append(job)
    return [group[i : i + size] for group in groups.values() for i in range(0, len(group), size)]


def _pin(counter: "multiprocessing.sharedctypes.Synchronized[int]") -> None:
    """One core for each worker: many small programs run faster side by side than across cores."""
    with counter.get_lock():
        number = counter.value
        counter.value += 1
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Processes started within do not hear Ctrl-C; the one that started them ends them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which children inherit
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_QUIET = "ignore:resource_tracker:UserWarning"


def _spread(
    calls: Iterable[tuple[Callable[..., Any], tuple[Any, ...]]],
    workers: int,
    report: Callable[[], None],
) -> list[Any]:
    """Call functions in processes of their own, a core each; results in the order of the calls."""
    context = multiprocessing.get_context("spawn")
    if _QUIET not in sys.warnoptions:  # said by a process of Python's own after Ctrl-C
        sys.warnoptions.append(_QUIET)
    with ProcessPoolExecutor(workers, context, _pin, (context.Value("i", 0),)) as pool:
        with _deaf_children():
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
                "a worker process died, most likely for lack of memory; finished cells are kept: "
                "run the same command again, or with --workers 1"
            ) from None
        except KeyboardInterrupt:
            for process in list(getattr(pool, "_processes", {}).values()):
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [future.result() for future in futures]
