"""What the commands share: the console, options, progress and how mistakes are told."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from peerwise.errors import BadSetting, UnknownName

console = Console()
errors = Console(stderr=True)

Out = Annotated[Path | None, typer.Option(help="Folder for the results [default: runs/NAME].")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes to use [default: one a core].")]
Device = Annotated[str, typer.Option(help="auto, cpu or gpu.")]
Data = Annotated[
    Path | None,
    typer.Option(help="Folder of data sets with a MANIFEST.json [default: PEERWISE_DATA]."),
]

Figures = Annotated[
    list[str] | None,
    typer.Option("--figure", help="Figures also as pdf or svg; several with commas."),
]
Style = Annotated[
    str | None, typer.Option(help="A style of matplotlib's for figures: a name or a file.")
]
Facet = Annotated[
    str | None,
    typer.Option(help="The factor whose values have a panel each [default: of fewest values]."),
]


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on standard error; call what it gives with (done, total)."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def use_device(device: str) -> None:
    """Choose where arrays live, before the first of them exists; worker processes inherit it."""
    import jax

    if device not in ("auto", "cpu", "gpu"):
        raise UnknownName("device", device, ["auto", "cpu", "gpu"])
    if device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
        jax.config.update("jax_platforms", "cpu")
    elif device == "gpu":
        try:
            jax.devices("gpu")
        except RuntimeError:
            raise BadSetting(
                "there is no GPU that jax can use here; install jax with CUDA (see its "
                "documentation), or leave --device out"
            ) from None
    if jax.default_backend() == "gpu":  # the same draws, in a third of the time to compile
        jax.config.update("jax_threefry_gpu_kernel_lowering", True)


def use_data(folder: Path | None) -> None:
    """Choose the folder of data sets."""
    if folder is not None:
        os.environ["PEERWISE_DATA"] = str(folder)  # worker processes inherit it


def show_failures(failures: dict[str, str]) -> None:
    """Say which cells failed and why, and leave with exit code 1."""
    for what, why in failures.items():
        errors.print(f"[bold red]failed[/] {escape(what)}: {escape(why)}")
    if failures:
        raise typer.Exit(1)
