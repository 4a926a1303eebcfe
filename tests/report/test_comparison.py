"""Comparisons against SciPy and against cases worked by hand."""

import io
import itertools

import matplotlib.text
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from scipy import stats

from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.report import compared
from peerwise.report.compared_figures import accuracy_by_bytes, critical_difference
from peerwise.report.comparison import (
    bootstrap,
    compare,
    differences,
    gathered,
    holm,
    paired,
    ranked,
    signed_rank,
)


def tidy(by_method, dataset="wine", metric="test_error", **factors):
    """Values of each method, a repetition each."""
    return pd.DataFrame(
        [
            {"dataset": dataset, "method": m, **factors, "repetition": r, "metric": metric,
             "value": v}
            for m, values in by_method.items()
            for r, v in enumerate(values)
        ]
    )  # fmt: skip


def random_sets(sets=5, methods=("a", "b", "c"), reps=4, seed=0):
    rng = np.random.default_rng(seed)
    return pd.concat(
        tidy({m: rng.uniform(0.1 * i, 0.1 * i + 0.3, reps) for i, m in enumerate(methods)}, f"d{s}")
        for s in range(sets)
    )


def words(comparison):
    return " ".join(comparison.notes)


@pytest.mark.parametrize(
    ("d", "p"),
    [
        ([1, 2, 3, 4, 5, 6], 2 / 64),  # all signs alike: one of 64, on both sides
        ([1, 2, 3, 4, 5], 2 / 32),
        ([-1, 2, 3, 4, 5, 6], 4 / 64),  # two of 64 are as far out, on both sides
        ([0, 0, 1, 2, 3, 4, 5, 6], 2 / 64),  # pairs without a difference are left out
        ([1, 1, 1, 1, 1, 1], 2 / 64),  # ties: exact by permutation
        ([0, 0, 0], 1.0),
        ([0.5], np.nan),
        ([], np.nan),
    ],
)
def test_the_signed_rank_test_on_cases_by_hand(d, p):
    np.testing.assert_allclose(signed_rank(np.array(d, float)), p)


@pytest.mark.parametrize("seed", range(3))
def test_tied_differences_are_tested_exactly_as_all_signs_say(seed):
    d = np.random.default_rng(seed).integers(-3, 5, 9).astype(float)
    held = d[d != 0]
    ranks = stats.rankdata(np.abs(held))
    sums = np.array([s @ ranks for s in itertools.product((0, 1), repeat=len(held))])
    middle, seen = ranks.sum() / 2, ranks[held > 0].sum()
    exact = np.mean(np.abs(sums - middle) >= abs(seen - middle) - 1e-9)
    np.testing.assert_allclose(signed_rank(d), exact)


def test_many_pairs_agree_with_scipy():
    d = np.random.default_rng(0).normal(0.2, 1, 80)
    assert signed_rank(d) == stats.wilcoxon(d).pvalue
    assert signed_rank(d[:30]) == stats.wilcoxon(d[:30], method="exact").pvalue


def test_holm_by_hand():
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.5, 0.9]), [1.0, 1.0])
    np.testing.assert_allclose(holm([np.nan, 0.02, 0.01]), [np.nan, 0.02, 0.02])


def test_the_bootstrap_is_scipys_and_agrees_with_the_normal_interval():
    d = np.random.default_rng(1).normal(1, 0.5, 200)
    low, high = bootstrap(d)
    theirs = stats.bootstrap((d,), np.mean, rng=0).confidence_interval
    np.testing.assert_allclose((low, high), theirs)
    half = 1.96 * d.std(ddof=1) / np.sqrt(200)
    np.testing.assert_allclose((low, high), (d.mean() - half, d.mean() + half), atol=0.01)
    assert bootstrap(np.full(5, 0.25)) == (0.25, 0.25)
    assert np.isnan(bootstrap(np.array([0.1]))).all()


