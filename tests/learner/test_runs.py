"""One description run from data to errors."""

import numpy as np
import pytest

from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.learner import cell, run

BASE = cell(
    {
        "data": "wine",
        "split": {"nodes": 4, "rows": 20, "test_rows": 60},
        "run": {"rounds": 6, "repetitions": 2},
    }
)


def small(**update):
    return BASE.changed(**update)


def test_shapes_of_an_outcome():
    outcome = run(small(run={"record": "all"}))
    assert outcome.rounds.tolist() == [1, 2, 3, 4, 5, 6]
    for name in ("test_error", "test_soft_error"):
        assert outcome.values[name].shape == (2, 6, 4)
    for name in ("train_error", "train_soft_error"):  # after the last round only
        assert outcome.values[name].shape == (2, 1, 4)
    assert outcome.messages == 6 * 2 * 3  # a tree of 4 nodes has 3 edges
    # 3 classes times (1 + 2 * 13 features), and the note with the size
    assert outcome.bytes_per_link == 4 * (3 * 27 + 1)


def test_the_last_round_does_not_depend_on_what_is_recorded():
    every, last = run(small(run={"record": "all"})), run(small())
    np.testing.assert_array_equal(
        every.values["test_error"][:, -1], last.values["test_error"][:, -1]
    )


def test_rounds_are_recorded_as_asked_and_the_last_always():
    assert run(small(run={"record": 4})).rounds.tolist() == [4, 6]
    assert run(small(run={"early": True})).rounds.tolist() == [1, 2, 3, 4, 5, 6]
    both = run(small(run={"stages": ["combine", "adapt"]})).values
    assert both["combined_test_error"].shape == both["test_error"].shape
    assert not np.array_equal(both["combined_test_soft_error"], both["test_soft_error"])


@pytest.mark.some("iterate", "redraw", "push", "'nodes': 1")
@pytest.mark.parametrize(
    "update",
    [
        {"method": "rc"},
        {"method": {"name": "rc", "iterate": "best", "start": "ml"}},
        {"method": "ml"},
        {"method": "isolated"},
        {"method": {"name": "crc", "rule": "metropolis"}},
        {"method": {"name": "crc", "rule": "data_size"}, "split": {"sizes": "exponential"}},
        {"split": {"partition": "label_drift", "rows": 10}},
        {"split": {"partition": "dirichlet", "alpha": 0.3, "rows": 10}},
        {"split": {"shift": "feature_skew"}, "method": "logistic_regression"},
        {"split": {"shift": {"name": "concept_shift", "strength": 0.5, "classes": 3}}},
        {"network": {"topology": "tree_plus", "extra": 2}},
        {"network": "server"},
        {"network": {"redraw": 2}},
        {"network": {"push": True}, "method": {"name": "gossip_nb", "counter": "push_sum"}},
        {"network": {"fixed": True}},
        {"network": {"channel": "erasure", "q": 0.5}},
        {"run": {"metrics": ["consensus", "guards"]}},
        {"run": {"precision": "float64"}},
        {"split": {"nodes": 1, "rows": 80}},
        {"method": {"name": "crc", "m0": 500.0}},
    ],
    ids=str,
)
def test_every_kind_of_description_runs(update):
    outcome = run(small(**update))
    error = outcome.values["test_error"]
    assert error.shape[:2] == (2, 1)
    assert np.isfinite(error).all()
    assert 0 <= error.min() <= error.max() <= 1


def test_repetitions_of_different_sizes_run_together():
    outcome = run(small(split={"sizes": "exponential"}, run={"record": "all"}))
    assert outcome.values["test_error"].shape == (2, 6, 4)


OWN = """
from peerwise import topology
from peerwise.methods import crc

def gentle(model, *, inertia=1000.0):
    return crc(model, m0=inertia)

def pair_up(n):
    return topology.ring(n)

def spread():
    return lambda method, state: {"spread": state.value.std(0).mean()}

def accuracy(log_prob, y_test):
    return (log_prob.argmax(-1) == y_test).mean()

def number():
    return 3.0

def broken(model):
    return "not a method"

def strange(modell):
    return "a fact that nobody knows"
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_things.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)


def test_ones_own_method_topology_and_metric(own):
    mine = run(
        small(
            method={"name": "own_things:gentle", "inertia": 400.0},
            network="own_things:pair_up",
            run={"metrics": ["own_things:spread", "own_things:accuracy"]},
        )
    )
    theirs = run(small(method={"name": "crc", "m0": 400.0}, network="ring"))
    np.testing.assert_allclose(mine.values["test_error"], theirs.values["test_error"])
    assert mine.values["spread"].shape == (2, 1)
    np.testing.assert_allclose(mine.values["accuracy"], 1 - theirs.values["test_error"], atol=1e-6)


def test_what_is_wrong_with_ones_own_is_explained(own):
    for method, says in (
        ("own_things:gentel", "no function 'gentel'"),
        ("no_such_module:f", "cannot import"),
        ("own_things:broken", "must return a"),
        ({"name": "own_things:gentle", "inertai": 1.0}, "did you mean 'inertia'"),
    ):
        with pytest.raises((BadSetting, UnknownName), match=says):
            run(small(method=method))
    with pytest.raises(UnknownName, match=r"fact that method .* did you mean 'model'"):
        run(small(method="own_things:strange"))
    with pytest.raises(BadSetting, match=r"must return a function of \(method, state\)"):
        run(small(run={"metrics": ["own_things:number"]}))


@pytest.mark.parametrize(
    ("update", "says"),
    [
        ({"method": "crcc"}, "did you mean 'crc'"),
        ({"network": "rings"}, "did you mean 'ring'"),
        ({"data": "wines"}, "did you mean 'wine'"),
        ({"split": {"partition": "iidd"}}, "partition 'iidd'"),
        ({"run": {"metrics": ["errrors"]}}, "did you mean 'errors'"),
    ],
)
def test_unknown_names(update, says):
    with pytest.raises(UnknownName, match=says):
        run(small(**update))


def test_a_probability_above_1_is_refused():
    with pytest.raises(BadSetting, match=r"must be between 0 and 1, got 1\.5"):
        run(small(network={"channel": "erasure", "q": 1.5}))


@pytest.mark.parametrize("method", ["gossip_nb", "federated_nb", "private_crc", "sealed_nb"])
def test_a_person_is_for_peers_alone(method):
    """Before, methods of sealed sums ignored it, and said that epsilon was for one row."""
    with pytest.raises(BadSetting, match="person is only for peers"):
        run(small(method=method, privacy={"epsilon": 1.0, "person": "patient"}))


def test_a_file_with_bad_features(tmp_path):
    rows = "\n".join(f"{i % 7},{i % 3},{'ab'[i % 2]}" for i in range(60))
    path = tmp_path / "table.csv"
    path.write_text("u,v,label\n" + rows + "\n,1,a\ninf,2,b\n")
    described = cell(
        {
            "data": {"source": str(path), "target": "label"},
            "split": {"nodes": 2, "rows": 10},
            "run": {"rounds": 2, "repetitions": 1},
        }
    )
    assert np.isfinite(run(described).values["test_error"]).all()
    with pytest.raises(BadData, match="u"):
        run(described.changed(data={"missing": "error"}))
    with pytest.raises(UnknownName, match="label"):
        run(described.changed(data={"target": "labels"}))
