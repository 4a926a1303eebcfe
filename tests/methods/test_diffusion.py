"""CTA and its risk-aware variants over links that lose messages."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_equal_runs
from peerwise import combine
from peerwise import topology as topologies
from peerwise.channel import erasure
from peerwise.combine import worst
from peerwise.core import Inbox, Mean, Message, Method, State
from peerwise.errors import BadSetting
from peerwise.methods.diffusion import average_cvar, cta, cvar_cvar
from peerwise.nets import mlp, network_of
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.walk import walk

N = 6
NET = network_of(mlp(4, 3, (6,)), 4, 3)
SMALL = {"lr": 0.1, "batch": 4, "steps": 3}


def rows(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=8 * N)
    x = (rng.normal(size=(8 * N, 4)) + y[:, None]).astype(np.float32)
    return x, y, np.split(np.arange(8 * N), N)


SHARDS = pack(*rows())
RING = topologies.ring(N)
METHODS = {
    "cta": cta(NET, **SMALL),
    "average": average_cvar(NET, alpha=0.4, **SMALL),
    "cvar": cvar_cvar(NET, alpha=0.4, **SMALL),
    "cvar, hard, adapt first": cvar_cvar(
        NET, alpha=0.4, smooth=False, gamma=0.2, order="atc", lr_t=0.05, **SMALL
    ),
}


def weights(run):
    value = run.state.value
    return jax.tree.leaves(value["net"] if isinstance(value, dict) else value)


# --- which models are combined


def chosen(losses, own, alpha, quantile, heard=None):
    heard = np.ones(len(losses)) if heard is None else np.asarray(heard, float)
    note = {"loss": jnp.asarray(losses, jnp.float32)}
    inbox = Inbox(None, note, jnp.asarray(heard, jnp.float32), jnp.zeros(len(losses), jnp.int32))
    mine, theirs = worst(alpha, quantile).weigh({"loss": jnp.float32(own)}, inbox)
    return [*np.asarray(theirs).tolist(), float(mine)]


def test_the_worst_by_hand():
    assert chosen([1, 3, 2], 0, 0.3, "count") == [0, 1, 1, 0]  # ceil(.3 x 4) = 2
    assert chosen([1, 3, 2], 0, 0.25, "count") == [0, 1, 0, 0]
    assert chosen([1, 3, 2], 9, 0.25, "count") == [0, 0, 0, 1]
    assert chosen([1, 3, 2], 0, 1.0, "count") == [1, 1, 1, 1]
    assert chosen([1, 3, 2], 0, 0.25, "count", heard=[1, 0, 1]) == [0, 0, 1, 0]
    assert chosen([2, 2, 1], 0, 0.25, "count") == [1, 1, 0, 0]  # equal losses stay together


def losing(losses, rule):
    """Every node's value and loss are one number; they combine once and learn nothing."""
    data = pack(
        np.array(losses, np.float32)[:, None],
        np.zeros(len(losses), int),
        [[i] for i in range(len(losses))],
    )
    method = Method(
        lambda key, shard: State(shard.x[0, 0], shard.x[0, 0]),
        lambda key, state: Message(
            state.value, {"loss": state.memory, "size": state.memory * 0 + 1}
        ),
        rule,
        lambda key, state, shard: state,
        lambda key, value, x: jnp.zeros((len(x), 2)) + value,
    )
    return method, data


SERVER = {"plain": simulate, "exact": partial(simulate, exact=True), "walk": walk}


@pytest.mark.long(
    "lower-plain", "lower-exact", "lower-walk", "higher-plain", "higher-exact", "higher-walk"
)
@pytest.mark.parametrize("runtime", SERVER)
@pytest.mark.parametrize("quantile", ["count", "lower", "higher"])
def test_a_server_counts_every_loss_once(runtime, quantile):
    """Of ten losses the worst three are 7, 8 and 9, whichever node is the first."""
    for losses in (range(10), range(9, -1, -1)):
        method, data = losing(losses, worst(0.3, quantile))
        got = SERVER[runtime](method, data, topologies.server(10), 1).state.value
        limit = {"count": 7, "lower": 6, "higher": 7}[quantile]
        np.testing.assert_allclose(got, np.mean(range(limit, 10)), rtol=1e-6)


