"""Runs as they lie in folders, read for a comparison."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd

from peerwise.errors import BadFile, BadSetting
from peerwise.study.results import read_asked, read_folder, read_notes, read_values


def read_runs(folders: Mapping[str, Path]) -> dict[str, pd.DataFrame]:
    """The values of runs after their last rounds, by the runs' names."""
    return {name: _read_values(folder) for name, folder in folders.items()}


def _read_values(folder: Path) -> pd.DataFrame:
    if not folder.is_dir():
        raise BadFile(
            f"there is no folder {folder}; runs are in runs/ unless --out named another folder"
        )
    try:
        values = read_values(folder)
        whole = len(values) > 0 and {"dataset", "method"} <= set(values)
    except KeyError:
        whole = False
    if not whole:  # a paper's, say, whose numbers are not of methods and repetitions
        raise BadFile(f"{folder} has no values by method and repetition: is it of `peerwise run`?")
    return values


def read_history(folder: Path) -> pd.DataFrame:
    """The metrics of a run by repetition, round and node."""
    _, _, history = read_folder(folder)
    if history is None:
        raise BadFile(f"{folder} has no history.parquet: it is not a run of `peerwise run`")
    return history


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


def noted(runs: dict[str, Path]) -> list[str]:
    """What is to be said of the numbers of all these runs, each once."""
    folders = [folder for folder in runs.values() if (folder / "results.json").exists()]
    return list(dict.fromkeys(note for folder in folders for note in read_notes(folder)))


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
    """What decides, beside the data, which rows a repetition has."""
    config = read_asked(folder) if (folder / "config.toml").exists() else {}
    run = config.get("run", {})
    return {
        "[split]": config.get("split"),
        "the seed": run.get("seed", 0) if isinstance(run, dict) else None,
    }
