"""What the commands share: the console, options, progress and how mistakes are told."""

import multiprocessing
import os
import signal
import sys
import threading
import time
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
    TimeRemainingColumn,
)

from peerwise.errors import BadSetting, UnknownName

console = Console()
errors = Console(stderr=True)

Out = Annotated[Path | None, typer.Option(help="Folder for the results [default: runs/NAME].")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes to use [default: one per core].")
]
Device = Annotated[str, typer.Option(help="Compute on auto, cpu or gpu.")]
Rows = Annotated[
    str, typer.Option(help="Memory that holds the nodes' rows: device, or host if they do not fit.")
]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Run everything again, including kept results.")
]
Data = Annotated[
    Path | None,
    typer.Option(help="Folder of data sets with a MANIFEST.json [default: PEERWISE_DATA]."),
]

Figures = Annotated[
    list[str] | None,
    typer.Option("--figure", help="Also write figures as pdf or svg (pdf,svg for both)."),
]
Style = Annotated[
    str | None, typer.Option(help="A matplotlib style for figures: a name or a file.")
]
Facet = Annotated[
    str | None,
    typer.Option(
        help="The varied key that gets one panel per value [default: the one with fewest values]."
    ),
]


Html = Annotated[
    bool, typer.Option("--html", help="Write report.html: a page in one file, to open or to send.")
]


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Progress with the time left, on standard error; call what it gives with (done, total).

    On a terminal it is a bar, elsewhere a line now and then.
    """
    if not errors.is_terminal:
        yield _lines(what)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task(escape(what), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines(what: str, every: float = 30.0) -> Callable[[int, int], None]:
    """Print a line every so many seconds while something goes on."""
    begun = last = time.monotonic()
    first = -1

    def advance(done: int, total: int) -> None:
        nonlocal last, first
        now = time.monotonic()
        first = done if first < 0 else first
        if now - last < every or done >= total:
            return
        last = now
        pace = (done - first) / (now - begun)
        left = f", about {(total - done) / pace / 60:.0f} min left" if pace else ""
        errors.print(f"{what}: {done} of {total}{left}", highlight=False, markup=False)

    return advance


def stop_at_once(more: str = "") -> None:
    """From now on Ctrl-C and SIGTERM end the program at once, with one line.

    Files are written whole or not at all, so that nothing is lost by it. Python would first unwind
    from the middle of a compiled program, which crashes.
    """

    def stop(number: int, frame: object) -> None:
        for child in multiprocessing.active_children():
            child.kill()
        errors.show_cursor(True)
        errors.print(f"\nstopped{more}", markup=False, highlight=False, soft_wrap=True)
        sys.stdout.flush()
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def stop_orderly(more: str) -> None:
    """From now on Ctrl-C and SIGTERM end what was started elsewhere, then the program."""

    def stop(number: int, frame: object) -> None:
        for other in (signal.SIGINT, signal.SIGTERM):
            signal.signal(other, signal.SIG_IGN)  # a second one would leave others running
        errors.print(f"\nstopping{more}", markup=False, highlight=False, soft_wrap=True)
        raise SystemExit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def stop_gently() -> None:
    """From now on Ctrl-C unwinds as in any Python program, and what was started is ended first."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def stopping(folder: Path, elsewhere: bool = False) -> Iterator[None]:
    """Say how to go on if the run is stopped; `elsewhere`: other machines must be told, too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    stop = stop_orderly if elsewhere else stop_at_once
    stop(f"; {folder} keeps the finished cells: run the same command to resume")
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def choose_device(device: str) -> None:
    """Choose where arrays will live, without looking for devices."""
    import jax

    if device not in ("auto", "cpu", "gpu"):
        raise UnknownName("device", device, ["auto", "cpu", "gpu"])
    if device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
        jax.config.update("jax_platforms", "cpu")


def use_device(device: str) -> None:
    """Choose where arrays live, before the first of them exists; worker processes inherit it."""
    import jax

    choose_device(device)
    if device == "gpu":
        try:
            jax.devices("gpu")
        except RuntimeError:
            raise BadSetting(
                "jax finds no GPU here; install jax with CUDA (see its documentation), or leave "
                "out --device"
            ) from None
    if jax.default_backend() == "gpu":  # the same draws, in a third of the time to compile
        jax.config.update("jax_threefry_gpu_kernel_lowering", True)


def use_data(folder: Path | None) -> None:
    """Choose the folder of data sets."""
    if folder is not None:
        os.environ["PEERWISE_DATA"] = str(folder)  # worker processes inherit it


def use_rows(place: str) -> None:
    """Choose in whose memory the nodes' rows lie."""
    if place not in ("device", "host"):
        raise UnknownName("place for rows", place, ["device", "host"])
    if place != "device":
        os.environ["PEERWISE_ROWS"] = place  # worker processes inherit it


def show_failures(failures: dict[str, str]) -> None:
    """Say which cells failed and why, and leave with exit code 1."""
    for what, why in failures.items():
        errors.print(f"[bold red]failed[/] {escape(what)}: {escape(why)}")
    if failures:
        raise typer.Exit(1)
