"""What a clinician asks: by hand, against scikit-learn, and intervals that cover."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.metrics import bootstrap as boot
from peerwise.metrics.bootstrap import METRICS, interval, resample, scorer
from peerwise.metrics.clinical import by_node, confusion, report
from peerwise.metrics.intervals import area, proportion
from peerwise.metrics.joining import difference, should_join

ALL = ("all", "all")
QUICK = {"bootstrap": 0}


def binary(m=120, seed=0, ties=True, skill=1.0):
    rng = np.random.default_rng(seed)
    y = (rng.random(m) < 0.4).astype(int)
    y[:2] = 0, 1
    p = 1 / (1 + np.exp(-rng.normal(skill * (2 * y - 1), 1.0)))
    return y, p.round(1) if ties else p


def several(m=150, c=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(c, size=m)
    y[:c] = np.arange(c)
    p = (rng.dirichlet(np.ones(c), m) + 0.4 * np.eye(c)[y]).round(1) + 0.01
    return y, p / p.sum(1, keepdims=True)


def line(y, prob, **given):
    return report(y, prob, **{**QUICK, **given}).loc[ALL]


def reference(y, p, weight=None, threshold=0.5):
    """What scikit-learn says of two classes, the second of interest."""
    said, w = (p >= threshold).astype(int), {"sample_weight": weight}
    return {
        "balanced_accuracy": sk.balanced_accuracy_score(y, said, **w),
        "error": 1 - sk.accuracy_score(y, said, **w),
        "log_loss": sk.log_loss(y, p, labels=[0, 1], **w),
        "auroc": sk.roc_auc_score(y, p, **w),
        "auprc": sk.average_precision_score(y, p, **w),
        "sensitivity": sk.recall_score(y, said, **w),
        "specificity": sk.recall_score(y, said, pos_label=0, **w),
        "precision": sk.precision_score(y, said, **w),
    }


# --- by hand


def test_six_rows_by_hand():
    y = [0, 0, 0, 1, 1, 1]
    p = [0.1, 0.5, 0.7, 0.4, 0.7, 0.9]
    got = line(y, p)
    assert (got["rows"], got["positives"]) == (6, 3)
    # flagged at 0.5 and above: rows 1, 2, 4, 5
    assert got["sensitivity"] == pytest.approx(2 / 3)
    assert got["specificity"] == pytest.approx(1 / 3)
    assert got["precision"] == pytest.approx(2 / 4)
    assert got["balanced_accuracy"] == pytest.approx(1 / 2)
    assert got["error"] == pytest.approx(3 / 6)
    # pairs in order: 0.4 beats one of three; 0.7 beats two and ties with one; 0.9 beats all
    assert got["auroc"] == pytest.approx((1 + 2.5 + 3) / 9)
    # thresholds 0.9, 0.7 (tie of one ill, one well), 0.5, 0.4
    assert got["auprc"] == pytest.approx((1 / 1 + 2 / 3 + 3 / 5) / 3)
    right = [0.9, 0.5, 0.3, 0.4, 0.7, 0.9]
    assert got["log_loss"] == pytest.approx(-np.log(right).mean())


def test_a_perfect_and_an_inverted_model():
    y = np.array([0, 1, 0, 1])
    perfect, inverted = line(y, y.astype(float)), line(y, 1.0 - y)
    for name in ("auroc", "auprc", "balanced_accuracy", "sensitivity", "specificity", "precision"):
        assert perfect[name] == 1
    assert perfect["error"] == inverted["auroc"] == inverted["sensitivity"] == 0
    assert perfect["log_loss"] == pytest.approx(0, abs=1e-12)
    assert inverted["log_loss"] == pytest.approx(-np.log(np.finfo(float).eps))


def test_the_threshold_moves_what_is_flagged_and_nothing_else():
    y, p = binary()
    low, high = line(y, p, threshold=0.2), line(y, p, threshold=0.8)
    assert low["sensitivity"] > high["sensitivity"]
    assert low["specificity"] < high["specificity"]
    assert list(low[["auroc", "auprc", "log_loss"]]) == list(high[["auroc", "auprc", "log_loss"]])


def test_confusion_shows_every_class():
    got = confusion([0, 0, 2, 2, 2], [0, 1, 2, 2, 0], ["a", "b", "c"])
    assert got.to_numpy().tolist() == [[1, 1, 0], [0, 0, 0], [1, 0, 2]]
    assert got.index.tolist() == got.columns.tolist() == ["a", "b", "c"]
    assert (got.index.name, got.columns.name) == ("true", "predicted")
    assert got.loc["c", "a"] == 1  # a row of class c taken for a


def test_confusion_is_that_of_scikit_learn():
    y, p = several()
    np.testing.assert_array_equal(
        confusion(y, p.argmax(1), range(4)), sk.confusion_matrix(y, p.argmax(1), labels=range(4))
    )


# --- against scikit-learn


@given(seed=st.integers(0, 10**6), m=st.integers(4, 80), threshold=st.sampled_from([0.3, 0.5, 0.6]))
def test_two_classes_are_scored_as_by_scikit_learn(seed, m, threshold):
    y, p = binary(m, seed)
    p[1] = 0.7  # something is flagged
    got = line(y, p, threshold=threshold)
    for name, value in reference(y, p, threshold=threshold).items():
        assert got[name] == pytest.approx(value, abs=1e-12), name


@given(seed=st.integers(0, 10**6), ties=st.booleans())
def test_weights_are_repeated_rows(seed, ties):
    y, p = binary(40, seed, ties)
    count = np.random.default_rng(seed).integers(0, 4, len(y))
    count[:2] = 1
    p[1] = 0.7
    prob = np.stack([1 - p, p], 1)
    got = scorer(y, prob, 1, 0.5)(count[None].astype(float))[:, 0]
    far, far_p = np.repeat(y, count), np.repeat(p, count)
    repeated = scorer(far, np.repeat(prob, count, 0), 1, 0.5)(np.ones((1, len(far))))[:, 0]
    np.testing.assert_allclose(got, repeated, rtol=1e-12)
    for expected in (reference(y, p, count), reference(far, far_p)):
        np.testing.assert_allclose(got, [expected[name] for name in METRICS], atol=1e-12)


def test_many_resamples_at_a_time_are_one_at_a_time():
    y, p = several()
    weight = np.random.default_rng(3).integers(0, 3, (7, len(y))).astype(float)
    for positive, names in ((2, METRICS), (None, METRICS[:5])):
        score = scorer(y, p, positive, 0.3, names)
        together = score(weight)
        for b in range(len(weight)):
            np.testing.assert_allclose(together[:, b], score(weight[[b]])[:, 0], rtol=1e-12)


@given(seed=st.integers(0, 10**6))
def test_more_than_two_classes_are_averaged_one_against_the_rest(seed):
    y, p = several(seed=seed)
    got = line(y, p)
    assert "positives" not in got
    assert "sensitivity" not in got
    held = np.eye(4)[y]
    assert got["balanced_accuracy"] == pytest.approx(sk.balanced_accuracy_score(y, p.argmax(1)))
    assert got["error"] == pytest.approx(1 - sk.accuracy_score(y, p.argmax(1)))
    assert got["log_loss"] == pytest.approx(sk.log_loss(y, p))
    assert got["auroc"] == pytest.approx(sk.roc_auc_score(held, p, average="macro"))
    assert got["auprc"] == pytest.approx(sk.average_precision_score(held, p, average="macro"))


def test_a_class_of_interest_among_several():
    y, p = several()
    got = line(y, p, classes=["a", "b", "c", "d"], positive="c", threshold=0.3)
    ill, flagged = y == 2, p[:, 2] >= 0.3
    assert got["positives"] == ill.sum()
    assert got["auroc"] == pytest.approx(sk.roc_auc_score(ill, p[:, 2]))
    assert got["auprc"] == pytest.approx(sk.average_precision_score(ill, p[:, 2]))
    assert got["sensitivity"] == pytest.approx(sk.recall_score(ill, flagged))
    assert got["specificity"] == pytest.approx(sk.recall_score(~ill, ~flagged))
    assert got["precision"] == pytest.approx(sk.precision_score(ill, flagged))
    assert got["balanced_accuracy"] == pytest.approx(sk.balanced_accuracy_score(y, p.argmax(1)))


def test_a_class_that_does_not_occur_is_left_out_of_the_means():
    y, p = several()
    some = y != 1
    got, held = line(y[some], p[some]), np.eye(4)[y[some]]
    there = [0, 2, 3]
    areas = [sk.roc_auc_score(held[:, k], p[some, k]) for k in there]
    assert got["auroc"] == pytest.approx(np.mean(areas))
    recalls = [(p[y == k].argmax(1) == k).mean() for k in there]
    assert got["balanced_accuracy"] == pytest.approx(np.mean(recalls))


# --- what may be given


def test_the_class_of_interest_by_name_or_code():
    y, p = binary()
    two = np.stack([1 - p, p], 1)
    names = ["well", "ill"]
    expected = report(y, p, **QUICK)
    for prob in (p, two, two.tolist(), two.astype(object)):
        for given_ in ({}, {"positive": 1}, {"positive": "ill"}, {"positive": np.int64(1)}):
            got = report(y, prob, classes=names, **given_, **QUICK)
            pd.testing.assert_frame_equal(got, expected)
    turned = report(y, 1 - p, classes=names, positive="well", **QUICK)  # p(positive), of "well"
    pd.testing.assert_frame_equal(turned, report(y, two, positive="0", **QUICK))
    assert turned.loc[ALL, "auroc"] == pytest.approx(expected.loc[ALL, "auroc"])
    assert turned.loc[ALL, "positives"] == (y == 0).sum()


def test_a_name_goes_before_a_code():
    y, p = binary()
    assert line(y, p, classes=[1, 0], positive=1)["positives"] == (y == 0).sum()


@given(seed=st.integers(0, 10**6))
def test_the_order_of_rows_changes_no_value(seed):
    y, p = binary(50, 1)
    order = np.random.default_rng(seed).permutation(len(y))
    pd.testing.assert_series_equal(line(y, p), line(y[order], p[order]), rtol=1e-12)


def test_rows_and_columns_of_the_table():
    y, p = binary()
    got = report(y, p, bootstrap=50, subgroups=np.resize(["x", "y"], len(y)))
    assert got.index.tolist() == [ALL, ("subgroup", "x"), ("subgroup", "y")]
    assert got.index.names == ["column", "value"]
    ends = [f"{name}{end}" for name in METRICS for end in ("", "_low", "_high")]
    assert got.columns.tolist() == ["rows", "positives", *ends]
    assert got["rows"].dtype == got["positives"].dtype == int
    for name in METRICS:
        assert (got[f"{name}_low"] <= got[name]).all()
        assert (got[name] <= got[f"{name}_high"]).all()


# --- subgroups


def test_a_subgroup_is_a_report_of_its_rows():
    y, p = binary()
    rng = np.random.default_rng(5)
    groups = pd.DataFrame(
        {"site": rng.integers(9, 12, len(y)), "sex": rng.choice(["f", "m"], len(y))},
        index=rng.permutation(len(y)),  # in the order of the rows, whatever the index
    )
    got = report(y, p, subgroups=groups, bootstrap=100)
    expected = [ALL, *(("site", v) for v in ("9", "10", "11")), ("sex", "f"), ("sex", "m")]
    assert got.index.tolist() == expected  # numbers in their order
    for column, value in expected[1:]:
        rows = (groups[column].astype(str) == value).to_numpy()
        alone = report(y[rows], p[rows], bootstrap=100).loc[ALL]
        pd.testing.assert_series_equal(got.loc[(column, value)], alone, check_names=False)


def test_a_named_series_names_its_column_and_missing_values_have_a_line():
    y, p = binary(6)
    sex = pd.Series(["f", None, "m", "m", "f", None], name="sex")
    got = report(y, p, subgroups=sex, **QUICK)
    assert got.index.tolist() == [ALL, ("sex", "f"), ("sex", "m"), ("sex", "missing")]
    assert got["rows"].tolist() == [6, 2, 2, 2]


def test_what_is_undefined_is_nan():
    y, p = np.array([0, 1, 1, 1]), np.array([0.2, 0.9, 0.8, 0.3])
    got = report(y, p, subgroups=["a", "a", "b", "b"], bootstrap=200).loc[("subgroup", "b")]
    for name in ("auroc", "specificity", "balanced_accuracy"):  # no row of b is well
        assert np.isnan(got[[name, f"{name}_low", f"{name}_high"]].to_numpy(float)).all()
    assert got["sensitivity"] == 0.5
    assert got["auprc"] == 1  # every row flagged is ill
    assert np.isnan(line([0, 1], [0.1, 0.2])["precision"])  # nothing is flagged


# --- intervals


def test_the_same_seed_gives_the_same_numbers_and_another_does_not():
    y, p = binary()
    first = report(y, p, bootstrap=100, seed=3)
    pd.testing.assert_frame_equal(first, report(y, p, bootstrap=100, seed=3))
    other = report(y, p, bootstrap=100, seed=4)
    assert (first["log_loss"] == other["log_loss"]).all()
    assert (first["log_loss_low"] != other["log_loss_low"]).all()


@pytest.mark.parametrize("cells", [1, 1000])
def test_memory_at_a_time_does_not_change_the_intervals(cells, monkeypatch):
    y, p = binary()
    whole = report(y, p, bootstrap=60)
    monkeypatch.setattr(boot, "CELLS", cells)
    pd.testing.assert_frame_equal(whole, report(y, p, bootstrap=60), rtol=1e-12)


def test_a_resample_draws_as_many_rows_with_replacement():
    weights = []

    def score(weight):
        weights.append(weight)
        return weight[:, :1].T

    point, draws = resample(score, 50, 4000, 0)
    assert point == [1]
    counts = np.concatenate([w for w in weights if len(w) > 1])
    assert (counts.sum(1) == 50).all()
    assert draws.shape == (1, 4000)
    # multinomial: mean 1, variance 1 - 1/m, covariance -1/m
    np.testing.assert_allclose(counts.mean(0), 1, atol=0.08)
    np.testing.assert_allclose(counts.var(0).mean(), 1 - 1 / 50, rtol=0.01)
    np.testing.assert_allclose(np.cov(counts.T)[np.triu_indices(50, 1)].mean(), -1 / 50, rtol=0.02)


def test_the_middle_of_the_draws_that_are_defined():
    draws = np.arange(101.0)
    assert interval(draws, 0.9) == pytest.approx((5, 95))
    some = np.concatenate([draws, np.full(101, np.nan)])
    assert interval(some, 0.9) == pytest.approx((5, 95))  # half are defined
    assert np.isnan(interval(np.append(some, np.nan), 0.9)).all()
    assert np.isnan(interval(np.array([]), 0.9)).all()


def test_few_rows_that_are_all_right_are_not_certain():
    y = np.repeat([1, 0], [3, 30])
    p = np.where(y, 0.9, np.linspace(0.1, 0.4, 33))
    got = report(y, p).loc[ALL]
    for name in ("auroc", "auprc", "sensitivity", "specificity", "precision", "balanced_accuracy"):
        assert got[name] == got[f"{name}_high"] == 1
    wilson, of_others = (n / (n + 1.959964**2) for n in (3, 30))
    np.testing.assert_allclose(got[["sensitivity_low", "precision_low", "auprc_low"]], wilson)
    both = 1 - np.hypot(1 - wilson, 1 - of_others) / 2
    assert got["balanced_accuracy_low"] == pytest.approx(both)
    assert 0.6 < got["auroc_low"] < 0.8


def test_wilsons_interval_as_in_the_literature():
    """Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29."""
    for hits, of, low, high in [
        (81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ]:  # fmt: skip
        assert proportion(hits / of, of, 0.95) == pytest.approx((low, high), abs=5e-5)
    assert np.isnan(proportion(0.5, 0, 0.95)).all()


def test_the_interval_of_an_area_solves_newcombes_equation():
    z = 1.959964
    for auroc, m, n in [(0.7, 10, 30), (0.95, 5, 100), (1.0, 8, 8), (0.5, 20, 20)]:
        low, high = area(auroc, m, n, 0.95)
        assert 0 <= low < auroc <= high <= 1
        for at in (low, high) if auroc < 1 else (low,):
            more = (m + n) / 2 - 1
            spread = at * (1 - at) * (1 + more * (1 - at) / (2 - at) + more * at / (1 + at))
            assert abs(auroc - at) == pytest.approx(z * np.sqrt(spread / (m * n)), rel=1e-5)


def test_several_classes_have_intervals_around_their_means():
    y, p = several(60)
    got = report(y, p, bootstrap=50).loc[ALL]
    for name in ("balanced_accuracy", "error", "log_loss", "auroc", "auprc"):
        assert 0 <= got[f"{name}_low"] < got[name] < got[f"{name}_high"]


def test_without_resamples_there_is_no_interval():
    got = line(*binary())
    assert got[[f"{m}_{end}" for m in METRICS for end in ("low", "high")]].isna().all()
    assert got[list(METRICS)].notna().all()


@pytest.mark.full  # `make test`: test_coverage.py
def test_the_interval_covers_the_true_error_as_often_as_it_says():
    covered = {0.8: 0, 0.95: 0}
    for seed in range(200):
        rng = np.random.default_rng(1000 + seed)
        y = rng.integers(2, size=300)
        wrong = rng.random(300) < 0.2
        p = np.where(wrong, 1 - y, y) * 0.8 + 0.1
        for level in covered:
            got = report(y, p, bootstrap=300, level=level, seed=seed).loc[ALL]
            covered[level] += got["error_low"] <= 0.2 <= got["error_high"]
    for level, times in covered.items():  # three standard deviations of a binomial of 200
        assert times / 200 == pytest.approx(level, abs=3 * np.sqrt(level * (1 - level) / 200)), (
            level
        )


def test_the_interval_is_that_of_the_binomial():
    y = np.zeros(400, int)
    p = np.where(np.arange(400) < 100, 0.9, 0.1)
    got = report(y, p, bootstrap=4000).loc[ALL]
    half = 1.96 * np.sqrt(0.25 * 0.75 / 400)
    assert got["error_low"] == pytest.approx(0.25 - half, abs=0.006)
    assert got["error_high"] == pytest.approx(0.25 + half, abs=0.006)


def test_intervals_narrow_with_the_root_of_the_rows():
    width = {}
    for m in (400, 6400):
        y, p = binary(m, seed=2, ties=False)
        got = report(y, p, bootstrap=1000).loc[ALL]
        width[m] = np.array([got[f"{name}_high"] - got[f"{name}_low"] for name in METRICS])
    np.testing.assert_allclose(width[400] / width[6400], 4, rtol=0.25)


def test_a_higher_level_is_a_wider_interval():
    y, p = binary()
    narrow, wide = (report(y, p, bootstrap=300, level=level).loc[ALL] for level in (0.5, 0.99))
    for name in METRICS:
        assert wide[f"{name}_low"] < narrow[f"{name}_low"]
        assert narrow[f"{name}_high"] < wide[f"{name}_high"]


# --- nodes


def test_a_node_is_a_report_of_its_model():
    y, _ = binary()
    prob = np.stack([binary(seed=0, skill=skill)[1] for skill in (0.5, 1, 2)])
    for given_ in (prob, np.stack([1 - prob, prob], -1)):
        got = by_node(y, given_, nodes=["a", "b", "c"], bootstrap=50)
        assert got.index.tolist() == ["a", "b", "c"]
        assert got.index.name == "node"
        for i, name in enumerate(got.index):
            alone = report(y, given_[i], bootstrap=50).loc[ALL]
            pd.testing.assert_series_equal(got.loc[name], alone, check_names=False)
    assert got["auroc"].is_monotonic_increasing
    assert by_node(y, prob, **QUICK).index.tolist() == ["0", "1", "2"]


def test_nodes_on_rows_of_their_own():
    y, p = several(90)
    prob = np.stack([p, p[::-1]])
    rows = [np.arange(40), np.array([3, 80, 41, 7])]
    got = by_node(y, prob, rows=rows, positive=2, bootstrap=20)
    assert got["rows"].tolist() == [40, 4]
    for i, own in enumerate(rows):
        alone = report(y[own], prob[i][own], positive=2, bootstrap=20).loc[ALL]
        pd.testing.assert_series_equal(got.iloc[i], alone, check_names=False)


# --- two models


@pytest.mark.parametrize("metric", METRICS)
def test_the_gain_is_above_zero_when_theirs_is_better(metric):
    y, worse = binary(400, 1, skill=0.3)
    _, better = binary(400, 1, skill=2)
    found = difference(y, worse, better, metric=metric, bootstrap=200)
    ours, theirs = line(y, worse)[metric], line(y, better)[metric]
    assert found[:3] == (metric, ours, theirs)
    assert found.gain == pytest.approx(abs(theirs - ours))
    assert 0 < found.low < found.gain < found.high
    assert found.rows == 400
    back = difference(y, better, worse, metric=metric, bootstrap=200)
    turned = (-found.gain, -found.high, -found.low)
    assert (back.gain, back.low, back.high) == pytest.approx(turned)


def test_the_resamples_are_paired():
    y, p = binary(300)
    same = difference(y, p, p, metric="auroc", bootstrap=100)
    assert same.gain == same.low == same.high == 0
    near = difference(y, p, np.clip(p + 0.001 * y, 0, 1), metric="log_loss")
    alone = report(y, p).loc[ALL]
    assert near.high - near.low < 0.05 * (alone["log_loss_high"] - alone["log_loss_low"])
    assert near.low > 0


def test_the_paired_interval_is_that_of_a_mean_of_differences():
    y, ours = binary(500, 3, skill=0.5)
    _, theirs = binary(500, 4, skill=0.5)
    found = difference(y, ours, theirs, metric="error", bootstrap=4000, level=0.9)
    gain = ((ours >= 0.5) != y).astype(float) - ((theirs >= 0.5) != y)
    half = 1.645 * gain.std() / np.sqrt(500)
    assert found.gain == pytest.approx(gain.mean())
    assert (found.low, found.high) == pytest.approx(
        (found.gain - half, found.gain + half), abs=0.006
    )


def test_equal_models_are_told_apart_as_rarely_as_the_level_says():
    apart = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        y = rng.integers(2, size=150)
        ours, theirs = (np.where(rng.random(150) < 0.3, 1.0 - y, y) for _ in range(2))
        found = difference(y, ours, theirs, bootstrap=300, level=0.9, seed=seed)
        apart += not found.low <= 0 <= found.high
    assert apart / 200 == pytest.approx(0.1, abs=3 * np.sqrt(0.1 * 0.9 / 200))


def sites(m=200):
    """Four sites: the network's model is better, equal, worse; the fourth has hardly any rows."""
    rng = np.random.default_rng(7)
    site = np.repeat(["better", "equal", "worse", "tiny"], [m, m, m, 3])
    y = rng.integers(2, size=len(site))
    wrong = {"better": (0.4, 0.1), "equal": (0.2, 0.2), "worse": (0.1, 0.4), "tiny": (1, 0)}
    chance = np.array([wrong[name] for name in site])
    local, network = np.where(rng.random(chance.shape) < chance, 1 - y[:, None], y[:, None]).T
    return y, local * 0.8 + 0.1, network * 0.8 + 0.1, site


