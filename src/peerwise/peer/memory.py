"""Memory of large letters goes back to the system once they are used up (glibc).

Left to itself, it keeps what was freed in pieces too small for the next letters.
"""

import ctypes
import gc
from contextlib import suppress

from peerwise.peer.pieces import PIECE

TRIM_THRESHOLD, MMAP_THRESHOLD, ARENA_MAX = -1, -3, -8  # numbers of malloc.h
OWN = 4 * PIECE  # bytes from which on a piece of memory is one by itself
TRIM = 1 << 26  # bytes at the end of a heap that stay: pieces of letters come and go all the time
OBJECTS = 20_000  # new ones after which the garbage collector looks at them
ARENAS = 2  # heaps of small pieces: with one a thread, what callers leave behind is in all of them


def give_back_memory() -> None:
    """Have each large letter in a piece of memory of its own, which goes back with it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, OWN)
        ctypes.CDLL(None).mallopt(TRIM_THRESHOLD, TRIM)
        ctypes.CDLL(None).mallopt(ARENA_MAX, ARENAS)


def give_back_rest() -> None:
    """Give back what large letters left behind: the network reads them in small pieces."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_objects() -> None:
    """Have the garbage collector pass over what is there now: most of it are libraries.

    And look less often: what calls leave behind goes by itself, but for little.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS)
