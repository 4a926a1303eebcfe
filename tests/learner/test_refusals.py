"""What cannot run, or would be ignored, is refused in one line that says what to write instead."""

import re
from datetime import date, time
from types import SimpleNamespace

import numpy as np
import pytest

from helpers import command
from peerwise.data.schema import Feature, Schema
from peerwise.errors import BadData, BadSetting, PeerwiseError
from peerwise.learner import cell
from peerwise.learner.assemble import make_links
from peerwise.learner.run import assembled
from peerwise.learner.world import World, as_read
from peerwise.methods.baselines import Pooled, sklearn_qda

WORLD = SimpleNamespace(nodes=4, links=None, seed=0)


@pytest.mark.parametrize(
    ("network", "says"),
    [
        ({"topology": "alone", "push": True}, "no link is there among 4 nodes"),
        ({"topology": "server", "push": True}, "without a server.*or no push"),
        ({"push": True, "redraw": 2}, "remove redraw, or push"),
        ({"topology": "ring", "redraw": 2}, "ring is always the same: remove it"),
        ({"topology": "server", "redraw": 2}, "server is always the same: remove it"),
    ],
)
def test_a_network_that_cannot_be_drawn(network, says):
    with pytest.raises(BadSetting, match=says):
        make_links(cell({"network": network}), WORLD)


def test_a_graph_redrawn_after_the_last_round_is_one_graph():
    described = cell({"network": {"redraw": 2**100}, "run": {"rounds": 3}})
    assert len(make_links(described, WORLD).links.src) == 1


def test_a_baseline_that_scikit_learn_cannot_fit_says_so_in_one_line():
    rows = Pooled(np.arange(6.0).reshape(3, 2), np.array([0, 1, 1]), 2)
    with pytest.raises(BadData, match="QuadraticDiscriminantAnalysis could not be fitted"):
        sklearn_qda(rows)


# Declarations check types, names and bounds before anything runs, whatever the method reads
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"network": {"topology": {"name": "erdos_renyi", "p": "0.5"}}}, "p must be a number"),
        ({"network": {"topology": {"name": "erdos_renyi", "seed": 3}}}, "'seed'; known: p"),
        ({"method": {"name": "crc", "weigh": "metropolis"}}, "unknown key in .method.: 'weigh'"),
        ({"method": {"name": "cvar_cvar", "risk": True}}, "unknown key in .method.: 'risk'"),
        ({"method": {"name": "crc", "rule": True}}, "must be a name or a table"),
        ({"method": "fedavg", "model": "naive_bays"}, "did you mean 'naive_bayes'"),
        ({"method": "fedavg", "network": "rng"}, "did you mean 'ring'"),
        ({"method": "isolated", "network": "rng"}, "did you mean 'ring'"),
        ({"method": {"name": "crc", "m0": float("inf")}}, "m0 must be greater than 0 and at most"),
        ({"method": {"name": "crc", "m0": 1e300}}, "m0 must be .* at most"),
        ({"method": {"name": "crc", "lr": 1e-38}}, "lr must be between 1e-09 and 1000"),
        ({"method": {"name": "relay", "lr": 1e-38}}, "lr must be between 1e-09 and 1000"),
        ({"method": {"name": "gradient_tracking", "lr": 1e-38}}, "lr must be between 1e-09"),
        ({"run": {"rounds": time(7, 32)}}, "rounds must be a whole number"),
        ({"split": {"rows": date(1979, 5, 27)}}, "rows must be"),
        ({"split": time(7, 32)}, "must be a name or a table"),
        ({"model": "\u00e9\n"}, "unknown model"),
    ],
)
def test_options_of_a_wrong_kind_or_name(given, says):
    with pytest.raises(PeerwiseError, match=says) as error:
        cell(given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("missing", "column", "says"),
    [("category", "age", 'drop = ["age"]'), ("missing", "job", 'take missing = "category"')],
)
def test_missing_values_of_a_net_name_the_column_and_advise_nothing_that_is_so(
    missing, column, says
):
    features = Feature("age", "numeric"), Feature("job", "categorical", ("a", "b"))
    x = np.zeros((2, 2))
    x[0, [f.name for f in features].index(column)] = np.nan
    world = World(x, np.zeros(2, int), [[0, 1]], Schema(features, ("n", "y")), 1, 2)
    described = cell({"method": "fedavg", "data": {"missing": missing}})
    with pytest.raises(BadData, match=f"column {column} has some.*{re.escape(says)}") as error:
        as_read(described, world)
    assert missing == "missing" or 'missing = "category"' not in str(error.value)


def test_names_that_look_like_markup_are_shown_as_they_are(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = [f"{rng.normal()},[/x],{'[/a]' if i % 2 else 'b'}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["[/],[red]b,[/y]", *lines]))
    run = 'data = {source = "t.csv", target = "[/y]"}\nsplit = {nodes = 2, rows = 5}\n'
    (tmp_path / "r.toml").write_text(run + "run = {rounds = 1, repetitions = 1}\n")
    peerwise = command(monkeypatch, capsys)
    _, shown, _ = peerwise("data", "show", "t.csv", "--target", "[/y]")
    assert "target [/y]" in shown
    assert "[red]b" in shown
    code, ran, err = peerwise("run", "r.toml", "--out", "[red]out")
    assert code == 0, err
    assert "Results: [red]out" in ran


@pytest.mark.parametrize("method", ["private_crc", "gossip_nb", "federated_nb"])
def test_a_structure_from_exact_sums_under_a_budget(tmp_path, method):
    rows = ["a,b,c,y", *(f"x{i % 2},z{i % 3},w{i % 5},{'pq'[i % 2]}" for i in range(60))]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(rows))
    described = {
        "data": {"source": str(file), "target": "y"},
        "split": {"nodes": 3, "rows": 10},
        "model": "tan",
        "method": method,
        "run": {"rounds": 2, "repetitions": 1},
    }
    with pytest.raises(BadSetting, match="no budget allows"):
        assembled(cell({**described, "privacy": {"epsilon": 1.0}}))
