"""Federated and Gossip naive Bayes: the pooled model without noise, rates, losses, noise."""

import warnings
from functools import partial
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import kstest, laplace

from peerwise import metrics
from peerwise import topology as topologies
from peerwise.channel import erasure
from peerwise.errors import BadSetting, UnknownName
from peerwise.methods.gossip_nb import Counter, federated_nb, gossip_nb
from peerwise.methods.releasing import never_silent, release
from peerwise.models import lda, naive_bayes, statistics
from peerwise.privacy.budget import Queries
from peerwise.privacy.sensitivity import bounded, warn_local
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.walk import walk

N, M = 24, 480
CARDINALITIES = (0, 3, 0)
MODEL = naive_bayes(CARDINALITIES, 2)
BOUNDS = (-4.0, 4.0)


def rows(seed=0, m=M):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=m)
    x = np.column_stack([rng.normal(y, 1), (y + rng.integers(3, size=m)) % 3, rng.normal(-y, 2)])
    return x, y


X, Y = rows()
OWNED = np.array_split(np.random.default_rng(1).permutation(M), N)
SHARDS = pack(X, Y, OWNED)
run64 = partial(simulate, precision="float64")


def pooled():
    with jax.enable_x64(True):
        return np.asarray(statistics(MODEL, jnp.asarray(X), jnp.asarray(Y), jnp.ones(M)))


def estimates(run):
    value = jax.tree.map(np.asarray, run.state.value)
    return value["estimate"], value["count"]


@pytest.fixture(autouse=True)
def _warned_before():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warn_local()


# --- without noise


def test_federated_without_noise_is_pooled_naive_bayes_exactly():
    run = run64(federated_nb(MODEL), SHARDS, topologies.server(N), 1)
    total = np.asarray(run.state.value)
    np.testing.assert_allclose(total, np.broadcast_to(pooled(), total.shape), rtol=1e-13)
    assert (total == total[:1]).all()  # everyone has the same


def test_an_online_update_is_an_addition():
    """Equations 22 to 24 for a node that joins later, from means and second moments alone."""
    s = pooled()
    with jax.enable_x64(True):
        late = np.asarray(statistics(MODEL, jnp.asarray(X[:20]), jnp.asarray(Y[:20]), jnp.ones(20)))
    n, mu, zeta = s[:, :1], s[:, 1:3] / s[:, :1], s[:, 3:5] / s[:, :1]
    more = n + late[:, :1]
    mean = n / more * mu + late[:, 1:3] / more
    second = n / more * zeta + late[:, 3:5] / more
    both = s + late
    np.testing.assert_allclose(both[:, 1:3] / both[:, :1], mean, rtol=1e-12)
    np.testing.assert_allclose(both[:, 3:5] / both[:, :1], second, rtol=1e-12)


@pytest.mark.parametrize("counter", ["printed", "total", "push_sum"])
def test_gossip_without_noise_converges_to_the_mean(counter):
    far = []
    for rounds in (8, 64):
        run = run64(
            gossip_nb(MODEL, counter=counter), SHARDS, topologies.pushes(N, rounds=rounds), rounds
        )
        estimate, count = estimates(run)
        if counter == "push_sum":
            estimate = estimate / count[:, None, None]
        far.append(np.abs(estimate * N - pooled()).mean() / np.abs(pooled()).mean())
    assert far[1] < far[0] / 3
    assert far[1] < {"printed": 0.03, "total": 0.05, "push_sum": 1e-6}[counter]


def mean_of(method, state):
    return state.value["estimate"] / state.value["count"][:, None, None]


def test_push_sum_converges_at_the_rate_of_theory():
    """Kempe et al.: each push halves what is unevenly spread, so error falls geometrically.

    For uniform pushes the expected squared potential shrinks by (1/2 - 1/(2 n)) a round.
    """
    rounds = 40
    at = [10, 20, 30, 40]
    potentials = []
    for seed in range(6):
        run = run64(
            gossip_nb(MODEL, counter="push_sum"),
            SHARDS,
            topologies.pushes(N, rounds=rounds, seed=seed),
            rounds,
            probe=lambda method, state: (
                state.value["estimate"] / state.value["count"][:, None, None]
            ),
            at=at,
        )
        apart = np.asarray(run.history["adapt"]) - pooled() / N
        potentials.append((apart**2).sum((1, 2, 3)))
    decay = np.exp(np.polyfit(at, np.log(np.mean(potentials, 0)), 1)[0])
    assert 0.3 < decay < 0.62  # 1/2 - 1/(2 n) and the ratio with a random weight


