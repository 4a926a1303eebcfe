"""Gradient tracking of calibration: RC at one node, and where RC stands on any connected graph."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise import topology as topologies
from peerwise.core import Shard
from peerwise.errors import BadSetting
from peerwise.learner import cell, run
from peerwise.methods import crc, gradient_tracking, rc
from peerwise.models import naive_bayes
from peerwise.shards import pack, pooled
from peerwise.simulate import simulate
from peerwise.update.calibrate import correction
from peerwise.walk import walk

CLASSES, NODES, EACH, LR = 3, 5, 12, 0.05
MODEL = naive_bayes((0, 3), CLASSES)
run64 = partial(simulate, precision="float64")
M = NODES * EACH
rng = np.random.default_rng(1)
Y = np.arange(M) * CLASSES // M  # sorted: nodes of one class or two
X = np.column_stack([rng.normal(0.8 * Y), (Y + (rng.random(M) < 0.5)) % 3])
X[:, 0] = (X[:, 0] - X[:, 0].mean()) / X[:, 0].std()
SKEWED = pack(X, Y, np.split(np.arange(M), NODES))
POOLED = pooled(X, Y, [np.arange(M)])
CHAIN = topologies.metropolis(topologies.chain(NODES))
METHOD = gradient_tracking(MODEL, lr=LR, rows=M, nodes=NODES)


@pytest.mark.parametrize("rounds", [1, 6])
def test_one_node_alone_is_rc(rounds):
    alone = topologies.metropolis(topologies.alone(1))
    mine = gradient_tracking(MODEL, lr=LR, rows=M, nodes=1)
    got = run64(mine, POOLED, alone, rounds).state.value["statistics"]
    theirs = run64(rc(MODEL, lr=LR), POOLED, topologies.alone(1), rounds).state.value
    np.testing.assert_allclose(got, theirs, rtol=1e-10, atol=1e-10)


def off(values):
    """The largest sum of all rows' steps at any node's model: 0 where RC stands."""
    with jax.enable_x64(True):
        step, held = jax.jit(correction(MODEL)), Shard(*map(jnp.asarray, POOLED.of(0)))
        return max(float(jnp.abs(step(jnp.asarray(s), held)[0]).max()) for s in values)


def test_skewed_nodes_come_to_where_rc_stands_and_crc_does_not():
    ours = off(np.asarray(run64(METHOD, SKEWED, CHAIN, 3000).state.value["statistics"]))
    theirs = off(np.asarray(run64(crc(MODEL, m0=EACH / LR), SKEWED, CHAIN, 3000).state.value))
    print(f"off RC: gradient tracking {ours:.1e}, crc {theirs:.1e}")
    assert ours < 1e-3 * theirs


def test_the_mean_of_what_is_tracked_is_the_mean_step():
    """Whatever was averaged: no step is lost or counted twice."""
    state = run64(METHOD, SKEWED, CHAIN, 20).state
    tracked = np.asarray(state.value["mean_step"]).mean(0)
    np.testing.assert_allclose(tracked, np.asarray(state.memory["step"]).mean(0), atol=1e-12)


@pytest.mark.full  # `make test`: learner/test_every_name.py
@pytest.mark.bits
def test_walk_and_simulate_agree():
    one, other = (go(METHOD, SKEWED, CHAIN, 5) for go in (walk, partial(simulate, exact=True)))
    for a, b in zip(jax.tree.leaves(one.state), jax.tree.leaves(other.state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_setting_gives_it_the_links_it_needs():
    split = {"nodes": 4, "rows": 20, "test_rows": 100}
    described = {"data": "digits", "method": "gradient_tracking", "split": split}
    one = cell({**described, "run": {"rounds": 2, "repetitions": 1}})
    assert run(one).values["test_error"].shape == (1, 1, 4)


@pytest.mark.parametrize("given", [{"lr": 0}, {"rows": 0}, {"nodes": -1}])
def test_impossible_settings_are_refused(given):
    with pytest.raises(BadSetting, match=next(iter(given))):
        gradient_tracking(MODEL, **{"lr": 0.1, "rows": 10, "nodes": 2, **given})
