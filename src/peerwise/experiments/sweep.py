"""Run a configuration: one setting, or every combination of its lists."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from peerwise.errors import BadFile, BadSetting
from peerwise.experiments import pool
from peerwise.experiments.job import Outcome
from peerwise.experiments.results import Record, history_of, write_folder
from peerwise.experiments.setting import Setting, expand

__all__ = ["Sweep", "read_config", "sweep"]


class Sweep(NamedTuple):
    """What came of a configuration."""

    records: list[Record]
    varied: list[str]
    history: pd.DataFrame | None
    failures: dict[str, str]  # setting -> why


def read_config(path: Path) -> dict[str, Any]:
    """The keys of a TOML configuration."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise BadFile(f"there is no configuration {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"cannot read {path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise BadFile(f"{path} is not TOML: {error}") from None


def _records(
    setting: Setting, mine: Outcome, reference: Outcome | None, varied: list[str]
) -> list[Record]:
    """Errors, gaps to RC on the same rows, agreement and traffic of one setting."""
    last = {name: value[:, -1] for name, value in mine.values.items()}
    found: dict[str, np.ndarray] = {
        name: (v.mean(-1) if v.ndim > 1 else v) for name, v in last.items()
    }
    for part in ("train", "test"):
        if reference is not None and setting.method != "rc":
            theirs = reference.values[f"{part}_error"][:, -1].mean(-1)
            found[f"{part}_gap"] = found[f"{part}_error"] - theirs
    found["node_std"] = last["test_error"].std(-1)
    found["bytes_per_link"] = np.array([mine.bytes_per_link], float)
    named = {"method": setting.method, **{k: getattr(setting, k) for k in varied}}
    return [
        Record(
            paper=None,
            item="run",
            dataset=setting.data,
            setting=named,
            metric=name,
            value=float(v.mean()),
            std=float(v.std()) if v.size > 1 else None,
            reps=setting.repetitions,
        )
        for name, v in found.items()
    ]


def sweep(
    config: dict[str, Any],
    folder: Path,
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Run every combination of a configuration's lists and write a run folder."""
    settings, varied = expand(config)
    needed = [s for setting in settings for s in (setting, setting.reference())]
    outcomes, failed = pool.run_all(needed, folder / "cells", progress, workers)
    records: list[Record] = []
    frames = []
    failures = {}
    for setting in settings:
        what = ", ".join(f"{k} = {getattr(setting, k)}" for k in varied) or setting.method
        mine = outcomes.get(setting.key)
        if mine is None:
            failures[what] = failed.get(setting.key, "it was not run")
            continue
        reference = outcomes.get(setting.reference().key)
        records += _records(setting, mine, reference, varied)
        names = {k: str(getattr(setting, k)) for k in varied}
        names |= {"dataset": setting.data, "method": setting.method}
        frames.append(history_of(setting, mine, **names))
    if not records:
        raise BadSetting("; ".join(sorted(set(failures.values()))))
    history = pd.concat(frames, ignore_index=True)
    write_folder(folder, config=config, records=records, history=history)
    return Sweep(records, varied, history, failures)
