"""Commands for researchers: experiments of one's own, and the papers' items."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from peerwise.cli.common import (
    Data,
    Device,
    Facet,
    Figures,
    Fresh,
    Html,
    Out,
    Rows,
    Style,
    Workers,
    console,
    progress,
    show_failures,
    stopping,
    use_data,
    use_rows,
)
from peerwise.cli.devices import (
    Asked,
    Coordinator,
    Cut,
    Devices,
    Process,
    Processes,
    Wait,
    same_description,
    use_devices,
)
from peerwise.cli.engines import Address, Cpus, Engine, Gpus, Memory, where
from peerwise.cli.page import Port, live_page, tell_file
from peerwise.errors import BadSetting


def reproduce(
    item: Annotated[
        str,
        typer.Argument(help="e.g. crc/table-4, crc/all, rc/compare: see `peerwise list items`."),
    ],
    datasets: Annotated[
        str | None,
        typer.Option(help="Use only these data sets, separated by commas: adult,letter."),
    ] = None,
    reps: Annotated[
        int | None,
        typer.Option(min=1, help="Repetitions, trials or replicas [default: the item's own]."),
    ] = None,
    data: Data = None,
    out: Out = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Use fewer data sets, repetitions (50 trials) and nodes."),
    ] = False,
    kept: Annotated[
        bool, typer.Option("--kept", help="Run nothing; show the results already in the folder.")
    ] = False,
    fresh: Fresh = False,
    workers: Workers = None,
    device: Device = "auto",
    engine: Engine = "local",
    address: Address = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    memory: Memory = None,
    html: Html = False,
) -> None:
    """Run a table or figure of a paper and show our numbers beside the paper's.

    The folder keeps finished runs: after an interruption, the same command resumes.
    """
    from peerwise.papers.reproduce import choose
    from peerwise.papers.reproduce import reproduce as run_items

    paper, items = choose(item)
    place = where(engine, workers, device, address=address, cpus=cpus, gpus=gpus, memory=memory)
    use_data(data)
    folder = out or Path("runs") / (item.replace("/", "-") + ("-quick" if quick else ""))
    chosen = [name.strip() for name in datasets.split(",")] if datasets else None
    with stopping(folder, engine != "local"), progress(item) as advance:
        outcome = run_items(
            paper,
            items,
            folder,
            chosen=chosen,
            repetitions=reps,
            quick=quick,
            engine=place,
            progress=advance,
            only_kept=kept,
            fresh=fresh,
        )
    console.print(f"{outcome.words}.", highlight=False)
    _show_paper(folder)
    if html:
        _write_page(folder)
    show_failures(outcome.failures)


def _show_paper(folder: Path) -> None:
    from peerwise.papers.show import show

    for figure in show(folder, console):
        console.print(f"Figure: {escape(str(figure))}")
    files = ("results.parquet", "results.json", "environment.json")  # without a run: not all
    names = ", ".join(name for name in files if (folder / name).exists())
    console.print(f"Results: [bold]{escape(str(folder))}[/] ({names})")


def run(
    config: Annotated[
        Path | None, typer.Argument(help="A run file (TOML); a list of values is a sweep.")
    ] = None,
    data: Data = None,
    out: Out = None,
    fresh: Fresh = False,
    workers: Workers = None,
    device: Device = "auto",
    engine: Engine = "local",
    address: Address = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    memory: Memory = None,
    rows: Rows = "device",
    figure: Figures = None,
    facet: Facet = None,
    style: Style = None,
    html: Html = False,
    page: Port = None,
    devices: Devices = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
    wait: Wait = 300,
    cut: Cut = "auto",
    show_keys: Annotated[
        bool, typer.Option("--keys", help="List every section with its keys, then exit.")
    ] = False,
) -> None:
    """Run your own experiment, sweep or comparison from a run file.

    Example:

        data = "digits"
        method = ["crc", "isolated", "rc", "ml"]
        network = "ring"
        split = {nodes = 20}
    """
    if show_keys:
        _show_keys()
        return
    from peerwise.cli.reading import tell
    from peerwise.learner import expand
    from peerwise.processes import is_first
    from peerwise.study.sweep import jobs_of, read_config, sweep
    from peerwise.study.together import OneNetwork

    if config is None:
        raise BadSetting("give a TOML file to run, or --keys to list the keys that it may have")
    look = _look(figure, style)
    use_rows(rows)
    asked = Asked(devices, coordinator, processes, process, wait, cut)
    ray = {"address": address, "cpus": cpus, "gpus": gpus, "memory": memory}
    if asked.many:
        _refuse_beside(asked, engine=engine, page=page)
    else:
        place = where(engine, workers, device, **ray)
    use_data(data)
    folder = out or Path("runs") / config.stem
    description = read_config(config)
    if asked.many:
        place = shared = OneNetwork(use_devices(asked, device, workers), cut)
        same_description(description)
        shared.check(jobs_of(description))
        if not is_first():
            shared.follow(jobs_of(description), folder)
            return
    if page is not None:
        description = _measured_often(description)
    cells = expand(description)
    reading = tell(cells)
    with ExitStack() as stack:
        live = None if page is None else stack.enter_context(live_page(config, folder, cells, page))
        stack.enter_context(stopping(folder, engine != "local"))
        advance = stack.enter_context(progress(config.stem))
        outcome = sweep(
            description, folder, engine=place, fresh=fresh,
            progress=advance if live is None else live.told(advance),
            predictions=True, live=live is not None, reading=reading,
        )  # fmt: skip
        if live is not None:
            live.end(folder)
    console.print(f"{outcome.words}.", highlight=False)
    _show_sweep(folder, facet=facet, **look)
    if html or page is not None:
        _write_page(folder)
    show_failures(outcome.failures)


def _refuse_beside(asked: Asked, *, engine: str, page: int | None) -> None:
    """Refuse what does not go with a network that many devices share."""
    name = "devices" if asked.devices is not None else "coordinator"
    if engine != "local":
        raise BadSetting(
            f"--engine {engine} runs each cell on one worker, so it does not go with --{name}: "
            "remove one of them"
        )
    if page is not None:
        raise BadSetting(
            f"--page works only for a run on one device: remove --{name}, or write the page "
            "afterwards with peerwise report --html"
        )


MEASURED = 50  # times, in a run with a page that does not say when


def _measured_often(description: dict[str, Any]) -> dict[str, Any]:
    """The description, measured now and then where it does not say when: a line needs points."""
    from peerwise.learner.sections import Run

    run = description.get("run", {})
    if not isinstance(run, dict) or "record" in run:
        return description
    rounds = run.get("rounds", Run().rounds)
    most = max(rounds) if isinstance(rounds, list) else rounds
    every = max(int(most) // MEASURED, 1) if isinstance(most, int) else 1
    return {**description, "run": {**run, "record": every}}


def _show_keys() -> None:
    from peerwise.cli.listing import options_table
    from peerwise.learner.sections import NAMED, SECTIONS
    from peerwise.names import KINDS

    for name, options in SECTIONS.items():
        console.print(options_table(f"[{name}]", options))
    for name, default in NAMED.items():
        console.print(
            f'[bold]\\[{name}][/] name = "{default}" and its options: see `peerwise list '
            f"{KINDS[name]}` and `peerwise list {KINDS[name]} {default}`"
        )


def _look(figure: list[str] | None, style: str | None) -> dict[str, Any]:
    """Formats and style of figures, checked before anything is run."""
    from peerwise.report.look import checked_formats, checked_style

    return {"formats": checked_formats(figure or ()), "style": checked_style(style)}


def _write_page(folder: Path) -> None:
    from peerwise.page.run import write

    tell_file(write(folder))


def _show_sweep(folder: Path, **look: Any) -> None:
    from peerwise.report.run import show

    for figure in show(folder, console, **look):
        console.print(f"Figure: {escape(str(figure))}")
    console.print(
        f"Results: [bold]{escape(str(folder))}[/] (results.parquet, results.json, history.parquet)"
    )


def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a run.")],
    markdown: Annotated[
        Path | None, typer.Option(help="Write a paper's tables to this Markdown file.")
    ] = None,
    figure: Figures = None,
    facet: Facet = None,
    style: Style = None,
    nodes: Annotated[
        str | None, typer.Option(help="A metric to show for every node, such as test_error.")
    ] = None,
    html: Html = False,
) -> None:
    """Show a run's tables and draw its figures again."""
    from peerwise.files import write_whole
    from peerwise.papers.show import page
    from peerwise.study.results import read_folder

    if not folder.is_dir():
        raise BadSetting(
            f"there is no folder {folder}; runs are in runs/ unless --out named another folder"
        )
    records, _, _ = read_folder(folder)
    if html:
        _write_page(folder)
        return
    if not records or records[0].paper is not None:
        _show_paper(folder)
        if markdown is not None:
            write_whole(markdown, page(folder).encode())
            console.print(f"Markdown: {escape(str(markdown))}")
    else:
        _show_sweep(folder, facet=facet, nodes=nodes, **_look(figure, style))
