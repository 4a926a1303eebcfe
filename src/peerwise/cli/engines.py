"""Where the cells of a study run, from options: processes of this machine, or a Ray cluster."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from peerwise.cli.common import use_device
from peerwise.errors import BadSetting, UnknownName, extra

if TYPE_CHECKING:
    from peerwise.study.engine import Engine as Place

ENGINES = ("local", "ray")

Engine = Annotated[
    str, typer.Option(help="Run cells on this machine (local) or on a Ray cluster (ray).")
]
Address = Annotated[
    str | None,
    typer.Option(help="Ray cluster's address, ray://HOST:PORT [default: Ray on this machine]."),
]
Cpus = Annotated[
    float | None, typer.Option(min=0.01, help="CPUs that a cell requests from Ray [default: 1].")
]
Gpus = Annotated[
    float | None,
    typer.Option(min=0, help="GPUs that a cell requests from Ray; with 0.25 four cells share one."),
]
Memory = Annotated[
    float | None, typer.Option(min=0, help="GiB of memory that a cell requests from Ray.")
]


def where(engine: str, workers: int | None, device: str, **ray: Any) -> "Place":
    """The engine that options name; bad ones are refused before anything is read or run."""
    given = {name: value for name, value in ray.items() if value is not None}
    if engine == "local":
        if given:
            raise BadSetting(f"--{next(iter(given))} is for --engine ray: add it, or remove this")
        use_device(device)
        from peerwise.study.engine import ThisMachine

        return ThisMachine(workers)
    if engine not in ENGINES:
        raise UnknownName("engine", engine, ENGINES)
    extra("ray")
    if device not in ("auto", "cpu", "gpu"):
        raise UnknownName("device", device, ["auto", "cpu", "gpu"])
    if device == "cpu" and given.get("gpus"):
        raise BadSetting("--device cpu and --gpus do not go together: remove one")
    if device == "gpu":
        given.setdefault("gpus", 1.0)
    use_device("cpu")  # this process only sends and collects: a GPU here is left to workers
    from peerwise.study.on_ray import OnRay

    return OnRay(workers=workers, **given)