@pytest.mark.parametrize("metric", ["balanced_accuracy", "error", "log_loss", "auroc"])
def test_should_join_finds_the_sites_that_gain(metric):
    y, local, network, site = sites()
    got = should_join(y, local, network, site, metric=metric, bootstrap=500)
    verdict = {"better": "join", "equal": "unclear", "tiny": "too few rows", "worse": "stay"}
    assert got["verdict"].to_dict() == verdict
    assert got.index.name == "site"
    assert got.columns.tolist() == [
        "rows",
        "local",
        "network",
        "gain",
        "low",
        "high",
        "rests_on",
        "verdict",
    ]
    for name in verdict:
        here = site == name
        alone = difference(y[here], local[here], network[here], metric=metric, bootstrap=500)
        expected = [alone.rows, *alone[1:6]]
        np.testing.assert_array_equal(got.loc[name].iloc[:6].to_numpy(float), expected)


def test_the_same_model_leaves_it_unclear():
    y, local, _, site = sites()
    got = should_join(y, local, local, site, bootstrap=50, fewest=1, fewest_cases=1)
    assert (got["verdict"] == "unclear").all()
    assert (got["gain"] == 0).all()


def test_a_site_of_one_class_has_no_auroc():
    y, local, network, site = sites()
    y[site == "better"] = 1
    got = should_join(y, local, network, site, metric="auroc", bootstrap=50)
    assert got.loc["better", "verdict"] == "one class only"
    assert got.loc["better", ["local", "gain", "low", "high"]].isna().all()


