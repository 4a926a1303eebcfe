"""The pieces of work behind the BA-BFL experiments, at tiny scale on made-up images."""

import numpy as np
import pytest

from peerwise import metrics
from peerwise.papers.ba_bfl import runs
from peerwise.papers.ba_bfl.items import ITEMS
from peerwise.papers.items import Scale, merged

TINY = {
    "net": {"name": "mlp_64", "samples": 2},
    "split": {"nodes": 3, "train_rows": None, "test_rows": 60},
    "method": {"epochs": 1, "batch": 16},
}


def described(item, name, **run):
    task = ITEMS[item].runs(["svhn_derived_20k"], Scale(quick=True))[name]
    return merged(task.arguments["description"], TINY, {"data": {"source": "any"}, "run": run})


@pytest.mark.full  # the items of test_ba_bfl_report run in `make test`
def test_what_a_run_gives(small_images):
    arrays = runs.learn(
        described("table-1", "svhn_derived_20k 1 rkl", rounds=2, record=1, repetitions=2)
    )
    for name in ("accuracy", "ece", "ece_fine", "nll", "brier", "entropy", "own_accuracy"):
        assert arrays[name].shape == (2, 2, 3), name
        assert np.isfinite(arrays[name]).all()
    # all nodes have the server's model before they train
    np.testing.assert_allclose(arrays["accuracy"], arrays["accuracy"][:, :, :1].repeat(3, 2))
    assert arrays["local_accuracy"].shape == (2, 1, 3)
    assert arrays["bins"].shape == (2, 100, 3)
    for bins, ece, accuracy in zip(
        arrays["bins"], arrays["ece_fine"][:, -1, 0], arrays["accuracy"][:, -1, 0], strict=True
    ):
        np.testing.assert_allclose(metrics.binned(bins, 100).ece, ece, atol=1e-5)
        np.testing.assert_allclose(bins.sum(0)[[0, 2]], [1, accuracy], atol=1e-5)
    assert arrays["sizes"].sum(1).tolist() == [195, 195]
    assert "ood" not in arrays  # there is no set of strange images of this shape
    assert "seconds_a_round" not in arrays


@pytest.mark.full
def test_a_round_is_timed_by_itself(small_images):
    arrays = runs.pace(described("figure-4", "svhn_derived_20k 1 rkl"))
    assert arrays["seconds"].shape == (runs.TIMES,)
    assert arrays["seconds_a_round"] == np.median(arrays["seconds"])
    assert np.isfinite(arrays["seconds"]).all()


def test_strange_images_are_told_by_entropy():
    assert runs._told_apart(np.array([0.1, 0.2]), np.array([0.3, 0.4])) == 1
    assert runs._told_apart(np.array([0.1, 0.3]), np.array([0.2, 0.2])) == pytest.approx(0.5)


def test_strange_images_have_all_their_pixels(small_images):
    inside, outside = runs.entropies(np.zeros((20, 16), np.float32), outside="any").args
    assert inside.shape == outside.shape == (20, 16)  # one pixel is always dark
