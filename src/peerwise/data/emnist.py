"""EMNIST as it is published (Cohen et al., 2017): known by the start of its files' names."""

from pathlib import Path, PurePosixPath
from string import ascii_lowercase
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
# What `load` calls EMNIST-Letters.
NAME = "emnist_letters"
MARK = "emnist-letters-"
# The files of EMNIST-Letters under their published names.
FILES = tuple(
    f"{MARK}{part}-{kind}-ubyte.gz"
    for part in ("train", "test")
    for kind in ("images-idx3", "labels-idx1")
)
PLACES = ("", "emnist_letters", "emnist")  # where they may lie in a data folder
CLASSES = list(ascii_lowercase)


def is_letters(paths: list[Path]) -> bool:
    """Whether these are files of EMNIST-Letters, whose 26 classes are letters."""
    return all(path.name.startswith(MARK) for path in paths)


def mended(name: str, array: Array) -> Array:
    """The array of the idx file `name`: EMNIST's images upright and its letters from 0, as MNIST.

    EMNIST stores every image with x and y swapped, and numbers its letters 1..26. Other files
    stay as they are.

    >>> mended("emnist-letters-test-labels-idx1-ubyte.gz", np.array([1, 26], np.uint8)).tolist()
    [0, 25]
    >>> mended("emnist-digits-test-images-idx3-ubyte", np.array([[[1, 2], [3, 4]]])).tolist()
    [[[1, 3], [2, 4]]]
    """
    if name.startswith("emnist-") and array.ndim == 3:
        return np.ascontiguousarray(array.swapaxes(1, 2))
    return array - 1 if name.startswith(MARK) and array.ndim == 1 else array


def published(folder: Path) -> dict[str, dict[str, Any]]:
    """The manifest entry of EMNIST-Letters by its name, if any of its files lies in the folder.

    A copy of the published files thus needs no entry; `load` reports a file that is missing.
    """
    here = {place: sum((folder / place / file).is_file() for file in FILES) for place in PLACES}
    place = max(PLACES, key=here.__getitem__)
    entry = {
        "name": NAME,
        "kind": "image",
        "listed": False,
        "files": [{"file": str(PurePosixPath(place, file))} for file in FILES],
        "features": 28 * 28,
        "classes": len(CLASSES),
        "notes": "EMNIST-Letters: handwritten letters, a class for upper and lower case together.",
    }
    return {NAME: entry} if here[place] else {}
