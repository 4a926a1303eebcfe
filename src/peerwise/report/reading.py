"""Runs as they lie in folders, read for a comparison."""

import tomllib
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from peerwise.errors import BadFile, BadSetting
from peerwise.report.comparison import KEYS
from peerwise.report.curves import factors_of, over_seeds
from peerwise.study.results import read_folder

ROWS = ("data", "split")  # sections that decide which rows a repetition has


def read_history(folder: Path) -> pd.DataFrame:
    """Metrics of a run by repetition, round and node, seeds counted through as repetitions."""
    if not folder.is_dir():
        raise BadFile(f"there is no folder {folder}; runs are in runs/ unless --out said else")
    _, _, history = read_folder(folder)
    if history is None:
        raise BadFile(f"{folder} has no history.parquet: it is no run of `peerwise run`")
    return over_seeds(history)


def read_values(folder: Path) -> pd.DataFrame:
    """Every metric of a run after its last round, a line a repetition: the mean over the nodes.

    Columns: dataset, method, what the run varied, repetition, metric, value.
    """
    history = read_history(folder)
    keys = ["dataset", "method", *factors_of(history), "repetition"]
    last = history[
        history["round"] == history.groupby(keys, dropna=False)["round"].transform("max")
    ]
    means = last.drop(columns=["round", "node"]).groupby(keys, dropna=False, sort=False).mean()
    means["node_std"] = last.groupby(keys, dropna=False, sort=False)["test_error"].std(ddof=0)
    sizes = {
        (r.dataset, *map(str, (r.setting.get(k) for k in keys[1:-1]))): r.value
        for r in read_folder(folder)[0]
        if r.metric == "bytes_per_link"
    }
    means["bytes_per_link"] = [sizes.get(tuple(map(str, index[:-1]))) for index in means.index]
    tidy = means.reset_index().melt(keys, var_name="metric").dropna(subset=["value"])
    return tidy[[*keys, *KEYS[3:]]].reset_index(drop=True)


def named(folders: Sequence[Path]) -> dict[str, Path]:
    """Run folders by their names, or by their paths where two are called the same."""
    whole = [folder.resolve() for folder in folders]
    if len(set(whole)) < len(whole):
        twice = next(f for i, f in enumerate(folders) if whole[i] in whole[:i])
        raise BadSetting(f"{twice} is given twice; give each run once")
    names = [folder.name for folder in whole]
    return {
        (str(folder) if names.count(name) > 1 else name): folder
        for name, folder in zip(names, folders, strict=True)
    }


def unlike(runs: dict[str, Path]) -> list[str]:
    """Notes on runs whose repetitions of one number do not have the same rows."""
    read = {name: _dealt(folder) for name, folder in runs.items()}
    notes = []
    for (one, first), (two, second) in combinations(read.items(), 2):
        differ = [name for name in first if first[name] != second[name]]
        if differ:
            notes.append(
                f"{one} and {two} differ in {', '.join(differ)}: their repetitions of one number "
                "may hold different rows."
            )
    return notes


def _dealt(folder: Path) -> dict[str, Any]:
    try:
        config = tomllib.loads((folder / "config.toml").read_text())
    except (OSError, ValueError):
        config = {}
    run = config.get("run", {})
    sections = {f"[{name}]": config.get(name) for name in ROWS if name != "data"}
    return {**sections, "the seed": run.get("seed") if isinstance(run, dict) else None}
