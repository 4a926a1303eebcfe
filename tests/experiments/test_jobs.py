"""One setting run from data to errors."""

import sys

import numpy as np
import pytest

from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.experiments.job import run, split
from peerwise.experiments.setting import Setting

SMALL = {"data": "wine", "nodes": 4, "rows": 20, "rounds": 6, "repetitions": 2, "test_rows": 60}


def small(**update):
    return Setting(**{**SMALL, **update})


def test_shapes_of_an_outcome():
    outcome = run(small(record="all"))
    assert outcome.rounds.tolist() == [1, 2, 3, 4, 5, 6]
    for name in ("test_error", "test_soft_error"):
        assert outcome.values[name].shape == (2, 6, 4)
    for name in ("train_error", "train_soft_error"):  # after the last round only
        assert outcome.values[name].shape == (2, 1, 4)
    assert outcome.messages == 6 * 2 * 3  # a tree of 4 nodes has 3 edges
    # 3 classes times (1 + 2 * 13 features), and the note with the size
    assert outcome.bytes_per_link == 4 * (3 * 27 + 1)


def test_the_last_round_does_not_depend_on_what_is_recorded():
    every, last = run(small(record="all")), run(small())
    np.testing.assert_array_equal(
        every.values["test_error"][:, -1], last.values["test_error"][:, -1]
    )


def test_test_rows_are_disjoint_from_training_rows_and_nested():
    few, many = split(small(rows=10), 0), split(small(rows=20), 0)
    assert len(few.y) == 40
    assert len(many.y) == 80
    assert len(many.y_test) == 60
    known = {tuple(np.round(r, 5)) for r in many.x}
    assert not known & {tuple(np.round(r, 5)) for r in many.x_test}
    np.testing.assert_array_equal(few.y_test, many.y_test)


def test_training_rows_are_standardised_on_themselves():
    part = split(small(), 0)
    np.testing.assert_allclose(part.x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(part.x.std(0), 1, atol=1e-4)


def test_methods_are_compared_on_the_same_rows():
    a, b = split(small(topology="ring"), 1), split(small(method="rc", topology="chain"), 1)
    np.testing.assert_array_equal(a.x, b.x)
    assert not np.array_equal(split(small(), 0).x, a.x)


@pytest.mark.parametrize(
    "update",
    [
        {"method": "rc"},
        {"method": "rc", "iterate": "best", "start": "ml"},
        {"method": "ml"},
        {"method": "isolated"},
        {"weigh": "metropolis"},
        {"weigh": "data_size", "sizes": "exponential"},
        {"partition": "label_drift", "rows": 10},
        {"partition": "dirichlet", "alpha": 0.3, "rows": 10},
        {"topology": "tree_plus", "topology_options": {"extra": 2}},
        {"topology": "server"},
        {"redraw": 2},
        {"arrival": 0.5},
        {"metrics": ("consensus", "guards")},
        {"precision": "float64"},
        {"nodes": 1, "rows": 80},
        {"m0": 500.0},
    ],
    ids=str,
)
def test_every_kind_of_setting_runs(update):
    outcome = run(small(**update))
    error = outcome.values["test_error"]
    assert error.shape[:2] == (2, 1)
    assert np.isfinite(error).all()
    assert 0 <= error.min() <= error.max() <= 1


def test_repetitions_of_different_shapes_run_one_by_one():
    outcome = run(small(sizes="exponential", record="all"))
    assert outcome.values["test_error"].shape == (2, 6, 4)


OWN = """
import jax.numpy as jnp
from peerwise import topology
from peerwise.methods import crc

def gentle(model, inertia=1000.0):
    return crc(model, m0=inertia)

def pair_up(n, seed=0):
    return topology.ring(n)

def spread(method, state):
    return {"spread": state.value.std(0).mean()}

def broken(model):
    return "not a method"
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_things.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("own_things", None)
    sys.path[:] = [p for p in sys.path if p != str(tmp_path)]


def test_ones_own_method_topology_and_metric(own):
    setting = small(
        method="own_things:gentle",
        method_options={"inertia": 400.0},
        topology="own_things:pair_up",
        metrics=("own_things:spread",),
    )
    mine = run(setting)
    theirs = run(small(m0=400.0, topology="ring"))
    np.testing.assert_allclose(mine.values["test_error"], theirs.values["test_error"])
    assert mine.values["spread"].shape == (2, 1)


def test_a_wrong_name_of_ones_own_is_explained(own):
    with pytest.raises(BadSetting, match="no function 'gentel'"):
        run(small(method="own_things:gentel"))
    with pytest.raises(BadSetting, match="cannot import"):
        run(small(method="no_such_module:f"))
    with pytest.raises(BadSetting, match="must return a"):
        run(small(method="own_things:broken"))


def test_unknown_names_and_too_few_rows():
    with pytest.raises(UnknownName, match="did you mean 'crc'"):
        run(small(method="crcc"))
    with pytest.raises(UnknownName, match="did you mean 'ring'"):
        run(small(topology="rings"))
    with pytest.raises(UnknownName, match="did you mean 'wine'"):
        run(small(data="wines"))
    with pytest.raises(UnknownName, match="partition"):
        run(small(partition="iidd"))
    with pytest.raises(BadData, match="too few for 40 nodes of 20 rows"):
        run(small(nodes=40))


def test_a_file_with_bad_features(tmp_path):
    rows = "\n".join(f"{i % 7},{i % 3},{'ab'[i % 2]}" for i in range(60))
    path = tmp_path / "table.csv"
    path.write_text("u,v,label\n" + rows + "\n,1,a\ninf,2,b\n")
    setting = Setting(data=str(path), target="label", nodes=2, rows=10, rounds=2, repetitions=1)
    assert np.isfinite(run(setting).values["test_error"]).all()
    with pytest.raises(BadData, match="u"):
        run(setting.model_copy(update={"missing": "error"}))
    with pytest.raises(UnknownName, match="label"):
        run(setting.model_copy(update={"target": "labels"}))
