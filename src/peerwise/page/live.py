"""A run that goes on, as its page shows it: lines that grow, and the network of the first cell."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from peerwise.errors import PeerwiseError
from peerwise.learner import Cell, drawn
from peerwise.learner.assemble import make_links
from peerwise.learner.details import of_rows
from peerwise.page import layout, thin
from peerwise.page.guard import Access
from peerwise.page.run import gather
from peerwise.page.serve import Feed, Page
from peerwise.study import live
from peerwise.study.store import Store
from peerwise.study.sweep import names_of

POINTS = 160  # of a line
MOST = 40  # lines


class Following:
    """What the cells of a run have told so far."""

    def __init__(self, title: str, folder: Path, cells: Sequence[Cell]):
        self.title, self.folder = title, folder
        self.begun = time.time()
        self.done, self.total = 0, len(cells)
        self._store = Store(folder)
        names = [names_of(cell) for cell in cells]
        several = {k for k in names[0] for n in names if n.get(k) != names[0].get(k)}
        several |= {k for n in names for k in n if k not in names[0]}
        self._series = [_Line(cell, _called(name, several)) for cell, name in
                        zip(cells[:MOST], names, strict=False)]  # fmt: skip
        self.network = _network(cells)

    def progress(self, done: int, total: int) -> None:
        """How many cells are done, as the engine says."""
        self.done, self.total = done, total

    def look(self) -> dict[str, Any]:
        """All of it, as a page shows it."""
        for line in self._series:
            line.read(self._store)
        return {
            "cells": [self.done, self.total],
            "seconds": round(time.time() - self.begun),
            "series": [line.told() for line in self._series],
        }

    def page(self) -> dict[str, Any]:
        """What the page has from the start."""
        return {
            "kind": "live", "title": self.title, "folder": str(self.folder),
            "network": self.network, "now": self.look(),
        }  # fmt: skip


def _called(name: dict[str, str], several: set[str]) -> str:
    words = [name["method"], *(v for k, v in name.items() if k in several and k != "method")]
    return " · ".join(dict.fromkeys(words))


class _Line:
    """One cell. Groups of repetitions that run after each other are averaged."""

    def __init__(self, cell: Cell, name: str):
        self.key, self.name, self.rounds = cell.key, name, cell["run"]["rounds"]
        self._at, self._round, self._state = 0, 0, "waits"
        self._groups: dict[int, dict[int, list[float]]] = {}
        self._nodes: list[Any] = []
        self._part = (0, 1)

    def read(self, store: Store) -> None:
        """Take up what was told since the last time, or all of it where the cell is done."""
        if self._state == "done":
            return
        kept = store.get(self.key) if store.path(self.key).exists() else None
        if kept is not None:
            self._finished(kept.arrays)
            return
        path = store.loose / f"{self.key}{live.SUFFIX}"
        if path.exists() and path.stat().st_size < self._at:  # it began anew
            self._at = 0
            self._groups.clear()
        lines, self._at = live.lines(path, self._at)
        for line in lines:
            self._part = line["group"], line["groups"]
            self._round, self._state = line["round"], "learns"
            points = self._groups.setdefault(line["group"], {})
            columns = (line.get(name, ()) for name in ("mean", "lo", "hi"))
            for x, *point in zip(line["x"], *columns, strict=False):
                if None not in point:
                    points[x] = point
            self._nodes = line.get("nodes", self._nodes)

    def _finished(self, arrays: dict[str, np.ndarray]) -> None:
        error = arrays["test_error"]
        flat = np.moveaxis(error, 1, 0).reshape(error.shape[1], -1)
        columns = flat.mean(1), *np.quantile(flat, (0.1, 0.9), axis=1)
        points = np.stack(columns, 1).tolist()
        self._groups = {0: dict(zip(arrays["rounds"].tolist(), points, strict=False))}
        self._nodes = thin.plain(error[0, -1][: live.NODES])
        self._state, self._round = "done", self.rounds

    def told(self) -> dict[str, Any]:
        """The line as far as it is known."""
        x = sorted({x for points in self._groups.values() for x in points})
        at = [x[i] for i in thin.places(len(x), POINTS)] if x else []
        means = [
            np.mean([points[i] for points in self._groups.values() if i in points], axis=0)
            for i in at
        ]
        mean, low, high = (thin.plain([m[i] for m in means]) for i in range(3))
        return {
            "name": self.name, "state": self._state, "round": self._round, "of": self.rounds,
            "x": at, "mean": mean, "lo": low, "hi": high, "nodes": self._nodes,
            "part": self._part,
        }  # fmt: skip


def _network(cells: Sequence[Cell]) -> dict[str, Any] | None:
    """The graph of the first cell that has one, of its first repetition."""
    for cell in cells:
        if "network" not in cell or cell["split"]["nodes"] > live.NODES:
            continue
        try:
            world = drawn(cell, 0)
            seen = of_rows(world, make_links(cell, world))
        except PeerwiseError:  # the run itself says what is wrong
            return None
        if "edges" not in seen:
            continue
        nodes = len(seen["held"])
        edges = seen["edges"]
        return {
            "nodes": nodes, "links": int(seen["links"]), "at": layout.places(nodes, edges),
            "edges": edges.tolist(),
        }  # fmt: skip
    return None


class LivePage:
    """The page of a run: live while it goes on, then as it will be in the file."""

    def __init__(self, following: Following, port: int):
        self.following = following
        self._written: Path | None = None
        self.server = Page(self._show, Access(port=port), feed=Feed(following.look))

    def _show(self, path: str) -> tuple[str, str, Any] | None:
        if path != "/":
            return None
        if self._written is None:
            return "live", f"{self.following.title} | Peerwise", self.following.page()
        data = gather(self._written)
        return "run", f"{data['title']} | Peerwise", data

    def told(self, more: Callable[[int, int], None]) -> Callable[[int, int], None]:
        """What the engine says of cells that are done goes here and to `more`."""

        def advance(done: int, total: int) -> None:
            self.following.progress(done, total)
            more(done, total)

        return advance

    def end(self, folder: Path) -> None:
        """Show the run as it is finished to those who watch."""
        self._written = folder
        self.server.finish()
