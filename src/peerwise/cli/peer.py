"""Commands of one peer: run it, and look at what it does and has told."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from peerwise.errors import BadSetting

__all__ = ["channel_named", "peer_app"]

# The commands of `peerwise peer`.
peer_app = typer.Typer(
    help="Run one node of a network for real, and look at what it does.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

console = Console()

State = Annotated[Path, typer.Argument(metavar="STATE", help="The folder of the peer's state.")]


def channel_named(name: str | None, options: str):  # type: ignore[no-untyped-def]
    """A channel by name with options in JSON; None without a name."""
    if name is None:
        return None
    from peerwise.experiments.names import find

    try:
        told = json.loads(options)
    except ValueError:
        raise BadSetting(
            f"channel options must be JSON, such as '{{\"q\": 0.7}}', got {options}"
        ) from None
    if not isinstance(told, dict):
        raise BadSetting(f"channel options must be a table of names and values, got {options}")
    try:
        return find("channels", name)(**told)
    except TypeError as error:
        raise BadSetting(f"options of the channel {name}: {error}") from None


@peer_app.command()
def run(
    charter: Annotated[Path, typer.Option(help="What the federation agreed on, a TOML file.")],
    node: Annotated[str, typer.Option(help="Which of its nodes this is.")],
    data: Annotated[Path, typer.Option(help="This node's rows: a CSV or Parquet file.")],
    state: Annotated[Path, typer.Option(help="Folder for everything that must not be lost.")],
    keys: Annotated[
        Path | None,
        typer.Option(help="Folder with ca.pem, NODE.pem and NODE.key [default: beside CHARTER]."),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="HOST:PORT to listen at [default: the charter's].")
    ] = None,
    held_out: Annotated[
        float, typer.Option(help="Share of the rows to look at only, never to learn from.")
    ] = 0.0,
    linger: Annotated[
        float, typer.Option(help="Seconds to stay for neighbours that lack the last letter.")
    ] = 600.0,
    metrics: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Port of this machine at which Prometheus is answered."
        ),
    ] = None,
    channel: Annotated[
        str | None,
        typer.Option(help="Faults on purpose: see `peerwise list channels`. For trials only."),
    ] = None,
    channel_options: Annotated[
        str, typer.Option(help="In JSON: '{\"q\": 0.7}' for erasure.")
    ] = "{}",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be sent; send and keep nothing.")
    ] = False,
    quiet: Annotated[bool, typer.Option(help="Events to STATE/peer.log only.")] = False,
) -> None:
    """Learn with the neighbours until all rounds are done.

    Stopped in whatever way, the same command goes on where it was: letters that were made are sent
    again as they are, and noise is never drawn twice. Rows stay in DATA; see `peerwise peer audit`
    for all that left.
    """
    from peerwise.peer.serve import Told, serve
    from peerwise.peer.serve import dry_run as show

    told = Told(
        charter, node, data, state, keys or charter.parent, listen=listen, held_out=held_out,
        linger=linger, metrics=metrics, channel=channel_named(channel, channel_options),
        quiet=quiet,
    )  # fmt: skip
    if dry_run:
        plan, memory, sizes = show(told)
        _show_dry(plan, memory, sizes)
        return
    done = serve(told)
    where = f"state in [bold]{escape(str(state))}[/]"
    console.print(
        f"{escape(node)}: all rounds done; {where}"
        if done
        else f"{escape(node)}: stopped; the same command goes on from here; {where}"
    )


def _show_dry(plan, memory, sizes) -> None:  # type: ignore[no-untyped-def]
    import jax
    import numpy as np

    table = Table(title=f"What {escape(plan.name)} would send in its first round",
                  title_justify="left", title_style="bold")  # fmt: skip
    for name in ("tensor", "shape", "least", "mean", "most"):
        table.add_column(name)
    letter = plan.node(0).letters(memory, 0)
    first = next(iter(letter.values()))
    for path, leaf in jax.tree_util.tree_flatten_with_path(first)[0]:
        a = np.asarray(leaf)
        numbers = [f"{f(a):.4g}" for f in (np.min, np.mean, np.max)] if a.size else ["-"] * 3
        if plan.private:
            numbers = ["(noise)"] * 3
        table.add_row(escape(jax.tree_util.keystr(path)), str(a.shape), *numbers)
    console.print(table)
    for name, size in sizes.items():
        console.print(f"to {escape(name)}: {size} bytes of numbers a round")
    console.print(
        f"{len(plan.y)} rows stay here. Nothing was sent, drawn or kept."
        + (" What is sent will carry noise, drawn and paid for when the peer runs."
           if plan.private else "")
    )  # fmt: skip


@peer_app.command()
def status(state: State) -> None:
    """How far the peer is, whom it hears, what it has sent and spent."""
    from peerwise.peer.views import status as look

    found = look(state)
    if found is None:
        console.print("not begun")
        return
    table = Table(show_header=False, title=escape(found.node), title_justify="left",
                  title_style="bold")  # fmt: skip
    phase = "learning" if found.phase == found.phases - 1 else "agreeing on units"
    rows = {
        "round": f"{found.round} of {found.rounds}, {'done' if found.done else phase}",
        "heard last": " ".join(found.heard) or "nobody",
        "missed last": " ".join(found.missed) or "nobody",
        "error on own rows": "-" if found.error is None else f"{found.error:.3f}",
        "letters acknowledged": f"{found.letters}, {found.sent / 1024:.1f} KiB",
        "last round": f"{found.seconds:.3f} s, ended {found.time}",
    }
    if found.epsilon is not None:
        rows["privacy"] = f"epsilon {found.epsilon:.4g} of {found.budget:.4g} spent"
    for name, value in rows.items():
        table.add_row(name, escape(value))
    console.print(table)


@peer_app.command()
def outbox(
    state: State,
    last: Annotated[int, typer.Option(min=1, help="So many lines.")] = 20,
    show: Annotated[
        str | None, typer.Option(help="PHASE:ROUND:TO of one letter, shown number by number.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="With --show: its very bytes to a file.")] = None,
) -> None:
    """Every letter that this peer made: to whom, when, how large, whether it was taken."""
    from peerwise.peer import views
    from peerwise.peer.store import Place

    if show is not None:
        try:
            phase, t, to = show.split(":", 2)
            place = Place(int(phase), int(t))
        except ValueError:
            raise BadSetting(f"--show names a letter as PHASE:ROUND:TO, got {show}") from None
        body = views.letter(state, place, to)
        if out is not None:
            from peerwise.checkpoint import write_whole

            write_whole(out, body)
        from safetensors.numpy import load

        for name, a in load(body).items():
            console.print(f"[bold]{escape(name)}[/] {a.dtype} {a.shape}")
            console.print(escape(str(a)))
        return
    frame = views.outbox(state, last)
    table = Table(title="Letters", title_justify="left", title_style="bold")
    for name in frame.columns:
        table.add_column(str(name))
    for line in frame.itertuples(index=False):
        told = [str(v)[:12] if n == "sha256" else str(v) for n, v in zip(frame, line, strict=True)]
        table.add_row(*(escape("-" if v in ("None", "nan") else v) for v in told))
    console.print(table)


@peer_app.command()
def audit(
    state: State,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """An account of everything that left this site, and of what it cost in privacy."""
    from peerwise.peer.views import audit as look

    found = look(state)
    if as_json:
        typer.echo(json.dumps(found, default=str, indent=1))
        return
    console.print(f"[bold]{escape(found['node'])}[/] has learnt with {escape(found['method'])} "
                  f"since {found['begun']}")  # fmt: skip
    console.print(f"charter {found['charter'][:16]}, data {found['data'][:16]}")
    table = Table(title="Letters that left", title_justify="left", title_style="bold")
    for name in ("to", "letters", "KiB", "acknowledged", "first", "last"):
        table.add_column(name)
    for line in found["letters"]:
        told = (line["to"], line["letters"], f"{line['bytes'] / 1024:.1f}", line["acknowledged"],
                line["first"], line["last"])  # fmt: skip
        table.add_row(*(escape(str(v)) for v in told))
    console.print(table)
    if found["budget"] is None:
        console.print(
            "No privacy budget: letters are exact. A neighbour that keeps them can work out this "
            "site's updates; see docs/peers.md."
        )
        return
    table = Table(title="Releases", title_justify="left", title_style="bold")
    for name in ("receipt", "time", "mechanism", "epsilon", "delta", "about"):
        table.add_column(name)
    for line in found["releases"][-20:]:
        told = (line["receipt"], str(line["time"])[:19], line["mechanism"],
                f"{line['epsilon']:.4g}", f"{line['delta']:.3g}", line["data"])  # fmt: skip
        table.add_row(*(escape(str(v)) for v in told))
    console.print(table)
    if len(found["releases"]) > 20:
        console.print(f"and {len(found['releases']) - 20} before")
    console.print(f"spent: epsilon {found['spent'].epsilon:.4g}, left {found['left'].epsilon:.4g}")


@peer_app.command()
def export(
    state: State,
    model: Annotated[Path, typer.Argument(help="Where the model goes.")],
) -> None:
    """The model as it stands, for `peerwise predict`."""
    from peerwise.peer.model_file import save_model
    from peerwise.peer.views import learnt

    found = learnt(state)
    save_model(model, *found)
    console.print(f"model in [bold]{escape(str(model))}[/]; use it with `peerwise predict`")