def test_the_walk_needs_far_more_rounds():
    """Without the previous estimate an estimate meets one node a round: O(n), not O(log n)."""
    apart = {}
    for counter in ("printed", "walk"):
        run = run64(
            gossip_nb(MODEL, counter=counter), SHARDS, topologies.pushes(N, rounds=24, seed=3), 24
        )
        apart[counter] = np.abs(estimates(run)[0] * N / pooled() - 1).mean()
    assert apart["walk"] > 2 * apart["printed"]


def test_unnormalised_estimates_overflow():
    """Equation 25: sums grow geometrically, and single precision is soon out of range."""
    rounds = 300
    run = simulate(
        gossip_nb(MODEL, counter="unnormalised"),
        SHARDS,
        topologies.pushes(N, rounds=rounds),
        rounds,
        probe=lambda method, state: jnp.abs(state.value["estimate"]).max((1, 2)),
        at=[10, 20, rounds],
    )
    top = np.asarray(run.history["adapt"])
    assert np.median(top[1]) > 20 * np.median(top[0])
    assert not np.isfinite(top[-1]).all()
    fine = simulate(
        gossip_nb(MODEL), SHARDS, topologies.pushes(N, rounds=rounds), rounds, precision="float32"
    )
    assert np.isfinite(np.asarray(fine.state.value["estimate"])).all()


def test_a_node_keeps_the_last_two_that_arrived():
    """Algorithm 5's queue, by hand: slots are in order of arrival."""
    method = gossip_nb(MODEL)
    state = method.init(jax.random.key(0), jax.tree.map(jnp.asarray, SHARDS.of(0)))
    from peerwise.core import Inbox

    letters = {
        "estimate": jnp.stack([jnp.full_like(state.value["estimate"], v) for v in (1.0, 2.0, 3.0)]),
        "count": jnp.array([5.0, 6.0, 7.0]),
    }
    inbox = Inbox(letters, {}, jnp.array([1.0, 0.0, 1.0]), jnp.zeros(3, jnp.int32))
    heard = method.combine.rule(state.value, inbox)
    assert (heard["heard"]["count"], heard["before"]["count"]) == (7, 5)  # the second was lost
    after = method.adapt(jax.random.key(1), state._replace(value=heard), None)
    own = state.memory["own"]
    np.testing.assert_allclose(after.value["estimate"], (5 * 1.0 + 7 * 3.0 + own) / 13, rtol=1e-6)
    assert after.value["count"] == 8  # as printed: t_recv + 1


# --- loss


@pytest.mark.full  # `make test`: methods/test_gossip_loss.py
def test_plain_push_sum_loses_its_mass_and_the_cumulative_one_does_not():
    rounds = 200
    lossy = erasure(0.7)
    plain = run64(
        gossip_nb(MODEL, counter="push_sum"),
        SHARDS,
        topologies.pushes(N, rounds=rounds),
        rounds,
        channel=lossy,
    )
    assert estimates(plain)[1].sum() < 0.01 * N
    graph = topologies.regular(N, k=4)
    kept = run64(
        gossip_nb(MODEL, counter="cumulative", degree=4), SHARDS, graph, rounds, channel=lossy
    )
    estimate, count = estimates(kept)
    np.testing.assert_allclose(
        estimate / count[:, None, None] * N,
        np.broadcast_to(pooled(), estimate.shape),
        rtol=1e-4,
        atol=1e-3,
    )


def test_what_was_given_and_not_yet_heard_is_not_lost():
    """Mass of the nodes, plus what is on its way, is what they began with."""
    graph = topologies.random_tree(N, seed=2)
    method = gossip_nb(MODEL, counter="cumulative", degree=graph.slots)
    run = run64(method, SHARDS, graph, 9, channel=erasure(0.5))
    value = jax.tree.map(np.asarray, run.state.value)
    given = (value["neighbours"] * value["given"]["count"]).sum()
    on_the_way = given - value["got"]["count"].sum()
    assert on_the_way > 0
    np.testing.assert_allclose(value["count"].sum() + on_the_way, N, rtol=1e-12)


