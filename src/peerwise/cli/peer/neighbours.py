"""Commands that decide what a peer takes from its neighbours; it may run meanwhile."""

from typing import Annotated

import typer
from rich.markup import escape

from peerwise.cli.peer.options import State, console, moment, table_of
from peerwise.errors import BadSetting


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
    table = table_of("Letters in quarantine", *names)
    for one in views.quarantine(state):
        cells = (one.id, one.sender, *one.place, one.bytes, moment(one.time), one.reason)
        table.add_row(*(escape(str(v)) for v in cells))
    console.print(table)
    for name, why in views.ejected(state).items():
        console.print(f"{escape(name)} is ejected: {escape(why)}")


def eject(
    state: State,
    neighbour: Annotated[str, typer.Argument(help="Its name in the charter.")],
    why: Annotated[str, typer.Option(help="A reason, for the log.")] = "by the operator",
) -> None:
    """Stop exchanging letters with a neighbour until you readmit it; the peer may run."""
    from peerwise.peer import views

    views.eject(state, neighbour, why)
    console.print(f"{escape(neighbour)} is ejected; `peerwise peer readmit` reverses this")


def readmit(
    state: State, neighbour: Annotated[str, typer.Argument(help="Its name in the charter.")]
) -> None:
    """Exchange letters again with a neighbour that was ejected; the peer may run."""
    from peerwise.peer import views

    views.readmit(state, neighbour)
    console.print(f"{escape(neighbour)} is readmitted")