def test_differences_wins_ties_and_losses_by_hand():
    values = tidy({"a": [0.1, 0.2, 0.3, 0.4], "b": [0.2, 0.2, 0.1, 0.6]})
    line = differences(paired(values, "test_error"), "a", lower=True).loc["b"]
    assert line["pairs"] == 4
    np.testing.assert_allclose(line["difference"], 0.025)
    assert (line["wins"], line["ties"], line["losses"]) == (1, 1, 2)
    higher = differences(paired(values, "test_error"), "a", lower=False).loc["b"]
    assert (higher["wins"], higher["ties"], higher["losses"]) == (2, 1, 1)


def test_rounding_of_single_precision_is_a_tie():
    a = np.random.default_rng(0).uniform(0.01, 0.2, (8, 10)).astype(np.float32)
    values = tidy({"a": a.mean(1), "b": a.astype(float).mean(1), "c": a[:, ::-1].mean(1) + 1e-4})
    table = differences(paired(values, "test_error"), "a", lower=True)
    assert table.loc["b", ["wins", "ties", "losses"]].tolist() == [0, 8, 0]
    assert table.loc["b", "p"] == 1
    assert table.loc["c", ["wins", "ties", "losses"]].tolist() == [0, 0, 8]


def test_the_baseline_is_the_best_unless_it_is_chosen():
    values = random_sets()
    found = compare(values)
    assert found.baseline == "a"
    assert list(found.against.index) == ["b", "c"]
    assert list(compare(values, to="c").against.index) == ["a", "b"]
    np.testing.assert_allclose(
        found.against["p_holm"], holm([signed_rank(_gap(values, m, "a")) for m in "bc"])
    )
    as_accuracy = values.assign(metric="accuracy")
    assert compare(as_accuracy).baseline == "c"
    assert compare(as_accuracy, better="lower").baseline == "a"


def _gap(values, one, two):
    table = values.pivot(index=["dataset", "repetition"], columns="method", values="value")
    return (table[one] - table[two]).to_numpy()


def test_pairs_are_of_one_data_set_setting_and_repetition():
    values = pd.concat(
        [tidy({"a": [1, 2], "b": [3, 5]}, alpha=0.1), tidy({"a": [10, 20], "b": [11, 22]}, alpha=1)]
    ).sample(frac=1, random_state=0)
    wide = paired(values, "test_error")
    np.testing.assert_allclose(sorted(wide["b"] - wide["a"]), [1, 2, 2, 3])
    assert wide.index.names == ["dataset", "alpha", "repetition"]


def test_a_method_without_a_factor_stands_beside_all_of_its_values():
    varied = [tidy({"a": [1, 2]}, alpha=0.1), tidy({"a": [10, 20]}, alpha=1)]
    values = pd.concat([*varied, tidy({"b": [5, 6]}, alpha=np.nan)])
    wide = paired(values, "test_error")
    np.testing.assert_allclose(sorted(wide["b"]), [5, 5, 6, 6])
    assert wide.notna().all(axis=None)


def test_ranks_friedman_and_the_critical_difference():
    values = random_sets(sets=6)
    wide = paired(values, "test_error")
    blocks = wide.groupby("dataset").mean()
    ranks = ranked(wide, lower=True)
    p = stats.friedmanchisquare(*(blocks[m] for m in blocks)).pvalue
    np.testing.assert_allclose(ranks.p, p)
    np.testing.assert_allclose(ranks.critical, 2.343 * np.sqrt(3 * 4 / (6 * 6)), rtol=1e-3)
    expected = blocks.rank(axis=1).mean()
    np.testing.assert_allclose(ranks.mean[expected.index], expected)
    np.testing.assert_allclose(ranked(wide, lower=False).mean[expected.index], 4 - expected)


@pytest.mark.parametrize(
    ("k", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (10, 3.164)]
)
def test_critical_values_are_those_of_demsars_table(k, q):
    wide = paired(random_sets(sets=6, methods=tuple("abcdefghij")[:k]), "test_error")
    np.testing.assert_allclose(
        ranked(wide, lower=True).critical, q * np.sqrt(k * (k + 1) / 36), rtol=5e-4
    )


