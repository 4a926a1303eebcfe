"""Commands that only read a peer's state: how far it is, what left, and what it learnt."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from peerwise.cli.peer.options import TITLE, Allow, State, console, moment, table_of
from peerwise.errors import BadSetting


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
        f"error on {f'{peer.held_out} held-out' if peer.held_out else 'own'} rows": (
            "-" if peer.error is None else f"{peer.error:.3f}"
        ),
        "letters acknowledged": f"{peer.letters}, {peer.sent / 1024:.1f} KiB",
        "last round": "-" if peer.seconds is None else f"{peer.seconds:.3f} s, ended {peer.time}",
    }
    if peer.running and not peer.done and peer.waiting:
        rows["no letter yet of"] = " ".join(peer.waiting)
    if peer.epsilon is not None:
        spent = f"epsilon {peer.epsilon:.4g} of {peer.budget:.4g} spent"
        rows["privacy"] = f"{spent}, for one {peer.unit}"
    for name, value in rows.items():
        table.add_row(name, escape(value))
    console.print(table)


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
    table = table_of("Letters", *map(str, frame.columns))
    written = {"sha256": lambda v: str(v)[:8], "made": moment, "acknowledged": moment}
    for line in frame.itertuples(index=False):
        cells = [written.get(str(n), str)(v) for n, v in zip(frame, line, strict=True)]
        table.add_row(*(escape("-" if v in ("None", "nan") else v) for v in cells))
    console.print(table)


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
                  f"since {moment(account['begun'])}")  # fmt: skip
    console.print(f"charter {account['charter'][:16]}, data {account['data'][:16]}")
    names = ("to", "letters", "KiB", "acknowledged", "first", "last")
    table = table_of("Letters that left", *names)
    for line in account["letters"]:
        cells = (line["to"], line["letters"], f"{line['bytes'] / 1024:.1f}", line["acknowledged"],
                moment(line["first"]), moment(line["last"]))  # fmt: skip
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
    table = table_of("Releases", *names)
    for line in account["releases"][-20:]:
        cells = (line["receipt"], moment(line["time"]), line["mechanism"],
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
    table = table_of("Contradictions", *names)
    for p in compared.proofs:
        cells = (p.sender, *p.place, p.ours[:16], p.theirs[:16], p.witness)
        table.add_row(*(escape(str(v)) for v in cells))
    console.print(table)
    console.print(
        "Each line has two signatures of the node (--json shows them), which prove it to anybody "
        "who knows the authority. To stop exchanging letters with a node: `peerwise peer eject`."
    )


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
