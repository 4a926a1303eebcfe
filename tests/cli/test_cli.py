"""What a person meets: commands, their help, and what they say when something is wrong."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from helpers import command
from peerwise.cli import app
from peerwise.errors import BadFile
from peerwise.estimators import RiskCalibratedClassifier
from peerwise.privacy import Ledger
from peerwise.study.store import Store

CONFIG = """
data = "wine"
method = ["crc", "ml"]
split = {nodes = 3, rows = 20, test_rows = 50}
run = {rounds = 4, repetitions = 2, record = "all"}
"""


@pytest.fixture
def peerwise(monkeypatch, capsys, tmp_path):
    """Run the command line in an empty folder; returns exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEERWISE_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    return command(monkeypatch, capsys)


def test_the_demonstration_ends_with_a_table_a_gap_and_a_picture(peerwise, tmp_path):
    code, out, _ = peerwise("demo", "--nodes", 8, "--rounds", 5)
    assert code == 0
    for words in ("max. likelihood, pooled", "calibrated, pooled (RC)", "each node alone", "CRC"):
        assert words in out
    assert "Gap to pooling everything" in out
    picture = (tmp_path / "peerwise-demo.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 20_000


def test_a_run_of_ones_own_and_its_report(peerwise, tmp_path):
    (tmp_path / "mine.toml").write_text(CONFIG)
    code, out, _ = peerwise("run", "mine.toml", "--workers", 1)
    assert code == 0
    assert "crc" in out
    assert "ml" in out
    folder = tmp_path / "runs" / "mine"
    records = json.loads((folder / "results.json").read_text())["records"]
    assert {r["setting"]["method"] for r in records} == {"crc", "ml"}
    assert (folder / "curves.png").stat().st_size > 10_000
    again, shown, _ = peerwise("report", folder)
    assert again == 0
    assert out.startswith("3 cells: 0 kept, 3 run (3: not run before).")
    assert shown.splitlines()[0] == out.splitlines()[1]


def test_a_run_says_how_columns_were_read(peerwise, tmp_path):
    rows = [f"{i},{i % 3},{'ab'[i % 2]},2020-01-{i % 27 + 1:02}" for i in range(200)]
    (tmp_path / "t.csv").write_text("id,grade,y,day\n" + "\n".join(rows))
    (tmp_path / "mine.toml").write_text(
        'method = "ml"\ndata = {source = "t.csv", target = "y"}\nsplit = {nodes = 4, rows = 20}'
    )
    code, _, said = peerwise("run", "mine.toml", "--workers", 1)
    assert code == 0, said
    lines = said.splitlines()
    assert lines[0] == "t: 200 rows, target y of 2 classes (a 100, b 100)"
    assert lines[1:4] == ["  1 number: id", "  1 category: grade 3",
                          "  1 list of names used as numbers: day 27"]  # fmt: skip
    words = " ".join(said.split())
    assert "warning: column 'id' looks like an identifier" in words
    assert "warning: column 'day' holds dates" in words
    assert "each repetition's training rows" in words
    code, out, _ = peerwise("data", "show", "t.csv", "--target", "y", "--column", "id=drop")
    assert code == 0
    assert "left out on request" in out
    assert "name as number" in out
    code, _, said = peerwise("data", "show", "t.csv", "--target", "y", "--column", "id")
    assert (code, "--column must be NAME=KIND" in said) == (2, True)


def test_run_tells_its_keys(peerwise):
    code, out, _ = peerwise("run", "any.toml", "--keys")
    assert code == 0
    for section in ("data", "split", "network", "privacy", "run", "model", "net", "method"):
        assert f"[{section}]" in out
    assert "random_tree" in out  # defaults,
    assert "communication rounds" in out  # and a line for each key
    assert peerwise("run", "--keys")[1] == out


def test_run_without_a_file_says_what_to_give(peerwise):
    code, _, err = peerwise("run")
    assert code == 2
    assert "give a TOML file to run, or --keys" in err


def test_an_option_says_its_default_its_values_and_its_meaning(peerwise):
    code, out, _ = peerwise("list", "methods", "crc")
    assert code == 0
    said = " ".join(out.split())
    for words in (
        "lr",
        "0.05",
        "number, between",
        "learning rate",
        "one of the rules",
    ):
        assert words in said
    for words in (
        "statistics of a model",
        "every node talks to its neighbours",
        "facts it asks for: model",
    ):
        assert words in said
    assert peerwise("list", "method", "crc")[1] == out
    code, out, _ = peerwise("list", "methods", "cfa_ge")
    assert "needs links with replies" in out


def test_options_of_ones_own_are_listed(peerwise, tmp_path):
    (tmp_path / "listed.py").write_text(
        "from typing import Annotated\n"
        "def mine(model, *, pace: Annotated[float, 'how fast'] = 2.5):\n"
        '    """My own way."""\n'
    )
    code, out, _ = peerwise("list", "methods", "listed:mine")
    assert code == 0
    for words in ("My own way.", "pace", "2.5", "how fast"):
        assert words in out


def test_figure_2_needs_no_data(peerwise, tmp_path):
    code, _, _ = peerwise("reproduce", "crc/figure-2")
    assert code == 0
    assert (tmp_path / "runs" / "crc-figure-2" / "figure-2.png").exists()


def test_a_table_without_data_says_where_to_look(peerwise):
    code, _, err = peerwise("reproduce", "crc/table-3", "--quick")
    assert code == 2
    assert "PEERWISE_DATA" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "kind", ["", "methods", "method", "topologies", "rules", "items", "partitions", "shifts"]
)
def test_lists(peerwise, kind):
    code, out, _ = peerwise("list", *([kind] if kind else []))
    assert code == 0
    expected = {"methods": "crc", "method": "crc", "topologies": "random_tree"}
    expected |= {"items": "crc/table-12", "rules": "trimmed_mean"}
    expected |= {"partitions": "dirichlet_by_class", "shifts": "concept_drift"}
    assert expected.get(kind, "") in out


