"""What the DecDiff paper prints and claims, and whether it held here."""

from typing import Any

from peerwise.study.results import Claim, Record

__all__ = ["PAPER_TABLES", "claims"]

_SETS = ("mnist", "fashion_mnist", "emnist_letters")

_TABLE_2 = {
    "centralised": (0.9824, 0.9181, 0.9027),
    "isolation": (0.6473, 0.7594, 0.4654),
    "fedavg": (0.9410, 0.8939, 0.8344),
    "dechetero": (0.9071, 0.8837, 0.8301),
    "cfa": (0.8975, 0.8568, 0.7807),
    "cfa-ge": (0.9460, 0.8564, 0.8607),
    "decdiff+vt": (0.9530, 0.8904, 0.8653),
}
_TABLE_3 = {
    "dechetero": _TABLE_2["dechetero"],
    "decdiff": (0.9373, 0.8838, 0.8214),
    "decdiff+vt": _TABLE_2["decdiff+vt"],
}
_N = None
# set -> method -> rounds to 50, 80, 90 and 95 % of the centralised accuracy
_TABLE_4: dict[str, dict[str, tuple[float | None, ...]]] = {
    "mnist": {
        "dechetero": (97.40, 235.60, 583.25, _N),
        "cfa": (109.40, 322.40, 609.67, _N),
        "cfa-ge": (102.80, 173.40, 327.60, 691.60),
        "decdiff": (52.80, 145.40, 395.60, 671.00),
        "decdiff+vt": (55.20, 161.00, 360.00, 540.75),
        "fedavg": (11.80, 57.40, 307.40, 662.67),
        "isolation": (262.20, _N, _N, _N),
    },
    "fashion_mnist": {
        "dechetero": (3.20, 53.20, 387.20, _N),
        "cfa": (10.60, 142.40, _N, _N),
        "cfa-ge": (10.20, 118.40, 693.60, _N),
        "decdiff": (6.80, 54.00, 319.80, _N),
        "decdiff+vt": (7.00, 53.80, 313.60, _N),
        "fedavg": (1.20, 25.00, 216.00, _N),
        "isolation": (3.80, _N, _N, _N),
    },
    "emnist_letters": {
        "dechetero": (22.00, 91.00, 370.50, _N),
        "cfa": (62.80, 418.00, _N, _N),
        "cfa-ge": (33.20, 167.00, 324.20, 812.25),
        "decdiff": (17.60, 107.20, 566.75, _N),
        "decdiff+vt": (9.60, 106.80, 138.40, 400.25),
        "fedavg": (4.00, 53.80, 322.25, _N),
        "isolation": (28.00, _N, _N, _N),
    },
}


def _printed() -> dict[tuple[str, str, str | None, float | None], float]:
    """Every number of the paper's tables: (item, set, method, share) -> value."""
    told: dict[tuple[str, str, str | None, float | None], float] = {}
    for item, table in (("table-2", _TABLE_2), ("table-3", _TABLE_3)):
        for variant, values in table.items():
            told |= {(item, s, variant, None): v for s, v in zip(_SETS, values, strict=True)}
    for name, methods in _TABLE_4.items():
        for variant, times in methods.items():
            for share, value in zip((0.5, 0.8, 0.9, 0.95), times, strict=True):
                if value is not None:
                    told["table-4", name, variant, share] = value
    return told


# Every number of the paper's tables: (item, set, method, share) -> value.
PAPER_TABLES = _printed()


def _claim(name: str, claim: str, rule: str, ours: str, paper: str, held: Any) -> Claim:
    return Claim(name=name, claim=claim, rule=rule, ours=ours, paper=paper, held=bool(held))


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
        told = record.setting
        return told.get("at") or told.get("of") or told.get("share")

    def __call__(self, item: str, name: str, variant: str, metric: str = "accuracy",
                 more: Any = None) -> float:  # fmt: skip
        return self.of[item, name, metric, variant, more]


def claims(records: list[Record]) -> list[Claim]:
    """The paper's claims, each held or not with the numbers; one not measured is left out."""
    number = _Numbers(records)
    made = []
    for name in _SETS:
        for check in (_ordering, _beats_averaging, _beats_federated, _teacher, _faster, _overfits,
                      _concentrated):  # fmt: skip
            try:
                made.append(check(number, name))
            except KeyError:  # a number that it needs was not measured
                continue
    for name in _SETS:
        try:
            made.append(_drop(number, name))
        except KeyError:
            continue
    return made


