"""The pieces of work behind the CVaR-CTA experiments, at tiny scale on made-up images."""

import numpy as np
import pytest

from peerwise.learner import cell
from peerwise.learner.world import drawn
from peerwise.papers.cvar_cta import runs as cvar_runs
from peerwise.papers.cvar_cta.items import ITEMS
from peerwise.papers.items import Scale, merged

NODES, CLASSES, REPLICAS = 5, 3, 2
TINY = {
    "data": {"source": "any"},
    "split": {"train_rows": None, "test_rows": 65},
    "method": {"lr": 0.05, "steps": 2, "batch": 5},
    "network": {"q": 0.5},
    "run": {"rounds": 6, "record": 3, "repetitions": REPLICAS},
}


def described(item, name, *more):
    task = ITEMS[item].runs(["mnist"], Scale(quick=True))[name]
    return merged(task.arguments["description"], TINY, *more)


@pytest.fixture(scope="module")
def runs():
    return {}


def learnt(runs, variant="cvar-cvar", *more):
    """Each run once."""
    key = variant, str(more)
    if key not in runs:
        runs[key] = cvar_runs.learn(described("figure-2a", f"mnist line 0.3|{variant}", *more))
    return runs[key]


def test_images_are_split_as_their_set_is_and_scaled(small_images):
    table = small_images("any")
    world = drawn(cell(described("figure-2a", "mnist line 0.3|cta")), 0)
    assert (world.x.shape, world.x_test.shape) == ((195, 16), (65, 16))
    assert (world.shape, len(world.schema.classes)) == ((4, 4), CLASSES)
    assert world.x.dtype == np.float32
    assert world.x.max() == pytest.approx(1)
    assert world.x.min() >= 0
    assert (
        np.bincount(world.y).tolist() == np.bincount(table.labels[table.split == "train"]).tolist()
    )


def test_what_a_run_gives(small_images, runs):
    found = learnt(runs)
    assert found["rounds"].tolist() == [1, 2, 3, 4, 5, 6]
    for stage in ("", "combined_"):
        assert found[f"{stage}accuracy"].shape == (REPLICAS, 6, NODES)
        assert found[f"{stage}class_accuracy"].shape == (REPLICAS, 6, CLASSES)
        assert found[f"{stage}consensus"].shape == (REPLICAS, 6)
        for name in (f"{stage}accuracy", f"{stage}class_accuracy"):
            assert -1e-6 <= found[name].min() <= found[name].max() <= 1 + 1e-6
        assert (found[f"{stage}consensus"] >= 0).all()
    assert found["class_accuracy_of_others"].shape == (REPLICAS, 6, CLASSES)
    assert found["seconds"] > 0
    # weights of 16-64-3, a threshold and a loss: four bytes each
    assert found["message_bytes"] > 4 * (16 * 64 + 64 + 64 * CLASSES + CLASSES)
    assert all(isinstance(array, np.ndarray) for array in found.values())


def test_class_accuracies_are_of_the_nodes_and_of_all_but_node_0(small_images, runs):
    """Weighted by how many test rows a class has they are the accuracy, whichever nodes."""
    found, table = learnt(runs), small_images("any")
    share = np.bincount(table.labels[table.split == "test"], minlength=CLASSES) / 65
    np.testing.assert_allclose(
        found["class_accuracy"] @ share, found["accuracy"].mean(-1), atol=1e-5
    )
    others = found["accuracy"][:, :, 1:].mean(-1)
    np.testing.assert_allclose(found["class_accuracy_of_others"] @ share, others, atol=1e-5)


@pytest.mark.full
def test_all_nodes_begin_alike_and_combining_brings_them_together(small_images, runs):
    """In round 1 all combine the same; later, models after combining are nearer."""
    found = learnt(runs, "cta")
    np.testing.assert_allclose(found["combined_consensus"][:, 0], 0, atol=1e-6)
    assert (found["consensus"][:, 0] > 0).all()
    assert found["combined_consensus"].mean() < found["consensus"].mean()
    assert (
        found["consensus"][0] != found["consensus"][1]
    ).all()  # replicas have draws of their own


@pytest.mark.full  # `make test`: a seldom heard node, methods/test_cvar_claim.py
def test_nobody_learns_the_class_of_a_node_that_is_never_heard(small_images, runs):
    """Of three classes, node 0 alone has the first and all its messages are lost."""
    quiet = {
        "split": {"partition": "sole_holder", "rows": 20},
        "network": {"channel": "quiet_node", "q": 1.0, "quiet": 0.0},
        "method": {"steps": 10, "lr": 0.2},
        "run": {"rounds": 15},
    }
    found = learnt(runs, "cta", quiet)
    assert found["class_accuracy_of_others"][:, -1, 0].max() < 0.1
    assert found["class_accuracy_of_others"][:, -1, 1:].mean() > 0.5


@pytest.mark.long("worst")
@pytest.mark.parametrize("rule", ["equal", "worst"])
def test_crc_and_the_class_of_a_quiet_node(small_images, monkeypatch, rule):
    monkeypatch.setattr(cvar_runs, "COMPONENTS", 4)
    few = {"split": {"nodes": 4, "rows": 20}, "network": {"q": 1.0}, "run": {"rounds": 12}}
    description = described("rare", f"mnist ring|crc {rule}", few)
    description["method"] = {"name": "crc", "rule": description["method"]["rule"]}
    found = cvar_runs.rare_statistics(description)
    at = found["rounds"].tolist()
    assert at[-1] == 12
    assert found["accuracy"].shape == (REPLICAS, len(at), 4)
    assert found["class_accuracy_of_others"].shape == (REPLICAS, len(at), CLASSES)
    assert found["accuracy"][:, -1].mean() > 0.5


@pytest.mark.full  # `make test`: methods/test_crc_loss.py
def test_the_gap_of_crc_to_rc_grows_with_loss():
    task = ITEMS["loss"].runs([], Scale(quick=True))["digits tree 0.0|crc 64"]
    few = {"split": {"nodes": 8, "test_rows": 300}, "run": {"rounds": 10, "repetitions": 2}}
    near, far = (
        cvar_runs.calibrate(merged(task.arguments["description"], few, {"network": {"q": q}}))
        for q in (1.0, 0.1)
    )
    for found in (near, far):
        assert found["gap"].shape == found["error"].shape == (2, 8)
        assert found["reference"].shape == (2, 1)
        np.testing.assert_allclose(found["gap"], found["error"] - found["reference"])
        assert 0 <= found["error"].min() <= found["error"].max() <= 1
    np.testing.assert_array_equal(near["reference"], far["reference"])
    assert far["gap"].mean() > near["gap"].mean()
