"""First steps: files that run as they are, and what the shell completes."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import peerwise
from peerwise.cli import app
from peerwise.cli.init import KINDS, template
from peerwise.errors import BadData, BadFile, BadSetting, UnknownName
from peerwise.learner import assemble, drawn, expand, run


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEERWISE_DATA", raising=False)


def init(*arguments):
    return CliRunner().invoke(app, ["init", *map(str, arguments)], catch_exceptions=False)


@pytest.mark.some("statistics", "federation")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_runs(kind, tmp_path):
    assert init(kind).exit_code == 0
    text = (tmp_path / f"{kind}.toml").read_text()
    assert f"peerwise run {kind}.toml" in text
    cells = expand(tomllib.loads(text))
    assert len(cells) > 2
    for cell in cells:
        assemble(cell, drawn(cell, 0))
    small = {"nodes": 4, "rows": 20, "test_rows": 50}
    brief = {"rounds": 1, "repetitions": 1, "record": "last"}
    values = run(cells[0].changed(split=small, run=brief)).values
    assert (values["test_error"] < 1).all()


def test_a_file_of_ones_own(tmp_path):
    rows = [f"{i % 7},{'uvw'[i % 3]},{'ab'[i % 2]}" for i in range(60)]
    (tmp_path / "my rows.csv").write_text("n,c,what\n" + "\n".join(rows))
    result = init("nets", "--data", "my rows.csv", "--target", "what", "--out", "mine.toml")
    assert "Next: peerwise run mine.toml" in result.output
    data = tomllib.loads((tmp_path / "mine.toml").read_text())
    assert data["data"] == {"source": "my rows.csv", "target": "what"}
    assert len(drawn(expand(data)[0], 0).y) == 12 * 3
    for kind in KINDS:
        given = tomllib.loads(template(kind, "my rows.csv", "what"))
        assert (given["data"]["target"], "rows" in given["split"]) == ("what", False)


def test_what_is_wrong_is_said_and_nothing_is_overwritten(tmp_path):
    with pytest.raises(UnknownName, match="did you mean 'nets'"):
        init("net")
    with pytest.raises(BadSetting, match="give the file with --data"):
        init("--target", "y")
    (tmp_path / "one.csv").write_text("a,y\n1,u\n2,u\n")
    with pytest.raises(BadData, match="every row of 'one' is of class 'u'"):
        init("--data", "one.csv", "--target", "y")
    (tmp_path / "nets.toml").write_text("mine")
    with pytest.raises(BadFile, match="is there already"):
        init("nets")
    assert (tmp_path / "nets.toml").read_text() == "mine"
    with pytest.raises(BadFile, match="cannot write"):
        init("nets", "--out", tmp_path / "nowhere" / "x.toml")


@pytest.mark.long("init n-nets", "list top-topologies")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [("init n", "nets"), ("in", "init"), ("list top", "topologies"), ("data show wi", "wine")],
)
def test_the_shell_completes(typed, offered):
    words = f"peerwise {typed}"
    asked = {
        "PYTHONPATH": str(Path(peerwise.__file__).parents[1]),
        "_PEERWISE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    call = [sys.executable, "-c", "import sys; sys.argv[0] = 'peerwise'; from peerwise.cli import "
            "main; main()"]  # fmt: skip
    done = subprocess.run(call, env=os.environ | asked, capture_output=True, text=True, check=False)
    assert offered in done.stdout.split(), done.stderr
