"""Commands of one peer: run it, and look at what it does and has sent."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from peerwise.cli.page import PageHost, PageTls, Port, TokenFile, access_of
from peerwise.cli.page import tell as tell_page
from peerwise.cli.secret import PassphraseFile, passphrase_of
from peerwise.errors import BadSetting, PeerwiseError

if TYPE_CHECKING:
    from peerwise.page.guard import Access

# The commands of `peerwise peer`.
peer_app = typer.Typer(
    help="Run one node of a real network, and inspect it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

console = Console()
TITLE: Any = {"title_justify": "left", "title_style": "bold"}  # how tables are headed

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


@peer_app.command()
def run(
    charter: Annotated[
        Path, typer.Option(help="The charter that the federation agreed on, a TOML file.")
    ],
    node: Annotated[str, typer.Option(help="The name of this node in the charter.")],
    data: Annotated[Path, typer.Option(help="This node's rows: a CSV or Parquet file.")],
    state: Annotated[
        Path, typer.Option(help="Folder of the peer's state, which must not be lost.")
    ],
    keys: Annotated[
        Path | None,
        typer.Option(help="Folder with ca.pem, NODE.pem and NODE.key [default: beside CHARTER]."),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="HOST:PORT to listen at [default: that of the charter].")
    ] = None,
    held_out: Annotated[
        float, typer.Option(help="Share of the rows used only to measure errors, not to learn.")
    ] = 0.0,
    linger: Annotated[
        float,
        typer.Option(
            help="Seconds to stay online after the last round, for neighbours that lack the last "
            "letter."
        ),
    ] = 600.0,
    patience: Annotated[
        float,
        typer.Option(
            min=0,
            help="End after this many seconds in which no awaited neighbour sent anything; the "
            "same command resumes.",
        ),
    ] = 259_200.0,
    metrics: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Local port for Prometheus metrics, and for /health, /live and /ready in JSON.",
        ),
    ] = None,
    page: Port = None,
    page_host: PageHost = "127.0.0.1",
    page_token_file: TokenFile = None,
    page_tls: PageTls = None,
    passphrase_file: PassphraseFile = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="This site's privacy ledger, for charters with a budget; it counts all charters."
        ),
    ] = None,
    site_name: Annotated[
        str | None,
        typer.Option(
            "--site", help="The site's name in its ledger, if several nodes pay from that ledger."
        ),
    ] = None,
    appended: Annotated[
        bool,
        typer.Option(
            "--appended",
            help="Learn only from rows added to DATA since its last release; they have a budget "
            "of their own.",
        ),
    ] = False,
    channel: Channel = None,
    allow: Allow = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Show what the peer would send; send and keep nothing."),
    ] = False,
    quiet: Annotated[bool, typer.Option(help="Write events only to STATE/peer.log.")] = False,
) -> None:
    """Run one node: learn with its neighbours until all rounds are done.

    However the peer was stopped, the same command resumes: it sends finished letters again,
    unchanged, and never draws noise twice. Rows stay in DATA; `peerwise peer audit` shows all that
    left. The peer imports code that the charter names only if --allow names it, too.
    """
    from peerwise.peer.passphrase import NODE
    from peerwise.peer.serve import Site, serve
    from peerwise.peer.serve import dry_run as show

    home = keys or charter.parent
    access = None if page is None else access_of(page, page_host, page_token_file, page_tls)
    site = Site(
        charter, node, data, state, home, listen=listen, held_out=held_out,
        linger=linger, patience=patience, metrics=metrics, channel=channel_named(channel),
        quiet=quiet, allowed=allow or (), ledger=ledger, site=site_name, appended=appended,
        dry=dry_run,
        passphrase=None if dry_run else passphrase_of(passphrase_file, NODE, home / f"{node}.key"),
    )  # fmt: skip
    if dry_run:
        _show_dry(*show(site))
        for line in site.charter.odd_rows(site.table):
            console.print(f"[yellow]warning[/]: {escape(line)}", highlight=False)
        return
    beside = () if access is None else (_beside(state, home, access),)
    done, lacking, silent = serve(site, *beside)
    where = f"state in [bold]{escape(str(state))}[/]"
    if lacking:
        raise PeerwiseError(
            f"{node}: all rounds done, but {', '.join(lacking)} did not get the last letter within "
            f"{linger:g} seconds, and may wait for it; run the same command again"
        )
    if silent:
        who = ", ".join(silent)
        raise PeerwiseError(
            f"{node}: {who} said nothing for {patience:g} seconds, and the round waits for "
            f"{'it' if len(silent) == 1 else 'them'}. Nothing is lost: the same command resumes. "
            f"If they have left for good, first run `peerwise peer eject {state} NEIGHBOUR` for "
            "each"
        )
    console.print(
        f"{escape(node)}: all rounds done; {where}"
        if done
        else f"{escape(node)}: stopped; the same command resumes; {where}"
    )


def _beside(state: Path, keys: Path, access: "Access") -> Any:
    """The page of a peer, open while it runs."""
    from peerwise.page.site import site_page

    def beside(health: Any, stop: Any) -> Any:
        page = site_page(state, keys, health.facts, stop, access)
        tell_page(page.address)
        return page

    return beside


def _show_dry(plan: Any, letters: Any) -> None:
    import jax
    import numpy as np

    from peerwise.peer.leaving import what_leaves
    from peerwise.runtime import size_of

    title = f"What {escape(plan.name)} would send in its first round"
    table = Table("tensor", "shape", "least", "mean", "most", title=title, **TITLE)
    first = next(iter(letters.values()))
    for path, leaf in jax.tree_util.tree_flatten_with_path(first)[0]:
        a = np.asarray(leaf)
        numbers = [f"{f(a):.4g}" for f in (np.min, np.mean, np.max)] if a.size else ["-"] * 3
        if plan.learning.sealed:  # but for the sums, who has heard of what
            numbers = ["(uniform)" if "'sum'" in jax.tree_util.keystr(path) else "-"] * 3
        elif plan.private:
            numbers = ["(noise)"] * 3
        table.add_row(escape(jax.tree_util.keystr(path)), str(a.shape), *numbers)
    console.print(table)
    for name, letter in letters.items():
        console.print(f"to {escape(name)}: {size_of(letter)} bytes of numbers a round")
    console.print(
        f"{len(plan.y)} rows stay here. Nothing was sent, drawn or kept."
        + (" What is sent will carry noise, drawn and paid for when the peer runs."
           if plan.private else "")
    )  # fmt: skip
    for line in what_leaves(plan.charter):
        console.print(f"- {escape(line)}", highlight=False)


@peer_app.command()
def status(state: State) -> None:
    """Show the peer's progress: its round, whom it hears, what it has sent and spent."""
    from peerwise.peer.health import FROZEN
    from peerwise.peer.views import status as look

    peer = look(state)
    if peer is None:
        console.print("not begun")
        return
    table = Table(show_header=False, title=escape(peer.node), **TITLE)
    phase = "learning" if peer.phase == peer.phases - 1 else "agreeing on units or keys"
    if not peer.running:
        phase = "no process runs: `peerwise peer run` resumes"
    elif peer.silent > FROZEN:
        phase = f"its process gives no sign of life since {peer.silent:.0f} s: stopped, or stuck"
    rows = {
        "round": f"{peer.round} of {peer.rounds}, {'done' if peer.done else phase}",
        "heard last": " ".join(peer.heard) or "nobody",
        "missed last": " ".join(peer.missed) or "nobody",
        "error on own rows": "-" if peer.error is None else f"{peer.error:.3f}",
        "letters acknowledged": f"{peer.letters}, {peer.sent / 1024:.1f} KiB",
        "last round": f"{peer.seconds:.3f} s, ended {peer.time}",
    }
    if peer.running and not peer.done and peer.waiting:
        rows["no letter yet of"] = " ".join(peer.waiting)
    if peer.epsilon is not None:
        spent = f"epsilon {peer.epsilon:.4g} of {peer.budget:.4g} spent"
        rows["privacy"] = f"{spent}, for one {peer.unit}"
    for name, value in rows.items():
        table.add_row(name, escape(value))
    console.print(table)


