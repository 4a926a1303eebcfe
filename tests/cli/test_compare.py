"""`peerwise compare` and the figures of `peerwise run`, on folders of small runs."""

import os
import shutil

import pandas as pd
import pytest
from sklearn.datasets import load_wine

import peerwise as pw
from helpers import command

SMALL = {
    "split": {"nodes": 3, "rows": 20},
    "network": "ring",
    "run": {"rounds": 2, "repetitions": 2},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders `all` (three data sets, two methods), `more` (other rows) and `alone`.

    The data sets have one shape, so that one program serves all of them.
    """
    folder = tmp_path_factory.mktemp("runs")
    wine = load_wine(as_frame=True).frame.iloc[:, -4:]
    for seed, name in enumerate(("oak", "ash", "fir")):
        shuffled = wine.sample(frac=1, random_state=seed)
        shuffled.to_csv(folder / f"{name}.csv", index=False)
    with pytest.MonkeyPatch.context() as here:
        here.chdir(folder)
        data = {"source": ["oak.csv", "ash.csv", "fir.csv"], "target": "target"}
        pw.run(SMALL, data=data, method=["crc", "ml"], out="all")
        data = {"source": "oak.csv", "target": "target"}
        more = {**SMALL["split"], "partition": "dirichlet"}
        pw.run(SMALL, data=data, method=["crc", "isolated"], split=more, out="more")
        pw.run(SMALL, data=data, out="alone")
    return folder


@pytest.fixture
def peerwise(monkeypatch, capsys, tmp_path, runs):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEERWISE_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("all", "more", "alone"):
        shutil.copytree(runs / name, tmp_path / name)
    return command(monkeypatch, capsys)


def test_tables_figures_and_files_of_one_run(peerwise, tmp_path):
    code, out, err = peerwise(
        "compare", "all", "--to", "ml", "--latex", "t.tex", "--csv", "t.csv", "--markdown", "t.md",
        "--figure", "pdf,svg",
    )  # fmt: skip
    assert code == 0, err
    for words in ("test error (lower is better)", "against ml", "mean ranks over 3 data sets"):
        assert words in out
    assert max(map(len, out.splitlines())) <= 80
    assert pd.read_csv("t.csv")["method"].tolist() == ["crc", "ml"]
    assert "toprule" in (tmp_path / "t.tex").read_text()
    assert "### Against ml" in (tmp_path / "t.md").read_text()
    drawn = {p.name for p in (tmp_path / "runs" / "compare-all").iterdir()}
    assert drawn == {f"{n}.{k}" for n in ("ranks", "bytes") for k in ("png", "pdf", "svg")}


def test_two_runs_of_one_method_are_told_apart_and_unlike_rows_are_said(peerwise):
    code, out, err = peerwise("compare", "all", "more")
    assert code == 0, err
    said = " ".join(out.split())
    for words in ("crc (all)", "crc (more)", "isolated was not run on ash.csv, fir.csv."):
        assert words in said
    assert "all and more differ in [split]" in said


def test_another_metric_of_runs(peerwise):
    code, out, _ = peerwise("compare", "more", "--metric", "test_log_loss")
    assert code == 0
    assert "test log loss (lower is better)" in out
    assert "with fewer than 6" in " ".join(out.split())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["absent"], "there is no folder absent"),
        (["empty"], "empty has no results.parquet: it is not a run folder"),
        (["file"], "there is no folder file"),
        (["alone"], "two methods or more, but only crc has values"),
        (["all", "--metric", "test_eror"], "did you mean 'test_error'"),
        (["all", "--to", "mll"], "did you mean 'ml'"),
        (["all", "--better", "up", "--metric", "test_error"], "unknown direction 'up'"),
        (["all", "all"], "all is given twice"),
        (["all", "--csv", "file/t.csv"], "cannot write file/t.csv"),
        (["all", "--out", "file"], "cannot write file/ranks.png"),
        (["all", "--figure", "pfd"], "did you mean 'pdf'"),
        (["all", "--style", "ggplt"], "did you mean 'ggplot'"),
        (["all", "damaged"], "is damaged"),
        (["other"], "other has no values by method and repetition"),
        (["foreign"], "foreign/results.parquet is damaged or of an earlier version"),
        ([], "Missing argument"),
    ],
)
def test_a_mistake_is_one_line(peerwise, tmp_path, given, says):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    shutil.copytree("more", "damaged")
    (tmp_path / "damaged" / "results.parquet").write_bytes(b"PAR1")
    for folder in ("other", "foreign"):
        (tmp_path / folder).mkdir()
    rows = pd.DataFrame({"value": [1.0], "repetitions": [None]})
    rows.to_parquet("foreign/results.parquet")
    rows.assign(hash="of version 0.8").to_parquet("other/results.parquet")
    code, _, err = peerwise("compare", *given)
    assert code == 2
    assert says in " ".join(err.split())
    assert "Traceback" not in err


CONFIG = """
data = "wine"
split = {nodes = 3, rows = 20}
network = {topology = ["ring", "complete"]}
run = {rounds = 2, repetitions = 1, seed = [0, 1]}
"""


@pytest.mark.full
def test_a_run_has_a_figure_without_a_record_and_takes_seeds_for_repetitions(peerwise, tmp_path):
    (tmp_path / "mine.toml").write_text(CONFIG)
    code, out, err = peerwise(
        "run", "mine.toml", "--workers", 1, "--figure", "pdf", "--figure", "svg", "--style",
        "grayscale", "--facet", "topology",
    )  # fmt: skip
    assert code == 0, err
    assert "over 2 repetitions" in out
    drawn = sorted(p for p in os.listdir("runs/mine") if p.startswith("curves"))
    assert drawn == ["curves.pdf", "curves.png", "curves.svg"]
    code, _, err = peerwise("report", "runs/mine", "--facet", "topolgy")
    assert code == 2
    assert "did you mean 'topology'" in err


def test_a_wrong_format_or_style_is_refused_before_anything_runs(peerwise, tmp_path):
    (tmp_path / "mine.toml").write_text(CONFIG)
    for given in (["--figure", "gif"], ["--style", "nature"]):
        code, _, err = peerwise("run", "mine.toml", *given)
        assert code == 2
        assert "unknown" in err
        assert not (tmp_path / "runs").exists()
