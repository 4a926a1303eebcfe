"""Pages in a browser: options that several commands share, and the command that browses runs."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from peerwise.cli.common import console, stop_gently

if TYPE_CHECKING:
    from peerwise.page.guard import Access

FLAG = "--page"
Port = Annotated[
    int | None,
    typer.Option(
        FLAG, metavar="[PORT]", min=0, max=65535,
        help="Serve a page to browsers on this machine, at this port or any free one.",
    ),
]  # fmt: skip
PageHost = Annotated[
    str,
    typer.Option(help="Address where the page listens; other machines need TLS and a token."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="A file with the token that lets visitors of the page act, not only look."),
]
PageTls = Annotated[
    Path | None, typer.Option(help="A PEM file with the page's certificate and its key.")
]


def with_ports(arguments: Sequence[str]) -> list[str]:
    """Arguments in which `--page` has a port: 0, any that is free, where none was given.

    >>> with_ports(["run", "--page", "r.toml"]), with_ports(["run", "r.toml", "--page", "8000"])
    (['run', '--page', '0', 'r.toml'], ['run', 'r.toml', '--page', '8000'])
    """
    completed: list[str] = []
    for place, word in enumerate(arguments):
        completed.append(word)
        after = arguments[place + 1] if place + 1 < len(arguments) else ""
        if word == FLAG and not after.isdecimal():
            completed.append("0")
    return completed


def access_of(port: int, host: str, token: Path | None, tls: Path | None) -> "Access":
    """Where a page is and who may see it, checked before anything is begun."""
    from peerwise.page.guard import Access, read_token

    return Access(host, port, read_token(token), tls).checked()


def tell(address: str) -> None:
    """Say where the page is."""
    console.print(f"Page: [bold]{escape(address)}[/]", highlight=False, soft_wrap=True)


def tell_file(path: Path) -> None:
    """Say which file a page was written to, and its size."""
    size = path.stat().st_size / 1000
    console.print(f"Page: [bold]{escape(str(path))}[/] ({size:,.0f} kB, one file)", highlight=False)


@contextmanager
def live_page(config: Path, folder: Path, cells: Any, port: int) -> Iterator[Any]:
    """The page of a run, served while the run goes on."""
    from peerwise.page.live import Following, LivePage

    live = LivePage(Following(config.stem, folder, cells), port)
    with live.server as server:
        tell(server.address)
        yield live


def page(
    runs: Annotated[Path, typer.Argument(help="A folder of runs, or one run.")] = Path("runs"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen at [default: any free one].")
    ] = 0,
    page_host: PageHost = "127.0.0.1",
    page_token_file: TokenFile = None,
    page_tls: PageTls = None,
) -> None:
    """Browse a folder of runs in a web browser, until Ctrl-C."""
    from peerwise.page import serve  # noqa: F401  # what is not installed is said at once
    from peerwise.page.browse import browser

    with browser(runs, access_of(port, page_host, page_token_file, page_tls)) as server:
        tell(server.address)
        console.print("Ctrl-C ends it.")
        stop_gently()
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        while True:
            time.sleep(3600)
