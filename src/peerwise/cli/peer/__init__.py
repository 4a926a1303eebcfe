"""`peerwise peer`: one node of a real network, and what it has done."""

from typing import Any

import typer

from peerwise.cli.peer.look import audit, export, heads, outbox, status
from peerwise.cli.peer.neighbours import eject, quarantine, readmit
from peerwise.cli.peer.run import run

peer_app = typer.Typer(
    help="Run one node of a real network, and inspect it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
_COMMANDS: list[Any] = [run, status, outbox, audit, heads, quarantine, eject, readmit, export]
for command in _COMMANDS:
    peer_app.command()(command)
