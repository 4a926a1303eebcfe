"""What tests of papers share."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from peerwise.data import loaders
from peerwise.learner import world


def made_up(name):
    """Images of 4 x 4 pixels, one of which is always dark, whose mean tells the class of three."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=260)
    pixels = np.clip(rng.normal(60 + 60 * y[:, None, None], 20, (260, 4, 4)), 0, 255)
    pixels[:, 0, 0] = 0
    split = np.where(np.arange(260) % 4 == 0, "test", "train")
    table = {"frame": pixels.astype(np.uint8), "labels": y, "split": split}
    return SimpleNamespace(**table)


@pytest.fixture
def small_images(monkeypatch):
    """Any data set is a set of small images; a set is read once: forget it before and after."""
    world._encoded.cache_clear()

    def load(name, **more):
        small = made_up(name)
        return loaders.Table(
            name, small.frame, small.labels.astype(str), "class", split=small.split
        )

    monkeypatch.setattr(world.data, "load", load)
    yield made_up
    world._encoded.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def sketched():
    """Figures are coarse and not laid out, which is most of their time; `make full` does it."""
    if "PEERWISE_FULL" in os.environ:
        yield
        return
    save = Figure.savefig

    def quickly(figure, path, **options):
        figure.set_layout_engine("none")
        save(figure, path, dpi=50)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", quickly)
        yield
