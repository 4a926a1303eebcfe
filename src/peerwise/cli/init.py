"""First steps: a commented run file to begin with, and what the shell can complete."""

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from peerwise.cli.common import console
from peerwise.cli.reading import Target
from peerwise.errors import BadFile, BadSetting, UnknownName

_TEMPLATES = files("peerwise.cli") / "templates"
KINDS = {
    "statistics": "neighbours exchange statistics of a classifier",
    "nets": "neighbours exchange the weights of neural networks",
    "private": "under a privacy budget",
    "lossy": "over links that lose messages",
    "federation": "a trial with a few simulated sites, before you ask real ones to join",
}


def complete_kind(incomplete: str) -> list[tuple[str, str]]:
    """The kinds of files that begin with what was typed, each with a line."""
    return [(kind, about) for kind, about in KINDS.items() if kind.startswith(incomplete)]


def init(
    kind: Annotated[
        str,
        typer.Argument(help="Which file: " + ", ".join(KINDS) + ".", autocompletion=complete_kind),
    ] = "statistics",
    source: Annotated[
        str | None, typer.Option("--data", help="A data set's name, or a CSV or Parquet file.")
    ] = None,
    target: Target = None,
    out: Annotated[
        Path | None, typer.Option(help="The file to write [default: KIND.toml].")
    ] = None,
) -> None:
    """Write a commented run file that works as it is, for you to edit.

    With --data the file uses your own rows: as many per node as they allow, up to 50.
    """
    if kind not in KINDS:
        raise UnknownName("kind of run file", kind, KINDS)
    path = out or Path(f"{kind}.toml")
    text = template(kind, source, target)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadFile(f"{path} is there already; give another --out, or remove it") from None
    except OSError as error:
        raise BadFile(f"cannot write {path}: {error.strerror}") from None
    console.print(f"[bold]{escape(str(path))}[/]: {KINDS[kind]}")
    console.print(f"Next: peerwise run {escape(str(path))}")


def template(kind: str, source: str | None = None, target: str | None = None) -> str:
    """The text of a run file of a kind, about a source's rows where one is given."""
    text = (_TEMPLATES / f"{kind}.toml").read_text(encoding="utf-8")
    if source is None:
        if target is not None:
            raise BadSetting("--target is a column of a file: give the file with --data")
        return text
    from peerwise import data

    data.encode(data.load(source, target=target))  # whatever is wrong is said now
    text = _put(text, "source", source)
    text = text if target is None else _put(text, "target", target)
    # a share of the rows for every node, whatever their number
    return re.sub(r"^rows = .*\n", "", text, flags=re.M)


def _put(text: str, key: str, value: str) -> str:
    """The text with a key of [data] set, also where it stood in a comment."""
    import tomli_w

    line = tomli_w.dumps({key: value}).strip()
    return re.sub(rf"^(# )?{key} = .*$", lambda _: line, text, count=1, flags=re.M)