def test_tied_ranks_are_shared_and_all_alike_is_no_finding():
    values = pd.concat(tidy({"a": [0.1], "b": [0.1], "c": [0.2]}, f"d{i}") for i in range(4))
    ranks = ranked(paired(values, "test_error"), lower=True)
    assert ranks.mean.tolist() == [1.5, 1.5, 3.0]
    same = pd.concat(tidy({"a": [0.1], "b": [0.1], "c": [0.1]}, f"d{i}") for i in range(4))
    assert ranked(paired(same, "test_error"), lower=True).p == 1


def test_groups_are_the_largest_that_cannot_be_told_apart():
    ranks = ranked(paired(random_sets(), "test_error"), lower=True)
    mean = pd.Series({"a": 1.0, "b": 1.5, "c": 2.6, "d": 4.0})
    near = ranks._replace(mean=mean, critical=1.2)
    assert near.groups == [["a", "b"], ["b", "c"]]
    assert near._replace(critical=0.1).groups == []
    assert near._replace(critical=9.0).groups == [["a", "b", "c", "d"]]


def test_fewer_than_three_data_sets_are_not_ranked():
    assert compare(random_sets(sets=2)).ranks is None


def test_one_repetition_says_that_nothing_can_be_tested():
    found = compare(tidy({"a": [0.1], "b": [0.2]}))
    assert np.isnan(found.against.loc["b", ["p", "p_holm", "low"]].astype(float)).all()
    assert "Nothing can be tested" in words(found)
    assert "one repetition" in compared.sheets(found)[0].caption


def test_fewer_than_six_pairs_say_that_they_cannot_be_significant():
    found = compare(tidy({"a": [1, 2, 3, 4, 5], "b": [2, 4, 6, 8, 10]}))
    assert found.against.loc["b", "p"] == 2 / 32
    assert "a and" not in words(found)
    assert "b and a differ in 5 pairs: with fewer than 6" in words(found)
    six = {"a": range(1, 7), "b": range(2, 14, 2)}
    assert compare(tidy(six)).notes == []
    assert "after the correction for 2 tests" in words(compare(tidy({**six, "c": range(3, 21, 3)})))


def test_a_method_that_is_missing_somewhere_is_compared_on_what_is_common():
    values = random_sets(sets=4)
    gone = (values["method"] == "c") & (values["dataset"] == "d3")
    part = (values["method"] == "b") & (values["dataset"] == "d2") & (values["repetition"] == 0)
    found = compare(values[~gone & ~part], to="a")
    assert found.against["pairs"].to_dict() == {"b": 15, "c": 12}
    assert "c was not run on d3." in words(found)
    assert "b lacks some settings or repetitions of d2." in words(found)
    assert found.ranks.sets == ("d0", "d1", "d2")
    assert "Ranks are over 3 of 4 data sets" in words(found)
    apart = compare(pd.concat([tidy({"a": [0.1, 0.2]}, "x"), tidy({"b": [0.1, 0.2]}, "y")]), to="a")
    assert apart.against.loc["b", "pairs"] == 0
    assert "Nothing can be tested" in words(apart)


def test_values_that_are_not_finite_are_left_out_and_counted():
    found = compare(tidy({"a": [0.1, np.nan, 0.3], "b": [0.2, 0.3, np.inf]}))
    assert "2 of 6 values are not finite" in words(found)
    assert found.against["pairs"].tolist() == [1]


def test_a_method_of_two_runs_is_called_by_its_run():
    one, two = tidy({"crc": [0.1, 0.2], "ml": [0.3, 0.3]}), tidy({"crc": [0.2, 0.3]})
    both = gathered({"one": one, "two": two})
    assert list(dict.fromkeys(both["method"])) == ["crc (one)", "ml", "crc (two)"]
    assert compare(both, to="crc (two)").against.loc["crc (one)", "wins"] == 2


