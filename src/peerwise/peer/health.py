"""Whether a peer is alive, whether it takes letters, and for whom it waits since when."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

BEAT = 1.0  # seconds between two signs of life
FROZEN = 30.0  # seconds without one after which a peer does not live


class Health:
    """How one peer is, as it says itself; read by other threads."""

    def __init__(self, clock: Callable[[], float] = time.time):
        self._clock = clock
        self.node = ""
        self._up, self._done = False, False
        self._beat = clock()
        self._phase, self._round, self._ended = 0, 0, 0.0
        self._waiting: dict[str, float] = {}  # by neighbour: since when

    def up(self) -> None:
        """The peer listens, and takes letters."""
        self._up = True

    def done(self) -> None:
        """All rounds are; it stays for neighbours that lack the last letter."""
        self._done, self._waiting = True, {}

    def down(self) -> None:
        """The peer takes no more letters."""
        self._up = False

    def round(self, phase: int, t: int) -> None:
        """A round is done, and nobody is waited for."""
        self._phase, self._round, self._ended, self._waiting = phase, t, self._clock(), {}

    def waiting(self, names: Iterable[str]) -> None:
        """The round waits for these neighbours, for some since before."""
        moment, before = self._clock(), self._waiting
        self._waiting = {name: before.get(name, moment) for name in names}

    def beat(self) -> None:
        """The peer's event loop goes round."""
        self._beat = self._clock()

    @property
    def live(self) -> bool:
        """Whether the event loop has gone round of late: neighbours are answered."""
        return self._clock() - self._beat < FROZEN

    @property
    def ready(self) -> bool:
        """Whether letters are taken."""
        return self.live and self._up

    def facts(self) -> dict[str, Any]:
        """All of it, as plain values."""
        moment = self._clock()
        return {
            "node": self.node,
            "live": self.live,
            "ready": self.ready,
            "done": self._done,
            "phase": self._phase,
            "round": self._round,
            "last round ended": _time(self._ended) if self._ended else None,
            "waiting": [
                {"for": name, "since": _time(since), "seconds": round(moment - since, 1)}
                for name, since in sorted(self._waiting.items())
            ],
        }

    def answer(self, path: str) -> tuple[bool, bytes] | None:
        """Whether all is well and the JSON that says so; None for a path that is not one of ours.

        /live and /ready are well where the peer is, /health where both are.
        """
        well = {"/live": self.live, "/ready": self.ready, "/health": self.ready}.get(path)
        return None if well is None else (well, json.dumps(self.facts()).encode() + b"\n")


def _time(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H:%M:%SZ}"


async def beating(health: Health, sign: Path) -> None:
    """Give signs of life until cancelled: to `health`, and as the time of a file.

    A process that is stopped or stuck gives none, so that those who look from outside can tell.
    """
    while True:
        health.beat()
        os.utime(sign)
        await asyncio.sleep(BEAT)


def silent_for(sign: Path) -> float:
    """Seconds since the last sign of life in a file."""
    return max(time.time() - sign.stat().st_mtime, 0.0)
