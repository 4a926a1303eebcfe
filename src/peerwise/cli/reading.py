"""How data are read: options of several commands, and what a run says about its columns."""

from typing import Annotated

import typer

from peerwise.errors import BadSetting

Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="NAME=number, NAME=category or NAME=drop; repeatable."),
]
MissingWord = Annotated[
    list[str] | None, typer.Option(help="A word that means missing, such as NA; repeatable.")
]


def column_kinds(given: list[str] | None) -> dict[str, str]:
    """What single columns are, from NAME=KIND."""
    kinds = {}
    for text in given or ():
        name, sign, kind = text.rpartition("=")
        if not sign or not name:
            raise BadSetting(f"--column must be NAME=KIND, such as age=number, got '{text}'")
        kinds[name] = kind
    return kinds
