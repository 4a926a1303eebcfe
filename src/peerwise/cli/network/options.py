"""What several commands of `peerwise network` ask for."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

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


def description_of(
    method: str, model: str | None, net: str | None, lr: float | None, rounds: int, seed: int
) -> dict[str, Any]:
    """The sections that say what is learnt, without what was not given."""
    sections = {"method": {"name": method, "lr": lr}, "model": model, "net": net}
    return {**sections, "run": {"rounds": rounds, "seed": seed}}
