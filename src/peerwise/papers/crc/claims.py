"""How the claims of the CRC paper are graded, at the strength of its text."""

from collections.abc import Callable
from functools import partial

from peerwise.papers import claims as grade
from peerwise.papers.claims import Estimate, Numbers, Verdict, at_least, every, less, tally
from peerwise.papers.crc.items import COUNTS, TABLES
from peerwise.papers.items import CLOSE, NEAR
from peerwise.study.results import Claim

MOST = 0.75  # a claim about "the data sets" is held when it is true of so many of those present
SETS = 16  # of the paper
_claim = grade.sentences("crc")
_DRIFTS = {"table-5": "p(x)", "table-6": "p(y)", "table-7": "p(x,y)"}

Column = dict[str, Estimate]  # by data set


def _column(number: Numbers, item: str, column: str) -> Column:
    """A column of a table on the paper's sets at hand; a KeyError where it was not measured."""
    ours = number.each("dataset", item=item, column=column)
    ours = {name: value for name, value in ours.items() if name in TABLES[item]}
    if not ours:
        raise KeyError(column)
    return ours


def _close(column: Column, limit: float = CLOSE) -> dict[str, Verdict]:
    return {name: less(value, limit) for name, value in column.items()}


def _stated(number: Numbers, item: str, column: str) -> tuple[str, Verdict]:
    """Whether as large a share of the sets has a gap below 0.01 as the paper's text counts."""
    close = _close(_column(number, item, column))
    count = COUNTS[item][column][0] / SETS * len(close)
    return f"{column}: {tally(close)}", at_least(count, close.values())


def _mean(number: Numbers, item: str, column: str) -> Estimate:
    return grade.average(_column(number, item, column).values())


def _alike(number: Numbers) -> Claim:
    train, test = (_column(number, "table-3", f"crc_{part}_gap") for part in ("train", "test"))
    apart = {name: grade.within(train[name], test[name], 0.015) for name in train if name in test}
    return _claim("train_test_alike", at_least(MOST * len(apart), apart.values()), tally(apart))


def _beats_ml(number: Numbers) -> Claim:
    columns = {(m, part): _column(number, "table-3", f"{m}_{part}_gap")
               for m in ("ml", "crc") for part in ("train", "test")}  # fmt: skip
    lower = {
        name: every(
            less(columns["crc", p][name], columns["ml", p][name]) for p in ("train", "test")
        )
        for name in columns["crc", "test"]
    }
    return _claim("beats_ml", at_least(15 / SETS * len(lower), lower.values()), tally(lower))


def _nodes_agree(number: Numbers) -> Claim:
    std = _column(number, "table-3", "crc_test_std")
    close, near = _close(std), _close(std, NEAR)
    verdict = every((at_least(13 / SETS * len(std), close.values()), every(near.values())))
    return _claim("nodes_agree", verdict, f"below 0.01: {tally(close)}; below 0.05: {tally(near)}")


def _edges_help(number: Numbers) -> Claim:
    sentences, verdicts = zip(
        *(_stated(number, "table-4", c) for c in ("tree", "+10")), strict=True
    )
    tree, more, most = (_mean(number, "table-4", c) for c in ("tree", "+10", "+80"))
    ours = f"{'; '.join(sentences)}; mean gap {tree:.3f}, {more:.3f}, +80 {most:.3f}"
    return _claim("edges_help", every([*verdicts, less(more, tree)]), ours)


def _drift_closed_by_edges(number: Numbers) -> Claim:
    run = {item: what for item, what in _DRIFTS.items() if number.each("dataset", item=item)}
    if not run:
        raise KeyError("+80")
    sentences, verdicts = zip(*(_stated(number, item, "+80") for item in run), strict=True)
    ours = "; ".join(f"{what} {text}" for what, text in zip(run.values(), sentences, strict=True))
    return _claim("drift_closed_by_edges", every(verdicts), ours)


def _ends(name: str, item: str, most: float, number: Numbers) -> Claim:
    """The mean gap grows by less than `most` from 20 to 320 nodes or rows; as many are close."""
    sentences, verdicts = zip(*(_stated(number, item, c) for c in ("20", "320")), strict=True)
    first, last = (_mean(number, item, c) for c in ("20", "320"))
    ours = f"mean gap {first:.3f} -> {last:.3f}; {'; '.join(sentences)}"
    return _claim(name, every([less(last, first, most), *verdicts]), ours)


def _iterations_cut_rounds(number: Numbers) -> Claim:
    one, three = (_column(number, "table-11", f"{i}_t") for i in (1, 3))
    both = {name: less(three[name], one[name]) for name in one if name in three}
    if not both:
        raise KeyError("3_t")
    shown = ", ".join(f"{k} {one[k].mean:.0f} to {three[k].mean:.0f}" for k in both)
    verdict = at_least(MOST * len(both), both.values())
    return _claim("iterations_cut_rounds", verdict, f"{tally(both)}: {shown}")


def _dynamic_helps(number: Numbers) -> Claim:
    still, moving = (_column(number, "table-12", c) for c in ("inf", "1"))
    lower = {name: less(moving[name], still[name]) for name in moving}
    kept = {name: less(moving[name], still[name], 0.002) for name in moving}
    before, after = (_mean(number, "table-12", c) for c in ("inf", "1"))
    ours = f"lower: {tally(lower)}; not higher: {tally(kept)}; mean gap {before:.3f} -> {after:.3f}"
    shares = ((6, lower), (15, kept))
    verdict = every(at_least(n / SETS * len(of), of.values()) for n, of in shares)
    return _claim("dynamic_helps", verdict, ours)


_CHECKS: tuple[Callable[[Numbers], Claim], ...] = (
    _alike,
    _beats_ml,
    _nodes_agree,
    _edges_help,
    _drift_closed_by_edges,
    partial(_ends, "more_rows_help", "table-8", 0.0),
    partial(_ends, "scales", "table-9", 0.05),
    partial(_ends, "fragmentation", "table-10", 0.05),
    _iterations_cut_rounds,
    _dynamic_helps,
)


def claims(number: Numbers) -> list[Claim]:
    """The claims that a run speaks to, each graded, with the numbers behind it."""
    return grade.measured(partial(check, number) for check in _CHECKS)
