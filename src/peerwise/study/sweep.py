"""Run a description: one cell, or every combination of its lists."""

import tomllib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from peerwise import own
from peerwise.errors import BadFile, BadSetting
from peerwise.learner import Cell, Outcome, expand
from peerwise.learner.noise import noise_notes
from peerwise.study.engine import Engine, Progress, run_jobs
from peerwise.study.jobs import Run, to_outcome
from peerwise.study.results import Record, history_of, write_folder
from peerwise.study.store import COLUMNS, Row


class Sweep(NamedTuple):
    """The results of a description."""

    records: list[Record]
    varied: list[str]  # what differs between cells, the method aside
    history: pd.DataFrame
    failures: dict[str, str]  # which cell -> why
    words: str  # how many cells were kept and why others were not


def read_config(path: Path) -> dict[str, Any]:
    """The sections of a TOML file; modules that it names are looked for beside it."""
    try:
        config = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise BadFile(f"there is no run file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"cannot read {path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise BadFile(f"{path} is not TOML: {error}") from None
    own.look_in(path.parent)
    return config


def names_of(cell: Cell) -> dict[str, str]:
    """What distinguishes a cell of a sweep: its method first, then the factors.

    Seeds do not: cells that differ in their seed alone are repetitions of each other.
    """
    varied = {k: v for k, v in cell.varied if k not in ("method", "run.seed")}
    short = [k.rpartition(".")[2] for k in varied]
    plain = {k for k in short if short.count(k) == 1 and k not in COLUMNS}
    names = {k.rpartition(".")[2] if k.rpartition(".")[2] in plain else k: k for k in varied}
    return {"method": cell.label} | {name: varied[k] for name, k in names.items()}


def _values(cell: Cell, outcome: Outcome, reference: Outcome | None) -> dict[str, np.ndarray]:
    """Every metric after the last round, one number a repetition: means over the nodes.

    Beside them: gaps to the pooled reference on the same rows, how far nodes differ, traffic.
    """
    last = {name: value[:, -1] for name, value in outcome.values.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # all NaN: a class without test rows, say
        values = {n: np.nanmean(v.reshape(len(v), -1), 1) for n, v in last.items()}
    for part in ("train", "test"):
        if reference is not None and not cell.method.traits.reference:
            pooled = reference.values[f"{part}_error"][:, -1].mean(-1)
            values[f"{part}_gap"] = values[f"{part}_error"] - pooled
    values["node_std"] = last["test_error"].std(-1)
    sizes = {"bytes_per_link": 1, "bytes": outcome.messages}
    for name, messages in sizes.items():
        values[name] = np.full(len(last["test_error"]), float(outcome.bytes_per_link) * messages)
    return values


def _records(rows: list[Row]) -> list[Record]:
    """Mean and standard deviation over the repetitions of all seeds, by cell and metric."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row.repetitions is not None:
            names = {k: v for k, v in row.names.items() if k != "seed"}
            groups.setdefault((*names.items(), row.metric), []).append(row)
    records = []
    for alike in groups.values():
        numbers, first = np.concatenate([row.repetitions for row in alike]), alike[0]
        numbers = numbers[np.isfinite(numbers)]  # without those that had nothing to measure
        metric, _, subgroup = first.metric.partition("|")  # measured on some test rows alone
        setting = {k: v for k, v in first.names.items() if k not in ("dataset", "seed")}
        setting |= {"subgroup": subgroup} if subgroup else {}
        records.append(
            Record(
                paper=None,
                item="run",
                dataset=first.names["dataset"],
                setting=setting,
                metric=metric,
                value=float(numbers.mean()) if numbers.size else None,
                std=float(numbers.std(ddof=1)) if numbers.size > 1 else None,
                reps=numbers.size,
            )
        )
    return records


def jobs_of(config: Mapping[str, Any], predictions: bool = False, live: bool = False) -> list[Run]:
    """Everything that a sweep runs: its cells and the references they are compared with."""
    cells = expand(config)
    own = {cell.key for cell in cells}
    references = (cell.reference() for cell in cells)
    return [
        *(Run(cell, predictions, live) for cell in cells),
        *(Run(cell) for cell in references if cell.key not in own),
    ]


def sweep(
    config: Mapping[str, Any],
    folder: Path,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
    fresh: bool = False,
    predictions: bool = False,
    live: bool = False,
    reading: Mapping[str, list[str]] | None = None,
) -> Sweep:
    """Run every combination of a description's lists and write a run folder.

    For a page: `predictions` keeps errors by class and calibration of the first repetition, `live`
    tells what was measured while it goes on, `reading` says how the data were read.
    """
    cells = expand(config)
    references = {cell.key: cell.reference() for cell in cells}
    needed = jobs_of(config, predictions, live)
    ran = run_jobs(needed, folder, engine=engine, progress=progress, fresh=fresh)
    outcomes = {key: to_outcome(kept.arrays) for key, kept in ran.done.items()}
    rows: list[Row] = []
    frames, failures = [], {}
    for cell in cells:
        outcome = outcomes.get(cell.key)
        if outcome is None:
            what = ", ".join(f"{k} = {v}" for k, v in cell.varied) or cell.label
            failures[what] = ran.failures[cell.key]
            continue
        names = {"dataset": cell["data"]["source"], **names_of(cell), "seed": cell["run"]["seed"]}
        values = _values(cell, outcome, outcomes.get(references[cell.key].key))
        arrays = ran.done[cell.key].arrays
        every = {**arrays, **values}
        rows += [Row(cell.key, names, k, values.get(k), arrays.get(k)) for k in every]
        frames.append(history_of(outcome, **names))
    if not rows:
        raise BadSetting("; ".join(sorted(set(failures.values()))))
    shown, records = {row.cell for row in rows}, _records(rows)
    for cell in {c.key: c for c in references.values()}.values():  # kept for the gaps alone
        if cell.key not in shown and cell.key in ran.done:
            names = {"dataset": cell["data"]["source"]}
            rows += [Row(cell.key, names, k, None, v) for k, v in ran.done[cell.key].arrays.items()]
    history = _numbered(pd.concat(frames, ignore_index=True))
    write_folder(
        folder, config=dict(config), records=records, history=history, rows=rows, reading=reading,
        notes=noise_notes(cells),
    )  # fmt: skip
    varied = list(dict.fromkeys(k for r in records for k in r.setting if k != "method"))
    return Sweep(records, varied, history, failures, ran.words)


def _numbered(history: pd.DataFrame) -> pd.DataFrame:
    """Repetitions counted through over all seeds."""
    number = history.groupby(["seed", "repetition"]).ngroup()
    return history.assign(repetition=number).drop(columns="seed")
