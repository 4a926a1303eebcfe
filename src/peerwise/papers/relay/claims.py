"""What relay is meant to reach, and whether it did."""

from typing import Any

from peerwise.papers.items import CLOSE
from peerwise.papers.relay.items import EARLY, LATE
from peerwise.study.results import Claim, Record

COUNTED = ("gaps", "lossy", "churn", "nodes-320")  # items; others show some of the same runs again


def claims(records: list[Record]) -> list[Claim]:
    """Two claims, each marked held or not, with the exceptions named."""
    values = {
        (
            r.item,
            r.dataset,
            *(r.setting[k] for k in ("graph", "dealt", "rounds", "method")),
        ): r.value
        for r in records
        if r.item in COUNTED and r.value is not None
    }
    ours = {k: v for k, v in values.items() if k[-1] == "relay"}
    late = {k: v for k, v in ours.items() if k[4] == LATE}
    above_crc = {
        k: v - values[*k[:-1], "crc"]
        for k, v in ours.items()
        if k[0] == "gaps" and k[4] == EARLY and (*k[:-1], "crc") in values
    }
    both = [
        _counted(
            "relay-reaches-rc",
            "By round 256 relay is at RC's error, however the rows are dealt",
            f"the mean gap is below {CLOSE} in every cell",
            late,
            {k: v for k, v in late.items() if not v < CLOSE},
        ),
        _counted(
            "relay-no-worse-than-crc",
            "At round 64 relay is no worse than CRC",
            "its mean gap is at most CRC's in every cell",
            above_crc,
            {k: v for k, v in above_crc.items() if v > 0},
        ),
    ]
    return [claim for claim in both if claim is not None]


def _counted(
    name: str, claim: str, rule: str, cells: dict[Any, float], missed: dict[Any, float]
) -> Claim | None:
    if not cells:
        return None
    named = ", ".join(f"{k[1]} {k[3]} {k[2]} ({k[0]}) {v:+.3f}" for k, v in missed.items())
    ours = f"{len(cells) - len(missed)} of {len(cells)}" + (f"; not: {named}" if missed else "")
    return Claim(name=name, claim=claim, rule=rule, ours=ours, paper="", held=not missed)
