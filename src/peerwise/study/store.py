"""Jobs that are done, kept in a run folder.

While a run goes on, each is a file in `cells/`, written whole or not at all. When it ends, all of
them are put into one `results.parquet`: a row an array, with what was asked, what it depends on and
with what it was made. Files of earlier descriptions stay in `cells/`.
"""

import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from peerwise.errors import BadFile
from peerwise.files import BLANK, BROKEN, check, one_line, warn_unhashed, write_hashed
from peerwise.study.jobs import Arrays

WHOLE, LOOSE = "results.parquet", "cells"
_ABOUT = "about:"  # the array of a loose file that says how the others were made
_BROKEN = (*BROKEN, zipfile.BadZipFile, zlib.error)
_COPY, _AGAIN = "take a whole copy of it", "delete it and run again"


class Kept(NamedTuple):
    """The result of a job."""

    arrays: Arrays
    about: dict[str, Any]  # asked, depends, made: what was asked, from what and with what it came


class Row(NamedTuple):
    """A row of results.parquet: an array of a job, or a number that was worked out from several."""

    cell: str
    names: dict[str, Any]  # columns that tell it from others: dataset, method, what varies
    metric: str
    repetitions: np.ndarray | None = None  # mean over the nodes after the last round
    array: np.ndarray | None = None


class Store:
    """The jobs that a run folder holds."""

    def __init__(self, folder: Path):
        self.folder, self.loose = folder, folder / LOOSE

    def path(self, key: str) -> Path:
        """The file of a job while its run goes on."""
        return self.loose / f"{key}.npz"

    def get(self, key: str) -> Kept | None:
        """The job's result; None if the folder does not hold it."""
        path = self.path(key)
        if path.exists():
            check(path, _AGAIN)
            try:
                return _unpacked(path.read_bytes())
            except _BROKEN as error:
                raise BadFile(f"{path} is damaged ({one_line(error)}); {_AGAIN}") from None
        return self.whole().get(key)

    def put(self, key: str, arrays: Arrays, about: Mapping[str, Any]) -> None:
        """Keep a job's result."""
        buffer = io.BytesIO()
        text = json.dumps(about, default=str).encode()
        np.savez(buffer, **arrays, **{_ABOUT: np.frombuffer(text, np.uint8)})  # type: ignore[arg-type]
        with zipfile.ZipFile(buffer, "a") as file:
            file.comment = BLANK.encode()
        write_hashed(self.path(key), buffer.getvalue())

    def whole(self) -> dict[str, Kept]:
        """Every job of the collected file, by key."""
        path = self.folder / WHOLE
        if not path.exists():
            return {}
        about = path.stat()
        return _read(path, about.st_mtime_ns, about.st_size)

    def keys(self) -> list[str]:
        """The keys of all jobs."""
        loose = [path.stem for path in sorted(self.loose.glob("*.npz"))]
        return list(dict.fromkeys([*self.whole(), *loose]))

    def rows(self) -> list[Row]:
        """A row for every array of every job."""
        jobs = {key: self.get(key) for key in self.keys()}
        return [
            Row(key, {}, name, None, array)
            for key, kept in jobs.items() if kept is not None
            for name, array in kept.arrays.items()
        ]  # fmt: skip

    def asked(self) -> dict[str, Any]:
        """The configuration of the run that was collected; empty if there is none."""
        path = self.folder / WHOLE
        if not path.exists():
            return {}
        check_results(path)
        try:
            about = pq.read_schema(path).metadata or {}
            config: dict[str, Any] = json.loads(about.get(b"config", b"{}"))
        except _BROKEN as error:
            raise BadFile(f"{path} is damaged ({one_line(error)}); {_COPY}") from None
        return config

    def collect(self, rows: Iterable[Row], config: Mapping[str, Any] | None = None) -> Path:
        """Write rows with all that is known of their jobs; jobs of no row become loose files."""
        listed = list(rows)
        jobs = {key: self.get(key) for key in dict.fromkeys(row.cell for row in listed)}
        for key, kept in self.whole().items():
            if key not in jobs and not self.path(key).exists():
                self.put(key, kept.arrays, kept.about)
        lines = [_line(row, jobs[row.cell]) for row in listed]
        path = self.folder / WHOLE
        write_hashed(path, _parquet(lines, config or {}))
        for key in jobs:
            self.path(key).unlink(missing_ok=True)
        if self.loose.is_dir() and not any(self.loose.iterdir()):
            self.loose.rmdir()
        return path


