"""Raw tables by name: a data folder's, a file's, scikit-learn's bundled ones, OpenML's."""

import warnings
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from peerwise.data import emnist, manifest
from peerwise.data.columns import factorise, spelt
from peerwise.data.discreet import is_discreet
from peerwise.data.formats import (
    TABULAR,
    Header,
    idx_parts,
    read_frame,
    read_header,
    read_npz,
    sheet_parts,
)
from peerwise.data.manifest import Entry
from peerwise.data.numbers import parse
from peerwise.errors import BadData, BadFile, BadSetting, UnknownName

Array = npt.NDArray[Any]
LABEL = "label"  # the target's name where the source has none

# name -> kind, rows, features, classes, note
BUNDLED: dict[str, tuple[str, int, int, int, str]] = {
    "digits": ("image", 1797, 64, 10, "8 x 8 images; the grey levels 0..16 are divided by 16."),
    "breast_cancer": ("tabular", 569, 30, 2, "Wisconsin diagnostic breast cancer."),
    "wine": ("tabular", 178, 13, 3, "Wine recognition."),
    "iris": ("tabular", 150, 4, 3, "Fisher's irises."),
}


class Table(NamedTuple):
    """A data set as its source has it: nothing scaled, filled in, encoded or shuffled."""

    name: str
    frame: pd.DataFrame | Array  # features: a frame, or [m, ...] images or embedded features
    labels: Array  # [m] str, None where missing
    target: str
    split: Array | None = None  # [m] "train" or "test" where the source defines it
    categorical: tuple[str, ...] | None = None  # the source's own typing, None when it has none
    note: str = ""  # what to know before quoting results
    public: bool = False  # a published set, whose kinds, categories and classes are no secret
    twice: tuple[str, ...] = ()  # names that more than one column of the file has


def load(name: str | Path, *, folder: str | Path | None = None, target: str | None = None) -> Table:
    """The data set of that name in the folder, at that path, bundled, or "openml:NAME_OR_ID".

    The folder is `folder` or the one the environment variable PEERWISE_DATA names, and its sets
    come before bundled ones. A file needs `target`; elsewhere it replaces the source's own.
    "emnist_letters" needs no manifest, only its published files in the folder or in emnist/, nor do
    the files that `published.SETS` knows by name.

    >>> load("iris").frame.shape
    (150, 4)
    """
    wanted = str(name)
    if wanted.startswith("openml:"):
        return _openml(wanted.removeprefix("openml:"), target)
    if Path(wanted).suffix.lower() in TABULAR:
        return _file(Path(wanted), target)
    home = manifest.find_folder(folder)
    entries = {} if home is None else manifest.read_manifest(home)
    if home is not None and wanted in entries:
        return _listed(home, entries[wanted], target)
    if wanted in BUNDLED:
        return _bundled(wanted, target)
    if Path(wanted).is_file():
        raise BadFile(
            f"'{wanted}' is not a file of type {' or '.join(TABULAR)}; save it as one of them"
        )
    if wanted == emnist.NAME:
        raise BadFile(
            f"'{wanted}' was not found; copy {', '.join(emnist.FILES)} into the data folder,"
            f" which `folder` or {manifest.FOLDER_VARIABLE} names"
        )
    error = UnknownName("data set", wanted, {*entries, *BUNDLED})
    if home is None:
        error.args = (f"{error} (no data folder is set; {manifest.FOLDER_VARIABLE} names one)",)
    raise error


def available(folder: str | Path | None = None) -> list[dict[str, Any]]:
    """The sets that `load` knows by name: the folder's, if there is a folder, then the bundled."""
    home = manifest.find_folder(folder)
    entries = {} if home is None else manifest.read_manifest(home)
    keys = ("name", "kind", "rows", "features", "classes", "source", "note")
    rows = [(*_summary(entry), "folder", _note(entry)) for entry in entries.values()]
    rows += [
        (name, *facts[:-1], "bundled", facts[-1])
        for name, facts in BUNDLED.items()
        if name not in entries
    ]
    return [dict(zip(keys, row, strict=True)) for row in rows]


def _texts(values: Any) -> Array:
    """Labels as texts, None where missing; 1 and 1.0 are the same where all are numbers.

    Under a privacy budget a label is its own text: one that is no number must not change others.
    """
    if is_discreet() and pd.api.types.is_object_dtype(values):  # a list or a table is no label
        values = np.array([v if isinstance(v, Hashable) else None for v in values], object)
    coded = factorise(values)
    read = parse(coded.texts)
    if not is_discreet() and read.fits.all() and not read.codes.any():
        coded = spelt(coded)
    return np.array([*coded.texts, None], dtype=object)[coded.codes]


