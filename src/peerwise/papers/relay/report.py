"""Numbers and tables of the relay experiments."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from peerwise.papers.crc.printed import COUNTS, SETS, TABLES
from peerwise.papers.items import CLOSE, Arrays, Done
from peerwise.papers.records import by_fields, record_of
from peerwise.papers.relay.items import BOTH, CLIPS, DEALT, EARLY, LATE, METHODS
from peerwise.report.grid import Grid, laid
from peerwise.study.results import Record

NEAR = 0.05  # the paper's second count
NETWORKS = {"tree": "tree", "chain": "chain", "plus": "tree + 10 links"}
NAMES = {
    "crc": "CRC",
    "metropolis": "CRC, Metropolis weights",
    "tracking": "gradient tracking",
    "relay": "relay",
}
# Where the CRC paper counts sets below .01 and below .05.
PRINTED = {("tree", "iid"): COUNTS["table-4"]["tree"], ("plus", "iid"): COUNTS["table-4"]["+10"]}
_PLACES = {(graph, way): f"{name}, {way}" for graph, name in NETWORKS.items() for way in DEALT}


def gap_at(done: dict[str, Arrays], name: str, rounds: int, same: bool = False) -> np.ndarray:
    """Error of a task less RC's of 64 rounds (`same`: of as many) on the same rows, a repetition.

    Empty where one of them was not run.
    """
    dataset, _, way, _ = name.split("|")
    rc = done.get(f"{dataset}|-|{way if way in DEALT else 'iid'}|rc")
    if rc is None or name not in done:
        return np.array([])

    def at(arrays: Arrays, t: int) -> np.ndarray:
        return np.asarray(arrays["error"][:, list(arrays["rounds"]).index(t)])

    return at(done[name], rounds) - at(rc, rounds if same else EARLY)


def gaps(item: str, done: Done) -> Iterator[Record]:
    """Gaps after 64 and after 256 rounds."""
    for name in done:
        dataset, graph, way, method = name.split("|")
        for rounds in (EARLY, LATE) if method != "rc" else ():
            setting: Any = {"method": method, "graph": graph, "dealt": way, "rounds": rounds}
            values = gap_at(done, name, rounds)
            one = record_of("relay", item, dataset, "test_gap", values, **setting)
            # in the precision of the errors, as results have been kept
            mean = float(values.mean()) if values.size else None
            std = float(values.std(ddof=1)) if values.size > 1 else None
            yield one.model_copy(update={"value": mean, "std": std})


def gaps_beside_table_9(item: str, done: Done) -> Iterator[Record]:
    """The same; beside rows dealt at random the CRC paper's gap of CRC among 320 nodes."""

    def printed(record: Record) -> float | None:
        names = [s.name for s in SETS if s.data == record.dataset]
        known = names and record.setting["dealt"] == "iid"
        return TABLES["table-9"].get(names[0], {}).get("320") if known else None

    for r in gaps(item, done):
        yield r.model_copy(update={"paper_value": printed(r)})


def _text(record: Record | None) -> str:
    if record is None or record.value is None:
        return "-"
    return _number(record.value)


def _number(value: float) -> str:
    return f"{round(value, 3) + 0.0:.3f}".replace("0.", ".", 1)


def _by(records: Sequence[Record]) -> dict[tuple[Any, ...], Record]:
    return by_fields(records, "dataset", "graph", "dealt", "rounds", "method")


def by_network(item: str, records: Sequence[Record], paper: bool = False) -> list[Grid]:
    """For each network and number of rounds: sets by way of dealing, CRC beside relay."""
    cell = _by(records)
    sets, ways = (list(dict.fromkeys(k[i] for k in cell)) for i in (0, 2))
    grids = []
    for graph in dict.fromkeys(k[1] for k in cell):
        for rounds in (EARLY, LATE):
            head = [f"{NETWORKS[graph]}, {rounds} rounds", *ways, *(["paper"] if paper else [])]
            rows = []
            for name in sets:
                pairs = [[cell.get((name, graph, w, rounds, m)) for m in ("crc", "relay")]
                         for w in ways]  # fmt: skip
                texts = [" → ".join(map(_text, pair)) for pair in pairs]
                printed = [r.paper_value for pair in pairs for r in pair if r is not None]
                theirs = next((f"{p:.2f}" for p in printed if p is not None), "")
                rows.append([name, *texts, *([theirs] if paper else [])])
            grids.append(Grid(head, rows))
    return grids


def by_network_beside_table_9(item: str, records: Sequence[Record]) -> list[Grid]:
    """The same with a column of the CRC paper's numbers."""
    return by_network(item, records, paper=True)


def gaps_and_counts(item: str, records: Sequence[Record]) -> list[Grid]:
    """The same, and on how many sets the gap is small."""
    return [*by_network(item, records), _counts(records)]


def _values(records: Sequence[Record]) -> Callable[..., list[float]]:
    """The gaps of all sets by network, way of dealing, rounds and method."""
    cells = _by(records)

    def values(*where: Any) -> list[float]:
        return [r.value for k, r in cells.items() if k[1:] == where and r.value is not None]

    return values


def _counts(records: Sequence[Record]) -> Grid:
    """On how many sets the gap is small, beside the counts of the CRC paper."""
    values = _values(records)

    def text(place: tuple[str, str], column: tuple[int, str] | None) -> str:
        if column is None:
            return "{} ({}) of 16".format(*PRINTED[place]) if place in PRINTED else ""
        every = values(*place, *column)
        close, near = (sum(g < limit for g in every) for limit in (CLOSE, NEAR))
        return f"{close} ({near}) of {len(every)}" if every else "-"

    columns: dict[Any, str] = {None: "CRC, paper"}
    columns |= {(r, m): f"{NAMES[m]}\n{r} rounds" for m in BOTH for r in (EARLY, LATE)}
    return laid("gap < .01 (< .05)", _PLACES, columns, text)


def methods(item: str, records: Sequence[Record]) -> list[Grid]:
    """Means over the sets: methods by network and way of dealing."""
    values = _values(records)

    def mean(rounds: int, place: tuple[str, str], method: str) -> str:
        every = values(*place, rounds, method)
        return _number(float(np.mean(every))) if every else "-"

    columns = {method: NAMES[method] for method in METHODS}
    heads = {t: f"mean of the sets, {t} rounds" for t in (EARLY, LATE)}
    return [laid(head, _PLACES, columns, partial(mean, t)) for t, head in heads.items()]


def liar(item: str, records: Sequence[Record]) -> list[Grid]:
    """Honest networks beside those with a liar, by how far numbers are clipped."""
    cell = by_fields(records, "dataset", "graph", "dealt", "rounds")
    pushes = sorted({k[2] for k in cell}, key=float)
    named = dict(zip(pushes, ("honest", "one liar"), strict=False))
    columns = {(p, r): f"{who}\n{r} rounds" for p, who in named.items() for r in (EARLY, LATE)}
    rows = {
        (name, str(clip)): f"{name}, {'none' if clip is None else f'{clip:g}'}"
        for name in dict.fromkeys(k[0] for k in cell)
        for clip in CLIPS
        if any((name, str(clip), p, EARLY) in cell for p in pushes)
    }
    return [laid("data, clip", rows, columns, lambda at, of: _text(cell.get((*at, *of))))]
