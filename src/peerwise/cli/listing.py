"""Commands that show what can be named and which data sets are at hand."""

import os
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from peerwise.cli.common import Data, console, use_data
from peerwise.cli.reading import (
    Columns,
    MissingWord,
    Target,
    Typing,
    column_kinds,
    show_reading,
)
from peerwise.errors import UnknownName

data_app = typer.Typer(help="List data sets and show how they are read.", no_args_is_help=True)

_PLACES = {
    "neighbours": "every node talks to its neighbours",
    "server": "nodes talk to a server",
    "pooled": "all rows at one place",
    "alone": "every node by itself",
}
_LEARNS = {"model": "statistics of a model", "net": "weights of a net", "pooled": "a classifier"}


def complete_kinds(incomplete: str) -> list[str]:
    """The kinds of things that begin with what was typed."""
    from peerwise import names

    return [kind for kind in [*names.KINDS.values(), "items"] if kind.startswith(incomplete)]


def complete_sets(incomplete: str) -> list[str]:
    """The data sets at hand that begin with what was typed."""
    from peerwise.data import available

    return [e["name"] for e in available() if e["name"].startswith(incomplete)]


def list_(
    kind: Annotated[
        str,
        typer.Argument(
            help="One of methods, models, nets, rules, losses, topologies, channels, partitions, "
            "sizes, shifts, metrics or items.",
            autocompletion=complete_kinds,
        ),
    ] = "",
    name: Annotated[
        str, typer.Argument(help="One name of that kind, or your own module:function.")
    ] = "",
) -> None:
    """List the names that a run file may use, one line each; with a NAME, show its options.

    Wherever a name is expected you can give your own method, rule, net, metric, topology,
    partition or channel as `module:function`.
    """
    from peerwise import names

    plurals = [*names.KINDS.values(), "items"]
    if kind and kind not in plurals and kind not in names.KINDS:
        raise UnknownName("kind of things", kind, plurals)
    if name:
        _show_options(names.kind_of(kind), name)
        return
    for one in [kind] if kind else plurals:
        table = Table(title=one, title_justify="left", show_header=False, title_style="bold")
        table.add_column("name", style="bold", no_wrap=True)
        table.add_column("what it is")
        for entry, line in _items() if one == "items" else names.listed(one):
            table.add_row(entry, escape(line))
        console.print(table)


def _items() -> list[tuple[str, str]]:
    from peerwise.papers.reproduce import list_items

    return list_items()


def _show_options(kind: str, name: str) -> None:
    """What one named thing is, needs and lets a user set."""
    from peerwise.declare import FACTS, find

    known = find(kind, name)
    console.print(f"[bold]{escape(known.name)}[/] ({kind}): {escape(known.about)}")
    if kind == "method":
        console.print(
            f"learns {_LEARNS.get(known.learns, 'nothing')}; {_PLACES[known.traits.place]}"
        )
    for need in known.traits.needs:
        console.print(f"needs links with {need}")
    if known.traits.releases != "nothing":
        console.print(f"spends a privacy budget: {known.traits.releases}")
    asked = ", ".join(f"{fact} ({FACTS[fact]})" for fact in known.facts)
    console.print(f"facts it asks for: {escape(asked) or 'none'}")
    if known.options:
        console.print(options_table(f"Options of {name}", known.options))


def _shown(default: object) -> str:
    if isinstance(default, dict):
        return ", ".join(
            str(v) if k == "name" else f"{k} = {_shown(v)}" for k, v in default.items()
        )
    if isinstance(default, tuple | list):
        return ", ".join(map(_shown, default)) or "none"
    if default is None or isinstance(default, bool):
        return "none" if default is None else str(default).lower()
    return str(default)


def options_table(title: str, options: object) -> Table:
    """Options with their defaults, types and one line each."""
    from peerwise.declare import Option, in_words

    table = Table(title=escape(title), title_justify="left", title_style="bold")
    for column in ("option", "default", "values", "meaning"):
        table.add_column(column)
    assert isinstance(options, dict)
    for key, o in options.items():
        assert isinstance(o, Option)
        default = "must be given" if o.required else _shown(o.default)
        table.add_row(key, escape(default), escape(in_words(o)), escape(o.about))
    return table


@data_app.command("list")
def data_list(data: Data = None) -> None:
    """List the data sets in the data folder and those that come with scikit-learn."""
    from peerwise import data as sets

    use_data(data)
    table = Table(title="Data sets", title_justify="left")
    for name in ("name", "kind", "rows", "features", "classes", "source"):
        table.add_column(
            name, justify="right" if name in ("rows", "features", "classes") else "left"
        )
    for entry in sets.available():
        table.add_row(
            *(str(entry[k]) for k in ("name", "kind", "rows", "features", "classes", "source"))
        )
    console.print(table)
    if not os.environ.get("PEERWISE_DATA"):
        console.print(
            "For more, set PEERWISE_DATA or --data to a folder with a MANIFEST.json, or give"
        )
        console.print("the path of a CSV or Parquet file, or openml:NAME when online.")


@data_app.command("show")
def data_show(
    name: Annotated[
        str,
        typer.Argument(
            help="A name of `peerwise data list`, or a file.", autocompletion=complete_sets
        ),
    ],
    target: Target = None,
    typing: Typing = "distinct",
    distinct: Annotated[
        int, typer.Option(min=1, help="With distinct: the most values a category may have.")
    ] = 10,
    column: Columns = None,
    missing_word: MissingWord = None,
    data: Data = None,
) -> None:
    """Show how a data set is read: the kind of every column, and what looks wrong."""
    from peerwise import data as sets
    from peerwise.data.kinds import WORDS

    use_data(data)
    loaded = sets.load(name, target=target)
    reading = sets.describe(
        loaded,
        typing=typing,
        distinct=distinct,
        columns=column_kinds(column),
        words=missing_word or WORDS,
    )
    if loaded.frame.ndim > 2 or not hasattr(loaded.frame, "columns"):
        for line in reading.lines():  # pixels and embedded features are all alike
            console.print(escape(line), highlight=False)
    else:
        show_reading(reading)
    if loaded.note:
        console.print(f"[dim]{escape(loaded.note)}[/]")
