"""`peerwise network up`: a whole federation of processes on this machine."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from peerwise.cli.common import stop_gently
from peerwise.cli.network.options import Mode, Model, Net, Rate, console, description_of
from peerwise.cli.page import PageHost, PageTls, Port, TokenFile, access_of
from peerwise.cli.page import tell as tell_page
from peerwise.cli.peer.options import Channel, channel_named
from peerwise.cli.reading import Target
from peerwise.errors import BadSetting

if TYPE_CHECKING:
    from peerwise.page.guard import Access


def up(
    nodes: Annotated[int, typer.Option(min=2, help="How many peers to start.")] = 8,
    topology: Annotated[
        str, typer.Option(help="The graph: see `peerwise list topologies`.")
    ] = "random_tree",
    data: Annotated[str, typer.Option(help="A data set's name, or a file with --target.")] = (
        "digits"
    ),
    target: Target = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="Rows of each peer [default: 1200 / NODES, at most 150]."),
    ] = None,
    method: Annotated[str, typer.Option(help="The method: see `peerwise list methods`.")] = "crc",
    model: Model = None,
    net: Net = None,
    lr: Rate = None,
    rounds: Annotated[int, typer.Option(min=1, help="Communication rounds.")] = 64,
    mode: Mode = "wait",
    deadline: Annotated[
        float, typer.Option(help="With --mode deadline: the most seconds of a round.")
    ] = 2.0,
    channel: Channel = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the network and of the split.")] = 0,
    seconds: Annotated[float, typer.Option(help="Give up after this many seconds.")] = 900.0,
    out: Annotated[
        Path, typer.Option(help="A new folder for charter, certificates, rows and states.")
    ] = Path("runs/network"),
    page: Port = None,
    page_host: PageHost = "127.0.0.1",
    page_token_file: TokenFile = None,
    page_tls: PageTls = None,
) -> None:
    """Run a whole federation on this machine: real processes that talk over mutual TLS.

    The command deals rows to NODES peers, each with a certificate, a port and a state of its own.
    They learn while you watch. Then a summary compares them with a simulation of the same network.
    """
    from rich.live import Live

    from peerwise.data import load
    from peerwise.peer import local

    faults = channel_named(channel)
    access = None if page is None else access_of(page, page_host, page_token_file, page_tls)
    federation = local.set_up(
        out, load(data, target=target), nodes=nodes, rows=rows or min(1200 // nodes, 150) or 1,
        description=description_of(method, model, net, lr, rounds, seed), graph=topology, seed=seed,
        pace={"mode": mode, "deadline": deadline},
    )  # fmt: skip
    links = federation.charter.graph().number_of_edges()
    console.print(
        f"{nodes} peers, {links} links, in [bold]{escape(str(out))}[/]; every peer is a process "
        "that keeps its rows and talks to its neighbours over mutual TLS."
    )
    extra = ["--channel", channel] if channel else []
    stop_gently()
    with ExitStack() as stack:
        peers = stack.enter_context(local.Peers(federation, extra))
        if access is not None:
            stack.enter_context(_shown(peers, access))
        live = stack.enter_context(Live(console=console, transient=True))
        good = peers.wait(
            seconds, lambda now: live.update(_standing(now)), patient=access is not None
        )
        last, wrong = peers.look(), peers.failed()
    console.print(_standing(last))
    for name, why in wrong.items():
        console.print(f"[bold red]failed[/] {escape(name)}: {escape(why)}")
    if not good:
        raise BadSetting(
            f"not all peers were done within {seconds:g} s" if not wrong else "some peers failed"
        )
    _summary(federation, local, faults, mode)


@contextmanager
def _shown(peers: Any, access: "Access") -> Iterator[None]:
    """The page of all peers, while they run."""
    from peerwise.page.network import NetworkPage

    with NetworkPage(peers, access) as page:
        tell_page(page.server.address)
        yield


def _standing(peers: "dict[str, Any]") -> Table:
    """How all peers stand."""
    table = Table(title="Peers", title_justify="left", title_style="bold")
    for name in ("peer", "round", "heard", "missed", "error on own rows", "KiB sent", "s / round"):
        table.add_column(name, justify="left" if name == "peer" else "right")
    for name, s in peers.items():
        if s is None:
            table.add_row(escape(name), "starts", *[""] * 5)
            continue
        error = "" if s.error is None else f"{s.error:.3f}"
        table.add_row(
            escape(name), f"{s.round} / {s.rounds}" if s.phase == s.phases - 1 else "agrees",
            str(len(s.heard)), str(len(s.missed)), error, f"{s.sent / 1024:.1f}",
            "-" if s.seconds is None else f"{s.seconds:.3f}", style="green" if s.done else None,
        )  # fmt: skip
    return table


def _summary(federation: Any, local: Any, faults: Any, mode: str) -> None:
    """Test errors of the peers beside those that the simulator gives."""
    import numpy as np

    from peerwise.peer.views import learnt

    charter = federation.charter
    real = np.array(list(local.peer_errors(federation).values()))
    agreed = learnt(federation.state(charter.names[0]), charter.own_code).agreed
    run = local.simulated(federation, agreed, faults, probe=True)
    predicted = np.asarray(run.history["adapt"]["test_error"])[-1]
    table = Table(title="Test error on rows nobody trained on", title_justify="left")
    for name in ("who", "mean", "worst", "std over nodes"):
        table.add_column(name, justify="left" if name == "who" else "right")
    for name, errors in (("real peers", real), ("the simulator, same seed", predicted)):
        table.add_row(name, f"{errors.mean():.3f}", f"{errors.max():.3f}", f"{errors.std():.3f}")
    console.print(table)
    apart = float(np.abs(real - predicted).max())
    why = "" if mode == "wait" else "; in this mode the clock decides which letters arrive in time"
    console.print(f"Largest difference between a peer and its simulation: {apart:.4f}{why}.")
    console.print(
        f"Next: `peerwise peer status {federation.state(charter.names[0])}`, also outbox, audit "
        "and export."
    )
