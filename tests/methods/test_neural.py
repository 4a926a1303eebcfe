"""Neural networks between neighbours: exact cases, laws of the step, parity, the paper's drop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_equal_runs
from peerwise import metrics
from peerwise import topology as topologies
from peerwise.channel import erasure
from peerwise.combine.step import toward
from peerwise.errors import BadSetting
from peerwise.learner import cell, run
from peerwise.methods import ba_bfl, cta, cvar_cvar, relay_gd
from peerwise.methods.neural import cfa, cfa_ge, decavg, decdiff, fedavg, isolated_net
from peerwise.nets import mlp, network_of
from peerwise.shards import pack, pooled
from peerwise.simulate import simulate
from peerwise.update.losses import virtual_teacher
from peerwise.walk import walk

N = 6
NET = network_of(mlp(4, 3, (6,)), 4, 3)
SMALL = {"batch": 4, "lr": 0.1, "momentum": 0.5}


def rows(sizes, seed=0):
    rng = np.random.default_rng(seed)
    m = sum(sizes)
    y = rng.integers(3, size=m)
    x = (rng.normal(size=(m, 4)) + y[:, None]).astype(np.float32)
    return x, y, np.split(np.arange(m), np.cumsum(sizes)[:-1])


EVEN, UNEVEN = rows([8] * N), rows([6, 5, 6, 5, 6, 5])  # uneven, but of one padded shape
METHODS = {
    "decavg": decavg(NET, **SMALL),
    "decavg, common start": decavg(NET, start="common", **SMALL),
    "decdiff": decdiff(NET, **SMALL),
    "decdiff+vt, global norm": decdiff(NET, norm="global", loss=virtual_teacher(3), **SMALL),
    "cfa": cfa(NET, **SMALL),
    "cfa(1), optimiser kept": cfa(NET, epsilon=1.0, keep=True, **SMALL),
    "isolation": isolated_net(NET, **SMALL),
}


# --- the step of DecDiff


@given(seed=st.integers(0, 2**32 - 1), s=st.floats(1, 10), far=st.floats(1e-3, 1e3))
def test_a_node_at_distance_r_moves_r_over_r_plus_s_and_never_past(seed, s, far):
    rng = np.random.default_rng(seed)
    own = {"a": rng.normal(size=(3, 2)), "b": rng.normal(size=4)}
    way = {k: rng.normal(size=v.shape) for k, v in own.items()}
    way = {k: far * v / np.linalg.norm(v) for k, v in way.items()}
    mean = {k: own[k] + way[k] for k in own}
    with jax.enable_x64(True):
        for norm, r in (("tensor", far), ("global", far * np.sqrt(2))):
            moved = toward(s, norm)(*jax.tree.map(jnp.asarray, (own, mean)))
            for k in own:
                step = np.linalg.norm(np.asarray(moved[k]) - own[k])
                assert step == pytest.approx(far / (r + s), rel=1e-6)
                assert step < far
                along = (np.asarray(moved[k]) - own[k]) / step
                np.testing.assert_allclose(along, way[k] / far, atol=1e-6)


def test_at_the_mean_a_node_stays():
    own = {"a": jnp.ones((2, 2))}
    np.testing.assert_array_equal(toward()(own, own)["a"], own["a"])


# --- exact cases


def test_decavg_on_a_complete_graph_is_fedavg_is_a_step_of_pooled_descent():
    """Common start and one full-batch step a node: after aggregation all have the pooled step."""
    step = {"batch": 64, "lr": 0.2, "momentum": 0.0}
    x, y, owned = EVEN
    shards = pack(x, y, owned)
    look = lambda method, state: state.value  # noqa: E731
    ours = simulate(
        decavg(NET, start="common", **step), shards, topologies.complete(N), 1, probe=look,
        stages="combine", precision="float64",
    ).history["combine"]  # fmt: skip
    server = simulate(
        fedavg(NET, **step), shards, topologies.server(N), 1, probe=look, stages="combine",
        precision="float64",
    ).history["combine"]  # fmt: skip
    alone = simulate(
        isolated_net(NET, start="common", **step), pooled(x, y, owned), topologies.alone(1), 0,
        precision="float64",
    ).state.value  # fmt: skip
    for a, b, c in zip(*(jax.tree.leaves(t) for t in (ours, server, alone)), strict=True):
        np.testing.assert_allclose(a[0], np.broadcast_to(c, a[0].shape), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.full  # `make test`: trust times size, test_cfa_ge.py
def test_sizes_weigh_and_trust_multiplies():
    """Node 0 of a path hears node 1: the mean by rows, the node itself included."""
    shards = pack(*rows([6, 2]))
    start = simulate(decavg(NET, **SMALL), shards, topologies.chain(2), 0).state.value
    run = simulate(
        decavg(NET, **SMALL), shards, topologies.chain(2), 1, stages="combine",
        probe=lambda method, state: state.value,
    )  # fmt: skip
    for a, b in zip(jax.tree.leaves(start), jax.tree.leaves(run.history["combine"]), strict=True):
        np.testing.assert_allclose(b[0, 0], (6 * a[0] + 2 * a[1]) / 8, rtol=1e-5, atol=1e-6)


@pytest.mark.full  # `make test`: simulate/test_lanes.py
def test_steps_follow_rows_whatever_the_groups():
    sizes = [40, 3, 17, 1, 8, 25]
    run = simulate(decdiff(NET, epochs=2, **SMALL), pack(*rows(sizes)), topologies.ring(N), 3)
    expected = [(3 + 1) * 2 * -(-m // 4) for m in sizes]
    assert np.asarray(run.state.memory["steps"]).tolist() == expected


def test_starts_are_common_or_their_own():
    one = {"batch": 64, "lr": 1e-9}
    shards = pack(*EVEN)
    common = simulate(fedavg(NET, **one), shards, topologies.server(N), 0).state.value
    own = simulate(decavg(NET, **one), shards, topologies.ring(N), 0).state.value
    first = jax.tree.leaves(common)[0]
    assert np.ptp(np.asarray(first), axis=0).max() < 1e-6
    assert np.ptp(np.asarray(jax.tree.leaves(own)[0]), axis=0).max() > 0.1


@pytest.mark.some("cta")
@pytest.mark.parametrize(
    "method",
    [
        fedavg(NET, batch=64, lr=1e-9),
        decavg(NET, start="common", batch=64, lr=1e-9),
        cta(NET, batch=64, lr=1e-9),
        cvar_cvar(NET, batch=64, lr=1e-9),
        ba_bfl(NET, batch=64, lr=1e-9),
        cfa_ge(NET, start="common", smoothing=0.5, batch=64, lr=1e-9),
        relay_gd(NET, batch=64, lr=1e-9),
    ],
    ids=["fedavg", "decavg", "cta", "cvar_cvar", "ba_bfl", "cfa_ge", "relay_gd"],
)
def test_nodes_start_alike_and_every_repetition_otherwise(method):
    shards, ring = pack(*EVEN), topologies.ring(N)

    def first(state):
        value = (
            state.value.get("net", state.value) if isinstance(state.value, dict) else state.value
        )
        value = value.get("weights", value) if isinstance(value, dict) else value
        return np.asarray(jax.tree.leaves(value)[0])

    replicas = first(simulate(method, shards, ring, 0, seed=[3, 4]).state)  # [replicas, n, ...]
    assert np.ptp(replicas, axis=1).max() < 1e-6
    assert np.abs(replicas[0] - replicas[1]).max() > 0.1
    for seed, wanted in zip((3, 4), replicas, strict=True):
        walked = first(walk(method, shards, ring, 0, seed=seed).state)
        np.testing.assert_allclose(walked, wanted, atol=1e-6)


@pytest.mark.full  # `make test`: seeds, above
def test_each_repetition_of_a_cell_has_its_own_common_start():
    described = {
        "data": "iris", "split": {"nodes": 3}, "network": "ring",
        "method": {"name": "cta", "steps": 1, "batch": 4, "lr": 1e-9},
        "run": {"rounds": 1, "repetitions": 3, "metrics": ["consensus"]},
    }  # fmt: skip
    loss = run(cell(described)).values["train_log_loss"][:, -1]  # of the start: nothing is learnt
    assert np.ptp(loss, axis=0).min() > 0.01


# --- runtimes


@pytest.mark.full  # `make test`: learner/test_every_name.py, every method to the bit
@pytest.mark.parametrize("name", METHODS)
def test_simulate_equals_walk(name):
    shards, graph = pack(*UNEVEN), topologies.erdos_renyi(N, p=0.5, seed=1)
    options = {"rounds": 20, "seed": 3}
    oracle = walk(METHODS[name], shards, graph, **options)
    assert_equal_runs(simulate(METHODS[name], shards, graph, **options), oracle, 1e-4)


@pytest.mark.full  # `make test`: methods/test_hears_nobody.py
def test_lossy_links_leave_weights_sound():
    run = simulate(METHODS["decdiff"], pack(*UNEVEN), topologies.ring(N), 10, channel=erasure(0.5))
    assert all(np.isfinite(np.asarray(a)).all() for a in jax.tree.leaves(run.state.value))


# --- what the paper shows


def test_the_first_aggregation_hurts_decdiff_less_than_plain_averaging():
    """Figure 1: nodes with weights of their own lose what they learnt when they average."""
    sizes = [60] * 10
    x, y, owned = rows(sizes, seed=5)
    probe = metrics.errors("test", *rows([600], seed=6)[:2])
    graph = topologies.complete(10)
    training = {"batch": 8, "epochs": 5, "lr": 0.1}
    net = network_of(mlp(4, 3, (32, 32)), 4, 3)
    after = {}
    for name, method in (("avg", decavg(net, **training)), ("diff", decdiff(net, **training))):
        run = simulate(method, pack(x, y, owned), graph, 1, probe=probe, stages="combine")
        after[name] = float(np.asarray(run.history["combine"]["test_error"]).mean())
    method = isolated_net(net, **training)
    alone = simulate(method, pack(x, y, owned), graph, 1, probe=probe, stages="combine")
    trained = float(np.asarray(alone.history["combine"]["test_error"]).mean())
    assert after["avg"] - trained > 0.1  # a drop
    assert after["diff"] - trained < (after["avg"] - trained) / 2


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: decdiff(NET, s=0.5), BadSetting, "s must be 1 or more, got 0.5"),
        (lambda: decdiff(NET, norm="layer"), BadSetting, "norm must be 'tensor' or 'global'"),
        (lambda: cfa(NET, epsilon=1.5), BadSetting, "epsilon"),
        (lambda: decavg(NET, start="comon"), BadSetting, "did you mean 'common'"),
        (lambda: decavg(NET, optimiser="rmsprop"), BadSetting, "optimiser must be 'sgd' or 'adam'"),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()
