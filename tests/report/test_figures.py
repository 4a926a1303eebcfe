"""The figure of a run: who has which colour, panel and line, and that it is always drawn."""

import warnings

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from peerwise.errors import BadFile, UnknownName
from peerwise.metrics import confidence
from peerwise.report import curves, look
from peerwise.report.axes import few_log_ticks


def history(methods=3, rounds=(1, 2, 4), reps=3, nodes=4, datasets=("digits",), **factors):
    """Errors that fall with rounds; `factors` are columns with their values."""
    rng = np.random.default_rng(0)
    index = pd.MultiIndex.from_product(
        [datasets, [f"method_{i}" for i in range(methods)], *factors.values(), range(reps), rounds,
         range(nodes)],
        names=["dataset", "method", *factors, "repetition", "round", "node"],
    )  # fmt: skip
    frame = index.to_frame(index=False)
    frame["test_error"] = 0.5 / frame["round"] + rng.uniform(0, 0.1, len(frame))
    frame["auroc"] = rng.uniform(0.7, 0.9, len(frame))
    return frame


def drawn(frame, **options):
    """The figures, rendered, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figures = curves.pages(frame, factors=curves.factors_of(frame), **options)
        for figure in figures:
            FigureCanvasAgg(figure).draw()
    return figures


def texts(figure):
    """All texts that are drawn, with the places that they take."""
    renderer = figure.canvas.get_renderer()
    out_of_view = {
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks())
        for label in (tick.label1, tick.label2)
        if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
    }
    for text in figure.findobj(matplotlib.text.Text):
        if text.get_visible() and text.get_text().strip() and text not in out_of_view:
            yield text.get_text(), text.get_window_extent(renderer)


def overlaps(figure):
    drawn = list(texts(figure))
    assert len(drawn) > 3
    return [
        (a, b) for i, (a, one) in enumerate(drawn) for b, two in drawn[i + 1 :] if one.overlaps(two)
    ]


def shown(figure):
    return [axis for axis in figure.axes if axis.get_visible()]


def labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_three_topologies_methods_and_repetitions_are_three_panels_of_three_lines():
    frame = history(topology=["ring", "star", "random_tree"])
    (figure,) = drawn(frame)
    assert [a.get_title() for a in shown(figure)] == [
        "topology = ring", "topology = star", "topology = random tree"
    ]  # fmt: skip
    assert all(len(a.lines) == 3 for a in shown(figure))
    assert labels(figure) == ["method 0", "method 1", "method 2"]
    assert "over 3 repetitions" in figure.legends[0].get_title().get_text()
    assert overlaps(figure) == []


def test_lines_are_means_and_bands_their_intervals():
    frame = history(methods=1, reps=5)
    frame["test_error"] += 1  # no logarithm
    (figure,) = drawn(frame)
    (line,), (band,) = shown(figure)[0].lines, shown(figure)[0].collections
    by = frame.groupby(["repetition", "round"])["test_error"].mean().unstack().to_numpy()
    mean, half = confidence(by)
    np.testing.assert_allclose(line.get_ydata(), mean)
    heights = band.get_paths()[0].vertices[:, 1]
    assert np.isclose(heights.min(), (mean - half).min())
    assert np.isclose(heights.max(), (mean + half).max())


def test_a_steep_fall_is_drawn_by_logarithms_with_the_mean_of_the_table():
    frame = history(methods=1, rounds=(1, 50))
    frame["test_error"] = np.where(frame["round"] == 1, 0.9, 0.01 * (1 + frame["repetition"]))
    axis = shown(drawn(frame)[0])[0]
    assert axis.get_yscale() == "log"
    np.testing.assert_allclose(axis.lines[0].get_ydata(), [0.9, 0.02])


def test_a_second_factor_has_line_styles_and_a_third_more_panels():
    frame = history(methods=2, topology=["ring", "star"], alpha=[10.0, 0.1, 1.0], rows=[5, 50])
    (figure,) = drawn(frame)
    assert len(shown(figure)) == 6  # topology and alpha
    assert all(len(a.lines) == 4 for a in shown(figure))
    assert labels(figure) == ["method 0", "method 1", "rows = 5", "rows = 50"]
    assert shown(figure)[0].get_title() == "topology = ring, alpha = 0.1"  # numbers by size
    assert overlaps(figure) == []


def test_the_facet_can_be_chosen():
    frame = history(methods=2, topology=["ring", "star"], alpha=[0.1, 1.0, 10.0])
    (figure,) = drawn(frame, facet="alpha")
    assert [a.get_title() for a in shown(figure)] == ["alpha = 0.1", "alpha = 1.0", "alpha = 10.0"]
    with pytest.raises(UnknownName, match="did you mean 'alpha'"):
        drawn(frame, facet="alhpa")


def test_one_method_is_coloured_by_what_varies():
    (figure,) = drawn(history(methods=1, alpha=[0.1, 1.0, 10.0]))
    assert len(shown(figure)) == 1
    assert labels(figure) == ["alpha = 0.1", "alpha = 1.0", "alpha = 10.0"]


def test_data_sets_have_panels_and_scales_of_their_own():
    frame = history(methods=2, datasets=("wine", "digits"), source=["wine", "digits"])
    frame = frame[frame["source"] == frame["dataset"]]  # as a sweep over data sets has it
    (figure,) = drawn(frame)
    assert [a.get_title() for a in shown(figure)] == ["wine", "digits"]
    assert not shown(figure)[0].get_shared_y_axes().joined(*shown(figure))


def test_more_than_eight_lines_go_to_another_figure_which_says_so():
    first, second = drawn(history(methods=11))
    assert len(shown(first)[0].lines) == 8
    assert len(shown(second)[0].lines) == 3
    assert labels(second) == ["method 8", "method 9", "method 10"]
    assert first.legends[0].get_title().get_text().startswith("1 of 2: ")
    colours = {line.get_color() for line in shown(first)[0].lines}
    assert len(colours) == 8


def test_a_method_that_does_not_depend_on_a_factor_is_in_every_panel():
    frame = history(methods=2, topology=["ring", "star"])
    alone = frame["method"] == "method_1"
    frame = frame[~alone | (frame["topology"] == "ring")].copy()
    frame.loc[frame["method"] == "method_1", "topology"] = None
    (figure,) = drawn(frame)
    assert [len(a.lines) for a in shown(figure)] == [2, 2]
    for part in (frame, frame[frame["round"] == 4]):  # curves and dots
        (figure,) = drawn(part, facet="method")
        depends, free = shown(figure)
        assert len(depends.lines) > 1
        assert [line.get_color() for line in free.lines] == ["0.45"]
        assert "any topology" in labels(figure)


@pytest.mark.parametrize(("reps", "kind"), [(1, "80 % of the nodes"), (2, "range"), (3, "95 %")])
def test_the_last_round_alone_gives_dots_sorted_with_intervals(reps, kind):
    frame = history(rounds=(64,), reps=reps, topology=["ring", "star"])
    frame["test_error"] += frame["method"].map({"method_0": 2.0, "method_1": 0.0, "method_2": 1.0})
    (figure,) = drawn(frame)
    axis = shown(figure)[0]
    names = [t.get_text() for t in axis.get_yticklabels()]
    assert names == ["method 0", "method 2", "method 1"]  # from below: the best is on top
    assert kind in figure.legends[0].get_title().get_text()
    ends = [line.get_xdata() for line in axis.lines if len(line.get_xdata()) == 2]
    assert len(ends) == 3
    assert overlaps(figure) == []
    (figure,) = drawn(frame.rename(columns={"auroc": "a", "test_error": "auroc"}), metric="auroc")
    turned = [t.get_text() for t in shown(figure)[0].get_yticklabels()]
    assert turned == names[::-1]  # more is better


def test_a_repetition_that_diverged_is_left_out_where_it_did():
    frame = history(methods=1)
    frame.loc[(frame["repetition"] == 0) & (frame["round"] > 1), "test_error"] = np.inf
    frame.loc[frame["repetition"] == 1, "test_error"] = np.nan
    frame["test_error"] += 1
    (line,) = shown(drawn(frame)[0])[0].lines
    assert np.isfinite(line.get_ydata()).all()


def test_another_metric_and_one_that_there_is_not():
    (figure,) = drawn(history(), metric="auroc")
    assert shown(figure)[0].get_ylabel() == "auroc"
    with pytest.raises(UnknownName, match="did you mean 'auroc'"):
        drawn(history(), metric="auroq")


@pytest.mark.full
def test_many_settings_in_every_shape_are_drawn_without_text_over_text():
    for rounds in [(1, 2, 4), (4,)]:
        frame = history(
            methods=4, rounds=rounds, reps=2, datasets=("wine", "digits"), nodes=2,
            topology=["ring", "random_tree", "a_very_long_name_of_a_topology"],
        )  # fmt: skip
        for figure in drawn(frame):
            assert overlaps(figure) == []


def test_files_in_each_format_at_200_dots_an_inch(tmp_path):
    figure = Figure(figsize=(4, 3))
    path = look.save(figure, tmp_path / "alpha0.5.png", ("pdf", "svg", "png"))
    assert path.name == "alpha0.5.png"
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "alpha0.5.pdf", "alpha0.5.png", "alpha0.5.svg"
    ]  # fmt: skip
    (tmp_path / "file").write_text("")
    for wrong in ("file/x.png", "x.docx"):
        with pytest.raises(BadFile, match="cannot write"):
            look.save(Figure(), tmp_path / wrong)


def test_formats_are_checked():
    assert look.checked_formats(["pdf,svg", "PDF"]) == ("pdf", "svg")
    with pytest.raises(UnknownName, match="did you mean 'pdf'"):
        look.checked_formats(["pfd"])


def test_a_style_is_a_name_or_a_file_and_brings_its_colours(tmp_path):
    mine = tmp_path / "mine.mplstyle"
    mine.write_text("axes.prop_cycle: cycler('color', ['ff0000', '00ff00', '0000ff'])\n")
    for style, colour in [(None, look.OKABE_ITO[0]), (str(mine), "#ff0000"), ("ggplot", "#E24A33")]:
        (figure,) = drawn(history(), style=look.checked_style(style))
        assert shown(figure)[0].lines[0].get_color().lower().lstrip("#") == colour.lower().lstrip(
            "#"
        )
    with pytest.raises(UnknownName, match="did you mean 'ggplot'"):
        look.checked_style("ggplt")
    with pytest.raises(BadFile, match="no style file"):
        look.checked_style("absent.mplstyle")
    mine.write_text("lines.linewidth: thick\n")
    with pytest.raises(BadFile, match="not a matplotlib style"):
        look.checked_style(str(mine))


@pytest.mark.parametrize(("low", "high"), [(0.25, 0.46), (0.024, 0.05), (0.05, 0.9), (1e-4, 10.0)])
def test_a_logarithmic_axis_has_some_round_numbers_however_short_it_is(low, high):
    figure, axis = plt.subplots()
    axis.set_yscale("log")
    axis.set_ylim(low, high)
    few_log_ticks(axis.yaxis)
    ticks = axis.get_yticks()
    assert 2 <= len(ticks) <= 5
    assert all(low <= t <= high and len(f"{t:g}".replace("0.", "").strip("0")) <= 3 for t in ticks)
    plt.close(figure)
