"""`peerwise network`: a network of real nodes, its charter, its authority, its certificates."""

from typing import Any

import typer

from peerwise.cli.network.certificates import ca, cert
from peerwise.cli.network.check import check
from peerwise.cli.network.new import new
from peerwise.cli.network.up import up

network_app = typer.Typer(
    help="Set up a network of real nodes: its charter and its certificates.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)
_COMMANDS: list[Any] = [new, check, ca, cert, up]
for command in _COMMANDS:
    network_app.command()(command)
