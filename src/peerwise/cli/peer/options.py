"""What several commands of `peerwise peer` ask for."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from peerwise.errors import BadSetting

console = Console()
TITLE: Any = {"title_justify": "left", "title_style": "bold"}  # how tables are headed


def table_of(title: str, *names: str) -> Table:
    """A table that shows whole cells, however narrow the terminal."""
    table = Table(title=title, **TITLE)
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def moment(value: Any) -> str:
    """A time to the second, as a person writes it."""
    return str(value)[:19].replace("T", " ")


State = Annotated[Path, typer.Argument(metavar="STATE", help="The folder of the peer's state.")]


Channel = Annotated[
    str | None,
    typer.Option(
        help="Inject faults, for trials: a name of `peerwise list channels` and its options, as in "
        "'erasure q=0.7'."
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="Let this function, which the charter names, run here; repeatable.",
    ),
]


def channel_named(text: str | None) -> Any:
    """The channel that a name and its options say, in canonical form; None without a name."""
    if text is None:
        return None
    from peerwise.declare import canonical

    if text.lstrip().startswith("{"):  # a table as in a file, for channels of channels
        given = _toml(text)
    else:
        name, *words = text.split() or [""]
        given = {"name": name}
        for word in words:
            key, equals, value = word.partition("=")
            if not equals:
                raise BadSetting(
                    f"--channel: '{word}' is not an option; write KEY=VALUE, as in q=0.7"
                )
            given[key] = _toml(value)
    return canonical("channel", given, ("channel",), sweeps=False)


def _toml(text: str) -> Any:
    """A value as TOML reads it; a word without quotes is a text."""
    import tomllib

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
