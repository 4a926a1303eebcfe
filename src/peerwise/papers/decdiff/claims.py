"""What the DecDiff paper claims, and whether it held here."""

from functools import partial
from typing import Any, NamedTuple

from peerwise.papers.claims import claim, listed, measured
from peerwise.papers.decdiff.printed import PAPER_TABLES, SETS, SHARES, TABLE_2
from peerwise.study.results import Claim, Record


class _Numbers:
    """The numbers of a run by item, set and variant."""

    def __init__(self, records: list[Record]):
        self.of = {
            (r.item, r.dataset, r.metric, r.setting.get("variant"), self._more(r)): r.value
            for r in records
            if r.value is not None
        }
        self.run = {(r.item, r.dataset, r.setting.get("variant")) for r in records}

    @staticmethod
    def _more(record: Record) -> Any:
        of = record.setting
        return of.get("at") or of.get("of") or of.get("share")

    def __call__(self, item: str, name: str, variant: str, metric: str = "accuracy",
                 more: Any = None) -> float:  # fmt: skip
        return self.of[item, name, metric, variant, more]


def claims(records: list[Record]) -> list[Claim]:
    """The paper's claims, each marked held or not; one that was not measured is left out."""
    number = _Numbers(records)
    checks = (_ordering, _beats_averaging, _beats_federated, _teacher, _faster, _overfits,
              _concentrated)  # fmt: skip
    by_set = [partial(check, number, name) for name in SETS for check in checks]
    return measured([*by_set, *(partial(_drop, number, name) for name in SETS)])


def _ordering(number: _Numbers, name: str) -> Claim:
    order = sorted(TABLE_2, key=lambda v: -TABLE_2[v][SETS.index(name)])
    ours = {v: number("table-2", name, v) for v in order}
    ranked = sorted(order, key=lambda v: -ours[v])
    return claim(
        f"{name}-ordering",
        f"{name}: {' > '.join(order)}",
        "our methods in the same order",
        listed({v: ours[v] for v in ranked}),
        listed({v: TABLE_2[v][SETS.index(name)] for v in order}),
        ranked == order,
    )


class _Pair(NamedTuple):
    """Two methods beside each other."""

    ours: str
    paper: str
    more: float  # by how much the first is more accurate here


def _pair(number: _Numbers, item: str, name: str, better: str, worse: str) -> _Pair:
    ours = {v: number(item, name, v) for v in (better, worse)}
    places = {v: (item, name, v, None) for v in ours}
    theirs = {v: PAPER_TABLES[place] for v, place in places.items() if place in PAPER_TABLES}
    return _Pair(listed(ours), listed(theirs), ours[better] - ours[worse])


def _beats_averaging(number: _Numbers, name: str) -> Claim:
    averaging = _pair(number, "table-2", name, "decdiff+vt", "dechetero")
    cfa = _pair(number, "table-2", name, "decdiff+vt", "cfa")
    return claim(
        f"{name}-decentralised",
        f"{name}: DecDiff+VT is more accurate than DecHetero and CFA",
        "higher mean accuracy after the last round",
        f"{averaging.ours}; {cfa.ours}",
        averaging.paper,
        averaging.more > 0 and cfa.more > 0,
    )


def _beats_federated(number: _Numbers, name: str) -> Claim:
    pair = _pair(number, "table-2", name, "decdiff+vt", "fedavg")
    return claim(
        f"{name}-federated",
        f"{name}: DecDiff+VT is as accurate as FedAvg with a server, or more",
        "mean accuracy at most 0.005 lower",
        pair.ours,
        pair.paper,
        pair.more > -0.005,
    )


def _teacher(number: _Numbers, name: str) -> Claim:
    pair = _pair(number, "table-3", name, "decdiff+vt", "decdiff")
    plain = _pair(number, "table-3", name, "dechetero+vt", "dechetero")
    return claim(
        f"{name}-teacher",
        f"{name}: the virtual teacher makes DecDiff more accurate",
        "higher mean accuracy with the teacher than with cross-entropy",
        f"{pair.ours}; with DecAvg (not in the paper): {plain.ours}, {plain.more:+.3f}",
        pair.paper,
        pair.more > 0,
    )


def _faster(number: _Numbers, name: str) -> Claim:
    shares = [s for s in SHARES if ("table-4", name, "rounds", "decdiff+vt", s) in number.of]
    against = ("dechetero", "cfa", "cfa-ge")
    if not shares or any(("table-4", name, v) not in number.run for v in against):
        raise KeyError(name)
    share = max(shares)
    rivals = {v: number.of.get(("table-4", name, "rounds", v, share)) for v in against}
    ours = number("table-4", name, "decdiff+vt", "rounds", share)
    paper = PAPER_TABLES.get(("table-4", name, "decdiff+vt", share))
    return claim(
        f"{name}-faster",
        f"{name}: DecDiff+VT reaches high accuracy in the fewest rounds of the decentralised",
        f"fewest rounds to {share:.0%} of the centralised accuracy, the highest share it reaches",
        f"decdiff+vt {ours:.0f}; "
        + ", ".join(f"{v} {'-' if t is None else f'{t:.0f}'}" for v, t in rivals.items()),
        "-" if paper is None else f"decdiff+vt {paper:.0f}",
        all(t is None or ours <= t for t in rivals.values()),
    )


def _overfits(number: _Numbers, name: str) -> Claim:
    rise = {
        v: number("figure-5", name, v, "loss", "last")
        / number("figure-5", name, v, "loss", "lowest")
        for v in ("dechetero", "cfa", "decdiff", "fedavg", "isolation", "cfa-ge", "decdiff+vt")
    }
    calm, wild = ("cfa-ge", "decdiff+vt"), ("dechetero", "decdiff", "fedavg", "isolation")
    return claim(
        f"{name}-overfitting",
        f"{name}: only CFA-GE and DecDiff+VT keep lowering the test loss",
        "their last loss is at most 2 % above their lowest, that of DecHetero, DecDiff, FedAvg and "
        "isolation is more",
        ", ".join(f"{v} {r - 1:+.1%}" for v, r in rise.items()),
        "figure 5",
        all(rise[v] <= 1.02 for v in calm) and all(rise[v] > 1.02 for v in wild),
    )


def _concentrated(number: _Numbers, name: str) -> Claim:
    spread = {
        v: number("figure-6", name, v, "accuracy", "quartile range")
        for v in ("dechetero", "cfa", "decdiff", "cfa-ge", "decdiff+vt")
    }
    return claim(
        f"{name}-concentrated",
        f"{name}: accuracies of nodes are most alike with CFA-GE and DecDiff+VT",
        "smaller distance between the quartiles than DecHetero, CFA and DecDiff",
        listed(spread, ".4f"),
        "figure 6",
        max(spread["cfa-ge"], spread["decdiff+vt"])
        < min(spread["dechetero"], spread["cfa"], spread["decdiff"]),
    )


def _drop(number: _Numbers, name: str) -> Claim:
    drops = {v: number("figure-1", name, v, "accuracy", "drop") for v in ("dechetero", "decdiff")}
    return claim(
        f"{name}-drop",
        f"{name}: the first average of models that began differently destroys what they learnt, "
        "DecDiff's bounded step does not",
        "DecHetero loses 0.2 or more of accuracy in the first aggregation, DecDiff less than a "
        "fifth of that",
        ", ".join(f"{v} {d:+.3f} lost" for v, d in drops.items()),
        "figure 1",
        drops["dechetero"] >= 0.2 and drops["decdiff"] < drops["dechetero"] / 5,
    )
