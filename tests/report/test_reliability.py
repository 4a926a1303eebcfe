"""The reliability diagram: what it draws is what was measured."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from peerwise.errors import BadData
from peerwise.metrics import ece, reliability
from peerwise.report.figures import save
from peerwise.report.reliability import reliability_diagram


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def draws(m=300):
    rng = np.random.default_rng(0)
    return rng.integers(3, size=m), rng.dirichlet(np.full(3, 0.5), m)


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_a_panel_a_model_with_its_error_and_its_dots(binning):
    y, prob = draws()
    found = {name: reliability(y[:m], prob[:m], 10, binning) for name, m in [("a", 300), ("b", 50)]}
    figure = reliability_diagram(found)
    assert len(figure.axes) == 2
    for axis, (name, bins), m in zip(figure.axes, found.items(), (300, 50), strict=True):
        assert axis.get_title() == f"{name}\nECE {ece(y[:m], prob[:m], 10, binning):.3f}"
        diagonal, dots = axis.lines
        np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
        np.testing.assert_array_equal(dots.get_ydata(), bins.accuracy)
        (below,) = axis.child_axes
        shares = [bar.get_height() for bar in below.patches]
        np.testing.assert_allclose(shares, bins.count / m)


def test_bars_fill_what_is_between_accuracy_and_confidence():
    y, prob = draws()
    bins = reliability(y, prob, 10)
    axis = reliability_diagram({"a": bins}).axes[0]
    whole, better, worse = axis.containers
    there = bins.count > 0
    low = np.minimum(bins.accuracy, bins.confidence)
    np.testing.assert_allclose([bar.get_height() for bar in whole], low)
    gap = [
        np.nansum([one.get_height(), two.get_height()])
        for one, two in zip(better, worse, strict=True)
    ]
    np.testing.assert_allclose(gap, np.where(there, abs(bins.accuracy - bins.confidence), 0))
    assert gap @ bins.count / bins.count.sum() == pytest.approx(bins.ece)


@pytest.mark.some("2")
@pytest.mark.parametrize("models", [1, 2, 5])
def test_it_is_written_without_complaint(models, tmp_path):
    y, prob = draws()
    sure = np.eye(3)[y]  # all in one bin of no width
    found = {f"model {i}": reliability(y, prob, 15) for i in range(models - 1)}
    figure = reliability_diagram({**found, "sure": reliability(y, sure, 15, "mass")})
    assert sum(axis.get_visible() for axis in figure.axes) == models
    assert save(figure, tmp_path / "diagram.png").stat().st_size > 10_000


def test_nothing_to_draw_is_refused():
    with pytest.raises(BadData, match="no model"):
        reliability_diagram({})
