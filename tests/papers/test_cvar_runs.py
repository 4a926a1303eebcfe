"""The pieces of work behind the CVaR-CTA experiments, at tiny scale on made-up images."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from peerwise import data
from peerwise.errors import UnknownName
from peerwise.papers.cvar_cta import runs as cvar_runs
from peerwise.papers.images import images, recorded, rows_at_once

NODES, CLASSES, REPLICAS = 5, 3, 2
TINY = {
    **{"net": "mlp_64", "graph": "ring", "nodes": NODES, "q": 0.5, "lr": 0.05, "rounds": 6},
    **{"steps": 2, "batch": 5, "replicas": REPLICAS, "every": 3},
}


def made_up(name):
    """Images of 4 x 4 pixels whose mean tells the class."""
    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=260)
    pixels = np.clip(rng.normal(60 + 60 * y[:, None, None], 20, (260, 4, 4)), 0, 255)
    split = np.where(np.arange(260) % 4 == 0, "test", "train")
    return SimpleNamespace(frame=pixels.astype(np.uint8), labels=y, split=split)


@pytest.fixture(autouse=True)
def small_images(monkeypatch):
    """`images` reads a set once: forget it before and after."""
    images.cache_clear()
    monkeypatch.setattr(data, "load", made_up)
    yield
    images.cache_clear()


# --- images


def test_images_are_split_as_their_set_is_and_scaled():
    table = made_up("any")
    task = images("any", scale="unit")
    assert (task.x.shape, task.x_test.shape) == ((195, 16), (65, 16))
    assert (task.shape, task.classes) == ((4, 4), CLASSES)
    assert task.x.dtype == np.float32
    assert task.x.max() == 1
    assert task.x.min() >= 0
    flat = table.frame.reshape(260, 16)[table.split == "train"]
    order = np.random.default_rng(0).permutation(195)
    np.testing.assert_allclose(task.x, flat[order] / flat.max(), rtol=1e-6)
    np.testing.assert_array_equal(task.y, table.labels[table.split == "train"][order])
    standard = images("any")
    assert standard.x.mean() == pytest.approx(0, abs=1e-5)
    assert standard.x.std() == pytest.approx(1, abs=1e-5)


def test_fewer_images_are_the_first_of_all():
    whole, few = images("any", scale="unit"), images("any", 30, 10, scale="unit")
    assert (len(few.y), len(few.y_test)) == (30, 10)
    np.testing.assert_array_equal(few.y, whole.y[:30])
    np.testing.assert_array_equal(few.y_test, whole.y_test[:10])


def test_rounds_are_recorded_closely_at_first_and_at_the_end():
    at = recorded(900, 30)
    assert at[:6] == [1, 2, 3, 4, 5, 7]
    assert at[-1] == 900
    assert set(range(30, 901, 30)) <= set(at)
    assert recorded(3, 5) == [1, 2, 3]
    assert rows_at_once("lenet") < rows_at_once("mlp_200")


# --- learning


@pytest.fixture(scope="module")
def runs():
    return {}


def learnt(runs, method="cvar-cvar", **more):
    """Each run once."""
    key = method, *sorted(more.items())
    if key not in runs:
        runs[key] = cvar_runs.learn("any", method, **{**TINY, **more})
    return runs[key]


def test_what_a_run_gives(runs):
    found = learnt(runs, alpha=0.3)
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
    # weights of 16-64-10 or so, a threshold and a loss: four bytes each
    assert found["message_bytes"] > 4 * (16 * 64 + 64 + 64 * CLASSES + CLASSES)
    plain = [v for v in found.values() if isinstance(v, np.ndarray)]
    assert len(plain) == len(found)


def test_class_accuracies_are_of_the_nodes_and_of_all_but_node_0(runs):
    """Weighted by how many test rows a class has they are the accuracy, whichever nodes."""
    found = learnt(runs, alpha=0.3)
    share = np.bincount(images("any").y_test, minlength=CLASSES) / 65
    np.testing.assert_allclose(
        found["class_accuracy"] @ share, found["accuracy"].mean(-1), atol=1e-5
    )
    others = found["accuracy"][:, :, 1:].mean(-1)
    np.testing.assert_allclose(found["class_accuracy_of_others"] @ share, others, atol=1e-5)


def test_all_nodes_begin_alike_and_combining_brings_them_together(runs):
    """In round 1 all combine the same; later, models after combining are nearer."""
    found = learnt(runs, "cta")
    np.testing.assert_allclose(found["combined_consensus"][:, 0], 0, atol=1e-6)
    assert (found["consensus"][:, 0] > 0).all()
    assert found["combined_consensus"].mean() < found["consensus"].mean()


def test_replicas_have_draws_of_their_own(runs):
    found = learnt(runs, "cta")
    assert (found["consensus"][0] != found["consensus"][1]).all()


def test_a_method_of_another_paper_runs(runs):
    found = learnt(runs, "decdiff+vt", rounds=2, replicas=1)
    assert np.isfinite(found["accuracy"]).all()
    assert found["accuracy"].shape == (1, 2, NODES)


def test_a_quiet_node_is_heard_with_a_probability_of_its_own(monkeypatch):
    seen = []
    real = cvar_runs.channel.erasure

    def spy(q, by=None):
        seen.append((np.asarray(q).tolist(), by))
        return real(q, by=by)

    monkeypatch.setattr(cvar_runs.channel, "erasure", spy)
    cvar_runs._links(4, 0.9, 0.05)
    cvar_runs._links(4, 0.9, None)
    (by_sender, sender), (same, _) = seen
    assert by_sender == [0.05, 0.9, 0.9, 0.9]
    assert sender == "sender"
    assert same == 0.9


def test_nobody_learns_the_class_of_a_node_that_is_never_heard(runs):
    """Of three classes, node 0 alone has the first and all its messages are lost."""
    told = {"way": "sole_holder", "quiet": 0.0, "q": 1.0, "rounds": 15, "steps": 10, "lr": 0.2}
    found = learnt(runs, "cta", **told)
    assert found["class_accuracy_of_others"][:, -1, 0].max() < 0.1
    assert found["class_accuracy_of_others"][:, -1, 1:].mean() > 0.5


def test_unknown_names_are_refused():
    with pytest.raises(UnknownName, match="did you mean 'cvar-cvar'"):
        cvar_runs.learn("any", "cvar-cva", **TINY)
    with pytest.raises(UnknownName, match="did you mean 'ring'"):
        cvar_runs.learn("any", "cta", **{**TINY, "graph": "rng"})
    with pytest.raises(UnknownName, match="did you mean 'mixed'"):
        cvar_runs.learn("any", "cta", **TINY, way="mixd")


@pytest.mark.parametrize("graph", cvar_runs.GRAPHS)
@pytest.mark.parametrize("nodes", [5, 20])
def test_graphs_are_one_in_all_runs(graph, nodes):
    first, second = (cvar_runs.GRAPHS[graph](nodes) for _ in range(2))
    assert first.n == nodes
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)


def test_learning_mnist(data_folder, monkeypatch):
    """A moment of figure 2a, on real images."""
    monkeypatch.undo()
    if "mnist" not in {entry["name"] for entry in data.available()}:
        pytest.skip("needs MNIST: set PEERWISE_DATA to a folder that has it")
    few = {"rows": 500, "test_rows": 200, "batch": 20, "rounds": 3, "replicas": 1}
    found = cvar_runs.learn("mnist", "cta", **{**TINY, **few, "graph": "line"})
    assert found["class_accuracy"].shape == (1, 3, 10)
    assert 0 <= found["accuracy"].min() <= found["accuracy"].max() < 0.9


# --- CRC


@pytest.mark.parametrize("weigh", ["equal", "worst"])
def test_crc_and_the_class_of_a_quiet_node(monkeypatch, weigh):
    monkeypatch.setattr(cvar_runs, "COMPONENTS", 4)
    told = {"graph": "ring", "nodes": 4, "quiet": 0.05, "rounds": 12, "replicas": REPLICAS}
    found = cvar_runs.rare_statistics("any", weigh=weigh, **told)
    at = found["rounds"].tolist()
    assert at[-1] == 12
    assert found["accuracy"].shape == (REPLICAS, len(at), 4)
    assert found["class_accuracy_of_others"].shape == (REPLICAS, len(at), CLASSES)
    assert found["accuracy"][:, -1].mean() > 0.5


def test_the_gap_of_crc_to_rc_grows_with_loss(monkeypatch):
    monkeypatch.undo()
    told = {"graph": "tree", "rounds": 10, "repetitions": 2, "nodes": 8, "rows": 20}
    near, far = (cvar_runs.calibrate("digits", q=q, test_rows=300, **told) for q in (1.0, 0.1))
    for found in (near, far):
        assert found["gap"].shape == found["error"].shape == (2, 8)
        assert found["reference"].shape == (2, 1)
        np.testing.assert_allclose(found["gap"], found["error"] - found["reference"])
        assert 0 <= found["error"].min() <= found["error"].max() <= 1
    np.testing.assert_array_equal(near["reference"], far["reference"])
    assert far["gap"].mean() > near["gap"].mean()
