"""Run folders: records, histories and what they were made with; written whole or not at all."""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import tomli_w
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, field_validator

from peerwise.data.formats import write_frame
from peerwise.errors import BadFile
from peerwise.files import (
    BLANK,
    BROKEN,
    check,
    one_line,
    read_json,
    warn_unhashed,
    write_hashed,
    write_json,
)
from peerwise.learner import Outcome
from peerwise.study.provenance import environment
from peerwise.study.store import WHOLE, Row, Store, check_results

_AGAIN = "run the command again"


class Record(BaseModel):
    """One number of a table: ours and, where there is one, the paper's."""

    model_config = ConfigDict(extra="forbid")

    paper: str | None
    item: str
    dataset: str
    setting: dict[str, Any]  # at least `method` and what the table varies; `column` names it
    metric: str
    value: float | None
    std: float | None  # over repetitions
    reps: int
    paper_value: float | None = None
    values: list[float] = []  # one a repetition, where they are known and not too many

    @field_validator("value", "std", "paper_value")
    @classmethod
    def _finite_or_none(cls, number: float | None) -> float | None:
        """JSON has no infinity: a number that is none is not there."""
        return number if number is not None and math.isfinite(number) else None

    @field_validator("values")
    @classmethod
    def _all_finite_or_none(cls, numbers: list[float]) -> list[float]:
        return numbers if all(map(math.isfinite, numbers)) else []

    @field_validator("setting")
    @classmethod
    def _finite_or_text(cls, setting: dict[str, Any]) -> dict[str, Any]:
        strange = {k: str(v) for k, v in setting.items()
                   if isinstance(v, float) and not math.isfinite(v)}  # fmt: skip
        return {**setting, **strange}


class Claim(BaseModel):
    """A claim of a paper, how it is graded here, and the numbers that say so."""

    model_config = ConfigDict(extra="forbid")

    name: str
    claim: str
    rule: str  # when it counts as held
    ours: str
    paper: str
    verdict: Literal["held", "not held", "undecided"]
    reason: str = ""  # what the verdict rests on


def history_of(outcome: Outcome, **names: Any) -> pd.DataFrame:
    """One line for every repetition, recorded round and node of an outcome.

    What was measured after the last round only is empty before it.
    """
    arrays = {k: v for k, v in outcome.values.items() if v.ndim == 3 and "|" not in k}
    shape = outcome.values["test_error"].shape
    grid = np.indices(shape).reshape(3, -1)
    frame = pd.DataFrame({"repetition": grid[0], "round": outcome.rounds[grid[1]], "node": grid[2]})
    for name, value in arrays.items():
        full = np.full(shape, np.nan)
        full[:, -value.shape[1] :] = value
        frame[name] = full.reshape(-1)
    for name, value in reversed(names.items()):
        frame.insert(0, name, value)
    return frame


