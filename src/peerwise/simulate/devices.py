"""Devices that share a network, of this process or of several on many machines."""

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

import peerwise
from peerwise.errors import BadSetting
from peerwise.processes import said_by_all
from peerwise.simulate.exchange import AXIS
from peerwise.simulate.rollcall import come, meet_all, wait_for

DETECT = "auto"  # the coordinator that JAX finds under SLURM, Open MPI or Kubernetes
WAIT = 300  # seconds for all processes to come together


def mesh_of(devices: int | None = None) -> Mesh:
    """A mesh of so many devices of every process (default: all), for `simulate(mesh=...)`.

    On a machine without a GPU there is one device, unless `make_devices` was called first.
    """
    by_process: dict[int, list[jax.Device]] = {}
    for device in jax.devices():
        by_process.setdefault(device.process_index, []).append(device)
    fewest = min(map(len, by_process.values()))
    if devices is not None and not 1 <= devices <= fewest:
        kind = jax.devices()[0].platform
        are = f"is one {kind} device" if fewest == 1 else f"are {fewest} {kind} devices"
        raise BadSetting(
            f"{devices} devices were asked for and there {are} here: take at most {fewest}"
            + (", or make more of a CPU's (make_devices)" if kind == "cpu" else "")
        )
    return Mesh(np.array([d for own in by_process.values() for d in own[:devices]]), (AXIS,))


def make_devices(count: int) -> None:
    """Let a CPU be so many devices, before the first array exists; GPUs are as many as there are.

    Their programs share the cores. It is for trying out what will run on several devices; to use
    several cores, start a process for each.
    """
    if count < 1:
        raise BadSetting(f"there must be one device at least, got {count}")
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:
        if len(jax.devices("cpu")) < count:
            raise BadSetting(
                "a CPU's devices are made before the first array exists: call make_devices earlier"
            ) from None


def start_processes(
    coordinator: str, processes: int | None = None, process: int | None = None, wait: int = WAIT
) -> None:
    """Join the processes that run a network together; all run the same program.

    `coordinator`: HOST:PORT, an address of process 0 that all reach; or "auto" under SLURM, Open
    MPI or Kubernetes, where JAX finds out by itself. After `wait` seconds without all of them it
    gives up. Those that join are trusted: keep the port within a trusted network.
    """
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    about = f"peerwise {peerwise.__version__}, jax {jax.__version__}"
    settings: dict[str, Any] = {}
    if coordinator != DETECT:
        address = _check(coordinator, processes, process)
        if process:
            come(address, process, about, wait)
            wait_for(address, wait)  # JAX's own service, where process 0 was before
        else:
            meet_all(address, int(processes or 1), about, wait)
        settings = {
            "coordinator_address": coordinator, "num_processes": processes, "process_id": process
        }  # fmt: skip
    try:
        jax.distributed.initialize(**settings, initialization_timeout=wait)
    except (RuntimeError, ValueError) as error:
        raise BadSetting(_why(error, coordinator)) from None
    for i, word in enumerate(said_by_all(about)):
        if word != about:
            raise BadSetting(f"process {i} runs {word} and this one {about}: install the same")


def _check(coordinator: str, processes: int | None, process: int | None) -> tuple[str, int]:
    """Host and port, if everything makes sense."""
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise BadSetting(
            f"the coordinator must be HOST:PORT, an address of process 0, or {DETECT}, got "
            f"'{coordinator}'"
        )
    if processes is None or process is None:
        raise BadSetting("with a coordinator say how many processes there are and which this is")
    if processes < 1 or not 0 <= process < processes:
        raise BadSetting(
            f"of {processes} processes there is none number {process}: they count from 0"
        )
    return host.strip("[]"), int(port)


def _why(error: Exception, coordinator: str) -> str:
    text = (str(error).splitlines() or [""])[0]
    if coordinator == DETECT:
        return (
            "JAX found no cluster here (SLURM, Open MPI, Kubernetes) that says who the processes "
            f"are ({text}): give the coordinator as HOST:PORT"
        )
    return f"the processes could not be joined at {coordinator}: {text}"
