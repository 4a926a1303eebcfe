"""`peerwise demo`: a network learns handwritten digits while you watch."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from peerwise.cli.common import console, progress
from peerwise.cli.page import Port, live_page, tell_file


def demo(
    nodes: Annotated[int, typer.Option(min=2, help="Size of the network.")] = 24,
    rounds: Annotated[int, typer.Option(min=1, help="Communication rounds.")] = 96,
    topology: Annotated[str, typer.Option(help="See `peerwise list topologies`.")] = "random_tree",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the network and of the split.")] = 0,
    out: Annotated[Path, typer.Option(help="Picture to write.")] = Path("peerwise-demo.png"),
    page: Port = None,
) -> None:
    """Watch a simulated network learn handwritten digits.

    Every node holds 1200 / NODES images and talks only to its neighbours. Needs no data folder.
    """
    from peerwise.files import check_place
    from peerwise.learner import cell
    from peerwise.report import figures
    from peerwise.study.demo import demo as run_demo

    check_place(out)
    os.environ.pop("PEERWISE_DATA", None)  # the bundled digits, whatever folder is set
    rows = max(1200 // nodes, 1)
    sections: dict[str, Any] = {
        "data": "digits",
        "split": {"nodes": nodes, "rows": rows},
        "network": topology,
        "run": {
            "rounds": rounds, "seed": seed, "repetitions": 1, "metrics": ["guards", "consensus"]
        },
    }  # fmt: skip
    described = cell(sections)
    console.print(
        f"{nodes} nodes hold {rows} images each; each sends its neighbours statistics, never an "
        "image."
    )
    if page is not None:
        _demo_page(sections, out.with_suffix(".html"), page)
        return
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


def _demo_page(sections: dict[str, Any], path: Path, port: int) -> None:
    """The demonstration in a browser: the network and its references, live, then in one file."""
    import tempfile

    from peerwise.learner import expand
    from peerwise.page.run import write
    from peerwise.report.tables import sweep_tables
    from peerwise.study.engine import ThisMachine
    from peerwise.study.sweep import sweep

    run = {**sections["run"], "metrics": [], "record": "all"}
    described = {**sections, "run": run, "method": ["crc", "isolated", "rc"]}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "digits"
        with live_page(Path("digits"), folder, expand(described), port) as live:
            done = sweep(described, folder, engine=ThisMachine(1), predictions=True, live=True,
                         progress=live.told(lambda done, total: None))  # fmt: skip
            live.end(folder)
        write(folder, path)
    for table in sweep_tables("digits", done.records, console.width):
        console.print(table)
    tell_file(path)