@pytest.mark.parametrize("runtime", SERVER)
def test_a_rule_with_a_share_for_the_node_itself_is_refused_on_a_server(runtime):
    for rule in (combine.cfa(0.5), combine.barycenter(weigh=combine.cfa(0.5))):
        method, data = losing(range(4), rule)
        with pytest.raises(BadSetting, match=r'share of its own.*topology = "complete"'):
            SERVER[runtime](method, data, topologies.server(4), 1)


def test_what_a_rule_reads_of_the_node_itself_does_not_count_on_a_server():
    """A server knows no node by itself: all hear one answer, and nothing depends on the first."""

    def weigh(note, inbox):
        return note["size"], inbox.weight * (inbox.note["loss"] >= note["loss"])

    results = [
        np.asarray(run(*losing(range(4), Mean(weigh)), topologies.server(4), 1).state.value)
        for run in SERVER.values()
    ]
    np.testing.assert_allclose(results, np.full((3, 4), results[0][0]), rtol=1e-6)


def test_a_tenth_of_thirty_is_three():
    losses = np.arange(9)
    assert sum(chosen(losses, 9, 0.3, "count")) == 3


@given(seed=st.integers(0, 2**16), alpha=st.integers(50, 1000).map(lambda a: a / 1000))
def test_interpolations_are_those_of_numpy(seed, alpha):
    losses = np.random.default_rng(seed).normal(size=6).astype(np.float32)
    for name in ("lower", "linear", "higher"):
        limit = np.quantile(losses, np.float32(1 - alpha), method=name)
        near = np.abs(losses - limit) < 1e-4  # rounding may decide either way
        found = np.array(chosen(losses[:-1], losses[-1], alpha, name)) > 0
        np.testing.assert_array_equal((found | near), (losses >= limit) | near)
        assert found.any()
        assert found[np.argmax(losses)]


@pytest.mark.some("float32")
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("quantile", ["lower", "linear", "higher"])
def test_a_quantile_that_is_one_of_the_losses_is_that_loss(quantile, precision):
    wrong, losses = [], np.arange(31)  # unheard ones are there: one shape, and no more programs
    for many in range(2, 32):
        for tenths in range(1, 11):
            place, rest = divmod((many - 1) * (10 - tenths), 10)
            if rest == 0:  # .9 of 11 losses: all but the least
                with jax.enable_x64(precision == "float64"):
                    heard = losses < many - 1
                    found = chosen(losses, many - 1, tenths / 10, quantile, heard)
                if sum(found) != many - place:
                    wrong.append((many, tenths / 10))
    assert not wrong


@pytest.mark.parametrize("alpha", [0, 1.2])
def test_what_is_no_share_or_quantile_is_refused(alpha):
    with pytest.raises(BadSetting, match="alpha"):
        worst(alpha)
    with pytest.raises(BadSetting, match="alpha"):
        cvar_cvar(NET, alpha=alpha)
    with pytest.raises(BadSetting, match="did you mean 'linear'"):
        worst(0.3, "linea")
    with pytest.raises(BadSetting, match="order must be 'cta' or 'atc', got 'act'"):
        cta(NET, order="act")


# --- the methods


@pytest.mark.full
@pytest.mark.bits
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("q", [1.0, 0.4])
def test_simulate_equals_walk(name, q):
    told = {"rounds": 20, "seed": 3, "channel": erasure(q)}
    oracle = walk(METHODS[name], SHARDS, RING, **told)
    exact = simulate(METHODS[name], SHARDS, RING, exact=True, **told)
    for a, b in zip(jax.tree.leaves(oracle.state), jax.tree.leaves(exact.state), strict=True):
        np.testing.assert_array_equal(a, b)
    if "cvar" not in name:  # near-ties of losses may flip where nodes run side by side
        assert_equal_runs(simulate(METHODS[name], SHARDS, RING, **told), oracle, 1e-4)