def test_data_list_and_show(peerwise):
    code, out, _ = peerwise("data", "list")
    assert code == 0
    assert "digits" in out
    code, out, _ = peerwise("data", "show", "wine")
    assert code == 0
    assert "alcohol" in out


@pytest.mark.parametrize(
    "command",
    [[], ["demo"], ["run"], ["reproduce"], ["report"], ["list"], ["data"], ["data", "show"]],
    ids=" ".join,
)
def test_help_teaches(peerwise, command):
    code, out, _ = peerwise(*command, "--help")
    assert code == 0
    assert "Usage" in out


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["reproduce", "crc/table-33"], "did you mean 'crc/table-3'"),
        (["reproduce", "crd/table-3"], "did you mean 'crc/table-3'"),
        (["list", "methds"], "did you mean 'methods'"),
        (["list", "methods", "crk"], "did you mean 'crc'"),
        (["data", "show", "digit"], "did you mean 'digits'"),
        (["report", "nowhere"], "there is no folder"),
        (["run", "none.toml"], "there is no run file"),
        (["demo", "--topology", "rings"], "did you mean 'ring'"),
        (["demo", "--nodes", "0"], "nodes"),
        (["demo", "--out", "/proc/none/x.png"], "cannot write"),
        (["demoo"], "demo"),
        (["reproduce"], "Missing argument"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_mistakes_are_one_line_and_a_non_zero_exit(peerwise, command, says):
    code, out, err = peerwise(*command)
    assert code != 0
    assert says in " ".join((out + err).split())
    assert "Traceback" not in out + err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('data = "wines"', "did you mean 'wine'"),
        ('methd = "crc"', "did you mean 'method'"),
        ('network = "rings"', "did you mean 'ring'"),
        ("network = {topologie = 3}", "did you mean 'topology'"),
        ("run = {rounds = -1}", "[run] rounds must be 0 or more, got -1"),
        (
            'method = {name = "crc", lr = -1}',
            "[method] lr must be between 1e-09 and 1000, got -1",
        ),
        ('method = {name = "crc", m0 = 0.0}', "[method] m0 must be greater than 0 and at most"),
        ('method = "no_module:f"', "cannot import"),
        ('split = {shift = "feature_skw"}', "did you mean 'feature_skew'"),
        ("split = {strength = 1}", "unknown key in [split]: 'strength'"),
        ('split = {partition = "dirichlet", alpa = 1}', "did you mean 'alpha'"),
        ('net = "mlp"', "[net] is not used by crc: remove it"),
        ("rounds = 3", "'rounds' is no section; it stands in [run] now"),
        ("lr = 0.1", "write it in [method]"),
    ],
)
def test_a_wrong_configuration_names_key_and_remedy(peerwise, tmp_path, line, says):
    kept = [c for c in CONFIG.splitlines() if c.split(" = ")[0] != line.split(" = ")[0]]
    (tmp_path / "mine.toml").write_text("\n".join([line, *kept]).replace('["crc", "ml"]', '"crc"'))
    code, out, err = peerwise("run", "mine.toml", "--workers", 1)
    assert code != 0
    assert says in " ".join((out + err).split())
    assert "Traceback" not in out + err


