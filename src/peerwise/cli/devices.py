"""Options of a network that many devices and machines share."""

import hashlib
import json
from typing import Annotated, Any, NamedTuple

import typer

from peerwise.cli.common import choose_device, errors, use_device
from peerwise.errors import BadSetting

Devices = Annotated[
    int | None,
    typer.Option(
        min=1, help="Split every network over this many devices of this process [default: one]."
    ),
]
Coordinator = Annotated[
    str | None,
    typer.Option(
        help="Split every network over several processes: HOST:PORT of process 0, or auto under "
        "SLURM, Open MPI and Kubernetes."
    ),
]
Processes = Annotated[
    int | None, typer.Option(min=1, help="With --coordinator: how many processes there are.")
]
Process = Annotated[
    int | None, typer.Option(min=0, help="With --coordinator: this process's number, from 0.")
]
Wait = Annotated[int, typer.Option(min=1, help="Seconds to wait for the other processes.")]
Cut = Annotated[str, typer.Option(help="How to divide nodes among devices: auto, order or metis.")]


class Asked(NamedTuple):
    """What the options say."""

    devices: int | None
    coordinator: str | None
    processes: int | None
    process: int | None
    wait: int
    cut: str

    @property
    def many(self) -> bool:
        """Whether anything is asked for."""
        return self[:4] != (None,) * 4


def use_devices(asked: Asked, device: str, workers: int | None) -> Any:
    """The mesh of all devices that are asked for, before the first array exists; None: one."""
    if asked.coordinator is None and not {asked.processes, asked.process} <= {None}:
        raise BadSetting("--processes and --process need --coordinator HOST:PORT")
    if asked.devices is None and asked.coordinator is None:
        use_device(device)
        return None
    if workers is not None:
        raise BadSetting(
            "--workers runs several cells at once, --devices and --coordinator run one cell at a "
            "time on all devices: leave one of them out"
        )
    from peerwise.simulate import make_devices, mesh_of, start_processes

    if asked.devices is not None:
        make_devices(asked.devices)
    if asked.coordinator is not None:
        choose_device(device)
        start_processes(asked.coordinator, asked.processes, asked.process, asked.wait)
    use_device(device)
    return mesh_of(asked.devices)


def same_description(description: dict[str, Any]) -> None:
    """Refuse processes that were given different files."""
    from peerwise.processes import said_by_all

    text = json.dumps(description, sort_keys=True, default=str)
    said = said_by_all(hashlib.sha256(text.encode()).hexdigest())
    odd = [i for i, mark in enumerate(said) if mark != said[0]]
    if odd:
        raise BadSetting(
            f"process {odd[0]} got a different run file than process 0: give all processes the "
            "same file"
        )
    if len(said) > 1:
        errors.print(f"{len(said)} processes share the network", highlight=False)
