"""`peerwise peer run`: one node of a real network."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from peerwise.cli.page import PageHost, PageTls, Port, TokenFile, access_of
from peerwise.cli.page import tell as tell_page
from peerwise.cli.peer.options import TITLE, Allow, Channel, channel_named, console
from peerwise.cli.secret import PassphraseFile, passphrase_of
from peerwise.errors import PeerwiseError

if TYPE_CHECKING:
    from peerwise.page.guard import Access


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
    from peerwise.peer.own_site import Site, require_room
    from peerwise.peer.own_site import dry_run as show
    from peerwise.peer.passphrase import NODE
    from peerwise.peer.serve import serve

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
        lines = site.charter.odd_rows(site.table)
        if site.charter.budget is not None and ledger is None:
            lines.append("without --ledger the peer will not start; with it, this shows if it can")
        for line in lines:
            console.print(f"[yellow]warning[/]: {escape(line)}", highlight=False)
        if (left := require_room(site)) is not None:
            console.print(
                f"{escape(str(ledger))} has room for it: epsilon {left.epsilon:.6g} and delta "
                f"{left.delta:.3g} are left now"
            )
        return
    beside = () if access is None else (_beside(state, home, access),)
    done, lacking, silent, spoilt = serve(site, *beside)
    where = f"state in [bold]{escape(str(state))}[/]"
    if spoilt:
        raise PeerwiseError(
            f"{node}: {spoilt}. What was learnt before is kept; compare `peerwise peer audit` with "
            "the other sites, and start a new charter without who lied"
        )
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
            "each (with sealed sums only if neither state nor ledger was ever put back)"
        )
    console.print(
        f"{escape(node)}: all rounds done; {where}. See `peerwise peer status` and `peer audit`; "
        "`peer export` writes the model"
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
        f"{int((plan.y >= 0).sum())} rows stay here. Nothing was sent, drawn or kept."
        + (" What is sent will carry noise, drawn and paid for when the peer runs."
           if plan.private else "")
    )  # fmt: skip
    for line in what_leaves(plan.charter):
        console.print(f"- {escape(line)}", highlight=False)
