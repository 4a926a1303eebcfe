"""The claims of the CRC paper, checked against the numbers of a run."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from peerwise.papers.crc.printed import CLAIMS, TABLES
from peerwise.study.results import Claim, Record

MOST = 0.75  # a claim about "the data sets" is held when it is true of so many of those present


class _Numbers(NamedTuple):
    """A column of a table: ours on the paper's sets at hand, and the paper's."""

    ours: dict[str, float]
    paper: dict[str, float]


def _column(records: list[Record], item: str, column: str) -> _Numbers:
    there = [r for r in records if r.item == item and r.setting.get("column") == column]
    ours = {r.dataset: r.value for r in there if r.value is not None and r.dataset in TABLES[item]}
    printed = {name: row[column] for name, row in TABLES[item].items()}
    return _Numbers(ours, {name: v for name, v in printed.items() if v is not None})


def _below(values: dict[str, float], limit: float) -> int:
    return sum(v < limit for v in values.values())


def _share(count: int, values: dict[str, float]) -> str:
    return f"{count} of {len(values)}"


def _claim(name: str, rule: str, ours: str, paper: str, held: bool | None) -> Claim:
    return Claim(name=name, claim=CLAIMS[name], rule=rule, ours=ours, paper=paper, held=held)


def _train_test_alike(records: list[Record]) -> Claim | None:
    train, test = (_column(records, "table-3", f"crc_{p}_gap") for p in ("train", "test"))
    if not test.ours:
        return None
    apart = {k: abs(v - test.ours[k]) for k, v in train.ours.items()}
    paper = {k: abs(v - test.paper[k]) for k, v in train.paper.items()}
    count, theirs = _below(apart, 0.015), _below(paper, 0.015)
    worst = max(apart, key=lambda k: apart[k])
    return _claim(
        "train_test_alike",
        f"CRC's train and test gap differ by at most 0.01 (rounded) on {MOST:.0%} of the sets",
        f"{_share(count, apart)}; largest difference {apart[worst]:.3f} ({worst})",
        _share(theirs, paper),
        count >= MOST * len(apart),
    )


def _beats_ml(records: list[Record]) -> Claim | None:
    ml, crc = (_column(records, "table-3", f"{m}_test_gap") for m in ("ml", "crc"))
    if not crc.ours:
        return None
    wins = {k: crc.ours[k] - ml.ours[k] for k in crc.ours}
    count = sum(v < 0 for v in wins.values())
    lost = ", ".join(k for k, v in wins.items() if v >= 0)
    theirs = sum(crc.paper[k] < ml.paper[k] for k in crc.paper)
    return _claim(
        "beats_ml",
        "CRC's test error is below that of maximum likelihood on 15/16 of the sets",
        _share(count, wins) + (f"; not on {lost}" if lost else ""),
        _share(theirs, crc.paper),
        count >= 15 / 16 * len(wins),
    )


def _nodes_agree(records: list[Record]) -> Claim | None:
    std = _column(records, "table-3", "crc_test_std")
    if not std.ours:
        return None
    count = _below(std.ours, 0.01)
    return _claim(
        "nodes_agree",
        "the nodes' test errors have a standard deviation below 0.01 on 13/16 of the sets",
        f"{_share(count, std.ours)}; below 0.05 on {_below(std.ours, 0.05)}",
        "13 of 16; below 0.05 on 16",
        count >= 13 / 16 * len(std.ours),
    )


def _counts(column: _Numbers) -> str:
    return f"{_below(column.ours, 0.01)} ({_below(column.ours, 0.05)}) of {len(column.ours)}"


def _edges_help(records: list[Record]) -> Claim | None:
    tree, more, most = (_column(records, "table-4", c) for c in ("tree", "+10", "+80"))
    if not tree.ours:
        return None
    means = [float(np.mean(list(c.ours.values()))) for c in (tree, more, most)]
    return _claim(
        "edges_help",
        "no fewer sets below 0.01 with 10 edges more than with the tree, and a smaller mean gap",
        f"tree {_counts(tree)}, +10 {_counts(more)}, +80 {_counts(most)}; "
        f"mean gap {means[0]:.3f}, {means[1]:.3f}, {means[2]:.3f}",
        "tree 9 (15), +10 13 (15) of 16",
        _below(more.ours, 0.01) >= _below(tree.ours, 0.01) and means[1] < means[0],
    )


def _drift_closed_by_edges(records: list[Record]) -> Claim | None:
    texts, held = [], True
    for item, what in (("table-5", "p(x)"), ("table-6", "p(y)"), ("table-7", "p(x,y)")):
        tree, most = _column(records, item, "tree"), _column(records, item, "+80")
        if not most.ours:
            continue
        texts.append(f"{what}: tree {_counts(tree)}, +80 {_counts(most)}")
        held &= _below(most.ours, 0.01) > _below(tree.ours, 0.01)
    if not texts:
        return None
    return _claim(
        "drift_closed_by_edges",
        "under each drift, more sets below 0.01 with 80 edges more than with the tree",
        "; ".join(texts),
        "+80: p(x) 14 (15), p(y) 9 (11), p(x,y) 8 (12) of 16",
        held,
    )


def _ends(
    name: str, item: str, first: str, last: str, rule: str, paper: str, falls: bool
) -> Callable[[list[Record]], Claim | None]:
    """A claim about the mean gap between the first and the last column of a table."""

    def check(records: list[Record]) -> Claim | None:
        a, b = _column(records, item, first), _column(records, item, last)
        if not a.ours or not b.ours:
            return None
        before, after = (float(np.mean(list(c.ours.values()))) for c in (a, b))
        good = after < before if falls else after < before + 0.05
        ours = f"{_counts(a)} -> {_counts(b)}; mean gap {before:.3f} -> {after:.3f}"
        return _claim(name, rule, ours, paper, good)

    return check


def _iterations_cut_rounds(records: list[Record]) -> Claim | None:
    one, three = (_column(records, "table-11", c) for c in ("1_t", "3_t"))
    both = [k for k in one.ours if k in three.ours]
    if not both:
        return None
    fewer = [k for k in both if three.ours[k] < one.ours[k]]
    shown = ", ".join(f"{k} {one.ours[k]:.0f} to {three.ours[k]:.0f}" for k in both)
    return _claim(
        "iterations_cut_rounds",
        f"of the sets that reach a gap below 0.01 with 1 and with 3 iterations, {MOST:.0%} do "
        "sooner with 3",
        f"{len(fewer)} of {len(both)}: {shown}",
        "skin 32 to 11, pulsar 13 to 7, adult 56 to 45",
        len(fewer) >= MOST * len(both),
    )


def _dynamic_helps(records: list[Record]) -> Claim | None:
    still, moving = _column(records, "table-12", "inf"), _column(records, "table-12", "1")
    if not moving.ours:
        return None
    better = [k for k in moving.ours if moving.ours[k] < still.ours[k] - 0.002]
    worse = [k for k in moving.ours if moving.ours[k] > still.ours[k] + 0.002]
    means = [float(np.mean(list(c.ours.values()))) for c in (still, moving)]
    return _claim(
        "dynamic_helps",
        "a tree redrawn every round (δ=1) lowers the gap on more sets than it raises it on "
        "(by over 0.002)",
        f"lower on {len(better)}, higher on {len(worse)} of {len(moving.ours)}; mean gap "
        f"{means[0]:.3f} -> {means[1]:.3f}" + (f"; higher on {', '.join(worse)}" if worse else ""),
        "text: lower on 6, higher on 1 of 16 (the table shows 3 far higher at δ=1)",
        len(better) > len(worse),
    )


_CHECKS: tuple[Callable[[list[Record]], Claim | None], ...] = (
    _train_test_alike,
    _beats_ml,
    _nodes_agree,
    _edges_help,
    _drift_closed_by_edges,
    _ends(
        "more_rows_help",
        "table-8",
        "20",
        "320",
        "the mean gap is smaller with 320 rows a node than with 20",
        "8 (12) -> 12 (15) of 16",
        True,
    ),
    _ends(
        "scales",
        "table-9",
        "20",
        "320",
        "the mean gap grows by less than 0.05 from 20 to 320 nodes",
        "13 (15) -> 7 (12) of 16",
        False,
    ),
    _ends(
        "fragmentation",
        "table-10",
        "20",
        "320",
        "the mean gap grows by less than 0.05 when the same rows lie on 320 nodes, not 20",
        "15 (16) -> 7 (12) of 16",
        False,
    ),
    _iterations_cut_rounds,
    _dynamic_helps,
)


def claims(records: Iterable[Record]) -> list[Claim]:
    """The claims that records speak to, each marked held or not, with the numbers behind it."""
    records = list(records)
    return [claim for claim in (one(records) for one in _CHECKS) if claim is not None]
