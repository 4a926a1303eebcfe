"""What notebooks show of results and models."""

import numpy as np
import pandas as pd
import pytest

from peerwise import notebook
from peerwise.report.result import Result
from peerwise.study.results import Record

HOSTILE = "<script>alert(1)</script>"


def test_a_result_shows_its_table_and_its_lines():
    record = Record(paper=None, item="run", dataset="wine", setting={"method": HOSTILE},
                    metric="test_error", value=0.125, std=None, reps=1)  # fmt: skip
    other = record.model_copy(update={"setting": {"method": "crc"}, "value": 0.0625})
    history = pd.DataFrame(
        {"dataset": "wine", "method": np.repeat([HOSTILE, "crc"], 2), "repetition": 0,
         "round": [1, 2, 1, 2], "node": 0, "test_error": [0.5, 0.125, 0.25, 0.0625]}
    )  # fmt: skip
    html = Result([record, other], history, {"a <cell>": "too few rows"})._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "0.1250" in html
    assert html.count("<polyline") == 2
    assert "a &lt;cell&gt;" in html


def test_a_chart_keeps_its_points_inside():
    svg = notebook.chart({"a": ([1, 2, 3], [0.5, float("nan"), 0.1])}, "error", "round")
    points = [p.split(",") for p in svg.partition('points="')[2].partition('"')[0].split()]
    assert len(points) == 2
    assert all(0 <= float(x) <= notebook.WIDTH and 0 <= float(y) <= notebook.HEIGHT
               for x, y in points)  # fmt: skip
    assert notebook.chart({"a": ([1], [float("nan")])}, "error", "round") == ""
    assert "<circle" in notebook.chart({"a": ([1], [0.5])}, "error", "round")


@pytest.fixture(scope="module")
def fitted():
    from sklearn.datasets import load_wine

    from peerwise.estimators import RiskCalibratedClassifier

    x, y = load_wine(return_X_y=True, as_frame=True)
    return x, y, RiskCalibratedClassifier(max_iter=5, start="ml").fit(x, y)


def test_a_model_shows_the_means_that_it_learnt(fitted):
    x, y, model = fitted
    html = model._repr_html_()
    assert "RiskCalibratedClassifier" in html
    assert "<polyline" in html  # calibration
    mean = model.classifier_.parameters["mean"]
    names = [f.name for f in model.schema_.features]
    j = names.index("alcohol")
    feature = model.schema_.features[j]
    for value in mean[:, j] * feature.scale + feature.center:
        assert f">{value:.4g}<" in html
    # and these are near the means of the rows, which calibration moves a little
    np.testing.assert_allclose(
        mean[:, j] * feature.scale + feature.center, x.groupby(y)["alcohol"].mean(), atol=0.3
    )


def test_before_fit_there_is_only_what_scikit_learn_shows():
    from peerwise.estimators import RiskCalibratedClassifier

    assert "<polyline" not in RiskCalibratedClassifier()._repr_html_()