def write_folder(
    folder: Path,
    *,
    config: dict[str, Any],
    records: Iterable[Record],
    claims: Iterable[Claim] = (),
    history: pd.DataFrame | None = None,
    rows: Iterable[Row] | None = None,
    reading: Mapping[str, list[str]] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Write everything of a finished run; results.json comes last and says that it is whole.

    Without `rows` nothing was run: what the folder holds stays as it is, and so does the record of
    with what it was made. `reading`: how each data set was read, in words. `notes`: what is to be
    said wherever the numbers are shown.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for stale in ("claims.json", "history.parquet", "reading.json"):  # of what was run here before
        (folder / stale).unlink(missing_ok=True)
    write_hashed(folder / "config.toml", f"# {BLANK}\n{tomli_w.dumps(config)}".encode())
    if rows is not None:
        write_json(folder / "environment.json", environment())
    if reading:
        write_json(folder / "reading.json", {"data": dict(reading)})
    claimed = [c.model_dump(mode="json") for c in claims]
    if claimed:
        write_json(folder / "claims.json", {"claims": claimed})
    if history is not None:
        write_frame(folder / "history.parquet", history)
    if rows is not None:
        Store(folder).collect(rows, config)
    results: dict[str, Any] = {"records": [r.model_dump(mode="json") for r in records]}
    write_json(folder / "results.json", results | ({"notes": list(notes)} if notes else {}))


def _parsed(path: Path, member: str, kind: Any) -> Any:
    if not path.exists():
        raise BadFile(
            f"{path.parent} has no {path.name}: it is not a run folder, or the run is not finished "
            "(the same command with the same --out resumes it)"
        )
    try:
        return TypeAdapter(list[kind]).validate_python(read_json(path, _AGAIN).get(member))
    except ValidationError as error:
        raise BadFile(f"{path} is damaged: {error.errors()[0]['msg']}; {_AGAIN}") from None


def read_folder(folder: Path) -> tuple[list[Record], list[Claim], pd.DataFrame | None]:
    """Records, claims and history of a run folder whose files are all whole."""
    if (folder / WHOLE).exists():
        check_results(folder / WHOLE)
    records = read_records(folder)
    claims, path = [], folder / "claims.json"
    if path.exists():
        claims = _parsed(path, "claims", Claim)
    history, path = None, folder / "history.parquet"
    if path.exists():
        check(path, _AGAIN)
        try:
            history = pd.read_parquet(path)
        except BROKEN as error:
            raise BadFile(f"{path} is damaged: {one_line(error)}; {_AGAIN}") from None
    return records, claims, history


def read_records(folder: Path) -> list[Record]:
    """The numbers of a run folder's table."""
    records: list[Record] = _parsed(folder / "results.json", "records", Record)
    return records


def read_notes(folder: Path) -> list[str]:
    """What is to be said wherever the numbers of a run folder are shown."""
    notes = read_json(folder / "results.json", _AGAIN).get("notes", [])
    return [str(note) for note in notes] if isinstance(notes, list) else []


def read_asked(folder: Path) -> dict[str, Any]:
    """The description of a run folder: its config.toml."""
    path = folder / "config.toml"
    check(path, _AGAIN)
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except BROKEN as error:
        raise BadFile(f"{path} is damaged: {one_line(error)}; {_AGAIN}") from None


def read_values(folder: Path) -> pd.DataFrame:
    """Every metric of a run after its last round, a line a repetition: the mean over the nodes.

    Columns: dataset, method, what the run varied, repetition, metric, value. Repetitions are
    counted through over all seeds, and those of one number had the same rows and graph.
    """
    path = folder / WHOLE
    left_out = ["cell", "hash", "std", "dtype", "shape", "values", "texts"]
    left_out += ["made", "depends", "asked"]
    if not path.exists():
        raise BadFile(
            f"{folder} has no {WHOLE}: it is not a run folder, or the run is not finished"
        )
    hashed = check_results(path)
    try:
        names = pq.read_schema(path).names
        table = pq.read_table(
            path, columns=[n for n in names if n not in left_out], page_checksum_verification=True
        )
        frame = table.drop_columns(["value"]).to_pandas()
    except KeyError:
        raise  # of other columns: the caller says what it is not
    except BROKEN as error:
        raise BadFile(f"{path} is damaged: {one_line(error)}") from None
    if not hashed and "metric" in frame:
        warn_unhashed(path)
    whole = ~frame["metric"].str.contains("|", regex=False)  # not of a subgroup of the test rows
    frame = frame[whole & frame["repetitions"].notna()].rename(columns={"repetitions": "value"})
    frame["repetition"] = [np.arange(len(v)) for v in frame["value"]]
    frame = frame.explode(["repetition", "value"], ignore_index=True).astype({"value": float})
    frame["seed"] = frame["seed"].astype(int)
    frame["repetition"] = frame.groupby(["seed", "repetition"]).ngroup()
    order = [c for c in frame if c not in ("seed", "repetition", "metric", "value")]
    return frame[[*order, "repetition", "metric", "value"]]
