"""What the DecDiff paper claims, and how that is graded here."""

from functools import partial

from peerwise.papers.claims import (
    Estimate,
    Numbers,
    claim,
    every,
    exact,
    falls,
    less,
    listed,
    measured,
    total,
)
from peerwise.papers.decdiff.printed import PAPER_TABLES, SETS, SHARES, TABLE_2
from peerwise.study.results import Claim

RIVALS = ("dechetero", "cfa", "cfa-ge")


def claims(number: Numbers) -> list[Claim]:
    """The paper's claims, each graded; one that was not measured is left out."""
    checks = (_ordering, _beats_averaging, _beats_federated, _teacher, _faster, _overfits,
              _concentrated, _drop)  # fmt: skip
    return measured(partial(check, number, name) for name in SETS for check in checks)


def _final(number: Numbers, item: str, name: str, *variants: str) -> dict[str, Estimate]:
    of = {"item": item, "dataset": name, "metric": "accuracy"}
    return {v: number(**of, variant=v) for v in variants}


def _theirs(item: str, name: str, *variants: str) -> str:
    places = {v: (item, name, v, None) for v in variants}
    return listed({v: PAPER_TABLES[p] for v, p in places.items() if p in PAPER_TABLES}, ".4f")


def _ordering(number: Numbers, name: str) -> Claim:
    order = sorted(TABLE_2, key=lambda v: -TABLE_2[v][SETS.index(name)])
    ours = _final(number, "table-2", name, *order)
    return claim(
        f"{name}-ordering",
        f"{name}: {' > '.join(order)}",
        "each is more accurate after the last round than the next",
        listed(dict(sorted(ours.items(), key=lambda pair: -pair[1].mean)), ".4f"),
        _theirs("table-2", name, *order),
        falls(list(ours.values())),
    )


def _beats_averaging(number: Numbers, name: str) -> Claim:
    ours = _final(number, "table-2", name, "decdiff+vt", "dechetero", "cfa")
    return claim(
        f"{name}-decentralised",
        f"{name}: DecDiff+VT is more accurate than DecHetero and CFA",
        "higher accuracy after the last round than both",
        listed(ours, ".4f"),
        _theirs("table-2", name, *ours),
        every(less(ours[v], ours["decdiff+vt"]) for v in ("dechetero", "cfa")),
    )


def _beats_federated(number: Numbers, name: str) -> Claim:
    ours = _final(number, "table-2", name, "decdiff+vt", "fedavg")
    return claim(
        f"{name}-federated",
        f"{name}: DecDiff+VT is as accurate as FedAvg with a server, or more",
        "accuracy at most 0.005 lower",
        listed(ours, ".4f"),
        _theirs("table-2", name, *ours),
        less(ours["fedavg"], ours["decdiff+vt"], 0.005),
    )


def _teacher(number: Numbers, name: str) -> Claim:
    ours = _final(number, "table-3", name, "decdiff+vt", "decdiff")
    plain = _final(number, "table-3", name, "dechetero+vt", "dechetero")
    return claim(
        f"{name}-teacher",
        f"{name}: the virtual teacher makes DecDiff more accurate",
        "higher accuracy with the teacher than with cross-entropy",
        f"{listed(ours, '.4f')}; with DecAvg (not in the paper): {listed(plain, '.4f')}",
        _theirs("table-3", name, *ours),
        less(ours["decdiff"], ours["decdiff+vt"]),
    )


def _faster(number: Numbers, name: str) -> Claim:
    of = {"item": "table-4", "dataset": name, "metric": "rounds"}
    shares = [s for s in SHARES if s in number.each("share", **of, variant="decdiff+vt")]
    if not shares or not all(number.each("share", **of, variant=v) for v in RIVALS):
        raise KeyError(name)
    share = max(shares)
    ours, reached = (
        number(**of, variant="decdiff+vt", share=share),
        number.each("variant", **of, share=share),
    )
    paper = PAPER_TABLES.get(("table-4", name, "decdiff+vt", share))
    return claim(
        f"{name}-faster",
        f"{name}: DecDiff+VT reaches high accuracy in the fewest rounds of the decentralised",
        f"fewest rounds to {share:.0%} of the centralised accuracy, the highest share it reaches",
        f"decdiff+vt {ours:.0f}; "
        + ", ".join(f"{v} {reached[v]:.0f}" if v in reached else f"{v} -" for v in RIVALS),
        "-" if paper is None else f"decdiff+vt {paper:.0f}",
        every(less(ours, reached[v]) if v in reached else exact(True) for v in RIVALS),
    )


def _overfits(number: Numbers, name: str) -> Claim:
    calm, wild = ("cfa-ge", "decdiff+vt"), ("dechetero", "decdiff", "fedavg", "isolation")
    of = {"item": "figure-5", "dataset": name, "metric": "loss"}
    ends = {v: [number(**of, variant=v, at=at) for at in ("last", "lowest")]
            for v in (*wild, "cfa", *calm)}  # fmt: skip
    above = {v: total((1.0, last), (-1.02, least)) for v, (last, least) in ends.items()}
    return claim(
        f"{name}-overfitting",
        f"{name}: only CFA-GE and DecDiff+VT keep lowering the test loss",
        "their last loss is at most 2 % above their lowest, that of DecHetero, DecDiff, FedAvg and "
        "isolation is more",
        ", ".join(f"{v} {last.mean / low.mean - 1:+.1%}" for v, (last, low) in ends.items()),
        "figure 5",
        every([*(less(above[v], 0.0) for v in calm), *(less(0.0, above[v]) for v in wild)]),
    )


def _concentrated(number: Numbers, name: str) -> Claim:
    calm, wild = ("cfa-ge", "decdiff+vt"), ("dechetero", "cfa", "decdiff")
    of = {"item": "figure-6", "dataset": name, "of": "quartile range"}
    spread = {v: number(**of, variant=v) for v in (*wild, *calm)}
    return claim(
        f"{name}-concentrated",
        f"{name}: accuracies of nodes are most alike with CFA-GE and DecDiff+VT",
        "smaller distance between the quartiles than DecHetero, CFA and DecDiff",
        listed(spread, ".4f"),
        "figure 6",
        every(less(spread[a], spread[b]) for a in calm for b in wild),
    )


def _drop(number: Numbers, name: str) -> Claim:
    of = {"item": "figure-1", "dataset": name, "at": "drop"}
    drops = {v: number(**of, variant=v) for v in ("dechetero", "decdiff")}
    fifth = total((1.0, drops["decdiff"]), (-0.2, drops["dechetero"]))
    return claim(
        f"{name}-drop",
        f"{name}: the first average of models that began differently destroys what they learnt, "
        "DecDiff's bounded step does not",
        "DecHetero loses 0.2 or more of accuracy in the first aggregation, DecDiff less than a "
        "fifth of that",
        ", ".join(f"{v} {d:+.3f} lost" for v, d in drops.items()),
        "figure 1",
        every((less(0.2, drops["dechetero"]), less(fifth, 0.0))),
    )
