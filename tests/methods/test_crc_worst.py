"""CRC that combines only the statistics of the largest soft errors, as CVaR-CVaR selects."""

import jax
import numpy as np
import pytest

from helpers import assert_equal_runs
from peerwise import combine
from peerwise import topology as topologies
from peerwise.channel import erasure
from peerwise.core import Shard, State
from peerwise.errors import BadSetting, UnknownName
from peerwise.learner import assemble, cell, drawn, run
from peerwise.methods import crc, private_crc
from peerwise.models import naive_bayes
from peerwise.privacy.budget import Budget
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.update import soft_error
from peerwise.walk import walk

NODES, EACH, CLASSES = 6, 10, 3
MODEL = naive_bayes((0, 3), CLASSES)


def rows(seed=0):
    """Sorted by class: nodes of one class each."""
    rng = np.random.default_rng(seed)
    y = np.arange(NODES * EACH) * CLASSES // (NODES * EACH)
    return np.column_stack([rng.normal(y - 1.0), (y + rng.integers(2, size=y.size)) % 3]), y


X, Y = rows()
PARTS = np.split(np.arange(len(Y)), NODES)
SHARDS = pack(X, Y, PARTS)
RING = topologies.ring(NODES)
EQUAL = crc(MODEL, m0=100.0, include_self=True)


def worst(**options):
    return crc(MODEL, m0=100.0, rule="worst", **options)


def look(method, state):
    return {"value": state.value, "memory": state.memory}


def ran(method, q=1.0):
    """What nodes had in the first rounds [t, n, ...], after they combined and after they adapted.

    In double precision; all runs are alike, so that those of one method are one program.
    """
    told = {"precision": "float64", "probe": look, "stages": ("combine", "adapt")}
    by_sender = erasure(np.full(NODES, q), by="sender")
    run = simulate(method, SHARDS, RING, 6, at=range(1, 7), channel=by_sender, **told)
    return jax.tree.map(np.asarray, run.history)


def soft_errors(values):
    """Of every node's statistics [n, c, q] on its own rows."""
    with jax.enable_x64(True):
        shards = Shard(X.reshape(NODES, EACH, -1), Y.reshape(NODES, EACH), np.ones((NODES, EACH)))
        return np.asarray(jax.vmap(lambda v, shard: soft_error(MODEL, v, shard))(values, shards))


@pytest.mark.full
@pytest.mark.bits
@pytest.mark.parametrize("q", [1.0, 0.4])
def test_with_alpha_one_it_is_the_mean_with_oneself(q):
    ours, theirs = (ran(m, q)["adapt"] for m in (worst(alpha=1.0), EQUAL))
    np.testing.assert_array_equal(ours["value"], theirs["value"])


def test_the_rule_is_that_of_combine():
    assert worst().combine is combine.worst(alpha=0.3)
    assert worst(alpha=0.1).combine is combine.worst(alpha=0.1)


def test_a_node_tells_the_soft_error_of_its_own_model_on_its_own_rows():
    method = worst(alpha=0.5)
    learnt = ran(method)["adapt"]
    for value, loss in zip(learnt["value"], learnt["memory"]["loss"], strict=True):
        np.testing.assert_allclose(loss, soft_errors(value), rtol=1e-12)
    state = State(*(jax.tree.map(lambda a: a[-1, 2], learnt[part]) for part in State._fields))
    said = method.message(jax.random.key(0), state)
    np.testing.assert_array_equal(said.value, learnt["value"][-1, 2])
    assert said.note == {"size": EACH, "loss": learnt["memory"]["loss"][-1, 2]}


def test_the_largest_soft_errors_are_combined():
    """Of oneself and two neighbours, ceil(.5 x 3) = 2 count, each the same."""
    found = ran(worst(alpha=0.5))
    before, heard = found["adapt"]["value"][:-1], found["combine"]["value"][1:]
    chosen = set()
    for said, got in zip(before, heard, strict=True):
        soft = soft_errors(said)
        for v in range(NODES):
            near = sorted([v - 1, v, (v + 1) % NODES], key=lambda u, soft=soft: -soft[u])[:2]
            np.testing.assert_allclose(got[v], said[near].mean(0), rtol=1e-12, atol=1e-12)
            chosen.add(v in near)
    assert chosen == {True, False}  # a node's own model may be left out


def test_only_this_rule_sends_more():
    graph = topologies.metropolis(RING)
    numbers = CLASSES * (1 + 2 + 3) + 1  # of a class: rows, x, x^2, categories; and the size
    for weigh in ("equal", "data_size", "metropolis"):
        plain = crc(MODEL, m0=100.0, rule=weigh)
        assert walk(plain, SHARDS, graph, 0).message_bytes == 4 * numbers
    assert walk(worst(), SHARDS, graph, 0).message_bytes == 4 * (numbers + 1)
    assert set(ran(EQUAL)["adapt"]["memory"]) == {"size", "guards"}  # and computes nothing more


@pytest.mark.full  # `make test`: learner/test_every_name.py
@pytest.mark.bits
@pytest.mark.parametrize("q", [1.0, 0.4])
def test_simulate_equals_walk(q):
    told = {"rounds": 6, "seed": 3, "channel": erasure(q)}
    oracle = walk(worst(alpha=0.4), SHARDS, RING, **told)
    assert_equal_runs(simulate(worst(alpha=0.4), SHARDS, RING, exact=True, **told), oracle)


@pytest.mark.parametrize("alpha", [0, -1, 1.2, float("nan")])
def test_what_is_no_share_is_refused(alpha):
    with pytest.raises(BadSetting, match="alpha must be greater than 0 and at most 1, got"):
        worst(alpha=alpha)


def test_private_crc_tells_no_losses():
    with pytest.raises(BadSetting, match=r"needs the loss .* which private_crc does not tell"):
        private_crc(MODEL, 4, Budget(1.0), m0=100.0, rule="worst")


# --- in descriptions


def described(**method):
    split = {"nodes": 4, "rows": 20, "test_rows": 50}
    shape = {"data": "wine", "split": split, "run": {"rounds": 4, "repetitions": 2}}
    return cell({**shape, "method": {"name": "crc", **method}})


def test_a_description_selects_the_worst_with_its_share():
    cells = described(rule="worst", alpha=0.1), described(rule="worst")
    rules = [assemble(c, drawn(c, 0)).method.combine for c in cells]
    assert rules[0] is combine.worst(alpha=0.1)
    assert rules[1] is combine.worst(alpha=0.3)
    assert len({c.key for c in (*cells, described())}) == 3
    outcome = run(cells[0])
    error = outcome.values["test_error"]
    assert error.shape == (2, 1, 4)
    assert 0 <= error.min() <= error.max() < 0.7


@pytest.mark.parametrize(
    ("method", "says"),
    [
        ({"rule": "worst", "alfa": 0.1}, "did you mean 'alpha'"),
        ({"rule": "equal", "alpha": 0.1}, "alpha is an option of .* not of crc; it has"),
        ({"name": "isolated", "rule": "worst"}, "rule is an option of .* not of isolated"),
        ({"rule": "worst", "alpha": 2.0}, "alpha must be greater than 0 and at most 1, got 2"),
        ({"rule": "wost"}, "did you mean 'worst'"),
    ],
    ids=str,
)
def test_options_that_nothing_takes_are_refused(method, says):
    with pytest.raises((BadSetting, UnknownName), match=says):
        described(**method)


def test_private_crc_of_a_description_refuses_the_rule():
    one = described(name="private_crc", rule="worst", alpha=0.1)
    with pytest.raises(BadSetting, match="which private_crc does not tell"):
        assemble(one, drawn(one, 0))
