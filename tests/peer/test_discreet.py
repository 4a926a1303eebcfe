"""What a peer says of its rows: columns and row numbers, and never what a cell holds."""

import sys

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from peerwise import cli, data
from peerwise.data.discreet import discreet, is_discreet
from peerwise.errors import BadData, PeerwiseError
from peerwise.peer.charter import Charter
from peerwise.peer.drafting import draft
from peerwise.peer.own_rows import own_rows
from peerwise.peer.own_site import load_rows
from peerwise.study import join as joining

SECRET = "Kowalski"  # a text that no message may hold
NUMBER = "98765"  # and a number


@pytest.fixture(scope="module")
def good():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 90, 40),
            "sex": rng.choice(["f", "m"], 40),
            "ward": ["north", "south"] * 20,
            "ill": ["no", "yes", "yes", "no"] * 10,
        }
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory, good):
    """A folder with a charter, which bounds ages and asks for two rows of everything."""
    folder = tmp_path_factory.mktemp("discreet")
    good.to_csv(folder / "good.csv", index=False)
    charter = draft(
        data.load(folder / "good.csv", target="ill"), nx.path_graph(["a", "b"]), {"method": "crc"},
        name="wards", typing="manifest", addresses={"a": "127.0.0.1:7400"},
        limits={"least_count": 2},
    )  # fmt: skip
    text = charter.text().replace('name = "age"', 'name = "age"\nlow = 0.0\nhigh = 130.0')
    (folder / "charter.toml").write_text(Charter.parse(text).text())
    return folder


def put(name, value, row=3):
    """A change of one cell."""
    return lambda f: f.assign(
        **{name: f[name].astype(object).where(np.arange(len(f)) != row, value)}
    )


BAD = {
    "a word among numbers": put("age", SECRET),
    "a number out of bounds": put("age", NUMBER),
    "thousands or decimals": lambda f: f.assign(age="98,765"),
    "no category": put("sex", SECRET),
    "no class": put("ill", SECRET),
    "a rare category": lambda f: f.assign(sex=["m"] + ["f"] * 39),
    "no header": lambda f: f.set_axis([SECRET, NUMBER, "x", "z"], axis=1),
    "ragged": lambda f: f.assign(sex=[f"{SECRET},{NUMBER}"] * 40),
    "not text": lambda f: f.assign(sex=[SECRET + "\xff"] * 40),
}


def file_of(kind, good, folder):
    path = folder / f"{kind.replace(' ', '-')}.csv"
    text = BAD[kind](good).to_csv(index=False)
    if kind == "ragged":
        text = text.replace('"', "")
    path.write_text(text, encoding="latin-1" if kind == "not text" else "utf-8")
    return path


def silent(text):
    return SECRET not in text and NUMBER not in text and "98,765" not in text


@pytest.mark.parametrize("kind", BAD)
def test_a_peer_quotes_no_cell_of_its_rows(kind, good, home):
    path = file_of(kind, good, home)
    with pytest.raises(PeerwiseError) as caught:
        Charter.load(home / "charter.toml").rows(load_rows(path, "ill"))
    assert silent(str(caught.value))
    assert any(w in str(caught.value) for w in ("row", "column 'age'", path.name))
    assert not is_discreet()


@pytest.mark.parametrize("kind", ["a word among numbers", "no class", "no header"])
def test_no_command_of_a_peer_quotes_a_cell(kind, good, home, monkeypatch, capsys):
    path, charter = file_of(kind, good, home), str(home / "charter.toml")
    run = ["peer", "run", "--charter", charter, "--node", "a", "--data", str(path)]
    run += ["--state", str(home / "state"), "--keys", str(home)]
    for words in (run, [*run, "--dry-run"], ["network", "check", charter, "--data", str(path)]):
        monkeypatch.setattr(sys, "argv", ["peerwise", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capsys.readouterr()
        assert ended.value.code == 2
        assert "error" in said.err
        assert silent(said.err + said.out)


@pytest.mark.parametrize("kind", ["a word among numbers", "thousands or decimals", "no header"])
def test_comparing_sites_quotes_no_cell(kind, good, home):
    path = file_of(kind, good, home)
    with pytest.raises(PeerwiseError) as caught:
        joining.join(str(path), "ward", target="ill", rounds=1)
    assert silent(str(caught.value))


def test_errors_of_other_libraries_are_told_without_their_words(good, home, monkeypatch):
    def fails(*_, **__):
        raise ValueError(f"could not convert string to float: '{SECRET}'")

    monkeypatch.setattr(data, "encode", fails)
    with pytest.raises(BadData, match=r"ValueError at test_discreet.py, line \d+") as caught:
        Charter.load(home / "charter.toml").rows(load_rows(home / "good.csv", "ill"))
    assert silent(str(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert own_rows.__wrapped__  # decorated: nobody reads a node's rows without


def test_who_reads_a_file_of_their_own_is_told_the_value(good, home):
    path = file_of("no category", good, home)
    schema = Charter.load(home / "charter.toml").schema()
    with pytest.raises(BadData, match=SECRET):
        data.encode(data.load(path, target="ill"), schema=schema)
    with discreet(), pytest.raises(BadData, match="holds a value in row 3"):
        data.encode(data.load(path, target="ill"), schema=schema)
    said = CliRunner().invoke(cli.app, ["data", "show", str(path), "--target", "ill"]).output
    assert SECRET in said
