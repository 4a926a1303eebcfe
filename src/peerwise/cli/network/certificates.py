"""`peerwise network ca` and `cert`: the authority of a network, and its nodes' certificates."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from peerwise.cli.network.options import console
from peerwise.cli.secret import AuthorityFile, PassphraseFile, passphrase_of


def ca(
    folder: Annotated[Path, typer.Argument(help="Folder for ca.pem and ca.key.")],
    name: Annotated[str, typer.Option(help="The authority's name.")] = "peerwise",
    days: Annotated[int, typer.Option(min=1, help="Days that it is valid.")] = 3650,
    passphrase_file: AuthorityFile = None,
) -> None:
    """Create the certificate authority that signs the certificates of all nodes.

    Whoever has ca.key can let anybody in: keep it off the nodes, and give it a passphrase. Every
    node needs ca.pem.
    """
    from peerwise.peer.identity import CA_KEY, make_authority
    from peerwise.peer.passphrase import AUTHORITY

    secret = passphrase_of(passphrase_file, AUTHORITY, folder / CA_KEY, new=True)
    path = make_authority(folder, name, days, secret)
    without = "" if secret else ", without a passphrase"
    console.print(f"Authority: [bold]{escape(str(path))}[/], its key beside it{without}.")


def cert(
    node: Annotated[str, typer.Argument(help="The node's name in the charter.")],
    ca: Annotated[Path, typer.Option(help="The folder of the authority.")],
    out: Annotated[Path | None, typer.Option(help="The node's folder [default: --ca's].")] = None,
    days: Annotated[int, typer.Option(min=1, help="Days that it is valid.")] = 365,
    host: Annotated[
        list[str] | None, typer.Option(help="A name or address of the node's machine; repeatable.")
    ] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Replace the certificate and keep the key.")
    ] = False,
    charter: Annotated[
        Path | None, typer.Option(help="Fail unless this charter names the node.")
    ] = None,
    passphrase_file: PassphraseFile = None,
    ca_passphrase_file: AuthorityFile = None,
) -> None:
    """Create a node's key and certificate, or renew its certificate."""
    from peerwise.peer.charter import Charter
    from peerwise.peer.identity import CA_KEY, expires, make_certificate
    from peerwise.peer.passphrase import AUTHORITY, NODE

    if charter is not None:
        Charter.load(charter).index(node)
    key = (out or ca) / f"{node}.key"
    path = make_certificate(
        ca, node, out, days, host or (), renew,
        passphrase=passphrase_of(passphrase_file, NODE, key, new=True),
        ca_passphrase=passphrase_of(ca_passphrase_file, AUTHORITY, ca / CA_KEY),
    )  # fmt: skip
    end = expires(path.read_bytes())
    console.print(f"Certificate: [bold]{escape(str(path))}[/], valid until {end:%Y-%m-%d}.")
