"""The command line."""

import sys
import warnings
from typing import Annotated, Any

import typer
from rich.markup import escape

from peerwise import __version__
from peerwise.cli import amend as amend  # its commands are of `network` and `peer`
from peerwise.cli import init, listing, sites, study
from peerwise.cli.common import console, errors, stop_at_once
from peerwise.cli.compare import compare
from peerwise.cli.demo import demo
from peerwise.cli.network import network_app
from peerwise.cli.page import page, with_ports
from peerwise.cli.peer import peer_app
from peerwise.cli.plan import plan
from peerwise.errors import PeerwiseError
from peerwise.files import NoHash

app = typer.Typer(
    help="Train classifiers across many sites, with no server and no shared rows.\n\n"
    "Start with `peerwise demo`. Then try `peerwise init`, which writes a run file for you to "
    "edit, `peerwise list methods`, or `peerwise reproduce crc/table-3`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
_COMMANDS: list[Any] = [
    *(demo, init.init, plan, study.run, compare, study.reproduce, study.report, page),
    *(sites.join, sites.predict, sites.ledger),
]
for command in _COMMANDS:
    app.command()(command)
app.command(name="list")(listing.list_)
app.add_typer(listing.data_app, name="data")
app.add_typer(network_app, name="network")
app.add_typer(peer_app, name="peer")


def _version(show: bool) -> None:
    if show:
        console.print(f"peerwise {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def _shown_as_a_line(show: Any) -> Any:
    """How warnings are shown: our own as a line, others as before."""

    def shown(message: Any, category: type[Warning], *where: Any) -> None:
        if issubclass(category, NoHash):
            errors.print(f"[yellow]warning[/]: {escape(str(message))}", highlight=False)
        else:
            show(message, category, *where)

    return shown


def main() -> None:
    """Run the command line; a user's mistake is one line, not a traceback."""
    stop_at_once()
    warnings.showwarning = _shown_as_a_line(warnings.showwarning)
    try:
        # typer gives back the code of `typer.Exit`
        sys.exit(app(with_ports(sys.argv[1:]), standalone_mode=False))
    except PeerwiseError as error:
        errors.print(f"[bold red]error[/]: {escape(str(error))}")
        sys.exit(2)
    except (typer.Abort, KeyboardInterrupt):
        errors.print("stopped")
        sys.exit(130)
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error of the command line itself
            errors.print(f"[bold red]error[/]: {escape(error.format_message())}")
            errors.print("try --help")
            sys.exit(2)
        raise
