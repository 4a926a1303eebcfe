"""The examples of docs/extending.md run as they stand, from a folder outside the package."""

import json
import re
import sys
from pathlib import Path

import pytest

from helpers import command
from peerwise.names import KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text()
CODE = "\n\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.S))
(CHECK,) = re.findall(r"```py\n(.*?)```", PAGE, re.S)
RUNS = re.findall(r"```toml\n(.*?)```", PAGE, re.S)


@pytest.fixture
def peerwise(monkeypatch, capsys, tmp_path):
    """Run the command line in a folder with the page's `own.py`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEERWISE_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    (tmp_path / "own.py").write_text(CODE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("own", "other", "circle", "beside"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield command(monkeypatch, capsys)
    for name in ("own", "other", "circle", "beside"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("text", RUNS, ids=[f"example {i + 1}" for i in range(len(RUNS))])
def test_every_run_file_of_the_page_runs(text, peerwise, tmp_path):
    (tmp_path / "run.toml").write_text(text)
    code, out, err = peerwise("run", "run.toml", "--workers", 1)
    assert code == 0, out + err
    records = json.loads((tmp_path / "runs" / "run" / "results.json").read_text())["records"]
    assert all(0 <= r["value"] <= 1 for r in records if r["metric"] == "test_error")
    if "confident" in text:
        assert {"sure", "sure_and_right", "largest", "auroc"} <= {r["metric"] for r in records}


@pytest.mark.usefixtures("peerwise")
def test_a_method_of_the_page_is_the_same_in_both_runtimes(tmp_path):
    sys.path.insert(0, str(tmp_path))
    exec(CHECK, {})


def test_each_kind_has_an_example_and_is_listed_with_its_options(peerwise):
    own = {"rule": "fresh", "method": "careful", "net": "wide", "metric": "confident",
           "topology": "double_star", "partition": "by_size", "channel": "every_other"}  # fmt: skip
    for kind, name in own.items():
        code, out, err = peerwise("list", KINDS[kind], f"own:{name}")
        assert code == 0, err
        assert "Options of" in out


WRONG = '''
from typing import Annotated
import jax.numpy as jnp
from annotated_types import Gt
from peerwise import Mean
from peerwise.topology import ring as a_ring

NUMBER = 3

def greedy(modle, *, lr=0.1):
    """Asks for what there is not."""

def loose(model, **options):
    """Does not name its options."""

def nothing(model):
    """Returns nothing."""

def bounded(model, *, pace: Annotated[float, Gt(0), "how fast"] = 1.0):
    """Returns nothing either."""

def small(n):
    """A graph of another size."""
    return a_ring(n + 1)

def twice(rng, x, y, sizes):
    """Deals a row twice."""
    return [[0, 1] for _ in sizes]

def words(rng, x, y, sizes):
    """Deals words."""
    return [["a"] for _ in sizes]

def flat(shape, classes):
    """No net."""
    return 3

def number():
    """No probe."""
    return 3

def unsure(log_prob, seed):
    """Asks for what a metric cannot have."""
    return 0.0
'''
SMALL = 'data = "wine"\nsplit = {nodes = 4, rows = 20}\nrun = {rounds = 1, repetitions = 1}\n'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('method = "other:greedy"', "unknown fact that method 'other:greedy' asks for"),
        ('method = "other:greedy"', "did you mean 'model'"),
        ('method = "other:loose"', "write each option with its own name after a star"),
        ('method = "other:nothing"', "must return a peerwise.core.Method"),
        ('method = "other:nothin"', "has no function 'nothin'; did you mean 'nothing'"),
        ('method = "other:NUMBER"', "is not a function but of type int"),
        ('method = "absent:thing"', "cannot import method 'absent:thing'"),
        ('method = {name = "other:bounded", pace = 0}', "pace must be greater than 0, got 0"),
        ('method = {name = "other:bounded", pase = 1}', "did you mean 'pace'"),
        ('method = {name = "crc", rule = "other:nothing"}', "must return a"),
        ('network = "other:small"', "has 5 nodes, and there are 4"),
        ('network = "other:nothing"', "needs model"),
        ('network = {channel = "other:number"}', "must return a peerwise.channel.loss.Channel"),
        ('split = "other:twice"', "each to one node at most"),
        ('split = "other:words"', "must return a list of row numbers"),
        ('net = "other:flat"\nmethod = "decavg"', "must return a function from a key"),
        (
            'run = {rounds = 1, repetitions = 1, metrics = ["other:number"]}',
            "must return a function of",
        ),
        ('run = {rounds = 1, repetitions = 1, metrics = ["other:unsure"]}', "not seed"),
        ('method = "circle:thing"', "import each other in a circle"),
        ('method = "broken:thing"', "ZeroDivisionError"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_says_how_to_mend_it(line, words, peerwise, tmp_path):
    (tmp_path / "other.py").write_text(WRONG)
    (tmp_path / "circle.py").write_text("from beside import b\na = 1\ndef thing(model): ...\n")
    (tmp_path / "beside.py").write_text("from circle import a\nb = 2\n")
    (tmp_path / "broken.py").write_text("x = 1\ny = x / 0\n")
    kept = [k for k in SMALL.splitlines() if not k.startswith(line.split(" ")[0] + " ")]
    if line.startswith("split"):
        line = line.replace('split = "', 'split = {nodes = 4, rows = 20, partition = "') + "}"
    (tmp_path / "run.toml").write_text("\n".join([*kept, line]))
    code, out, err = peerwise("run", "run.toml", "--workers", 1)
    assert code == 2, out
    assert "Traceback" not in err
    assert words in " ".join(err.split())