@pytest.mark.full
def test_with_alpha_one_all_are_cta():
    plain = simulate(METHODS["cta"], SHARDS, RING, 5, channel=erasure(0.5))
    for make in (average_cvar, cvar_cvar):
        same = simulate(make(NET, alpha=1.0, **SMALL), SHARDS, RING, 5, channel=erasure(0.5))
        for a, b in zip(weights(plain), weights(same), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)


def test_a_round_by_hand():
    """Two nodes, one full batch: the mean of weights and thresholds, then equation 7."""
    x, y, _ = rows()
    shards = pack(x[:8], y[:8], [np.arange(4), np.arange(4, 8)])
    alpha, lr = 0.4, 0.1
    method = average_cvar(NET, alpha=alpha, lr=lr, lr_t=0.05, epochs=1, steps=None, batch=4)
    first = simulate(method, shards, topologies.chain(2), 1)
    second = simulate(method, shards, topologies.chain(2), 2)
    mean = jax.tree.map(lambda a: a.mean(0), first.state.value)
    for i in range(2):
        at = slice(4 * i, 4 * i + 4)

        def loss(w, at=at):
            log_prob = jax.nn.log_softmax(NET.logits(w, jnp.asarray(x[at])))
            return -log_prob[jnp.arange(4), jnp.asarray(y[at])].mean()

        f, slope = jax.value_and_grad(loss)(mean["net"])
        pull = jax.nn.sigmoid(f - mean["t"]) / alpha
        expected = jax.tree.map(lambda w, g, p=pull: w - lr * p * g, mean["net"], slope)
        found = jax.tree.map(lambda a, i=i: a[i], second.state.value)
        for a, b in zip(jax.tree.leaves(found["net"]), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)
        np.testing.assert_allclose(found["t"], mean["t"] - 0.05 * (1 - pull), atol=1e-6)


@pytest.mark.full  # `make test`: test_hears_nobody.py
@pytest.mark.bits
def test_a_node_that_hears_nobody_learns_alone_and_does_no_harm():
    """Nothing arrives, for ever: every node is a lone learner, to the bit of its own rows."""
    for name in ("cta", "average", "cvar"):
        lost = simulate(METHODS[name], SHARDS, RING, 6, channel=erasure(0.0), exact=True)
        lone = simulate(METHODS[name], SHARDS, topologies.alone(N), 6, exact=True)
        for a, b in zip(weights(lost), weights(lone), strict=True):
            np.testing.assert_array_equal(a, b)
            assert np.isfinite(a).all()


def test_lost_messages_leave_no_hole():
    """Without renormalising, weights shrink with every lost message; ours keep their size.

    The learning rate is next to nothing, so that only the combination acts.
    """
    method = cta(NET, lr=1e-12, batch=4, steps=1)
    run = simulate(method, SHARDS, RING, 40, channel=erasure(0.3))
    start = simulate(method, SHARDS, RING, 0)
    for a, b in zip(weights(run), weights(start), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)

    rng, wrong = np.random.default_rng(0), np.ones(N)
    for _ in range(40):  # a third for oneself and each neighbour, whether or not it is heard
        heard = rng.random((N, 2)) < 0.3
        sides = np.stack([np.roll(wrong, 1), np.roll(wrong, -1)], 1)
        wrong = (wrong + (heard * sides).sum(1)) / 3
    assert wrong.max() < 1e-3


@pytest.mark.full
def test_adapt_first_is_combine_first_half_a_round_later():
    """ATC after its combination is what CTA has before it adapts, but for the first training."""
    look = lambda method, state: state.value  # noqa: E731
    told = {"probe": look, "stages": ("combine", "adapt"), "at": [1]}
    after = simulate(cta(NET, order="atc", **SMALL), SHARDS, RING, 1, **told)
    begun = simulate(cta(NET, order="atc", **SMALL), SHARDS, RING, 0)
    src = np.arange(N)
    for a, b in zip(
        jax.tree.leaves(after.history["combine"]), jax.tree.leaves(begun.state.value), strict=True
    ):
        mean = (b + b[(src - 1) % N] + b[(src + 1) % N]) / 3
        np.testing.assert_allclose(a[0], mean, atol=1e-6)
