"""Sets that need no entry in a manifest: files known by the name under which they are published."""

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from peerwise.data import emnist


class Published(NamedTuple):
    """The manifest entry of a published set, and the names that its file may have."""

    files: tuple[str, ...]
    kind: str
    features: int
    classes: int
    notes: str
    target: str = ""
    not_features: tuple[str, ...] = ()


def _tables(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}{kind}" for name in names for kind in (".csv", ".parquet"))


def _embedded(name: str, of: str) -> Published:
    note = f"{of}, embedded by a pretrained network: x [rows, 512], y [rows]."
    return Published((f"{name}.npz",), "features", 512, 2, note)


# By the names that papers' tables have for them; docs/data.md has the columns.
SETS = {
    "bank_marketing": Published(
        _tables("bank_marketing", "bank-full"), "tabular", 16, 2,
        "Bank Marketing (Moro, Rita and Cortez; UCI 222), bank-full.csv.", "y",
    ),
    "run_or_walk": Published(
        _tables("run_or_walk"), "tabular", 6, 2,
        "Run or Walk (kaggle vmalyi/run-or-walk), its dataset.csv.", "activity",
        ("date", "time", "username", "wrist"),
    ),
    "smoking": Published(
        _tables("smoking"), "tabular", 25, 2,
        "Body signal of smoking (kaggle kukuroo3), smoking.csv.", "smoking", ("ID",),
    ),
    "cats_vs_dogs_features": _embedded("cats_vs_dogs_features", "Cats vs. dogs"),
    "yearbook_features": _embedded("yearbook_features", "Portraits of American yearbooks"),
}  # fmt: skip


def published(folder: Path) -> dict[str, dict[str, Any]]:
    """Manifest entries of the known files that lie in a folder, or in one that has a set's name."""
    entries = emnist.published(folder)
    for name, of in SETS.items():
        places = [folder / place / file for place in ("", name) for file in of.files]
        path = next((path for path in places if path.is_file()), None)
        if path is None:
            continue
        entries[name] = {
            "name": name,
            "kind": of.kind,
            "listed": False,
            "file": path.relative_to(folder).as_posix(),
            "rows": _rows(path, path.stat().st_mtime_ns),
            "features": of.features,
            "classes": of.classes,
            "notes": of.notes,
            **({"target": of.target} if of.target else {}),
            "not_features": list(of.not_features),
        }
    return entries


@lru_cache(maxsize=64)
def _rows(path: Path, changed: int) -> int | None:
    """How many rows a file has; None where it cannot be read, which reading it says better."""
    try:
        if path.suffix == ".npz":
            with np.load(path) as held:
                return len(held["y"])
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            return int(pq.ParquetFile(path).metadata.num_rows)
        with path.open("rb") as lines:
            return sum(bool(line.strip()) for line in lines) - 1
    except (OSError, ValueError, KeyError, TypeError):
        return None