@peer_app.command()
def outbox(
    state: State,
    last: Annotated[int, typer.Option(min=1, help="How many letters to list.")] = 20,
    show: Annotated[
        str | None, typer.Option(help="Show all numbers of one letter, PHASE:ROUND:TO.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="With --show: write the letter's exact bytes to this file.")
    ] = None,
) -> None:
    """List the letters that this peer made: to whom, when, how large, whether they arrived."""
    from peerwise.peer import views
    from peerwise.peer.protocol.messages import Place

    if show is not None:
        try:
            phase, t, to = show.split(":", 2)
            place = Place(int(phase), int(t))
        except ValueError:
            raise BadSetting(f"--show names a letter as PHASE:ROUND:TO, got {show}") from None
        body = views.letter(state, place, to)
        if out is not None:
            from peerwise.files import write_whole

            write_whole(out, body)
        from safetensors.numpy import load

        for name, a in load(body).items():
            console.print(f"[bold]{escape(name)}[/] {a.dtype} {a.shape}")
            console.print(escape(str(a)))
        return
    frame = views.outbox(state, last)
    table = Table(*map(str, frame.columns), title="Letters", **TITLE)
    for line in frame.itertuples(index=False):
        cells = [str(v)[:12] if n == "sha256" else str(v) for n, v in zip(frame, line, strict=True)]
        table.add_row(*(escape("-" if v in ("None", "nan") else v) for v in cells))
    console.print(table)


@peer_app.command()
def audit(
    state: State,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    equivocation: Annotated[
        bool,
        typer.Option(
            "--equivocation",
            help="Instead, list neighbours that signed different letters for different readers.",
        ),
    ] = False,
    heads: Annotated[
        list[Path] | None,
        typer.Option(
            help="With --equivocation: another site's file from `peerwise peer heads`; repeatable."
        ),
    ] = None,
) -> None:
    """Account for everything that left this site, and for what it cost in privacy."""
    from peerwise.peer.views import audit as look

    if heads and not equivocation:
        raise BadSetting("--heads is for --equivocation; give both")
    if equivocation:
        _show_equivocation(state, heads or [], as_json)
        return
    account = look(state)
    if as_json:
        typer.echo(json.dumps(account, default=str, indent=1))
        return
    console.print(f"[bold]{escape(account['node'])}[/] has learnt with {escape(account['method'])} "
                  f"since {account['begun']}")  # fmt: skip
    console.print(f"charter {account['charter'][:16]}, data {account['data'][:16]}")
    names = ("to", "letters", "KiB", "acknowledged", "first", "last")
    table = Table(*names, title="Letters that left", **TITLE)
    for line in account["letters"]:
        cells = (line["to"], line["letters"], f"{line['bytes'] / 1024:.1f}", line["acknowledged"],
                line["first"], line["last"])  # fmt: skip
        table.add_row(*(escape(str(v)) for v in cells))
    console.print(table)
    for line in account["leaves"]:
        console.print(f"- {escape(line)}", highlight=False)
    if account["keys"] is not None:
        console.print(f"- Mask keys of all members: {account['keys']}, the same at every site. "
                      "Compare it by telephone if you do not trust who signs certificates.",
                      highlight=False)  # fmt: skip
    if account["budget"] is None:
        return
    names = ("receipt", "time", "mechanism", "epsilon", "delta", "about")
    table = Table(*names, title="Releases", **TITLE)
    for line in account["releases"][-20:]:
        cells = (line["receipt"], str(line["time"])[:19], line["mechanism"],
                f"{line['epsilon']:.4g}", f"{line['delta']:.3g}", line["data"])  # fmt: skip
        table.add_row(*(escape(str(v)) for v in cells))
    console.print(table)
    if len(account["releases"]) > 20:
        console.print(f"and {len(account['releases']) - 20} before")
    console.print(
        f"spent under this charter, for one {escape(str(account['unit']))}: epsilon "
        f"{account['spent'].epsilon:.4g}, left {account['left'].epsilon:.4g}; what the whole site "
        "has spent: `peerwise ledger`"
    )


def _show_equivocation(state: Path, files: list[Path], as_json: bool) -> None:
    from peerwise.peer.equivocation import account, as_told

    compared = account(state, files)
    if as_json:
        proofs = [as_told(proof) for proof in compared.proofs]
        typer.echo(json.dumps({"same": compared.same, "proofs": proofs}, indent=1))
        return
    for witness, count in compared.same.items():
        console.print(
            f"{escape(witness)} has the same {count} letters of shared neighbours as this peer"
        )
    if not compared.proofs:
        console.print("No neighbour is known to have sent different letters to different readers.")
        return
    names = ("node", "phase", "round", "sent us", "sent another", "who")
    table = Table(*names, title="Contradictions", **TITLE)
    for p in compared.proofs:
        cells = (p.sender, *p.place, p.ours[:16], p.theirs[:16], p.witness)
        table.add_row(*(escape(str(v)) for v in cells))
    console.print(table)
    console.print(
        "Each line has two signatures of the node (--json shows them), which prove it to anybody "
        "who knows the authority. To stop exchanging letters with a node: `peerwise peer eject`."
    )


@peer_app.command()
def heads(
    state: State,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("heads.json"),
) -> None:
    """Write what neighbours have signed to a file, for another site to compare; hashes only."""
    from peerwise.peer.equivocation import export

    count = export(state, out)
    console.print(
        f"{count} signed statements in [bold]{escape(str(out))}[/]; the other site runs `peerwise "
        f"peer audit STATE --equivocation --heads {escape(out.name)}`"
    )


@peer_app.command()
def quarantine(
    what: Annotated[
        str, typer.Argument(metavar="list|drop|release", help="What to do with letters.")
    ],
    state: State,
    letter: Annotated[int | None, typer.Argument(help="The letter's number in the list.")] = None,
) -> None:
    """List, drop or release letters that the peer put aside as suspicious.

    The numbers of such a letter were out of range, or made a round fail; the round goes on without
    it. If you release it before its round is over, the round uses it. The peer may run meanwhile.
    """
    from peerwise.peer import views

    acts = {"drop": views.drop, "release": views.release}
    if what not in ("list", *acts):
        raise BadSetting(f"quarantine takes list, drop or release, got {what}")
    if what != "list":
        if letter is None:
            raise BadSetting(f"quarantine {what} needs the number of a letter; see quarantine list")
        one = acts[what](state, letter)
        done = {"drop": "dropped", "release": "released"}[what]
        console.print(f"letter {one.id} of {escape(one.sender)}, round {one.place.round}: {done}")
        return
    names = ("number", "from", "phase", "round", "bytes", "since", "reason")
    table = Table(*names, title="Letters in quarantine", **TITLE)
    for one in views.quarantine(state):
        cells = (one.id, one.sender, *one.place, one.bytes, one.time, one.reason)
        table.add_row(*(escape(str(v)) for v in cells))
    console.print(table)
    for name, why in views.ejected(state).items():
        console.print(f"{escape(name)} is ejected: {escape(why)}")


@peer_app.command()
def eject(
    state: State,
    neighbour: Annotated[str, typer.Argument(help="Its name in the charter.")],
    why: Annotated[str, typer.Option(help="A reason, for the log.")] = "by the operator",
) -> None:
    """Stop exchanging letters with a neighbour until you readmit it; the peer may run."""
    from peerwise.peer import views

    views.eject(state, neighbour, why)
    console.print(f"{escape(neighbour)} is ejected; `peerwise peer readmit` reverses this")


@peer_app.command()
def readmit(
    state: State, neighbour: Annotated[str, typer.Argument(help="Its name in the charter.")]
) -> None:
    """Exchange letters again with a neighbour that was ejected; the peer may run."""
    from peerwise.peer import views

    views.readmit(state, neighbour)
    console.print(f"{escape(neighbour)} is readmitted")


@peer_app.command()
def export(
    state: State,
    model: Annotated[Path, typer.Argument(help="Model file to write.")],
    allow: Allow = None,
) -> None:
    """Write the peer's current model to a file, for `peerwise predict`."""
    from peerwise.peer.model_file import save_model
    from peerwise.peer.views import learnt

    save_model(model, *learnt(state, allow or ()))
    console.print(f"model in [bold]{escape(str(model))}[/]; use it with `peerwise predict`")
