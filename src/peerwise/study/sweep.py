"""Run a description: one cell, or every combination of its lists."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from peerwise.errors import BadFile, BadSetting
from peerwise.learner import Cell, Outcome, expand
from peerwise.study import pool
from peerwise.study.results import Record, history_of, write_folder


class Sweep(NamedTuple):
    """The results of a description."""

    records: list[Record]
    varied: list[str]  # what differs between cells, the method aside
    history: pd.DataFrame
    failures: dict[str, str]  # which cell -> why


def read_config(path: Path) -> dict[str, Any]:
    """The sections of a TOML file."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise BadFile(f"there is no configuration {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"cannot read {path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise BadFile(f"{path} is not TOML: {error}") from None


def names_of(cell: Cell) -> dict[str, str]:
    """What tells a cell from the others of its sweep: its method first, then what varies."""
    return {"method": cell.label} | {
        k.rpartition(".")[2]: v for k, v in cell.varied if k != "method"
    }


def _records(cell: Cell, outcome: Outcome, reference: Outcome | None) -> list[Record]:
    """Errors, gaps to the pooled reference on the same rows, agreement and traffic of one cell."""
    last = {name: value[:, -1] for name, value in outcome.values.items()}
    values: dict[str, np.ndarray] = {
        name: (v.reshape(len(v), -1).mean(1) if v.ndim > 1 else v) for name, v in last.items()
    }
    for part in ("train", "test"):
        if reference is not None and not cell.method.traits.reference:
            pooled = reference.values[f"{part}_error"][:, -1].mean(-1)
            values[f"{part}_gap"] = values[f"{part}_error"] - pooled
    values["node_std"] = last["test_error"].std(-1)
    values["bytes_per_link"] = np.array([outcome.bytes_per_link], float)
    return [
        Record(
            paper=None,
            item="run",
            dataset=cell["data"]["source"],
            setting=names_of(cell),
            metric=name,
            value=float(v.mean()),
            std=float(v.std()) if v.size > 1 else None,
            reps=cell["run"]["repetitions"],
        )
        for name, v in values.items()
    ]


def sweep(
    config: Mapping[str, Any],
    folder: Path,
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Run every combination of a description's lists and write a run folder."""
    cells = expand(config)
    needed = [c for cell in cells for c in (cell, cell.reference())]
    outcomes, failed = pool.run_all(needed, folder / "cells", progress, workers)
    records: list[Record] = []
    frames = []
    failures = {}
    for cell in cells:
        names = names_of(cell)
        outcome = outcomes.get(cell.key)
        if outcome is None:
            what = ", ".join(f"{k} = {v}" for k, v in names.items())
            failures[what] = failed.get(cell.key, "it was not run")
            continue
        records += _records(cell, outcome, outcomes.get(cell.reference().key))
        frames.append(history_of(outcome, dataset=cell["data"]["source"], **names))
    if not records:
        raise BadSetting("; ".join(sorted(set(failures.values()))))
    history = pd.concat(frames, ignore_index=True)
    write_folder(folder, config=dict(config), records=records, history=history)
    varied = [k for k in records[0].setting if k != "method"]
    return Sweep(records, varied, history, failures)