def test_an_interval_that_is_undefined_gives_no_verdict():
    y, nothing = np.resize([1, 0], 20), np.full(20, 0.1)
    local, network = changed(nothing, 0, 0.9), changed(nothing, 1, 0.9)  # each flags one row
    got = should_join(y, local, network, ["a"] * 20, metric="precision").loc["a"]
    assert got["gain"] == -1
    assert np.isnan(got["low"])  # both rows are drawn in 40 % of the resamples
    assert got["verdict"] == "too few flagged"


@pytest.mark.parametrize(
    ("metric", "positive", "counts", "says"),
    [
        ("auroc", "yes", [90, 4, 0], "too few 'yes'"),
        ("auroc", "no", [90, 4, 0], "too few 'yes'"),
        ("specificity", "yes", [4, 90, 0], "too few 'no'"),
        ("specificity", "no", [90, 2, 2], "too few not 'no'"),
        ("auroc", None, [40, 40, 2], "too few 'may'"),
        ("error", None, [40, 40, 2], "unclear"),
        ("sensitivity", "no", [40, 2, 2], "unclear"),
    ],
)
def test_what_is_too_few_is_named(metric, positive, counts, says):
    names = ["no", "yes", "may"] if counts[2] else ["no", "yes"]
    y = np.repeat(np.arange(len(names)), counts[: len(names)])
    p = np.random.default_rng(0).dirichlet(np.ones(len(names)), len(y))
    got = should_join(
        y, p, p, ["a"] * len(y), metric=metric, positive=positive, classes=names, bootstrap=20
    )
    assert got.loc["a", "verdict"] == says


