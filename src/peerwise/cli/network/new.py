"""`peerwise network new`: a charter from a sample of the data and a graph."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from peerwise.cli.network.check import show
from peerwise.cli.network.options import Mode, Model, Net, Rate, console, description_of
from peerwise.cli.reading import Columns, MissingWord, Target, Typing, column_kinds
from peerwise.errors import BadFile, BadSetting, UnknownName

if TYPE_CHECKING:
    import networkx as nx


def new(
    data: Annotated[
        str, typer.Option(help="A sample that shows the columns: a file, or a data set's name.")
    ],
    target: Target = None,
    graph: Annotated[
        Path | None,
        typer.Option(help="The graph of nodes: a file with two neighbours' names on each line."),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=2, help="Instead of --graph: this many nodes, called node0, node1, ..."),
    ] = None,
    topology: Annotated[
        str, typer.Option(help="The graph of --nodes: see `peerwise list topologies`.")
    ] = "ring",
    addresses: Annotated[
        str,
        typer.Option(
            help="HOST:PORT of the first node (the next node gets the next port); or a file with a "
            "name and an address on each line. Leave out nodes that only dial others."
        ),
    ] = "localhost:7400",
    name: Annotated[
        str | None, typer.Option(help="The federation's name [default: that of --out].")
    ] = None,
    method: Annotated[str, typer.Option(help="The method: see `peerwise list methods`.")] = "crc",
    model: Model = None,
    net: Net = None,
    lr: Rate = None,
    rounds: Annotated[int, typer.Option(min=1, help="Communication rounds.")] = 64,
    mode: Mode = "wait",
    deadline: Annotated[
        float, typer.Option(help="With --mode deadline: the most seconds of a round.")
    ] = 30.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="A node's privacy budget, for private methods; the charter then takes nothing "
            "from the sample's rows."
        ),
    ] = None,
    bound: Annotated[
        list[str] | None,
        typer.Option(help="Public bounds of a numeric column, COLUMN=LOW:HIGH; repeatable."),
    ] = None,
    categories: Annotated[
        list[str] | None,
        typer.Option(help="Public categories of a column, COLUMN=A,B,C; repeatable."),
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="The public classes of the target, A,B,C.")
    ] = None,
    bounds_epsilon: Annotated[
        float | None,
        typer.Option(
            help="Find the missing bounds from the sample, with noise, at this total epsilon, "
            "charged to --ledger."
        ),
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="With --bounds-epsilon: this site's privacy ledger.")
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(help="With --ledger: fail unless the ledger belongs to this site."),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="Rows in the whole network, a public number that all agree on."),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            help="The column that names a row's person: protect persons, not single rows."
        ),
    ] = None,
    person_rows: Annotated[
        int | None, typer.Option(min=1, help="How many rows of one person count [default: 1].")
    ] = None,
    public: Annotated[
        bool,
        typer.Option(
            "--public",
            help="The sample is public, such as a published data set: take bounds, categories, "
            "center and scale from it even with --epsilon.",
        ),
    ] = False,
    units: Annotated[
        str,
        typer.Option(
            help="Center and scale: given (the sample's; with --epsilon those of the bounds), "
            "agree (nodes compute those of all rows) or sealed (the same, by a sealed sum)."
        ),
    ] = "given",
    typing: Typing = "distinct",
    column: Columns = None,
    missing_word: MissingWord = None,
    out: Annotated[Path, typer.Option(help="Charter file to write.")] = Path("charter.toml"),
) -> None:
    """Write a charter from a sample of the data and a graph, for all sites to read and agree on.

    Without --epsilon, the charter shows what the sample holds: names of columns, classes,
    categories, centers and scales. Use rows that you may disclose, or edit the file. With
    --epsilon it shows only the names of columns; give --bound, --categories and --classes.
    """
    from peerwise.cli.public import check_ledger, found_bounds, read_known, told_bounds, unbounded
    from peerwise.data import describe, load
    from peerwise.data.kinds import WORDS
    from peerwise.declare import declared
    from peerwise.peer.described import private_methods
    from peerwise.peer.drafting import draft
    from peerwise.privacy.design import default_delta

    if out.exists():
        raise BadFile(
            f"{out} is there already, and nodes may have agreed on it; give another --out"
        )
    if not out.parent.is_dir():
        raise BadFile(f"cannot write {out}: there is no folder {out.parent}; create it")
    drawn = _graph(graph, nodes, topology, seed)
    description = description_of(method, model, net, lr, rounds, seed)
    if units == "sealed":  # an option of methods with sealed sums, in units of the bounds
        description["method"]["units"], units = "sealed", "given"
    table, dropped = load(data, target=target), column_kinds(column)
    budget = known = None
    wanted: list[str] = []
    lines: list[str] = []
    public = public or not Path(data).exists()  # a name is that of a published data set
    if epsilon is not None:
        if method in declared("method") and method not in private_methods():
            raise BadSetting(
                f"--epsilon needs a --method that adds noise: {', '.join(private_methods())}; "
                f"{method} adds none"
            )
        unit = {"person": person, "person_rows": person_rows}
        description["privacy"] = {"epsilon": epsilon, **unit}
        budget = {"epsilon": epsilon, "delta": default_delta(rows)}
        dropped |= {} if person is None else {person: "drop"}
        if person is not None and person not in table.frame:
            raise UnknownName("column for --person", person, list(map(str, table.frame)))
        if not public:
            check_ledger(bounds_epsilon, ledger, site)
            known = read_known(bound, categories, classes)
            wanted = unbounded(table, known, dropped) if bounds_epsilon is not None else []
    elif bound or categories or classes or bounds_epsilon or person or ledger or site:
        raise BadSetting(
            "--bound, --categories, --classes, --bounds-epsilon, --ledger, --site and --person "
            "need --epsilon"
        )
    drafted = partial(
        draft,
        table,
        drawn,
        description,
        name=name or out.stem,
        addresses=_addresses(addresses, list(drawn)),
        units=units,
        typing=typing,
        columns=dropped,
        words=missing_word or WORDS,
        limits=None if rows is None else {"rows": rows},
        public=public,
        pace={"mode": mode, "deadline": deadline},
        budget=budget,
    )
    if known is not None and wanted:
        assert bounds_epsilon is not None
        assert ledger is not None
        # whatever is wrong is said before anything is paid
        drafted(known=known._replace(bounds={**dict.fromkeys(wanted, (-1.0, 1.0)), **known.bounds}))
        each = None if person is None else (person, person_rows or 1)
        known, paid = found_bounds(table, known, wanted, bounds_epsilon, ledger, each)
        lines = [*told_bounds(wanted, known.bounds), paid]
    elif known is None:  # the charter will show what the sample holds
        read = describe(table, typing=typing, columns=dropped, words=missing_word or WORDS)
        lines = list(read.warnings)
        if lines:
            lines.append("--column NAME=drop leaves a column out; the charter shows the others")
    charter = drafted(known=known)
    if rows is None and not public and charter.limits.rows is not None:
        lines.append(
            f"limits.rows is {charter.limits.rows}, as many as the sample has; methods take the "
            "size of their steps from the rows of the whole network: give these with --rows"
        )
    charter.save(out)
    show(charter)
    for line in lines:
        console.print(f"[yellow]note[/]: {escape(line)}", highlight=False)
    console.print(f"Charter: [bold]{escape(str(out))}[/]; read it, and give every node a copy.")


def _graph(path: Path | None, nodes: int | None, topology: str, seed: int) -> "nx.Graph":
    """The graph of names that the options say."""
    import networkx as nx

    from peerwise.topology import from_graph, graph_of, named
    from peerwise.topology.given import read_graph

    if (path is None) == (nodes is None):
        raise BadSetting("give either --graph FILE or --nodes N with --topology NAME")
    if path is not None:
        read = read_graph(path)
        from_graph(read)  # says what is wrong with it
        drawn = nx.Graph()
        drawn.add_nodes_from(map(str, sorted(read)))
        drawn.add_edges_from((str(u), str(v)) for u, v in read.edges)
        return drawn
    assert nodes is not None
    numbered = graph_of(named(topology, nodes, seed))
    return nx.relabel_nodes(numbered, {i: f"node{i}" for i in numbered})


def _addresses(given: str, names: list[str]) -> dict[str, str]:
    """An address for every node from that of the first, or those that a file lists."""
    path = Path(given)
    if path.is_file():
        return _listed(path)
    host, _, port = given.rpartition(":")
    if not host or not port.isdecimal():
        raise BadSetting(
            f"--addresses {given!r} is neither HOST:PORT nor a file with a name and an address on "
            "each line"
        )
    return {name: f"{host}:{int(port) + i}" for i, name in enumerate(names)}


def _listed(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"cannot read the addresses {path}: {error}") from None
    addresses: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if words and (len(words) != 2 or words[0] in addresses):
            raise BadFile(
                f"{path}, line {number}: expected a node that is not listed above and its "
                f"address, got '{line.strip()}'"
            )
        if words:
            addresses[words[0]] = words[1]
    return addresses
