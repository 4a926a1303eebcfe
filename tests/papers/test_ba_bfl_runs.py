"""The pieces of work behind the BA-BFL experiments, at tiny scale on made-up images."""

from types import SimpleNamespace

import numpy as np
import pytest

from peerwise import data
from peerwise.papers.ba_bfl import runs as ba_bfl_runs
from peerwise.papers.images import images

TINY = {"net": "mlp_64", "nodes": 3, "epochs": 1, "batch": 16}


def made_up(name):
    """Images of 4 x 4 pixels whose mean tells the class."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=240)
    pixels = np.clip(rng.normal(60 + 60 * y[:, None, None], 20, (240, 4, 4)), 0, 255)
    split = np.where(np.arange(240) % 4 == 0, "test", "train")
    return SimpleNamespace(frame=pixels.astype(np.uint8), labels=y, split=split)


@pytest.fixture(autouse=True)
def small_images(monkeypatch):
    """`images` reads a set once: forget it before and after."""
    images.cache_clear()
    monkeypatch.setattr(data, "load", made_up)
    yield
    images.cache_clear()


def test_a_run_is_not_timed_round_by_round():
    found = ba_bfl_runs.learn("any", "rkl", 1, rounds=2, replicas=2, every=1, **TINY)
    assert found["accuracy"].shape == (2, 2, 1)  # all nodes have the server's model
    assert found["own_accuracy"].shape == (2, 2, 3)
    assert found["local_accuracy"].shape == (2, 1, 3)
    assert "seconds_a_round" not in found


def test_a_round_is_timed_by_itself():
    found = ba_bfl_runs.pace("any", "rkl", 1, **TINY)
    assert found["seconds"].shape == (ba_bfl_runs.TIMES,)
    assert found["seconds_a_round"] == np.median(found["seconds"])
    assert np.isfinite(found["seconds"]).all()
