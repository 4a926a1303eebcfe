"""Run folders: whole, readable, and honest about damage."""

import json

import numpy as np
import pandas as pd
import pytest

from helpers import command
from peerwise.errors import BadFile, BadSetting
from peerwise.learner import expand
from peerwise.learner.noise import EPSILON, LOCAL, noise_notes
from peerwise.page.run import gather
from peerwise.report.reading import noted
from peerwise.study.engine import ThisMachine
from peerwise.study.results import (
    Claim,
    Record,
    read_folder,
    read_notes,
    read_values,
    write_folder,
)
from peerwise.study.store import Row
from peerwise.study.sweep import read_config, sweep

CONFIG = {
    "data": "wine",
    "method": ["crc", "isolated"],
    "split": {"nodes": 3, "rows": 20, "test_rows": 50},
    "run": {"rounds": 3, "repetitions": 2, "record": "all"},
}
RECORD = Record(
    paper=None,
    item="run",
    dataset="wine",
    setting={"method": "crc"},
    metric="test_error",
    value=0.1,
    std=None,
    reps=1,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("run")
    sweep(CONFIG, path, engine=ThisMachine(1))
    return path


def test_a_run_folder_has_everything(folder):
    records, claims, history = read_folder(folder)
    assert claims == []
    assert {r.metric for r in records} >= {
        "train_error",
        "test_error",
        "train_gap",
        "test_gap",
        "node_std",
        "bytes_per_link",
    }
    raw = json.loads((folder / "results.json").read_text())["records"]
    assert set(raw[0]) == {
        *("paper", "item", "dataset", "setting", "metric", "value", "std", "reps", "paper_value"),
        "values",
    }
    assert {r["setting"]["method"] for r in raw} == {"crc", "isolated"}
    assert len(history) == 2 * 2 * 3 * 3  # methods, repetitions, rounds, nodes
    assert json.loads((folder / "environment.json").read_text())["jax"]
    assert read_config(folder / "config.toml") == CONFIG


@pytest.mark.parametrize(
    ("method", "expected"),
    [(["gossip_nb", "crc"], LOCAL), ("private_crc", EPSILON)],  # CRC adds none; the last its own
)
def test_notes_on_noise_are_of_methods_that_add_it(method, expected):
    asked = {**CONFIG, "method": method, "privacy": {"epsilon": 1.0}}
    local = {**asked, "privacy": {"epsilon": 1.0, "sensitivity": "local"}}
    assert noise_notes(expand(asked)) == [EPSILON]
    assert noise_notes(expand(local)) == [expected]
    assert noise_notes(expand(CONFIG)) == noise_notes(expand(CONFIG | {"method": "crc"})) == []


@pytest.mark.filterwarnings("ignore:sensitivity 'local'")
def test_results_say_what_epsilon_is_for_and_where_it_bounds_nothing(
    folder, tmp_path, monkeypatch, capsys
):
    """Before, one warning a process said that noise was none of differential privacy."""
    peerwise, out = command(monkeypatch, capsys), tmp_path / "out"
    split = "[split]\nnodes = 3\nrows = 20\ntest_rows = 50\n[run]\nrounds = 1\nrepetitions = 1\n"
    privacy = '[privacy]\nepsilon = 1.0\nsensitivity = ["local", "bounded"]\n'
    (tmp_path / "r.toml").write_text(f'method = "gossip_nb"\ndata = "wine"\n{split}{privacy}')
    for args in (("run", tmp_path / "r.toml", "--out", out), ("report", out)):
        said = " ".join(peerwise(*args)[1].split())
        assert EPSILON in said
        assert LOCAL in said
    notes = [EPSILON, LOCAL]
    assert json.loads((out / "results.json").read_text())["notes"] == notes
    assert read_notes(out) == gather(out)["notes"] == noted({"r": out, "other": folder}) == notes
    assert read_notes(folder) == []


def test_numbers_in_the_records_are_those_of_the_history(folder):
    records, _, history = read_folder(folder)
    for method in ("crc", "isolated"):
        (record,) = [
            r for r in records if r.setting["method"] == method and r.metric == "test_error"
        ]
        last = history[(history["method"] == method) & (history["round"] == 3)]
        assert np.isclose(record.value, last["test_error"].mean())


@pytest.mark.parametrize("name", ["results.json", "history.parquet", "results.parquet"])
def test_a_truncated_folder_is_refused(tmp_path, name):
    write_folder(tmp_path, config={}, records=[RECORD], history=pd.DataFrame({"a": [1]}), rows=[])
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadFile, match=name):
        read_folder(tmp_path)