def test_how_few_rows_are_too_few_is_a_choice():
    got = should_join(*sites(), metric="error", bootstrap=50, fewest=3, fewest_cases=3)
    assert got.loc["tiny", "verdict"] == "join"


def test_without_resamples_nothing_is_clear():
    got = should_join(*sites(), bootstrap=0)
    assert got["verdict"].value_counts().to_dict() == {"unclear": 3, "too few rows": 1}


# --- bad input

Y, P = binary(20)
TWO = np.stack([1 - P, P], 1)
THREE = np.full((20, 3), 1 / 3)


def changed(array, at, value):
    array = np.array(array, float)
    array[at] = value
    return array


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: report(Y, P[:-1]), "prob has 19 entries but there are 20 rows in y"),
        (lambda: report(Y, changed(P, 7, np.nan)), "row 7 of prob is nan"),
        (lambda: report(Y, changed(P, 7, 1.2)), r"row 7 of prob is 1\.2; probabilities are 0 to 1"),
        (lambda: report(Y, changed(TWO, (4, 0), -0.1)), "row 4 of prob"),
        (lambda: report(Y, changed(TWO, 4, 0.7)), r"row 4 of prob sums to 1\.4"),
        (lambda: report(Y, np.log(TWO + 0.1)), "row 0 of prob"),
        (lambda: report(Y, P[:, None]), "a column for each class"),
        (lambda: report(Y, TWO[None]), r"\[rows, classes\]"),
        (lambda: report(Y, ["high"] * 20), "array of probabilities"),
        (lambda: report(changed(Y, 3, 2), P), "row 3 of y is 2.0; class codes are 0 to 1"),
        (lambda: report(changed(Y, 3, -1), P), "row 3 of y"),
        (lambda: report(changed(Y, 3, 0.5), P), "row 3 of y"),
        (lambda: report(changed(Y, 3, np.nan), P), "row 3 of y is nan"),
        (lambda: report(np.array(["a", "b"])[Y], P), "pd.Categorical"),
        (lambda: report(TWO, P), "one code per row"),
        (lambda: report([], []), "no rows"),
        (lambda: report(Y, P, classes=["a", "b", "c"]), "2 classes but 3 are named: a, b, c"),
        (lambda: report(Y, P, classes=["a", "a"]), "must differ"),
        (lambda: report(Y, P, level=1), "level must be between 0 and 1"),
        (lambda: report(Y, P, level=0), "level must be between 0 and 1"),
        (lambda: report(Y, P, bootstrap=-1), "bootstrap must be"),
        (lambda: report(Y, P, bootstrap=10.5), "bootstrap must be"),
        (lambda: report(Y, P, threshold=50), "threshold must be a probability"),
        (lambda: report(Y, P, subgroups=["a"] * 19), "subgroups has 19 entries"),
        (lambda: report(Y, P, subgroups=TWO), "one name per row"),
        (lambda: report(Y, P, subgroups=pd.DataFrame({"sex": ["f"]})), "subgroup 'sex' has 1"),
        (lambda: confusion([0, 1], [0], "ab"), "predicted has 1 entries"),
        (lambda: confusion([0, 1], [0, 2], "ab"), "row 1 of predicted is 2"),
        (lambda: confusion([0], [0], ["a"]), "at least two classes"),
        (lambda: by_node(Y, P), "nodes, rows, classes"),
        (lambda: by_node(Y, TWO[None], nodes=["a", "b"]), "nodes has 2 entries"),
        (lambda: by_node(Y, TWO[None], rows=[]), "rows has 0 entries"),
        (lambda: by_node(Y, TWO[None], rows=[[]]), "node '0' has no rows"),
        (lambda: by_node(Y, TWO[None], rows=[[20]]), "row numbers 0 to 19"),
        (lambda: by_node(Y, TWO[None], rows=[[0, -1]]), "row numbers 0 to 19"),
        (lambda: by_node(Y[1:], TWO[None]), "prob has 20 entries"),
        (lambda: by_node(Y, changed([P, P], (1, 2), 3), nodes="ab"), "node 'b': row 2 of prob"),
        (lambda: by_node(Y, TWO[None], level=2), "^level"),
        (lambda: difference(Y, P, TWO), r"ours is \(20,\) and theirs is \(20, 2\)"),
        (lambda: difference(Y, P, changed(P, 1, 2)), "row 1 of theirs"),
        (lambda: difference(Y, THREE, THREE, metric="precision"), "give positive"),
        (lambda: should_join(Y, P, P, ["a"] * 3), "site has 3 entries"),
        (lambda: should_join(Y, changed(P, 1, 2), P, ["a"] * 20), "row 1 of local"),
        (lambda: should_join(Y, P, P, ["a"] * 20, bootstrap=-5), "bootstrap"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises((BadData, BadSetting), match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: difference(Y, P, P, metric="auc"), "unknown metric 'auc'; did you mean 'au"),
        (lambda: should_join(Y, P, P, ["a"] * 20, metric="kappa"), "unknown metric 'kappa'"),
        (lambda: report(Y, P, classes=["well", "ill"], positive="il"), "did you mean 'ill'"),
        (lambda: report(Y, P, positive=2), "unknown positive class '2'; known: 0, 1"),
        (lambda: by_node(Y, TWO[None], positive=-1), "unknown positive class"),
    ],
)
def test_an_unknown_name_is_named(call, message):
    with pytest.raises(UnknownName, match=message):
        call()
