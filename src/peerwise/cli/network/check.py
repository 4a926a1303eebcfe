"""`peerwise network check`: what a charter says."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from peerwise.cli.network.options import CharterFile, console

if TYPE_CHECKING:
    from peerwise.peer.charter import Charter


def check(
    charter: CharterFile,
    data: Annotated[
        str | None, typer.Option(help="A node's rows, to check against the charter.")
    ] = None,
    node: Annotated[str | None, typer.Option(help="Show whom this node talks to.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Another charter: show the first difference.")
    ] = None,
) -> None:
    """Check a charter and show what it says; with --data, check a node's rows against it."""
    from peerwise.data import load
    from peerwise.data.discreet import discreet
    from peerwise.peer.charter import Charter

    read = Charter.load(charter)
    show(read)
    if against is not None:
        other = Charter.load(against)
        words = read.difference(other) or "no difference"
        same = "an edition of the same charter: " if read.hash == other.hash else ""
        console.print(f"Against {escape(str(against))}: {same}{escape(words)}.")
    if node is not None:
        others = ", ".join(read.neighbours(node))
        where = read.nodes[node].address or "no address, it only dials"
        console.print(f"[bold]{escape(node)}[/] ({escape(where)}) talks to: {escape(others)}")
    if data is not None:
        with discreet():
            table = load(data, target=read.target)
            _, y = read.rows(table)
            odd = read.odd_rows(table)
        counts = [int((y == i).sum()) for i in range(len(read.classes))]
        classes = ", ".join(f"{c}: {k}" for c, k in zip(read.classes, counts, strict=True))
        known = int((y >= 0).sum())
        words = (
            "rows are as agreed" if read.budget is None else f"of {len(table.labels)} rows count"
        )
        console.print(f"{known} {words} ({escape(classes)}).")
        for line in odd:
            console.print(f"[yellow]warning[/]: {escape(line)}", highlight=False)


def show(charter: "Charter") -> None:
    """What a charter says, in a table."""
    from peerwise.peer.described import unit_of
    from peerwise.peer.leaving import what_leaves

    c = charter
    kinds = [f.kind for f in c.features]
    unit = "row, or as its code says" if c.own_code or not c.budget else unit_of(c.cell)
    dialled = sum(node.address is not None for node in c.nodes.values())
    what = c.method_name
    for kind in ("model", "net") if not c.own_code else ():
        what += f", {kind} {c.cell[kind]['name']}" if kind in c.cell else ""
    if c.own_code:
        what += f"; code of its author, not read here: {', '.join(c.own_code)}"
    wait = {"wait": "wait for all", "deadline": "wait until the deadline", "async": "never wait"}
    rows = [
        ("nodes", f"{len(c.nodes)}, {dialled} with an address"),
        ("links", str(c.graph().number_of_edges())),
        ("target", f"{c.target}: {', '.join(c.classes)}"),
        (
            "features",
            f"{kinds.count('numeric')} numeric, {kinds.count('categorical')} categorical, "
            f"units {c.units}",
        ),
        ("method", what),
        ("rounds", f"{c.rounds}, {wait[c.pace.mode]}, seed {c.seed}"),
        ("budget", "none" if c.budget is None else f"epsilon {c.budget.epsilon:g}, "
         f"delta {c.budget.delta:g} for one {unit}, {c.budget.accountant}"),
        ("hash", c.hash),
    ]  # fmt: skip
    table = Table(title=f"Charter of {escape(c.name)}", title_justify="left", show_header=False)
    table.add_column("what", style="bold", no_wrap=True)
    table.add_column("as agreed")
    for name, value in rows:
        table.add_row(name, escape(value))
    console.print(table)
    console.print("[bold]What leaves a node[/]")
    for line in what_leaves(c):
        console.print(f"- {escape(line)}", highlight=False)
