"""Commands for a network of real nodes: its charter, its authority, its certificates."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from peerwise.cli.common import stop_gently
from peerwise.cli.page import PageHost, PageTls, Port, TokenFile, access_of
from peerwise.cli.page import tell as tell_page
from peerwise.cli.peer import Channel, channel_named
from peerwise.cli.reading import Columns, MissingWord, Target, Typing, column_kinds
from peerwise.cli.secret import AuthorityFile, PassphraseFile, passphrase_of
from peerwise.errors import BadFile, BadSetting

if TYPE_CHECKING:
    import networkx as nx

    from peerwise.page.guard import Access
    from peerwise.peer.charter import Charter

# The commands of `peerwise network`.
network_app = typer.Typer(
    help="Set up a network of real nodes: its charter and its certificates.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

console = Console()

Model = Annotated[
    str | None,
    typer.Option(help="The model, for methods that learn statistics: see `peerwise list models`."),
]
Net = Annotated[
    str | None, typer.Option(help="The net, for neural methods: see `peerwise list nets`.")
]
Rate = Annotated[float | None, typer.Option(help="The learning rate.")]
Mode = Annotated[
    str,
    typer.Option(
        help="When a round ends: wait (all neighbours sent), deadline (or time is up), async "
        "(never wait)."
    ),
]
CharterFile = Annotated[Path, typer.Argument(metavar="CHARTER", help="The charter, a TOML file.")]


@network_app.command()
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
            help="Center and scale: given (the sample's) or agree (nodes compute those of all "
            "rows)."
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
    from peerwise.cli.public import found_bounds, read_known
    from peerwise.data import load
    from peerwise.data.encode import WORDS
    from peerwise.peer.drafting import draft
    from peerwise.privacy.design import default_delta

    if out.exists():
        raise BadFile(
            f"{out} is there already, and nodes may have agreed on it; give another --out"
        )
    drawn = _graph(graph, nodes, topology, seed)
    description = _description(method, model, net, lr, rounds, seed)
    table, dropped = load(data, target=target), column_kinds(column)
    budget = known = None
    public = public or not Path(data).exists()  # a name is that of a published data set
    if epsilon is not None:
        unit = {"person": person, "person_rows": person_rows}
        description["privacy"] = {"epsilon": epsilon, **unit}
        budget = {"epsilon": epsilon, "delta": default_delta(rows)}
        dropped |= {} if person is None else {person: "drop"}
        if not public:
            known = read_known(bound, categories, classes)
            known = found_bounds(table, known, dropped, bounds_epsilon, ledger)
    elif bound or categories or classes or bounds_epsilon or person:
        raise BadSetting(
            "--bound, --categories, --classes, --bounds-epsilon and --person need --epsilon"
        )
    charter = draft(
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
        known=known,
        public=public,
        pace={"mode": mode, "deadline": deadline},
        budget=budget,
    )
    charter.save(out)
    _show(charter)
    console.print(f"Charter: [bold]{escape(str(out))}[/]; read it, and give every node a copy.")


@network_app.command()
def check(
    charter: CharterFile,
    data: Annotated[
        str | None, typer.Option(help="A node's rows, to check against the charter.")
    ] = None,
    node: Annotated[str | None, typer.Option(help="Show whom this node talks to.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Another charter: show the first difference.")
    ] = None,
) -> None:
    """Check a charter and show what it says; with --data, check a node's rows against it."""
    from peerwise.data import load
    from peerwise.data.discreet import discreet
    from peerwise.peer.charter import Charter

    read = Charter.load(charter)
    _show(read)
    if against is not None:
        other = Charter.load(against)
        words = read.difference(other) or "no difference"
        same = "an edition of the same charter: " if read.hash == other.hash else ""
        console.print(f"Against {escape(str(against))}: {same}{escape(words)}.")
    if node is not None:
        others = ", ".join(read.neighbours(node))
        where = read.nodes[node].address or "no address, it only dials"
        console.print(f"[bold]{escape(node)}[/] ({escape(where)}) talks to: {escape(others)}")
    if data is not None:
        with discreet():
            _, y = read.rows(load(data, target=read.target))
        counts = [int((y == i).sum()) for i in range(len(read.classes))]
        classes = ", ".join(f"{c}: {k}" for c, k in zip(read.classes, counts, strict=True))
        console.print(f"{len(y)} rows are as agreed ({escape(classes)}).")


