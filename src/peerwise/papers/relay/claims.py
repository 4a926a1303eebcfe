"""What relay is meant to reach, and how that is graded."""

from typing import Any

from peerwise.papers.claims import Numbers, Verdict, every, less, sentences, tally
from peerwise.papers.items import CLOSE
from peerwise.papers.relay.items import EARLY, LATE
from peerwise.study.results import Claim

COUNTED = ("gaps", "lossy", "churn", "nodes-320")  # items; others show some of the same runs again
_claim = sentences("relay")
_CELL = ("item", "dataset", "graph", "dealt")


def claims(number: Numbers) -> list[Claim]:
    """What relay is meant to do, each claim graded with the exceptions named."""
    every_one = {
        "relay-reaches-rc": _reached(number, EARLY),
        "relay-reaches-rc-256": _reached(number, LATE),
        "relay-no-worse-than-crc": _below(number, "gaps", EARLY, "relay", "crc"),
        "not-the-start": _below(number, "ablation", LATE, "cold", "warm-crc"),
        "start-helps": _below(number, "ablation", EARLY, "relay", "cold"),
        "lead-helps": _below(number, "ablation", LATE, "relay", "late", dealt="p(x,y)"),
    }
    return [
        _claim(name, every(cells.values()), tally(cells))
        for name, cells in every_one.items()
        if cells
    ]


def _reached(number: Numbers, to: int) -> dict[str, Verdict]:
    """Where relay's gap to RC of so many rounds is small, by cell."""
    reached = {}
    for item in COUNTED:
        of = {"item": item, "rounds": LATE, "to": to, "method": "relay"}
        for cell, gap in number.each(*_CELL, **of).items():
            reached[_named(cell, gap.mean)] = less(gap, CLOSE)
    return reached


def _below(
    number: Numbers, item: str, rounds: int, better: str, other: str, **only: Any
) -> dict[str, Verdict]:
    """Where one method has fewer errors than another, by cell."""
    of = {"item": item, "rounds": rounds, "to": EARLY, **only}
    fewer, more = (number.each(*_CELL, **of, method=name) for name in (better, other))
    return {
        _named(cell, gap.mean - more[cell].mean): less(gap, more[cell])
        for cell, gap in fewer.items()
        if cell in more
    }


def _named(cell: tuple[Any, ...], value: float) -> str:
    item, name, graph, way = cell
    return f"{name} {way} {graph} ({item}) {value:+.3f}"
