"""Private CRC: CRC without noise, clipping that holds for any row, noise that is paid for."""

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, norm

from peerwise import topology as topologies
from peerwise.core import Shard, State
from peerwise.errors import BadSetting
from peerwise.methods import crc
from peerwise.methods.private_crc import noise_multiplier, private_crc
from peerwise.models import naive_bayes
from peerwise.privacy import Ledger, Overspent
from peerwise.privacy.budget import Budget
from peerwise.privacy.mechanism import gaussian_sigma
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.walk import walk

CARDINALITIES, CLASSES = (0, 3, 0), 3
MODEL = naive_bayes(CARDINALITIES, CLASSES)
NODES, EACH, M0, ROUNDS = 6, 10, 100.0, 5
DELTA = 1e-5
TREE = topologies.random_tree(NODES)


def rows(seed=0, m=NODES * EACH):
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=m)
    x = np.column_stack([rng.normal(y), (y + rng.integers(2, size=m)) % 3, rng.normal(-y)])
    return x, y


X, Y = rows()
SHARDS = pack(X, Y, np.split(np.arange(len(Y)), NODES))
BASE = crc(MODEL, m0=M0)


def clipped(clip, **options):
    """CRC that clips and adds no noise."""
    return private_crc(MODEL, ROUNDS, Budget(), clip=clip, m0=M0, **options)


def learnt(method, **options):
    run = simulate(method, SHARDS, TREE, ROUNDS, precision="float64", **options)
    return np.asarray(run.state.value)


# --- without noise


def test_without_noise_and_with_a_huge_clip_it_is_crc():
    ours, theirs = learnt(clipped(1e6)), learnt(BASE)
    assert np.abs(theirs - theirs.mean(0)).max() > 0.1  # nodes have learnt different things
    np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)


def test_a_small_clip_makes_another_and_smaller_update():
    still = np.asarray(MODEL.uniform(M0, jnp.float32))
    far = [np.abs(learnt(clipped(c)) - still).max() for c in (0.01, 0.5, 1e6)]
    assert far[0] < far[1] < far[2]
    # a round moves a node by the clip of each row at most, and averaging moves nobody further
    assert far[0] <= ROUNDS * EACH * 0.01


def test_the_update_of_one_row_by_hand():
    """(target - posterior) (x) phi(x), scaled down to the clip; from a uniform start 1/3 each."""
    x, y = np.array([[2.0, 1.0, -1.0]]), np.array([2])
    phi = np.array([1, 2, -1, 4, 1, 0, 1, 0])  # rows, x, x^2, one-hot of category 1
    whole = np.outer([-1 / 3, -1 / 3, 2 / 3], phi)
    length = np.sqrt((whole**2).sum())
    assert length == pytest.approx(4.0)  # sqrt(6/9) sqrt(24)
    np.testing.assert_allclose(moves(10.0, x, y), whole, atol=1e-12)
    np.testing.assert_allclose(moves(1.0, x, y), whole / 4, atol=1e-12)


@cache
def _adapt(clip):
    return jax.jit(clipped(clip).adapt)


def moves(clip, x, y, value=None, weight=None):
    """What a shard adds to statistics in one round."""
    with jax.enable_x64(True):
        value = MODEL.uniform(M0, jnp.float64) if value is None else jnp.asarray(value)
        weight = np.ones(len(y)) if weight is None else weight
        shard = Shard(jnp.asarray(x), jnp.asarray(y), jnp.asarray(weight))
        memory = {"size": jnp.asarray(1.0), "guards": jnp.zeros((), jnp.int32)}
        after = _adapt(clip)(jax.random.key(0), State(value, memory), shard)
        return np.asarray(after.value - value)


@given(
    seed=st.integers(0, 10**6),
    clip=st.sampled_from([0.05, 1.0, 7.0]),
    spread=st.sampled_from([0.1, 3.0, 300.0]),
    noise=st.sampled_from([0.0, 5.0, 500.0]),
    which=st.integers(0, 11),
)
def test_one_row_changes_an_update_by_the_clip_at_most(seed, clip, spread, noise, which):
    """For any row and any state, also one that noise has made impossible."""
    rng = np.random.default_rng(seed)
    x, y = rows(seed, 12)
    x[:, [0, 2]] *= spread
    value = np.asarray(MODEL.uniform(M0, jnp.float32)) + noise * rng.laplace(size=(3, 8))
    there = np.ones(12)
    gone = np.where(np.arange(12) == which, 0.0, 1.0)
    full, less = (moves(clip, x, y, value, w) for w in (there, gone))
    assert np.isfinite(full).all()
    assert np.sqrt(((full - less) ** 2).sum()) <= clip * (1 + 1e-9) + 1e-9 * np.abs(full).max()


