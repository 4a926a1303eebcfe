"""A round that fails because of what was heard is done again without the letters that make it fail.

Nothing here knows of letters or disks: `attempt` is given the names of those who are heard.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from peerwise.errors import BadFile, MissingExtra

Attempt = Callable[[tuple[str, ...]], Any]


class Settled(NamedTuple):
    """A round that was done: what came of it, with whom, and whose letters were left out."""

    result: Any  # None: it fails with everybody and with nobody
    heard: tuple[str, ...]
    aside: dict[str, str]  # by sender: why its letter was left out
    why: str = ""  # of the first failure


def settled(attempt: Attempt, senders: Sequence[str]) -> Settled:
    """The round with as many senders as possible.

    A sender with whom alone it fails is left out, while it works with nobody. If the others fail
    together, one is left out whose absence mends it, else they are added one by one. Nobody is
    blamed where the node fails by itself.
    """
    tries = _Tries(attempt)
    everybody = tuple(senders)
    if tries.works(everybody):
        return Settled(tries.result, everybody, {})
    first = tries.why[everybody]
    by_itself = tries.works(())
    good = tuple(name for name in everybody if tries.works((name,)))
    heard = _together(tries, good, by_itself)
    if heard is None:
        return Settled(None, (), {}, first)
    aside = {}
    if by_itself:
        for name in everybody:
            if name not in heard:
                aside[name] = tries.why.get((name,), f"with the others: {first}")
    tries.again(heard)
    return Settled(tries.result, heard, aside, first)


def _together(tries: "_Tries", good: tuple[str, ...], by_itself: bool) -> tuple[str, ...] | None:
    """As many of the good ones as work together; None where not even nobody works."""
    if good and tries.works(good):
        return good
    for name in good:
        rest = tuple(other for other in good if other != name)
        if rest and tries.works(rest):
            return rest
    heard: tuple[str, ...] | None = () if by_itself else None
    for name in good:
        more = (*(heard or ()), name)
        if tries.works(more):
            heard = more
    return heard


class _Tries:
    """What was tried so far; of the results the last is kept, for each may be large."""

    def __init__(self, attempt: Attempt):
        self._attempt = attempt
        self._last: tuple[tuple[str, ...], Any] = ((), None)
        self._worked: set[tuple[str, ...]] = set()
        self.why: dict[tuple[str, ...], str] = {}

    @property
    def result(self) -> Any:
        return self._last[1]

    def works(self, heard: tuple[str, ...]) -> bool:
        """Whether the round works with these."""
        if heard in self.why or heard in self._worked:
            return heard in self._worked
        try:
            self._last = heard, self._attempt(heard)
        except (BadFile, MissingExtra):
            raise  # this machine's own trouble, whatever was heard
        except Exception as error:  # whatever numbers of others bring about
            self.why[heard] = str(error) or type(error).__name__
            return False
        self._worked.add(heard)
        return True

    def again(self, heard: tuple[str, ...]) -> None:
        """Have the result of these at hand."""
        if self._last[0] != heard or self._last[1] is None:
            self._last = heard, self._attempt(heard)
