"""Commands that amend a charter while its federation runs: write a new edition, and take it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from peerwise.cli.network import CharterFile, network_app
from peerwise.cli.peer import State, peer_app
from peerwise.errors import BadFile, BadSetting

console = Console()


@network_app.command(name="amend")
def amend_charter(
    charter: CharterFile,
    out: Annotated[Path, typer.Option(help="Where the new edition goes.")],
    address: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE=HOST:PORT",
            help="Where a node is now; NODE= for one that only dials from now on. May come again.",
        ),
    ] = None,
    deadline: Annotated[float | None, typer.Option(help="Seconds that a round may last.")] = None,
    start: Annotated[
        float | None, typer.Option(help="Seconds for which the first round waits for all.")
    ] = None,
    adaptive: Annotated[
        bool | None, typer.Option(help="Whether a deadline is as long as letters usually take.")
    ] = None,
    message_bytes: Annotated[int | None, typer.Option(help="The largest message taken.")] = None,
    ahead: Annotated[
        int | None, typer.Option(help="Rounds that a message may be in the future.")
    ] = None,
) -> None:
    """Write a new edition of a charter whose federation runs, for every site to take.

    Only what a site may change by itself can be amended. Sites take it one after the other, with
    `peerwise peer amend`, and those that have not yet go on with the edition that they have.
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
    """Go on with a new edition of the charter; the peer may run.

    Addresses of neighbours and deadlines count at once, the rest when the peer is next started. A
    charter with other terms is refused, and nothing changes.
    """
    from peerwise.peer import views

    changes = views.amend(state, charter)
    for line in changes:
        console.print(f"- {escape(line)}", highlight=False)
    console.print("amended" if changes else "nothing to amend: this edition is known")