def test_a_row_that_is_not_there_is_the_same_as_one_of_weight_zero():
    x, y = rows(3, 8)
    weight = np.array([1.0] * 7 + [0.0])
    np.testing.assert_allclose(moves(1.0, x, y, None, weight), moves(1.0, x[:7], y[:7]), atol=1e-12)


# --- noise


def draws(epsilon, clip, rounds=ROUNDS, many=3000):
    """The noise in updates of one node by many keys [many, c, q]."""
    method = private_crc(MODEL, rounds, Budget(epsilon), clip=clip, m0=M0)
    shard = jax.tree.map(jnp.asarray, SHARDS.of(0))
    state = method.init(jax.random.key(0), shard)
    keys = jax.random.split(jax.random.key(1), many)
    noisy = jax.jit(jax.vmap(lambda key: method.adapt(key, state, shard).value))(keys)
    plain = jax.jit(clipped(clip).adapt)(keys[0], state, shard).value
    return np.asarray(noisy, float) - np.asarray(plain, float)


@pytest.mark.parametrize(("epsilon", "clip"), [(0.5, 2.0), (3.0, 0.4)])
def test_noise_has_the_standard_deviation_multiplier_times_clip(epsilon, clip):
    std = noise_multiplier(epsilon, DELTA, ROUNDS) * clip
    noise = draws(epsilon, clip)
    assert noise.std() == pytest.approx(std, rel=0.02)
    for line in range(CLASSES):
        for column in range(MODEL.size):
            assert kstest(noise[:, line, column] / std, norm.cdf).pvalue > 1e-4
    # entries are noised independently
    apart = np.corrcoef(noise.reshape(len(noise), -1).T) - np.eye(CLASSES * MODEL.size)
    assert np.abs(apart).max() < 0.08


def test_noise_of_rounds_and_nodes_differs():
    quiet = private_crc(MODEL, 2, Budget(2.0), clip=1e-3, m0=M0)
    look = {"probe": lambda method, state: state.value, "at": [1, 2]}
    run = simulate(quiet, SHARDS, topologies.alone(NODES), 2, **look)
    first, second = np.asarray(run.history["adapt"])
    change = (second - first).reshape(NODES, -1)
    start = (first - np.asarray(MODEL.uniform(M0, jnp.float32))).reshape(NODES, -1)
    for a in (start, change):
        assert len(np.unique(a[:, 0])) == NODES
    assert not np.isclose(start, change).any(1).all()


