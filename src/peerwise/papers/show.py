"""Show a reproduction: each item as a table beside the paper's, the claims, the figures."""

from pathlib import Path
from types import ModuleType

import numpy as np
from rich.console import Console

from peerwise.papers.items import Paper
from peerwise.papers.reproduce import PAPERS
from peerwise.study.results import Record, read_folder
from peerwise.report import ba_bfl, cvar, decdiff, figures, gossip, relay, tables
from peerwise.papers.task_items import paper_of

__all__ = ["OF_TASKS", "show"]

# Papers whose items are tasks lay out and draw them themselves.
OF_TASKS: dict[str, ModuleType] = {
    "gossip-nb": gossip,
    "decdiff": decdiff,
    "cvar-cta": cvar,
    "ba-bfl": ba_bfl,
    "relay": relay,
}

_DESCRIBED = {name: name for name in ("rows", "features", "discrete", "continuous", "classes")}


def _number(item: str) -> str:
    kind, _, number = item.partition("-")
    return f"{kind.capitalize()} {number}".strip()


def show(folder: Path, console: Console) -> list[Path]:
    """Print everything that a run folder holds and draw its figures; returns their paths."""
    records, claims, history = read_folder(folder)
    drawn: list[Path] = []
    name = (records[0].paper or "") if records else paper_of(folder)
    if name in OF_TASKS:
        drawn = OF_TASKS[name].show(folder, records, console)
        if claims:
            console.print(tables.claims_table(claims))
        return drawn
    for item in dict.fromkeys(r.item for r in records):
        paper = PAPERS[name]
        assert isinstance(paper, Paper)
        rows = {d.name: d for d in paper.datasets(None, False)}
        mine = [r for r in records if r.item == item]
        found = paper.items[item]
        if found.layout == "before":
            shown = {r.dataset for r in mine}
            notes = {n: d.note for n, d in rows.items() if d.note and n in shown}
            for table in tables.before_tables(found, mine, notes):
                console.print(table)
            continue
        title = f"{_number(item)}. {found.title}"
        if item == "figure-2":
            drawn.append(figures.save(figures.reach_curves(_reaches(mine)), folder / f"{item}.png"))
            continue
        present = {r.dataset for r in mine if r.value is not None}
        names = list(dict.fromkeys(r.dataset for r in mine))
        headers = _DESCRIBED if item == "table-1" else {c.name: c.title for c in found.columns}
        for table in tables.item_tables(
            f"{title}: {found.about}",
            mine,
            headers,
            width=console.width,
            counts=paper.counts.get(item),
            absent=[n for n in names if n not in present],
            notes={n: rows[n].note for n in names if n in rows and rows[n].note},
        ):
            console.print(table)
        gaps = {c.name: c.title for c in found.columns if c.metric == "test_gap"}
        if gaps and present:
            kept = [r for r in mine if r.setting.get("column") in gaps]
            picture = figures.gap_map(kept, gaps, f"{title}: test gap to RC")
            drawn.append(figures.save(picture, folder / f"{item}.png"))
    if history is not None:
        picture = figures.curves(history, "Test error against rounds")
        drawn.append(figures.save(picture, folder / "curves.png"))
    if claims:
        console.print(tables.claims_table(claims))
    return drawn


def _reaches(records: list[Record]) -> dict[int, np.ndarray]:
    found: dict[int, list[float]] = {}
    for record in records:
        found.setdefault(int(record.setting["nodes"]), []).append(record.value or 0.0)
    return {n: np.array(share) for n, share in found.items()}
