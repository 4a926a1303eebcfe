"""Run folders: records, histories and what they were made with; written whole or not at all."""

import json
import platform
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import tomli_w
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from peerwise import __version__
from peerwise.checkpoint import write_whole
from peerwise.errors import BadFile
from peerwise.learner import Outcome


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
    arrays = {k: v for k, v in outcome.values.items() if v.ndim == 3}
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


def _environment() -> dict[str, Any]:
    libraries = ("jax", "jaxlib", "numpy", "pandas", "scikit-learn", "networkx")
    return {
        "peerwise": __version__,
        "python": sys.version.split()[0],
        "system": platform.platform(),
        "processor": platform.machine(),
        **{name: metadata.version(name) for name in libraries},
    }


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, allow_nan=False) + "\n").encode()


def write_folder(
    folder: Path,
    *,
    config: dict[str, Any],
    records: Iterable[Record],
    claims: Iterable[Claim] = (),
    history: pd.DataFrame | None = None,
) -> None:
    """Write everything of a finished run; results.json comes last and says that it is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in ("claims.json", "history.parquet"):  # of what was run here before
        (folder / stale).unlink(missing_ok=True)
    write_whole(folder / "config.toml", tomli_w.dumps(config).encode())
    write_whole(folder / "environment.json", _json(_environment()))
    claimed = [c.model_dump(mode="json") for c in claims]
    if claimed:
        write_whole(folder / "claims.json", _json(claimed))
    if history is not None:
        draft = folder / "history.parquet.part"
        history.to_parquet(draft, index=False)
        draft.replace(folder / "history.parquet")
    write_whole(folder / "results.json", _json([r.model_dump(mode="json") for r in records]))


def _parsed(path: Path, kind: Any) -> Any:
    try:
        return TypeAdapter(list[kind]).validate_json(path.read_bytes())
    except FileNotFoundError:
        raise BadFile(
            f"{path.parent} has no {path.name}: it is no run folder, or the run is not finished "
            "(start it again with the same --out and it goes on)"
        ) from None
    except (OSError, ValidationError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise BadFile(f"{path} is damaged: {reason}; run the command again") from None


def read_folder(folder: Path) -> tuple[list[Record], list[Claim], pd.DataFrame | None]:
    """Records, claims and history of a run folder, checked."""
    records = _parsed(folder / "results.json", Record)
    claims = _parsed(folder / "claims.json", Claim) if (folder / "claims.json").exists() else []
    history = None
    if (folder / "history.parquet").exists():
        try:
            history = pd.read_parquet(folder / "history.parquet")
        except (OSError, ValueError) as error:
            raise BadFile(f"{folder / 'history.parquet'} is damaged: {error}") from None
    return records, claims, history
