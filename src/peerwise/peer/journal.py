"""What a peer writes down for people: lines of JSON, in files that do not grow without end."""

import json
import logging
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path

from peerwise.peer.store.file import now

JOURNAL, SECURITY = "peer.log", "security.log"
BYTES, FILES = 8 << 20, 3  # of a file, and how many older ones are kept
LINES, WINDOW = 10, 60.0  # of one caller within so many seconds; the others are counted
CALLERS = 1024  # that are counted one by one

log = logging.getLogger("peerwise.peer")
# who was refused and why; it has a file of its own, too
security = logging.getLogger("peerwise.peer.security")


class Sparing:
    """At most so many lines of one caller in a while; the next one says how many were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._seen: dict[str, tuple[float, int, int]] = {}  # since when, lines, left out

    def left_out(self, caller: str) -> int | None:
        """How many lines were left out before this one; None where this one is to be, too."""
        if caller not in self._seen and len(self._seen) >= CALLERS:
            caller = ""  # all further ones together
        moment = self._clock()
        since, lines, left = self._seen.get(caller, (moment, 0, 0))
        if moment - since >= WINDOW:
            since, lines = moment, 0
        if lines >= LINES:
            self._seen[caller] = since, lines, left + 1
            return None
        self._seen[caller] = since, lines + 1, 0
        return left


class _Stderr(logging.Handler):
    """Lines to what is the standard error when they are written."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):  # where nobody reads it any more, the peer goes on
            print(self.format(record), file=sys.stderr, flush=True)


class _File(RotatingFileHandler):
    """Lines in a file; that a disk takes none is said once, until it takes one again."""

    _failed = _fails = False  # with the line before, and with this one

    def emit(self, record: logging.LogRecord) -> None:
        self._failed, self._fails = self._fails, False
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's name)
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._fails = True
        if not self._failed:
            with suppress(OSError, ValueError):
                print(f"cannot write {self.baseFilename}: {error}", file=sys.stderr, flush=True)


class _Json(logging.Formatter):
    """A line of JSON for every event."""

    def __init__(self, node: str):
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        facts = getattr(record, "facts", {})
        line = {"time": now(), "level": record.levelname.lower(), "node": self._node,
                "event": record.getMessage(), **facts}  # fmt: skip
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to(folder: Path, node: str, quiet: bool) -> None:
    """Events go to files beside the state, and to the standard error unless quiet."""
    log.setLevel(logging.INFO)
    log.propagate = False
    handlers: list[tuple[logging.Logger, logging.Handler]] = [
        (log, _file(folder / JOURNAL)),
        (security, _file(folder / SECURITY)),
    ]
    if not quiet:
        handlers.append((log, _Stderr()))
    for logger in (log, security):
        for old in logger.handlers[:]:
            logger.removeHandler(old)
            old.close()
    for logger, handler in handlers:
        handler.setFormatter(_Json(node))
        logger.addHandler(handler)


def _file(path: Path) -> logging.Handler:
    return _File(path, maxBytes=BYTES, backupCount=FILES, encoding="utf-8")
