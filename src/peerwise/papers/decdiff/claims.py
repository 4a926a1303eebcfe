"""How the claims of the DecDiff paper are graded."""

from functools import partial
from typing import Any

from peerwise.papers import claims as grade
from peerwise.papers.claims import Estimate, Numbers, every, less, listed
from peerwise.papers.decdiff.items import SETS, SETTINGS, SHARES, printed
from peerwise.study.results import Claim

RIVALS = ("dechetero", "cfa", "cfa-ge")
_claim = grade.sentences("decdiff")


def claims(number: Numbers) -> list[Claim]:
    """The paper's claims, each graded; one that was not measured is left out."""
    checks = (_ordering, _decentralised, _federated, _teacher, _faster, _overfits, _concentrated,
              _drop)  # fmt: skip
    return grade.measured(partial(check, number, name) for name in SETS for check in checks)


def _final(number: Numbers, item: str, name: str, *variants: str) -> dict[str, Estimate]:
    of = {"item": item, "dataset": name, "metric": "accuracy"}
    return {v: number(**of, variant=v) for v in variants}


def _theirs(item: str, name: str, variants: Any) -> str:
    of = {"dataset": name, "metric": "accuracy"}
    return listed({v: printed(item, {**of, "variant": v}) for v in variants}, ".4f")


def _ordering(number: Numbers, name: str) -> Claim:
    table = SETTINGS["printed"]["table-2"]
    order = sorted(table, key=lambda v: -table[v][SETS.index(name)])
    values = _final(number, "table-2", name, *order)
    ours = listed(dict(sorted(values.items(), key=lambda pair: -pair[1].mean)), ".4f")
    more = {"set": name, "order": " > ".join(order), "printed": _theirs("table-2", name, order)}
    return _claim("ordering", grade.falls(list(values.values())), ours, **more)


def _decentralised(number: Numbers, name: str) -> Claim:
    ours = _final(number, "table-2", name, "decdiff+vt", "dechetero", "cfa")
    verdict = every(less(ours[v], ours["decdiff+vt"]) for v in ("dechetero", "cfa"))
    theirs = _theirs("table-2", name, ours)
    return _claim("decentralised", verdict, listed(ours, ".4f"), set=name, printed=theirs)


def _federated(number: Numbers, name: str) -> Claim:
    ours = _final(number, "table-2", name, "decdiff+vt", "fedavg")
    verdict = less(ours["fedavg"], ours["decdiff+vt"], 0.005)
    theirs = _theirs("table-2", name, ours)
    return _claim("federated", verdict, listed(ours, ".4f"), set=name, printed=theirs)


def _teacher(number: Numbers, name: str) -> Claim:
    ours = _final(number, "table-3", name, "decdiff+vt", "decdiff")
    plain = listed(_final(number, "table-3", name, "dechetero+vt", "dechetero"), ".4f")
    sentence = f"{listed(ours, '.4f')}; with DecAvg (not in the paper): {plain}"
    theirs = _theirs("table-3", name, ours)
    verdict = less(ours["decdiff"], ours["decdiff+vt"])
    return _claim("teacher", verdict, sentence, set=name, printed=theirs)


def _faster(number: Numbers, name: str) -> Claim:
    of = {"item": "table-4", "dataset": name, "metric": "rounds"}
    reached = number.each("variant", "share", **of)
    share = max((s for v, s in reached if v == "decdiff+vt"), default=None)
    if share is None or not all((v, SHARES[0]) in reached for v in RIVALS):
        raise KeyError(name)
    ours, rivals = reached["decdiff+vt", share], {v: reached.get((v, share)) for v in RIVALS}
    rounds = ", ".join(f"{v} -" if t is None else f"{v} {t:.0f}" for v, t in rivals.items())
    # a rival that does not get there is slower
    verdict = every(less(ours, t) for t in rivals.values() if t is not None)
    theirs = printed("table-4", {**of, "variant": "decdiff+vt", "share": share}) or float("nan")
    ours_text = f"decdiff+vt {ours:.0f}; {rounds}"
    return _claim("faster", verdict, ours_text, set=name, share=share, printed=theirs)


def _overfits(number: Numbers, name: str) -> Claim:
    calm, wild = ("cfa-ge", "decdiff+vt"), ("dechetero", "decdiff", "fedavg", "isolation")
    of = {"item": "figure-5", "dataset": name, "metric": "loss"}
    ends = {v: [number(**of, variant=v, at=at) for at in ("last", "lowest")]
            for v in (*wild, "cfa", *calm)}  # fmt: skip
    above = {v: grade.total((1.0, last), (-1.02, least)) for v, (last, least) in ends.items()}
    verdict = every([*(less(above[v], 0.0) for v in calm), *(less(0.0, above[v]) for v in wild)])
    ours = ", ".join(f"{v} {last.mean / low.mean - 1:+.1%}" for v, (last, low) in ends.items())
    return _claim("overfitting", verdict, ours, set=name)


def _concentrated(number: Numbers, name: str) -> Claim:
    calm, wild = ("cfa-ge", "decdiff+vt"), ("dechetero", "cfa", "decdiff")
    of = {"item": "figure-6", "dataset": name, "of": "quartile range"}
    spread = {v: number(**of, variant=v) for v in (*wild, *calm)}
    verdict = every(less(spread[a], spread[b]) for a in calm for b in wild)
    return _claim("concentrated", verdict, listed(spread, ".4f"), set=name)


def _drop(number: Numbers, name: str) -> Claim:
    of = {"item": "figure-1", "dataset": name, "at": "drop"}
    drops = {v: number(**of, variant=v) for v in ("dechetero", "decdiff")}
    fifth = grade.total((1.0, drops["decdiff"]), (-0.2, drops["dechetero"]))
    verdict = every((less(0.2, drops["dechetero"]), less(fifth, 0.0)))
    ours = ", ".join(f"{v} {d:+.3f} lost" for v, d in drops.items())
    return _claim("drop", verdict, ours, set=name)