def _summary(entry: Entry) -> tuple[Any, ...]:
    features = entry.get("features")
    if entry.get("kind") == "tabular" and "columns" in entry:
        features = len(manifest.feature_columns(entry, manifest.texts(entry, "columns")))
    return entry["name"], entry.get("kind"), entry.get("rows"), features, entry.get("classes")


def _note(entry: Entry) -> str:
    marks = [f"{word.capitalize()}." for word in ("derived", "subset") if entry.get(word) is True]
    if leaks := manifest.texts(entry, "leaks_target"):
        marks.append(
            f"Determines the target, so drop it unless a paper keeps it: {', '.join(leaks)}."
        )
    return " ".join([*marks, str(entry.get("notes", ""))]).strip()


def _file(path: Path, target: str | None) -> Table:
    if not path.is_file():
        raise BadFile(f"there is no file '{path}'")
    header = read_header(path)
    if target is None:
        raise BadSetting(
            f"'{path}' needs `target` (in a command --target), one of its columns"
            f"{_listing(header.names)}"
        )
    _known_target(path, target, header.names)
    _one_target(path, target, header)
    frame = read_frame(path, header)
    labels, twice = _texts(frame[target]), header.twice
    return Table(path.stem, frame.drop(columns=[target]), labels, target, twice=twice)


def _one_target(path: Path, target: str, header: Header) -> None:
    if target in header.twice:
        raise BadData(
            f"'{path}' has two columns called '{target}', the target: the second would give it "
            "away; rename or remove one"
        )


def _known_target(source: str | Path, target: str, columns: Sequence[str]) -> None:
    if target in columns:
        return
    if is_discreet():
        raise BadFile(
            f"'{source}' has no column '{target}', the target: none of the {len(columns)} names in "
            "its first line is that"
        )
    raise UnknownName(f"target column of '{source}'", target, columns)


def _listing(columns: Sequence[str]) -> str:
    """The names of columns; of a file without a header these would be the cells of a row."""
    if is_discreet():
        return f"; its first line must name its {len(columns)} columns"
    return f": {', '.join(columns)}"


def _listed(home: Path, entry: Entry, target: str | None) -> Table:
    readers: dict[str, Callable[[list[Path], Entry, str | None], Table]]
    readers = {"tabular": _table, "image": _images, "features": _features}
    kind = manifest.text(entry, "kind")
    if kind not in readers:
        known = ", ".join(readers)
        raise BadFile(
            f"the kind '{kind}' of the manifest's '{entry['name']}' is not one of {known}"
        )
    table = readers[kind](manifest.whole_files(home, entry), entry, target)
    if entry.get("rows") not in (None, len(table.labels)):
        listed, rows = entry["rows"], len(table.labels)
        raise BadFile(f"'{table.name}' has {rows} rows, but the manifest says {listed}")
    return table


def _table(paths: list[Path], entry: Entry, target: str | None) -> Table:
    if len(paths) != 1 or paths[0].suffix.lower() not in TABULAR:
        raise BadFile(f"'{entry['name']}' must be one file, {' or '.join(TABULAR)}")
    header = read_header(paths[0])
    columns = header.names
    target = target or manifest.text(entry, "target")
    split = manifest.optional_text(entry, "split_column")
    _known_target(entry["name"], target, columns)
    _one_target(paths[0], target, header)
    features = [c for c in manifest.feature_columns(entry, columns) if c != target]
    if split is not None and split not in columns:
        raise BadFile(f"the split column '{split}' of '{entry['name']}' is not in '{paths[0]}'")
    wanted = dict.fromkeys([*features, target, *([split] if split else [])])
    frame = read_frame(paths[0], header, list(wanted))
    categorical = manifest.texts(entry, "categorical") if "categorical" in entry else None
    return Table(
        name=entry["name"],
        frame=frame[features],
        labels=_texts(frame[target]),
        target=target,
        split=frame[split].astype(str).to_numpy(dtype=str) if split else None,
        categorical=categorical,
        note=_note(entry),
        public=True,
        twice=header.twice,
    )


