"""Fifty kinds of bad input: each is one line that says what is wrong, and a non-zero exit."""

import errno
import os

import numpy as np
import pandas as pd
import pytest

from helpers import command

SMALL = {
    "data": '"wine"',
    "split": "{nodes = 3, rows = 15, test_rows = 50}",
    "network": '"ring"',
    "run": "{rounds = 2, repetitions = 1}",
}
OWN = '''
def not_finite(log_prob):
    """Divides by zero."""
    return log_prob.sum() / 0

def crashes(log_prob):
    """Crashes when it is called."""
    raise RuntimeError("broken on purpose")

def text(log_prob):
    """Gives what is no number."""
    return "a word"

def signature(log_prob, wind):
    """Asks for what nobody knows."""
    return 0.0

number = 3
'''
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({"a": RNG.normal(size=60), "b": RNG.normal(size=60), "y": ["p", "q"] * 30})
FILES = {
    "own.py": OWN,
    "left.py": "from right import one\ndef f(log_prob):\n    return one\n",
    "right.py": "from left import f\none = 1\n",
    "rows.csv": ROWS.to_csv(index=False),
    "empty.csv": "",
    "header.csv": "a,b,y\n",
    "nan.csv": ROWS.assign(y=[None, "p", "q"] * 20).to_csv(index=False),
    "one.csv": ROWS.assign(y="p").to_csv(index=False),
    "floats.csv": ROWS.assign(y=RNG.normal(size=60)).to_csv(index=False),
    "broken.parquet": "PAR1 this is no Parquet file PAR1",
    "file": "not a folder",
}


def run_file(**sections):
    """A small run file with other sections."""
    return "\n".join(f"{k} = {v}" for k, v in {**SMALL, **sections}.items() if v)


