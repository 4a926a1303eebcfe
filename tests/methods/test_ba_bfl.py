"""Bayesian networks merged by barycenters: the paper's on a server, ours on graphs."""

import jax
import numpy as np
import pytest

from peerwise import topology
from peerwise.channel import erasure
from peerwise.core import Gaussian
from peerwise.errors import BadSetting, UnknownName
from peerwise.methods import ba_bfl, decavg, fedavg
from peerwise.nets import bayesian_network, divergence, mlp
from peerwise.runtime import init_key
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.walk import walk

N = 5
MAKE = mlp(4, 3, (6,))
PLAIN, NET = (bayesian_network(MAKE, 4, 3, layers=n) for n in (0, 2))
SMALL = {"batch": 4, "lr": 0.05, "momentum": 0.5}


def shards(sizes=(8, 7, 8, 7, 8)):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=sum(sizes))
    x = (rng.normal(size=(len(y), 4)) + y[:, None]).astype(np.float32)
    return pack(x, y, np.split(np.arange(len(y)), np.cumsum(sizes)[:-1]))


ROWS = shards()


def close(a, b, **options):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **options), a, b)


@pytest.mark.long("rkl-fedavg-graph0")
@pytest.mark.bits
@pytest.mark.parametrize(
    ("divergence", "method", "graph"),
    [
        ("rkl", fedavg, topology.server(N)),
        ("gaa", decavg, topology.ring(N)),
        pytest.param("gaa", fedavg, topology.server(N), marks=pytest.mark.full),
        pytest.param("rkl", decavg, topology.ring(N), marks=pytest.mark.full),
    ],
)
def test_without_bayesian_layers_it_is_fedavg_on_a_server_and_decavg_on_a_graph(
    divergence, method, graph
):
    """To the bit: a penalty of no layers is 0, and other weights are averaged as they are."""
    plain = method(PLAIN, **SMALL, **({} if method is fedavg else {"start": "common"}))
    ours = ba_bfl(PLAIN, divergence=divergence, **SMALL)
    runs = [simulate(m, ROWS, graph, 3, seed=1).state.value for m in (plain, ours)]
    close(*runs, rtol=0, atol=0)


@pytest.mark.full  # `make test`: learner/test_every_name.py
@pytest.mark.parametrize(
    "divergence", ["rkl", pytest.param("gaa_normalised", marks=pytest.mark.full)]
)
def test_runtimes_agree_over_lossy_links(divergence):
    """Other rules: tests/combine."""
    method, graph = ba_bfl(NET, divergence=divergence, **SMALL), topology.ring(N)
    runs = [run(method, ROWS, graph, 4, seed=2, channel=erasure(0.7)) for run in (simulate, walk)]
    close(*(r.state.value for r in runs), rtol=2e-5, atol=2e-5)


@pytest.mark.full
def test_runtimes_agree_on_a_server():
    method, graph = ba_bfl(NET, **SMALL), topology.server(N)
    runs = [run(method, ROWS, graph, 3, seed=2) for run in (simulate, walk)]
    close(*(r.state.value for r in runs), rtol=2e-5, atol=2e-5)


def gaussians(value):
    parts = jax.tree.leaves(value, is_leaf=lambda p: isinstance(p, Gaussian))
    return [p for p in parts if isinstance(p, Gaussian)]


@pytest.mark.full  # `make test`: nets/test_bayes.py
def test_variances_are_learnt_and_stay_possible():
    begun, done = (simulate(ba_bfl(NET, **SMALL), ROWS, topology.ring(N), r) for r in (0, 20))
    for first, last in zip(*map(gaussians, (begun.state.value, done.state.value)), strict=True):
        assert np.isfinite(last.log_variance).all()
        assert abs(last.log_variance - first.log_variance).max() > 0.05


@pytest.mark.full
def test_with_what_was_merged_as_its_prior_a_node_stays_nearer_to_it():
    """From the same weights on the same rows, the divergence from them is smaller."""
    one = pack(np.zeros((8, 4), np.float32), np.zeros(8, int), [np.arange(8)])
    apart = {}
    for prior in ("standard", "neighbours"):
        method = ba_bfl(NET, prior=prior, epochs=30, batch=8, lr=0.01, momentum=0.0)
        begun, done = (simulate(method, one, topology.alone(1), r, seed=4) for r in (0, 1))
        first, last = (jax.tree.map(lambda a: a[0], run.state.value) for run in (begun, done))
        apart[prior] = float(divergence(last, first))
    assert apart["neighbours"] < 0.5 * apart["standard"]


@pytest.mark.full
def test_the_divergence_counts_once_for_all_rows_times_the_temperature():
    """One step on all rows: with and without it they differ by lr x its slope x t / rows."""
    one = pack(np.ones((8, 4), np.float32), np.zeros(8, int), [np.arange(8)])
    told = {"batch": 8, "lr": 0.1, "momentum": 0.0}
    cold, half = (
        simulate(ba_bfl(NET, temperature=t, **told), one, topology.alone(1), 0).state.value
        for t in (0.0, 0.5)
    )
    start = NET.init(init_key(jax.random.key(0), 0, True)[1])
    slope = jax.jit(jax.grad(divergence))(start)
    moved = jax.tree.map(lambda a, g: a[0] - 0.1 * g * 0.5 / 8, cold, slope)
    close(jax.tree.map(lambda a: a[0], half), moved, rtol=1e-5, atol=1e-6)
    apart = jax.tree.map(lambda a, b: abs(a - b).max(), cold, half)
    assert max(float(a) for a in jax.tree.leaves(apart)) > 1e-3


@pytest.mark.full
def test_a_personal_model_keeps_its_share():
    """Weights of CFA: in the chart, 1 - epsilon of one's own, the rest by data size."""
    method = ba_bfl(NET, divergence="aalv", weigh={"name": "cfa", "epsilon": 0.25}, **SMALL)
    graph = topology.chain(2)
    rows = shards((8, 8))
    before = simulate(method, rows, graph, 0, seed=5).state.value

    def look(method, state):
        return {"value": state.value}

    done = simulate(method, rows, graph, 1, seed=5, probe=look, stages=("combine",))
    seen = done.history["combine"]["value"]
    mixed = jax.tree.map(lambda a: 0.75 * a[0] + 0.25 * a[1], before)
    close(jax.tree.map(lambda a: a[0, 0], seen), mixed, rtol=1e-5, atol=1e-6)


def test_bad_settings_are_told():
    with pytest.raises(BadSetting, match="did you mean 'rkl'"):
        ba_bfl(NET, divergence="rkll", **SMALL)
    with pytest.raises(UnknownName, match="did you mean 'barycenter'"):
        ba_bfl(NET, rule="barycentre", **SMALL)
    with pytest.raises(BadSetting, match="did you mean 'neighbours'"):
        ba_bfl(NET, prior="neighbour", **SMALL)
    with pytest.raises(BadSetting, match="epsilon must be greater than 0"):
        ba_bfl(NET, weigh={"name": "cfa", "epsilon": 0.0}, **SMALL)
    with pytest.raises(BadSetting, match="temperature"):
        ba_bfl(NET, temperature=-1.0, **SMALL)
    with pytest.raises(BadSetting, match="start must be 'own' or 'common'"):
        ba_bfl(NET, start="mine", **SMALL)
