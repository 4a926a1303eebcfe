"""Processes that run one network together: how they say something to each other.

Without `jax.distributed` there is one process, which agrees with itself.
"""

import jax
import numpy as np
from jax.experimental import multihost_utils

from peerwise.errors import PeerwiseError

LONGEST = 480  # bytes of what a process can say at once


class Elsewhere(PeerwiseError):
    """What went wrong in another of the processes that run a network together."""


def said_by_all(text: str) -> list[str]:
    """What every process says, in their order; all must come to this point."""
    if jax.process_count() == 1:
        return [text]
    said = text.encode()[:LONGEST]
    letter = np.zeros(LONGEST + 1, np.uint8)
    letter[: len(said)] = np.frombuffer(said, np.uint8)
    letters = multihost_utils.process_allgather(letter)
    return [bytes(row).rstrip(b"\0").decode(errors="replace") for row in np.asarray(letters)]


def meet(text: str = "", failure: str = "") -> list[str]:
    """What every process says, unless one has failed: then that is raised in all of them."""
    said = said_by_all(f"!{failure}" if failure else f".{text}")
    for i, word in enumerate(said):
        if word.startswith("!"):
            where = f"process {i}: " if jax.process_count() > 1 else ""
            raise Elsewhere(where + word[1:])
    return [word[1:] for word in said]


def first_says(text: str) -> str:
    """What process 0 says, in all processes."""
    return said_by_all(text)[0]


def is_first() -> bool:
    """Whether this process writes what the run gives."""
    return jax.process_index() == 0