def _features(paths: list[Path], entry: Entry, target: str | None) -> Table:
    _known_target(entry["name"], target or LABEL, [LABEL])
    held = read_npz(paths[0])
    if len(paths) != 1 or not {"x", "y"} <= held.keys() or ("low" in held) != ("high" in held):
        raise BadFile(f"'{paths[0]}' must be one file with x, y and, if quantised, low and high")
    x, y = held["x"], held["y"]
    if x.ndim != 2 or x.dtype.kind not in "buif" or y.shape != x.shape[:1]:
        raise BadFile(f"'{paths[0]}' has x of shape {x.shape} and y of shape {y.shape}")
    x = x.astype(np.float32)
    if "low" in held:
        low, high = held["low"].astype(np.float32), held["high"].astype(np.float32)
        if not low.shape == high.shape == x.shape[1:]:
            raise BadFile(f"low and high of '{paths[0]}' must have one value for each feature")
        x = low + x / np.float32(255) * (high - low)
    return Table(entry["name"], x, _names(entry, y), LABEL, note=_note(entry), public=True)


def _images(paths: list[Path], entry: Entry, target: str | None) -> Table:
    _known_target(entry["name"], target or LABEL, [LABEL])
    is_idx = all("ubyte" in p.name for p in paths)
    parts = idx_parts(paths) if is_idx else sheet_parts(paths, _shape(entry))
    if emnist.is_letters(paths):
        entry = {"class_names": emnist.CLASSES} | entry
    if not parts:
        raise BadFile(f"the labels of '{entry['name']}' must be called train or test")
    for part, (x, y) in parts.items():
        if len(x) != len(y):
            raise BadFile(f"'{entry['name']}' has {len(x)} images and {len(y)} labels in {part}")
    images = np.concatenate([x for x, _ in parts.values()])
    labels = _names(entry, np.concatenate([y for _, y in parts.values()]))
    split = np.repeat(list(parts), [len(y) for _, y in parts.values()])
    return Table(entry["name"], images, labels, LABEL, split, note=_note(entry), public=True)


def _shape(entry: Entry) -> list[int]:
    shape = entry.get("shape", [32, 32, 3])
    whole = isinstance(shape, list) and all(type(n) is int and n > 0 for n in shape)
    if not whole or shape[2:] not in ([], [3]):
        raise BadFile(f"the shape of '{entry['name']}' must be [height, width] or [.., .., 3]")
    return list(shape)


def _names(entry: Entry, y: Array) -> Array:
    names = manifest.texts(entry, "class_names")
    if not names:
        return _texts(y)
    if y.dtype.kind not in "iu" or np.any((y < 0) | (y >= len(names))):
        raise BadFile(f"'{entry['name']}' has labels beyond its {len(names)} class names")
    return np.array(names, dtype=object)[y]


def _bundled(name: str, target: str | None) -> Table:
    from sklearn import datasets

    _known_target(name, target or "class", ["class"])
    bunch = getattr(datasets, f"load_{name}")(as_frame=True)
    frame: pd.DataFrame | Array = bunch.data
    if BUNDLED[name][0] == "image":
        frame = (bunch.images / bunch.images.max()).astype(np.float32)
    labels = _texts(np.asarray(bunch.target_names)[bunch.target])
    return Table(name, frame, labels, "class", None, (), BUNDLED[name][-1], True)


def _openml(name: str, target: str | None) -> Table:
    from sklearn import datasets

    which = {"data_id": int(name)} if name.isdecimal() else {"name": name}
    try:
        with warnings.catch_warnings():
            # the BadFile below reports it; warnings about the data set itself stay
            warnings.filterwarnings("ignore", message="A network error occurred")
            bunch = datasets.fetch_openml(**which, target_column=None, as_frame=True, n_retries=1)
    except OSError as error:
        raise BadFile(
            f"cannot fetch '{name}' from OpenML ({error}); it needs a connection,"
            " or download the file and give its path"
        ) from error
    except ValueError as error:
        raise BadFile(f"OpenML has no table '{name}' that can be read: {error}") from error
    target = target or bunch.details.get("default_target_attribute")
    if target is None:
        raise BadSetting(f"OpenML names no target for '{name}'; give `target`")
    _known_target(f"openml:{name}", target, list(bunch.frame.columns))
    note = f"OpenML {bunch.details.get('id', name)}, version {bunch.details.get('version', '?')}."
    frame, labels = bunch.frame.drop(columns=[target]), _texts(bunch.frame[target])
    return Table(f"openml:{name}", frame, labels, target, note=note, public=True)
