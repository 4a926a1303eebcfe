"""Commands that show what can be named and which data sets are at hand."""

import os
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from peerwise.cli.common import Data, console, use_data
from peerwise.errors import UnknownName

data_app = typer.Typer(help="Look at the data sets at hand.", no_args_is_help=True)

_PLACES = {
    "neighbours": "every node talks to its neighbours",
    "server": "nodes talk to a server",
    "pooled": "all rows at one place",
    "alone": "every node by itself",
}
_LEARNS = {"model": "statistics of a model", "net": "weights of a net", "pooled": "a classifier"}


def list_(
    kind: Annotated[
        str,
        typer.Argument(
            help="methods, models, nets, rules, losses, topologies, channels, partitions, sizes, "
            "shifts, metrics or items."
        ),
    ] = "",
    name: Annotated[
        str, typer.Argument(help="One of them, or your own module:function: show its options.")
    ] = "",
) -> None:
    """Everything that can be named, with one line each; with a NAME, its options.

    Your own method, rule, net, metric, topology, partition or channel is named as
    `module:function` wherever a name is expected.
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
    console.print(f"is given: {escape(asked) or 'nothing'}")
    if known.options:
        console.print(options_table(f"Options of {name}", known.options))


def _shown(default: object) -> str:
    if isinstance(default, dict):
        return ", ".join(
            str(v) if k == "name" else f"{k} = {_shown(v)}" for k, v in default.items()
        )
    if isinstance(default, tuple | list):
        return ", ".join(map(_shown, default)) or "none"
    return {None: "none", True: "true", False: "false"}.get(default, str(default))  # type: ignore[call-overload]


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
    """The data sets at hand: those of the folder and those that come with scikit-learn."""
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
    name: Annotated[str, typer.Argument(help="A name of `peerwise data list`, or a file.")],
    target: Annotated[str | None, typer.Option(help="The column to predict (files).")] = None,
    typing: Annotated[str, typer.Option(help="distinct or manifest.")] = "distinct",
    data: Data = None,
) -> None:
    """How a data set is read: its features, what they are taken to be, its classes."""
    import numpy as np

    from peerwise import data as sets

    use_data(data)
    loaded = sets.load(name, target=target)
    encoded = sets.encode(loaded, typing=typing)
    schema = encoded.schema
    counts = np.bincount(encoded.y, minlength=len(schema.classes))
    shown = ", ".join(f"{c}: {n}" for c, n in list(zip(schema.classes, counts, strict=True))[:12])
    more = f" and {len(schema.classes) - 12} more" if len(schema.classes) > 12 else ""
    console.print(f"[bold]{loaded.name}[/]: {len(encoded.y)} rows, target {schema.target}")
    console.print(f"classes: {shown}{more}")
    table = Table(title=f"{len(schema.features)} features ({typing} typing)", title_justify="left")
    for column in ("feature", "kind", "values"):
        table.add_column(column)
    for i, feature in enumerate(schema.features[:40]):
        if feature.kind == "categorical":
            values = f"{len(feature.categories)}: " + ", ".join(feature.categories[:8])
        else:
            x = encoded.x[:, i]
            values = f"{np.nanmin(x):g} to {np.nanmax(x):g}"
            values += f" (codes of {len(feature.categories)} names)" if feature.categories else ""
        table.add_row(feature.name, feature.kind, escape(values))
    console.print(table)
    if len(schema.features) > 40:
        console.print(f"and {len(schema.features) - 40} more")
    for column, reason in encoded.dropped[:10]:
        console.print(f"left out: {column} ({reason})")
    if loaded.note:
        console.print(f"[dim]{escape(loaded.note)}[/]")
