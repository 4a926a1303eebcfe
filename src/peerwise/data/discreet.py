"""Whether a message may quote the contents of a cell.

On the terminal of somebody who reads a file of their own it helps. What a peer says ends up in
logs, in tickets and at neighbours: there a column and a row are named, and never a value.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from traceback import extract_tb

from peerwise.errors import BadData, PeerwiseError

_DISCREET = ContextVar("discreet", default=False)


@contextmanager
def discreet() -> Iterator[None]:
    """A block, or a decorated function, in which no message quotes a cell.

    Errors of other libraries, which may quote what they could not read, become BadData with their
    kind and place.
    """
    before = _DISCREET.set(True)
    try:
        yield
    except (PeerwiseError, OSError, MemoryError):
        raise
    except Exception as error:
        frame = extract_tb(error.__traceback__)[-1]
        where = f"{Path(frame.filename).name}, line {frame.lineno}"
        raise BadData(
            f"the rows cannot be used: {type(error).__name__} at {where}; `peerwise data show` on "
            "the same file says more"
        ) from None
    finally:
        _DISCREET.reset(before)


def is_discreet() -> bool:
    """Whether messages must not quote cells here."""
    return _DISCREET.get()


def shown(cell: object, instead: str) -> str:
    """A cell in quotes, or the words to use instead of it."""
    return instead if _DISCREET.get() else f"'{cell}'"