# --- runtimes


@pytest.mark.full  # `make test`: learner/test_every_name.py
@pytest.mark.bits
@pytest.mark.parametrize(
    "counter",
    [c for c in get_args(Counter) if c != "unnormalised"],
)
def test_simulate_equals_walk(counter):
    small = pack(X[:40], Y[:40], np.array_split(np.arange(40), 6))
    draw = release(MODEL, epsilon=2.0, sensitivity="bounded", bounds=BOUNDS)
    if counter in ("cumulative", "relay"):  # what is said to one neighbour needs a fixed graph
        graph = topologies.ring(6)
        degree = {"degree": 2} if counter == "cumulative" else {}
        method = gossip_nb(MODEL, draw, **degree, counter=counter)
    else:
        graph = topologies.pushes(6, rounds=4, seed=5)
        method = gossip_nb(MODEL, draw, counter=counter)
    ours = simulate(method, small, graph, 4, exact=True)
    oracle = walk(method, small, graph, 4)
    for a, b in zip(jax.tree.leaves(ours.state), jax.tree.leaves(oracle.state), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    fast = simulate(method, small, graph, 4)
    for a, b in zip(jax.tree.leaves(fast.state), jax.tree.leaves(oracle.state), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-4)


def test_pushes_are_n_links_a_round_to_others():
    graph = topologies.pushes(50, rounds=30, seed=1)
    src, dst = np.asarray(graph.links.src), np.asarray(graph.links.dst)
    assert src.shape == (30, 50)
    assert (np.sort(src, 1) == np.arange(50)).all()  # everyone speaks once
    assert (src != dst).all()
    assert (np.diff(dst, axis=1) >= 0).all()
    # arrival order is not the order of the senders
    same = (dst[:, 1:] == dst[:, :-1]).ravel()
    first_lower = (src[:, :-1] < src[:, 1:]).ravel()[same].mean()
    assert 0.4 < first_lower < 0.6
    among = topologies.pushes(topologies.ring(10), rounds=20)
    gap = (np.asarray(among.links.src) - np.asarray(among.links.dst)) % 10
    assert set(np.unique(gap)) == {1, 9}


# --- noise


def released(draws=2000, **options):
    draw = jax.jit(jax.vmap(release(MODEL, **options), in_axes=(0, None)))
    shard = jax.tree.map(jnp.asarray, SHARDS.of(0))
    noisy, _ = draw(jax.random.split(jax.random.key(0), draws), shard)
    exact, _ = release(MODEL)(jax.random.key(0), shard)
    return np.asarray(noisy) - np.asarray(exact)[None]


def test_noise_has_the_scale_that_the_budget_gives():
    queries = Queries(CARDINALITIES, 2)
    noise = released(epsilon=0.5, sensitivity="bounded", bounds=BOUNDS)
    scale = bounded(queries, *BOUNDS) * len(queries) / 0.5  # equation 16
    # squares are released about the middle of their range, which halves their noise
    middle = bounded(queries, *BOUNDS)[queries.second] / 2
    noise[..., queries.second] -= noise[..., :1] * middle
    every = (noise**2).sum((1, 2)).mean()
    scale[queries.second] /= 2
    for column in range(queries.size):
        values = noise[:, :, column].ravel() / scale[column]
        assert kstest(values, laplace.cdf).pvalue > 1e-3
    wide = released(epsilon=0.5, sensitivity="bounded", bounds=BOUNDS, split="optimal")
    wide[..., queries.second] -= wide[..., :1] * middle
    assert (wide**2).sum((1, 2)).mean() < every  # of what is released


def test_every_class_is_noised_also_one_that_a_node_lacks():
    only = pack(X[Y == 0][:8], Y[Y == 0][:8], [np.arange(8)])
    shard = jax.tree.map(jnp.asarray, only.of(0))
    for options in ({"sensitivity": "bounded", "bounds": BOUNDS}, {"sensitivity": "local"}):
        noisy, _ = release(MODEL, epsilon=1.0, **options)(jax.random.key(3), shard)
        assert (np.asarray(noisy[1]) != 0).all()
    reach = never_silent(jnp.array([[2.0, 0.0], [0.0, 0.0]]))
    assert reach.tolist() == [[2.0, 1.0], [2.0, 1.0]]


def test_clamping_at_nodes_biases_rare_counts_upwards():
    plain = released(epsilon=0.3, sensitivity="bounded", bounds=BOUNDS).mean(0)
    clamped = released(epsilon=0.3, sensitivity="bounded", bounds=BOUNDS, clamp_at_node=True).mean(
        0
    )
    cells = clamped[:, 5:]
    assert (cells > 5).all()  # about half a scale (16.7) for counts near 0
    assert np.abs(plain[:, 5:]).max() < 3


def test_budgets_may_differ_from_node_to_node():
    draw = release(MODEL, epsilon=(0.01, 10.0), sensitivity="bounded", bounds=BOUNDS)
    method = federated_nb(MODEL, draw)
    run = simulate(method, SHARDS, topologies.server(N), 0)
    budgets = np.asarray(run.state.memory["epsilon"])
    assert budgets.min() < 0.1 < 1 < budgets.max()
    assert len(np.unique(budgets)) == N
    noise = np.asarray(run.state.memory["noise"])
    assert np.corrcoef(np.log(budgets), np.log(noise))[0, 1] < -0.8


def test_the_noisiest_nodes_can_be_left_out():
    draw = release(MODEL, epsilon=(0.01, 10.0), sensitivity="bounded", bounds=BOUNDS)
    start = simulate(federated_nb(MODEL, draw), SHARDS, topologies.server(N), 0)
    noise = np.asarray(start.state.memory["noise"])
    limit = float(np.median(noise))
    run = run64(federated_nb(MODEL, draw, most_noise=limit), SHARDS, topologies.server(N), 1)
    kept = np.asarray(start.state.value)[noise <= limit].sum(0)
    np.testing.assert_allclose(np.asarray(run.state.value[0]), kept, rtol=1e-4, atol=1e-2)
    message = federated_nb(MODEL, draw).message(
        jax.random.key(0), jax.tree.map(lambda a: a[0], start.state)
    )
    assert message.note == {}  # what only an oracle knows is not sent


def test_more_budget_is_more_accuracy():
    probe = metrics.errors("test", *rows(9, 400))
    errors = []
    for epsilon in (0.05, 1000.0):
        draw = release(MODEL, epsilon=epsilon, sensitivity="bounded", bounds=BOUNDS)
        method = federated_nb(MODEL, draw)
        found = [
            simulate(method, SHARDS, topologies.server(N), 1, seed=s, probe=probe).history["adapt"]
            for s in range(5)
        ]
        errors.append(np.mean([np.asarray(f["test_error"]) for f in found]))
    assert errors[1] < errors[0] - 0.1


def test_local_sensitivity_warns_once():
    warn_local.cache_clear()
    with pytest.warns(UserWarning, match="not differential privacy"):
        release(MODEL, epsilon=0.123, sensitivity="local")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release(MODEL, epsilon=0.124, sensitivity="local")


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: release(MODEL, epsilon=0.0), BadSetting, "epsilon must be"),
        (lambda: release(MODEL, epsilon=float("nan")), BadSetting, "epsilon must be"),
        (lambda: release(MODEL, epsilon=(1.0, -1.0)), BadSetting, "epsilon must be"),
        (lambda: release(MODEL, epsilon=1.0, sensitivity="bounded"), BadSetting, "public bounds"),
        (lambda: release(MODEL, epsilon=1.0, sensitivity="global"), UnknownName, "sensitivity"),
        (
            lambda: release(MODEL, epsilon=1.0, sensitivity="local", split="optimal"),
            BadSetting,
            "bounded",
        ),
        (
            lambda: release(lda((0, 0), 2), epsilon=1.0, sensitivity="local"),
            BadSetting,
            "naive_bayes",
        ),
        (
            lambda: release(naive_bayes((0,), 2, missing=True), epsilon=1.0, sensitivity="local"),
            BadSetting,
            "missing",
        ),
        (lambda: gossip_nb(MODEL, counter="push-sum"), BadSetting, "did you mean 'push_sum'"),
        (lambda: gossip_nb(MODEL, counter="cumulative"), BadSetting, "degree"),
        (lambda: topologies.pushes(topologies.server(4), rounds=2), BadSetting, "fixed graph"),
        (lambda: topologies.pushes(4, rounds=0), BadSetting, "rounds"),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()
