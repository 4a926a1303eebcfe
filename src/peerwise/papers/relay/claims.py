"""What relay is meant to reach, and whether it did."""

from typing import Any

from peerwise.papers.claims import all_but, claim, numbers
from peerwise.papers.items import CLOSE
from peerwise.papers.relay.items import EARLY, LATE
from peerwise.study.results import Claim, Record

COUNTED = ("gaps", "lossy", "churn", "nodes-320")  # items; others show some of the same runs again


def claims(records: list[Record]) -> list[Claim]:
    """Two claims, each marked held or not, with the exceptions named."""
    counted = [r for r in records if r.item in COUNTED]
    values = numbers(counted, "item", "dataset", "graph", "dealt", "rounds", "method")
    ours = {k: v for k, v in values.items() if k[-1] == "relay"}
    late = {k: v for k, v in ours.items() if k[4] == LATE}
    above_crc = {
        k: v - values[*k[:-1], "crc"]
        for k, v in ours.items()
        if k[0] == "gaps" and k[4] == EARLY and (*k[:-1], "crc") in values
    }
    reaches = (
        "relay-reaches-rc",
        "By round 256 relay is at RC's error, however the rows are dealt",
        f"the mean gap is below {CLOSE} in every cell",
    )
    no_worse = (
        "relay-no-worse-than-crc",
        "At round 64 relay is no worse than CRC",
        "its mean gap is at most CRC's in every cell",
    )
    missed = {k: v for k, v in late.items() if not v < CLOSE}
    above = {k: v for k, v in above_crc.items() if v > 0}
    return _counted(*reaches, late, missed) + _counted(*no_worse, above_crc, above)


def _counted(
    name: str, text: str, rule: str, cells: dict[Any, float], missed: dict[Any, float]
) -> list[Claim]:
    named = [f"{k[1]} {k[3]} {k[2]} ({k[0]}) {v:+.3f}" for k, v in missed.items()]
    return [claim(name, text, rule, all_but(len(cells), named), "", not missed)] if cells else []
