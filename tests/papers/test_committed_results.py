"""What was run and committed: kept arrays give every number again, to the last digit."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
from peerwise.study.tasks import KEPT

from peerwise import data
from peerwise.papers.kept import arrays_of
from peerwise.papers.reproduce import PAPERS, reproduce

RESULTS = Path(__file__).parents[2] / "results"
FOLDERS = sorted(p.parent for p in RESULTS.glob(f"*/{KEPT}"))
# Runs that were kept and that some item shows; a changed description would lose them silently.
RUNS = {"ba-bfl": 100, "cvar-cta": 142, "decdiff": 36, "relay": 603}


def sets_of(folder):
    """Entries of the data sets that a folder was run on, as far as items read them."""
    records = json.loads((folder / "results.json").read_text())
    entry = {"source": "folder", "kind": "tabular", "rows": 30_000}
    return [{"name": name, **entry} for name in dict.fromkeys(r["dataset"] for r in records)]


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def folder(request, tmp_path, monkeypatch):
    """A copy of a committed folder; no data set needs to be at hand."""
    monkeypatch.setattr(data, "available", lambda: sets_of(request.param))
    copy = tmp_path / request.param.name
    shutil.copytree(request.param, copy, ignore=shutil.ignore_patterns("*.png"))
    return copy


def test_there_are_committed_results():
    assert {f.name for f in FOLDERS} == set(RUNS)


def test_kept_results_give_the_committed_numbers(folder):
    before = {n: json.loads((folder / n).read_text()) for n in ("results.json", "claims.json")}
    paper = PAPERS[folder.name]
    found = reproduce(paper, list(paper.items), folder, only_kept=True)
    assert not found.failures
    for name, committed in before.items():
        assert json.loads((folder / name).read_text()) == committed
    held = arrays_of(folder, paper)
    shown = {id(arrays) for item in held.arrays.values() for arrays in item.values()}
    assert len(shown) == RUNS[folder.name]
    assert not (folder / "cells").exists()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_kept_run_says_how_it_was_made(folder):
    with zipfile.ZipFile(folder / KEPT) as archive:
        names = archive.namelist()
        assert len(names) == RUNS[folder.name]
        for name in names[:: max(len(names) // 5, 1)]:
            with archive.open(name) as file, np.load(file) as arrays:
                function, arguments = json.loads(bytes(arrays["task:"]))
                then = json.loads(bytes(arrays["version_0_6:"]))[0]
            assert function.startswith("peerwise.papers.")
            assert "description" in arguments
            assert then.startswith("peerwise.experiments.")
