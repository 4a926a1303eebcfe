"""Who holds which rows: test rows, training rows, partitions and shifts."""

import numpy as np
import pandas as pd
import pytest

from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.learner import cell, drawn, run

SPLIT = {"nodes": 4, "rows": 20, "test_rows": 60}
SMALL = {"data": "wine", "split": SPLIT, "run": {"rounds": 6, "repetitions": 2}}
SHIFTS = ("feature_skew", "concept_drift", "concept_shift")


def world(repetition=0, seed=0, **split):
    """The rows of a small network, with other values in `[split]`."""
    run = {**SMALL["run"], "seed": seed}
    return drawn(cell({**SMALL, "split": {**SPLIT, **split}, "run": run}), repetition)


def raw(x, schema):
    """Rows in the units of the data."""
    return x * [f.scale for f in schema.features] + [f.center for f in schema.features]


def test_test_rows_are_disjoint_from_training_rows_and_nested():
    few, many = world(rows=10), world(rows=20)
    assert len(few.y) == 40
    assert len(many.y) == 80
    assert len(many.y_test) == 60
    known = {tuple(np.round(r, 5)) for r in many.x}
    assert not known & {tuple(np.round(r, 5)) for r in many.x_test}
    np.testing.assert_array_equal(few.y_test, many.y_test)


