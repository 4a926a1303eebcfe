"""Calibration and uncertainty: by hand, by scikit-learn, and the probe against the functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from peerwise import metrics
from peerwise import topology as topologies
from peerwise.core import State
from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.metrics import brier, ece, entropy, nll, ood_auroc, reliability
from peerwise.shards import pack
from peerwise.simulate import simulate
from small_models import METHODS, NODES, PARROT, rows, said, seen, values

# confidences .9 (right), .6 (right), .7 (wrong), .6 (wrong)
Y = [0, 1, 1, 0]
PROB = [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.4, 0.6]]


def draws(seed=0, m=200, c=3, sharp=2.0):
    """Probabilities of all kinds, and classes that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    return rng.integers(c, size=m), rng.dirichlet(np.full(c, 1 / sharp), m)


# --- by hand


@pytest.mark.parametrize(
    ("bins", "binning", "expected"),
    [
        (1, "width", abs(0.5 - 0.7)),
        (2, "width", abs(0.5 - 0.7)),  # all above a half
        (4, "width", (abs(1 - 1.9) + abs(1 - 0.9)) / 4),
        (5, "width", (2 * abs(0.5 - 0.6) + 0.7 + 0.1) / 4),  # (.4, .6], (.6, .8], (.8, 1]
        (2, "mass", (2 * abs(0.5 - 0.6) + 2 * abs(0.5 - 0.8)) / 4),
        (4, "mass", (2 * abs(0.5 - 0.6) + 0.7 + 0.1) / 4),  # the two of .6 are half right each
        (9, "mass", (2 * abs(0.5 - 0.6) + 0.7 + 0.1) / 4),
    ],
)
def test_expected_calibration_error(bins, binning, expected):
    assert ece(Y, PROB, bins, binning) == pytest.approx(expected)


def test_reliability_by_hand():
    found = reliability(Y, PROB, 5)
    np.testing.assert_allclose(found.edges, [0, 0.2, 0.4, 0.6, 0.8, 1])
    assert found.count.tolist() == [0, 0, 2, 1, 1]
    np.testing.assert_allclose(found.confidence, [np.nan, np.nan, 0.6, 0.7, 0.9])
    np.testing.assert_allclose(found.accuracy, [np.nan, np.nan, 0.5, 0, 1])
    mass = reliability(Y, PROB, 2, "mass")
    np.testing.assert_allclose(mass.edges, [0.6, 0.65, 0.9])
    assert mass.count.tolist() == [2, 2]
    np.testing.assert_allclose(mass.confidence, [0.6, 0.8])
    np.testing.assert_allclose(mass.accuracy, [0.5, 0.5])


def test_scores_by_hand():
    assert nll(Y, PROB) == pytest.approx(-np.log([0.9, 0.6, 0.3, 0.4]).mean())
    squares = [2 * 0.1**2, 2 * 0.4**2, 2 * 0.7**2, 2 * 0.6**2]
    assert brier(Y, PROB) == pytest.approx(np.mean(squares))
    assert brier([0, 0], [[0, 0, 1], [1, 0, 0]]) == pytest.approx(
        1
    )  # 2 surely wrong, 0 surely right
    thirds = [[1 / 3] * 3, [0, 1, 0], [0.5, 0, 0.5]]
    np.testing.assert_allclose(entropy(thirds), [np.log(3), 0, np.log(2)])


def test_a_model_that_is_surely_wrong_has_the_floor():
    y, prob = [1, 0], [[1.0, 0.0], [1.0, 0.0]]
    assert nll(y, prob) == pytest.approx(-np.log(1e-15) / 2)
    assert nll(y, prob, floor=1e-3) == pytest.approx(-np.log(1e-3) / 2)
    assert nll(y, prob, floor=0) == np.inf
    paper = -(np.log(1e-8) + np.log(1 + 1e-8)) / 2
    assert nll(y, prob, floor=0, added=1e-8) == pytest.approx(paper)


