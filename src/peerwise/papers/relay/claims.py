"""What relay is meant to reach, and how that is graded."""

from typing import Any

from peerwise.papers.claims import Numbers, every, less, sentences, tally
from peerwise.papers.items import CLOSE
from peerwise.papers.relay.items import EARLY, LATE
from peerwise.study.results import Claim

COUNTED = ("gaps", "lossy", "churn", "nodes-320")  # items; others show some of the same runs again
_claim = sentences("relay")
_CELL = ("item", "dataset", "graph", "dealt")


def claims(number: Numbers) -> list[Claim]:
    """Two claims, each graded, with the exceptions named."""
    reaches, no_worse = {}, {}
    for item in COUNTED:
        for cell, gap in number.each(*_CELL, item=item, rounds=LATE, method="relay").items():
            reaches[_named(cell, gap.mean)] = less(gap, CLOSE)
    crc = number.each(*_CELL, item="gaps", rounds=EARLY, method="crc")
    for cell, gap in number.each(*_CELL, item="gaps", rounds=EARLY, method="relay").items():
        if cell in crc:
            no_worse[_named(cell, gap.mean - crc[cell].mean)] = less(gap, crc[cell])
    both = {"relay-reaches-rc": reaches, "relay-no-worse-than-crc": no_worse}
    return [
        _claim(name, every(cells.values()), tally(cells)) for name, cells in both.items() if cells
    ]


def _named(cell: tuple[Any, ...], value: float) -> str:
    item, name, graph, way = cell
    return f"{name} {way} {graph} ({item}) {value:+.3f}"