@network_app.command()
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


@network_app.command()
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


def _description(
    method: str, model: str | None, net: str | None, lr: float | None, rounds: int, seed: int
) -> dict[str, Any]:
    """The sections that say what is learnt, without what was not given."""
    sections = {"method": {"name": method, "lr": lr}, "model": model, "net": net}
    return {**sections, "run": {"rounds": rounds, "seed": seed}}


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


def _show(charter: "Charter") -> None:
    """What a charter says, in a table."""
    from peerwise.peer.described import unit_of
    from peerwise.peer.leaving import what_leaves

    c = charter
    kinds = [f.kind for f in c.features]
    unit = "row, or as its code says" if c.own_code or not c.budget else unit_of(c.cell)
    dialled = sum(node.address is not None for node in c.nodes.values())
    what = c.method_name
    for kind in ("model", "net") if not c.own_code else ():
        what += f", {kind} {c.cell[kind]['name']}" if kind in c.cell else ""
    if c.own_code:
        what += f"; code of its author, not read here: {', '.join(c.own_code)}"
    wait = {"wait": "wait for all", "deadline": "wait until the deadline", "async": "never wait"}
    rows = [
        ("nodes", f"{len(c.nodes)}, {dialled} with an address"),
        ("links", str(c.graph().number_of_edges())),
        ("target", f"{c.target}: {', '.join(c.classes)}"),
        (
            "features",
            f"{kinds.count('numeric')} numeric, {kinds.count('categorical')} categorical, "
            f"units {c.units}",
        ),
        ("method", what),
        ("rounds", f"{c.rounds}, {wait[c.pace.mode]}, seed {c.seed}"),
        ("budget", "none" if c.budget is None else f"epsilon {c.budget.epsilon:g}, "
         f"delta {c.budget.delta:g} for one {unit}, {c.budget.accountant}"),
        ("hash", c.hash),
    ]  # fmt: skip
    table = Table(title=f"Charter of {escape(c.name)}", title_justify="left", show_header=False)
    table.add_column("what", style="bold", no_wrap=True)
    table.add_column("as agreed")
    for name, value in rows:
        table.add_row(name, escape(value))
    console.print(table)
    console.print("[bold]What leaves a node[/]")
    for line in what_leaves(c):
        console.print(f"- {escape(line)}", highlight=False)


