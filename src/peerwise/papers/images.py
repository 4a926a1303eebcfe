"""Images as rows of scaled pixels, and at which rounds networks that learn them are looked at."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from peerwise import data as sets

__all__ = ["Images", "images", "recorded", "rows_at_once"]

BLOCK = {"cnn": 64, "cnn_dropout": 64, "lenet": 100}  # for nets with large layers


class Images(NamedTuple):
    """Rows of pixels, scaled."""

    x: np.ndarray  # [m, pixels]
    y: np.ndarray  # [m]
    x_test: np.ndarray
    y_test: np.ndarray
    shape: tuple[int, ...]  # of an image
    classes: int


@lru_cache(maxsize=2)  # a set, and another whose images are strange to it
def images(
    data: str, rows: int | None = None, test_rows: int | None = None, scale: str = "standard"
) -> Images:
    """The images of a set in its own split, or the first so many of a fixed random order.

    `scale`: "standard" (by the mean and standard deviation of all training pixels) or "unit" (from
    0 to 1).
    """
    table = sets.load(data)
    classes, y = np.unique(table.labels.astype(str), return_inverse=True)
    train, test = (np.flatnonzero(table.split == part) for part in ("train", "test"))
    order = np.random.default_rng(0)
    train = order.permutation(train)[:rows]
    test = order.permutation(test)[:test_rows]
    pixels = np.asarray(table.frame)
    shape = pixels.shape[1:]
    flat = pixels.reshape(len(pixels), -1)
    seen = flat[train]
    if scale == "standard":
        center, spread = float(seen.mean()), float(seen.std())
    else:
        center, spread = 0.0, float(seen.max())

    def scaled(part: np.ndarray) -> np.ndarray:
        return (flat[part].astype(np.float32) - center) / spread

    return Images(scaled(train), y[train], scaled(test), y[test], shape, len(classes))


def recorded(rounds: int, every: int) -> list[int]:
    """Rounds to look at: closely in the beginning, then every so many."""
    early = {1, 2, 3, 4, 5, 7, 10, 14, 20, 28}
    return sorted({r for r in early if r <= rounds} | {*range(every, rounds + 1, every), rounds})


def rows_at_once(net: str) -> int:
    """How many test rows all nodes score at a time: fewer where layers are large."""
    return BLOCK.get(net, 1024)
