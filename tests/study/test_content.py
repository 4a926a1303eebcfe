"""A cell is run again when its module, its data or a default changed, and not otherwise."""

import os
import sys

import numpy as np
import pandas as pd
import pytest

from peerwise.learner import cell
from peerwise.own import load
from peerwise.study import provenance
from peerwise.study.engine import ThisMachine
from peerwise.study.jobs import Run, Task
from peerwise.study.sweep import read_config, sweep

MODULE = '''
"""A rule of one's own."""

from typing import Annotated

import jax.numpy as jnp
from our_factor import FACTOR

def share(log_prob, y_test, *, times: Annotated[float, "factor"] = 1.0):
    """A number that depends on what stands in another file."""
    return jnp.sum(log_prob * 0) + FACTOR * times
'''
CONFIG = """
data = {source = "rows.csv", target = "class"}
split = {nodes = 3, rows = 20, test_rows = 40}
network = "ring"

[run]
rounds = 1
repetitions = 1
metrics = ["our_metric:share"]
"""


def rows(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(120, 2)).round(3)
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "class": np.where(x.sum(1) > 0, "p", "n")})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a run file, its data and a module of its own, which imports another."""

    def make(name, factor):
        folder = tmp_path_factory.mktemp(name)
        (folder / "our_factor.py").write_text(f"FACTOR = {factor}\n")
        (folder / "our_metric.py").write_text(MODULE)
        rows(0).to_csv(folder / "rows.csv", index=False)
        (folder / "run.toml").write_text(CONFIG)
        return folder

    return make


@pytest.fixture
def ran(monkeypatch):
    """Runs the file of a folder; gives what was said and the value of the own metric."""

    def run(folder, **how):
        monkeypatch.chdir(folder)
        done = sweep(read_config(folder / "run.toml"), folder / "out", engine=ThisMachine(1), **how)
        assert not done.failures, done.failures
        (value,) = [r.value for r in done.records if r.metric == "share"]
        return done.words, value

    return run


def test_a_file_that_was_changed_within_a_second_is_imported_as_it_is(tmp_path, monkeypatch):
    """Python alone takes what it compiled before, if the file is as long."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "quick_edit.py"
    for i, value in enumerate(("1.0", "3.0")):
        file.write_text(f"FACTOR = {value}\n")
        os.utime(file, ns=(10**18, 10**18 + i))
        assert float(value) == load("quick_edit").FACTOR
        sys.modules.pop("quick_edit")  # and in another process
    file.write_text("FACTOR = 5.0\n")
    os.utime(file, ns=(10**18, 10**18 + 2))
    assert load("quick_edit").FACTOR == 5.0
    file.write_text("FACTOR = 7.0\n")
    os.utime(file, ns=(10**18, 10**18 + 3))
    assert load("quick_edit").FACTOR == 7.0


def test_a_cell_is_run_again_when_what_it_depends_on_changed(place, ran, monkeypatch):
    here = place("here", 1.0)
    assert ran(here) == ("2 cells: 0 kept, 2 run (2: not run before)", 1.0)
    assert ran(here) == ("2 cells: 2 kept, none run", 1.0)
    # a module that the user's module imports
    (here / "our_factor.py").write_text("FACTOR = 3.0\n")
    words, value = ran(here)
    assert value == 3.0
    assert words == "2 cells: 1 kept, 1 run (1: the code of our_factor.py changed)"
    # a default of the module itself: another description
    (here / "our_metric.py").write_text(MODULE.replace("= 1.0", "= 2.0"))
    assert ran(here) == ("2 cells: 1 kept, 1 run (1: not run before)", 6.0)
    # the data
    rows(1).to_csv(here / "rows.csv", index=False)
    words, _ = ran(here)
    assert words == "2 cells: 0 kept, 2 run (2: the data of rows.csv changed)"
    assert ran(here)[0] == "2 cells: 2 kept, none run"
    # the numbers of the package
    monkeypatch.setattr(provenance, "NUMERICS", provenance.NUMERICS + 1)
    assert ran(here)[0].endswith("2 run (2: this version of the package computes other numbers)")
    assert ran(here, fresh=True)[0].endswith("2 run (2: asked for)")


@pytest.mark.full
def test_two_folders_with_modules_of_the_same_name(place, ran):
    one, two = place("one", 1.0), place("two", 2.0)
    assert ran(one)[1] == 1.0
    assert ran(two)[1] == 2.0
    assert ran(one) == ("2 cells: 2 kept, none run", 1.0)


def test_a_module_that_now_crashes_is_a_failure_and_not_the_number_of_yesterday(place, ran):
    here = place("crash", 1.0)
    ran(here)
    (here / "our_factor.py").write_text("FACTOR = 1 / 0\n")
    with pytest.raises(Exception, match="ZeroDivisionError"):
        ran(here)


def test_other_noise_aware_models_concern_the_cells_that_use_them(monkeypatch):
    noisy = {"epsilon": 1.0}
    described = {"data": "wine", "split": {"nodes": 3, "rows": 20}, "run": {"rounds": 1}}
    private = described | {"method": "federated_nb", "network": "server"}
    cells = [
        described | {"method": "ml"},
        private | {"privacy": noisy | {"aware": False}},
        private | {"privacy": noisy},
    ]
    task = Task("peerwise.papers.privacy.runs:released", {"data": "wine"})
    other = Task("peerwise.papers.privacy.runs:theirs", {"data": "wine"})
    jobs = [*(Run(cell(each)) for each in cells), other, task]
    before = [provenance.depends(job) for job in jobs]
    monkeypatch.setattr(provenance, "REVISION", provenance.REVISION + 1)
    said = [
        provenance.changes(old, provenance.depends(job))
        for old, job in zip(before, jobs, strict=True)
    ]
    other_numbers = "noise-aware models of this version compute other numbers"
    assert said == ["", "", other_numbers, "", other_numbers]


def test_another_lead_concerns_the_cells_that_carry_sums_forward(monkeypatch):
    described = {"data": "wine", "split": {"nodes": 3, "rows": 20}, "run": {"rounds": 1}}
    methods = ["crc", "relay", {"name": "relay", "lead": 0}]
    jobs = [Run(cell(described | {"method": method})) for method in methods]
    before = [provenance.depends(job) for job in jobs]
    monkeypatch.setattr(provenance.leading, "REVISION", provenance.leading.REVISION + 1)
    said = [
        provenance.changes(old, provenance.depends(job))
        for old, job in zip(before, jobs, strict=True)
    ]
    assert said == ["", "this version carries late sums forward otherwise", ""]
