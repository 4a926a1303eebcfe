"""The file formats of a data folder: tables, idx arrays, sheets of images."""

import gzip
import io
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from peerwise.data import emnist
from peerwise.data.discreet import is_discreet
from peerwise.errors import BadFile, PeerwiseError
from peerwise.files import BLANK, MARK, check, one_line, write_hashed

Array = npt.NDArray[Any]
SPLITS = ("train", "test")
TABULAR = (".csv", ".parquet")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns whatever a damaged file makes its reader raise into a BadFile that names it."""
    damage = (OSError, ValueError, EOFError, KeyError, TypeError, SyntaxError, zlib.error)
    try:
        yield
    except PeerwiseError:
        raise
    except pd.errors.EmptyDataError as error:
        raise BadFile(f"'{path}' is empty; give a file with a line of column names") from error
    except UnicodeDecodeError as error:
        raise BadFile(
            f"'{path}' is not text in UTF-8; save it again with that encoding (in Excel: \"CSV "
            'UTF-8"; or `iconv -f latin1 -t utf-8 OLD > NEW`)'
        ) from error
    except (*damage, zipfile.BadZipFile, pa.ArrowException, pd.errors.ParserWarning) as error:
        # those of these kinds tell lines and columns; others may quote what they could not read
        plain = isinstance(error, OSError | pd.errors.ParserError | pd.errors.ParserWarning)
        why = type(error).__name__ if is_discreet() and not plain else one_line(error)
        raise BadFile(f"cannot read '{path}' ({why}); repair it or copy it again") from error


class Header(NamedTuple):
    """The names of a table's columns, and how its cells are separated."""

    names: list[str]
    sep: str  # "" for Parquet; ends with a space where one follows every separator
    twice: tuple[str, ...] = ()  # names that more than one column has


def read_header(path: Path) -> Header:
    """The columns of a table; the second of two columns with one name becomes NAME.1."""
    with _reading(path):
        if path.suffix.lower() == ".parquet":
            schema = pq.read_schema(path)
            index = (schema.pandas_metadata or {}).get("index_columns", [])
            return Header([c for c in schema.names if c not in index], "")
        with path.open(encoding="utf-8-sig") as stream:
            line = stream.readline()
        sep = max(",;\t", key=line.count)
        sep += " " if line.count(sep) and line.count(sep) == line.count(sep + " ") else ""
        first = _csv(path, sep, header=None, nrows=1).iloc[0]
    given = [f"Unnamed: {i}" if pd.isna(n) else str(n).strip() for i, n in enumerate(first)]
    names: list[str] = []
    for name in given:
        number = names.count(name)
        while (new := f"{name}.{number}" if number else name) in names or (number and new in given):
            number += 1
        names.append(new)
    return Header(names, sep, tuple(dict.fromkeys(n for n in given if given.count(n) > 1)))


def read_frame(path: Path, header: Header, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """The named columns of a table, or all; the cells of a CSV file as texts, nothing changed.

    A CSV file has no types: what its texts mean is for the schema to say. Empty cells are missing.
    """
    wanted = list(header.names if columns is None else columns)
    with _reading(path):
        if not header.sep:
            if MARK.encode() in (pq.read_schema(path).metadata or {}).get(b"hash", b""):
                check(path, "take a whole copy of it")
            # a column of whole numbers with a gap is not made one of floating-point numbers, which
            # would round large codes
            return pd.read_parquet(
                path,
                "pyarrow",
                columns=wanted,
                to_pandas_kwargs={"integer_object_nulls": True},
            )
        return _csv(path, header.sep, header=0, names=header.names)[wanted].copy()


def write_frame(path: Path, frame: pd.DataFrame) -> None:
    """Write a table as Parquet, with the hash of the file, which `read_frame` checks."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), "hash": BLANK})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    write_hashed(path, buffer.getvalue())


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of an npz file by name; pickled objects are refused."""
    with _reading(path), path.open("rb") as stream, np.load(stream, allow_pickle=False) as held:
        return {name: held[name] for name in held}


def _csv(path: Path, sep: str, **options: Any) -> pd.DataFrame:
    options |= {"dtype": "str", "keep_default_na": False, "na_values": [""]}
    options |= {"index_col": False, "skipinitialspace": sep.endswith(" ")}
    with warnings.catch_warnings():
        # rows longer than the header would lose values with no more than a warning, and with
        # `usecols` without one: so all columns are read
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame: pd.DataFrame = pd.read_csv(path, sep=sep[0], **options)
        return frame


def _of_split(paths: list[Path], split: str) -> list[Path]:
    chosen = [p for p in paths if _split(p) == split]
    # train_10 comes after train_2
    return sorted(chosen, key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)])


def _split(path: Path) -> str:
    for word, split in {"train": "train", "test": "test", "t10k": "test"}.items():
        if word in path.name.lower():
            return split
    raise BadFile(f"'{path}' must have train, test or t10k in its name, to show which part it is")


def idx_parts(paths: list[Path]) -> dict[str, tuple[Array, Array]]:
    """Images [m, ...] and labels [m] of the train and the test part, from idx files."""
    parts = {}
    for split in SPLITS:
        files = _of_split(paths, split)
        pair = [[p for p in files if word in p.name] for word in ("images", "labels")]
        if files and any(len(side) != 1 for side in pair):
            raise BadFile(f"the {split} part must be one file of images and one of labels")
        if files:
            parts[split] = (_idx(pair[0][0]), _idx(pair[1][0]))
    return parts


def _idx(path: Path) -> Array:
    """The bytes of an idx file: two zeros, 8 for bytes, the rank, the sizes, the data."""
    with _reading(path):
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if raw[:3] != b"\0\0\x08":
            raise BadFile(f"'{path}' is not an idx file of bytes")
        shape = np.frombuffer(raw, ">i4", count=raw[3], offset=4)
        array = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)
    return emnist.mended(path.name, array)


def sheet_parts(paths: list[Path], shape: Sequence[int]) -> dict[str, tuple[Array, Array]]:
    """Images [m, *shape] and labels [m] of each part, from sheets of tiles in row-major order."""
    sheets = [p for p in paths if p.suffix.lower() in (".webp", ".png")]
    others = [p for p in paths if p not in sheets]
    if not sheets or len(others) != 1 or others[0].suffix != ".npz":
        raise BadFile(f"'{paths[0]}' and the rest must be WebP or PNG sheets and one labels.npz")
    labels = read_npz(others[0])
    parts = {}
    for split in (s for s in SPLITS if s in labels):
        y = labels[split]
        tiles = [_tiles(p, tuple(shape)) for p in _of_split(sheets, split)] or [np.empty(0)]
        x = np.concatenate(tiles)
        # the last row of tiles may be filled up with empty ones
        parts[split] = (x[: len(y)] if 0 <= len(x) - len(y) < 100 else x, y)
    return parts


def _tiles(path: Path, shape: tuple[int, ...]) -> Array:
    from PIL import Image

    height, width = shape[:2]
    limit = Image.MAX_IMAGE_PIXELS
    with _reading(path):
        try:
            # the limit guards against decompression bombs; a sheet is meant to be large
            Image.MAX_IMAGE_PIXELS = None
            with Image.open(path) as image:
                sheet = np.asarray(image.convert("RGB" if len(shape) == 3 else "L"))
        finally:
            Image.MAX_IMAGE_PIXELS = limit
        down, across = sheet.shape[0] // height, sheet.shape[1] // width
        grid = sheet.reshape(down, height, across, width, -1).swapaxes(1, 2)
        return grid.reshape(-1, *shape)
