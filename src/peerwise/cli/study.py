"""Commands for researchers: the demonstration, experiments of one's own, the papers' items."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from peerwise.cli.common import (
    Data,
    Device,
    Facet,
    Figures,
    Fresh,
    Out,
    Style,
    Workers,
    console,
    progress,
    show_failures,
    stopping,
    use_data,
    use_device,
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
from peerwise.errors import BadSetting


def demo(
    nodes: Annotated[int, typer.Option(min=2, help="Size of the network.")] = 24,
    rounds: Annotated[int, typer.Option(min=1, help="Communication rounds.")] = 96,
    topology: Annotated[str, typer.Option(help="See `peerwise list topologies`.")] = "random_tree",
    seed: Annotated[int, typer.Option(min=0, help="Another network, another split.")] = 0,
    out: Annotated[Path, typer.Option(help="Where the picture goes.")] = Path("peerwise-demo.png"),
) -> None:
    """A network of nodes learns handwritten digits while you watch.

    Every node holds 1200 / NODES images and talks to its neighbours only. Needs no data folder.
    """
    from peerwise.learner import cell
    from peerwise.report import figures
    from peerwise.study.demo import demo as run_demo

    os.environ.pop("PEERWISE_DATA", None)  # the bundled digits, whatever folder is set
    rows = max(1200 // nodes, 1)
    described = cell(
        {
            "data": "digits",
            "split": {"nodes": nodes, "rows": rows},
            "network": topology,
            "run": {
                "rounds": rounds, "seed": seed, "repetitions": 1, "metrics": ["guards", "consensus"]
            },
        }
    )  # fmt: skip
    console.print(
        f"{nodes} nodes hold {rows} images each; each tells its neighbours statistics, never an "
        "image."
    )
    with progress("learning") as advance:
        shown = run_demo(described, lambda done: advance(done, rounds))
    crc = float(shown.error[-1].mean())
    pooled = shown.levels["calibrated, pooled (RC)"]
    table = Table(title="Test error on digits nobody trained on", title_justify="left")
    table.add_column("who learns")
    table.add_column("test error", justify="right")
    table.add_column("std over nodes", justify="right")
    table.add_column("rows leave home?")
    references = [
        ("max. likelihood, pooled", "yes"),
        ("calibrated, pooled (RC)", "yes"),
        ("each node alone", "no"),
    ]
    for name, leaves in references:
        std = f"{shown.spread[name]:.3f}" if name == "each node alone" else ""
        table.add_row(name, f"{shown.levels[name]:.3f}", std, leaves)
    table.add_row(
        "neighbours together (CRC)",
        f"{crc:.3f}",
        f"{shown.error[-1].std():.3f}",
        "no",
        style="bold green",
    )
    console.print(table)
    console.print(
        f"Gap to pooling everything: [bold]{crc - pooled:+.3f}[/] after {rounds} rounds; "
        f"{shown.messages} messages of {shown.bytes_per_link / 1024:.1f} KiB; "
        f"guards acted {shown.guards} times."
    )
    figure = figures.network_and_curves(
        shown.graph, shown.error[-1], shown.rounds, shown.error, shown.levels,
        f"{nodes} nodes learn handwritten digits from their neighbours' statistics",
    )  # fmt: skip
    console.print(f"Picture: [bold]{escape(str(figures.save(figure, out)))}[/]")


def reproduce(
    item: Annotated[
        str,
        typer.Argument(help="e.g. crc/table-4, crc/all, rc/compare: see `peerwise list items`."),
    ],
    datasets: Annotated[
        str | None, typer.Option(help="Only these, with commas: adult,letter.")
    ] = None,
    reps: Annotated[
        int | None,
        typer.Option(min=1, help="Repetitions, trials or replicas [default: the item's own]."),
    ] = None,
    data: Data = None,
    out: Out = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Few data sets, repetitions (50 trials) and nodes."),
    ] = False,
    kept: Annotated[
        bool, typer.Option("--kept", help="Run nothing: show what the folder has so far.")
    ] = False,
    fresh: Fresh = False,
    workers: Workers = None,
    device: Device = "auto",
) -> None:
    """Run a table or figure of a paper and set our numbers beside the paper's.

    What is done is kept in the folder: an interrupted run goes on where it stopped.
    """
    from peerwise.papers.reproduce import choose
    from peerwise.papers.reproduce import reproduce as run_items

    paper, items = choose(item)
    use_device(device)
    use_data(data)
    folder = out or Path("runs") / (item.replace("/", "-") + ("-quick" if quick else ""))
    chosen = [name.strip() for name in datasets.split(",")] if datasets else None
    with stopping(folder), progress(item) as advance:
        outcome = run_items(
            paper,
            items,
            folder,
            chosen=chosen,
            repetitions=reps,
            quick=quick,
            workers=workers,
            progress=advance,
            only_kept=kept,
            fresh=fresh,
        )
    console.print(f"{outcome.words}.", highlight=False)
    _show_paper(folder)
    show_failures(outcome.failures)


def _show_paper(folder: Path) -> None:
    from peerwise.papers.show import show

    for figure in show(folder, console):
        console.print(f"Figure: {escape(str(figure))}")
    console.print(
        f"Results: [bold]{escape(str(folder))}[/] (results.parquet, results.json, environment.json)"
    )


def run(
    config: Annotated[
        Path | None, typer.Argument(help="A TOML file; a list stands for a sweep.")
    ] = None,
    data: Data = None,
    out: Out = None,
    fresh: Fresh = False,
    workers: Workers = None,
    device: Device = "auto",
    figure: Figures = None,
    facet: Facet = None,
    style: Style = None,
    devices: Devices = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
    wait: Wait = 300,
    cut: Cut = "auto",
    show_keys: Annotated[
        bool, typer.Option("--keys", help="List every section with its keys and stop.")
    ] = False,
) -> None:
    """Run an experiment, a sweep or a comparison of your own.

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
    from peerwise.study.engine import Engine, ThisMachine
    from peerwise.study.sweep import jobs_of, read_config, sweep
    from peerwise.study.together import OneNetwork

    if config is None:
        raise BadSetting("give a TOML file to run, or --keys to see what can stand in one")
    look = _look(figure, style)
    folder = out or Path("runs") / config.stem
    description = read_config(config)
    use_data(data)
    asked = Asked(devices, coordinator, processes, process, wait, cut)
    mesh = use_devices(asked, device, workers)
    engine: Engine = ThisMachine(workers)
    if mesh is not None:
        same_description(description)
        engine = shared = OneNetwork(mesh, cut)
        shared.check(jobs_of(description))
        if not is_first():
            shared.follow(jobs_of(description), folder)
            return
    tell(expand(description))
    with stopping(folder), progress(config.stem) as advance:
        outcome = sweep(description, folder, engine=engine, progress=advance, fresh=fresh)
    console.print(f"{outcome.words}.", highlight=False)
    _show_sweep(folder, facet=facet, **look)
    show_failures(outcome.failures)


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
        Path | None, typer.Option(help="Write a reproduction's tables to this Markdown file.")
    ] = None,
    figure: Figures = None,
    facet: Facet = None,
    style: Style = None,
    nodes: Annotated[
        str | None, typer.Option(help="A metric to show for every node: test_error, say.")
    ] = None,
) -> None:
    """Show the tables and draw the figures of a run again."""
    from peerwise.files import write_whole
    from peerwise.papers.show import page
    from peerwise.study.results import read_folder

    if not folder.is_dir():
        raise BadSetting(f"there is no folder {folder}; runs are in runs/ unless --out said else")
    records, _, _ = read_folder(folder)
    if not records or records[0].paper is not None:
        _show_paper(folder)
        if markdown is not None:
            write_whole(markdown, page(folder).encode())
            console.print(f"Markdown: {escape(str(markdown))}")
    else:
        _show_sweep(folder, facet=facet, nodes=nodes, **_look(figure, style))
