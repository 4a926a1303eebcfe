"""The progress of a run: now and then a line of JSON in a file of its own."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from peerwise.learner.run import Seen

SUFFIX = ".live"
NODES = 400  # so many are told of one by one
PAUSE = 0.1  # seconds at least between two lines


def writer(path: Path) -> "Callable[[Seen], None]":
    """A watcher that begins the file anew and adds lines to it; one that cannot write is silent.

    A line has what was measured since the last one, over all nodes and repetitions of the group,
    and the nodes of its first repetition as they are now.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    last_line = {"group": -1, "seen": 0, "time": 0.0}

    def tell(seen: "Seen") -> None:
        if last_line["group"] != seen.group:
            last_line.update(group=seen.group, seen=0)
        last, now = seen.rounds >= seen.total, time.monotonic()
        if not last and now - last_line["time"] < PAUSE:
            return
        last_line["time"] = now
        new = seen.error[:, int(last_line["seen"]) :]
        at = seen.recorded[int(last_line["seen"]) :]
        last_line["seen"] = seen.error.shape[1]
        line: dict[str, Any] = {
            "round": seen.rounds, "of": seen.total, "group": seen.group, "groups": seen.groups,
            "seconds": round(seen.seconds, 3), "x": at.tolist(),
        }  # fmt: skip
        if len(at):
            flat = np.moveaxis(new, 1, 0).reshape(len(at), -1)
            low, high = np.nanquantile(flat, (0.1, 0.9), axis=1)
            for name, values in (("mean", flat.mean(1)), ("lo", low), ("hi", high)):
                line[name] = _plain(values)
            line["nodes"] = _plain(new[0, -1][:NODES])
        try:
            with path.open("a") as file:
                file.write(json.dumps(line) + "\n")
        except OSError:  # a full disk must not end what is learnt
            return

    return tell


def _plain(values: np.ndarray) -> list[float | None]:
    return [round(float(v), 5) if np.isfinite(v) else None for v in values]


def lines(path: Path, begin: int = 0) -> tuple[list[dict[str, Any]], int]:
    """The whole lines of a file from a byte on, and where the next begins; none if it is gone."""
    try:
        with path.open("rb") as file:
            file.seek(begin)
            content = file.read()
    except OSError:
        return [], begin
    end = content.rfind(b"\n") + 1
    entries = []
    for text in content[:end].splitlines():
        try:
            entries.append(json.loads(text))
        except ValueError:  # written over by a run that began anew
            continue
    return entries, begin + end