# what is wrong -> sections of the run file, words that the error has
SECTIONS = {
    "unknown section": ({"nodez": "3"}, "unknown section 'nodez'"),
    "flat key of 0.6": ({"nodes": "3"}, "stands in [split] now"),
    "section of another type": ({"split": "7"}, "must be a name"),
    "section as a list of lists": ({"split": "[[1]]"}, "must be a name"),
    "nodes = true": ({"split": "{nodes = true}"}, "nodes must be a whole number"),
    "nodes = 0": ({"split": "{nodes = 0}"}, "nodes must be 1 or more, got 0"),
    "nodes of text": ({"split": '{nodes = "ten"}'}, "nodes must be a whole number"),
    "half a node": ({"split": "{nodes = 2.5}"}, "nodes must be a whole number"),
    "absurdly many nodes": ({"split": "{nodes = 1000000000000}"}, "too few"),
    "rows below one": ({"split": "{rows = -1}"}, "rows"),
    "more rows than there are": ({"split": "{rows = 5000}"}, "too few"),
    "no test rows": ({"split": "{test_rows = 0}"}, "test_rows must be 1 or more"),
    "a set without own test rows": ({"split": '{test = "own"}'}, "no test rows of its own"),
    "alpha below zero": ({"split": '{partition = "dirichlet", alpha = -1.0}'}, "alpha"),
    "lr = nan": ({"method": '{name = "crc", lr = nan}'}, "lr"),
    "lr = inf": ({"method": '{name = "crc", lr = inf}'}, "lr"),
    "lr = 1e30": ({"method": '{name = "crc", lr = 1e30}'}, "lr"),
    "lr of text": ({"method": '{name = "crc", lr = "fast"}'}, "lr must be a number"),
    "rounds below zero": ({"run": "{rounds = -1}"}, "rounds must be 0 or more"),
    "absurdly many rounds": ({"run": "{rounds = 1000000000000}"}, "rounds"),
    "no repetitions": ({"run": "{repetitions = 0}"}, "repetitions must be 1 or more"),
    "seed below zero": ({"run": "{seed = -1}"}, "seed must be 0 or more"),
    "absurd seed": ({"run": "{rounds = 1, seed = 1e300}"}, "seed must be a whole number"),
    "record = 0": ({"run": "{record = 0}"}, "record"),
    "unknown precision": ({"run": '{precision = "float16"}'}, "float32"),
    "unknown stage": ({"run": '{stages = ["before"]}'}, "stages"),
    "unknown metric": ({"run": '{metrics = ["aurok"]}'}, "did you mean 'auroc'"),
    "metrics that are no names": ({"run": "{metrics = 3}"}, "must be a name"),
    "empty list": ({"network": "[]"}, "empty list"),
    "unknown method": ({"method": '"crk"'}, "did you mean 'crc'"),
    "method without a name": ({"method": "{lr = 0.1}"}, "has no name"),
    "two methods of one label": (
        {"method": '[{name = "crc", label = "a"}, {name = "ml", label = "a"}]'},
        "have the same name",
    ),
    "unknown topology": ({"network": '"rings"'}, "did you mean 'ring'"),
    "probability above one": ({"network": '{channel = "erasure", q = 2.0}'}, "between 0 and 1"),
    "option of another topology": ({"network": '{topology = "ring", extra = 3}'}, "extra"),
    "section that nobody reads": ({"net": '"mlp"'}, "[net] is not used by crc"),
    "epsilon = 0": ({"method": '"gossip_nb"', "privacy": "{epsilon = 0.0}"}, "epsilon must be"),
    "delta = 1": ({"method": '"gossip_nb"', "privacy": "{delta = 1.0}"}, "delta must be"),
    "unknown data": ({"data": '"wines"'}, "did you mean 'wine'"),
    "no such file": ({"data": '{source = "none.csv", target = "y"}'}, "none.csv"),
    "a folder as data": ({"data": '{source = "folder.csv", target = "y"}'}, "folder.csv"),
    "a file without target": ({"data": '"rows.csv"'}, "needs `target`"),
    "unknown target": ({"data": '{source = "rows.csv", target = "z"}'}, "'z'"),
    "an empty file": ({"data": '{source = "empty.csv", target = "y"}'}, "empty.csv"),
    "a header alone": ({"data": '{source = "header.csv", target = "y"}'}, "has no rows"),
    "missing targets": ({"data": '{source = "nan.csv", target = "y"}'}, "missing"),
    "one class": ({"data": '{source = "one.csv", target = "y"}'}, "class"),
    "a target of floats": ({"data": '{source = "floats.csv", target = "y"}'}, "y"),
    "a damaged Parquet file": ({"data": '{source = "broken.parquet", target = "y"}'}, "broken"),
    "unknown column dropped": (
        {"data": '{source = "rows.csv", target = "y", drop = ["c"]}'}, "'c'",
    ),
    "all columns dropped": (
        {"data": '{source = "rows.csv", target = "y", drop = ["a", "b"]}'}, "no feature",
    ),
    "no such module": ({"run": '{metrics = ["nothing:f"]}'}, "cannot import"),
    "no such function": ({"run": '{metrics = ["own:crash"]}'}, "did you mean 'crashes'"),
    "not a function": ({"run": '{metrics = ["own:number"]}'}, "is not a function"),
    "an unknown fact": ({"run": '{metrics = ["own:signature"]}'}, "wind"),
    "a function that crashes": ({"run": '{rounds = 1, metrics = ["own:crashes"]}'}, "on purpose"),
    "a metric that is text": ({"run": '{rounds = 1, metrics = ["own:text"]}'}, "text"),
    "modules in a circle": ({"run": '{metrics = ["left:f"]}'}, "circle"),
}  # fmt: skip
# what is wrong -> command, words that the error has
COMMANDS = {
    "no run file": (["run"], "give a TOML file"),
    "run file that is absent": (["run", "none.toml"], "there is no run file"),
    "run file that is a folder": (["run", "folder.csv"], "cannot read"),
    "run file that is no TOML": (["run", "rows.csv"], "is not TOML"),
    "results to a file": (["run", "good.toml", "--out", "file"], "file"),
    "results below a file": (["run", "good.toml", "--out", "file/run"], "file"),
    "results where nobody can write": (["run", "good.toml", "--out", "/proc/run"], "/proc/run"),
    "no workers": (["run", "good.toml", "--workers", "0"], "workers"),
    "unknown device": (["run", "good.toml", "--device", "tpu"], "device"),
    "unknown option": (["run", "good.toml", "--frsh"], "--fresh"),
    "a data folder that is absent": (["run", "good.toml", "--data", "nowhere"], "nowhere"),
    "unknown item": (["reproduce", "crc/table-33"], "did you mean 'crc/table-3'"),
    "no repetitions of an item": (["reproduce", "crc/figure-2", "--reps", "0"], "reps"),
    "report of nothing": (["report", "nowhere"], "there is no folder"),
    "report of a file": (["report", "file"], "file"),
    "report of no run": (["report", "folder.csv"], "not a run folder"),
    "unknown kind": (["list", "methds"], "did you mean 'methods'"),
    "unknown command": (["demoo"], "demo"),
}


@pytest.fixture
def peerwise(monkeypatch, capsys, tmp_path):
    """Run the command line in a folder with good and bad files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PEERWISE_DATA", "")  # so that what a command sets does not stay
    monkeypatch.delenv("PEERWISE_DATA")
    monkeypatch.setenv("COLUMNS", "120")
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "good.toml").write_text(run_file())
    return command(monkeypatch, capsys)


def check(peerwise, args, says):
    code, out, err = peerwise(*args)
    words = " ".join((out + err).split())
    assert code not in (0, None), words
    assert says in words, words
    assert "Traceback" not in words
    assert len(err) < 1000
    return err


@pytest.mark.parametrize("wrong", SECTIONS)
def test_a_description_that_is_wrong(peerwise, tmp_path, wrong):
    sections, says = SECTIONS[wrong]
    (tmp_path / "bad.toml").write_text(run_file(**sections))
    check(peerwise, ["run", "bad.toml", "--workers", "1"], says)
    assert not (tmp_path / "runs" / "bad" / "results.json").exists()


@pytest.mark.parametrize("wrong", COMMANDS)
def test_a_command_that_is_wrong(peerwise, wrong):
    check(peerwise, *COMMANDS[wrong])


def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(peerwise, tmp_path, monkeypatch):
    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    check(peerwise, ["run", "good.toml", "--workers", "1"], "No space left on device")
    left = [p for p in (tmp_path / "runs").rglob("*") if p.is_file() and p.suffix != ".part"]
    assert left == []


def test_there_are_fifty_kinds():
    assert len(SECTIONS) + len(COMMANDS) + 1 >= 50
