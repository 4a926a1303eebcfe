"""Numbers and tables of the relay experiments."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from peerwise.papers.crc.printed import COUNTS, SETS, TABLES
from peerwise.papers.items import CLOSE, Arrays
from peerwise.papers.relay.items import CLIPS, DEALT, EARLY, GRAPHS, LATE, METHODS
from peerwise.report.grid import Grid
from peerwise.study.results import Record

NEAR = 0.05  # the paper's second count
NETWORKS = {"tree": "tree", "chain": "chain", "plus": "tree + 10 links"}
NAMES = {
    "crc": "CRC",
    "metropolis": "CRC, Metropolis weights",
    "tracking": "gradient tracking",
    "relay": "relay",
}
# Where the CRC paper counts sets below .01 and below .05: table, column and way of dealing.
PRINTED = {("tree", "iid"): ("table-4", "tree"), ("plus", "iid"): ("table-4", "+10")}


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


def gaps(item: str, done: dict[str, Arrays]) -> list[Record]:
    """Gaps after 64 and after 256 rounds."""
    records = []
    for name in done:
        dataset, graph, way, method = name.split("|")
        for rounds in (EARLY, LATE) if method != "rc" else ():
            values = gap_at(done, name, rounds)
            setting = {"method": method, "graph": graph, "dealt": way, "rounds": rounds}
            records.append(
                Record(
                    paper="relay", item=item, dataset=dataset, setting=setting, metric="test_gap",
                    value=float(values.mean()) if values.size else None,
                    std=float(values.std(ddof=1)) if values.size > 1 else None,
                    reps=int(values.size),
                )
            )  # fmt: skip
    return records


def gaps_beside_table_9(item: str, done: dict[str, Arrays]) -> list[Record]:
    """The same; beside rows dealt at random the CRC paper's gap of CRC among 320 nodes."""

    def printed(record: Record) -> float | None:
        names = [s.name for s in SETS if s.data == record.dataset]
        known = names and record.setting["dealt"] == "iid"
        return TABLES["table-9"].get(names[0], {}).get("320") if known else None

    return [r.model_copy(update={"paper_value": printed(r)}) for r in gaps(item, done)]


def _text(record: Record | None) -> str:
    if record is None or record.value is None:
        return "-"
    return _number(record.value)


def _number(value: float) -> str:
    return f"{round(value, 3) + 0.0:.3f}".replace("0.", ".", 1)


def _by(records: Sequence[Record]) -> dict[tuple[Any, ...], Record]:
    keys = ("graph", "dealt", "rounds", "method")
    return {(r.dataset, *(r.setting[k] for k in keys)): r for r in records}


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
    values, rows = _values(records), []
    for graph in NETWORKS:
        for way in DEALT:
            cells = []
            for rounds, method in ((r, m) for m in ("crc", "relay") for r in (EARLY, LATE)):
                every = values(graph, way, rounds, method)
                close, near = (sum(g < limit for g in every) for limit in (CLOSE, NEAR))
                cells.append(f"{close} ({near}) of {len(every)}" if every else "-")
            table, column = PRINTED.get((graph, way), ("", ""))
            counted = COUNTS.get(table, {}).get(column)
            printed = f"{counted[0]} ({counted[1]}) of 16" if counted else ""
            rows.append([f"{NETWORKS[graph]}, {way}", printed, *cells])
    head = ["gap < .01 (< .05)", "CRC, paper", *(f"{NAMES[m]}\n{r} rounds"
            for m in ("crc", "relay") for r in (EARLY, LATE))]  # fmt: skip
    return Grid(head, rows)


def methods(item: str, records: Sequence[Record]) -> list[Grid]:
    """Means over the sets: methods by network and way of dealing."""
    values, grids = _values(records), []
    for rounds in (EARLY, LATE):
        rows = []
        for graph in GRAPHS:
            for way in DEALT:
                every = [values(graph, way, rounds, method) for method in METHODS]
                means = [_number(float(np.mean(gaps))) if gaps else "-" for gaps in every]
                rows.append([f"{NETWORKS[graph]}, {way}", *means])
        head = [f"mean of the sets, {rounds} rounds", *(NAMES[m] for m in METHODS)]
        grids.append(Grid(head, rows))
    return grids


def liar(item: str, records: Sequence[Record]) -> list[Grid]:
    """Honest networks beside those with a liar, by how far numbers are clipped."""
    cell = {(r.dataset, r.setting["graph"], r.setting["dealt"], r.setting["rounds"]): r
             for r in records}  # fmt: skip
    head = ["data, clip", "honest\n64 rounds", "honest\n256 rounds", "one liar\n64 rounds",
            "one liar\n256 rounds"]  # fmt: skip
    pushes = sorted({k[2] for k in cell}, key=float)
    rows = [
        [f"{name}, {'none' if clip is None else f'{clip:g}'}",
         *(_text(cell.get((name, str(clip), p, r))) for p in pushes for r in (EARLY, LATE))]
        for name in dict.fromkeys(k[0] for k in cell)
        for clip in CLIPS
        if any((name, str(clip), p, EARLY) in cell for p in pushes)
    ]  # fmt: skip
    return [Grid(head[: 1 + 2 * len(pushes)], rows)]