def _ordering(number: _Numbers, name: str) -> Claim:
    order = sorted(_TABLE_2, key=lambda v: -_TABLE_2[v][_SETS.index(name)])
    ours = {v: number("table-2", name, v) for v in order}
    mine = sorted(order, key=lambda v: -ours[v])
    return _claim(
        f"{name}-ordering",
        f"{name}: {' > '.join(order)}",
        "our methods in the same order",
        ", ".join(f"{v} {ours[v]:.3f}" for v in mine),
        ", ".join(f"{v} {_TABLE_2[v][_SETS.index(name)]:.3f}" for v in order),
        mine == order,
    )


def _pair(number: _Numbers, item: str, name: str, better: str, worse: str) -> tuple[str, float]:
    a, b = number(item, name, better), number(item, name, worse)
    return f"{better} {a:.3f}, {worse} {b:.3f}", a - b


def _paper_pair(item: str, name: str, better: str, worse: str) -> str:
    a, b = (PAPER_TABLES[item, name, v, None] for v in (better, worse))
    return f"{better} {a:.3f}, {worse} {b:.3f}"


def _beats_averaging(number: _Numbers, name: str) -> Claim:
    told, more = _pair(number, "table-2", name, "decdiff+vt", "dechetero")
    cfa, least = _pair(number, "table-2", name, "decdiff+vt", "cfa")
    return _claim(
        f"{name}-decentralised",
        f"{name}: DecDiff+VT is more accurate than DecHetero and CFA",
        "higher mean accuracy after the last round",
        f"{told}; {cfa}",
        _paper_pair("table-2", name, "decdiff+vt", "dechetero"),
        more > 0 and least > 0,
    )


def _beats_federated(number: _Numbers, name: str) -> Claim:
    told, more = _pair(number, "table-2", name, "decdiff+vt", "fedavg")
    return _claim(
        f"{name}-federated",
        f"{name}: DecDiff+VT is as accurate as FedAvg with a server, or more",
        "mean accuracy at most 0.005 lower",
        told,
        _paper_pair("table-2", name, "decdiff+vt", "fedavg"),
        more > -0.005,
    )


def _teacher(number: _Numbers, name: str) -> Claim:
    told, more = _pair(number, "table-3", name, "decdiff+vt", "decdiff")
    plain, also = _pair(number, "table-3", name, "dechetero+vt", "dechetero")
    return _claim(
        f"{name}-teacher",
        f"{name}: the virtual teacher makes DecDiff more accurate",
        "higher mean accuracy with the teacher than with cross-entropy",
        f"{told}; with DecAvg (not in the paper): {plain}, {also:+.3f}",
        _paper_pair("table-3", name, "decdiff+vt", "decdiff"),
        more > 0,
    )


def _faster(number: _Numbers, name: str) -> Claim:
    shares = [s for s in (0.5, 0.8, 0.9, 0.95)
              if ("table-4", name, "rounds", "decdiff+vt", s) in number.of]  # fmt: skip
    share = max(shares, default=None)
    if share is None:
        raise KeyError(name)
    against = ("dechetero", "cfa", "cfa-ge")
    if any(("table-4", name, v) not in number.run for v in against):
        raise KeyError(name)
    rivals = {v: number.of.get(("table-4", name, "rounds", v, share)) for v in against}
    ours = number("table-4", name, "decdiff+vt", "rounds", share)
    paper = PAPER_TABLES.get(("table-4", name, "decdiff+vt", share))
    return _claim(
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
    return _claim(
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
    return _claim(
        f"{name}-concentrated",
        f"{name}: accuracies of nodes are most alike with CFA-GE and DecDiff+VT",
        "smaller distance between the quartiles than DecHetero, CFA and DecDiff",
        ", ".join(f"{v} {r:.4f}" for v, r in spread.items()),
        "figure 6",
        max(spread["cfa-ge"], spread["decdiff+vt"])
        < min(spread["dechetero"], spread["cfa"], spread["decdiff"]),
    )


def _drop(number: _Numbers, name: str) -> Claim:
    drops = {v: number("figure-1", name, v, "accuracy", "drop") for v in ("dechetero", "decdiff")}
    return _claim(
        f"{name}-drop",
        f"{name}: the first average of models that began differently destroys what they learnt, "
        "DecDiff's bounded step does not",
        "DecHetero loses 0.2 or more of accuracy in the first aggregation, DecDiff less than a "
        "fifth of that",
        ", ".join(f"{v} {d:+.3f} lost" for v, d in drops.items()),
        "figure 1",
        drops["dechetero"] >= 0.2 and drops["decdiff"] < drops["dechetero"] / 5,
    )