def test_training_rows_are_standardised_on_themselves():
    part = world()
    np.testing.assert_allclose(part.x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(part.x.std(0), 1, atol=1e-4)


def test_methods_are_compared_on_the_same_rows():
    a = drawn(cell({**SMALL, "network": "ring"}), 1)
    for other in ({"network": "chain"}, {"method": "rc"}, {"method": "fedavg"}, {"model": "qda"}):
        b = drawn(cell({**SMALL, **other}), 1)
        np.testing.assert_array_equal(a.x, b.x)
        np.testing.assert_array_equal(a.y, b.y)
        np.testing.assert_array_equal(a.x_test, b.x_test)
        for mine, theirs in zip(a.owned, b.owned, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert not np.array_equal(world(0).x, a.x)


def test_every_row_is_held_by_one_node():
    part = world(sizes="exponential")
    np.testing.assert_array_equal(np.sort(np.concatenate(part.owned)), np.arange(80))
    assert (part.nodes, part.rows) == (4, 80)


def test_too_few_rows_are_told():
    with pytest.raises(BadData, match="too few for 40 nodes of 20 rows"):
        world(nodes=40)
    with pytest.raises(BadSetting, match="wine has no test rows of its own"):
        world(test="own")


def test_both_dirichlet_partitions_follow_alpha():
    for name in ("dirichlet", "dirichlet_by_class"):
        even, skew = (world(partition=name, alpha=alpha) for alpha in (1e6, 0.5))
        apart = [
            np.mean([np.var(np.bincount(p.y[r], minlength=3)) for r in p.owned])
            for p in (even, skew)
        ]
        assert apart[0] < apart[1]


@pytest.mark.parametrize("name", SHIFTS)
def test_a_shift_changes_training_rows_of_the_same_nodes_and_no_test_row(name):
    plain, part = world(), world(shift=name)
    for a, b in zip(plain.owned, part.owned, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(part.y_test, plain.y_test)
    assert np.array_equal(part.y, plain.y) == (name != "concept_shift")
    # in the units of the data
    was, seen = (raw(p.x_test, p.schema) for p in (plain, part))
    np.testing.assert_allclose(seen, was, rtol=1e-4)
    was, seen = (raw(p.x, p.schema) for p in (plain, part))
    assert np.allclose(seen, was, rtol=1e-4) == (name == "concept_shift")
    # and standardised on what the nodes hold
    np.testing.assert_allclose(part.x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(part.x.std(0), 1, atol=1e-4)


@pytest.mark.parametrize("name", SHIFTS)
def test_a_shift_of_strength_0_is_none(name):
    plain, part = world(1), world(1, shift={"name": name, "strength": 0})
    np.testing.assert_array_equal(part.x, plain.x)
    np.testing.assert_array_equal(part.y, plain.y)
    assert part.schema == plain.schema


def test_repetitions_and_seeds_are_shifted_otherwise():
    moved = []
    for seed, repetition in ((0, 0), (0, 1), (1, 0)):
        plain = world(repetition, seed)
        part = world(repetition, seed, shift="concept_drift")
        first = plain.owned[0][0]
        moved.append((part.x - plain.x)[first, 0])
    assert len(set(moved)) == 3


def test_a_shift_leaves_categories_as_they_are(tmp_path):
    draw = np.random.default_rng(0)
    rows = [f"{draw.normal():.3f},{'xyz'[draw.integers(3)]},{'ab'[i % 2]}" for i in range(100)]
    path = tmp_path / "table.csv"
    path.write_text("u,v,label\n" + "\n".join(rows))
    data = {"source": str(path), "target": "label"}
    base = cell({"data": data, "split": {"nodes": 2, "rows": 20}})
    plain = drawn(base, 0)
    assert plain.schema.cardinalities == (0, 3)
    for name in ("feature_skew", "concept_drift"):
        shifted = base.changed(split={"shift": name})
        part = drawn(shifted, 0)
        np.testing.assert_array_equal(part.x[:, 1], plain.x[:, 1])
        assert not np.allclose(part.x[:, 0], plain.x[:, 0])
        with pytest.raises(BadData, match="all columns are categories"):
            drawn(shifted.changed(data={"drop": ["u"]}), 0)


OWN = """
import numpy as np

def flipped(rng, x, y, owned, cardinalities, *, sign=1):
    return sign * x, y

def everything_twice(y, nodes):
    return [np.arange(len(y))] * nodes

def too_few(y, nodes):
    return [np.arange(3)] * (nodes - 1)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "my_splits.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_shift_of_ones_own(own):
    shift = {"name": "my_splits:flipped", "sign": -1}
    np.testing.assert_allclose(world(shift=shift).x, -world().x, atol=1e-6)


def test_a_partition_of_ones_own_is_checked(own):
    with pytest.raises(BadSetting, match="each to one node at most"):
        world(partition="my_splits:everything_twice")
    with pytest.raises(BadSetting, match="dealt rows to 3 nodes, and there are 4"):
        world(partition="my_splits:too_few")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"shift": "feature_skw"}, "unknown shift 'feature_skw'; did you mean 'feature_skew'"),
        ({"strength": 1}, r"unknown key in \[split\]: 'strength'"),
        ({"shift": "concept_drift", "strenght": 1}, "did you mean 'strength'"),
        (
            {"shift": {"name": "concept_drift", "owned": 1}},
            r"unknown key in \[split.shift\]: 'owned'",
        ),
        ({"shift": "feature_skew", "strength": "a"}, "strength must be a number, got 'a'"),
        ({"shift": "concept_shift", "classes": 4}, "the rows have 3"),
        ({"partition": {"name": "zipf", "apha": 1}}, "did you mean 'alpha'"),
        (
            {"partition": "dirichlet_by_class", "least": 30},
            "4 nodes of 30 rows or more need 120 rows, got 80",
        ),
    ],
)
def test_shifts_and_partitions_that_cannot_be_are_refused(given, says):
    with pytest.raises((BadSetting, UnknownName), match=says):
        world(**given)


def test_a_shift_of_numbers_is_refused_by_a_model_of_numbers_as_they_are():
    split = {**SPLIT, "shift": "feature_skew"}
    with pytest.raises(BadSetting, match="multinomial uses numbers as they are"):
        drawn(cell({**SMALL, "split": split, "model": "multinomial"}), 0)


def test_a_file_that_was_changed_is_read_again(tmp_path):
    path = tmp_path / "rows.csv"
    described = {"data": {"source": str(path), "target": "y"}, "split": {"nodes": 2, "rows": 10}}
    rows = [f"{i}.5,{'ab'[i % 2]}" for i in range(40)]
    path.write_text("x,y\n" + "\n".join(rows))
    before = drawn(cell(described), 0).schema.features[0].center
    path.write_text("x,y\n" + "\n".join("9" + row for row in rows))
    assert drawn(cell(described), 0).schema.features[0].center > before + 50


def planted(path, rows=120, **changes):
    """A file of numbers and categories; `changes`: column -> value of the first test row."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "n": draw.normal(size=rows).round(3),
            "grade": draw.integers(10, size=rows),
            "c": draw.choice(["u", "v"], rows),
            "job": draw.choice([f"job{i:02}" for i in range(12)], rows),
            "label": draw.choice(["a", "b"], rows),
        },
        dtype=object,
    )
    test = np.random.default_rng([0, 0, 0]).permutation(rows)[80:]
    for column, value in changes.items():
        frame.loc[test[0], column] = value
    frame.to_csv(path, index=False)
    description = {"data": {"source": str(path), "target": "label"}, "split": SPLIT}
    return cell({**description, "run": {"rounds": 0, "repetitions": 1}, "method": "ml"})


@pytest.mark.parametrize(
    "change", [{"c": "w"}, {"grade": 10}, {"label": "z"}, {"job": "job99"}, {"grade": ""}]
)
def test_what_only_test_rows_have_does_not_change_training(tmp_path, change):
    plain, part = (
        drawn(planted(tmp_path / f"{name}.csv", **changes), 0)
        for name, changes in (("plain", {}), ("part", change))
    )
    assert part.schema == plain.schema
    np.testing.assert_array_equal(part.x, plain.x)
    np.testing.assert_array_equal(part.y, plain.y)
    assert not np.array_equal(part.x_test, plain.x_test) or "label" in change
    # unless it is said to be public
    public = planted(tmp_path / "part.csv", **change).changed(data={"public": True})
    assert drawn(public, 0).schema != plain.schema


def test_unseen_categories_and_classes_are_measured_as_wrong_and_not_as_broken(tmp_path):
    part = planted(tmp_path / "part.csv", c="w", label="z")
    world = drawn(part, 0)
    assert (world.y_test == 2).sum() == 1
    assert np.isnan(world.x_test).sum() == 1
    values = run(part).values
    assert np.isfinite(values["test_log_loss"]).all()
    assert 1 / 40 <= values["test_error"].min() < 1
    net = drawn(part.changed(method="fedavg", split={"nodes": 2}), 0)
    assert np.isfinite(net.x_test).all()


@pytest.mark.some("ml", "crc")
@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize(
    ("method", "kind"),
    [("ml", {}), ("crc", {}), ("fedavg", {}), ("gossip_nb", {"privacy": {"epsilon": 1.0}})],
)
def test_a_number_that_never_varies_in_training_has_no_influence(tmp_path, method, kind, public):
    """Whatever it is in the test rows: of numbers in a file the training rows decide."""
    losses = []
    for name, values in (("one", np.linspace(7, 8, 40)), ("two", np.linspace(-900, 900, 40))):
        draw = np.random.default_rng(0)
        frame = pd.DataFrame({"n": draw.normal(size=120), "still": 7.0})
        frame["label"] = np.where(frame["n"] + draw.normal(size=120) > 0.5, "a", "b")
        frame.loc[np.random.default_rng([0, 0, 0]).permutation(120)[80:], "still"] = values
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        columns = {"still": "number"}
        source = {"source": str(tmp_path / f"{name}.csv"), "target": "label", "columns": columns}
        described = {
            "data": {**source, "public": public}, "method": method, "split": SPLIT, **kind,
            "run": {"rounds": 2, "repetitions": 1},
        }  # fmt: skip
        losses.append(run(cell(described)).values["test_log_loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def test_rows_fit_the_data_unless_they_are_given(tmp_path):
    few = planted(tmp_path / "few.csv").changed(split={"rows": None, "nodes": 50, "test_rows": 60})
    assert drawn(few, 0).rows == 50
    assert drawn(cell({"data": "wine", "split": {"nodes": 3}}), 0).rows == 150
    assert len(drawn(cell({"data": "wine", "split": {"nodes": 4}}), 0).y) == 124
    assert len(drawn(cell({}), 0).y) == 50 * 25
