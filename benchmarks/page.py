"""What a page costs the run that it shows, and how soon a large one is seen."""

import http.client
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median

from benchmarks.tools import console, show
from peerwise.learner import Cell, cell, run
from peerwise.page.live import Following, LivePage
from peerwise.study import live

ROUNDS, NODES, ROWS = 10_000, 50, 20
TURNS = 11


def _watched(page: LivePage, stop: threading.Event) -> None:
    """A browser that takes up every event."""
    calling = http.client.HTTPConnection("127.0.0.1", page.server.port)
    calling.request("GET", "/events")
    answer = calling.getresponse()
    while not stop.is_set() and answer.readline():
        pass
    calling.close()


@contextmanager
def _page(described: Cell, folder: Path) -> Iterator[Callable[..., None]]:
    """A page that somebody watches; gives what `run` is to be watched by."""
    page = LivePage(Following("benchmark", folder, [described]), 0)
    stop = threading.Event()
    with page.server:
        threading.Thread(target=_watched, args=(page, stop), daemon=True).start()
        time.sleep(0.3)
        yield live.writer(folder / "cells" / f"{described.key}{live.SUFFIX}")
        stop.set()


def _raced(described: Cell, folder: Path) -> dict[str, tuple[float, float]]:
    """Seconds and CPU seconds of a run without a page and with one, in turns."""
    found: dict[str, list[tuple[float, float]]] = {}
    for turn in range(TURNS + 1):
        for name, page in (("without a page", nullcontext()),
                           ("with a page that is watched", _page(described, folder))):  # fmt: skip
            with page as watch:
                wall, cpu = time.perf_counter(), time.process_time()
                run(described, watch=watch)
                took = time.perf_counter() - wall, time.process_time() - cpu
            if turn:  # the first compiles
                found.setdefault(name, []).append(took)
    return {
        name: (median(t[0] for t in turns), median(t[1] for t in turns))
        for name, turns in found.items()
    }


def _more(value: float, base: float) -> str:
    return f"{100 * (value / base - 1):+.1f} %"


def main() -> None:
    described = cell(
        {"data": "digits", "split": {"nodes": NODES, "rows": ROWS}, "network": "random_tree",
         "run": {"rounds": ROUNDS, "repetitions": 1, "record": ROUNDS // 50}}
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        took = _raced(described, Path(scratch))
    base = took["without a page"]
    show(
        f"{ROUNDS} rounds of CRC, {NODES} nodes, digits, measured 50 times",
        ("run", "seconds", "against no page", "CPU seconds", "against no page"),
        [
            (name, f"{s:.2f}", _more(s, base[0]), f"{cpu:.2f}", _more(cpu, base[1]))
            for name, (s, cpu) in took.items()
        ],
        f"Compiled before; medians of {TURNS} turns. CPU seconds are of the whole process, the "
        "server and one that watches included. The state is asked for twice a second.",
    )
    _large()


def _large() -> None:
    """The first paint of 1,000 rounds x 1,000 nodes x 10 methods, in Debian's Chromium."""
    import shutil
    import sys

    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    try:
        from playwright.sync_api import sync_playwright

        from page.conftest import ARGUMENTS
        from page.large import write_large
    except ImportError as error:
        console.print(f"The large page was not opened: {error}")
        return
    found = shutil.which("chromium")
    if found is None:
        console.print("The large page was not opened: there is no chromium (scripts/browser)")
        return
    from peerwise.page.run import write

    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        begun = time.perf_counter()
        path = write(write_large(Path(scratch) / "large"))
        made, paints, whole = time.perf_counter() - begun, [], []
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        for _ in range(5):
            page = browser.new_page()
            page.goto(path.as_uri())
            while page.evaluate("document.body.dataset.ready") != "1":
                time.sleep(0.02)
            entry = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
            paints.append(page.evaluate(entry))
            whole.append(page.evaluate("performance.now()"))
            page.close()
        browser.close()
        size = path.stat().st_size
    show(
        "A page of 1,000 rounds, 1,000 nodes and 10 methods",
        ("what", "value"),
        [
            ("file", f"{size / 1e6:.2f} MB"),
            ("first paint", f"{min(paints):.0f} ms"),
            ("everything drawn", f"{min(whole):.0f} ms"),
            ("folder and file written", f"{made:.0f} s"),
        ],
        "Best of five, opened from the disk.",
    )


if __name__ == "__main__":
    main()