def test_runs_on_different_data_sets_complete_each_other():
    one = tidy({"crc": [0.1], "ml": [0.3]}, "wine")
    two = tidy({"crc": [0.1], "ml": [0.3]}, "iris", source="iris")  # as a sweep over sets has it
    assert set(gathered({"one": one, "two": two})["method"]) == {"crc", "ml"}


def test_runs_that_cannot_be_compared():
    values = tidy({"a": [0.1, 0.2], "b": [0.1, 0.3]})
    with pytest.raises(BadData, match=r"no metric in common \(one: test_error; two: auroc\)"):
        gathered({"one": values, "two": values.assign(metric="auroc")})
    with pytest.raises(BadData, match="two varies alpha and one does not"):
        gathered({"one": values, "two": tidy({"a": [0.1]}, alpha=0.1)})
    with pytest.raises(BadData, match="two methods or more, but only a has"):
        compare(values[values["method"] == "a"])
    with pytest.raises(UnknownName, match="did you mean 'test_error'"):
        compare(values, "tst_error")
    with pytest.raises(UnknownName, match="unknown method 'c'"):
        compare(values, to="c")
    with pytest.raises(BadSetting, match="--better lower or --better higher"):
        compare(values.assign(metric="guards"))
    with pytest.raises(UnknownName, match="did you mean 'lower'"):
        compare(values, better="lowr")


def hard():
    """Names that Markdown and LaTeX would take for something else."""
    values = random_sets(methods=("crc_100%", "a|b & $c$"))
    return compare(values)


def test_markdown_has_a_table_each_with_the_best_in_bold():
    text = compared.markdown(hard())
    assert r"| data set | crc_100% | a\|b & $c$ |" in text
    rows = [line for line in text.splitlines() if line.startswith("| d")]
    assert sum("**" in row for row in rows) == 5
    assert "### Mean ranks over 5 data sets" in text


def test_latex_escapes_names():
    text = compared.latex(hard())
    assert r"data set & crc\_100\% & a|b \& \$c\$ \\" in text
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 3
    assert r"$\pm$" in text
    assert "±" not in text
    assert r"\textbf{" in text


def test_csv_has_all_digits():
    found = hard()
    line = pd.read_csv(io.StringIO(compared.csv(found))).set_index("method")
    other = found.against.index[0]
    for column in ("difference", "low", "high", "p", "p_holm", "wins"):
        assert line.loc[other, column] == found.against.loc[other, column]
    assert np.isnan(line.loc[found.baseline, "p"])


@pytest.mark.parametrize("methods", [2, 3, 9])
def test_the_diagram_of_ranks_names_every_method_apart(methods):
    names = tuple(f"method_{i}" for i in range(methods))
    ranks = ranked(paired(random_sets(methods=names), "test_error"), lower=True)
    figure = critical_difference(ranks)
    FigureCanvasAgg(figure).draw()
    texts = [t for t in figure.findobj(matplotlib.text.Text) if t.get_text().strip()]
    said = " ".join(t.get_text() for t in texts)
    assert all(f"method {i} (" in said for i in range(methods))
    boxes = [t.get_window_extent() for t in texts]
    assert not [1 for a, b in itertools.combinations(boxes, 2) if a.overlaps(b)]
    assert all(figure.bbox.x0 <= b.x0 and b.x1 <= figure.bbox.x1 for b in boxes)


def test_accuracy_against_the_bytes_sent_so_far():
    history = pd.DataFrame({"dataset": "wine", "round": [1, 2, 4], "test_error": [0.5, 0.3, 0.2]})
    values = tidy({"crc": [400.0], "alone": [0.0]}, metric="bytes")
    figure = accuracy_by_bytes({"crc": history, "alone": history}, values)
    sends, silent = figure.axes[0].lines
    np.testing.assert_allclose(sends.get_xdata(), [100, 200, 400])
    np.testing.assert_allclose(sends.get_ydata(), [0.5, 0.7, 0.8])
    np.testing.assert_allclose(silent.get_ydata(), 0.8)
    nothing = values.assign(value=0.0)
    assert accuracy_by_bytes({"crc": history}, nothing) is None
