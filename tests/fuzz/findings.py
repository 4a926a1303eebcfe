"""What a fuzzer found: each kind once, with its smallest reproduction and how often it came."""

import sys
import traceback
from typing import Any, NamedTuple

from peerwise.errors import PeerwiseError


class Finding(NamedTuple):
    """Something that must not be."""

    kind: str  # "crash", "not finite", "runtimes disagree", "unread key", "other content" ...
    where: str  # what tells it from others
    what: str
    case: str  # a reproduction
    times: int = 1


class Findings:
    """Everything found so far, equal things together."""

    def __init__(self) -> None:
        self.all: dict[tuple[str, str], Finding] = {}

    def add(self, kind: str, where: str, what: str, case: str) -> None:
        """Note a finding; one that was seen before is counted."""
        key = kind, where
        if key in self.all:
            self.all[key] = self.all[key]._replace(times=self.all[key].times + 1)
        else:
            self.all[key] = Finding(kind, where, what, case)
            print(f"-- {kind}: {where}\n{what}\n{case}", file=sys.stderr, flush=True)

    def known(self, kind: str, where: str) -> bool:
        """Whether this was found before."""
        return (kind, where) in self.all

    def listed(self) -> str:
        """All of them, for people."""
        return "\n\n".join(
            f"{f.kind} ({f.times} times): {f.where}\n{f.what}\n{f.case}" for f in self.all.values()
        )


def place_of(error: BaseException) -> str:
    """The error's type and the innermost line of the package that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "peerwise" in f.filename] or frames
    last = own[-1]
    return f"{type(error).__name__} at {last.filename.rpartition('peerwise/')[2]}:{last.lineno}"


def complaint(error: BaseException) -> str | None:
    """Why an error is not one that a user can mend; None if it is one line that says so."""
    text = str(error)
    if not isinstance(error, PeerwiseError):
        return f"{type(error).__name__}: {text[:300]}"
    if "\n" in text or not text.strip():
        return f"a message that is not one line: {text[:300]!r}"
    return None


def in_short(value: Any, length: int = 2000) -> str:
    """A value as text, cut where it is long."""
    text = str(value)
    return text if len(text) <= length else text[:length] + " ..."