def test_entropy_tells_other_data_apart():
    sure, unsure = [[1, 0], [0.9, 0.1]], [[0.5, 0.5], [0.6, 0.4], [0.3, 0.7]]
    assert ood_auroc(sure, unsure) == 1
    assert ood_auroc(unsure, sure) == 0
    assert ood_auroc(sure, sure) == 0.5
    assert ood_auroc([[1, 0]], [[0, 1], [0.5, 0.5]]) == 0.75  # a tie is half


# --- scikit-learn


@pytest.mark.parametrize("c", [2, 3, 10])
def test_scores_are_those_of_scikit_learn(c):
    y, prob = draws(c, c=c)
    assert nll(y, prob) == pytest.approx(log_loss(y, prob, labels=range(c)), rel=1e-6)
    truth = np.eye(c)[y]
    one_against_rest = [brier_score_loss(truth[:, k], prob[:, k]) for k in range(c)]
    assert brier(y, prob) == pytest.approx(sum(one_against_rest))
    if c == 2:
        assert brier(y, prob) == pytest.approx(2 * brier_score_loss(y, prob[:, 1]))
    outside = draws(99, m=70, c=c, sharp=1.0)[1]
    label = np.repeat([0, 1], [len(prob), len(outside)])
    both = np.concatenate([entropy(prob), entropy(outside)])
    assert ood_auroc(prob, outside) == pytest.approx(roc_auc_score(label, both))


@pytest.mark.parametrize("bins", [1, 7, 15, 100])
def test_reliability_is_the_calibration_curve_of_scikit_learn(bins):
    y, prob = draws(1, 400)
    found = reliability(y, prob, bins)
    right = prob.argmax(1) == y
    accuracy, confidence = calibration_curve(right, prob.max(1), n_bins=bins)
    there = found.count > 0
    np.testing.assert_allclose(found.accuracy[there], accuracy)
    np.testing.assert_allclose(found.confidence[there], confidence)
    assert np.isnan(found.accuracy[~there]).all()


# --- properties


@given(seed=st.integers(0, 2**32 - 1), bins=st.integers(1, 30), coarse=st.booleans())
def test_the_order_of_rows_does_not_matter(seed, bins, coarse):
    y, prob = draws(seed, 60)
    if coarse:  # many ties
        first = prob[:, 0].round(1)
        prob = np.stack([first, (1 - first) / 4, (1 - first) * 3 / 4], 1)
    order = np.random.default_rng(seed).permutation(len(y))
    for binning in ("width", "mass"):
        one = reliability(y, prob, bins, binning)
        other = reliability(y[order], prob[order], bins, binning)
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)
        assert 0 <= one.ece <= 1
    for score in (nll, brier):
        assert score(y, prob) == pytest.approx(score(y[order], prob[order]))


