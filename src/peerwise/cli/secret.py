"""How commands are given the passphrase of a key."""

import sys
from pathlib import Path
from typing import Annotated

import typer

ASK = Path("-")
PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        help="A file with the passphrase of the node's key, or - to type it "
        "[default: PEERWISE_KEY_PASSPHRASE]."
    ),
]
AuthorityFile = Annotated[
    Path | None,
    typer.Option(
        help="A file with the passphrase of the authority's key, or - to type it "
        "[default: PEERWISE_CA_PASSPHRASE]."
    ),
]


def passphrase_of(file: Path | None, variable: str, key: Path, new: bool = False) -> bytes | None:
    """The passphrase of a key: of the file or the environment, or asked for at a terminal.

    Without a file or a variable, only a key that is protected is asked for. `new`: asked twice.
    """
    from peerwise.peer.identity import is_protected
    from peerwise.peer.passphrase import checked, passphrase

    if file != ASK:
        secret = passphrase(file, variable)
        if secret is not None or not is_protected(key) or not sys.stdin.isatty():
            return secret
    twice = new and not is_protected(key)
    asked = typer.prompt(f"Passphrase of {key}", hide_input=True, confirmation_prompt=twice)
    return checked(asked.encode(), "a passphrase")