def test_an_unfinished_folder_is_said_to_be_one(tmp_path):
    (tmp_path / "cells").mkdir()
    with pytest.raises(BadFile, match="not finished"):
        read_folder(tmp_path)


def test_records_of_another_shape_are_refused(tmp_path):
    (tmp_path / "results.json").write_text('[{"metric": "test_error"}]')
    with pytest.raises(BadFile, match="damaged"):
        read_folder(tmp_path)


def test_a_sweep_where_nothing_runs_says_why(tmp_path):
    with pytest.raises(BadSetting, match="too few"):
        sweep({**CONFIG, "split": {"nodes": 999}}, tmp_path, engine=ThisMachine(1))


def test_configurations_that_cannot_be_read(tmp_path):
    with pytest.raises(BadFile, match="there is no run file"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("data = ")
    with pytest.raises(BadFile, match="not TOML"):
        read_config(tmp_path / "bad.toml")


def test_claims_and_curves_of_an_earlier_run_do_not_stay(tmp_path):
    claim = Claim(name="a", claim="b", rule="c", ours="d", paper="e", verdict="held")
    told = {"claims": [claim], "history": pd.DataFrame({"round": [1]})}
    write_folder(tmp_path, config={}, records=[RECORD], **told)
    assert read_folder(tmp_path)[1] == [claim]
    write_folder(tmp_path, config={}, records=[RECORD])
    assert read_folder(tmp_path) == ([RECORD], [], None)


@pytest.mark.full  # `make test`: test_engine.py
def test_what_fails_in_one_cell_leaves_the_others(tmp_path):
    """A metric that a method lacks and a baseline that cannot be fitted are a line each."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"u": draw.normal(size=61), "v": draw.normal(size=61)})
    frame["label"] = ["a", "b"] * 30 + ["c"]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    methods = ["isolated_ml", "logistic_regression", "sklearn_qda"]
    config = {
        "data": {"source": str(tmp_path / "rows.csv"), "target": "label", "public": True},
        "method": methods, "split": {"nodes": 2, "rows": 28},
        "run": {"rounds": 0, "repetitions": 4, "metrics": ["guards"]},
    }  # fmt: skip
    done = sweep(config, tmp_path / "run", engine=ThisMachine(1))
    assert list(done.failures) == ["method = logistic_regression", "method = sklearn_qda"]
    lines = list(done.failures.values())
    assert "counts no guards" in lines[0]
    assert "QuadraticDiscriminantAnalysis could not be fitted: y has only 1 sample" in lines[1]
    assert not any("\n" in line for line in lines)
    records, _, history = read_folder(tmp_path / "run")
    assert {r.setting["method"] for r in records} == set(history["method"]) == {"isolated_ml"}
    assert set(read_values(tmp_path / "run")["method"]) == {"isolated_ml"}


def test_numbers_that_json_has_not_are_left_out(tmp_path):
    strange = {"value": np.inf, "std": np.nan, "values": [1.0, np.inf]}
    setting = {"method": "crc", "epsilon": np.inf}
    record = Record(**{**RECORD.model_dump(), **strange, "setting": setting})
    rows = [Row("a", {"dataset": "x"}, "endless", np.array([np.inf, -np.inf, np.nan]))]
    write_folder(tmp_path, config={}, records=[record], rows=rows)
    (read,) = read_folder(tmp_path)[0]
    assert (read.value, read.std, read.values) == (None, None, [])
    assert read.setting["epsilon"] == "inf"