@pytest.mark.parametrize(("m", "bins"), [(60, 15), (61, 15), (74, 15), (7, 15), (1, 3)])
def test_bins_of_equal_mass_hold_equally_many(m, bins):
    y, prob = draws(2, m)
    prob[: m // 2] = prob[0]  # ties too
    found = reliability(y, prob, bins, "mass")
    assert found.count.sum() == m
    assert np.ptp(found.count) <= 1
    assert found.count.min() >= 1
    assert len(found.edges) == len(found.count) + 1 == min(bins, m) + 1
    assert (np.diff(found.edges) >= 0).all()
    rounding = 1e-12
    assert (found.edges[:-1] <= found.confidence + rounding).all()
    assert (found.confidence <= found.edges[1:] + rounding).all()


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_a_calibrated_model_has_no_error_in_the_limit(binning):
    """Classes drawn from what the model says: the error falls as one over the root of the rows."""
    rng = np.random.default_rng(0)
    found = []
    for m in (1_000, 100_000):
        prob = rng.dirichlet(np.ones(4), m)
        y = (prob.cumsum(1) < rng.random((m, 1))).sum(1).clip(0, 3)
        found.append(ece(y, prob, 15, binning))
        sharp = prob**3 / (prob**3).sum(1, keepdims=True)
        assert ece(y, sharp, 15, binning) > 0.15  # and one that exaggerates has
    assert found[1] < 0.006
    assert found[1] < found[0] / 3


def test_the_truth_has_the_best_scores():
    y, _ = draws()
    truth = np.eye(3)[y]
    assert ece(y, truth) == brier(y, truth) == nll(y, truth) == 0
    wrong = np.roll(truth, 1, axis=1)
    assert (ece(y, wrong), brier(y, wrong)) == (1, 2)
    flat = np.full((len(y), 3), 1 / 3)
    assert nll(y, flat) == pytest.approx(np.log(3))


def test_single_precision_is_good_enough():
    y, prob = draws()
    single = prob.astype("f") * np.float32(1 + 1e-6)
    assert ece(y, single) == pytest.approx(ece(y, prob), abs=1e-5)
    assert np.isfinite(entropy([[1 + 5e-7, -5e-7]])).all()


# --- what is refused


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: ece(Y, PROB, 0), BadSetting, "bins must be a whole number, 1 or more, got 0"),
        (lambda: ece(Y, PROB, 2.5), BadSetting, "bins"),
        (lambda: ece(Y, PROB, binning="masss"), UnknownName, "did you mean 'mass'"),
        (lambda: ece(Y[:3], PROB), BadData, "prob has 4 entries but there are 3 rows in y"),
        (lambda: brier([0, 1, 2, 0], PROB), BadData, "row 2 of y is 2; class codes are 0 to 1"),
        (lambda: brier(["a", "b", "a", "b"], PROB), BadData, "class codes"),
        (lambda: nll([[0], [1]], PROB[:2]), BadData, "one code per row"),
        (lambda: nll([], np.zeros((0, 3))), BadData, "no rows"),
        (lambda: nll(Y, [0.1, 0.2, 0.3, 0.4]), BadData, r"\[rows, classes\]"),
        (lambda: entropy([[1.0], [1.0]]), BadData, "two or more classes"),
        (lambda: entropy("nonsense"), BadData, "array of probabilities"),
        (lambda: entropy([[0.5, 0.5], [1.2, -0.2]]), BadData, "row 1 of prob .* 0 to 1"),
        (lambda: entropy([[0.5, 0.5], [np.nan, 1]]), BadData, "row 1 of prob"),
        (lambda: entropy([[0.5, 0.4]]), BadData, "row 0 of prob sums to 0.9"),
        (lambda: nll(Y, PROB, floor=-1), BadSetting, "floor"),
        (lambda: nll(Y, PROB, added=2), BadSetting, "added"),
        (lambda: ood_auroc(PROB, [[0.2, 0.3, 0.5]]), BadData, "2 classes and outside_prob 3"),
        (lambda: ood_auroc(PROB, np.zeros((0, 2))), BadData, "outside_prob has no rows"),
        (lambda: metrics.calibration("t", *rows(), bins=0), BadSetting, "bins"),
        (lambda: metrics.calibration("t", *rows(), block=0), BadSetting, "block"),
        (lambda: metrics.calibration("t", np.zeros((0, 2)), np.zeros(0)), BadData, "no t rows"),
        (lambda: metrics.calibration("t", np.zeros((3, 2)), np.zeros(2)), BadData, "x has 3"),
    ],
)
def test_what_makes_no_sense_is_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()


# --- the probe


@pytest.mark.some("crc-1")
@pytest.mark.parametrize(("name", "bins"), [("crc", 1), ("crc", 15), ("mlp", 15), ("mlp", 100)])
def test_the_probe_gives_what_the_functions_give(name, bins):
    x, y = rows()
    probe = metrics.together(
        metrics.calibration("t", x, y, bins, block=64), metrics.errors("t", x, y)
    )
    value = values(name)
    got = seen(probe, METHODS[name], value)
    for v in range(NODES):
        prob = said(name, value, v, x)
        assert got["t_ece"][v] == pytest.approx(ece(y, prob, bins), abs=1e-5)
        assert got["t_brier"][v] == pytest.approx(brier(y, prob), rel=1e-4)
        assert got["t_nll"][v] == pytest.approx(nll(y, prob), rel=1e-4)
        assert got["t_entropy"][v] == pytest.approx(entropy(prob).mean(), rel=1e-4)
    np.testing.assert_allclose(got["t_nll"], got["t_log_loss"], rtol=1e-5)
    assert got["t_ece"].max() > 0.01  # a case worth testing
    assert np.ptp(got["t_entropy"]) > 0.001