# --- what it costs


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("rounds", [1, 8, 64])
def test_the_noise_costs_what_is_claimed_by_outside_accounting(epsilon, rounds):
    """dp-accounting: tightly by privacy loss distributions, and by Rényi above that."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    event = dp_accounting.GaussianDpEvent(noise_multiplier(epsilon, DELTA, rounds))
    tight = PLDAccountant().compose(event, rounds).get_epsilon(DELTA)
    loose = RdpAccountant().compose(event, rounds).get_epsilon(DELTA)
    # discretised, pessimistically: 1e-4 for each release
    assert tight == pytest.approx(epsilon, rel=5e-3)
    exact = dp_accounting.get_epsilon_gaussian(
        noise_multiplier(epsilon, DELTA, rounds) / math.sqrt(rounds), DELTA
    )
    assert exact <= epsilon * (1 + 1e-6)
    assert epsilon * 0.999 <= loose <= epsilon * 1.35  # Rényi's conversion is an upper bound


def test_one_round_is_the_analytic_gaussian_mechanism_and_noise_grows_with_the_root():
    assert noise_multiplier(1.0, DELTA, 1) == gaussian_sigma(1.0, 1.0, DELTA)
    assert noise_multiplier(1.0, DELTA, 49) == pytest.approx(7 * noise_multiplier(1.0, DELTA, 1))
    assert noise_multiplier(math.inf, DELTA, 9) == 0


def rounds_paid(ledger, multiplier, most):
    """How many rounds of `most` a ledger pays for before it refuses."""
    from dp_accounting import get_epsilon_gaussian

    one = get_epsilon_gaussian(multiplier, DELTA)
    for t in range(most):
        try:
            ledger.charge("gaussian", {"t": t}, one, DELTA, data="rows", multiplier=multiplier)
        except Overspent:
            return t
    return most


def test_a_ledger_pays_for_so_many_rounds_and_refuses_more(tmp_path):
    """Charged round by round at the multiplier; the accountant rdp claims up to 15 % too much."""
    epsilon, rounds = 2.0, 20
    multiplier = noise_multiplier(epsilon, DELTA, rounds)
    budget = {"node": "a", "epsilon": 1.15 * epsilon, "delta": DELTA, "accountant": "rdp"}
    with Ledger.open(tmp_path / "node", **budget) as ledger:
        assert rounds_paid(ledger, multiplier, rounds) == rounds
        spent = ledger.total()
        assert epsilon * 0.999 <= spent.epsilon <= 1.15 * epsilon
        assert spent.delta <= DELTA * (1 + 1e-9)
        assert ledger.spent("basic").epsilon > 2 * epsilon  # what adding up would have cost
        more = rounds_paid(ledger, multiplier, rounds)
        assert more < rounds / 4
        assert len(ledger.table()) == rounds + more
        assert ledger.total().epsilon <= 1.15 * epsilon
        with pytest.raises(BadSetting, match="costs epsilon"):  # a round cannot be had for less
            ledger.charge("gaussian", {}, 1e-3, DELTA, data="rows", multiplier=multiplier)


def test_a_ledger_of_the_very_budget_never_pays_for_more_than_the_rounds(tmp_path):
    """The accountant rdp is an upper bound: it stops a little early, and never late."""
    epsilon, rounds = 2.0, 20
    multiplier = noise_multiplier(epsilon, DELTA, rounds)
    budget = {"node": "a", "epsilon": epsilon, "delta": DELTA, "accountant": "rdp"}
    with Ledger.open(tmp_path / "node", **budget) as ledger:
        assert 0.75 * rounds <= rounds_paid(ledger, multiplier, 2 * rounds) <= rounds


def test_a_message_tells_nothing_but_noised_statistics():
    """How many rows a node has is changed by one row more or less, and is never noised."""
    method = private_crc(MODEL, ROUNDS, Budget(1.0), m0=M0)
    notes = []
    for m in (9, 10):
        shard = Shard(jnp.asarray(X[:m]), jnp.asarray(Y[:m]), jnp.ones(m))
        state = method.init(jax.random.key(0), shard)
        notes.append(jax.tree.map(float, method.message(jax.random.key(0), state).note))
    assert notes[0] == notes[1]


# --- runtimes


@pytest.mark.some("2.0")
@pytest.mark.bits
@pytest.mark.parametrize("epsilon", [2.0, math.inf])
def test_simulate_equals_walk(epsilon):
    method = private_crc(MODEL, ROUNDS, Budget(epsilon), clip=2.0, m0=M0)
    ours = simulate(method, SHARDS, TREE, 3, exact=True)
    oracle = walk(method, SHARDS, TREE, 3)
    for a, b in zip(jax.tree.leaves(ours.state), jax.tree.leaves(oracle.state), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_the_same_arguments_give_the_same_method():
    options = {"budget": Budget(2.0), "rounds": 4, "m0": M0}
    assert private_crc(MODEL, **options).adapt is private_crc(MODEL, **options).adapt


# --- what makes no sense


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"clip": 0.0}, "clip must be"),
        ({"clip": -1.0}, "clip must be"),
        ({"clip": math.nan}, "clip must be"),
        ({"clip": math.inf}, "clip must be"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"rounds": 0}, "rounds must be"),
        ({"rounds": -3}, "rounds must be"),
        ({"delta": 0.0}, "delta between 0 and 1"),
        ({"delta": 1.0}, "delta between 0 and 1"),
        ({"delta": -1e-5}, "delta between 0 and 1"),
        ({"m0": None}, "give them, or m0"),
        ({"m0": -1.0}, "m0 must be"),
        ({"iterations": 3}, "iterations"),
    ],
)
def test_what_makes_no_sense_is_refused(options, says):
    """More iterations a round would be more releases a round: they must not be dropped silently."""
    given = {"rounds": 4, "m0": M0, **options}
    budget = Budget(given.pop("epsilon", 1.0), given.pop("delta", DELTA))
    with pytest.raises(BadSetting, match=says):
        private_crc(MODEL, budget=budget, **given)
