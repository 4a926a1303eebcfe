"""What a run will cost, before it is run."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from peerwise.cli.common import Data, Device, console, progress, use_data, use_device
from peerwise.errors import BadSetting


def plan(
    config: Annotated[Path, typer.Argument(help="A TOML file, as for `peerwise run`.")],
    data: Data = None,
    device: Device = "auto",
    devices: Annotated[
        int | None,
        typer.Option(min=2, help="Also estimate one network shared by this many such devices."),
    ] = None,
    link: Annotated[
        float, typer.Option(min=0.001, help="With --devices: GB/s between two devices.")
    ] = 25.0,
    calibrate: Annotated[
        bool, typer.Option(help="Run a few rounds to estimate seconds, or run nothing at all.")
    ] = True,
) -> None:
    """Estimate what a run will cost: bytes, memory, FLOP, seconds, and what limits its speed.

    The command compiles and times the largest cell of every method. From it, it estimates the
    memory and seconds of that method's other cells.
    """
    from peerwise.learner import expand
    from peerwise.learner import plan as planning
    from peerwise.study.sweep import read_config

    use_device(device)
    use_data(data)
    asked = expand(read_config(config))
    cells = list({c.key: c for c in (*asked, *(c.reference() for c in asked))}.values())
    labels = {c.key: c.label for c in asked}
    with progress("planning") as advance:
        planned, largest = [planning.plan(c) for c in cells], dict[str, Any]()
        for p in planned:
            name = p.cell["method"]["name"]
            if name not in largest or p.work > largest[name].work:
                largest[name] = p
        timings = {}
        for done, (name, p) in enumerate(largest.items()):
            advance(done, len(largest))
            largest[name] = planning.compiled(p)
            if calibrate:
                timings[name] = planning.calibrate(p.cell)
        here = planning.machine() if calibrate else None
    every, planned = _of_all(planning, planned, largest, timings)
    _show(planning, planned, every, here, {c.key: labels.get(c.key, c.label) for c in cells})
    if devices is not None:
        _show_devices(planning, planned, every, devices, link)


def _of_all(
    planning: Any, planned: list[Any], largest: dict[str, Any], timings: dict[str, Any]
) -> tuple[dict[str, tuple[Any, bool]], list[Any]]:
    """Timings by key, and whether they were measured; cells with their memory."""
    every, whole = {}, []
    for p in planned:
        name = p.cell["method"]["name"]
        like = largest[name]
        if name in timings:
            ratio = p.flop / like.flop if like.flop else 1.0
            every[p.cell.key] = timings[name].scaled(ratio), p.cell is like.cell
        whole.append(planning.like(p, like))
    return every, whole


def _show(
    planning: Any, planned: list[Any], timings: Any, here: Any, labels: dict[str, str]
) -> None:
    sent = Table(title="What it sends and holds", title_justify="left")
    taken = Table(title="What it takes", title_justify="left")
    for table, heads in (
        (sent, ["cell", "nodes", "rounds", "message", "bytes a round", "memory"]),
        (taken, ["cell", "FLOP a round", *(["s a round", "s in all", "limit"] if timings else [])]),
    ):
        for head in heads:
            table.add_column(head, justify="left" if head in ("cell", "limit") else "right")
    total = 0.0
    for p in planned:
        rounds = p.cell["run"]["rounds"]
        varied = [f"{k} = {v}" for k, v in p.cell.varied if k != "method"]
        name = escape(", ".join([labels[p.cell.key], *varied]))
        sizes = (_size(size) for size in (p.cost.message, p.traffic, p.memory))
        sent.add_row(name, str(p.links.n), str(rounds), *sizes)
        costs = [f"{p.flop:.2g}"]
        if timings:
            timing, measured = timings[p.cell.key]
            seconds = timing.total(rounds, len(planning.recorded(p.cell)))
            total += seconds
            costs += [f"{timing.round:.2g}", f"{'' if measured else '~'}{seconds:.3g}"]
            costs.append(planning.limit_of(p, timing, here))
        taken.add_row(name, *costs)
    console.print(sent, taken, sep="\n")
    console.print(
        "bytes a round are those of one network; memory, FLOP and seconds those of all repetitions"
    )
    if timings:
        cores = os.cpu_count() or 1
        console.print(
            f"Seconds in all, one cell after the other: about [bold]{total:.3g}[/] (~: from "
            f"another cell of the method, by FLOP). This machine: {here.flops / 1e9:.3g} "
            f"GFLOP/s in products, {here.bandwidth / 1e9:.3g} GB/s in copies, "
            f"{cores} cores; `peerwise run` runs a cell on each core."
        )


def _show_devices(
    planning: Any, planned: list[Any], timings: Any, devices: int, link: float
) -> None:
    if not timings:
        raise BadSetting("--devices needs the calibration: leave --no-calibrate out")
    title = f"One network over {devices} devices like this one, joined at {link:g} GB/s"
    table = Table(title=title, title_justify="left")
    for head in ("cell", "comes in a round", "s a round", "memory each", "limit"):
        table.add_column(head, justify="left" if head in ("cell", "limit") else "right")
    for p in planned:
        if p.links.n < devices or p.cell.method.traits.place == "pooled":
            continue
        s = planning.shared(p, timings[p.cell.key][0], devices, link * 1e9)
        varied = [f"{k} = {v}" for k, v in p.cell.varied if k != "method"]
        name = escape(", ".join([p.cell.label, *varied]))
        table.add_row(name, _size(s.crossing), f"{s.seconds:.2g}", _size(s.memory), s.limit)
    console.print(table)
    console.print("The least that it can take: what small operations cost does not get less.")


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
