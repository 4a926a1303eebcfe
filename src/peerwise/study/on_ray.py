"""Jobs as tasks of a Ray cluster: results come back as they are done and are kept here."""

import os
import pickle
import signal
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import peerwise
from peerwise.errors import BadSetting, extra
from peerwise.study.engine import Failed, Failure, attempt, batched, forget, keep
from peerwise.study.jobs import Job
from peerwise.study.provenance import LIBRARIES, changes, depends
from peerwise.study.shipping import Parcel, shipped
from peerwise.study.store import Kept, Store

TRIES = 3  # of a job whose worker is lost
ANSWER = 5.0  # seconds in which a cluster's address must take a connection
GIB = 1 << 30

# Ray sends nothing about its use to its makers, and leaves GPUs as they are
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


class OnRay(NamedTuple):
    """A Ray cluster; without an address, one that is started on this machine for the run."""

    address: str | None = None  # ray://HOST:PORT, HOST:PORT or auto
    workers: int | None = None  # jobs at a time; None: as many as there is room for
    cpus: float = 1  # that a job declares
    gpus: float = 0
    memory: float | None = None  # GiB

    def run(self, jobs: Sequence[Job], folder: Path, report: Callable[[], None]) -> dict[str, str]:
        """Run every job as a task; one whose worker is lost is tried again elsewhere."""
        ray = extra("ray")
        waiting = [job for batch in batched(jobs) for job in batch]
        expected = {job.key: depends(job) for job in jobs}
        shipment = shipped(jobs)
        with self._connected(ray):
            self._check_room(ray)
            # every file once, however many jobs and machines read it
            refs = {digest: ray.put(_bytes(c)) for digest, c in shipment.contents.items()}
            task = self._task(ray)

            def submit(job: Job) -> Any:
                parcel = shipment.parcels[job.key]
                given = pickle.dumps((job, expected[job.key], parcel, self.gpus > 0))
                # refs in a dictionary are fetched by the task, and only what it lacks
                return task.remote(_versions(), given, {d: refs[d] for d in parcel.files.values()})

            return _collect(ray, Store(folder), waiting, submit, self.workers, report)

    @contextmanager
    def _connected(self, ray: Any) -> Iterator[None]:
        if ray.is_initialized():  # by the caller, who also ends it
            yield
            return
        address = self.address or os.environ.get("RAY_ADDRESS") or "local"
        how: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address == "local":
            if self.workers:
                how["num_cpus"] = max(1, int(np.ceil(self.workers * self.cpus)))
            how["include_dashboard"] = False
        else:
            _check_answers(address)
        os.environ.update({name: os.environ.get(name, value) for name, value in _QUIET.items()})
        handler = signal.getsignal(signal.SIGTERM)
        try:
            with warnings.catch_warnings():
                # its processes are forked, and replaced at once
                warnings.filterwarnings("ignore", "os.fork", RuntimeWarning)
                warnings.filterwarnings("ignore", "Ray Client connection", UserWarning)
                ray.init(address, runtime_env={"env_vars": self._environment()}, **how)
        except Exception as error:  # of many kinds, gRPC's among them
            words = str(error).strip().splitlines() or [type(error).__name__]
            raise Failure(
                f"cannot use the Ray cluster at {address}: {words[0]}; if it asks for a token, set "
                "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"
            ) from None
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray sets its own
        try:
            yield
        except ConnectionError:
            raise Failure(
                f"the Ray cluster at {address} no longer answers; finished cells are kept: run "
                "the same command again"
            ) from None
        finally:
            ray.shutdown()

    def _environment(self) -> dict[str, str]:
        """As many threads as declared CPUs, and the numerics of this process."""
        same = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(("JAX_", "XLA_", "PEERWISE_ROWS"))
            and name != "JAX_COMPILATION_CACHE_DIR"
        }
        threads = str(max(1, int(self.cpus)))
        more = {"NPROC": threads, "OMP_NUM_THREADS": threads}
        more["JAX_PLATFORMS"] = "" if self.gpus else "cpu"
        if 0 < self.gpus < 1:  # several share one: none may take most of it
            more["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.9 * self.gpus:.3f}"
        return {**same, **more}

    def _check_room(self, ray: Any) -> None:
        """Refuse what no machine of the cluster offers: Ray would wait for it for ever."""
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        asked = {"CPU": self.cpus, "GPU": self.gpus, "memory": (self.memory or 0) * GIB}
        if any(all(m.get(k, 0) >= v for k, v in asked.items()) for m in machines):
            return
        most = {k: max((m.get(k, 0) for m in machines), default=0) for k in asked}
        if self.gpus and not most["GPU"]:
            raise BadSetting("no machine of the Ray cluster has a GPU: leave --gpus out")
        raise BadSetting(
            f"no machine of the Ray cluster has {self.cpus:g} CPUs, {self.gpus:g} GPUs and "
            f"{self.memory or 0:g} GiB for one cell; the largest have {most['CPU']:g} CPUs, "
            f"{most['GPU']:g} GPUs and {most['memory'] / GIB:.1f} GiB"
        )

    def _task(self, ray: Any) -> Any:
        options: dict[str, Any] = {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_retries": 0}
        if self.memory:
            options["memory"] = int(self.memory * GIB)
        return ray.remote(**options)(checked_first())


def _check_answers(address: str) -> None:
    """Refuse an address that takes no connection: Ray itself tries for half a minute."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise BadSetting(f"--address must be ray://HOST:PORT or HOST:PORT, got {address}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER).close()
    except (OSError, OverflowError) as error:
        raise Failure(
            f"no Ray cluster answers at {address} ({error}); start one with `ray start --head`, "
            "or leave --address out to use this machine"
        ) from None


def _bytes(content: Path | bytes) -> np.ndarray:
    """A file as an array, which processes of one machine share without a copy each."""
    if isinstance(content, bytes):
        return np.frombuffer(content, np.uint8)
    return np.fromfile(content, np.uint8)


def _versions() -> dict[str, str]:
    """What must be the same everywhere, so that results are."""
    return {"peerwise": peerwise.__version__, **{n: metadata.version(n) for n in LIBRARIES}}


def checked_first() -> Callable[..., Any]:
    """The function of a task.

    It is made here, so that Ray sends its code and not its name: a worker with another version of
    the package, or without it, can still say so.
    """

    def task(wanted: Mapping[str, str], given: bytes, refs: Mapping[str, Any]) -> Any:
        import importlib.metadata
        import socket

        def version(name: str) -> str:
            try:
                if name == "peerwise":
                    import peerwise

                    return peerwise.__version__
                return importlib.metadata.version(name)
            except ImportError:
                return "none"

        other = {n: have for n, want in wanted.items() if (have := version(n)) != want}
        if other:
            name, have = next(iter(other.items()))
            return (
                f"the worker on {socket.gethostname()} has {name} {have}, this machine "
                f"{wanted[name]}: install the same version everywhere"
            )
        from peerwise.study.on_ray import on_worker

        return on_worker(given, refs)

    return task


def on_worker(given: bytes, refs: Mapping[str, Any]) -> Kept | Failed:
    """Run one job in this process of a worker."""
    import jax
    import ray

    job, expected, parcel, gpu = pickle.loads(given)
    assert isinstance(parcel, Parcel)
    where = f"on the worker {socket.gethostname()}"
    if gpu:
        if jax.default_backend() != "gpu":
            return Failed(f"jax finds no GPU {where}: install jax with CUDA there")
        jax.config.update("jax_threefry_gpu_kernel_lowering", True)  # as on one machine
    folder = parcel.unpack(lambda digest: ray.get(refs[digest]))
    if other := changes(expected, depends(job)):
        return Failed(
            f"{where} {other}: name files relative to the folder in which you start, so that they "
            "are sent there"
        )
    given_back = attempt(job, folder / "unfinished")
    if isinstance(given_back, Kept):
        forget(job, folder / "unfinished")
    return given_back


def _collect(
    ray: Any,
    store: Store,
    jobs: list[Job],
    submit: Callable[[Job], Any],
    most: int | None,
    report: Callable[[], None],
) -> dict[str, str]:
    """Keep what comes back, as it comes; why some failed, by key."""
    failures: dict[str, str] = {}
    lost: dict[str, int] = {}
    left, running = jobs[::-1], dict[Any, Job]()
    try:
        while left or running:
            while left and len(running) < (most or len(jobs)):
                job = left.pop()
                running[submit(job)] = job
            done, _ = ray.wait(list(running), num_returns=len(running), timeout=0.5)
            for ref in done:
                job = running.pop(ref)
                try:
                    given = ray.get(ref)
                except ray.exceptions.RayTaskError as error:
                    given = Failed(f"{type(error).__name__}: {error.cause}", str(error))
                except ray.exceptions.RayError as error:  # the worker or its machine is gone
                    lost[job.key] = lost.get(job.key, 0) + 1
                    if lost[job.key] < TRIES:
                        left.append(job)
                        continue
                    given = Failed(
                        f"its worker was lost {TRIES} times ({type(error).__name__}), most likely "
                        "for lack of memory: declare more with --memory"
                    )
                if isinstance(given, str):  # of another version: so are all on that machine
                    raise Failure(given)
                failures |= keep(store, job, given)
            report()
    finally:  # Ctrl-C, or an error: what still runs is cancelled
        for ref in running:
            ray.cancel(ref, force=True)
    return failures
