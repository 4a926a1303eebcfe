"""One setting run from data to errors."""

import sys

import numpy as np
import pytest
from peerwise.experiments.job import run, split
from peerwise.experiments.setting import Setting

from peerwise.errors import BadData, BadSetting, UnknownName

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
        {"shift": "feature_skew", "method": "logistic_regression"},
        {"shift": "concept_shift", "shift_options": {"strength": 0.5, "classes": 3}},
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


def test_both_dirichlet_partitions_follow_alpha():
    for name in ("dirichlet", "dirichlet_by_class"):
        even, skew = (split(small(partition=name, alpha=alpha), 0) for alpha in (1e6, 0.5))
        apart = [
            np.mean([np.var(np.bincount(p.y[r], minlength=3)) for r in p.owned])
            for p in (even, skew)
        ]
        assert apart[0] < apart[1]


def test_a_shift_changes_training_rows_of_the_same_nodes_and_no_test_row():
    plain = split(small(), 0)
    for name in ("feature_skew", "concept_drift", "concept_shift"):
        part = split(small(shift=name), 0)
        for a, b in zip(plain.owned, part.owned, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(part.y_test, plain.y_test)
        assert np.array_equal(part.y, plain.y) == (name != "concept_shift")
        # in the units of the data
        was, seen = (_raw(p.x_test, p.schema) for p in (plain, part))
        np.testing.assert_allclose(seen, was, rtol=1e-4)
        was, seen = (_raw(p.x, p.schema) for p in (plain, part))
        assert np.allclose(seen, was, rtol=1e-4) == (name == "concept_shift")
        # and standardised on what the nodes hold
        np.testing.assert_allclose(part.x.mean(0), 0, atol=1e-5)
        np.testing.assert_allclose(part.x.std(0), 1, atol=1e-4)


def _raw(x, schema):
    return x * [f.scale for f in schema.features] + [f.center for f in schema.features]


@pytest.mark.parametrize("name", ["feature_skew", "concept_drift", "concept_shift"])
def test_a_shift_of_strength_0_is_none(name):
    plain, part = (
        split(small(**k), 1) for k in ({}, {"shift": name, "shift_options": {"strength": 0}})
    )
    np.testing.assert_array_equal(part.x, plain.x)
    np.testing.assert_array_equal(part.y, plain.y)
    assert part.schema == plain.schema


def test_repetitions_and_seeds_are_shifted_otherwise():
    moved = []
    for seed, repetition in ((0, 0), (0, 1), (1, 0)):
        plain = split(small(seed=seed), repetition)
        part = split(small(seed=seed, shift="concept_drift"), repetition)
        first = plain.owned[0][0]
        moved.append((part.x - plain.x)[first, 0])
    assert len(set(moved)) == 3


def test_a_shift_leaves_categories_as_they_are(tmp_path):
    draw = np.random.default_rng(0)
    rows = [f"{draw.normal():.3f},{'xyz'[draw.integers(3)]},{'ab'[i % 2]}" for i in range(100)]
    path = tmp_path / "table.csv"
    path.write_text("u,v,label\n" + "\n".join(rows))
    base = Setting(data=str(path), target="label", nodes=2, rows=20, rounds=2, repetitions=1)
    plain = split(base, 0)
    assert plain.schema.cardinalities == (0, 3)
    for name in ("feature_skew", "concept_drift"):
        part = split(base.model_copy(update={"shift": name}), 0)
        np.testing.assert_array_equal(part.x[:, 1], plain.x[:, 1])
        assert not np.allclose(part.x[:, 0], plain.x[:, 0])
        with pytest.raises(BadData, match="all columns are categories"):
            split(base.model_copy(update={"shift": name, "drop": ("u",)}), 0)


def test_a_shift_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "my_shifts.py").write_text(
        "def flipped(rng, x, y, owned, cardinalities, sign=1):\n    return sign * x, y\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    own = {"shift": "my_shifts:flipped", "shift_options": {"sign": -1}}
    np.testing.assert_allclose(split(small(**own), 0).x, -split(small(), 0).x, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"shift": "feature_skw"}, "unknown shift 'feature_skw'; did you mean 'feature_skew'"),
        ({"shift_options": {"strength": 1}}, "shift_options of none: .*'strength'"),
        (
            {"shift": "concept_drift", "shift_options": {"strenght": 1}},
            "shift_options of concept_drift: .*'strenght'",
        ),
        (
            {"shift": "concept_drift", "shift_options": {"owned": 1}},
            "shift_options of concept_drift: .*'owned'",
        ),
        ({"shift": "feature_skew", "shift_options": {"strength": "a"}}, "strength must be .* 'a'"),
        ({"shift": "concept_shift", "shift_options": {"classes": 4}}, "the rows have 3"),
        ({"shift": "feature_skew", "model": "multinomial"}, "multinomial is about numbers as they"),
        ({"partition": "zipf", "partition_options": {"apha": 1}}, "options of zipf: .*'apha'"),
        (
            {"partition": "dirichlet_by_class", "partition_options": {"least": 30}},
            "4 nodes of 30 rows or more need 120 rows, got 80",
        ),
    ],
)
def test_shifts_and_partitions_that_cannot_be_are_refused(given, says):
    with pytest.raises((BadSetting, UnknownName), match=says):
        run(small(**given))


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
