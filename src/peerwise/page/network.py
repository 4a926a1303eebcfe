"""All peers of this machine: the graph alive, who waits for whom, how good their models are."""

import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from peerwise.errors import BadSetting, PeerwiseError
from peerwise.page import layout, thin
from peerwise.page.guard import Access
from peerwise.page.serve import Feed, Page
from peerwise.page.site import SiteLook, act_on
from peerwise.peer import local, views

ROWS = 500  # of the test set that are looked at while peers learn
PAUSE, LONGEST = 3.0, 15.0  # seconds between two looks at the test error


class NetworkLook:
    """How all peers stand, and their errors on rows that nobody trained on."""

    def __init__(self, peers: local.Peers):
        self.peers, self.federation = peers, peers.federation
        names = list(peers.names)
        states = {name: self.federation.state(name) for name in names}
        keys = self.federation.folder / "keys"
        self._looks = {name: SiteLook(state, keys) for name, state in states.items()}
        self.edges = sorted(
            tuple(sorted((names.index(a), names.index(b))))
            for a, b in self.federation.charter.graph().edges
        )
        self.errors = TestErrors(self.federation)
        self._gone: dict[str, float] = {}

    def page(self) -> dict[str, Any]:
        """What the page has from the start."""
        names, edges = list(self.peers.names), np.array(self.edges).reshape(-1, 2)
        return {
            "title": self.federation.charter.name,
            "method": self.federation.charter.method_name,
            "network": {
                "nodes": len(names), "links": len(edges), "edges": edges.tolist(),
                "at": layout.places(len(names), edges),
            },
            "names": names,
        }  # fmt: skip

    def __call__(self) -> dict[str, Any]:
        """How everybody stands now."""
        peers = {}
        for name, look in self._looks.items():
            try:
                peers[name] = _few(look())
            except PeerwiseError as error:  # half written, or gone
                peers[name] = {"begun": False, "word": "unknown", "kind": "bad",
                               "sentence": str(error)}  # fmt: skip
            process = self.peers.processes.get(name)
            ended = process is not None and process.poll() not in (None, 0)
            if ended and not peers[name].get("done"):
                since = self._gone.setdefault(name, time.time())
                peers[name] |= {"word": "down", "kind": "bad", "since": round(since)}
            else:
                self._gone.pop(name, None)
        return {"peers": peers, "errors": self.errors.told(), "sentence": _sentence(peers)}


def _few(now: Mapping[str, Any]) -> dict[str, Any]:
    names = ("begun", "round", "rounds", "done", "running", "waiting", "word", "kind", "sentence",
             "pace", "changed")  # fmt: skip
    summary = {name: now.get(name) for name in names}
    if not now["begun"]:
        return summary
    summary["bytes"] = sum(n["bytes"] for n in now["neighbours"])
    summary["heard"] = {n["name"]: n["heard"] for n in now["neighbours"]}
    summary["ejected"] = [n["name"] for n in now["neighbours"] if n["ejected"]]
    return summary


def _sentence(peers: Mapping[str, Mapping[str, Any]]) -> str:
    """What whoever looks wants to know first."""
    down = [n for n, p in peers.items() if p["word"] in ("down", "stopped", "stuck")]
    if down:
        lacking = [
            n for n, p in peers.items()
            if p.get("running") and not p.get("done") and set(p.get("waiting") or ()) & set(down)
        ]  # fmt: skip
        text = f"{', '.join(down)} {'does' if len(down) == 1 else 'do'} not run"
        return text + (f"; {', '.join(lacking)} wait{'s' * (len(lacking) == 1)} for it."
                       if lacking else ".")  # fmt: skip
    if all(p.get("done") for p in peers.values()):
        return "All peers are done."
    if not any(p["begun"] for p in peers.values()):
        return "The peers start."
    return "All peers run."


class TestErrors:
    """Test errors of peers, worked out beside them: peers themselves know their own rows alone."""

    __test__ = False  # for pytest, which takes it for a test

    def __init__(self, federation: local.Federation):
        self._federation = federation
        self._points: dict[str, list[tuple[int, float]]] = {n: [] for n in federation.charter.names}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go, daemon=True, name="test errors")

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End, after a last look."""
        self._stop.set()
        self._thread.join(30)

    def told(self) -> dict[str, list[list[float]]]:
        """By peer: rounds and errors."""
        return {
            name: [[t, round(e, 4)] for t, e in (points[i] for i in thin.places(len(points), 200))]
            if points else []
            for name, points in self._points.items()
        }  # fmt: skip

    def _go(self) -> None:
        charter = self._federation.charter
        if charter.own_code:  # it would be imported here
            return
        table = self._federation.table(self._federation.folder / local.TEST)
        x, y = charter.rows(table)
        x, y = x[:ROWS], y[:ROWS]
        while True:
            begun, last = time.monotonic(), self._stop.is_set()
            for name in charter.names:
                with suppress(PeerwiseError):
                    self._look(name, x, y)
            took = time.monotonic() - begun
            if last:
                return
            # looking must not slow the peers down; the first time compiles
            self._stop.wait(min(max(PAUSE, 10 * took), LONGEST))

    def _look(self, name: str, x: np.ndarray, y: np.ndarray) -> None:
        state = self._federation.state(name)
        now = views.status(state)
        points = self._points[name]
        if now is None or now.round < 1 or (points and points[-1][0] >= now.round):
            return
        prob = views.learnt(state).of_rows(x)
        points.append((now.round, float((prob.argmax(1) != y).mean())))


class NetworkPage:
    """The page of a federation on this machine."""

    def __init__(self, peers: local.Peers, access: Access):
        self.look, self.peers = NetworkLook(peers), peers
        self.stopped: set[str] = set()
        self.server = Page(
            self._show, access, feed=Feed(self.look, 0.5), act=self._act if access.token else None
        )
        self._can = access.token is not None

    def __enter__(self) -> "NetworkPage":
        self.look.errors.start()
        self.server.__enter__()
        return self

    def __exit__(self, *more: object) -> None:
        self.look.errors.stop()
        self.server.__exit__(*more)

    def _show(self, path: str) -> tuple[str, str, Any] | None:
        if path != "/":
            return None
        data = {**self.look.page(), "now": self.look(), "can": self._can}
        return "network", f"{data['title']} | Peerwise", data

    def _act(self, do: str, given: Any) -> dict[str, Any]:
        peer = str(given.get("peer", ""))
        if peer not in self.peers.names:
            raise BadSetting(f"there is no peer '{peer}' here")
        process = self.peers.processes.get(peer)
        if do == "start":
            if process is not None and process.poll() is None:
                raise BadSetting(f"{peer} runs already")
            self.stopped.discard(peer)
            self.peers.start(peer)
            return {"said": f"{peer} starts again and goes on where it was."}
        state: Path = self.look.federation.state(peer)

        def stop() -> None:
            if process is None or process.poll() is not None:
                raise BadSetting(f"{peer} does not run")
            self.stopped.add(peer)
            process.send_signal(signal.SIGTERM)

        return {"said": act_on(state, do, given, stop)}
