"""Commands that amend a charter while its federation runs: write a new edition, and take it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from peerwise.cli.network import network_app
from peerwise.cli.network.options import CharterFile
from peerwise.cli.peer import peer_app
from peerwise.cli.peer.options import State
from peerwise.errors import BadFile, BadSetting

console = Console()


@network_app.command(name="amend")
def amend_charter(
    charter: CharterFile,
    out: Annotated[Path, typer.Option(help="File to write the new edition to.")],
    address: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE=HOST:PORT",
            help="A node's new address; NODE= if it only dials from now on. Repeatable.",
        ),
    ] = None,
    deadline: Annotated[float | None, typer.Option(help="The most seconds of a round.")] = None,
    start: Annotated[
        float | None, typer.Option(help="Seconds that the first round waits for all neighbours.")
    ] = None,
    adaptive: Annotated[
        bool | None, typer.Option(help="Adapt the deadline to how long letters usually take.")
    ] = None,
    message_bytes: Annotated[
        int | None, typer.Option(help="Bytes of the largest message accepted.")
    ] = None,
    ahead: Annotated[
        int | None, typer.Option(help="How many rounds ahead of this node a message may be.")
    ] = None,
) -> None:
    """Write a new edition of a running federation's charter, for every site to adopt.

    You can amend only what a site may change by itself. Sites adopt the edition one after the
    other, with `peerwise peer amend`; the others go on with the edition that they have.
    """
    from peerwise.peer.amending import amended
    from peerwise.peer.charter import Charter

    if out.exists():
        raise BadFile(f"{out} is there already; give another --out")
    old = Charter.load(charter)
    pace = {"deadline": deadline, "start": start, "adaptive": adaptive}
    limits = {"message_bytes": message_bytes, "ahead": ahead}
    new = amended(old, _addresses(address or []), pace, limits)
    changes = old.amendments(new)
    new.save(out)
    for line in changes:
        console.print(f"- {escape(line)}", highlight=False)
    console.print(
        f"Edition {new.edition}: [bold]{escape(str(out))}[/]; every site takes it with `peerwise "
        f"peer amend STATE {escape(out.name)}`."
    )


def _addresses(given: list[str]) -> dict[str, str | None]:
    """By node: its new address, None for one that has none any more."""
    pairs = [text.partition("=") for text in given]
    for (name, equals, _), text in zip(pairs, given, strict=True):
        if not name or not equals:
            raise BadSetting(f"--address is NODE=HOST:PORT, got '{text}'")
    return {name: address or None for name, _, address in pairs}


@peer_app.command()
def amend(state: State, charter: CharterFile) -> None:
    """Adopt a new edition of the charter; the peer may run.

    New addresses of neighbours and deadlines take effect at once, the rest at the peer's next
    start. The peer refuses a charter with other terms, and nothing changes.
    """
    from peerwise.peer import views

    changes = views.amend(state, charter)
    for line in changes:
        console.print(f"- {escape(line)}", highlight=False)
    console.print("amended" if changes else "nothing to amend: this edition is known")