def check_results(path: Path) -> bool:
    """Refuse a results.parquet that is damaged; whether it has a hash (of version 0.9 or later).

    Version 0.8 had a column of hashes instead: a file without either has lost its own.
    """
    if check(path, _COPY, needed=False):
        return True
    try:
        old = "hash" in pq.read_schema(path).names
    except BROKEN:
        old = False
    if not old:
        raise BadFile(f"{path} is damaged or of an earlier version: it has no hash; {_COPY}")
    return False


def _unpacked(content: bytes) -> Kept:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return Kept(arrays, json.loads(arrays.pop(_ABOUT).tobytes()))


def _line(row: Row, kept: Kept | None) -> dict[str, Any]:
    line: dict[str, Any] = {"cell": row.cell, **row.names, "metric": row.metric}
    if row.repetitions is not None:
        numbers = np.asarray(row.repetitions, float)
        with np.errstate(all="ignore"):  # a metric may be infinite
            spread = float(numbers.std(ddof=1)) if numbers.size > 1 else None
            line |= {"repetitions": numbers, "value": float(numbers.mean()), "std": spread}
    if row.array is not None:
        flat, texts = row.array.ravel(), row.array.dtype.kind in "US"
        line |= {"dtype": "text" if texts else row.array.dtype.name, "shape": row.array.shape}
        line |= {"texts": flat.tolist()} if texts else {"values": flat.astype(np.float64)}
    about = {} if kept is None else kept.about
    return line | {part: json.dumps(about.get(part), default=str) for part in _PARTS}


_PARTS = ("made", "depends", "asked")
_TYPES = {
    "metric": pa.string(),
    "value": pa.float64(),
    "std": pa.float64(),
    "repetitions": pa.list_(pa.float64()),
    "dtype": pa.string(),
    "shape": pa.list_(pa.int32()),
    "values": pa.list_(pa.float64()),
    "texts": pa.list_(pa.string()),
    **dict.fromkeys(_PARTS, pa.string()),
}
COLUMNS = ("cell", "dataset", "seed", *_TYPES)  # names that nothing else may have


def _parquet(lines: list[dict[str, Any]], config: Mapping[str, Any]) -> bytes:
    names = list(dict.fromkeys(name for line in lines for name in line if name not in _TYPES))
    fields = [*((name, pa.string()) for name in names), *_TYPES.items()]
    about = {"config": json.dumps(config, default=str), "hash": BLANK}
    schema = pa.schema(fields, metadata=about)
    columns = [
        pa.array([_text(line.get(f.name)) if f.name in names else line.get(f.name)
                  for line in lines], f.type)
        for f in schema
    ]  # fmt: skip
    buffer = io.BytesIO()
    pq.write_table(
        pa.table(columns, schema=schema), buffer, compression="zstd", compression_level=12,
        use_dictionary=[*names, "metric", *_PARTS], use_byte_stream_split=["values.list.element"],
        write_page_checksum=True,
    )  # fmt: skip
    return buffer.getvalue()


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


@lru_cache(maxsize=8)
def _read(path: Path, changed: int, size: int) -> dict[str, Kept]:
    """Every job of a results.parquet; numbers that were worked out from arrays are left out."""
    kept: dict[str, Kept] = {}
    hashed = check_results(path)
    try:
        table = pq.read_table(path, page_checksum_verification=True)
        for row in table.to_batches(max_chunksize=64):
            values = row.column("values")
            for i, line in enumerate(row.drop_columns(["values"]).to_pylist()):
                line["values"] = values[i].values.to_numpy() if values[i].is_valid else None
                if line["dtype"] is None:
                    continue
                about = {part: json.loads(line[part]) for part in _PARTS}
                job = kept.setdefault(line["cell"], Kept({}, about))
                text = line["dtype"] == "text"
                flat = np.asarray(line["texts"]) if text else line["values"].astype(line["dtype"])
                job.arrays[line["metric"]] = flat.reshape(line["shape"])
    except _BROKEN as error:
        raise BadFile(f"{path} is damaged ({one_line(error)}); {_COPY}") from None
    if not hashed:
        warn_unhashed(path)
    return kept