def test_bins_that_are_kept_give_the_diagram():
    x, y = rows()
    value = values("mlp")
    got = seen(metrics.calibration("t", x, y, 100, block=64, kept=True), METHODS["mlp"], value)
    assert got["t_bins"].shape == (NODES, 100, 3)
    for v in range(NODES):
        shown = metrics.binned(got["t_bins"][v], into=20)
        true = reliability(y, said("mlp", value, v, x), 20)
        np.testing.assert_allclose(shown.count * len(y), true.count, atol=1e-3)
        np.testing.assert_allclose(shown.accuracy, true.accuracy, atol=1e-4)
        np.testing.assert_allclose(shown.confidence, true.confidence, atol=1e-4)
        assert shown.ece == pytest.approx(true.ece, abs=1e-5)
    with pytest.raises(BadSetting, match="100 bins cannot be put together to 15"):
        metrics.binned(got["t_bins"][0], into=15)


def test_a_simulation_takes_the_probe():
    probe = metrics.calibration("t", *rows())
    shards = pack(*rows(1, 80), np.split(np.arange(80), NODES))
    run = simulate(METHODS["crc"], shards, topologies.ring(NODES), 2, probe=probe, at=[1, 2])
    found = run.history["adapt"]
    assert set(found) == {"t_ece", "t_brier", "t_nll", "t_entropy"}
    after = seen(probe, METHODS["crc"], run.state.value)
    for name in found:
        assert found[name].shape == (2, NODES)
        np.testing.assert_allclose(found[name][1], after[name], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("m", [1, 23])
def test_rows_that_do_not_fill_a_block_count_all_the_same(m):
    x, y = rows(2, m)
    value = np.log([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1]]).astype("f")
    whole = seen(metrics.calibration("t", x, y), PARROT, value)
    cut = seen(metrics.calibration("t", x, y, block=8), PARROT, value)
    for name in whole:
        np.testing.assert_allclose(cut[name], whole[name], atol=1e-6)


@pytest.mark.parametrize("broken", [np.nan, -np.inf])
def test_a_model_that_has_broken_down_is_sure_and_wrong(broken):
    x, y = rows()
    y = np.where(y == 1, 2, y)  # the class after the last is the first
    probe = metrics.calibration("t", x, y)
    value = np.log([[0.5, 0.2, 0.3]] * 2).astype("f")
    fine = seen(probe, PARROT, value)
    value[1] = broken
    got = seen(probe, PARROT, value)
    worst = [got[f"t_{name}"][1] for name in ("ece", "brier", "nll", "entropy")]
    np.testing.assert_allclose(worst, [1, 2, -np.log(1e-15), 0], rtol=1e-5)
    for name in got:
        np.testing.assert_array_equal(got[name][0], fine[name][0])


def test_a_model_that_is_surely_right_is_no_nan():
    x, y = rows()
    value = np.array([[0, -np.inf, -np.inf]], "f")
    got = seen(metrics.calibration("t", x, np.zeros_like(y)), PARROT, value)
    for name in got:
        assert got[name][0] == pytest.approx(0, abs=1e-6)


def test_probes_of_equal_names_and_bins_are_equal_programs():
    a, b, c, d = (
        jax.tree.structure(metrics.calibration(name, *rows(s), bins=bins))
        for name, s, bins in [("a", 0, 15), ("a", 1, 15), ("c", 0, 15), ("a", 0, 100)]
    )
    assert a == b
    assert len({a, c, d}) == 3


def test_memory_does_not_grow_with_the_rows():
    state = State(jnp.zeros((20, 3)), {})

    def temporary(m):
        probe = metrics.calibration("t", np.zeros((m, 4), "f"), np.zeros(m, int), 100, block=64)
        step = jax.jit(lambda probe, state: probe(PARROT, state))
        return step.lower(probe, state).compile().memory_analysis().temp_size_in_bytes

    few, many = temporary(64 * 2), temporary(64 * 200)
    assert many < few + 64 * 200 * 4 * 4  # no more than the rows themselves