@network_app.command()
def up(
    nodes: Annotated[int, typer.Option(min=2, help="How many peers to start.")] = 8,
    topology: Annotated[
        str, typer.Option(help="The graph: see `peerwise list topologies`.")
    ] = "random_tree",
    data: Annotated[str, typer.Option(help="A data set's name, or a file with --target.")] = (
        "digits"
    ),
    target: Target = None,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="Rows of each peer [default: 1200 / NODES, at most 150]."),
    ] = None,
    method: Annotated[str, typer.Option(help="The method: see `peerwise list methods`.")] = "crc",
    model: Model = None,
    net: Net = None,
    lr: Rate = None,
    rounds: Annotated[int, typer.Option(min=1, help="Communication rounds.")] = 64,
    mode: Mode = "wait",
    deadline: Annotated[
        float, typer.Option(help="With --mode deadline: the most seconds of a round.")
    ] = 2.0,
    channel: Channel = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the network and of the split.")] = 0,
    seconds: Annotated[float, typer.Option(help="Give up after this many seconds.")] = 900.0,
    out: Annotated[
        Path, typer.Option(help="A new folder for charter, certificates, rows and states.")
    ] = Path("runs/network"),
    page: Port = None,
    page_host: PageHost = "127.0.0.1",
    page_token_file: TokenFile = None,
    page_tls: PageTls = None,
) -> None:
    """Run a whole federation on this machine: real processes that talk over mutual TLS.

    The command deals rows to NODES peers, each with a certificate, a port and a state of its own.
    They learn while you watch. Then a summary compares them with a simulation of the same network.
    """
    from rich.live import Live

    from peerwise.data import load
    from peerwise.peer import local

    faults = channel_named(channel)
    access = None if page is None else access_of(page, page_host, page_token_file, page_tls)
    federation = local.set_up(
        out, load(data, target=target), nodes=nodes, rows=rows or min(1200 // nodes, 150) or 1,
        description=_description(method, model, net, lr, rounds, seed), graph=topology, seed=seed,
        pace={"mode": mode, "deadline": deadline},
    )  # fmt: skip
    links = federation.charter.graph().number_of_edges()
    console.print(
        f"{nodes} peers, {links} links, in [bold]{escape(str(out))}[/]; every peer is a process "
        "that keeps its rows and talks to its neighbours over mutual TLS."
    )
    extra = ["--channel", channel] if channel else []
    stop_gently()
    with ExitStack() as stack:
        peers = stack.enter_context(local.Peers(federation, extra))
        if access is not None:
            stack.enter_context(_shown(peers, access))
        live = stack.enter_context(Live(console=console, transient=True))
        good = peers.wait(
            seconds, lambda now: live.update(_standing(now)), patient=access is not None
        )
        last, wrong = peers.look(), peers.failed()
    console.print(_standing(last))
    for name, why in wrong.items():
        console.print(f"[bold red]failed[/] {escape(name)}: {escape(why)}")
    if not good:
        raise BadSetting(
            f"not all peers were done within {seconds:g} s" if not wrong else "some peers failed"
        )
    _summary(federation, local, faults, mode)


@contextmanager
def _shown(peers: Any, access: "Access") -> Iterator[None]:
    """The page of all peers, while they run."""
    from peerwise.page.network import NetworkPage

    with NetworkPage(peers, access) as page:
        tell_page(page.server.address)
        yield


def _standing(peers: "dict[str, Any]") -> Table:
    """How all peers stand."""
    table = Table(title="Peers", title_justify="left", title_style="bold")
    for name in ("peer", "round", "heard", "missed", "error on own rows", "KiB sent", "s / round"):
        table.add_column(name, justify="left" if name == "peer" else "right")
    for name, s in peers.items():
        if s is None:
            table.add_row(escape(name), "starts", *[""] * 5)
            continue
        error = "" if s.error is None else f"{s.error:.3f}"
        table.add_row(
            escape(name), f"{s.round} / {s.rounds}" if s.phase == s.phases - 1 else "agrees",
            str(len(s.heard)), str(len(s.missed)), error, f"{s.sent / 1024:.1f}",
            f"{s.seconds:.3f}", style="green" if s.done else None,
        )  # fmt: skip
    return table


def _summary(federation: Any, local: Any, faults: Any, mode: str) -> None:
    """Test errors of the peers beside those that the simulator gives."""
    import numpy as np

    from peerwise.peer.views import learnt

    charter = federation.charter
    real = np.array(list(local.peer_errors(federation).values()))
    agreed = learnt(federation.state(charter.names[0]), charter.own_code).agreed
    run = local.simulated(federation, agreed, faults, probe=True)
    predicted = np.asarray(run.history["adapt"]["test_error"])[-1]
    table = Table(title="Test error on rows nobody trained on", title_justify="left")
    for name in ("who", "mean", "worst", "std over nodes"):
        table.add_column(name, justify="left" if name == "who" else "right")
    for name, errors in (("real peers", real), ("the simulator, same seed", predicted)):
        table.add_row(name, f"{errors.mean():.3f}", f"{errors.max():.3f}", f"{errors.std():.3f}")
    console.print(table)
    apart = float(np.abs(real - predicted).max())
    why = "" if mode == "wait" else "; in this mode the clock decides which letters arrive in time"
    console.print(f"Largest difference between a peer and its simulation: {apart:.4f}{why}.")
    console.print(
        f"Next: `peerwise peer status {federation.state(charter.names[0])}`, also outbox, audit "
        "and export."
    )