def test_a_damaged_run_folder_is_refused(peerwise, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "results.json").write_text('[{"paper": null, "item"')
    code, _, err = peerwise("report", "broken")
    assert code == 2
    assert "damaged" in err


def test_a_saved_model_predicts_the_rows_of_a_file(tmp_path):
    frame, y = load_iris(return_X_y=True, as_frame=True)
    model = RiskCalibratedClassifier("lda").fit(frame, y)
    model.calibrated_.save(tmp_path / "m.safetensors")
    frame.iloc[::-1, ::-1].to_csv(tmp_path / "rows.csv", index=False)  # columns go by name
    out = tmp_path / "said.csv"
    command = ["predict", str(tmp_path / "m.safetensors"), str(tmp_path / "rows.csv")]
    result = CliRunner().invoke(app, [*command, "--out", str(out)])
    assert result.exit_code == 0, result.output
    said = pd.read_csv(out)
    assert (said["predicted"].to_numpy() == model.predict(frame)[::-1]).all()
    assert said.filter(like="p(").sum(axis=1).to_numpy() == pytest.approx(1, abs=1e-5)


def test_the_same_rows_are_predicted_the_same_from_every_file(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=80)
    code = np.where(y ^ (rng.random(80) < 0.1), " Private", "01").astype(object)
    frame = pd.DataFrame(
        {"code": code, "flag": np.where(y, "None", "true"), "n": rng.normal(size=80)}
    )
    model = RiskCalibratedClassifier().fit(frame, y)
    model.calibrated_.save(tmp_path / "m.safetensors")
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_csv(tmp_path / "comma.csv", index=False, sep=";", decimal=",")
    for rows in ("rows.parquet", "rows.csv", "comma.csv"):
        out = tmp_path / f"{rows}.said"
        command = ["predict", str(tmp_path / "m.safetensors"), str(tmp_path / rows)]
        result = CliRunner().invoke(app, [*command, "--out", str(out)])
        assert result.exit_code == 0, result.output
        assert (pd.read_csv(out)["predicted"].to_numpy() == model.predict(frame)).all()
        assert "does not know" not in result.output
    frame.loc[:2, "code"] = "02"
    frame.to_csv(tmp_path / "rows.csv", index=False)
    command = ["predict", str(tmp_path / "m.safetensors"), str(tmp_path / "rows.csv")]
    result = CliRunner().invoke(app, [*command, "--out", str(out)])
    told = "column 'code' holds '02' in row 0 (counted from 0) and 2 more cells"
    assert told in " ".join(result.output.split())


def test_a_ledger_is_shown_and_belongs_to_its_node(tmp_path):
    path = tmp_path / "ward.ledger"
    with Ledger.open(path, node="ward 7", epsilon=1.0) as ledger:
        long = "a: statistics of all rows of the wards on the second floor"
        about = {"scale": [2.0, 12.5], "state": "ab" * 40}
        ledger.charge("laplace", about, 0.25, data=long, group="rows", part="0 to 40")
    result = CliRunner().invoke(app, ["ledger", str(path)])
    assert result.exit_code == 0, result.output
    assert "ward 7" in result.output
    assert "left: epsilon 0.75" in result.output
    assert "abab" not in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    line = next(line for line in result.output.splitlines() if "laplace" in line)
    assert line.split()[2:6] == ["laplace", "0.25", "0", "0"]
    details = CliRunner().invoke(app, ["ledger", str(path), "--details"]).output
    assert "part 0 to 40" in " ".join(details.split())
    other = CliRunner().invoke(app, ["ledger", str(path), "--node", "ward 8"])
    assert isinstance(other.exception, BadFile)


