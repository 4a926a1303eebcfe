"""Fairness: by hand, and every model on its own rows against a loop over the nodes."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, log_loss

from peerwise import metrics
from peerwise import topology as topologies
from peerwise.errors import BadData, BadSetting
from peerwise.metrics import fairness
from peerwise.shards import pack
from peerwise.simulate import simulate
from small_models import METHODS, NODES, PARROT, rows, said, seen, values

# --- summed up


def test_fairness_by_hand():
    found = fairness([0.2, 0.8, 0.6, 0.4], weights=[3, 1, 0, 0])
    assert found.mean == pytest.approx((3 * 0.2 + 0.8) / 4)
    assert found.worst == pytest.approx(0.2)
    assert found.std == pytest.approx(np.sqrt((0.09 + 0.09 + 0.01 + 0.01) / 4))
    assert found.span == pytest.approx(0.6)
    assert fairness([0.7]) == (0.7, 0.7, 0, 0)


@pytest.mark.parametrize(
    ("n", "share", "worst"), [(5, 0.1, 1), (19, 0.1, 1), (20, 0.1, 2), (100, 0.29, 29), (3, 1, 3)]
)
def test_the_worst_nodes_are_a_share_and_at_least_one(n, share, worst):
    accuracy = np.random.default_rng(0).permutation(n) / n
    assert fairness(accuracy, share=share).worst == pytest.approx(np.arange(worst).mean() / n)


@given(seed=st.integers(0, 2**32 - 1))
def test_axes_before_the_nodes_are_kept_and_their_order_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    accuracy, sizes = rng.random((2, 3, 30)), rng.integers(1, 9, 30)
    order = rng.permutation(30)
    found = fairness(accuracy, sizes)
    assert all(value.shape == (2, 3) for value in found)
    for a, b in zip(found, fairness(accuracy[..., order], sizes[order]), strict=True):
        np.testing.assert_allclose(a, b)
    for a, b in zip(found, fairness(accuracy[1, 2], sizes), strict=True):
        np.testing.assert_allclose(a[1, 2], b)
    same = fairness(accuracy, np.broadcast_to(sizes, accuracy.shape))
    np.testing.assert_allclose(found.mean, same.mean)
    assert (found.worst <= found.mean + 1e-12).all()


# --- every model on its own rows

OWNED = np.split(np.random.default_rng(0).permutation(100), [60, 60, 83])  # node 1 has none


@pytest.mark.some("crc")
@pytest.mark.parametrize("name", METHODS)
def test_each_model_on_its_own_rows(name):
    x, y = rows()
    value = values(name)
    got = seen(metrics.own_rows("own", x, y, OWNED, block=16), METHODS[name], value)
    assert set(got) == {"own_error", "own_soft_error", "own_log_loss"}
    for v, own in enumerate(OWNED):
        if not len(own):
            assert all(np.isnan(found[v]) for found in got.values())
            continue
        prob = said(name, value, v, x[own])
        accuracy = accuracy_score(y[own], prob.argmax(1))
        assert got["own_error"][v] == pytest.approx(1 - accuracy, abs=1e-6)
        soft = 1 - prob[np.arange(len(own)), y[own]].mean()
        assert got["own_soft_error"][v] == pytest.approx(soft, abs=1e-5)
        surprise = log_loss(y[own], prob / prob.sum(1, keepdims=True), labels=range(3))
        assert got["own_log_loss"][v] == pytest.approx(surprise, rel=1e-4)


def test_all_rows_of_everybody_are_the_errors():
    x, y = rows()
    both = metrics.together(
        metrics.own_rows("own", x, y, [np.arange(len(y))] * NODES), metrics.errors("all", x, y)
    )
    got = seen(both, METHODS["crc"], values("crc"))
    for what in ("error", "soft_error", "log_loss"):
        np.testing.assert_allclose(got[f"own_{what}"], got[f"all_{what}"], rtol=1e-5)


def test_how_rows_are_cut_and_padded_does_not_matter():
    x, y = rows()
    value = np.log([[0.5, 0.2, 0.3]] * NODES).astype("f")
    ways = [{}, {"block": 7}, {"block": 1000}, {"longest": 91}, {"longest": 60, "block": 60}]
    found = [seen(metrics.own_rows("t", x, y, OWNED, **way), PARROT, value) for way in ways]
    for other in found[1:]:
        for name in other:
            np.testing.assert_allclose(other[name], found[0][name], rtol=1e-5)


def test_a_model_that_has_broken_down_is_wrong_and_spoils_nobody_elses():
    x, y = rows()
    value = np.log([[0.5, 0.2, 0.3]] * NODES).astype("f")
    probe = metrics.own_rows("t", x, np.zeros_like(y), OWNED)
    fine = seen(probe, PARROT, value)
    value[0] = np.nan
    got = seen(probe, PARROT, value)
    assert got["t_error"][0] == got["t_soft_error"][0] == 1
    assert got["t_log_loss"][0] == pytest.approx(-np.log(1e-15), rel=1e-5)
    for name in got:
        np.testing.assert_array_equal(got[name][1:], fine[name][1:])


def test_padding_counts_for_nothing_whatever_the_row_it_points_at_holds():
    x, y = rows()
    x[0] = np.nan
    owned = [np.arange(1, 20), np.arange(20, 22)]
    method = PARROT._replace(predict=lambda key, value, x: jax.nn.log_softmax(x[:, :3] * value))
    got = seen(metrics.own_rows("t", x, y, owned), method, np.ones(2, "f"))
    right = [np.mean(x[own, :3].argmax(1) == y[own]) for own in owned]
    np.testing.assert_allclose(got["t_error"], 1 - np.array(right), atol=1e-6)
    assert np.isfinite(got["t_log_loss"]).all()


def test_the_table_is_held_once():
    x, y = rows()
    leaves = jax.tree.leaves(metrics.own_rows("t", x, y, OWNED))
    assert sum(leaf.dtype == x.dtype for leaf in leaves) == 1
    assert max(leaf.size for leaf in leaves) == x.size


def test_replicas_of_other_deals_run_side_by_side():
    x, y = rows()
    deals = [OWNED, np.array_split(np.arange(100), NODES)]
    probes = [metrics.own_rows("own", x, y, deal, longest=60) for deal in deals]
    shards = pack(*rows(1, 80), np.split(np.arange(80), NODES))
    run = simulate(METHODS["crc"], shards, topologies.ring(NODES), 1, probe=probes)
    for i, probe in enumerate(probes):
        after = seen(probe, METHODS["crc"], run.state.value[i])
        found = np.asarray(run.history["adapt"]["own_error"])[i, -1]
        np.testing.assert_allclose(found, after["own_error"], atol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: fairness(0.5), BadData, "a value for each node"),
        (lambda: fairness(np.zeros((3, 0))), BadData, "a value for each node"),
        (lambda: fairness([0.5, np.nan]), BadData, "leave out the nodes"),
        (lambda: fairness([0.5, 0.6], [1, 2, 3]), BadData, "one for each of 2 nodes"),
        (lambda: fairness([0.5, 0.6], [1, -1]), BadData, "0 or more"),
        (lambda: fairness([0.5, 0.6], [0, 0]), BadData, "not all 0"),
        (lambda: fairness([0.5, 0.6], share=0), BadSetting, "share"),
        (lambda: metrics.own_rows("t", *rows(), [[], []]), BadData, "no node has t rows"),
        (lambda: metrics.own_rows("t", *rows(), []), BadData, "no node has t rows"),
        (lambda: metrics.own_rows("t", *rows(), [[0], [150]]), BadData, "node 1 .* 0 to 149"),
        (lambda: metrics.own_rows("t", *rows(), [[-1]]), BadData, "node 0"),
        (lambda: metrics.own_rows("t", *rows(), [[0.5]]), BadData, "node 0"),
        (lambda: metrics.own_rows("t", *rows(), [[[0]]]), BadData, "node 0"),
        (lambda: metrics.own_rows("t", *rows(), OWNED, longest=59), BadSetting, "60 or more"),
        (lambda: metrics.own_rows("t", *rows(), OWNED, block=0), BadSetting, "block"),
        (lambda: metrics.own_rows("t", np.zeros((2, 4)), np.zeros(3), [[0]]), BadData, "x has 2"),
    ],
)
def test_what_makes_no_sense_is_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()
