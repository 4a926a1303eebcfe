"""Training that breaks down: named by round, node and stage, and kept from the other nodes."""

from dataclasses import replace
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise import runtime
from peerwise import topology as topologies
from peerwise.errors import Diverged, PeerwiseError
from peerwise.methods.neural import decavg, isolated_net
from peerwise.nets import network_of
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.update.losses import cross_entropy
from peerwise.walk import walk

N, ROWS = 4, 12
RING = topologies.ring(N)
WHERE = {"simulate": simulate, "exact": partial(simulate, exact=True), "walk": walk}


def linear(key):
    return eqx.nn.Linear(2, 3, key=key)


NET = network_of(linear, 2, 3)


def bounded(logits, y):
    """Cross-entropy, infinite where logits are huge."""
    return jnp.where(jnp.abs(logits).max(1) > 1e10, jnp.inf, cross_entropy()(logits, y))


@cache
def breaking():
    """A method whose training breaks by a node's number of rows, so that all data share a program.

    11 rows: the loss is NaN in round 2. 10 rows: it is infinite in round 3, and the weights, huge
    but finite, go to the neighbours. 9 rows: it is NaN before the first round.
    """
    method = decavg(NET, loss=bounded, batch=4, lr=0.1)

    def broken(begin):
        def wrapped(*args):
            now = begin(*args)
            size, trained = now.kept["size"], now.kept["trained"]
            lost = ((size == 11) & (trained == 2)) | ((size == 9) & (trained == 0))
            huge = (size == 10) & (trained == 3)

            def worse(w):
                return jnp.where(lost, jnp.nan, jnp.where(huge, 1e20, w))

            return now._replace(weights=jax.tree.map(worse, now.weights))

        return wrapped

    adapt, init = (replace(f, begin=broken(f.begin)) for f in (method.adapt, method.init))
    return method._replace(adapt=adapt, init=init)


def table(sizes, seed=0):
    rng = np.random.default_rng(seed)
    m = sum(sizes)
    y = rng.integers(3, size=m)
    x = (rng.normal(size=(m, 2)) + y[:, None]).astype(np.float32)
    return x, y, np.split(np.arange(m), np.cumsum(sizes)[:-1])


def shards(*sizes):
    packed = pack(*table(sizes))
    assert packed.groups[0].shard.x.shape == (N, ROWS, 2)
    return packed


def told(run, data, **options):
    with pytest.raises(Diverged) as error:
        run(breaking(), data, RING, 5, **options)
    assert isinstance(error.value, PeerwiseError)
    return str(error.value)


# --- named


@pytest.mark.long("exact")
@pytest.mark.parametrize("where", WHERE)
def test_a_broken_training_is_named_by_round_node_and_stage(where):
    run = WHERE[where]
    says = told(run, shards(12, 11, 12, 12))
    assert "the loss of node 1 became infinite or NaN in round 2, while adapting" in says
    assert "1 of 4 nodes broke down" in says
    assert "smaller lr" in says
    says = told(run, shards(12, 12, 12, 10))
    assert "the loss of node 3 became infinite or NaN in round 3, while adapting" in says
    says = told(run, shards(12, 12, 9, 12))
    assert "the loss of node 2 became infinite or NaN in the training before round 1 (init)" in says


@pytest.mark.parametrize("where", WHERE)
def test_of_several_the_first_is_named(where):
    says = told(WHERE[where], shards(12, 10, 11, 12))
    assert "node 2 became infinite or NaN in round 2" in says
    says = told(WHERE[where], shards(11, 12, 9, 12))
    assert "node 2 became infinite or NaN in the training before round 1" in says


@pytest.mark.parametrize("where", WHERE)
def test_sound_training_is_let_be(where):
    run = WHERE[where](breaking(), shards(12, 12, 12, 12), RING, 5)
    assert (np.asarray(run.state.memory["broke"]) == -1).all()


@pytest.mark.full
def test_in_a_replica_its_number_is_named():
    fine = shards(12, 12, 12, 12)
    says = told(simulate, [fine, shards(12, 12, 12, 11), fine])
    assert "the loss of node 3 of replica 1 became infinite or NaN in round 2" in says
    assert "1 of 12 nodes broke down" in says
    says = told(simulate, [shards(11, 12, 12, 12), fine, shards(12, 9, 12, 12)])
    assert "node 1 of replica 2 became infinite or NaN in the training before round 1" in says


def test_a_broken_chunk_is_neither_told_nor_saved(tmp_path):
    """What can be resumed is sound; resumed, it breaks where it broke."""
    seen = []
    file = tmp_path / "run"
    options = {"checkpoint": file, "progress": seen.append, "chunk": 1}
    assert "node 0 became infinite or NaN in round 2" in told(
        simulate, shards(11, 12, 12, 12), **options
    )
    assert seen == [1]
    assert file.exists()
    assert "round 2" in told(simulate, shards(11, 12, 12, 12), **options)
    assert seen == [1]


# --- the others


@pytest.fixture
def let_be(monkeypatch):
    """Runs go on with what is broken."""
    monkeypatch.setattr(runtime, "check_losses", lambda state: None)


def flat(value):
    return np.concatenate([np.asarray(a).reshape(N, -1) for a in jax.tree.leaves(value)], 1)


@pytest.mark.parametrize("where", WHERE)
def test_a_broken_node_is_not_heard(where, let_be):
    """Nodes 0 and 2 hear only node 3 from then on, and no loss of theirs is broken."""
    run = WHERE[where](breaking(), shards(12, 11, 12, 12), RING, 5)
    broken = ~np.isfinite(flat(run.state.value)).all(1)
    assert broken.tolist() == [False, True, False, False]
    assert np.asarray(run.state.memory["broke"]).tolist() == [-1, 2, -1, -1]
    assert np.isfinite(np.asarray(run.state.memory["loss"])[[0, 2, 3]]).all()


def test_simulated_and_walked_nodes_break_alike(let_be):
    runs = [f(breaking(), shards(12, 11, 12, 12), RING, 5).state for f in WHERE.values()]
    for other in runs[1:]:
        np.testing.assert_allclose(flat(runs[0].value), flat(other.value), rtol=0, atol=1e-5)
        for name in ("broke", "steps", "trained"):
            np.testing.assert_array_equal(runs[0].memory[name], other.memory[name])


ALONE = isolated_net(NET, batch=8, lr=0.1)
UNEVEN = (12, 10, 9, 12)  # nodes 1 and 2 are padded, and their last batch is not full


@cache
def sound(where):
    return flat(WHERE[where](ALONE, pack(*table(UNEVEN)), RING, 3).state.value)


@pytest.mark.parametrize(
    "where", ["simulate", "walk", pytest.param("exact", marks=pytest.mark.full)]
)
@pytest.mark.parametrize("node", range(N))
@pytest.mark.parametrize("bad", [1e30, np.inf, np.nan])
def test_rows_of_one_node_break_no_other(bad, node, where, let_be):
    """Every node trains alone: whatever one of them holds, padding too, the others are the same."""
    x, y, owned = table(UNEVEN)
    x[owned[node]] = bad
    got = flat(WHERE[where](ALONE, pack(x, y, owned), RING, 3).state.value)
    others = np.arange(N) != node
    np.testing.assert_array_equal(got[others], sound(where)[others])
    if not np.isfinite(bad):
        assert not np.isfinite(got[node]).all()