def test_a_ledger_says_for_whom_epsilon_is_and_counts_receivers_alone(tmp_path):
    """Before, "nan nan" stood beside releases of all rows, and notes of a peer counted as sent."""
    path, row = tmp_path / "ward.ledger", {"unit": "row"}
    with Ledger.open(path, node="ward", epsilon=2.0) as ledger:
        ledger.charge("laplace", row, 0.25, data="all")
        ledger.charge("laplace", row | {"state": "ab:cd"}, 0.25, data="a: all",
                      group="rows", part="0 to 40")  # fmt: skip
        for to in "ward 8", "ward 9":
            ledger.sent(1, to)
        for to in "neighbours", "noise of the state of xy up to round 3", "term of a sum":
            ledger.sent(2, to)

    def shown(*options):
        said = CliRunner().invoke(app, ["ledger", str(path), *options]).output
        assert max(map(len, said.splitlines())) <= 80
        return said, [line.split() for line in said.splitlines() if "laplace" in line]

    said, lines = shown()
    assert "Epsilon is for one row." in said
    assert [line[5] for line in lines] == ["2", "1"]
    assert "nan" not in shown("--details")[0]
    person = {"unit": "person ('patient', at most 3 rows of each)"}
    with Ledger.open(path, node="ward") as ledger:
        ledger.charge("laplace", person, 0.25, data="persons")
        ledger.charge("laplace", {}, 0.25, data="of the library")
    said = " ".join(shown()[0].split())
    assert "Epsilon of 1 to 2 is for one row." in said
    assert "Epsilon of 3 is for one person ('patient', at most 3 rows of each)." in said
    assert "Epsilon of 4 is for what the release's author says." in said


def test_a_ledger_says_how_its_releases_add_up(tmp_path):
    """Before, two releases of 1 were shown with .84 spent, and nothing said why."""
    path = tmp_path / "ward.ledger"
    made = CliRunner().invoke(app, ["ledger", str(path), "--new", "ward"])
    assert "give --epsilon" in str(made.exception)
    sizes = ["--epsilon", "3", "--delta", "1e-4"]
    made = CliRunner().invoke(app, ["ledger", str(path), "--new", "ward", *sizes])
    assert made.exit_code == 0, made.output
    assert "added up" not in made.output
    with Ledger.open(path, node="ward") as ledger:
        for part in ("0 to 40", "40 to 60"):
            ledger.charge("laplace", {}, 0.5, data="all rows", group="rows", part=part)
    said = " ".join(CliRunner().invoke(app, ["ledger", str(path)]).output.split())
    assert "rows 0 to 40" in said
    assert "rows 40 to 60" in said
    assert "different parts of the rows cost as much as the largest" in said
    assert "added up by privacy loss distributions (pld)" in said


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.full)])
def test_ctrl_c_ends_a_run_with_one_line_and_the_same_command_goes_on(tmp_path, workers):
    (tmp_path / "long.toml").write_text(
        'data = "wine"\nsplit = {nodes = 3, rows = 20}\nnetwork = "ring"\n'
        "run = {repetitions = 1, rounds = 50, seed = [0, 1, 2, 3, 4, 5, 6, 7]}\n"
    )
    command = [sys.executable, "-m", "peerwise", "run", "long.toml", "--workers", str(workers)]
    running = subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    cells = tmp_path / "runs" / "long" / "cells"
    while running.poll() is None and not (cells.is_dir() and any(cells.glob("*.npz"))):
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGINT)
    _, said = running.communicate()
    assert running.returncode == 130
    assert said.splitlines()[-1] == (
        "stopped; runs/long keeps the finished cells: run the same command to resume"
    )
    assert "Traceback" not in said
    done = list(cells.glob("*.npz"))
    assert done
    for path in done:
        assert Store(cells.parent).get(path.stem) is not None
